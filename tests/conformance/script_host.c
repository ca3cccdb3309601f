/* script_host.c - the host that a script describes; see script_private.h. */
#include <stdio.h>

#include "tests/conformance/script_private.h"
#include "tests/conformance/user.h"

static bool
add_set(struct script *s, const char *name, const char *value)
{
	char *set = s->sets[s->plan.set_count];

	if (s->plan.set_count == HOST_SETS)
		return script_fail(s, "too many settings");
	snprintf(set, TEXT_MAX, "%s=%s", name, value);
	s->plan.sets[s->plan.set_count++] = set;
	return true;
}

/* Adds the next of the host's own addresses. */
static bool
add_address(struct script *s, const char *text)
{
	char name[NAME_LEN] = "vnet.address", host[NAME_LEN];
	unsigned index = s->names.host_count;
	uint64_t number;

	snprintf(host, sizeof(host), "%.*s", (int)strcspn(text, "/"), text);
	if (index == HOST_PORTS || strchr(text, '/') == NULL || !number_parse(&s->names, host, &number, s->detail))
		return script_fail(s, "'%s' is not an address such as 10.0.0.1/24", text);
	if (index > 0)
		snprintf(name, sizeof(name), "vnet.address%u", index + 1);
	s->names.host[index] = (uint32_t)number;
	s->names.link[index] = host_link(&s->plan, index);
	s->names.host_count++;
	return add_set(s, name, text);
}

static bool
find_graph(struct script *s, const char *name)
{
	if (!script_find(s, name, s->graph))
		return script_fail(s, "there is no graph %s", name);
	s->plan.graph = s->graph;
	return true;
}

bool
script_do_host(struct script *s, char *const *words)
{
	uint64_t number;

	if (s->plan.graph != NULL)
		return script_fail(s, "there is a host already");
	s->plan.mtu = 1500;
	s->plan.types = user_types();
	for (; *words != NULL; words++) {
		bool is_mtu = script_is(*words, "mtu"),
		     takes = is_mtu || script_is(*words, "graph") || script_is(*words, "limit");

		if (takes && words[1] == NULL)
			return script_fail(s, "an argument is missing after '%s'", *words);
		if (script_is(*words, "graph")) {
			if (!find_graph(s, *++words))
				return false;
		} else if (takes) {
			if (!number_parse(&s->names, *++words, &number, s->detail))
				return script_fail_detail(s);
			*(is_mtu ? &s->plan.mtu : &s->plan.limit) = (uint32_t)number;
		} else if (!add_address(s, *words)) {
			return false;
		}
	}
	return s->plan.graph != NULL || script_fail(s, "host needs a graph");
}

bool
script_do_set(struct script *s, char *const *words)
{
	if (s->host != NULL)
		return script_fail(s, "the host has started: settings come first");
	if (words[0] == NULL || words[1] == NULL || words[2] != NULL)
		return script_fail(s, "set takes a name and a value");
	return add_set(s, words[0], words[1]);
}

bool
script_begin(struct script *s)
{
	if (s->host != NULL)
		return true;
	if (s->plan.graph == NULL)
		return script_fail(s, "a script begins with: host ADDRESS/BITS graph FILE");
	if (s->prepare != NULL)
		s->prepare(s->context, &s->plan);
	s->host = host_new(&s->plan, s->detail, sizeof(s->detail));
	if (s->host == NULL)
		return script_fail_detail(s);
	for (unsigned i = 0; i < s->names.host_count; i++)
		if (i >= host_port_count(s->host))
			return script_fail(s, "the graph has fewer ports than the host has addresses");
	return true;
}
