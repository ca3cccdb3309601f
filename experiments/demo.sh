#!/bin/sh
# demo.sh BUILD A,B - round trips and calls between two processes on cores A and B, then on A alone: regular, IPP, and IPP's saving.
set -eu
build=$1
cores=$2
one=${cores%,*},${cores%,*}

"$build"/udptest --cores "$cores" --size 1,1000,2000,4000
echo
echo "The same with both hosts on core ${cores%,*}"
"$build"/udptest --cores "$one" --size 1,1000,2000,4000
echo
echo "Remote procedure calls"
"$build"/chantest --cores "$cores" --size 1,1000,4000,16000 --handoff none
echo
echo "The same with both hosts on core ${cores%,*}"
exec "$build"/chantest --cores "$one" --size 1,1000,4000,16000 --handoff none
