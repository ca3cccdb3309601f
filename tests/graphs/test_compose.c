/* test_compose.c - xk_graph_compose: from a file or a text to a host in one call. */
#include <errno.h>
#include <unistd.h>

#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "tests/test.h"
#include "xkernel/kernel.h"

#define COMPOSE_LOWER "udp -> ip; ip -> vnet; vnet -> eth; vnet -> arp; arp -> eth; eth -> port;"
#define COMPOSE_ECHO "digraph g {\nudptest -> udp; " COMPOSE_LOWER "}"

enum { REPORT_MAX = 1024 };

struct composed {
	struct xk_platform *platform;
	struct xk_kernel *kernel;
	int result;
	char report[REPORT_MAX];
};

/* Composes a kernel with one port, called port. */
static struct composed
composed(struct xk_graph_source source)
{
	struct composed c = { .platform = xk_memory_platform_new(XK_MEMORY_VIRTUAL) };
	struct xk_kernel_config config = { .name = "test", .platform = c.platform, .mode = XK_IPP, .core = -1 };
	FILE *stream = fmemopen(c.report, sizeof(c.report), "w");

	REQUIRE(c.platform != NULL && stream != NULL);
	c.kernel = xk_kernel_new(&config);
	REQUIRE(c.kernel != NULL);
	xk_kernel_add_port(c.kernel, xk_memory_port_new(c.platform, "port", 0x020000000001, 1500));
	c.result = xk_graph_compose(&source, c.kernel, stream);
	fclose(stream);
	return c;
}

static void
composed_end(struct composed *c)
{
	xk_kernel_free(c->kernel);
	CHECK_EQ(c->platform->ops->buffers_out(c->platform), 0);
	xk_memory_platform_free(c->platform);
}

static const char *const addressed[] = { "vnet.address=10.0.0.2/24", NULL };

static void
check_refused(struct xk_graph_source source, int result, const char *report)
{
	struct composed c = composed(source);

	CHECK_EQ(c.result, result);
	CHECK_STR(c.report, report);
	composed_end(&c);
}

TEST_IN(text_and_settings_become_a_host, struct composed, c,
	*c = composed((struct xk_graph_source){ .text = COMPOSE_ECHO, .sets = addressed }), composed_end)
{
	CHECK_EQ(c->result, 0);
	CHECK_STR(c->report, "");
	CHECK(xk_kernel_find(c->kernel, "udptest") != NULL);
	CHECK(xk_kernel_turn(c->kernel) != 0);
}

TEST(a_file_becomes_a_host)
{
	char path[] = "/tmp/xk-compose-XXXXXX";
	int descriptor = mkstemp(path);
	struct composed c;

	REQUIRE(descriptor >= 0);
	CHECK(write(descriptor, COMPOSE_ECHO, strlen(COMPOSE_ECHO)) == (ssize_t)strlen(COMPOSE_ECHO));
	close(descriptor);
	c = composed((struct xk_graph_source){ .file = path, .sets = addressed });
	unlink(path);
	CHECK_EQ(c.result, 0);
	CHECK_STR(c.report, "");
	composed_end(&c);
}

TEST(errors_name_the_given_file)
{
	static const char text[] = "digraph g {\nport -> nobody; }";
	static const char what[] = ":2: unknown protocol \"nobody\"";
	struct composed c = composed((struct xk_graph_source){ .text = text });

	CHECK_EQ(c.result, -EINVAL);
	CHECK(strncmp(c.report, "graph", 5) == 0 && strncmp(c.report + 5, what, strlen(what)) == 0);
	composed_end(&c);
	c = composed((struct xk_graph_source){ .file = "mine", .text = text });
	CHECK_EQ(c.result, -EINVAL);
	CHECK(strncmp(c.report, "mine", 4) == 0 && strncmp(c.report + 4, what, strlen(what)) == 0);
	composed_end(&c);
	check_refused((struct xk_graph_source){ .file = "/nowhere/mine" }, -EINVAL,
		      "/nowhere/mine: cannot be read: No such file or directory\n");
}

TEST(wrong_setting_is_refused)
{
	static const char *const sets[] = { "vnet.address=10.0.0.2/24", "nobody.address=1", NULL };

	check_refused((struct xk_graph_source){ .text = COMPOSE_ECHO, .sets = sets }, -EINVAL,
		      "--set: nobody.address=1: graph has no node \"nobody\"\n");
}

TEST(failed_protocol_is_named)
{
	static const char *const sets[] = { "vnet.address=10.0.0.2/24", "port.dev=elsewhere", NULL };

	check_refused((struct xk_graph_source){ .text = COMPOSE_ECHO, .sets = sets }, -ENODEV,
		      "graph: port cannot start: its init failed (No such device)\n");
}

TEST(a_kernel_is_composed_once)
{
	struct xk_graph_source source = { .text = COMPOSE_ECHO, .sets = addressed };
	struct composed c = composed(source);
	struct xk_protocol *first = xk_kernel_first(c.kernel);
	FILE *stream = fmemopen(c.report, sizeof(c.report), "w");

	REQUIRE(c.result == 0 && stream != NULL);
	CHECK_EQ(xk_graph_compose(&source, c.kernel, stream), -EINVAL);
	fclose(stream);
	CHECK_STR(c.report, "graph: is the second graph: the kernel is already composed\n");
	CHECK(xk_kernel_first(c.kernel) == first);
	composed_end(&c);
}

TEST(error_stream_may_be_null)
{
	struct xk_graph_source source = { .text = "digraph g { nobody -> port; }" };
	struct composed c = composed((struct xk_graph_source){ .text = COMPOSE_ECHO, .sets = addressed });
	struct xk_kernel_config config = { .platform = c.platform, .mode = XK_IPP, .core = -1 };
	struct xk_kernel *kernel = xk_kernel_new(&config);

	REQUIRE(kernel != NULL);
	CHECK_EQ(xk_graph_compose(&source, kernel, NULL), -EINVAL);
	xk_kernel_free(kernel);
	composed_end(&c);
}

/* ---- the program's own types ---- */

struct own {
	struct xk_protocol protocol;
	uint64_t number;
};

static const struct xk_protocol_ops own_ops = { .init = NULL };
static const struct xk_setting own_settings[] = {
	XK_SETTING(UINT, struct own, number, "number", "a number", .initial = "1", .max = 9),
	{ .name = NULL },
};
static const struct xk_role own_lowers[] = { { "transport", XK_ASYNC, NULL, NULL }, { .name = NULL } };

#define OWN_TYPE(type_name)                                                                                            \
	static const struct xk_protocol_type own_##type_name = { .name = #type_name,                                   \
								 .help = "for tests",                                  \
								 .ops = &own_ops,                                      \
								 .size = sizeof(struct own),                           \
								 .lowers = own_lowers,                                 \
								 .settings = own_settings }
OWN_TYPE(mine);
OWN_TYPE(udptest);

TEST(graph_may_name_the_programs_protocols)
{
	static const struct xk_protocol_type *const own[] = { &own_mine, NULL };
	static const char *const sets[] = { "vnet.address=10.0.0.2/24", "mine.number=7", NULL };
	struct composed c = composed((struct xk_graph_source){
		.text = "digraph g { mine -> udp; " COMPOSE_LOWER "}", .sets = sets, .types = own });
	struct own *mine;

	CHECK_EQ(c.result, 0);
	CHECK_STR(c.report, "");
	mine = (struct own *)xk_kernel_find(c.kernel, "mine");
	REQUIRE(mine != NULL);
	CHECK(mine->protocol.type == &own_mine);
	CHECK_EQ(mine->number, 7);
	composed_end(&c);
}

TEST(programs_protocols_precede_built_in_ones)
{
	static const struct xk_protocol_type *const own[] = { &own_udptest, NULL };
	struct composed c = composed((struct xk_graph_source){ .text = COMPOSE_ECHO, .sets = addressed, .types = own });
	struct xk_protocol *udptest = xk_kernel_find(c.kernel, "udptest");

	CHECK_EQ(c.result, 0);
	REQUIRE(udptest != NULL);
	CHECK(udptest->type == &own_udptest);
	composed_end(&c);
}
