/*
 * fuzz_net.c - hostile network files: reader and checker, the graphs they name, and the settings of hosts and links.
 *
 * An input is a network file and --set options (fuzz_text.h). These must hold: a file is refused if and only if an
 * error was reported; libcgraph reads an accepted one alike (graphs/oracle.h); it can be drawn as a graph that can be
 * read again; and all parts of its world are consistent.
 */
#include "tests/fuzz/fuzz_text.h"
#include "tools/net/net_settings.h"

static void
net_draw(const struct xk_topology *net)
{
	struct fuzz_print print;

	fuzz_print_begin(&print);
	xk_topology_draw(net, print.stream);
	xk_graph_free(fuzz_read_drawn(&print, XK_GRAPH_NETWORK));
}

static void
net_check_host(const struct xk_topology *net, const struct xk_topology_host *host)
{
	struct xk_graph_errors errors = { 0 };
	struct net_host_settings settings;

	FUZZ_CHECK(host->checked != NULL && host->checked->checked && host->device_count <= XK_TOPOLOGY_DEVICES_MAX);
	for (unsigned i = 0; i < host->device_count; i++)
		FUZZ_CHECK(host->devices[i].link < net->link_count && host->devices[i].bits <= 32);
	FUZZ_CHECK(net_host_settings_of(net, host, &settings, &errors) == 0 && errors.count == 0);
	FUZZ_CHECK(settings.crash_count <= NET_CRASHES_MAX && settings.boot_count <= settings.crash_count);
}

static void
net_check_all(const struct xk_topology *net)
{
	FUZZ_CHECK(net->host_count > 0 && net->host_count <= XK_TOPOLOGY_HOSTS_MAX);
	for (unsigned i = 0; i < net->host_count; i++)
		net_check_host(net, &net->hosts[i]);
	for (unsigned i = 0; i < net->link_count; i++) {
		struct xk_graph_errors errors = { 0 };
		struct sim_link_config config;

		FUZZ_CHECK(net_link_config_of(net, &net->links[i], &config, &errors) == 0 && errors.count == 0);
		FUZZ_CHECK(sim_link_check(&config) == NULL);
	}
}

struct net_sets {
	char text[FUZZ_SETS][FUZZ_SET_MAX];
	const char *list[FUZZ_SETS];
	unsigned count;
};

static void
net_take_sets(struct net_sets *sets, const uint8_t *at, const uint8_t *end)
{
	for (sets->count = 0; sets->count < FUZZ_SETS && at != end; sets->count++) {
		sets->list[sets->count] = sets->text[sets->count];
		at = fuzz_take_set(sets->text[sets->count], at, end);
	}
}

static void
net_ask_oracle(const char *text, size_t size)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph = xk_graph_read_text_kind("fuzz", text, size, XK_GRAPH_NETWORK, &errors);

	FUZZ_CHECK(graph == NULL || graph->refused || oracle_agrees(graph, text, size));
	xk_graph_free(graph);
	xk_graph_errors_clear(&errors);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xk_graph_errors errors = { 0 };
	const uint8_t *end = data + size, *cut = size == 0 ? end : fuzz_find_set(data, end);
	const char *text = size == 0 ? "" : (const char *)data;
	struct xk_topology *net;
	struct net_sets sets;

	net_ask_oracle(text, (size_t)(cut - data));
	net_take_sets(&sets, cut, end);
	net = xk_topology_load_text("graphs/net/fuzz.dot", text, (size_t)(cut - data), sets.list, sets.count,
				    &net_types, &errors);
	FUZZ_CHECK((net != NULL) == (errors.count == 0));
	if (net != NULL && net_check(net, &errors) == 0) {
		FUZZ_CHECK(errors.count == 0);
		net_check_all(net);
		net_draw(net);
	} else {
		FUZZ_CHECK(errors.count > 0);
	}
	fuzz_check_errors(&errors);
	xk_topology_free(net);
	xk_graph_errors_clear(&errors);
	return 0;
}
