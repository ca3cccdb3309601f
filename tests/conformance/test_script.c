/*
 * test_script.c - the language of packet scripts: errors are reported with file and line, and an expectation that does
 * not hold fails.
 */
#include <fts.h>

#include "tests/conformance/packet.h"
#include "tests/conformance/script.h"
#include "tests/test.h"

#define HOST "host 10.0.0.1/24 graph udptest.dot\n"
#define PING "inject ip 10.0.0.2 > 10.0.0.1 / udp 5000 > 2001 / pattern 8\n"
#define PONG "expect ip 10.0.0.1 > 10.0.0.2 / udp 2001 > 5000 / pattern 8\n"

static const char *const folders[] = { CONFORMANCE_ROOT "/graphs", CONFORMANCE_ROOT "/tests/conformance", NULL };

/* Runs text. Returns "" or its error, valid until the next run. */
static const char *
run(const char *text)
{
	static char why[SCRIPT_WHY];
	char *copy = strdup(text);

	REQUIRE(copy != NULL);
	why[0] = '\0';
	if (script_run("script", copy, folders, why))
		CHECK_EQ(why[0], '\0');
	else
		CHECK(why[0] != '\0');
	free(copy);
	return why;
}

/* Checks that text fails with an error that contains `words`. */
static void
wrong(const char *text, const char *words)
{
	const char *why = run(text);

	if (strstr(why, words) == NULL)
		fprintf(stderr, "\n%s\tis reported as: %s\n\tnot: %s\n", text, why, words);
	CHECK_HAS(why, words);
}

TEST(valid_script_passes)
{
	CHECK_STR(run(HOST PING PONG), "");
	CHECK_STR(run(HOST "inject eth / arp request who 10.0.0.1 tell 10.0.0.2\n"
			   "expect eth / arp reply 10.0.0.1 is-at *\n"),
		  "");
	CHECK_STR(run(HOST "repeat 3 as i\nrepeat 2 as j\n" PING PONG "end\nend\ncount udptest.messages 6\n"), "");
	CHECK_STR(run(HOST "at 1s expect nothing\nafter 500ms " PING PONG "expect nothing within 1ms\n"), "");
	CHECK_STR(run(HOST "# a remark\n\n   " PING PONG "   # another\n"), "");
	CHECK_STR(run(HOST "burst 2\nrepeat 2 as i\n" PING "end\n" PONG PONG "burst 1\n" PING PONG PING PONG), "");
	CHECK_STR(run(HOST), "");
}

TEST(errors_have_their_line)
{
	wrong("", "script:1: a script begins with");
	wrong(PING, "script:1: a script begins with");
	wrong(HOST "say hello", "script:2: 'say' is not a command");
	wrong(HOST "\n\nset a", "script:4: set takes");
	wrong("host 10.0.0.1 graph udptest.dot", "script:1: '10.0.0.1' is not an address");
	wrong("host 10.0.0.1/24 graph nothing.dot", "script:1: there is no graph nothing.dot");
	wrong("host 10.0.0.1/24 graph", "script:1: an argument is missing after 'graph'");
	wrong("host 10.0.0.1/24", "script:1: host needs a graph");
	wrong(HOST HOST, "script:2: there is a host already");
	wrong("host 10.0.0.1/24 10.1.0.1/24 graph udptest.dot\nexpect nothing", "script:2: the graph has fewer ports");
	wrong(HOST "set ip.nothing 1\n" PING, "nothing");
	wrong(HOST PING PONG "set ip.ttl 1\n", "script:4: the host has started");
	wrong(HOST "repeat 3 as i\n" PING, "script:2: this repeat has no end");
	wrong(HOST "repeat 3\nend", "script:2: usage: repeat");
	wrong(HOST "end", "script:2: 'end' is not a command");
	wrong(HOST "at noon expect nothing", "script:2: 'noon' is not a time");
	wrong(HOST "at", "script:2: '' is not a time");
	wrong(HOST "at 2s expect nothing\nat 1s expect nothing", "script:3: it is 2000.000 ms already");
	wrong(HOST "count ip.nothing 1", "script:2: there is no counter 'ip.nothing'");
	wrong(HOST "count nothing.in 1", "script:2: there is no counter 'nothing.in'");
	wrong(HOST "count ip.reassembled", "script:2: a number is missing");
	wrong(HOST "inject on 2 arp request", "script:2: on needs a port");
	wrong(HOST "burst", "script:2: burst takes a number of frames");
	wrong(HOST "burst 0", "script:2: a burst has 1 to 32 frames");
	wrong(HOST "burst 33", "script:2: a burst has 1 to 32 frames");
	wrong(HOST "burst 2\n" PING PONG, "script:4: the burst lacks 1 frames");
	wrong(HOST "burst 2\n" PING "at 1s " PING, "script:4: the burst lacks 1 frames");
	wrong(HOST "burst 2\n" PING, "script:3: the burst lacks 1 frames");
	wrong(HOST "include", "script:2: include takes a file");
	wrong(HOST "include nothing.include", "script:2: there is no file nothing.include");
	wrong(HOST PING PONG "sent 49", "script:4: the number of bytes sent is 50, not 49");
	wrong(HOST PING PONG "sent at most 49", "script:4: the number of bytes sent is 50, not at most 49");
}

TEST(errors_in_an_included_file_have_its_line)
{
	static const char *const own[] = { CONFORMANCE_ROOT "/tests/conformance/blast", CONFORMANCE_ROOT "/graphs",
					   NULL };
	char text[] = HOST "include comes-back.include\n";
	static char why[SCRIPT_WHY];

	CHECK(!script_run("script", text, own, why));
	CHECK_HAS(why, "tests/conformance/blast/comes-back.include:1: at 0.000 ms");
	CHECK_HAS(why, "because: nothing was sent");
}

TEST(errors_in_a_packet_are_named)
{
	wrong(HOST "inject", "a packet is missing");
	wrong(HOST "inject sctp", "'sctp' is not a layer, a payload");
	wrong(HOST "inject ip 10.0.0.2 > 10.0.0.1 colour 7", "'colour' is not a field");
	wrong(HOST "inject ip 10.0.0.2 >", "an argument is missing after '>'");
	wrong(HOST "inject ip 10.0.0.2 > 10.0.0.1 ttl", "an argument is missing after 'ttl'");
	wrong(HOST "inject ip 10.0.0.2 > 10.0.0.1 ttl 256", "ttl is too large");
	wrong(HOST "inject ip 10.0.0.2 > 10.0.0.1 offset 12", "offset is not a multiple of 8");
	wrong(HOST "inject ip 10.0.0.2 > 10.0.0.1 ttl many", "'many' is not a number");
	wrong(HOST "inject ip 10.0.0.2 > 10.0.0.1 ttl $n", "'$n' is not a number");
	wrong(HOST "inject ip 10.0.0.2 > 10.0.0.1 ttl 4/0", "'4/0' is not a number");
	wrong(HOST "inject ip 10.0.0.2 > 10.0.0.1 options 123", "'123' is not at most 40 bytes of options");
	wrong(HOST "inject ip 10.0.0.2 > 10.0.0.1 ttl *", "an injected packet needs a value for ttl");
	wrong(HOST "inject ip 10.0.0.2 > 10.0.0.1 / udp / 123", "'123' is not a layer, a payload");
	wrong(HOST "inject ip 10.0.0.2 > 10.0.0.1 / pattern 70000", "the payload is too long");
	wrong(HOST "inject ip 10.0.0.2 > 10.0.0.1 /", "a layer or payload is missing");
	wrong(HOST "let d ip 10.0.0.2 > 10.0.0.1 / udp / pattern 8\ninject d 0..24", "the datagram has 16 bytes");
	wrong(HOST "let d ip 10.0.0.2 > 10.0.0.1 / udp / pattern 8\ninject d 8", "a piece is written FROM..TO");
	wrong(HOST "let d ip 10.0.0.2 > 10.0.0.1 / udp / pattern 8\ninject d 4..end",
	      "a piece begins at a multiple of 8");
	wrong(HOST "let d eth / bid / pattern 8\ninject d 4..end", "only a whole ip datagram or blast message");
	wrong(HOST "inject blast send fragment 0", "fragments are numbered from 1 to 64");
	wrong(HOST "inject blast send fragment 65", "fragments are numbered from 1 to 64");
	wrong(HOST "inject blast send fragment", "an argument is missing after 'fragment'");
	wrong(HOST "inject blast query", "'query' is not a field");
	wrong(HOST "inject bidctl query request", "an argument is missing after 'request'");
	wrong(HOST "inject chan request seq 4294967296", "seq is too large");
	wrong(HOST "inject chan request seq $seq", "'$seq' is not a number");
}

#define TCP_HOST "host 10.0.0.1/24 graph tcp.dot\ninclude tcp/accepted.include\n"

TEST(errors_about_tcp_are_named)
{
	wrong(TCP_HOST "inject tcp A seq 1 ack 1 sack 5", "sack needs ranges FROM..TO");
	wrong(TCP_HOST "inject tcp A seq 1 ack 1 sack 1..2 1..2 1..2 1..2 1..2", "'1..2' is a range too many");
	wrong(TCP_HOST "inject tcp A seq 1 ack 1 stamp 1 2 sack 1..2 1..2 1..2 1..2",
	      "options take more than 40 bytes");
	wrong(TCP_HOST "inject tcp A seq 1 ack 1 stamp 1", "an argument is missing after 'stamp'");
	wrong(TCP_HOST "inject tcp A ack 1 / data 5", "data needs a tcp header with seq");
	wrong(TCP_HOST "inject udp / data 5", "data needs a tcp header with seq");
	wrong(TCP_HOST "inject tcp A seq 1 ack 1 / data 5\nread 4", "5 bytes were handed up, not 4");
	wrong(TCP_HOST "inject tcp A seq 1 ack 1 / data 5\nexpect within 1s tcp",
	      "5 bytes were handed up that no line reads");
	wrong(TCP_HOST "inject tcp A seq 1 ack 1 / 0002\nread 2", "are not those of the pattern");
	wrong(TCP_HOST "read", "a number is missing");
	wrong(TCP_HOST "state", "state takes a state's name");
	wrong(TCP_HOST "state LISTEN", "the state is ESTABLISHED, not LISTEN");
	wrong(TCP_HOST "result", "result takes one of");
	wrong(TCP_HOST "result reset", "the result is good (0), not reset");
	wrong(TCP_HOST "use 2", "there is no connection 2");
	wrong(TCP_HOST "open 80 from", "a number is missing");
	wrong(TCP_HOST "close 80", "'80' is a word too many");
	wrong(HOST "listen 80", "the graph has no user of TCP");
	wrong("host 10.0.0.1/24 graph tcp.dot\nread 1", "there is no connection yet");
}

TEST(different_segments_fail)
{
	wrong(TCP_HOST "send 5\nexpect tcp A seq 1 ack 1", "tcp carries bytes");
	wrong(TCP_HOST "send 5\nexpect tcp A seq 1 ack 1 / data 6", "the payload has 5 bytes, not 6");
	wrong(TCP_HOST "send 5\nexpect tcp A seq 2 ack 1 / *", "tcp seq is 1, not 2");
	wrong(TCP_HOST "send 5\nexpect tcp A seq 1 ack 2 / *", "tcp ack is 1, not 2");
	wrong(TCP_HOST "send 5\nexpect tcp FA seq 1 / *", "tcp flags is 0, not 1");
	wrong(TCP_HOST "send 5\nexpect tcp - seq 1 / *", "tcp high-flags is 1, not 0");
	wrong(TCP_HOST "send 5\nexpect tcp A stamp 7 * / *", "tcp stamp is none, not 7");
	wrong(TCP_HOST "end-sending", "tcp 2001 > 5000 seq 1 ack 1 flags 1");
}

TEST(missing_frames_fail)
{
	wrong(HOST PONG, "because: nothing was sent");
	wrong(HOST "expect within 1s arp request", "at 1000.000 ms");
	wrong(HOST PING PONG PONG, "script:4");
	wrong(HOST PING "expect nothing", "because: no frame was expected");
	wrong(HOST PING, "script:2: at 0.000 ms\n\tline:    inject");
	wrong(HOST PING, "no earlier line expects this frame");
	wrong(HOST PING "at 1s expect nothing", "script:3: at 0.000 ms");
}

TEST(different_frames_fail)
{
	wrong(HOST PING "expect arp reply", "because: eth has a wrong type");
	wrong(HOST PING "expect ip 10.0.0.1 > 10.0.0.3", "because: ip dst is 10.0.0.2, not 10.0.0.3");
	wrong(HOST PING "expect eth broadcast > broadcast", "eth dst is 02:01:0a:00:00:02, not ff:ff:ff:ff:ff:ff");
	wrong(HOST PING "expect ip ttl 63", "because: ip ttl is 64, not 63");
	wrong(HOST PING "expect ip more", "because: ip more is 0, not 1");
	wrong(HOST PING "expect ip / icmp", "because: ip carries another protocol");
	wrong(HOST PING "expect ip / udp 2001 > 5001", "because: udp dst is 5000, not 5001");
	wrong(HOST PING "expect ip / udp sum 0", "because: udp sum is 0x");
	wrong(HOST PING "expect ip / udp / pattern 7", "because: the payload has 8 bytes, not 7");
	wrong(HOST PING "expect ip / udp / 0001020304050608", "because: byte 7 of the payload is 07, not 08");
	wrong(HOST PING "expect ip id ?i\n" PING "expect ip id ?i", "not as before");
	wrong(HOST PING "expect ip ttl ?t\n" PING "expect ip ttl !t", "which must differ from");
}

TEST(counters_must_be_right_and_complete)
{
	wrong(HOST PING PONG "count udptest.messages 2", "udptest.messages is 1, not 2");
	wrong(HOST PING PONG "count udptest.messages at most 0", "udptest.messages is 1, not at most 0");
	wrong(HOST PING PONG "count udptest.messages at least 2", "udptest.messages is 1, not at least 2");
	wrong(HOST "inject ip 10.0.0.2 > 10.0.0.1 sum bad", "ip.bad_checksum is 1, and no line counts it");
	CHECK_STR(run(HOST "inject ip 10.0.0.2 > 10.0.0.1 sum bad\ncount ip.bad_checksum 1"), "");
	wrong(HOST "inject ip 10.0.0.2 > 10.0.0.1 offset 8 more / pattern 8\nbuffers 0", "buffers in use is 1, not 0");
}

/* Faults in a host's headers must be found: the checks of headers, on frames made here. */
static const char *
match(const char *frame, const char *expected)
{
	static char why[PACKET_WHY];
	static struct packet packet;
	static uint8_t bytes[PACKET_MAX];
	struct names names = { .host_count = 0 };
	char copy[512], *words[64], *next = NULL;
	size_t len = 0;

	for (int pass = 0; pass < 2; pass++) {
		unsigned count = 0;

		snprintf(copy, sizeof(copy), "%s", pass == 0 ? frame : expected);
		for (char *word = strtok_r(copy, " ", &next); word != NULL; word = strtok_r(NULL, " ", &next))
			words[count++] = word;
		words[count] = NULL;
		why[0] = '\0';
		REQUIRE(packet_parse(&packet, &names, words, why));
		if (pass == 0)
			len = packet_build(&packet, &names, bytes, why);
	}
	return packet_match(&packet, &names, bytes, len, why) ? "" : why;
}

TEST(wrong_headers_are_found)
{
	CHECK_STR(match("ip 1.1.1.1 > 2.2.2.2 / udp 1 > 2 / pattern 9", "ip / udp 1 > 2 / pattern 9"), "");
	CHECK_STR(match("ip version 5 / udp", "ip / udp"), "ip has a wrong version");
	CHECK_STR(match("ip ihl 4 / udp", "ip / udp"), "ip has an impossible header length");
	CHECK_STR(match("ip len 19 / udp", "ip / udp"), "ip has an impossible length");
	CHECK_STR(match("ip len 29 / udp", "ip / udp"), "ip has an impossible length");
	CHECK_STR(match("ip sum bad / udp", "ip / udp"), "ip has a wrong checksum");
	CHECK_STR(match("ip sum bad / udp", "ip sum * / udp"), "");
	CHECK_STR(match("ip evil / udp", "ip / udp"), "ip has its reserved bit set");
	CHECK_STR(match("ip more / udp", "ip / udp"), "ip is a fragment: more follow");
	CHECK_STR(match("ip offset 8 / pattern 8", "ip / *"), "ip is a fragment");
	CHECK_STR(match("ip / udp len 9", "ip / udp"), "udp has a wrong length");
	CHECK_STR(match("ip / udp sum bad", "ip / udp"), "udp has a wrong checksum");
	CHECK_STR(match("ip / udp sum 0", "ip / udp"), "udp has no checksum");
	CHECK_STR(match("ip / udp sum 0", "ip / udp sum 0"), "");
	CHECK_STR(match("ip / icmp echo-reply sum bad", "ip / icmp"), "icmp has a wrong checksum");
	CHECK_STR(match("ip / tcp ack 7 / pattern 2", "ip / tcp psh 0 / pattern 2"), "");
	CHECK_STR(match("ip / tcp sum bad", "ip / tcp"), "tcp has a wrong checksum");
	CHECK_STR(match("ip / tcp off 4", "ip / tcp"), "tcp has an impossible header length");
	CHECK_STR(match("ip / tcp off 6", "ip / tcp"), "tcp has options that do not fit");
	CHECK_STR(match("ip / tcp reserved 1", "ip / tcp"), "tcp has reserved bits set");
	CHECK_STR(match("ip / tcp mss 5 scale 2 may-sack stamp 3 4", "ip / tcp mss 5 scale 2 may-sack stamp 3 4"), "");
	CHECK_STR(match("ip / tcp options 0205", "ip / tcp mss none"), "");
	CHECK_STR(match("ip / tcp options 01010304", "ip / tcp scale none"), "");
	CHECK_STR(match("arp reply hw 2", "arp reply"), "arp is not for IP over Ethernet");
	CHECK_STR(match("ip / udp / pattern 2 / cut 41", "ip / udp"), "ip has an impossible length");
	CHECK_STR(match("ip / udp / cut 33", "ip / udp"), "ip does not fit into 19 bytes");
}

TEST(wrong_headers_of_the_rpc_suite_are_found)
{
	CHECK_STR(match("blast send / bid source 5 / chan request seq 7 / pattern 9",
			"blast seq 0 / bid source 5 / chan request seq 7 / pattern 9"),
		  "");
	CHECK_STR(match("blast send seq 1 count 2 fragment 2 / pattern 9", "blast fragment 2 / pattern 9"), "");
	CHECK_STR(match("blast width 32", "blast"), "blast has a wrong mask width");
	CHECK_STR(match("blast op 4", "blast"), "blast has a wrong op");
	CHECK_STR(match("blast len 8 / pattern 9", "blast / *"), "blast has a wrong length");
	CHECK_STR(match("blast len 8 / pattern 9", "blast len 8 / *"), "");
	CHECK_STR(match("blast mask 1", "blast"), "blast has an impossible mask");
	CHECK_STR(match("blast count 2", "blast"), "blast has an impossible mask");
	CHECK_STR(match("blast seq 1 count 2 mask 4 / 00", "blast"), "blast has an impossible mask");
	CHECK_STR(match("blast seq 1 count 2 mask 3 / 00", "blast"), "blast has an impossible mask");
	CHECK_STR(match("blast nack seq 1 count 2 mask 3", "blast"), "blast has an impossible mask");
	CHECK_STR(match("blast seq 1 count 0 mask 1 / 00", "blast"), "blast has an impossible mask");
	CHECK_STR(match("blast protocol 9 / bid", "blast / bid"), "blast carries another protocol");
	CHECK_STR(match("blast retransmit seq 1 count 2 mask 1 / 00", "blast nack"), "blast op is 3, not 2");
	CHECK_STR(match("bidctl query request 7 host 10.0.0.2", "bidctl query request 8"),
		  "bidctl request is 0x7, not 0x8");
	CHECK_STR(match("bidctl query request 7", "bidctl query response"), "bidctl flags is 1, not 3");
	CHECK_STR(match("bidctl query request 7 sum bad", "bidctl"), "bidctl has a wrong checksum");
	CHECK_STR(match("bidctl query request 7 source 0", "bidctl"), "bidctl has no boot id");
	CHECK_STR(match("bidctl query request 7 / 00", "bidctl"), "bidctl has bytes behind its header");
	CHECK_STR(match("bidctl bcast host 10.0.0.2", "bidctl host 10.0.0.3"), "bidctl host is 10.0.0.2, not 10.0.0.3");
	CHECK_STR(match("bid source 0", "bid"), "bid has no boot id");
	CHECK_STR(match("bid protocol 9 / chan", "bid / chan"), "bid carries another protocol");
	CHECK_STR(match("bid / chan request seq 5 len 3 / pattern 4", "bid / chan / *"), "chan has a wrong length");
	CHECK_STR(match("bid / chan request seq 5", "bid / chan reply seq 5"), "chan flags is 3, not 2");
	CHECK_STR(match("bid / chan request seq 5", "bid / chan seq 6"), "chan seq is 5, not 6");
	CHECK_STR(match("bid / chan probe / cut 57", "bid / chan"), "chan does not fit into 19 bytes");
}

/* Frames are printed if they differ from what was expected. */
TEST(headers_of_the_rpc_suite_are_printed)
{
	wrong("host 10.0.0.1/24 graph chantest.dot\nexpect bidctl query", "bidctl flags 4 sum 0x");
	wrong("host 10.0.0.1/24 graph udp-over-blast.dot\n"
	      "inject ip 10.0.0.2 > 10.0.0.1 / blast send / udp 5000 > 2001 / 00\nexpect nothing",
	      "proto 101 sum");
	wrong("host 10.0.0.1/24 graph udp-over-blast.dot\n"
	      "inject ip 10.0.0.2 > 10.0.0.1 / blast send / udp 5000 > 2001 / 00\nexpect nothing",
	      " / blast len 9 / udp 2001 > 5000 len 9 sum 0x");
}

/* Compares this folder's checksum with one computed by hand: RFC 1071, 3. */
TEST(checksum_agrees_with_rfc_1071)
{
	static const uint8_t bytes[] = { 0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7 };

	CHECK_EQ(checksum_end(checksum_add(0, bytes, sizeof(bytes))), (uint16_t)~0xddf2);
}

TEST(expressions_are_computed)
{
	struct names names = { .host = { 0x0a000001 }, .link = { 0x020000000001 }, .host_count = 1 };
	char why[PACKET_WHY];
	uint64_t number;

	REQUIRE(name_set(&names, "n", 7));
	static const struct {
		const char *text;
		uint64_t number;
	} sums[] = {
		{ "12", 12 },
		{ "0x0c", 12 },
		{ "2+3*4", 14 },
		{ "$n*8+8", 64 },
		{ "100-$n*2-1", 85 },
		{ "100/$n%4", 2 },
		{ "10.0.0.2", 0x0a000002 },
		{ "10.0.1.0+$n", 0x0a000107 },
		{ "02:00:00:00:00:01", 0x020000000001 },
		{ "@10.0.0.1", 0x020000000001 },
		{ "@10.0.0.2", 0x02010a000002 },
		{ "broadcast", 0xffffffffffff },
	};
	for (unsigned i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
		CHECK(number_parse(&names, sums[i].text, &number, why));
		CHECK_EQ(number, sums[i].number);
	}
	CHECK(!number_parse(&names, "10.0.0.256", &number, why));
	CHECK(!number_parse(&names, "10.0.0", &number, why));
	CHECK(!number_parse(&names, "1+", &number, why));
	CHECK(!number_parse(&names, "", &number, why));
	CHECK(!number_parse(&names, "1%0", &number, why));
}

/* ---- the table of docs/conformance.md ---- */

static char *
read_table(void)
{
	FILE *stream = fopen(CONFORMANCE_ROOT "/docs/conformance.md", "r");
	char *text = NULL;
	size_t size = 0;

	REQUIRE(stream != NULL && getdelim(&text, &size, '\0', stream) > 0);
	fclose(stream);
	return text;
}

/* Returns the number of scripts; each must be in the table as `FOLDER/NAME`. */
static unsigned
check_scripts(const char *table)
{
	static const char ending[] = ".packets";
	char folder[] = CONFORMANCE_ROOT "/tests/conformance", *roots[] = { folder, NULL }, quoted[512];
	FTS *tree = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, NULL);
	unsigned count = 0;
	FTSENT *entry;

	REQUIRE(tree != NULL);
	while ((entry = fts_read(tree)) != NULL) {
		const char *name = entry->fts_path + strlen(folder) + 1, *end = strstr(entry->fts_name, ending);

		if (entry->fts_info != FTS_F || end == NULL)
			continue;
		snprintf(quoted, sizeof(quoted), "`%.*s`", (int)(strlen(name) - strlen(ending)), name);
		if (strstr(table, quoted) == NULL)
			fprintf(stderr, "\n%s is not in docs/conformance.md\n", quoted);
		CHECK_HAS(table, quoted);
		count++;
	}
	fts_close(tree);
	return count;
}

TEST(table_and_scripts_correspond)
{
	static const char *const kinds[] = { "`rfc", "`attacks/", "`blast/", "`bidctl/", "`bid/", "`chan/", "`tcp/" };
	char *table = read_table(), path[512];
	unsigned named = 0;

	CHECK(check_scripts(table) > 200);
	for (unsigned kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
		for (const char *at = table; (at = strstr(at, kinds[kind])) != NULL; at++, named++) {
			FILE *stream;

			snprintf(path, sizeof(path), CONFORMANCE_ROOT "/tests/conformance/%.*s.packets",
				 (int)strcspn(at + 1, "`"), at + 1);
			stream = fopen(path, "r");
			if (stream == NULL)
				fprintf(stderr, "\nthere is no %s\n", path);
			CHECK(stream != NULL);
			if (stream != NULL)
				fclose(stream);
		}
	}
	CHECK(named > 200);
	free(table);
}

TEST(table_names_each_must_of_rfc_9293)
{
	enum { MUSTS = 69 };
	char *table = read_table(), *begin = strstr(table, "### RFC 9293"), *end, number[16];

	REQUIRE(begin != NULL);
	end = strstr(begin + 1, "\n### ");
	REQUIRE(end != NULL);
	*end = '\0';
	for (unsigned i = 1; i <= MUSTS; i++) {
		const char *at = begin;
		bool is_named = false;

		snprintf(number, sizeof(number), "MUST-%u", i);
		while (!is_named && (at = strstr(at, number)) != NULL) {
			at += strlen(number);
			is_named = *at < '0' || *at > '9';
		}
		if (!is_named)
			fprintf(stderr, "\n%s is not in docs/conformance.md\n", number);
		CHECK(is_named);
	}
	free(table);
}
