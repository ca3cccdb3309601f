#!/bin/sh
# run.sh BUILD - checks README.md and docs/ against BUILD, a build directory with tests: runs the marked commands, compares
# listings with the sources, and follows the links. docs.py explains how.
set -eu
export LC_ALL=C
exec python3 "$(dirname -- "$0")/docs.py" "$@"
