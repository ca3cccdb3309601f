#!/bin/sh
# run.sh BUILD - whether README.md and docs/ say what is so: their marked commands are run against BUILD (a build
# directory with tests), their listings are compared with the sources, and their links are followed. docs.py has how.
set -eu
export LC_ALL=C
exec python3 "$(dirname -- "$0")/docs.py" "$@"
