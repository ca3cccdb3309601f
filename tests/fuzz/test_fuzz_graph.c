/* test_fuzz_graph.c - seeded damage to graph files and --set options; properties: fuzz_graph.c. */
#include "tests/fuzz/fuzz.h"
#include "tests/test.h"
#include "xkernel/base.h"

enum { GRAPH_MAX = 4096 };

/* Valid graphs, the last two with options. */
static const char *const good[] = {
	"digraph udptest { udptest -> udp; udp -> ip; ip -> vnet; vnet -> eth; vnet -> arp; arp -> eth; eth -> port; }",
	"// two links\n"
	"digraph two { graph [budget=\"20us\", carry=8]; eth1 [protocol=eth]; eth2 [protocol=eth];\n"
	"arp1 [protocol=arp]; arp2 [protocol=arp]; port1 [protocol=port]; port2 [protocol=port, dev=\"a\\\"b\" + "
	"\"c\"];\n"
	"udptest -> udp [handoff=explicit]; udp -> ip [budget=\"3us\"]; ip -> vnet -> eth1; vnet -> arp1; vnet -> "
	"eth2;\n"
	"vnet -> arp2; arp1 -> eth1; arp2 -> eth2; eth1 -> port1; eth2 -> port2 }",
	"strict digraph \"g\" { node [implicit=fail] /* c */ edge [label=<i<b>i</b>>] { rank=same; udp; ip }\n"
	"# 1\nt2 [protocol=udptest, port=2002]; t2 -> udp; udptest -> udp -> ip -> vnet -> eth -> port\n"
	"subgraph cluster_x { vnet -> arp [role=resolver]; arp -> eth } ip [order=session, sessions=5] }"
	"\001vnet.address=10.77.0.2/24\001graph.resume=driver",
	"digraph g { udptest -> udp [number=0x11]; udp -> ip [handoff=never]; ip -> vnet; vnet -> arp; vnet -> eth "
	"[role=link];"
	"arp -> eth; eth -> port } "
	"\001ip.gateway=10.77.0.1\001ip.implicit=spin(3us)\001udp.checksum=no\001arp.entries=1k",
};

static const char *const pieces[] = {
	"->",       "--",       "{",         "}",        "[",        "]",          "=",        ";",
	",",        "\"",       "\\",        "+",        "<",        ">",          "/*",       "*/",
	"//",       "\n#",      "\n",        ":",        "\001",     ".",          "digraph",  "graph",
	"subgraph", "node",     "edge",      "strict",   "key=",     "role=",      "handoff=", "budget=",
	"carry=",   "number=",  "protocol=", "sessions", "implicit", "resume=",    "order=",   "trace=",
	"link",     "resolver", "\"20us\"",  "spin(",    "fail",     "4294967296", "-1",       "0x",
	"udp",      "eth",      "arp",       "vnet",     "a -> a",   "port:n",     "\xc3\xa4", "\xff",
};

static void
insert(uint8_t *text, size_t *len, size_t max, size_t at, const char *piece)
{
	size_t added = strlen(piece);

	if (*len + added > max)
		return;
	memmove(text + at + added, text + at, *len - at);
	memcpy(text + at, piece, added);
	*len += added;
}

static void
damage(uint8_t *text, size_t *len, size_t max, uint64_t *random)
{
	size_t at = *len == 0 ? 0 : fuzz_random(random) % *len, gone;

	switch (*len == 0 ? 0 : fuzz_random(random) % 6) {
	case 0:
	case 1:
		insert(text, len, max, at, pieces[fuzz_random(random) % XK_ARRAY_LENGTH(pieces)]);
		break;
	case 2:
		gone = 1 + fuzz_random(random) % 8;
		gone = gone < *len - at ? gone : *len - at;
		memmove(text + at, text + at + gone, *len - at - gone);
		*len -= gone;
		break;
	case 3:
		text[at] = (uint8_t)fuzz_random(random);
		break;
	case 4:
		text[at] ^= (uint8_t)(1u << fuzz_random(random) % 8);
		break;
	default:
		if (fuzz_random(random) % 8 == 0)
			*len = at;
	}
}

static size_t
make_graph(uint8_t *text, size_t max, uint64_t seed)
{
	const char *from = good[fuzz_random(&seed) % XK_ARRAY_LENGTH(good)];
	size_t len = strlen(from);

	memcpy(text, from, len);
	for (uint64_t changes = fuzz_random(&seed) % 6; changes > 0; changes--)
		damage(text, &len, max, &seed);
	return len;
}

TEST_OF(corpus_breaks_nothing, CHECK(fuzz_corpus("graph")));
TEST_OF(damaged_graphs_break_nothing, CHECK(fuzz_runs(1500, GRAPH_MAX, make_graph)));
