#!/bin/bash
# grade.sh BUILD - the grader of the labs marks as it has to, and nothing cheats or harms it: tests/grade/selftest.py. With the
# programs that people use, since a sanitizer takes more memory than a student gets.
. "$(dirname "$0")/common.sh"
fast=$root/build
[ -e "$fast/libxkernel.a" ] || {
	echo "SKIPPED: there is no library in $fast"
	exit
}
# What a user of `./run grade --selftest` would see.
/usr/bin/python3 "$root/tools/grade/grade.py" "$fast" --selftest >"$work/out" 2>&1 || fail selftest "see below"
cat "$work/out"
! grep -q '^SKIPPED' "$work/out" || exit

# ---- each lab's header is shown field by field, with the numbers that a student's header gives it -----------------------------

fields_shown() {
	local lab=$1 number=$2 folder=$work/$1 field wanted
	mkdir "$folder"
	/usr/bin/python3 "$root/tools/grade/grade.py" "$fast" "$number" --hand-out "$folder/own" --layout 5eed >"$work/out" 2>&1
	limit=120 expect "$lab: a program with a student's protocol" 0 '' "$fast/xk" compile "$folder/own/$lab.dot" --with "$folder/own/$lab.c" -o "$folder/xk"
	expect "$lab: its network is right" 0 '' "$folder/xk" check "$folder/own/$lab-net.dot"
	expect "$lab: it writes a dissector" 0 '' "$folder/xk" dissectors -o "$folder/$lab.lua"
	/usr/bin/python3 "$root/tools/grade/grade.py" "$fast" "$number" --student "$folder/own" --layout 5eed --check "$3" --seed 7 \
		--pcap "$folder/lab.pcap" >"$work/out" 2>&1
	tshark -X "lua_script:$folder/$lab.lua" -r "$folder/lab.pcap" -O "xk_$lab" >"$folder/shown" 2>/dev/null
	wanted=$(sed -n 's/.*{ \.name = "\([a-z]*\)".*/\1/p' "$folder/own/$lab.h")
	for field in $wanted; do
		check "$lab: tshark shows $field" "$(head -n 20 "$folder/shown")" grep -q "^    $field: " "$folder/shown"
	done
}

if ! command -v tshark >/dev/null; then
	echo "SKIPPED: no tshark is installed, so no other program has read a lab's frames"
elif [ ! -x "$fast/xk" ]; then
	echo "SKIPPED: there are no programs in $fast"
else
	fields_shown mark 0 receives
	fields_shown sequence 1 delivers
	fields_shown window 2 receives
	fields_shown fragment 3 order
	fields_shown boot 4 delivers
fi
