/* test_build.c - a checked graph composes the kernel's protocols. */
#include "platform/sim/memory.h"
#include "tests/graphs/types.h"
#include "xkernel/kernel.h"

static struct xk_kernel *
kernel_new(struct xk_platform **platform)
{
	struct xk_kernel_config config = { .name = "test" };
	struct xk_kernel *kernel;

	*platform = xk_memory_platform_new(XK_MEMORY_VIRTUAL);
	REQUIRE(*platform != NULL);
	config.platform = *platform;
	kernel = xk_kernel_new(&config);
	REQUIRE(kernel != NULL);
	return kernel;
}

/* Builds a kernel from text. */
static struct xk_kernel *
built(const char *text, struct xk_platform **platform)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph = types_good(text);
	struct xk_kernel *kernel = kernel_new(platform);

	REQUIRE(xk_graph_build(graph, kernel, &errors) == 0);
	CHECK_EQ(errors.count, 0);
	xk_graph_free(graph);
	return kernel;
}

static void
kernel_end(struct xk_kernel *kernel, struct xk_platform *platform)
{
	xk_kernel_free(kernel);
	xk_memory_platform_free(platform);
}

static struct types_node *
found(struct xk_kernel *kernel, const char *name)
{
	struct xk_protocol *protocol = xk_kernel_find(kernel, name);

	REQUIRE(protocol != NULL);
	return (struct types_node *)protocol;
}

TEST(lower_protocols_are_made_first)
{
	static const char *const names[] = { "port", "eth", "arp", "vnet", "ip", "udp", "udptest" };
	struct xk_platform *platform;
	struct xk_kernel *kernel = built("digraph g { udptest -> udp;" TYPES_LOWER "}", &platform);
	struct xk_protocol *p = xk_kernel_first(kernel);

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(names); i++, p = p->next) {
		REQUIRE(p != NULL);
		CHECK_STR(p->name, names[i]);
	}
	CHECK(p == NULL);
	p = &found(kernel, "vnet")->protocol;
	REQUIRE(p->lower_count == 2);
	CHECK_STR(xk_lower(p, 0)->name, "eth");
	CHECK_STR(xk_lower(p, 1)->name, "arp");
	CHECK_STR(p->lowers[1]->role, "resolver");
	kernel_end(kernel, platform);
}

TEST(settings_and_initial_values_are_applied)
{
	struct xk_platform *platform;
	struct xk_kernel *kernel =
		built("digraph g { t2 [protocol=udptest, port=7, serve=no]; udptest -> udp; t2 -> udp;"
		      "vnet [address=\"10.0.0.1/8\"]; port [dev=\"a \\\"b\\\"\"];" TYPES_LOWER "}",
		      &platform);

	CHECK_EQ(found(kernel, "udptest")->number, 2001);
	CHECK(found(kernel, "udptest")->flag);
	CHECK_EQ(found(kernel, "t2")->number, 7);
	CHECK(!found(kernel, "t2")->flag);
	CHECK_EQ(found(kernel, "vnet")->network.host, 0x0a000001);
	CHECK_EQ(found(kernel, "vnet")->network.bits, 8);
	CHECK_STR(found(kernel, "port")->text, "a \"b\"");
	kernel_end(kernel, platform);
}

TEST(policies_are_applied_to_nodes)
{
	struct xk_platform *platform;
	struct xk_kernel *kernel =
		built("digraph g { implicit=\"spin(3us)\"; trace=errors; udptest -> udp;"
		      "udp [sessions=4, implicit=fail, resume=driver, order=session];" TYPES_LOWER "}",
		      &platform);
	const struct xk_protocol *udp = &found(kernel, "udp")->protocol, *vnet = &found(kernel, "vnet")->protocol;

	CHECK_EQ(udp->session_max, 4);
	CHECK_EQ(udp->implicit, XK_IMPLICIT_FAIL);
	CHECK_EQ(udp->resume, XK_RESUME_DRIVER);
	CHECK(udp->order_session);
	CHECK_EQ(vnet->session_max, 256);
	CHECK_EQ(vnet->implicit, XK_IMPLICIT_SPIN);
	CHECK_EQ(vnet->spin_ns, 3000);
	CHECK_EQ(vnet->resume, XK_RESUME_THREAD);
	CHECK_EQ(vnet->trace_level, 1);
	CHECK(!vnet->order_session);
	kernel_end(kernel, platform);
}

TEST(marks_are_applied_to_edges)
{
	struct xk_platform *platform;
	struct xk_kernel *kernel = built("digraph g { udptest -> udp [handoff=explicit];"
					 "udp -> ip [budget=\"20us\", carry=3, number=18];"
					 "ip -> vnet [handoff=never]; vnet -> eth -> port; vnet -> arp -> eth }",
					 &platform);
	const struct xk_edge *edge = found(kernel, "udptest")->protocol.lowers[0];

	CHECK_EQ(xk_edge_watched(edge, XK_WATCH_ANY), XK_WATCH_EXPLICIT);
	CHECK(!edge->has_number && !edge->never && edge->budget_ns == 0);
	edge = found(kernel, "udp")->protocol.lowers[0];
	CHECK_EQ(edge->budget_ns, 20000);
	CHECK_EQ(edge->carry_ns, 60000);
	CHECK(edge->has_number);
	CHECK_EQ(edge->number, 18);
	CHECK(found(kernel, "ip")->protocol.lowers[0]->never);
	kernel_end(kernel, platform);
}

TEST(edges_have_their_upper_protocols_numbers)
{
	struct xk_platform *platform;
	struct xk_kernel *kernel = built("digraph g { ip2 [protocol=ip]; udp2 [protocol=udp]; udp2 -> ip2 [number=3];"
					 "ip2 -> vnet [number=\"0x0801\"]; udptest -> udp;" TYPES_LOWER "}",
					 &platform);
	const struct xk_protocol *eth = &found(kernel, "eth")->protocol;
	uint32_t number = 0;

	CHECK_EQ(xk_number(eth, &found(kernel, "ip2")->protocol, &number), 0);
	CHECK_EQ(number, 0x0801);
	CHECK_EQ(xk_number(eth, &found(kernel, "ip")->protocol, &number), 0);
	CHECK_EQ(number, 0x0800);
	CHECK_EQ(xk_number(&found(kernel, "ip2")->protocol, &found(kernel, "udp2")->protocol, &number), 0);
	CHECK_EQ(number, 3);
	kernel_end(kernel, platform);
}
