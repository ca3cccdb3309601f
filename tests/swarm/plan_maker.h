/*
 * plan_maker.h - a plan while it is made, shared by plan.c (scenarios, what all hosts share, the network), plan_graph.c
 * (protocol graphs) and plan_draw.c (chance, and writing). What is drawn in which order makes the plan of a seed.
 */
#ifndef TESTS_PLAN_MAKER_H
#define TESTS_PLAN_MAKER_H

#include "tests/swarm/plan.h"
#include "xkernel/support/chance.h"

/* What a plan is made with. */
struct plan_maker {
	struct plan *plan;
	struct xk_chance chance;
	char *text; /* what is being written, and how much of it there is */
	size_t used;
	/* of the link */
	uint64_t rate, mtu, latency_ns;
	/* the same on every host */
	unsigned traffics;
	uint64_t size_min, size_max, fragments, identification, local, queue;
	uint64_t arp_timeout_ns, reassembly_ns, timeout_ns, timeout_max_ns, load;
	bool is_slow, is_random, has_few_stacks, has_order;
};

/* ---- plan_draw.c ---- */

/* One of low to high. */
uint64_t plan_between(struct plan_maker *maker, uint64_t low, uint64_t high);
bool plan_one_in(struct plan_maker *maker, uint64_t n);

/* From now on plan_write adds to text, of PLAN_TEXT bytes. */
void plan_begin_text(struct plan_maker *maker, char *text);
__attribute__((format(printf, 2, 3))) void plan_write(struct plan_maker *maker, const char *format, ...);

/* Half of the time, an attribute: a probability of up to max, in 1/10 %, small ones more often. */
void plan_write_fault(struct plan_maker *maker, enum plan_fault fault, const char *name, uint64_t max);
void plan_write_time(struct plan_maker *maker, const char *name, uint64_t ns);

/* ---- plan_graph.c ---- */

/* Writes the variant n of the scenario's graph. */
void plan_write_graph(struct plan_maker *maker, unsigned n);

#endif
