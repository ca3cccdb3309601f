#!/bin/bash
# journey.sh BUILD - the pages of --journey: a datagram, an ARP exchange, a fragmented message with a loss, a call whose
# server crashes, a handoff by time. Each page's data is compared with the expected events, and the pages are stepped through
# in a headless Chromium, if there is one. Also: a run with too many steps, hostile names, and invalid command lines.
. "$(dirname "$0")/common.sh"

xk=$build/xk
pair=graphs/net/pair-ethernet10.dot
calls=graphs/net/pair-calls.dot

# page NAME NETWORK OPTION...: runs it quietly and writes $work/NAME.html.
page() {
	local name=$1 network=$2
	shift 2
	limit=120 expect "$name: it runs" 0 '' "$xk" run "$network" --link sim --quiet --journey "$work/$name.html" "$@"
}

# holds_page NAME WHAT EXPRESSION: checks an expression of the page NAME; journey.py defines its names.
holds_page() {
	local why
	if why=$(python3 "$root/tests/system/journey.py" check "$work/$1.html" "$3" 2>&1); then
		ok "$1: $2"
	else
		fail "$1: $2" "$why"
	fi
}

# ---- one datagram, and the ARP exchange before it -----------------------------------------------------------------------

page datagram $pair --set client.udptest.rounds=1
holds_page datagram 'four frames, and both graphs' 'frames() == 4 and names(0) == names(1) and "udptest" in names(0)'
holds_page datagram 'the request goes down and up' \
	'way(message_of("client", "udptest")) == ["udptest>udp", "udp>ip", "ip>vnet", "vnet>eth", "eth>port",
		"port<eth", "eth<vnet", "vnet<ip", "ip<udp", "udp<udptest"]'
holds_page datagram 'the headers are as declared' \
	'fields(crossing("client", "udp>ip"))["destination"] == 2001 and fields(crossing("client", "udp>ip"))["length"] == 9
		and fields(crossing("server", "vnet<ip"))["protocol"] == 17'
holds_page datagram 'the answer is because of the request' \
	'first(h=host("server"), a="udptest", k="down")["because"] == first(h=host("server"), b="udptest", k="up")["i"]'
holds_page datagram 'the server makes its sessions, a thread and the driver carry' \
	'crossing("server", "ip<udp").get("made") and place(crossing("client", "udptest>udp")) == "thread 1, stack 2"
		and place(crossing("server", "udp<udptest")) == "driver, stack 1"'

page arp $pair --set client.udptest.rounds=1 --until 126us
holds_page arp 'a query to all, and its answer' \
	'[fields(c)["operation"] for c in all_of(k="down", a="arp", b="eth")] == [1, 2]'
holds_page arp 'both cross eth and the link' \
	'way(1) == ["arp>eth", "eth>port", "port<eth", "eth<arp"] == way(first(k="down", h=host("server"), a="arp")["m"])
		and first(k="down", h=host("server"), a="arp")["because"] == first(k="up", h=host("server"), b="arp")["i"]'

page segments graphs/explore/tcp.dot --until 5s
holds_page segments 'options lengthen a header' \
	'crossing("client", "tcp>ip")["n"] == 40 == 4 * fields(crossing("client", "tcp>ip"))["offset"]'

# ---- paths: the page shows what happens --------------------------------------------------------------------------------

page paths $pair --set client.udptest.rounds=20
holds_page paths 'the first messages go by layers, later ones by path' \
	'all_of(k="up", path=None, a="udp") and [c["path"] for c in steps if c["k"] == "up" and "path" in c][-1]
		== [node(1, n) for n in ("port", "eth", "vnet", "ip")]'
holds_page paths 'down, too: each message begins at a udptest or with ARP' \
	'any(c["k"] == "down" and "path" in c for c in steps)
		and {name(c, c["a"]) for c in steps if c["k"] == "down" and "c" not in c} == {"udptest", "arp"}'
page layers $pair --set client.udptest.rounds=20 --paths no
holds_page layers '--paths no: all by layers' 'not any("path" in c for c in steps)'
hash_of() {
	grep -o 'hash [0-9a-f]*' "$work/err"
}
run 60 "$xk" run $pair --link sim --quiet --set client.udptest.rounds=20
without=$(hash_of)
run 60 "$xk" run $pair --link sim --quiet --set client.udptest.rounds=20 --journey "$work/again.html"
check 'the run is the same with a journey' "$without" test "$(hash_of)" = "$without"
check 'the same run writes the same page' '' cmp "$work/paths.html" "$work/again.html"

# ---- fragments and losses -----------------------------------------------------------------------------------------------

page fragments $pair --set client.udptest.rounds=3 --set client.udptest.size=4000 --set client.udptest.timeout=20ms \
	--set cable.loss=8% --seed 3 --until 60s
holds_page fragments 'one datagram, three frames' \
	'len([c for c in all_of(k="sent") if c["m"] == message_of("client", "udptest")]) == 3'
holds_page fragments 'a frame is lost by name, and the whole is dropped after a while' \
	'first(k="lost")["reason"] == "loss" and first(k="drop", a="ip")'
holds_page fragments 'what is whole goes up once, in several segments' \
	'first(k="up", a="ip", b="udp")["n"] == 4008 and sum(first(k="up", a="ip", b="udp")["segments"]) == 4008'

page resent $calls --set client.chantest.rounds=1 --set client.chantest.size=4000 --set cable.loss=10% --until 60s
holds_page resent 'BLAST sends a lost fragment again, because of a NACK' \
	'(lambda c: names(c["h"])[c["a"]] == "blast" and step(c["again"])["m"] == c["m"] and "because" in c)
		(next(c for c in steps if "again" in c))'

# A router forwards answers that have the same bytes as the requests.
page routed graphs/net/routed.dot --until 300ms
holds_page routed 'what routers pass on is not sent again' \
	'not any("again" in c for c in steps) and all("because" in c for c in all_of(k="down", a="ip") if "c" not in c)'

# ---- a call whose server crashes ----------------------------------------------------------------------------------------

page crash $calls --set client.chantest.rounds=3 --set server.crash=700us --set server.boot=100ms --until 2s
holds_page crash 'the server crashes and boots' \
	'[c["k"] for c in steps if c["h"] == host("server") and c["k"] in ("crashed", "booted")] == ["booted", "crashed", "booted"]
		and not any(c["k"] == "say" and "closed" in c["text"] for c in steps if c["h"] == host("server") and c["t"] == 700000)'
holds_page crash 'frames to it are lost, and a timer sends again' \
	'first(k="lost", reason="down") and any(c.get("timer") and "again" in c for c in steps)'
page reply $calls --set client.chantest.rounds=1
holds_page reply 'the reply comes back through the call' \
	'[name(c, c["a"]) for c in steps if c.get("reply")] == ["chantest", "chan"]
		and [c["m"] for c in steps if c.get("reply")] == [message_of("server", "chantest")] * 2'

# ---- a handoff by time --------------------------------------------------------------------------------------------------

page handoff docs/examples/work-net.dot --set server.graph.budget=100us --set patient.udptest.rounds=2 \
	--set hasty.udptest.rounds=5
holds_page handoff 'the message leaves the driver in vwork, and continues on a thread' \
	'first(k="handoff")["reason"] == "time" and place(first(k="handoff")).startswith("thread")
		and "vwork" in (name(first(k="handoff"), first(k="handoff")["a"]), name(first(k="handoff"), first(k="handoff")["b"]))'
holds_page handoff 'three hosts' 'len(hosts) == 3'

limit=120 expect 'udptest writes one, too' 0 '' "$udptest" --link sim --mode ipp --rounds 2 --size 3000 \
	--handoff server --journey "$work/udptest.html"
holds_page udptest 'with its handoffs' 'first(k="handoff")["reason"] == "explicit" and [h["name"] for h in hosts] == ["client", "server"]'
limit=120 expect 'in regular mode' 0 '' "$udptest" --link sim --mode regular --rounds 2 --journey "$work/regular.html"
holds_page regular 'threads carry' 'place(crossing("server", "udp<udptest")).startswith("thread")'

# ---- a long run, and hostile names --------------------------------------------------------------------------------------

page long $pair --set client.udptest.rounds=1000 --paths no
holds_page long 'more than 10,000 crossings, in a page of less than 6 MB' \
	'len(all_of(k="up")) + len(all_of(k="down")) > 10000 and size < 6000000'
check 'truncation is reported' "$(tail -n 2 "$work/err")" grep -q 'has the first 20000 steps' "$work/err"
holds_page long 'and is in the page' 'len(steps) == 20000 and document["leftOut"] > 0'

# Nodes, hosts and links have harmless names, but a file may be called anything.
hostile="$work/<!--<script>\"'&<img src=x onerror=alert(1)>.dot"
cp $pair "$hostile"
cp graphs/udptest.dot "$work/"
page hostile "$hostile" --set client.udptest.rounds=1
holds_page hostile 'names are text' \
	'source.count("<script") == 2 == source.count("</script") and "<img" not in source and "onerror" in document["title"]'

# ---- the command line ---------------------------------------------------------------------------------------------------

expect 'only simulated hosts' 2 'needs --link sim' "$udptest" --link memory --rounds 1 --journey "$work/x.html"
expect 'a name is needed' 2 'name is missing' "$xk" run $pair --link sim --journey ''
expect 'a place that cannot be written' 1 'cannot be written' "$xk" run $pair --link sim --journey "$work/no/x.html"
expect 'a full disk' 1 'cannot be written' "$xk" run $pair --link sim --quiet --journey /dev/full
cp $pair "$work/net.dot"
expect 'not over its network' 1 '' "$xk" run "$work/net.dot" --link sim --journey "$work/net.dot"
expect 'too many hosts' 2 'up to 16 hosts' "$xk" run graphs/net/thousand.dot --link sim --journey "$work/x.html"

# ---- in a browser -------------------------------------------------------------------------------------------------------

chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || chromium=
if [ -z "$chromium" ]; then
	echo "SKIPPED: Chromium is not installed, so no page has been opened"
	exit 0
fi

# shows NAME WHAT FRAGMENT PATTERN...: checks that the page, opened at #FRAGMENT, contains each pattern.
shows() {
	local name=$1 what=$2 fragment=$3 pattern
	shift 3
	HOME=$work XDG_RUNTIME_DIR=$work timeout -k 5 120 "$chromium" --headless --no-sandbox --disable-gpu --user-data-dir="$work/chromium" --dump-dom \
		--virtual-time-budget=5000 "file://$work/$name.html#$fragment" >"$work/dom" 2>"$work/chromium.log"
	for pattern; do
		grep -qE -- "$pattern" "$work/dom" || {
			fail "$name: $what" "nothing like '$pattern' at #$fragment: $(grep -o 'id="say".*' "$work/dom" | head -c 300)"
			return
		}
	done
	ok "$name: $what"
}

number() {
	python3 "$root/tests/system/journey.py" print "$work/$1.html" "$2"
}

shows datagram 'it opens at its first step' '' 'data-step="1"' 'pair-ethernet10.dot, seed 1' 'client</b>'
shows datagram 'a header with its fields' "step=$(number datagram 'crossing("client", "udp>ip")["i"]')" \
	'puts its header of 8 bytes in front' '<td>destination</td><td class="value">2001</td>' 'class="block header now"[^>]*>udp' \
	'thread 1, stack 2'
shows segments 'the options of a header' "step=$(number segments 'crossing("server", "ip<tcp")["i"]')" 'header now"[^>]*>tcp<small>40 bytes' \
	'<td>mss</td><td class="value">1460</td><td class="bytes">05b4' '<td>sack_permitted</td>' '<td>stamp: echo</td><td class="value">0</td>'
shows datagram 'the last step' 'step=999999' "data-step=\"$(number datagram 'len(steps)')\""
shows datagram 'a message by number' 'message=3' 'data-message="3"' "data-step=\"$(number datagram 'first(m=3)["i"]')\""
shows paths 'by path' 'first=path' 'by path, ' 'class="node[a-z ]* passed"'
shows handoff 'the handoff' 'first=handoff' 'handoff \(time\)' 'class="carrier handoff"' '⇄ time'
shows resent 'the first retransmission' 'first=retransmission' 'retransmits' 'retransmits</dt><dd><a href="#step='
shows crash 'the crash' 'first=crash' 'crashes: its sessions' 'class="host active down"'
shows fragments 'a loss' 'first=loss' 'is lost: ' 'mark lost'
shows long 'more than 10,000 crossings' 'step=15000' 'data-step="15000"' 'only the first 20000 steps'
shows hostile 'hostile names are text' 'step=1' 'id="title">&lt;!--&lt;script&gt;' 'onerror=alert\(1\)&gt;.dot, seed 1'

# Keys: in a copy that may run an additional script.
sed 's|<meta http-equiv="Content-Security-Policy[^>]*>||' "$work/datagram.html" >"$work/keys.html"
cat >>"$work/keys.html" <<'END'
<script>
for (const key of ["End", "Home", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "n", "n", "p"])
	document.dispatchEvent(new KeyboardEvent("keydown", { key }));
</script>
END
shows keys 'arrows, Home, End, n and p' 'step=9' \
	"data-step=\"$(number datagram '[c["i"] for c in steps if c.get("m") == step(3)["m"] and c["i"] > 3][0]')\""
