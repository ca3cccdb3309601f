/* test_compile.c - graphs as C: what is said of each crossing, and what a hostile graph file can say. What the C does is tested by
 * system/compiled.sh. */
#include <stdlib.h>
#include <string.h>

#include "graphs/compiled.h"
#include "graphs/generate_private.h"
#include "tests/test.h"

#define TREE TEST_ROOT

static char *
compile_text(const char *file, const char *text, int *status)
{
	struct xk_graph_errors errors = { .list = NULL };
	struct xk_graph *graph = xk_graph_read_text(file, text, strlen(text), &errors);
	struct xk_graph_c_source source = { .text = text, .size = strlen(text), .tree = TREE };
	char *c = NULL;
	size_t size;
	FILE *stream = open_memstream(&c, &size);

	REQUIRE(graph != NULL && stream != NULL);
	REQUIRE(xk_graph_check(graph, xk_protocol_types, &errors) == 0);
	*status = xk_graph_compile(graph, &source, stream, &errors);
	fclose(stream);
	xk_graph_errors_clear(&errors);
	xk_graph_free(graph);
	return c;
}

#define STACK "udp -> ip; ip -> vnet; vnet -> eth; vnet -> arp; arp -> eth; eth -> port;"

TEST(compile_calls_by_name_where_one_can_be_meant)
{
	int status;
	char *c = compile_text("g.dot", "digraph g { udptest -> udp; " STACK " }", &status);

	CHECK_EQ(status, 0);
	CHECK(strstr(c, "\treturn xk_demux_into(&xk_type_udp, s, m);\n") != NULL);
	CHECK(strstr(c, "XK_DOWN_TO(5, xk_type_ip.session_ops)\n") != NULL);
	CHECK(strstr(c, "XK_CROSS_UP(5, 0)\n") != NULL);
	CHECK(strstr(c, "#include \"protocols/ip/ip_reassembly.c\"\n") != NULL);
	free(c);
}

TEST(compile_looks_where_the_file_has_a_mark)
{
	int status;
	char *c = compile_text("g.dot", "digraph g { udptest -> udp [handoff=explicit]; " STACK " }", &status);

	CHECK(strstr(c, "XK_CROSS_UP(5, 1)\n") != NULL);
	CHECK(strstr(c, "XK_CROSS_UP(4, 0)\n") != NULL);
	free(c);
	c = compile_text("g.dot", "digraph g { graph [budget=\"20us\"]; udptest -> udp [handoff=never]; " STACK " }",
			 &status);
	CHECK(strstr(c, "XK_CROSS_UP(5, 0)\n") != NULL);
	CHECK(strstr(c, "XK_CROSS_UP(4, 1)\n") != NULL);
	free(c);
}

TEST(compile_has_a_copy_for_each_node_of_a_protocol_of_one_file)
{
	int status;
	char *c = compile_text(
		"g.dot",
		"digraph g { a [protocol=null]; b [protocol=null]; udptest -> a; a -> b; b -> udp; " STACK " }",
		&status);

	CHECK(strstr(c, "extern const struct xk_protocol_type xk_type_null;\n") != NULL);
	CHECK(strstr(c, "extern const struct xk_protocol_type xk_type_null__7;\n") != NULL);
	CHECK(strstr(c, "#define null_push null_push__7\n") != NULL);
	CHECK(strstr(c, "#undef null_push\n") != NULL);
	CHECK(strstr(c, "XK_POP_THROUGH(6, 0, 1)\n") != NULL); /* noted by the one above */
	CHECK(strstr(c, "XK_POP_THROUGH(7, 0, 0)\n") != NULL);
	free(c);
}

/* No byte of it that means anything in C outside of a string, or ends one. */
TEST(compile_escapes_what_a_file_says)
{
	int status;
	char *c = compile_text(
		"*/ \" evil\\\n.dot",
		"// */ \" ?\?/ %s \n\tdigraph g { udptest -> udp; udp [label=\"\\\"; abort(); */\"]; " STACK " }",
		&status);

	CHECK_EQ(status, 0);
	CHECK(strncmp(c, "/*\n * ___evil__.dot, compiled by xk compile:\n", 40) == 0);
	CHECK(strstr(c, "\"*/ \\\" evil\\\\\\n\"\n\t\".dot\"") != NULL);
	CHECK(strstr(c, "\\077\\077/") != NULL && strstr(c, "?\?/") == NULL);
	CHECK(strstr(c, "\\\\\\\"; abort(); */\\\"") != NULL);
	free(c);
}

TEST(compile_finds_the_names_of_a_file)
{
	struct generate_names names = { .count = 0 };

	CHECK(generate_names_find(&names,
				  "#define vtap_max 3\nstruct vtap { int vtap_x; }; enum { VTAP_A = 0x1vtap_ };\n"
				  "xk_type_vtap, xk_type_vtapper, nvtap_x, vtapper, vtap_x",
				  "vtap"));
	CHECK_EQ(names.count, 4);
	CHECK(names.count == 4 && strcmp(names.list[0], "vtap") == 0 && strcmp(names.list[1], "vtap_x") == 0 &&
	      strcmp(names.list[2], "VTAP_A") == 0 && strcmp(names.list[3], "xk_type_vtap") == 0);
	generate_names_clear(&names);
	CHECK(!generate_names_find(&names, "#include \"protocols/udp.h\"\nint vtap_x;", "vtap"));
	generate_names_clear(&names);
}

TEST(compile_refuses_a_protocol_that_is_not_in_the_tree)
{
	struct xk_graph_errors errors = { .list = NULL };
	const char text[] = "digraph g { udptest -> udp; " STACK " }";
	struct xk_graph *graph = xk_graph_read_text("g.dot", text, strlen(text), &errors);
	struct xk_graph_c_source source = { .text = text, .size = strlen(text), .tree = "/nowhere" };
	FILE *stream = fopen("/dev/null", "we");

	REQUIRE(graph != NULL && stream != NULL && xk_graph_check(graph, xk_protocol_types, &errors) == 0);
	CHECK(xk_graph_compile(graph, &source, stream, &errors) < 0);
	CHECK(errors.count == 1 && strstr(errors.list[0].text, "/nowhere") != NULL);
	fclose(stream);
	xk_graph_errors_clear(&errors);
	xk_graph_free(graph);
}
