# shellcheck shell=bash
# compiling.sh - what the tests of `xk compile` share, after common.sh.

mkdir "$work/tmp"
export TMPDIR=$work/tmp

# Where many programs are made, it is with the build that people use, if it is there; "$build" has sanitizers.
fast=$root/build
[ -x "$fast/xk" ] || fast=$build

# No optimisation, which takes most of a compiler's time. Tests of the code that people get set -g0: it is the same code,
# in a third less time.
export XK_CFLAGS='-O0 -g0'
