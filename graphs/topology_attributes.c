/*
 * topology_attributes.c - the attributes of a network, its hosts, links and edges: the language's own, the caller's
 * settings, and graphviz's drawing attributes, which are accepted and ignored.
 */
#include <stdlib.h>
#include <string.h>

#include "graphs/topology_private.h"

static const struct topology_own {
	unsigned where; /* enum topology_where */
	struct xk_setting setting;
} topology_own[] = {
	{ TOPOLOGY_DEVICE, { .name = "address", .type = XK_SETTING_LINK } },
	{ TOPOLOGY_HOST, { .name = "count", .type = XK_SETTING_UINT, .min = 1, .max = XK_TOPOLOGY_HOSTS_MAX } },
	{ TOPOLOGY_DEVICE | TOPOLOGY_WIRE, { .name = "dev", .type = XK_SETTING_STRING } },
	{ TOPOLOGY_DEVICE, { .name = "host", .type = XK_SETTING_ADDRESS } },
	{ TOPOLOGY_LINK | TOPOLOGY_WIRE, { .name = "link", .type = XK_SETTING_STRING } },
	{ TOPOLOGY_GRAPH | TOPOLOGY_LINK | TOPOLOGY_WIRE, { .name = "network", .type = XK_SETTING_NETWORK } },
	{ TOPOLOGY_GRAPH, { .name = "promise", .type = XK_SETTING_STRING } },
	{ TOPOLOGY_GRAPH | TOPOLOGY_HOST, { .name = "protocols", .type = XK_SETTING_STRING } },
	{ TOPOLOGY_GRAPH | TOPOLOGY_HOST, { .name = "set", .type = XK_SETTING_STRING } },
	{ TOPOLOGY_DEVICE, { .name = "shared", .type = XK_SETTING_BOOL } },
};

static const struct topology_own *
topology_find_own(const char *name)
{
	for (size_t i = 0; i < XK_ARRAY_LENGTH(topology_own); i++)
		if (strcmp(topology_own[i].setting.name, name) == 0)
			return &topology_own[i];
	return NULL;
}

/* Returns the caller's table of settings for a place. */
static const struct xk_setting *
topology_settings(const struct topology_load *load, enum topology_where where)
{
	if (where & (TOPOLOGY_GRAPH | TOPOLOGY_HOST))
		return load->types->host_settings;
	return where & (TOPOLOGY_LINK | TOPOLOGY_WIRE) ? load->types->link_settings : NULL;
}

const struct xk_setting *
topology_setting(const struct topology_load *load, enum topology_where where, const char *name)
{
	return attributes_find_setting(topology_settings(load, where), name);
}

/* ---- unknown attributes ---- */

/* Returns the text for errors that describes a set of places. */
static const char *
topology_place_text(unsigned where)
{
	static const struct {
		unsigned where;
		const char *text;
	} places[] = {
		{ TOPOLOGY_GRAPH | TOPOLOGY_HOST, "a host, or the graph for all of them" },
		{ TOPOLOGY_GRAPH | TOPOLOGY_LINK | TOPOLOGY_WIRE, "the graph, a link, or an edge between two hosts" },
		{ TOPOLOGY_LINK | TOPOLOGY_WIRE, "a link, or an edge between two hosts" },
		{ TOPOLOGY_DEVICE | TOPOLOGY_WIRE, "an edge" },
		{ TOPOLOGY_DEVICE, "an edge that joins a host to a link" },
		{ TOPOLOGY_HOST, "a host" },
	};

	for (size_t i = 0; i < XK_ARRAY_LENGTH(places); i++)
		if (places[i].where == where)
			return places[i].text;
	return "another place";
}

static void
topology_unknown(struct topology_load *load, enum topology_where where, const char *of,
		 const struct xk_graph_attribute *a)
{
	struct attributes_guess guess = { .name = a->name };
	const struct topology_own *own = topology_find_own(a->name);
	unsigned belongs = own != NULL ? own->where : 0;

	if (own == NULL && topology_setting(load, TOPOLOGY_HOST, a->name) != NULL)
		belongs = TOPOLOGY_GRAPH | TOPOLOGY_HOST;
	else if (own == NULL && topology_setting(load, TOPOLOGY_LINK, a->name) != NULL)
		belongs = TOPOLOGY_LINK | TOPOLOGY_WIRE;
	if (belongs != 0) {
		attributes_refuse(&load->check, a->line, "%s is not an attribute of %s: it belongs on %s", a->name, of,
				  topology_place_text(belongs));
		return;
	}
	for (size_t i = 0; i < XK_ARRAY_LENGTH(topology_own); i++)
		if (topology_own[i].where & where)
			attributes_guess_try(&guess, topology_own[i].setting.name);
	attributes_guess_try_settings(&guess, topology_settings(load, where));
	attributes_refuse(&load->check, a->line, "unknown attribute \"%.80s\" of %s%s", a->name, of,
			  attributes_guess_text(&guess));
}

/* ---- known attributes ---- */

const char *
topology_list_presets(const struct topology_load *load, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (const char *const *p = load->types->presets; *p != NULL && used < size; p++)
		used += (size_t)snprintf(text + used, size - used, "%s%s", p == load->types->presets ? "" : ", ", *p);
	return text;
}

static void
topology_check_preset(struct topology_load *load, const char *of, const struct xk_graph_attribute *a)
{
	struct attributes_guess guess = { .name = a->value };
	char list[512];

	for (const char *const *p = load->types->presets; *p != NULL; p++)
		if (strcmp(*p, a->value) == 0)
			return;
		else
			attributes_guess_try(&guess, *p);
	attributes_refuse(&load->check, a->line, "link of %s is \"%.80s\"%s: expected one of %s", of, a->value,
			  attributes_guess_text(&guess), topology_list_presets(load, list, sizeof(list)));
}

/* Refuses a network without addresses for hosts. */
static void
topology_check_network(struct topology_load *load, const char *of, const struct xk_graph_attribute *a,
		       const struct xk_network *network)
{
	uint32_t rest = network->bits == 0 ? UINT32_MAX : (uint32_t)((UINT64_C(1) << (32 - network->bits)) - 1);
	const char *refusal = xk_host_refusal(network->host, network->bits == 0 ? 0 : 32);
	char text[16];

	if (refusal != NULL)
		attributes_refuse(&load->check, a->line, "%s of %s is \"%.80s\": it has no addresses for hosts: %s",
				  a->name, of, a->value, refusal);
	else if ((network->host & rest) != 0)
		attributes_refuse(&load->check, a->line, "%s of %s is \"%.80s\": that network is %s/%u", a->name, of,
				  a->value, xk_host_print(network->host & ~rest, text), network->bits);
}

/* Checks a value of an own attribute beyond its type. */
static void
topology_check_own(struct topology_load *load, const char *of, const struct xk_graph_attribute *a)
{
	struct xk_network network = { 0, 0 };
	struct xk_graph_attributes only = { (struct xk_graph_attribute *)(uintptr_t)a, 1 };
	uint64_t address;

	if (strcmp(a->name, "link") == 0)
		topology_check_preset(load, of, a);
	else if (strcmp(a->name, "network") == 0 && topology_value(&only, a->name, &network))
		topology_check_network(load, of, a, &network);
	else if (strcmp(a->name, "address") == 0 && topology_value(&only, a->name, &address) &&
		 (address == 0 || address >> 40 & 1))
		attributes_refuse(&load->check, a->line, "%s of %s is \"%.80s\": this is not an address of a device",
				  a->name, of, a->value);
	else if (strcmp(a->name, "dev") == 0 && (a->value[0] == '\0' || strlen(a->value) > XK_GRAPH_NAME_MAX))
		attributes_refuse(&load->check, a->line, "dev of %s has %zu characters, not 1 to %d", of,
				  strlen(a->value), XK_GRAPH_NAME_MAX);
}

void
topology_check_attribute(struct topology_load *load, enum topology_where where, const char *of,
			 const struct xk_graph_attribute *a)
{
	const struct topology_own *own = topology_find_own(a->name);
	const struct xk_setting *setting = own != NULL ? &own->setting : topology_setting(load, where, a->name);
	bool is_text = own != NULL && own->setting.type == XK_SETTING_STRING && (own->where & TOPOLOGY_GRAPH);
	unsigned drawn = where == TOPOLOGY_GRAPH                   ? ATTRIBUTES_GRAPH
			 : where & (TOPOLOGY_HOST | TOPOLOGY_LINK) ? ATTRIBUTES_NODE
								   : ATTRIBUTES_EDGE;

	if (own == NULL && setting == NULL && attributes_draws(drawn, a->name))
		return;
	if (setting == NULL || (own != NULL && !(own->where & where))) {
		topology_unknown(load, where, of, a);
		return;
	}
	if (strlen(a->value) > (is_text ? XK_TOPOLOGY_SET_MAX : XK_TOPOLOGY_VALUE_MAX)) {
		attributes_refuse(&load->check, a->line, "%s of %s has %zu characters, which is too long", a->name, of,
				  strlen(a->value));
		return;
	}
	attributes_check_setting(&load->check, of, setting, a);
	if (own != NULL && !a->html)
		topology_check_own(load, of, a);
}

void
topology_check_attributes(struct topology_load *load, enum topology_where where, const char *of,
			  const struct xk_graph_attributes *attributes)
{
	for (unsigned i = 0; i < attributes->count; i++)
		topology_check_attribute(load, where, of, &attributes->list[i]);
}

bool
topology_value(const struct xk_graph_attributes *attributes, const char *name, void *place)
{
	const struct xk_graph_attribute *a = xk_graph_attribute_find(attributes, name);
	struct xk_setting there;
	char why[160];

	if (a == NULL || a->html)
		return false;
	there = topology_find_own(name)->setting;
	there.offset = 0;
	xk_assert(there.type != XK_SETTING_STRING);
	return xk_setting_parse(&there, a->value, place, why, sizeof(why)) == 0;
}

/* ---- lists of settings ---- */

void
topology_merge(struct xk_graph_attributes *into, const struct xk_graph_attributes *attributes)
{
	for (unsigned i = 0; i < attributes->count; i++)
		xk_graph_attribute_put(into, attributes->list[i].name, attributes->list[i].value,
				       attributes->list[i].line);
}

void
topology_merge_settings(const struct topology_load *load, enum topology_where where, struct xk_graph_attributes *into,
			const struct xk_graph_attributes *attributes)
{
	for (unsigned i = 0; i < attributes->count; i++) {
		const struct xk_graph_attribute *a = &attributes->list[i];

		if (topology_find_own(a->name) == NULL && topology_setting(load, where, a->name) != NULL)
			xk_graph_attribute_put(into, a->name, a->value, a->line);
	}
}
