/* test_draw.c - a graph's picture, as DOT: readable again, complete, and with text from the file escaped. */
#include "tests/graphs/oracle.h"
#include "tests/graphs/types.h"

static char *
drawn(const char *text)
{
	struct xk_graph *graph = types_good(text);
	char *picture = NULL;
	size_t len = 0;
	FILE *stream = open_memstream(&picture, &len);

	REQUIRE(stream != NULL);
	xk_graph_draw(graph, stream);
	fclose(stream);
	xk_graph_free(graph);
	return picture;
}

static void
shows(const char *text, const char *part)
{
	char *picture = drawn(text);

	CHECK_HAS(picture, part);
	free(picture);
}

TEST_WITH(picture_is_dot_with_every_node_and_edge, char *picture, drawn("digraph g { udptest -> udp; " TYPES_LOWER "}"),
	  free)
{
	CHECK(oracle_counts(picture, XK_GRAPH_PROTOCOLS, 7, 7));
}

/* ---- notes ---- */

static void
note_title(const struct xk_graph_notes *self, struct xk_graph_note *note)
{
	strcpy(note->rows[0], "of <today>");
}

static void
note_node(const struct xk_graph_notes *self, const char *name, struct xk_graph_note *note)
{
	if (strcmp(name, "eth") == 0) {
		strcpy(note->rows[0], "hot & busy");
		strcpy(note->rows[1], "second row");
		note->heat = 1;
	} else if (strcmp(name, "ip") == 0) {
		note->heat = 0;
	}
}

static void
note_edge(const struct xk_graph_notes *self, const char *upper, const char *lower, const char *role,
	  struct xk_graph_note *note)
{
	if (strcmp(upper, "ip") == 0 && strcmp(lower, "vnet") == 0)
		snprintf(note->rows[0], sizeof(note->rows[0]), "role %s", role);
}

TEST_WITH(notes_are_rows_and_heat_is_a_colour, struct xk_graph *graph,
	  types_good("digraph g { udptest -> udp; " TYPES_LOWER "}"), xk_graph_free)
{
	static const struct xk_graph_notes notes = { note_title, note_node, note_edge };
	char *picture = NULL, *plain = drawn("digraph g { udptest -> udp; " TYPES_LOWER "}");
	size_t len = 0;
	FILE *stream = open_memstream(&picture, &len);

	REQUIRE(stream != NULL);
	xk_graph_draw_noted(graph, &notes, stream);
	fclose(stream);
	CHECK_HAS(picture, "of &#60;today&#62;");
	CHECK_HAS(picture, "hot &#38; busy");
	CHECK_HAS(picture, "second row");
	CHECK_HAS(picture, "fillcolor=\"#f06a3d\"");
	CHECK_HAS(picture, "fillcolor=\"#fffdf7\"");
	CHECK_HAS(picture, ">role ");
	CHECK(strstr(picture, "warmer: ") != NULL && strstr(plain, "warmer: ") == NULL);
	CHECK(strstr(plain, "#f06a3d") == NULL && strstr(plain, "role ") == NULL);
	CHECK(oracle_counts(picture, XK_GRAPH_PROTOCOLS, 7, 7));
	free(picture);
	free(plain);
}

TEST(marks_and_policies_are_shown)
{
	shows("digraph g { eth -> port [handoff=explicit] }", "<b>handoff</b>");
	shows("digraph g { eth -> port [handoff=never] }", "never by time");
	shows("digraph g { eth -> port [budget=\"1500ns\", carry=2] }", "budget 1500 ns, carry 2");
	shows("digraph g { budget=\"20us\" eth -> port }", "every message: budget 20 &#181;s");
	shows("digraph g { eth -> port; eth [implicit=\"spin(2ms)\"] }", "would wait: spins 2 ms");
	shows("digraph g { eth -> port; implicit=fail; eth [implicit=handoff] }", "would wait: hands off");
	shows("digraph g { eth -> port; eth [resume=driver] }", "resumed by the driver");
	shows("digraph g { eth -> port; eth [order=session] }", "sessions in order");
	shows("digraph g { e [protocol=eth]; e -> port }", "<b>e</b><font color=\"#6b7785\"> : eth</font>");
	shows("digraph g { ip -> eth -> port; udp -> ip [number=5]; }", "number 5");
	shows("digraph g { udptest -> udp; " TYPES_LOWER "}", ">resolver<");
	shows("digraph g { udptest -> udp; " TYPES_LOWER "}", "rounded,dashed");
}

TEST(headers_have_their_sizes)
{
	shows("digraph g { udptest -> udp; " TYPES_LOWER "}", "<b>udp</b></td></tr><tr><td><font point-size=\"10\" "
							      "color=\"#6b7785\">8-byte header</font>");
	shows("digraph g { udptest -> udp; " TYPES_LOWER "}", "<b>vnet</b></td></tr></table>");
}

TEST(legend_explains_only_symbols_that_occur)
{
	static const struct {
		const char *graph, *words;
	} rows[] = {
		{ "digraph g { eth -> port [handoff=explicit] }", "leaves the driver here" },
		{ "digraph g { eth -> port [budget=\"1us\"] }", "when this time is spent" },
		{ "digraph g { budget=\"1us\" eth -> port }", "when this time is spent" },
		{ "digraph g { udptest -> udp; " TYPES_LOWER "}", "no messages pass" },
		{ "digraph g { udptest -> udp; " TYPES_LOWER "}", "virtual: no header" },
	};
	char *plain = drawn("digraph g { eth -> port }");

	CHECK_HAS(plain, "stands on: received messages go up");
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(rows); i++) {
		shows(rows[i].graph, rows[i].words);
		CHECK(strstr(plain, rows[i].words) == NULL);
	}
	free(plain);
}

TEST_WITH(text_from_the_file_is_escaped, char *picture,
	  drawn("digraph g { eth -> port; port [dev=\"<b>\\\"x\\\"&amp;\\\\]\n\\xff\xff\xc3\xa4\"] }"), free)
{
	CHECK_HAS(picture, "&#60;b&#62;&#34;x&#34;&#38;amp;&#92;&#92;&#93;?&#92;xff?\xc3\xa4<");
	CHECK(oracle_counts(picture, XK_GRAPH_PROTOCOLS, 2, 1));
}

TEST(long_values_are_cut)
{
	shows("digraph g { eth -> port; port [dev=\"123456789012345678901234567890123456789012345\"] }",
	      "1234567890123456789012345678901234567890&#8230;<");
}

TEST_WITH(drawing_attributes_of_the_file_are_not_copied, char *picture,
	  drawn("digraph g { eth -> port [URL=\"file:secret\"]; eth [image=\"secret\", label=secret]; "
		"stylesheet=secret; port [shape=secret] }"),
	  free)
{
	CHECK(strstr(picture, "secret") == NULL);
}
