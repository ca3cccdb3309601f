# shellcheck shell=bash
# compiling.sh - what the tests of `xk compile` share, after common.sh.

mkdir "$work/tmp"
export TMPDIR=$work/tmp

# Where many programs are made, it is with the build that people use, if it is there; "$build" has sanitizers.
fast=$root/build
[ -x "$fast/xk" ] || fast=$build

# The compiler is asked for little speed, which takes most of its time. Where it matters what people get, this is empty.
export XK_CFLAGS='-O0 -g0'
