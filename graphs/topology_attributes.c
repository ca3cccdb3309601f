/*
 * topology_attributes.c - what is written on a network, its hosts, links and edges: the language's own attributes, the
 * settings that the caller knows, and graphviz's drawing attributes, which are let through.
 */
#include <stdlib.h>
#include <string.h>

#include "graphs/topology_private.h"

enum { TOPOLOGY_CANDIDATES = 96 };

#define TOPOLOGY_OWN(name, type, min, max)                                                                             \
	{                                                                                                              \
		name, type, 0, NULL, NULL, min, max                                                                    \
	}

static const struct {
	unsigned where; /* enum topology_where */
	struct xk_setting setting;
} topology_own[] = {
	{ TOPOLOGY_DEVICE, TOPOLOGY_OWN("address", XK_SETTING_LINK, 0, 0) },
	{ TOPOLOGY_HOST, TOPOLOGY_OWN("count", XK_SETTING_UINT, 1, XK_TOPOLOGY_HOSTS_MAX) },
	{ TOPOLOGY_DEVICE | TOPOLOGY_WIRE, TOPOLOGY_OWN("dev", XK_SETTING_STRING, 0, 0) },
	{ TOPOLOGY_DEVICE, TOPOLOGY_OWN("host", XK_SETTING_NETWORK, 0, 0) },
	{ TOPOLOGY_LINK | TOPOLOGY_WIRE, TOPOLOGY_OWN("link", XK_SETTING_STRING, 0, 0) },
	{ TOPOLOGY_GRAPH | TOPOLOGY_LINK | TOPOLOGY_WIRE, TOPOLOGY_OWN("network", XK_SETTING_NETWORK, 0, 0) },
	{ TOPOLOGY_GRAPH | TOPOLOGY_HOST, TOPOLOGY_OWN("protocols", XK_SETTING_STRING, 0, 0) },
	{ TOPOLOGY_GRAPH | TOPOLOGY_HOST, TOPOLOGY_OWN("set", XK_SETTING_STRING, 0, 0) },
};

static const struct xk_setting *
topology_find_own(const char *name, unsigned *where)
{
	for (size_t i = 0; i < XK_ARRAY_LENGTH(topology_own); i++)
		if (strcmp(topology_own[i].setting.name, name) == 0) {
			*where = topology_own[i].where;
			return &topology_own[i].setting;
		}
	return NULL;
}

/* The caller's settings, in one of its tables. */
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

/* ---- what is unknown ---- */

/* The places in a set, for errors. */
static const char *
topology_place(unsigned where)
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

/* Where name would be right; 0: nowhere. */
static unsigned
topology_belongs(const struct topology_load *load, const char *name)
{
	unsigned where = 0;

	if (topology_find_own(name, &where) != NULL)
		return where;
	if (topology_setting(load, TOPOLOGY_HOST, name) != NULL)
		return TOPOLOGY_GRAPH | TOPOLOGY_HOST;
	return topology_setting(load, TOPOLOGY_LINK, name) != NULL ? TOPOLOGY_LINK | TOPOLOGY_WIRE : 0;
}

/* What is known there, for attributes_suggest. */
static void
topology_candidates(const struct topology_load *load, enum topology_where where, const char **list)
{
	const struct xk_setting *s = topology_settings(load, where);
	unsigned count = 0;

	for (size_t i = 0; i < XK_ARRAY_LENGTH(topology_own); i++)
		if (topology_own[i].where & where)
			list[count++] = topology_own[i].setting.name;
	for (; s != NULL && s->name != NULL && count < TOPOLOGY_CANDIDATES - 1; s++)
		list[count++] = s->name;
	list[count] = NULL;
}

static void
topology_unknown(struct topology_load *load, enum topology_where where, const char *of,
		 const struct xk_graph_attribute *a)
{
	const char *candidates[TOPOLOGY_CANDIDATES], *meant;
	unsigned belongs = topology_belongs(load, a->name);

	if (belongs != 0) {
		attributes_refuse(&load->check, a->line, "%s is no attribute of %s: it belongs on %s", a->name, of,
				  topology_place(belongs));
		return;
	}
	topology_candidates(load, where, candidates);
	meant = attributes_suggest(a->name, candidates);
	attributes_refuse(&load->check, a->line, "unknown attribute \"%.80s\" of %s%s%s%s", a->name, of,
			  meant != NULL ? " (did you mean \"" : "", meant != NULL ? meant : "",
			  meant != NULL ? "\"?)" : "");
}

/* ---- what is known ---- */

/* "ethernet10, fddi, ..." */
static const char *
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
	const char *meant;
	char list[512];

	for (const char *const *p = load->types->presets; *p != NULL; p++)
		if (strcmp(*p, a->value) == 0)
			return;
	meant = attributes_suggest(a->value, load->types->presets);
	attributes_refuse(&load->check, a->line, "link of %s is \"%.80s\"%s%s%s: expected one of %s", of, a->value,
			  meant != NULL ? " (did you mean \"" : "", meant != NULL ? meant : "",
			  meant != NULL ? "\"?)" : "", topology_list_presets(load, list, sizeof(list)));
}

/* A network of hosts: its address is its first, and it has room for some. */
static void
topology_check_network(struct topology_load *load, const char *of, const struct xk_graph_attribute *a,
		       const struct xk_network *network)
{
	uint32_t rest = network->bits == 0 ? UINT32_MAX : (uint32_t)((UINT64_C(1) << (32 - network->bits)) - 1);
	char text[16];

	if (network->bits == 0 || network->host == 0 || network->host >> 28 >= 0xe)
		attributes_refuse(&load->check, a->line, "%s of %s is \"%.80s\": hosts cannot have addresses of it",
				  a->name, of, a->value);
	else if ((network->host & rest) != 0)
		attributes_refuse(&load->check, a->line, "%s of %s is \"%.80s\": that network is %s/%u", a->name, of,
				  a->value, xk_host_print(network->host & ~rest, text), network->bits);
}

static void
topology_check_host(struct topology_load *load, const char *of, const struct xk_graph_attribute *a,
		    const struct xk_network *network)
{
	uint32_t rest = network->bits == 0 ? UINT32_MAX : (uint32_t)((UINT64_C(1) << (32 - network->bits)) - 1);
	bool is_host = network->bits != 0 && network->host != 0 && network->host >> 28 < 0xe;

	if (is_host && network->bits < 31)
		is_host = (network->host & rest) != 0 && (network->host & rest) != rest;
	if (!is_host)
		attributes_refuse(&load->check, a->line, "%s of %s is \"%.80s\": no host can have this address",
				  a->name, of, a->value);
}

/* What the type of an own attribute does not say. */
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
	else if (strcmp(a->name, "host") == 0 && topology_value(&only, a->name, &network))
		topology_check_host(load, of, a, &network);
	else if (strcmp(a->name, "address") == 0 && topology_value(&only, a->name, &address) &&
		 (address == 0 || address >> 40 & 1))
		attributes_refuse(&load->check, a->line, "%s of %s is \"%.80s\": no device can have this address",
				  a->name, of, a->value);
	else if (strcmp(a->name, "dev") == 0 && (a->value[0] == '\0' || strlen(a->value) > XK_GRAPH_NAME_MAX))
		attributes_refuse(&load->check, a->line, "dev of %s has %zu characters, not 1 to %d", of,
				  strlen(a->value), XK_GRAPH_NAME_MAX);
}

static bool
topology_is_long(const struct xk_graph_attribute *a)
{
	bool is_text = strcmp(a->name, "set") == 0 || strcmp(a->name, "protocols") == 0;

	return strlen(a->value) > (is_text ? XK_TOPOLOGY_SET_MAX : XK_TOPOLOGY_VALUE_MAX);
}

void
topology_check_attribute(struct topology_load *load, enum topology_where where, const char *of,
			 const struct xk_graph_attribute *a)
{
	unsigned belongs = 0;
	const struct xk_setting *own = topology_find_own(a->name, &belongs);
	const struct xk_setting *setting = own != NULL ? own : topology_setting(load, where, a->name);
	unsigned drawn = where == TOPOLOGY_GRAPH                   ? ATTRIBUTES_GRAPH
			 : where & (TOPOLOGY_HOST | TOPOLOGY_LINK) ? ATTRIBUTES_NODE
								   : ATTRIBUTES_EDGE;

	if (own != NULL && !(belongs & where)) {
		topology_unknown(load, where, of, a);
	} else if (setting == NULL) {
		if (!attributes_draws(drawn, a->name))
			topology_unknown(load, where, of, a);
	} else if (topology_is_long(a)) {
		attributes_refuse(&load->check, a->line, "%s of %s has %zu characters, which is too long", a->name, of,
				  strlen(a->value));
	} else {
		attributes_check_setting(&load->check, of, setting, a);
		if (own != NULL && !a->html)
			topology_check_own(load, of, a);
	}
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
	unsigned where;
	struct xk_setting there;
	char why[160];

	if (a == NULL || a->html)
		return false;
	there = *topology_find_own(name, &where);
	there.offset = 0;
	xk_assert(there.type != XK_SETTING_STRING);
	return xk_setting_parse(&there, a->value, place, why, sizeof(why)) == 0;
}

/* ---- lists of settings ---- */

void
topology_put(struct xk_graph_attributes *into, const char *name, const char *value, unsigned line)
{
	struct xk_graph_attribute *a = xk_graph_attribute_find(into, name);

	if (a == NULL) {
		xk_graph_attribute_add(into, name, value, line);
		return;
	}
	free(a->value);
	a->value = xk_graph_copy(value);
	a->line = line;
	a->html = false;
}

void
topology_merge(struct xk_graph_attributes *into, const struct xk_graph_attributes *attributes)
{
	for (unsigned i = 0; i < attributes->count; i++)
		topology_put(into, attributes->list[i].name, attributes->list[i].value, attributes->list[i].line);
}

void
topology_merge_settings(const struct topology_load *load, enum topology_where where, struct xk_graph_attributes *into,
			const struct xk_graph_attributes *attributes)
{
	for (unsigned i = 0; i < attributes->count; i++) {
		const struct xk_graph_attribute *a = &attributes->list[i];
		unsigned belongs;

		if (topology_find_own(a->name, &belongs) == NULL && topology_setting(load, where, a->name) != NULL)
			topology_put(into, a->name, a->value, a->line);
	}
}
