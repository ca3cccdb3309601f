#!/bin/bash
# screenshots.sh BUILD - takes the pictures of journeys in docs/img anew, of the runs in docs/journeys.md, with a headless
# Chromium and Pillow (python3-pil).
set -eu
build=$(realpath "$1")
cd -- "$(dirname -- "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome)

# shot NAME FRAGMENT NETWORK OPTION...: docs/img/NAME.png of the run's page, opened at #FRAGMENT.
shot() {
	local name=$1 fragment=$2 network=$3
	shift 3
	"$build/xk" run "$network" --link sim --quiet --journey "$work/$name.html" "$@" >/dev/null 2>&1
	HOME=$work "$chromium" --headless --no-sandbox --disable-gpu --user-data-dir="$work/chromium" --hide-scrollbars \
		--window-size=1280,740 --virtual-time-budget=5000 --screenshot="$work/$name.png" \
		"file://$work/$name.html#$fragment" 2>/dev/null
	# Few colours make a small file.
	/usr/bin/python3 -c 'import sys
from PIL import Image
Image.open(sys.argv[1]).convert("RGB").quantize(64, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(sys.argv[2], optimize=True)' \
		"$work/$name.png" "docs/img/$name.png"
}

pair=graphs/net/pair-ethernet10.dot
calls=graphs/net/pair-calls.dot
shot journey step=30 $pair --set client.udptest.rounds=1
shot journey-arp step=10 $pair --set client.udptest.rounds=1
shot journey-fragments first=retransmission $calls --set cable.loss=10% --set client.chantest.rounds=1 \
	--set client.chantest.size=4000
shot journey-crash first=crash $calls --until 2s --set client.chantest.rounds=3 --set server.crash=700us \
	--set server.boot=100ms
shot journey-handoff first=handoff docs/examples/work-net.dot --set server.graph.budget=100us \
	--set patient.udptest.rounds=2 --set hasty.udptest.rounds=5
