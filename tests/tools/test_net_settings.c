/* test_net_settings.c - settings of the hosts and links of a network file, and the network files of the tree. */
#include <errno.h>
#include <unistd.h>

#include "tests/test.h"
#include "tools/net/net_settings.h"

/* Loads a network with its graph in a directory of its own, without net_check. NULL: refused. */
static struct xk_topology *
load(const char *text, struct xk_graph_errors *errors)
{
	char directory[] = "/tmp/test_net.XXXXXX", graph[64], file[64];
	struct xk_topology *net;
	FILE *stream;

	REQUIRE(mkdtemp(directory) != NULL);
	snprintf(graph, sizeof(graph), "%s/g.dot", directory);
	snprintf(file, sizeof(file), "%s/n.dot", directory);
	stream = fopen(graph, "w");
	REQUIRE(stream != NULL);
	fputs("digraph g { udptest -> udp -> ip -> vnet; vnet -> eth; vnet -> arp; arp -> eth; eth -> port }", stream);
	REQUIRE(fclose(stream) == 0);
	net = xk_topology_load_text(file, text, strlen(text), NULL, 0, &net_types, errors);
	unlink(graph);
	rmdir(directory);
	return net;
}

static struct xk_topology *
loaded(const char *text)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_topology *net = load(text, &errors);

	xk_graph_errors_print(&errors, stderr);
	xk_graph_errors_clear(&errors);
	REQUIRE(net != NULL);
	return net;
}

#define HEAD "graph n { protocols=\"g.dot\"; lan [link=rack10g]; a -- lan; b -- lan;\n"

/* Checks that the network is refused, by the reader or net_check, with this single error, "LINE: what". */
static void
refuse(const char *text, const char *part)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_topology *net = load(text, &errors);

	if (net != NULL)
		CHECK_EQ(net_check(net, &errors), -EINVAL);
	REQUIRE(errors.count > 0);
	CHECK_EQ(errors.count, 1);
	CHECK_HAS(errors.list[0].text, part);
	xk_graph_errors_clear(&errors);
	xk_topology_free(net);
}

static struct net_host_settings
host_of(const struct xk_topology *net, unsigned index)
{
	struct xk_graph_errors errors = { 0 };
	struct net_host_settings settings;

	CHECK_EQ(net_host_settings_of(net, &net->hosts[index], &settings, &errors), 0);
	CHECK_EQ(errors.count, 0);
	return settings;
}

TEST_WITH(host_without_settings_has_the_defaults, struct xk_topology *net, loaded(HEAD "}"), xk_topology_free)
{
	struct net_host_settings s = host_of(net, 0);

	CHECK_EQ(s.mode, XK_IPP);
	CHECK_EQ(s.threads + s.stacks + s.buffers + s.start_ns, 0);
	CHECK_EQ(s.costs.thread_switch_ns, 0);
	CHECK_EQ(s.crash_count + s.boot_count, 0);
}

TEST(host_settings_are_applied)
{
	struct xk_topology *net =
		loaded(HEAD "a [mode=regular, threads=3, stacks=9, buffers=\"2k\", stack_start=\"1us\", "
			    "costs=decstation, start=\"10ms\", crash=\"1s,5s\", boot=\"2s\"] }");
	struct net_host_settings s = host_of(net, 0);

	CHECK_EQ(s.mode, XK_REGULAR);
	CHECK_EQ(s.threads, 3);
	CHECK_EQ(s.stacks, 9);
	CHECK_EQ(s.buffers, 2048);
	CHECK_EQ(s.costs.stack_start_ns, 1000);
	CHECK_EQ(s.costs.thread_switch_ns, 30700);
	CHECK_EQ(s.start_ns, 10000000);
	REQUIRE(s.crash_count == 2 && s.boot_count == 1);
	CHECK_EQ(s.crash_ns[1], 5000000000);
	CHECK_EQ(s.boot_ns[0], 2000000000);
	CHECK_EQ(host_of(net, 1).mode, XK_IPP);
	xk_topology_free(net);
}

/* Checks that text is refused with a sentence that contains part and leaves the costs unchanged. */
static void
refuse_costs(const char *text, const char *part)
{
	struct xk_sim_costs costs = { .interrupt_ns = 77 };
	char why[XK_SIM_COSTS_WHY] = "";

	CHECK_EQ(xk_sim_costs_parse(text, &costs, why, sizeof(why)), -EINVAL);
	CHECK_HAS(why, part);
	CHECK_EQ(costs.interrupt_ns, 77);
}

TEST_WITH(costs_are_a_preset_and_changes_to_it, struct xk_topology *net,
	  loaded(HEAD "a [costs=\"modern,thread_switch=5us\", frame_in=\"1ns\"] }"), xk_topology_free)
{
	struct net_host_settings s = host_of(net, 0);
	struct xk_sim_costs costs = { .interrupt_ns = 77 };
	char why[XK_SIM_COSTS_WHY];

	CHECK_EQ(s.costs.interrupt_ns, 1500);
	CHECK_EQ(s.costs.thread_switch_ns, 5000);
	CHECK_EQ(s.costs.frame_in_ns, 1);
	CHECK_EQ(xk_sim_costs_parse("stack_start=1us,frame_out=2ns", &costs, why, sizeof(why)), 0);
	CHECK_EQ(costs.interrupt_ns, 0);
	CHECK_EQ(costs.stack_start_ns, 1000);
	CHECK_EQ(costs.frame_out_ns, 2);
}

TEST(invalid_costs_are_refused)
{
	char text[300];

	refuse_costs("", "expected one of none, decstation, alpha, modern");
	refuse_costs("modem", "expected one of none, decstation, alpha, modern");
	refuse_costs("thread_switch=5us,modern", "\"modern\": expected NAME=TIME, NAME one of interrupt, frame_in, "
						 "frame_out, stack_start, stack_switch, thread_switch");
	refuse_costs("modern,", "\"\": expected NAME=TIME");
	refuse_costs("modern,thread=5us", "\"thread=5us\": expected NAME=TIME");
	refuse_costs("modern,thread_switches=5us", "\"thread_switches=5us\": expected NAME=TIME");
	refuse_costs("modern,thread_switch", "\"thread_switch\": expected NAME=TIME");
	refuse_costs("modern,thread_switch=5", "thread_switch: expects a time from 0s to 60s");
	refuse_costs("modern,thread_switch=61s", "thread_switch: expects a time from 0s to 60s");
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	refuse_costs(text, "longer than");
}

TEST(invalid_host_settings_are_refused_at_their_line)
{
	refuse(HEAD "a [mode=ippp] }", "n.dot:2: mode of a is \"ippp\": expects regular or ipp");
	refuse(HEAD "a [costs=many] }",
	       "n.dot:2: costs of a is \"many\": expected one of none, decstation, alpha, modern");
	refuse(HEAD "c [count=5, mode=x]; c -- lan }", "n.dot:2: mode of c is \"x\"");
	refuse(HEAD "a [crash=\"1s,,2s\"] }", "n.dot:2: crash of a is \"1s,,2s\": expected times with commas");
	refuse(HEAD "a [crash=\"1s,\"] }", "n.dot:2: crash of a is \"1s,\": expected times with commas");
	refuse(HEAD "a [crash=\"2000000s\"] }", "n.dot:2: crash of a is \"2000000s\": expected times with commas");
	refuse(HEAD "a [crash=\"1s,2s,3s,4s,5s,6s,7s,8s,9s,10s,11s,12s,13s,14s,15s,16s,17s\"] }", "more than 16 times");
	refuse(HEAD "a [crash=\"0s\"] }",
	       "n.dot:2: crash of a is \"0s\": crash number 1 is not after the host was booted");
	refuse(HEAD "a [crash=\"1s\", start=\"1s\"] }", "crash of a is \"1s\": crash number 1 is not after");
	refuse(HEAD "a [crash=\"1s,2s\", boot=\"2s\"] }", "crash of a is \"1s,2s\": crash number 2 is not after");
	refuse(HEAD "a [crash=\"1s,2s\"] }", "crash of a is \"1s,2s\": crash number 2 needs a reboot before it");
	refuse(HEAD "a [crash=\"3s\", boot=\"3s\"] }",
	       "boot of a is \"3s\": boot number 1 is not after crash number 1");
	refuse(HEAD "a [boot=\"3s\"] }", "boot of a is \"3s\": boot number 1 needs a crash before it");
}

TEST_WITH(link_is_a_preset_and_changes_to_it, struct xk_topology *net,
	  loaded(HEAD "lan [loss=\"50%\", latency=\"7us\", kind=shared] }"), xk_topology_free)
{
	struct xk_graph_errors errors = { 0 };
	struct sim_link_config config;

	CHECK_EQ(net_check(net, &errors), 0);
	CHECK_EQ(net_link_config_of(net, &net->links[0], &config, &errors), 0);
	CHECK_EQ(errors.count, 0);
	CHECK_EQ(config.kind, SIM_LINK_SHARED);
	CHECK_EQ(config.loss, SIM_ALWAYS / 2);
	CHECK_EQ(config.latency_ns, 7000);
	CHECK_EQ(config.rate, 10000000000);
}

TEST(invalid_link_settings_are_refused_at_their_line)
{
	refuse(HEAD "lan [kind=round] }", "n.dot:2: kind of lan is \"round\": expects wire, shared or switch");
	refuse(HEAD "lan [kind=wire]; c -- lan }", "n.dot:1: link lan is a wire: it joins two hosts, not 3");
	refuse(HEAD "lan [reorder=\"1%\"] }", "n.dot:1: link lan: reorder has no effect");
	refuse(HEAD "w [link=wide]; }", "n.dot:2: link w is a wire: it joins two hosts, not 0");
	refuse(HEAD "lan [cell=40] }", "n.dot:1: link lan: cell_payload is 0");
}
