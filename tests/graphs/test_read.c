/* test_read.c - reading graph files: lines, the DOT language, refused texts, bounds. */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/graphs/types.h"

static const struct xk_graph_node *
node(const struct xk_graph *graph, const char *name)
{
	int index = xk_graph_node_find(graph, name);

	REQUIRE(index >= 0);
	return &graph->nodes[index];
}

static const char *
value(const struct xk_graph_attributes *attributes, const char *name, unsigned *line)
{
	const struct xk_graph_attribute *a = xk_graph_attribute_find(attributes, name);

	if (a == NULL)
		return "none";
	*line = a->line;
	return a->value;
}

static struct xk_graph *
read_text(const char *text, struct xk_graph_errors *errors)
{
	return xk_graph_read_text("g", text, strlen(text), errors);
}

TEST(nodes_edges_and_attributes_have_their_lines)
{
	static const char text[] = "// one\n/* two\n three */ digraph x {\n"
				   "  b -> a\n"
				   "    -> c [handoff=explicit,\n"
				   "          x=\"1\\\n2\"];\n"
				   "  a [y=3\n     z=4]\n"
				   "  budget=5\n"
				   "  d;\n"
				   "}\n";
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph = read_text(text, &errors);
	unsigned line = 0;

	REQUIRE(graph != NULL);
	CHECK_EQ(errors.count, 0);
	CHECK_EQ(graph->line, 3);
	CHECK_EQ(graph->node_count, 4);
	CHECK_EQ(graph->edge_count, 2);
	CHECK_EQ(node(graph, "b")->line, 4);
	CHECK_EQ(node(graph, "c")->line, 5);
	CHECK_EQ(node(graph, "d")->line, 11);
	CHECK_STR(graph->nodes[graph->edges[0].upper].name, "a");
	CHECK_EQ(graph->edges[0].line, 4);
	CHECK_STR(value(&graph->edges[1].attributes, "handoff", &line), "explicit");
	CHECK_EQ(line, 5);
	CHECK_STR(value(&graph->edges[0].attributes, "x", &line), "12");
	CHECK_EQ(line, 6);
	CHECK_STR(value(&node(graph, "a")->attributes, "z", &line), "4");
	CHECK_EQ(line, 9);
	CHECK_STR(value(&graph->attributes, "budget", &line), "5");
	CHECK_EQ(line, 10);
	xk_graph_free(graph);
}

TEST(the_whole_dot_language_is_read)
{
	static const char *const good[] = {
		"digraph {}",
		"strict digraph \"a\" + \"b\" { \"a\" + \"b\" -> c -> ab }",
		"DIGRAPH g { GRAPH [a=b] NODE [c=d] EDGE [e=f] x->y }",
		"digraph g { a [x=1 y=2, z=\"3\"; w=4,] [] [v=<a <b>c</b>>] ; b, c [x=5] }",
		"digraph g { -1 -> .5 -> 3. -> 1.25 }",
		"digraph g { subgraph cluster_1 { label=\"one\"; a; b } { rank=same; a; b } a -> b }",
		"\357\273\277digraph g { a // b -> c\n # 7 \"x\"\n -> /* d -> */ b # x\n }",
		"#!/usr/bin/xk\r\n# 99 \"elsewhere\"\r\ndigraph g { a -> b }\r\n",
		"digraph g { \xc3\xa4 = 1; x = \"\\\"q\\\" \\\\ \\n\" }",
	};

	for (size_t i = 0; i < XK_ARRAY_LENGTH(good); i++) {
		struct xk_graph_errors errors = { 0 };
		struct xk_graph *graph = read_text(good[i], &errors);

		xk_graph_errors_print(&errors, stderr);
		CHECK_EQ(errors.count, 0);
		CHECK(graph != NULL && !graph->refused);
		xk_graph_errors_clear(&errors);
		xk_graph_free(graph);
	}
}

TEST(strings_follow_the_dot_language)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph = read_text("digraph g { a [x=\"q\\\"\\\\\\n\" + \"r\", y=<b>, z=\"\"] }", &errors);
	unsigned line;

	REQUIRE(graph != NULL);
	CHECK_STR(value(&node(graph, "a")->attributes, "x", &line), "q\"\\\\\\nr");
	CHECK_STR(value(&node(graph, "a")->attributes, "y", &line), "b");
	CHECK(xk_graph_attribute_find(&node(graph, "a")->attributes, "y")->html);
	CHECK_STR(value(&node(graph, "a")->attributes, "z", &line), "");
	xk_graph_free(graph);
}

TEST(defaults_before_the_first_node_apply_and_can_be_overridden)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph = read_text("digraph g {\nnode [x=1]\nedge [y=2]\na [x=3]; a -> b\n}", &errors);
	unsigned line = 0;

	REQUIRE(graph != NULL && !graph->refused);
	CHECK_STR(value(&node(graph, "a")->attributes, "x", &line), "3");
	CHECK_EQ(line, 4);
	CHECK_STR(value(&node(graph, "b")->attributes, "x", &line), "1");
	CHECK_EQ(line, 2);
	CHECK_STR(value(&graph->edges[0].attributes, "y", &line), "2");
	CHECK_EQ(line, 3);
	xk_graph_free(graph);
}

TEST(edges_of_a_node_keep_their_order)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph = read_text("digraph g { d; c; b; a -> c; x -> y; a -> b; a -> d; a -> b }", &errors);
	static const char *const lowers[] = { "c", "b", "d", "b", "y" };

	REQUIRE(graph != NULL && graph->edge_count == 5);
	for (unsigned i = 0; i < 5; i++)
		CHECK_STR(graph->nodes[graph->edges[i].lower].name, lowers[i]);
	xk_graph_free(graph);
}

TEST(strict_graph_has_one_edge_per_pair)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph = read_text("strict digraph g { a -> b [x=1]\na -> b [y=2] }", &errors);
	unsigned line;

	REQUIRE(graph != NULL && !graph->refused);
	CHECK_EQ(graph->edge_count, 1);
	CHECK_EQ(graph->edges[0].line, 1);
	CHECK_STR(value(&graph->edges[0].attributes, "y", &line), "2");
	xk_graph_free(graph);
}

TEST(syntax_errors_are_reported_with_their_line)
{
	types_refuse("digraph g {\n a -> ;\n}", "g:2: syntax error at ';': expected a node after ->\n");
	types_refuse("digraph g {\n a -> b\n", "g:3: syntax error at the end of the file: expected }\n");
	types_refuse("digraph g {\n a [b]\n}", "g:2: syntax error at ']': expected = and a value after an attribute's "
					       "name\n");
	types_refuse("digraph g {\n a [b=]\n}", "g:2: syntax error at ']': expected a value\n");
	types_refuse("digraph g {\n\n\"a }", "g:3: this string is not closed by \"\n");
	types_refuse("digraph g {\n/* a }", "g:2: this comment is not closed by */\n");
	types_refuse("digraph g {\na [x=<b<c>]\n}", "g:2: this HTML-like string is not closed by >\n");
	types_refuse("digraph g { a; ; b }", "g:1: syntax error at ';': expected a statement or }\n");
	types_refuse("digraph g { a \f b }", "g:1: syntax error at '\\x0c': expected a statement or }\n");
	types_refuse("digraph g {}\n}", "g:2: syntax error at '}': expected the end of the file after the graph\n");
	types_refuse("hello\n", "g:1: syntax error at \"hello\": expected digraph\n");
	types_refuse("digraph g { budget=20us }", "g:1: \"20us\" starts with a number but is not one: "
						  "put it in quotes\n");
	types_refuse("digraph g { a [b=\"c\" + d] }",
		     "g:1: syntax error at \"d\": expected a quoted string on both sides of +\n");
}

TEST(only_one_directed_graph_is_accepted)
{
	types_refuse("", "g:1: there is no graph in this file: expected digraph NAME { ... }\n");
	types_refuse("\n// nothing\n", "g:1: there is no graph in this file: expected digraph NAME { ... }\n");
	types_refuse_with("\ngraph g { a -- b }", "g:2: this graph is undirected, as networks of hosts are: ");
	types_refuse_with("strict graph g {}", "g:1: this graph is undirected, as networks of hosts are: ");
	types_refuse("digraph g {\na -- b\n}",
		     "g:2: -- joins nodes of an undirected graph: edges are written upper -> lower\n");
	types_refuse("digraph a {}\ndigraph b {}", "g:2: a second graph begins here: a file contains only one\n");
}

TEST(ports_on_nodes_are_refused)
{
	types_refuse_with("digraph g {\na:p -> b:q:n }", "g:2: node a has the port \"p\"");
	types_refuse_with("digraph g {\na:p -> b:q:n }", "g:2: node b has the port \"n\"");
	types_refuse_with("digraph g {\na:p; }", "g:2: node a has the port \"p\"");
	types_refuse_with("digraph g {\n\na:p:q:r -> b }", "g:3: node a has the port \"r\"");
}

TEST(several_nodes_at_one_end_of_an_edge_are_refused)
{
	types_refuse_with("digraph g {\na -> { b c } }", "g:2: several nodes in braces at the end of an edge");
	types_refuse_with("digraph g {\n{ b c } -> a }", "g:2: several nodes in braces at the end of an edge");
	types_refuse_with("digraph g {\na, b -> c }", "g:2: several nodes at the end of an edge");
	types_refuse_with("digraph g {\na -> b, c }", "g:2: several nodes at the end of an edge");
	types_refuse_with("digraph g { subgraph s { a }\n[x=1] }", "attributes after a subgraph");
}

TEST(defaults_after_the_first_node_are_refused)
{
	types_refuse_with("digraph g {\na;\nnode [x=1] }", "g:3: \"node [...]\" after the first node, a on line 2");
	types_refuse_with("digraph g {\na;\nedge [x=1] }", "g:3: \"edge [...]\" after the first node, a on line 2");
	types_refuse_with("digraph g { subgraph s {\nnode [x=1] } }", "g:2: \"node [...]\" in a subgraph");
}

TEST(attribute_has_one_value_everywhere)
{
	types_refuse_with("digraph g {\na [x=1]\na [x=2] }", "g:3: x of a is \"2\" here and \"1\" on line 2");
	types_refuse_with("digraph g {\nbudget=1\ngraph [budget=2] }",
			  "g:3: budget of the graph is \"2\" here and \"1\" on line 2");
	types_refuse_with("digraph g { node [x=1] node [x=2] }", "x of nodes is \"2\" here and \"1\" on line 1");
	types_refuse_with("strict digraph g { a -> b [x=1] a -> b [x=2] }",
			  "x of the edge a -> b is \"2\" here and \"1\" on line 1");
	types_refuse_with("digraph g { subgraph s { budget=1 } }", "budget in a subgraph");
}

TEST(invalid_names_are_refused)
{
	types_refuse_with("digraph g { <a> -> b }", "cannot be the HTML-like string <a>");
	types_refuse_with("digraph g { \"a b\" }", "the node's name \"a b\" has characters other than letters, digits");
	types_refuse_with("digraph g { \"\" }", "has 0 characters");
	types_refuse_with("digraph g { \"a\n\x1b[2J\" }", "\"a\\x0a\\x1b[2J\" has characters other");
	types_refuse_with("digraph g { a2345678901234567890123456789012345678901234567890123456789012345 }",
			  "has 65 characters");
}

/* In DOT, edges with the same key are one edge. */
TEST(keys_that_merge_edges_are_refused)
{
	types_accept("digraph g { eth -> port [key=x] }");
	types_accept("digraph g { edge [key=x] eth -> port }");
	types_refuse_with("digraph g {\na -> b [key=x]; a -> b [key=x] }",
			  "g:2: a -> b has the key \"x\" twice, which merges the two edges\n");
}

TEST(a_nul_byte_is_refused_with_its_line)
{
	static const char text[] = "digraph g {\na -> b\0 }\n";
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph = xk_graph_read_text("g", text, sizeof(text) - 1, &errors);

	CHECK(graph == NULL);
	REQUIRE(errors.count == 1);
	CHECK_STR(errors.list[0].text, "g:2: a NUL byte: this is not text");
	xk_graph_errors_clear(&errors);
}

/* Returns head, `count` times `one` (a format for a number), and tail. */
static char *
repeated(const char *head, const char *one, unsigned count, const char *tail)
{
	char *text = NULL;
	size_t len = 0;
	FILE *stream = open_memstream(&text, &len);

	REQUIRE(stream != NULL);
	fputs(head, stream);
	for (unsigned i = 0; i < count; i++) {
		const char *mark = strchr(one, '#');

		if (mark == NULL)
			fputs(one, stream);
		else
			fprintf(stream, "%.*s%u%s", (int)(mark - one), one, i, mark + 1);
	}
	fputs(tail, stream);
	fclose(stream);
	return text;
}

static void
refuse_repeated(const char *head, const char *one, unsigned count, const char *tail, const char *part)
{
	char *text = repeated(head, one, count, tail);

	types_refuse_with(text, part);
	free(text);
}

TEST(file_contents_are_bounded)
{
	refuse_repeated("digraph g {", "n# ", 1001, "}", "more than 1000 nodes");
	refuse_repeated("digraph g {", "a->b;", 4001, "}", "more than 4000 edges");
	refuse_repeated("strict digraph g { a", "->b->a", 4000, "}", "more than 4000 edges");
	refuse_repeated("digraph g { a [", "x#=1 ", 257, "] }", "more than 256 different attributes");
	refuse_repeated("digraph g { a [x=\"\"", "+\"y\"", 257, "] }", "more than 256 strings are joined by +");
	refuse_repeated("digraph g {", "{", 100000, "", "nested deeper than 64");
	refuse_repeated("digraph g { a [x=", "<", 100000, "] }", "not closed by >");
	refuse_repeated("digraph g {", " ", 1 << 20, "}", "is longer than 1048576 bytes");
	refuse_repeated("strict digraph g {", "a->b[p=1 q=1 r=1 s=1 t=1 u=1]", 17000, "}",
			"more than 100000 attributes");
	refuse_repeated("digraph g { edge [b=1 c=1 d=1 e=1 f=1 g=1 h=1 i=1 j=1 k=1 l=1 m=1 n=1 o=1 p=1 q=1 r=1 s=1 t=1 "
			"u=1 v=1 w=1 x=1 y=1 z=1 A=1]",
			"a->b;", 4000, "}", "more than 100000 attributes");
}

TEST(excess_errors_are_only_counted)
{
	struct xk_graph_errors errors = { 0 };
	char *text = repeated("digraph g {", "a:p; ", 150, "}"), *report;
	struct xk_graph *graph = read_text(text, &errors);

	report = error_lines(&errors);
	CHECK_EQ(errors.count, 100);
	CHECK_HAS(report, "and 50 more\n");
	free(report);
	free(text);
	xk_graph_free(graph);
	xk_graph_errors_clear(&errors);
}

static void
refuse_file(const char *file, const char *part)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph = xk_graph_read(file, &errors);

	CHECK(graph == NULL);
	REQUIRE(errors.count == 1);
	CHECK(strncmp(errors.list[0].text, file, strlen(file)) == 0);
	CHECK_HAS(errors.list[0].text, part);
	xk_graph_errors_clear(&errors);
}

TEST(unreadable_files_are_reported)
{
	char directory[] = "/tmp/test_read.XXXXXX", file[64];

	REQUIRE(mkdtemp(directory) != NULL);
	snprintf(file, sizeof(file), "%s/g.dot", directory);
	refuse_file(file, "cannot be read: No such file");
	refuse_file(directory, "is a directory, not a graph file");
	REQUIRE(mknod(file, S_IFREG, 0) == 0);
	if (access(file, R_OK) != 0)
		refuse_file(file, "cannot be read: Permission denied");
	unlink(file);
	rmdir(directory);
	refuse_file("/dev/zero", "is longer than 1048576 bytes");
	refuse_file("/dev/null", "there is no graph in this file");
}

TEST(good_file_is_read_after_bad_ones)
{
	static const char *const bad[] = { "digraph g { a -> \"b", "digraph g { a [x=<b }", "digraph g { /* ", "graph",
					   "digraph g { a -> [ }" };
	struct xk_graph_errors errors = { 0 };

	for (size_t i = 0; i < XK_ARRAY_LENGTH(bad); i++) {
		struct xk_graph *graph = read_text(bad[i], &errors);

		CHECK(graph == NULL);
		CHECK_EQ(errors.count, 1);
		xk_graph_free(graph);
		xk_graph_errors_clear(&errors);
		graph = read_text("digraph g {\n a -> b }", &errors);
		REQUIRE(graph != NULL);
		CHECK_EQ(errors.count, 0);
		CHECK_EQ(node(graph, "a")->line, 2);
		xk_graph_free(graph);
	}
}

TEST(comment_ends_with_its_file)
{
	static const char *const texts[] = { "digraph g { a -> b }#", "digraph g { a -> b }//",
					     "digraph g { a -> b } # c", "digraph g { a -> b } // c",
					     "digraph g { a -> b }" };
	struct xk_graph_errors errors = { 0 };

	for (size_t i = 0; i < XK_ARRAY_LENGTH(texts); i++) {
		struct xk_graph *graph = read_text(texts[i], &errors),
				*next = read_text("digraph g {\n\tc -> d\n}", &errors);

		CHECK_EQ(errors.count, 0);
		REQUIRE(graph != NULL && next != NULL);
		CHECK_EQ(node(next, "c")->line, 2);
		xk_graph_free(graph);
		xk_graph_free(next);
		xk_graph_errors_clear(&errors);
	}
}

TEST(set_changes_attributes_of_nodes_and_the_graph)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph = read_text("digraph g { a [x=1]; \"b.c\" }", &errors);
	unsigned line = 9;

	REQUIRE(graph != NULL);
	CHECK_EQ(xk_graph_set(graph, "a.x=2=3", &errors), 0);
	CHECK_STR(value(&node(graph, "a")->attributes, "x", &line), "2=3");
	CHECK_EQ(line, 0);
	CHECK_EQ(xk_graph_set(graph, "a.y=", &errors), 0);
	CHECK_STR(value(&node(graph, "a")->attributes, "y", &line), "");
	CHECK_EQ(xk_graph_set(graph, "graph.budget=5us", &errors), 0);
	CHECK_STR(value(&graph->attributes, "budget", &line), "5us");
	CHECK_EQ(xk_graph_set(graph, "b.c.x=1", &errors), 0);
	CHECK_STR(value(&node(graph, "b.c")->attributes, "x", &line), "1");
	CHECK_EQ(errors.count, 0);
	xk_graph_free(graph);
}

TEST(set_refuses_unknown_names)
{
	static const char *const bad[] = { "", "a", "a.x", "=", ".x=1", "a.=1", "ax=1", "b.x=1", "a.x.y=1" };

	for (size_t i = 0; i < XK_ARRAY_LENGTH(bad); i++) {
		struct xk_graph_errors errors = { 0 };
		struct xk_graph *graph = read_text("digraph g { a [x=1] }", &errors);

		REQUIRE(graph != NULL);
		CHECK(xk_graph_set(graph, bad[i], &errors) != 0);
		CHECK_EQ(errors.count, 1);
		CHECK(graph->refused);
		xk_graph_free(graph);
		xk_graph_errors_clear(&errors);
	}
}

/* Returns the next number of a small generator, so that runs can be repeated. */
static unsigned
draw_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(*state >> 33);
}

TEST(damaged_files_are_read_or_refused)
{
	static const char text[] = "strict digraph g { graph [budget=\"20us\"]; node [implicit=fail] // x\n"
				   "udptest -> udp [handoff=explicit, role=network]; /* c */ udp [trace=none];"
				   "e [protocol=eth]; { rank=same; x } ip -> vnet -> e; vnet -> arp -> e; e -> port\n"
				   "# 1\nport [dev=\"a\\\"b\" + \"c\" label=<i<b>i</b>>] udp -> ip [number=17] }";
	static const char junk[] = "{}[]<>\"\\;,=:->+#/*. \n\raz09\xc3\x01";
	uint64_t state = 1;

	for (unsigned i = 0; i < 20000; i++) {
		struct xk_graph_errors errors = { 0 };
		char copy[sizeof(text)];
		size_t size = sizeof(text) - 1;
		struct xk_graph *graph;

		memcpy(copy, text, sizeof(text));
		for (unsigned k = draw_random(&state) % 4; k-- > 0;)
			copy[draw_random(&state) % size] = junk[draw_random(&state) % (sizeof(junk) - 1)];
		if (draw_random(&state) % 4 == 0)
			size = draw_random(&state) % size;
		graph = types_load(copy, size, &errors);
		CHECK((graph == NULL) == (errors.count != 0));
		xk_graph_free(graph);
		xk_graph_errors_clear(&errors);
	}
}
