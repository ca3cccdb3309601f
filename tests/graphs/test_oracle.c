/*
 * test_oracle.c - our parser against graphviz's, libcgraph: both read the same graph or both refuse a text, except for
 * the texts that we refuse on purpose.
 */
#include <glob.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/graphs/errors.h"
#include "tests/graphs/oracle.h"
#include "tests/random.h"

/* Parts of our errors for texts that libcgraph accepts (it also ignores everything after a graph). */
static const char *const on_purpose[] = {
	"this graph is undirected",
	"this graph is directed",
	/* the order of statements would matter or be unclear */
	"several nodes at the end of an edge",
	"several nodes in braces",
	"attributes after a subgraph",
	"[...]\" after the first node",
	"[...]\" in a subgraph",
	" in a subgraph: ",
	" here and \"",
	/* names, which are printed and passed to --set */
	"the node's name",
	"a node's name",
	"has the port",
	/* features that no graph file needs: macros (node x = [...]), joined HTML-like strings, 12ab as 12 and ab */
	": expected [\n",
	"expected a quoted string on both sides of +",
	"starts with a number",
	/* bounds */
	"more than ",
	"nested deeper than",
	"a default of",
};

/* Results by kind. */
struct counts {
	unsigned read, refused_by_both, refused_on_purpose;
};

static bool
is_on_purpose(const struct xk_graph_errors *errors)
{
	char *report = error_lines(errors);
	bool found = false;

	for (size_t i = 0; i < XK_ARRAY_LENGTH(on_purpose); i++)
		found |= strstr(report, on_purpose[i]) != NULL;
	free(report);
	return found;
}

/* Returns true if a prefix of text is a graph: libcgraph ignores the rest. */
static bool
begins_with_graph(const char *text, enum xk_graph_kind kind)
{
	bool found = false;

	for (const char *end = strchr(text, '}'); end != NULL && !found; end = strchr(end + 1, '}')) {
		struct xk_graph_errors errors = { 0 };
		struct xk_graph *graph = xk_graph_read_text_kind("g", text, (size_t)(end - text) + 1, kind, &errors);

		found = graph != NULL;
		xk_graph_free(graph);
		xk_graph_errors_clear(&errors);
	}
	return found;
}

/* Runs libcgraph in a child process: when it refuses a text, it leaks and its lexer keeps its state. */
static bool
libcgraph_reads(const char *text)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		agseterr(AGMAX);
		_exit(agmemread(text) == NULL);
	}
	REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
	REQUIRE(WIFEXITED(status));
	return WEXITSTATUS(status) == 0;
}

static void
compare_kind(const char *text, enum xk_graph_kind kind, struct counts *counts)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph = xk_graph_read_text_kind("g", text, strlen(text), kind, &errors);
	bool same = true;

	if (graph != NULL && !graph->refused) {
		same = oracle_agrees(graph, text, strlen(text));
		counts->read++;
	} else if (is_on_purpose(&errors) || begins_with_graph(text, kind)) {
		counts->refused_on_purpose++;
	} else {
		same = !libcgraph_reads(text);
		counts->refused_by_both++;
	}
	if (!same) {
		fprintf(stderr, "\nlibcgraph differs on this %s:\n%s\n", kind == XK_GRAPH_NETWORK ? "graph" : "digraph",
			text);
		xk_graph_errors_print(&errors, stderr);
	}
	CHECK(same);
	xk_graph_free(graph);
	xk_graph_errors_clear(&errors);
}

TEST(graph_files_in_the_tree_are_read_alike)
{
	static const char *const patterns[] = { "graphs/*.dot", "graphs/net/*.dot", "docs/examples/*.dot",
						"experiments/*/*.dot", "tests/*/*.dot" };
	glob_t files = { .gl_pathc = 0 };

	REQUIRE(chdir(TEST_ROOT) == 0);
	for (size_t i = 0; i < XK_ARRAY_LENGTH(patterns); i++)
		REQUIRE(glob(patterns[i], i == 0 ? 0 : GLOB_APPEND, NULL, &files) == 0);
	CHECK(files.gl_pathc > 40);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		struct xk_graph_errors errors = { 0 };
		char text[1 << 16] = "";
		FILE *stream = fopen(files.gl_pathv[i], "re");
		struct xk_graph *graph;
		size_t size;

		REQUIRE(stream != NULL);
		size = fread(text, 1, sizeof(text), stream);
		REQUIRE(size < sizeof(text));
		fclose(stream);
		graph = xk_graph_read_text_kind(
			files.gl_pathv[i], text, size,
			xk_graph_file_is_network(files.gl_pathv[i]) ? XK_GRAPH_NETWORK : XK_GRAPH_PROTOCOLS, &errors);
		xk_graph_errors_print(&errors, stderr);
		REQUIRE(graph != NULL && !graph->refused);
		CHECK(oracle_agrees(graph, text, size));
		xk_graph_free(graph);
	}
	globfree(&files);
}

/* Tried as graphs of both kinds: % stands for the keyword, @ for the edge operator. */
static const char *const odd[] = {
	"",
	" ",
	"// x",
	"{ }",
	"a",
	"%",
	"% x { }",
	"%{}",
	"%%{}",
	"strict",
	"strict {}",
	"strict strict % {}",
	"% {} }",
	"% {} %{}",
	"% {",
	"% }",
	"% { } # x",
	"% { } // x",
	"% { } /* x",
	"% { } \"",
	"x % {}",
	/* keywords */
	"STRICT % {}",
	"StRiCt % g { Node [x=1] EDGE [y=2] Graph [z=3] SubGraph s { a } a @ b }",
	"% node {}",
	"% \"node\" {}",
	"% { node }",
	"% { \"node\" @ \"edge\" }",
	"% { x=graph }",
	"% { a [edge=x] }",
	"% { strict }",
	"% { nodes @ edges @ strictly @ graph_ }",
	"% { a [x=subgraph] }",
	"% { graph=1 }",
	"% { node; }",
	"% { edge = x }",
	"% { digraph }",
	"% { digraph {} }",
	"% { a @ node }",
	/* names and numbers */
	"% g {}",
	"% \"\" {}",
	"% <g> {}",
	"% \"a\" + \"b\" {}",
	"% a + b {}",
	"% 1 {}",
	"% -1.5 {}",
	"% a b {}",
	"% { -1 @ .5 @ 3. @ 1.25 @ -.5 @ 00 }",
	"% { a @-1 }",
	"% { 1@2 }",
	"% { 1 @ - 2 }",
	"% { a [x=-] }",
	"% { a [x=.] }",
	"% { a [x=1..2] }",
	"% { a [x=1.2.3] }",
	"% { a [x=-1-2] }",
	"% { a [x=--1] }",
	"% { a [x=12ab] }",
	"% { a [x=1e5] }",
	"% { _a1 @ A_ }",
	"% { a.b }",
	"% { a-b }",
	"% { a [x=\xc3\xa4\xff] }",
	"% { a [\xc3\xa4=1] }",
	"% { a [1=2, \"x y\"=3, <b>=4] }",
	"% { \"a.b-c\" @ d }",
	/* strings */
	"% { a [x=\"\"] }",
	"% { a [x=\"\\\"\"] }",
	"% { a [x=\"\\\\\"] }",
	"% { a [x=\"\\\\\\\"\"] }",
	"% { a [x=\"\\n\\l\\N\\x\\\t\"] }",
	"% { a [x=\"1\n2\"] }",
	"% { a [x=\"1\\\n2\"] }",
	"% { a [x=\"1\\\\\n2\"] }",
	"% { a [x=\"1\\\n\\\n2\"] }",
	"% { a [x=\"1\\\r2\"] }",
	"% { a [x=\"1\\\r\n2\"] }",
	"% { a [x=\"1\r\n2\"] }",
	"% { a [x=\"/* // # <\"] }",
	"% { a [x=\"\n# 1\n\"] }",
	"% { a [x=\" ] }",
	"% { a [x=\"\\",
	"% { a [x=\"\\\"",
	"% { a [x=\"\\\n",
	"% { a [x=\"\"\"\"] }",
	"% { \"a\"b }",
	"% { \"a\"@\"b\" }",
	"% { a [x=\"1\"y=2z=3] }",
	"% { a [x=\"1\" + \"2\"+\"3\" y=4] }",
	"% { \"a\" + \"b\" @ ab }",
	"% { a [\"x\" + \"y\" = \"1\" + \"2\"] }",
	"% { a [x=\"1\" + 2] }",
	"% { a [x=1 + \"2\"] }",
	"% { a [x=\"1\" +] }",
	"% { a [x=+\"1\"] }",
	"% { a [x=\"1\" /* + */ + // c\n \"2\"] }",
	"% { a [x=<a> + \"b\"] }",
	"% { a [x=\"b\" + <a>] }",
	/* HTML-like strings */
	"% { a [x=<>] }",
	"% { a [x=<<b>1</b>>] b [x=\"<b>1</b>\"] }",
	"% { a [x=<\n\"<i>\n\">] }",
	"% { a [x=<<>] }",
	"% { a [x=<>>] }",
	"% { a [x=<&gt;\\>] }",
	"% { a [x=<<!-- > -->>] }",
	"% { a [x=<<!-- <b> -->>] }",
	"% { <a> }",
	"% { a [x=<",
	"% { a [x=\"<\"] b [y=\">\"] }",
	"% { edge [x=<i>] a @ b [y=<>] a @ c [x=<j>] }",
	"% { node [x=<i>] a; b [x=\"k\"]; graph [y=<z>] }",
	/* comments and preprocessor lines */
	"/**/%/***/g/* * / */{/*/*/a}",
	"% { a /* /* */ @ b }",
	"% { a /* b }",
	"% { a */ b }",
	"% { a // b\n @ c // }\n}",
	"% { a # b\n @ c #}\n}",
	"#!/bin/xk\n% {}",
	"# 1 \"x.dot\"\n% {\n# 7 \"y.dot\" 2\na\n #line 3\n@ b }",
	"# \"\n% {}",
	"#define X % {\n% {}",
	"% { a / b }",
	"% { a // b\r @ c\n}",
	"% { a # b\r @ c\n}",
	"% {\r\n a @ b\r\n # x\r\n}\r\n",
	"%\t{\ta\t}",
	"% { a \f b }",
	"% { a \v b }",
	"\357\273\277% { a }",
	"% { a \357\273\277 b }",
	"\357\273% {}",
	"% { a \001 }",
	"% { a @@ b }",
	"% { a $ b }",
	/* statements */
	"% { ; }",
	"% { a;; }",
	"% { a;b;c }",
	"% { a b c }",
	"% { a, b, c }",
	"% { a, b [x=1] }",
	"% { a, }",
	"% { ,a }",
	"% { a @ b @ c @ a }",
	"% { a @ b @ c [x=1][y=2] [z=3]; }",
	"% { a @ }",
	"% { @ a }",
	"% { a @ @ b }",
	"% { a @ a; a @ a }",
	"strict % { a @ b [x=1]; b @ a [y=2]; a @ b [z=3]; a @ a; a @ a }",
	"% { a @ b; b @ a; a @ b }",
	"% { a -> b }",
	"% { a -- b }",
	"% { a - b }",
	"% { a > b }",
	"% { a --> b }",
	"% { a <- b }",
	"% { a @ {b c} }",
	"% { {a b} @ c }",
	"% { a @ subgraph s {b} @ c }",
	"% { a, b @ c }",
	"% { a @ b, c }",
	"% { a:p @ b:p:n }",
	"% { a:p:q:r }",
	"% { a: }",
	"% { :p }",
	"% { a:\"p\" + \"q\" }",
	"% { x=1 }",
	"% { x=1; x=1 \"y\"=2 <z>=3 }",
	"% { x=1 x=2 }",
	"% { x= }",
	"% { =1 }",
	"% { x=1, y=2 }",
	"% { x==1 }",
	"% { x=a=b }",
	"% { a [x=1] [x=1] }",
	"% { a [x=1]; a [x=2] }",
	"% { a [] }",
	"% { a [ }",
	"% { a ] }",
	"% { a [x] }",
	"% { a [x,y=1] }",
	"% { a [x=] }",
	"% { a [=1] }",
	"% { a [;] }",
	"% { a [,] }",
	"% { a [x=1,] }",
	"% { a [x=1;] }",
	"% { a [x=1,,y=2] }",
	"% { a [x=1,;y=2] }",
	"% { a [x=1 y=2;z=3,w=4] }",
	"% { [x=1] }",
	"% { a [[x=1]] }",
	"% { a [{x=1}] }",
	"% { a [@foo] }",
	"% { a (b) }",
	/* defaults */
	"% { node [x=1] edge [y=2] graph [z=3] a @ b [y=5]; b [x=4 w=6] }",
	"% { node [x=1] [y=2], a }",
	"% { node [x=1]; }",
	"% { node [] edge[] graph[]; }",
	"% { a node [x=1] }",
	"% { a graph [x=1] b y=2 }",
	"% { node x = [a=b] }",
	"% { graph [x=1] graph [x=1] x=1 }",
	"% { node [x=1] node [x=2] a }",
	"% { node [x=\"\"] a [x=\"\"] b [x=1] }",
	"% { node [x=1] a [x=\"\"] b }",
	"% { edge [key=1] a @ b a @ b }",
	/* subgraphs */
	"% { {} }",
	"% { { { a } b } }",
	"% { subgraph { a } }",
	"% { subgraph s { a @ b } subgraph s { a @ b } }",
	"% { subgraph s }",
	"% { subgraph s; a }",
	"% { subgraph a b {} }",
	"% { subgraph \"s\" + \"t\" { a } }",
	"% { subgraph s { label=x; rank=same a } label=y }",
	"% { label=y subgraph s { label=x; a [x=1] } a [z=2] }",
	"% { { graph [color=red] a } b }",
	"% { {a}; {b} }",
	"% { {a} , b }",
	"% { { a }",
	"% { a } }",
	"% { {} [x=1] }",
	"% { { node [x=1] a } }",
	"% { subgraph s { a } s }",
};

/* Writes `of` as a graph of this kind: % stands for the keyword, @ for the edge operator. */
static void
write_kind(const char *of, enum xk_graph_kind kind, char *text, size_t size)
{
	size_t len = 0;

	for (; *of != '\0' && len < size - 8; of++)
		if (*of == '%')
			len += (size_t)snprintf(text + len, size - len, kind == XK_GRAPH_NETWORK ? "graph" : "digraph");
		else if (*of == '@')
			len += (size_t)snprintf(text + len, size - len, kind == XK_GRAPH_NETWORK ? "--" : "->");
		else
			text[len++] = *of;
	REQUIRE(*of == '\0');
	text[len] = '\0';
}

static void
compare(const char *of, struct counts *counts)
{
	char text[4096];

	write_kind(of, XK_GRAPH_PROTOCOLS, text, sizeof(text));
	compare_kind(text, XK_GRAPH_PROTOCOLS, counts);
	write_kind(of, XK_GRAPH_NETWORK, text, sizeof(text));
	compare_kind(text, XK_GRAPH_NETWORK, counts);
}

TEST(odd_texts_are_read_alike)
{
	struct counts counts = { 0 };

	for (size_t i = 0; i < XK_ARRAY_LENGTH(odd); i++)
		compare(odd[i], &counts);
	CHECK(counts.read > 150 && counts.refused_by_both > 150);
}

/* ---- random texts ---- */

enum { TOKENS_MAX = 120 };

struct tokens {
	const char *list[TOKENS_MAX];
	unsigned count;
	uint64_t random;
};

#define PICK(tokens, list) (list)[next_random(&(tokens)->random) % XK_ARRAY_LENGTH(list)]

static const char *const pool[] = {
	"{",        "}",    "[",  "]",  "=",    ";",    ",",      ":",     "@",       "->",   "--",
	"+",        "-",    ".",  "<",  ">",    "\"",   "\\",     "/",     "/*",      "*/",   "//",
	"#",        "(",    "\n", "\r", "\\\n", "%",    "strict", "graph", "digraph", "node", "edge",
	"subgraph", "NODE", "a",  "b",  "1",    "12ab", "\"a\"",  "<b>",   "key",
};
static const char *const names[] = {
	"a", "b", "c", "d", "_e", "F9", "\"g.h-i\"", "\"j\" + \"k\"", "7", "\"a\"", "edge_"
};
static const char *const attributes[] = { "x", "y", "label", "\"z\"", "1", "color", "\"x\" + \"y\"" };
static const char *const values[] = {
	"1",          "-2",       ".5",         "3.",       "\"\"",          "\"a b\"",
	"\"q\\\"q\"", "\"\\\\\"", "\"1\\\n2\"", "\"3\n4\"", "\"5\" + \"6\"", "<h>",
	"<<b>h</b>>", "w",        "\xc3\xa4",   "\"#\"",    "\"//\"",        "\"\\n\"",
};
static const char *const spaces[] = { " ",    " ",  " ", " ", "", "\n", "\t", " /* c */ ", " // c\n", "\n# 3 \"x\"\n",
				      "\r\n", "#\n" };

static bool
chance(struct tokens *tokens, unsigned of)
{
	return next_random(&tokens->random) % of == 0;
}

static void
put(struct tokens *tokens, const char *token)
{
	if (tokens->count < TOKENS_MAX - 8)
		tokens->list[tokens->count++] = token;
}

static void
put_assignment(struct tokens *tokens)
{
	put(tokens, PICK(tokens, attributes));
	put(tokens, "=");
	put(tokens, PICK(tokens, values));
}

static void
put_list(struct tokens *tokens)
{
	static const char *const separators[] = { " ", " ", ",", ";" };

	put(tokens, "[");
	for (uint64_t count = next_random(&tokens->random) % 3; count > 0; count--) {
		put_assignment(tokens);
		put(tokens, PICK(tokens, separators));
	}
	put(tokens, "]");
}

static void put_statement(struct tokens *tokens, unsigned depth);

static void
put_body(struct tokens *tokens, unsigned depth)
{
	static const char *const defaults[] = { "node", "edge", "graph", "Node", "EDGE" };

	put(tokens, "{");
	if (depth == 0)
		while (chance(tokens, 3)) {
			put(tokens, PICK(tokens, defaults));
			put_list(tokens);
		}
	while (!chance(tokens, 5)) {
		put_statement(tokens, depth + 1);
		if (chance(tokens, 2))
			put(tokens, ";");
	}
	put(tokens, "}");
}

static void
put_statement(struct tokens *tokens, unsigned depth)
{
	unsigned kind = (unsigned)(next_random(&tokens->random) % 12);

	if (kind == 0) {
		put_assignment(tokens);
	} else if (kind == 1 && depth < 4) {
		if (chance(tokens, 2))
			put(tokens, "subgraph");
		put_body(tokens, depth);
	} else if (kind == 2) {
		put(tokens, "graph");
		put_list(tokens);
	} else {
		put(tokens, PICK(tokens, names));
		while (kind > 6 && !chance(tokens, 3)) {
			put(tokens, "@");
			put(tokens, PICK(tokens, names));
		}
		while (chance(tokens, 3))
			put_list(tokens);
	}
}

/* Writes a correct graph, perhaps damaged. */
static void
put_graph(struct tokens *tokens)
{
	if (chance(tokens, 6))
		put(tokens, chance(tokens, 2) ? "strict" : "Strict");
	put(tokens, "%");
	if (chance(tokens, 2))
		put(tokens, PICK(tokens, names));
	put_body(tokens, 0);
	while (chance(tokens, 3)) {
		const char **at = &tokens->list[next_random(&tokens->random) % tokens->count];

		switch (next_random(&tokens->random) % 3) {
		case 0:
			*at = PICK(tokens, pool);
			break;
		case 1:
			*at = "";
			break;
		default:
			*at = PICK(tokens, tokens->list);
			*at = *at == NULL ? "" : *at;
		}
	}
}

/* Writes a few words in braces. */
static void
put_words(struct tokens *tokens)
{
	put(tokens, "%");
	put(tokens, "{");
	while (!chance(tokens, 6))
		put(tokens, PICK(tokens, pool));
	put(tokens, "}");
}

static void
compare_random(unsigned rounds, void (*make)(struct tokens *tokens), struct counts *counts)
{
	uint64_t seed = test_seed("test_oracle");

	for (unsigned i = 0; i < rounds; i++) {
		struct tokens tokens = { .random = (seed << 32) + i + 1 };
		char of[4096];
		size_t len = 0;

		next_random(&tokens.random);
		next_random(&tokens.random);
		make(&tokens);
		for (unsigned k = 0; k < tokens.count && len < sizeof(of) / 3; k++)
			len += (size_t)snprintf(of + len, sizeof(of) - len, "%s%s", tokens.list[k],
						PICK(&tokens, spaces));
		compare(of, counts);
	}
}

TEST(random_graphs_are_read_alike)
{
	unsigned rounds = test_is_long() ? 5000 : 300;
	struct counts counts = { 0 };

	compare_random(rounds, put_graph, &counts);
	printf("(%u read, %u refused by both, %u on purpose) ", counts.read, counts.refused_by_both,
	       counts.refused_on_purpose);
	CHECK(counts.read > rounds / 2 && counts.refused_by_both > rounds / 5);
}

TEST(random_words_are_read_alike)
{
	unsigned rounds = test_is_long() ? 2500 : 200;
	struct counts counts = { 0 };

	compare_random(rounds, put_words, &counts);
	printf("(%u read, %u refused by both, %u on purpose) ", counts.read, counts.refused_by_both,
	       counts.refused_on_purpose);
	CHECK(counts.read > rounds / 5 && counts.refused_by_both > rounds / 2);
}
