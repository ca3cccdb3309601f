/* test_topology.c - network files: hosts, links, devices and addresses, --set, and the picture. */
#include "tests/graphs/oracle.h"
#include "tests/graphs/topology_files.h"

static const char *
setting(const struct xk_graph_attributes *settings, const char *name)
{
	const struct xk_graph_attribute *a = xk_graph_attribute_find(settings, name);

	return a == NULL ? "none" : a->value;
}

/* ---- contents of a file ---- */

TEST_WITH(hosts_links_and_devices_are_found, struct xk_topology *net,
	  good("graph g {\n"
	       "z [protocols=\"one.dot\", mode=ipp];\n"
	       "a [protocols=\"one.dot\", threads=3];\n"
	       "lan [link=ethernet10, loss=\"1%\"];\n"
	       "z -- lan;\n"
	       "lan -- a [dev=port, address=\"02:00:00:00:00:77\", host=\"10.1.0.9/16\"];\n}"),
	  xk_topology_free)
{
	REQUIRE(net->host_count == 2 && net->link_count == 1);
	CHECK_STR(net->hosts[0].name, "z");
	CHECK_STR(net->hosts[1].name, "a");
	CHECK_EQ(net->hosts[1].number, 1);
	CHECK_EQ(net->hosts[1].line, 3);
	CHECK_STR(setting(net->hosts[0].settings, "mode"), "ipp");
	CHECK_STR(setting(net->hosts[1].settings, "threads"), "3");
	CHECK_STR(setting(net->hosts[1].settings, "mode"), "none");
	CHECK_STR(net->links[0].name, "lan");
	CHECK_STR(net->links[0].preset, "ethernet10");
	CHECK_STR(setting(&net->links[0].settings, "loss"), "1%");
	CHECK_EQ(net->links[0].settings.count, 1);
	CHECK_EQ(net->links[0].device_count, 2);
	REQUIRE(net->hosts[0].device_count == 1 && net->hosts[1].device_count == 1);
	CHECK_STR(net->hosts[0].devices[0].name, "port");
	CHECK_EQ(net->hosts[0].devices[0].address, 0x020000000001);
	CHECK_EQ(net->hosts[0].devices[0].host, 0);
	CHECK_EQ(net->hosts[1].devices[0].address, 0x020000000077);
	CHECK_EQ(net->hosts[1].devices[0].host, 0x0a010009);
	CHECK_EQ(net->hosts[1].devices[0].bits, 16);
	CHECK_EQ(net->hosts[1].devices[0].line, 6);
}

TEST_WITH(edge_between_two_hosts_is_a_link, struct xk_topology *net,
	  good("graph g { network=\"10.77.0.0/24\"\n"
	       "a [protocols=\"two.dot\", set=\"port2.dev=port2\"];"
	       "b [protocols=\"two.dot\", set=\"port2.dev=port2\"];\n"
	       "a -- b [link=wide, latency=\"3ms\"];\na -- b [link=ethernet10]; }"),
	  xk_topology_free)
{
	REQUIRE(net->link_count == 2);
	CHECK_STR(net->links[0].name, "a--b");
	CHECK_STR(net->links[1].name, "a--b-2");
	CHECK(net->links[0].is_edge);
	CHECK_STR(net->links[0].preset, "wide");
	CHECK_STR(setting(&net->links[0].settings, "latency"), "3ms");
	CHECK_EQ(net->links[1].settings.count, 0);
	CHECK_EQ(net->links[0].line, 3);
	REQUIRE(net->hosts[1].device_count == 2);
	CHECK_STR(net->hosts[1].devices[1].name, "port2");
	CHECK_EQ(net->hosts[1].devices[1].link, 1);
	CHECK_EQ(net->hosts[1].devices[1].address, 0x020001000002);
	CHECK_EQ(net->hosts[1].devices[1].host, 0x0a4d0004);
}

TEST_WITH(count_makes_that_many_hosts, struct xk_topology *net,
	  good("graph g { network=\"10.77.0.0/20\" protocols=\"one.dot\"\n"
	       "lan [link=ethernet10]; s -- lan; c [count=1000, mode=x]; c -- lan; d -- lan }"),
	  xk_topology_free)
{
	REQUIRE(net->host_count == 1002);
	CHECK_STR(net->hosts[0].name, "s");
	CHECK_STR(net->hosts[1].name, "c1");
	CHECK_STR(net->hosts[1000].name, "c1000");
	CHECK_STR(net->hosts[1001].name, "d");
	CHECK_EQ(net->hosts[1000].devices[0].host, 0x0a4d0000 + 1001);
	CHECK_EQ(net->hosts[1000].devices[0].address, UINT64_C(0x020000000000) + 1001);
	CHECK_EQ(net->hosts[1001].devices[0].host, 0x0a4d0000 + 1002);
	CHECK_STR(setting(net->hosts[700].settings, "mode"), "x");
	CHECK_EQ(net->links[0].device_count, 1002);
	/* All share one graph. */
	CHECK(net->hosts[0].checked != NULL && net->hosts[0].checked->checked);
	CHECK(net->hosts[0].checked == net->hosts[1001].checked);
}

TEST_WITH(graph_defaults_apply_to_hosts_without_settings, struct xk_topology *net,
	  good("graph g { graph [protocols=\"one.dot\", mode=m, threads=2, set=\"udptest.port=7\"]\n"
	       "lan [link=ethernet10]; a -- lan; b -- lan;\n"
	       "b [mode=n, set=\" udptest.port=8;ip.trace=events\tudp.trace=errors; \"]; }"),
	  xk_topology_free)
{
	REQUIRE(net->host_count == 2);
	CHECK_STR(setting(net->hosts[0].settings, "mode"), "m");
	CHECK_STR(setting(net->hosts[1].settings, "mode"), "n");
	CHECK_STR(setting(net->hosts[1].settings, "threads"), "2");
	CHECK_EQ(net->hosts[1].settings->count, 2);
	REQUIRE(net->hosts[0].set_count == 1 && net->hosts[1].set_count == 3);
	CHECK_STR(net->hosts[0].sets[0], "udptest.port=7");
	CHECK_STR(net->hosts[1].sets[0], "udptest.port=8");
	CHECK_STR(net->hosts[1].sets[1], "ip.trace=events");
	CHECK_STR(net->hosts[1].sets[2], "udp.trace=errors");
	CHECK(net->hosts[0].checked != net->hosts[1].checked);
}

TEST_WITH(graphs_are_found_beside_the_file_then_above_it_then_as_given, struct xk_topology *net,
	  good("graph g { lan [link=ethernet10]; a -- lan; b -- lan; c -- lan;\n"
	       "a [protocols=\"beside.dot\"] b [protocols=\"one.dot\"] c [protocols=\"one2.dot\"] }"),
	  xk_topology_free)
{
	CHECK_HAS(net->hosts[0].graph, "/net/beside.dot");
	CHECK_HAS(net->hosts[1].graph, "/net/../one.dot");
	CHECK_HAS(net->hosts[2].graph, "/net/one2.dot");
}

TEST_WITH(addresses_come_from_the_network_of_the_link_or_graph, struct xk_topology *net,
	  good("graph g { network=\"10.77.0.0/30\"\n"
	       "a [protocols=\"two.dot\"]; b, c [protocols=\"one.dot\"];\n"
	       "lan [link=ethernet10]; wan [link=wide, network=\"10.78.0.0/31\"];\n"
	       "a -- lan; a -- wan [dev=x]; b -- lan; c -- wan }"),
	  xk_topology_free)
{
	CHECK_EQ(net->hosts[0].devices[0].host, 0x0a4d0001);
	CHECK_EQ(net->hosts[0].devices[0].bits, 30);
	CHECK_EQ(net->hosts[0].devices[1].host, 0x0a4e0000);
	CHECK_EQ(net->hosts[0].devices[1].bits, 31);
	CHECK_STR(net->hosts[0].devices[1].name, "x");
	CHECK_EQ(net->hosts[1].devices[0].host, 0x0a4d0002);
	CHECK_EQ(net->hosts[2].devices[0].host, 0x0a4e0001);
}

TEST(file_kind_is_recognized)
{
	struct place place = place_new();
	char path[96];

	place_write(&place, "one2.dot", "// a network\n/* */ strict graph n { a }");
	snprintf(path, sizeof(path), "%s/one2.dot", place.directory);
	CHECK(xk_topology_is_network(path));
	place_write(&place, "one2.dot", "digraph graph { a }");
	CHECK(!xk_topology_is_network(path));
	place_write(&place, "one2.dot", "\"graph\" n { a }");
	CHECK(!xk_topology_is_network(path));
	place_write(&place, "one2.dot", "");
	CHECK(!xk_topology_is_network(path));
	CHECK(!xk_topology_is_network(place.directory));
	CHECK(!xk_topology_is_network("/nowhere/at/all"));
	place_free(&place);
}

/* ---- --set ---- */

TEST(set_applies_to_hosts_links_and_their_graphs)
{
	static const char *const sets[] = { "a.threads=9",         "lan.loss=0.5",          "graph.mode=all",
					    "a.udptest.port=5",    "graph.ip.trace=events", "c2.threads=4",
					    "c2.udptest.port=6",   "b--a.latency=1ms",      "c.count=3",
					    "b--a.link=ethernet10" };
	struct xk_topology *net =
		good_with(HEAD "a [protocols=\"two.dot\", threads=1, set=\"port2.dev=port2 ip.trace=none\"];"
			       "c [threads=2, count=2]; a -- lan; c -- lan; b -- a [link=wide] }",
			  sets, XK_ARRAY_LENGTH(sets));

	REQUIRE(net->host_count == 5 && net->link_count == 2);
	CHECK_STR(setting(net->hosts[0].settings, "threads"), "9");
	CHECK_STR(setting(net->hosts[0].settings, "mode"), "all");
	REQUIRE(net->hosts[0].set_count == 3);
	CHECK_STR(net->hosts[0].sets[1], "ip.trace=events");
	CHECK_STR(net->hosts[0].sets[2], "udptest.port=5");
	CHECK_STR(net->hosts[2].name, "c2");
	CHECK_STR(setting(net->hosts[1].settings, "threads"), "2");
	CHECK_STR(setting(net->hosts[2].settings, "threads"), "4");
	CHECK_STR(setting(net->hosts[3].settings, "threads"), "2");
	CHECK_EQ(net->hosts[2].set_count, 2);
	CHECK_EQ(net->hosts[3].set_count, 1);
	CHECK_STR(setting(&net->links[0].settings, "loss"), "0.5");
	CHECK_STR(net->links[1].name, "b--a");
	CHECK_STR(setting(&net->links[1].settings, "latency"), "1ms");
	CHECK_STR(net->links[1].preset, "ethernet10");
	xk_topology_free(net);
}

TEST_WITH(set_values_may_contain_blanks, struct xk_topology *net,
	  good("graph g { graph [protocols=\"one.dot\"]\n"
	       "lan [link=ethernet10]; a -- lan;\n"
	       "a [set=\"ip.routes='put a 1; get a' ip.trace=events 'udptest.peer=10.1.0.1'\"]; }"),
	  xk_topology_free)
{
	REQUIRE(net->host_count == 1 && net->hosts[0].set_count == 3);
	CHECK_STR(net->hosts[0].sets[0], "ip.routes=put a 1; get a");
	CHECK_STR(net->hosts[0].sets[1], "ip.trace=events");
	CHECK_STR(net->hosts[0].sets[2], "udptest.peer=10.1.0.1");
}

TEST(names_with_dots_can_be_set)
{
	static const char *const sets[] = { "a.b.threads=9", "a.b.udptest.port=5", "a.c1.threads=3" };
	struct xk_topology *net = good_with(HEAD "\"a.b\" -- lan; \"a.c\" [count=1]; \"a.c\" -- lan }", sets, 3);

	CHECK_STR(setting(net->hosts[0].settings, "threads"), "9");
	CHECK_STR(net->hosts[0].sets[0], "udptest.port=5");
	CHECK_STR(net->hosts[1].name, "a.c1");
	CHECK_STR(setting(net->hosts[1].settings, "threads"), "3");
	xk_topology_free(net);
}

/* ---- the picture ---- */

static char *
drawn(const char *text)
{
	struct xk_topology *net = good(text);
	char *picture = NULL;
	size_t len = 0;
	FILE *stream = open_memstream(&picture, &len);

	REQUIRE(stream != NULL);
	xk_topology_draw(net, stream);
	fclose(stream);
	xk_topology_free(net);
	return picture;
}

TEST_WITH(picture_shows_hosts_links_and_settings, char *picture,
	  drawn(HEAD "lan [loss=\"5%\"]; s [mode=\"<b>\", set=\"udptest.port=7\"]; s -- lan; c [count=20];\n"
		     "c -- lan; p [protocols=\"one.dot\"]; q; p -- q [link=wide, latency=\"9ms\"] }"),
	  free)
{
	CHECK(oracle_counts(picture, XK_GRAPH_NETWORK, 5, 3));
	CHECK_HAS(picture, "<b>n.dot</b>");
	CHECK_HAS(picture, "<b>s</b>");
	CHECK_HAS(picture, ">one.dot<");
	CHECK_HAS(picture, "10.77.0.1/24");
	CHECK_HAS(picture, "<b>c1 &#8230; c20</b>");
	CHECK_HAS(picture, "10.77.0.2 &#8230; 10.77.0.21/24");
	CHECK_HAS(picture, "mode = &#60;b&#62;");
	CHECK_HAS(picture, "udptest.port=7");
	CHECK_HAS(picture, "loss = 5%");
	CHECK_HAS(picture, "latency = 9ms");
}

TEST(few_counted_hosts_are_drawn_singly_and_many_as_one)
{
	char *picture = drawn(HEAD "c [count=6]; c -- lan }");

	CHECK(oracle_counts(picture, XK_GRAPH_NETWORK, 7, 6));
	CHECK_HAS(picture, "<b>c6</b>");
	CHECK_HAS(picture, ">10.77.0.6/24<");
	free(picture);
	picture = drawn(HEAD "c [count=7]; c -- lan }");
	CHECK(oracle_counts(picture, XK_GRAPH_NETWORK, 2, 1));
	CHECK_HAS(picture, "<b>c1 &#8230; c7</b>");
	free(picture);
	picture = drawn(HEAD "a; a -- lan; s [protocols=\"two.dot\"]; c [count=2]; c -- s [link=wide] }");
	CHECK(oracle_counts(picture, XK_GRAPH_NETWORK, 5, 3));
	CHECK_HAS(picture, "link of two hosts");
	free(picture);
}

TEST_WITH(drawing_attributes_of_the_file_are_not_drawn, char *picture,
	  drawn(HEAD "a [image=secret, label=secret]; a -- lan [URL=secret]; stylesheet=secret }"), free)
{
	CHECK(strstr(picture, "secret") == NULL);
}
