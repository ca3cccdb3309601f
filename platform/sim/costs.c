/*
 * costs.c - what things cost on hosts that somebody has measured.
 *
 * decstation: Björkman (1994), table 2. A thread handoff takes 30.7 us with regular processing and 32.2 us with
 * interrupt protocol processing, scheduling latency included; the difference is taken for the switch of stacks. A
 * detachable stack takes 3.6 us to start. What protocols cost is not in it: that is for vwork in the graph.
 *
 * modern: a virtual machine of 2026, one core, by `udptest --cores 0,0`: what a wake-up and the switch to a thread cost.
 */
#include <string.h>

#include "platform/sim/sim.h"

static const struct xk_sim_costs_preset costs_presets[] = {
	{ "none", "nothing takes time", { 0 } },
	{ "decstation",
	  "a DECstation 5000/200 of 1994: threads 30.7 us, stacks 3.6 us",
	  { .stack_start_ns = 3600, .stack_switch_ns = 1500, .thread_switch_ns = 30700 } },
	{ "modern",
	  "a virtual machine of 2026: interrupts 1.5 us, threads 6.5 us",
	  { .interrupt_ns = 1500,
	    .frame_in_ns = 40,
	    .frame_out_ns = 40,
	    .stack_start_ns = 0,
	    .stack_switch_ns = 30,
	    .thread_switch_ns = 6500 } },
	{ .name = NULL },
};

const struct xk_sim_costs_preset *
xk_sim_costs_presets(void)
{
	return costs_presets;
}

const struct xk_sim_costs_preset *
xk_sim_costs_find(const char *name)
{
	const struct xk_sim_costs_preset *preset = costs_presets;

	while (preset->name != NULL && strcmp(preset->name, name) != 0)
		preset++;
	return preset->name == NULL ? NULL : preset;
}
