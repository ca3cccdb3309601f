/*
 * plan_maker.h - a plan being made, shared by plan.c (scenarios, what all hosts share, the network), plan_graph.c
 * (protocol graphs) and plan_draw.c (random numbers and text). The order of the draws determines a seed's plan.
 */
#ifndef TESTS_PLAN_MAKER_H
#define TESTS_PLAN_MAKER_H

#include "tests/swarm/plan.h"
#include "xkernel/support/chance.h"

/* A plan being made. */
struct plan_maker {
	struct plan *plan;
	struct xk_chance chance;
	char *text; /* text being written, and its length */
	size_t used;
	/* the link's */
	uint64_t rate, mtu, latency_ns;
	/* the same on every host */
	unsigned traffics;
	uint64_t size_min, size_max, fragments, identification, local, queue;
	uint64_t arp_timeout_ns, reassembly_ns, timeout_ns, timeout_max_ns, load;
	bool is_slow, is_random, has_few_stacks, has_order;
};

/* ---- plan_draw.c ---- */

/* Returns a random number from low to high. */
uint64_t plan_between(struct plan_maker *maker, uint64_t low, uint64_t high);
bool plan_one_in(struct plan_maker *maker, uint64_t n);

/* Lets plan_write append to text, of PLAN_TEXT bytes, from now on. */
void plan_begin_text(struct plan_maker *maker, char *text);
__attribute__((format(printf, 2, 3))) void plan_write(struct plan_maker *maker, const char *format, ...);

/* Writes an attribute half of the time: a probability of up to max, in 1/10 %, small ones more often. */
void plan_write_fault(struct plan_maker *maker, enum plan_fault fault, const char *name, uint64_t max);
void plan_write_time(struct plan_maker *maker, const char *name, uint64_t ns);

/* ---- plan_graph.c ---- */

/* Writes variant n of the scenario's graph. */
void plan_write_graph(struct plan_maker *maker, unsigned n);

#endif
