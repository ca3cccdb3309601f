/*
 * costs.c - costs of measured hosts, without the work of protocols: add that to the graph with vwork.
 *
 * decstation: a DECstation 5000/200; Björkman (1994), table 2. A thread handoff takes 30.7 us with regular processing
 * and 32.2 us with interrupt protocol processing, scheduling latency included; the difference is attributed to the
 * stack switch. A detachable stack takes 3.6 us to start.
 *
 * alpha: a 500 MHz Alpha with GM 1.1.3, whose driver polls; Chen and Watson (2000), table 1: Os and Or. GM itself runs
 * on the card (the link `lanai`).
 *
 * modern: a virtual machine of 2026, one core, measured with `udptest --cores 0,0`.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "platform/sim/sim.h"
#include "xkernel/protocol.h"

enum { COSTS_TEXT = 256 };

static const struct xk_sim_costs_preset costs_presets[] = {
	{ "none", { 0 } },
	{ "decstation", { .stack_start_ns = 3600, .stack_switch_ns = 1500, .thread_switch_ns = 30700 } },
	{ "alpha", { .frame_in_ns = 1930, .frame_out_ns = 860 } },
	{ "modern",
	  { .interrupt_ns = 1500,
	    .frame_in_ns = 40,
	    .frame_out_ns = 40,
	    .stack_switch_ns = 30,
	    .thread_switch_ns = 6500 } },
	{ .name = NULL },
};

const struct xk_sim_costs_preset *
xk_sim_costs_find(const char *name)
{
	const struct xk_sim_costs_preset *preset = costs_presets;

	while (preset->name != NULL && strcmp(preset->name, name) != 0)
		preset++;
	return preset->name == NULL ? NULL : preset;
}

#define COSTS_SETTING(name, help) XK_SETTING(TIME, struct xk_sim_costs, name##_ns, #name, help, .max = XK_SIM_COST_MAX),

static const struct xk_setting costs_settings[] = { XK_SIM_COSTS(COSTS_SETTING){ .name = NULL } };

/* ---- as text ---- */

static void
costs_explain(const char *item, char *why, size_t room)
{
	size_t used = (size_t)snprintf(why, room, "\"%.40s\": expected NAME=TIME, NAME one of ", item);

	for (unsigned i = 0; costs_settings[i].name != NULL && used < room; i++)
		used += (size_t)snprintf(why + used, room - used, "%s%s", i == 0 ? "" : ", ", costs_settings[i].name);
}

/* Parses one cost: "thread_switch=5us". */
static int
costs_parse_cost(char *item, struct xk_sim_costs *costs, char *why, size_t room)
{
	const struct xk_setting *setting = costs_settings;
	char *value = strchr(item, '='), what[XK_SIM_COSTS_WHY];
	size_t len = strcspn(item, "=");

	while (setting->name != NULL && (strlen(setting->name) != len || memcmp(setting->name, item, len) != 0))
		setting++;
	if (value == NULL || setting->name == NULL) {
		costs_explain(item, why, room);
		return -EINVAL;
	}
	if (xk_setting_parse(setting, value + 1, costs, what, sizeof(what)) == 0)
		return 0;
	snprintf(why, room, "%s: %s", setting->name, what);
	return -EINVAL;
}

int
xk_sim_costs_parse(const char *text, struct xk_sim_costs *costs, char *why, size_t room)
{
	struct xk_sim_costs parsed = { 0 };
	const struct xk_sim_costs_preset *preset;
	char copy[COSTS_TEXT], *rest = copy, *item;
	size_t used;
	int err = 0;

	if (strlen(text) >= sizeof(copy)) {
		snprintf(why, room, "longer than %d characters", COSTS_TEXT - 1);
		return -EINVAL;
	}
	memcpy(copy, text, strlen(text) + 1);
	item = strsep(&rest, ",");
	preset = xk_sim_costs_find(item);
	if (preset != NULL) {
		parsed = preset->costs;
		item = strsep(&rest, ",");
	} else if (strchr(item, '=') == NULL) {
		used = (size_t)snprintf(why, room, "expected one of ");
		for (preset = costs_presets; preset->name != NULL && used < room; preset++)
			used += (size_t)snprintf(why + used, room - used, "%s%s", preset == costs_presets ? "" : ", ",
						 preset->name);
		return -EINVAL;
	}
	for (; err == 0 && item != NULL; item = strsep(&rest, ","))
		err = costs_parse_cost(item, &parsed, why, room);
	if (err == 0)
		*costs = parsed;
	return err;
}
