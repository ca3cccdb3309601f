#!/bin/bash
# linux_http.sh BUILD - a host of graphs/web.dot on a tap, and browsers of Linux: curl, sockets of Python, and Chromium if it is
# installed. What the host shows is right and escaped; requests that are malformed in their own ways are refused by name, and delay
# nobody; a thousand idle connections cost no processor time.
. "$(dirname "$0")/common.sh"

here=$root/tests/system/linux
xk=$build/xk
address=10.77.0.2

unshown="Linux's browsers understand our HTTP"
. "$root/tests/system/networks.sh"
command -v curl >/dev/null || skip "no curl"
[ -e /dev/net/tun ] || skip "no /dev/net/tun"

namespace web

# stand GRAPH [SETTING]...: starts the host, whose messages go to $work/host.err, and gives Linux its address.
stand() {
	local graph=$1
	shift
	set -- "$graph" "${@/#/--set=}"
	spawn host nsenter -t "$web" -n "$xk" run "$graph" --link tap --driver interrupt --set port.dev=web0 --json "$work/host.json" "${@:2}"
	host=$pid
	within 30 printed host.err "$address" || fail stand "our host is not up: $(tail -n 3 "$work/host.err")"
	at "$web" ip addr add 10.77.0.1/24 dev web0
}

fall() {
	kill -TERM "$host" 2>/dev/null
	await_end "$host" 30
	[ "$status" -eq 0 ] || fail fall "status $status: $(tail -n 3 "$work/host.err")"
}

# fetch NAME STATUS OPTION...: fetches with curl; the body goes to $work/body, the heads to $work/heads.
fetch() {
	local name=$1 wanted=$2 code
	shift 2
	code=$(at "$web" curl --silent --show-error --max-time 100 --noproxy '*' --dump-header "$work/heads" --output "$work/body" \
		--write-out '%{http_code}' "$@" 2>"$work/curl")
	check "$name" "status $code: $(cat "$work/curl")" [ "$code" = "$wanted" ]
}

has() {
	check "$1" "$(head -c 300 "$3")" grep -qF -- "$2" "$3"
}

lacks() {
	check "$1" "$(grep -F -m 1 -- "$2" "$3")" sh -c '! grep -qF -- "$1" "$2"' - "$2" "$3"
}

mkdir -p "$work/folder" "$work/secret"
echo secret >"$work/secret/file"
ln -s "$work/secret" "$work/folder/link"
yes 0123456789 | head -n 200000 | tr -d '\n' >"$work/folder/large"

stand graphs/web.dot "http.folder=$work/folder" http.request_time=3s http.response_time=1s http.idle_time=1000s tcp.send=32k
fetch "the page" 200 "http://$address/"
has "... is HTML" '<svg' "$work/body"
has "... with a policy" "Content-Security-Policy: default-src 'none'; connect-src 'self'" "$work/heads"
fetch "the counts" 200 "http://$address/stats.json"
document "... are JSON" "$work/body" "[p['name'] for p in d['protocols']].count('http') == 1 and d['graph'] == 'graphs/web.dot'"
expect "metrics" 0 '' nsenter -t "$web" -n "$here/browser.py" "$address" metrics
fetch "only a head" 200 --head "http://$address/"
fetch "one connection for two" 200 "http://$address/" --next --silent --output "$work/second" --write-out '' "http://$address/stats.json"
fetch "another's name" 421 --header 'Host: evil.example' "http://$address/"
fetch "localhost" 200 --header 'Host: localhost:8080' "http://$address/"
fetch "a file" 200 "http://$address/large"
check "... is whole" "$(wc -c <"$work/body")" cmp -s "$work/body" "$work/folder/large"
fetch "the folder above" 400 --path-as-is "http://$address/../secret/file"
fetch "a link out of it" 404 "http://$address/link/file"
fetch "a method" 405 --request DELETE "http://$address/"
expect "pipelined requests" 0 '' nsenter -t "$web" -n "$here/browser.py" "$address" pipelined
expect "malformed requests" 0 '' nsenter -t "$web" -n "$here/browser.py" "$address" malformed
expect "unread responses" 0 '' nsenter -t "$web" -n "$here/browser.py" "$address" unread
expect "responses without buffers" 0 '' nsenter -t "$web" -n "$here/browser.py" "$address" hungry
expect "idle connections" 0 '' nsenter -t "$web" -n "$here/browser.py" "$address" idle "$host"
if command -v chromium >/dev/null; then
	XDG_RUNTIME_DIR=$work at "$web" timeout 100 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$work/chromium" --virtual-time-budget=5000 \
		--dump-dom "http://$address/" >"$work/page" 2>"$work/chromium.log"
	has "Chromium runs the script" '>http.requests<' "$work/page"
	has "... which draws counts" '/s  ▼ ' "$work/page"
fi
fall
document "the host's counts" "$work/host.json" \
	"d['host']['counters']['http.accepted'] > 1000 and d['host']['counters']['http.foreign_host'] == 2"

# Hostile text: a file's name and a setting, which are in the picture.
cp graphs/web.dot "$work/<b>\"\\web.dot"
stand "$work/<b>\"\\web.dot" "http.names=<script>alert(1)</script>"
fetch "the page of hostile text" 200 "http://$address/"
lacks "... has no element of theirs" '<script>alert' "$work/body"
lacks "... nor of the file's" '<b>"' "$work/body"
has "... but shows both" '&lt;script&gt;alert' "$work/body"
fetch "its counts" 200 "http://$address/stats.json"
document "... name the file" "$work/body" "d['graph'].endswith('<b>\"\\\\web.dot')"
expect "its metrics" 0 '' nsenter -t "$web" -n "$here/browser.py" "$address" metrics
fall
