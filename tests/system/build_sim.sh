#!/bin/bash
# build_sim.sh BUILD - ./run build --sim as an unprivileged user, in a copy of the tree: it builds what the tutorial and
# the labs need, installs nothing, and reports what is missing.
. "$(dirname "$0")/common.sh"
tree=$work/tree
bin=$work/bin

# Replaces the tools that install packages or become root with ones that record their use.
mkdir "$tree" "$bin"
for tool in apt-get dpkg-query sudo; do
	printf '#!/bin/sh\necho %s >>%s\nexit 1\n' "$tool" "$work/asked" >"$bin/$tool"
done
# Tools that must not be needed fail, too.
for tool in pkg-config pkgconf cmake; do
	printf '#!/bin/sh\nexit 1\n' >"$bin/$tool"
done
chmod 755 "$bin"/*
tar -c --exclude=./build --exclude=./build-debug --exclude=./build-with --exclude=./report --exclude=./.git . | tar -x -C "$tree"
: >"$work/asked"
chmod 666 "$work/asked"
nobody=(env)
if [ "$(id -u)" -eq 0 ]; then
	chown -R 65534:65534 "$tree"
	nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups env)
fi
nobody+=(-C "$tree" -i "PATH=$bin:$PATH" "HOME=$tree" CCACHE_DISABLE=1)

# ---- missing tools are named ---------------------------------------------------------------------------------------------

mkdir "$work/bare"
for tool in sh env dirname flock awk id tr head sed cat; do
	ln -s "$(command -v "$tool")" "$work/bare/$tool"
done
expect "a bare system" 1 'missing: a C compiler .cc. [(]package gcc of Debian, gcc of Fedora, gcc of Arch[)]' \
	"${nobody[@]}" "PATH=$work/bare" ./run build --sim
for said in 'missing: meson' 'missing: ninja [(]package ninja-build of Debian' 'missing: dot of graphviz' \
	'missing: jansson [(]package libjansson-dev of Debian, jansson-devel of Fedora, jansson of Arch' \
	'apt-get install gcc meson ninja-build graphviz libjansson-dev .*dnf install .*pacman -S'; do
	check "a bare system: $said" "$(cat "$work/err")" grep -qE "$said" "$work/err"
done

# ---- invalid options and --help build nothing ---------------------------------------------------------------------------------

expect "help of run grade" 0 '' "${nobody[@]}" ./run grade --help
for wrong in '' 9 '0 --student x --check none --seed 1'; do
	# shellcheck disable=SC2086 # some words or none
	expect "misuse of run grade: $wrong" 2 '^usage: ./run grade' "${nobody[@]}" ./run grade $wrong
done
check "nothing was built" "there is a build directory" [ ! -e "$tree/build" ]

# ---- it builds, and the results run --------------------------------------------------------------------------------------

limit=540 expect "run build --sim as a user without rights" 0 'built, without DPDK: build/xk' \
	"${nobody[@]}" "CFLAGS=-O0 -g0" ./run build --sim
expect "a network of the simulator" 0 'hash [0-9a-f]{16}' \
	"${nobody[@]}" build/xk run graphs/net/pair-ethernet10.dot --link sim --quiet
expect "udptest of the simulator" 0 '' "${nobody[@]}" build/udptest --link sim --rounds 10
expect "chantest of the simulator" 0 '' "${nobody[@]}" build/chantest --link sim --rounds 10
expect "the first journey" 0 '' "${nobody[@]}" build/xk run graphs/net/pair-ethernet10.dot --link sim --quiet \
	--set client.udptest.rounds=1 --journey build/one.html
check "the first journey has four frames" "it has not" \
	python3 tests/system/journey.py check "$tree/build/one.html" 'frames() == 4 and "udptest" in names(1)'
for chosen in '' '--link virtio' '--link 0000:01:00.0'; do
	# shellcheck disable=SC2086 # two words or none
	expect "a DPDK link is refused: ${chosen:-by default}" 2 \
		"needs DPDK, which this build lacks; .[.]/run build. builds everything.*This build has: memory, sim;" \
		"${nobody[@]}" build/udptest $chosen --rounds 10
done
expect "another build finds everything done" 0 'built, without DPDK' "${nobody[@]}" "CFLAGS=-O0 -g0" ./run build --sim

# ---- a lab: its program and its marks, also without DPDK -----------------------------------------------------------------------

mkdir "$tree/lab"
cp docs/labs/mark/* "$tree/lab"
chmod -R a+rX "$tree/lab"
limit=540 expect "run build --with after build --sim" 0 'passed: .*/test_mark.c' "${nobody[@]}" "CFLAGS=-O0 -g0" ./run build --with lab
expect "... is without DPDK" 2 'needs DPDK' "${nobody[@]}" build-with/udptest --rounds 10
expect "the lab's network" 0 'hash [0-9a-f]{16}' "${nobody[@]}" build-with/xk run lab/mark-net.dot --link sim --until 1s --quiet
run 300 "${nobody[@]}" "CFLAGS=-O0 -g0" ./run grade 0 --student lab
check "its marks, if there can be a sandbox" "$(cat "$work/out" "$work/err")" eval \
	'grep -q "7 of 7" "$work/out" || grep -q "nothing is marked" "$work/err"'
check "build/ is still without DPDK" "$(cut -c-200 "$tree/build/.made")" grep -q -- -Ddpdk=disabled "$tree/build/.made"
check "nobody was asked for packages or rights" "$(cat "$work/asked")" [ ! -s "$work/asked" ]
