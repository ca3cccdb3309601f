#!/bin/bash
# unwritable.sh BUILD - ./run in another user's tree reports that; it never ends silently.
. "$(dirname "$0")/common.sh"

tree="$work/a tree with blanks"
mkdir "$tree"
cp --parents run tools/packages.sh tests/build.sh "$tree"

# refused NAME [PATTERN]: checks that ./run build is refused for a user without write permission.
refused() {
	expect "$1" 1 "${2:-cannot be written}" setpriv --reuid=65534 --regid=65534 --clear-groups "$tree/run" build
}

if [ "$(id -u)" -ne 0 ]; then
	echo "SKIPPED: a tree of another user: only root can act as two users"
else
	refused "the tree is another user's"
	mkdir "$tree/build"
	chmod 777 "$tree"
	refused "build/ is another user's"
	mkdir "$tree/build/logs"
	chmod 777 "$tree/build"
	refused "build/logs/ is another user's"
	touch "$tree/build/logs/setup.log"
	chmod 1777 "$tree/build/logs" # files may be created there but not removed
	refused "a log is another user's" 'cannot be removed and made again'
fi
