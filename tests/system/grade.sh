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
/usr/bin/python3 "$root/tools/grade/grade.py" "$fast" --selftest || fail selftest "see above"
