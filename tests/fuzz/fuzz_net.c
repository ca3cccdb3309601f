/*
 * fuzz_net.c - hostile network files: their reader and checker, the graphs they name, what hosts and links are set to.
 *
 * An input is a network file; after a byte FUZZ_NET_SET one --set follows, after another one the next. What must hold: it
 * is refused if and only if something was found wrong; what is accepted can be drawn as a graph that reads again, and all
 * that a world would be made of makes sense.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tools/net_settings.h"

enum { FUZZ_NET_SET = 1, FUZZ_NET_SETS = 8, FUZZ_NET_SET_MAX = 256 };

static void
net_check_errors(const struct xk_graph_errors *errors)
{
	char *text = NULL;
	size_t len = 0;
	FILE *stream = open_memstream(&text, &len);

	FUZZ_CHECK(stream != NULL);
	xk_graph_errors_print(errors, stream);
	FUZZ_CHECK(fclose(stream) == 0);
	FUZZ_CHECK((len > 0) == (errors->count > 0));
	free(text);
}

static void
net_draw(const struct xk_topology *net)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *read;
	char *text = NULL;
	size_t len = 0;
	FILE *stream = open_memstream(&text, &len);

	FUZZ_CHECK(stream != NULL);
	xk_topology_draw(net, stream);
	FUZZ_CHECK(fclose(stream) == 0);
	read = xk_graph_read_text_kind("drawn", text, len, XK_GRAPH_NETWORK, &errors);
	FUZZ_CHECK(read != NULL);
	xk_graph_free(read);
	xk_graph_errors_clear(&errors);
	free(text);
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

/* Where the next --set begins in text, or its end. */
static const uint8_t *
net_cut(const uint8_t *text, const uint8_t *end)
{
	const uint8_t *cut = end == text ? NULL : memchr(text, FUZZ_NET_SET, (size_t)(end - text));

	return cut == NULL ? end : cut;
}

struct net_sets {
	char text[FUZZ_NET_SETS][FUZZ_NET_SET_MAX];
	const char *list[FUZZ_NET_SETS];
	unsigned count;
};

static void
net_take_sets(struct net_sets *sets, const uint8_t *at, const uint8_t *end)
{
	for (sets->count = 0; sets->count < FUZZ_NET_SETS && at != end; sets->count++) {
		const uint8_t *next = net_cut(at + 1, end);
		size_t len = (size_t)(next - at - 1);
		char *text = sets->text[sets->count];

		len = len < FUZZ_NET_SET_MAX ? len : FUZZ_NET_SET_MAX - 1;
		memcpy(text, at + 1, len);
		text[len] = '\0';
		sets->list[sets->count] = text;
		at = next;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xk_graph_errors errors = { 0 };
	const uint8_t *end = data + size, *cut = size == 0 ? end : net_cut(data, end);
	const char *text = size == 0 ? "" : (const char *)data;
	struct xk_topology *net;
	struct net_sets sets;

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
	net_check_errors(&errors);
	xk_topology_free(net);
	xk_graph_errors_clear(&errors);
	return 0;
}
