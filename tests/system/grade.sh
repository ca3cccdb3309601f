#!/bin/bash
# grade.sh BUILD - the labs' grader gives the right marks and cannot be cheated or harmed: tests/grade/selftest.py. Uses the
# release build, because a sanitizer takes more memory than a student gets.
. "$(dirname "$0")/common.sh"
fast=$root/build
[ -e "$fast/libxkernel.a" ] || {
	echo "SKIPPED: there is no library in $fast"
	exit
}
# As `./run grade --selftest`, with a few of the planted mistakes; with --long, all.
/usr/bin/python3 "$root/docs/labs/grader/grade.py" "$fast" --selftest >"$work/out" 2>&1 || fail selftest "see below"
cat "$work/out"
! grep -q '^SKIPPED' "$work/out" || exit

# ---- students can search their labs' networks for themselves ------------------------------------------------------------------

if [ -x "$fast/xk" ]; then
	for lab in window boot; do
		cp -r "$root/docs/labs/$lab" "$work/$lab"
		limit=120 expect "$lab: a program with the skeleton" 0 '' "$fast/xk" compile "$work/$lab/$lab.dot" --with "$work/$lab/$lab.c" -o "$work/$lab/xk"
		expect "$lab: a search finds that the skeleton breaks its promise" 1 '' "$work/$lab/xk" explore "$work/$lab/$lab-faults.dot" --quiet
		cp "$root/docs/labs/instructor/answers/$lab.c" "$work/$lab"
		limit=120 expect "$lab: a program with the answer" 0 '' "$fast/xk" compile "$work/$lab/$lab.dot" --with "$work/$lab/$lab.c" -o "$work/$lab/xk"
		choose=loss,double,delay
		[ "$lab" = window ] || choose=$choose,crash
		expect "$lab: a search finds that the answer keeps it" 0 '' "$work/$lab/xk" explore "$work/$lab/$lab-faults.dot" --quiet --faults 2 --choose $choose
	done
fi

# ---- a student's stream to a TCP of this project, in the simulator --------------------------------------------------------------

if [ -x "$fast/xk" ]; then
	cp -r "$root/docs/labs/stream" "$work/stream"
	cp "$root/docs/labs/instructor/answers/stream.c" "$work/stream"
	limit=120 expect "stream: a program with the answer" 0 '' "$fast/xk" compile "$work/stream/stream.dot" --with "$work/stream/stream.c" -o "$work/stream/xk"
	expect "stream: the receiver has all bytes" 0 'tcptest.received +(-|0) +307200' "$work/stream/xk" run "$work/stream/stream-net.dot" --link sim \
		--until 60s --quiet --show stream,tcptest
	expect "stream: TCP takes its place" 0 'tcptest.received +(-|0) +307200' "$work/stream/xk" run "$work/stream/stream-net.dot" --link sim \
		--until 60s --quiet --show tcptest --set sender.protocols=stream-receiver.dot
fi

# ---- each lab's header is shown field by field, with the numbers that a student's header gives it -----------------------------

# shown NAME LAB FOLDER CAPTURE [kinds]: checks that tshark shows each field of each of the lab's frames, by a name that
# filters accept. With `kinds`, the frame's kind must also be a known one, which a skeleton's need not be.
shown() {
	local name=$1 lab=$2 folder=$3 header=$3/own/$2.h field fields frames any=eth
	fields=$(sed -n 's/.*{ \.name = "\([a-z]*\)".*/\1/p' "$header")
	for field in $fields; do
		any="$any || xk_$lab.$field"
	done
	tshark -X "lua_script:$folder/$lab.lua" -r "$4" -Y "eth.type == 0x88b5 && ($any)" -T pdml >"$folder/shown" 2>"$folder/said"
	frames=$(grep -c '^<packet>' "$folder/shown")
	check "$name: there are frames" "$(cat "$folder/said")" [ "$frames" -gt 0 ]
	for field in $fields; do
		check "$name: tshark shows $field" "$(grep -m 1 -A 9 "<proto name=\"xk_" "$folder/shown")" \
			[ "$(grep -c "<field name=\"xk_$lab.$field\" showname=\"$field: " "$folder/shown")" -eq "$frames" ]
	done
	! grep -q "\.values" "$header" || [ -z "${5:-}" ] || check "$name: tshark names kinds" "$(grep 'showname="kind: ' "$folder/shown")" \
		[ "$(grep -cE 'showname="kind: [A-Z]+ [(][0-9]+[)]"' "$folder/shown")" -eq "$frames" ]
}

# fields_shown LAB NUMBER CHECK LAYOUT: the same in the capture of a check and of the lab's network.
fields_shown() {
	local lab=$1 number=$2 layout=$4 folder=$work/$1-$4
	mkdir "$folder"
	/usr/bin/python3 "$root/docs/labs/grader/grade.py" "$fast" "$number" --hand-out "$folder/own" --layout "$layout" >"$work/out" 2>&1
	limit=120 expect "$lab: a program with a student's protocol" 0 '' "$fast/xk" compile "$folder/own/$lab.dot" --with "$folder/own/$lab.c" -o "$folder/xk"
	expect "$lab: its network is right" 0 '' "$folder/xk" check "$folder/own/$lab-net.dot"
	expect "$lab: it writes a dissector" 0 '' "$folder/xk" dissectors -o "$folder/$lab.lua"
	/usr/bin/python3 "$root/docs/labs/grader/grade.py" "$fast" "$number" --student "$folder/own" --layout "$layout" --check "$3" --seed 7 \
		--pcap "$folder/lab.pcap" >"$work/out" 2>&1
	shown "$lab, layout $layout" "$lab" "$folder" "$folder/lab.pcap" kinds
	"$folder/xk" run "$folder/own/$lab-net.dot" --link sim --until 200ms --quiet --set cable.corrupt=0 --pcap "$folder/net.pcapng" >"$work/out" 2>&1
	shown "$lab, layout $layout, its network" "$lab" "$folder" "$folder/net.pcapng"
}

if ! command -v tshark >/dev/null; then
	echo "SKIPPED: tshark is not installed, so no other program has read a lab's frames"
elif [ ! -x "$fast/xk" ]; then
	echo "SKIPPED: there are no programs in $fast"
else
	# One student's layout for each lab, and the public layout of lab 0; with --long, of all labs.
	labs=('mark 0 receives' 'sequence 1 delivers' 'window 2 receives' 'fragment 3 order' 'boot 4 delivers')
	[ "${XK_TEST_LONG:-0}" = 1 ] && public=${#labs[@]} || public=1
	for lab in "${labs[@]}"; do
		# shellcheck disable=SC2086 # three words
		fields_shown $lab 5eed
	done
	for lab in "${labs[@]:0:public}"; do
		# shellcheck disable=SC2086 # three words
		fields_shown $lab 0
	done
fi
