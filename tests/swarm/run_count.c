/*
 * run_count.c - counts of a run's kernels, and the guarantees to each single user; see run_private.h.
 */
#include "tests/swarm/run_private.h"

#include <stdio.h>
#include <string.h>

bool
run_is(const struct xk_protocol *p, const char *type)
{
	return strcmp(p->type->name, type) == 0;
}

/* Returns the counter; 0 if the protocol has none. */
static uint64_t
run_counter(const struct xk_protocol *p, const char *name)
{
	for (unsigned i = 0; p->type->counters != NULL && p->type->counters[i] != NULL; i++)
		if (strcmp(p->type->counters[i], name) == 0)
			return xk_counter(p, i);
	return 0;
}

static uint64_t
run_dropped(const struct xk_protocol *p, const char *name)
{
	for (unsigned i = 1; i < xk_drop_count(p->type); i++)
		if (strcmp(xk_drop_name(p->type, i), name) == 0)
			return p->drops[i];
	return 0;
}

/* Returns its drops of users' messages: for ARP those that waited for an address, not its own packets. */
static uint64_t
run_drops(const struct xk_protocol *p)
{
	uint64_t sum = 0;

	if (run_is(p, "arp"))
		return run_dropped(p, "queue_full") + run_dropped(p, "unresolved") + run_dropped(p, "table_full");
	for (unsigned i = 1; i < xk_drop_count(p->type); i++)
		sum += p->drops[i];
	return sum;
}

static void
run_tally_protocol(struct run *run, const struct xk_protocol *p)
{
	unsigned type = 0;

	while (type < RUN_TYPES_MAX && xk_protocol_types[type] != NULL && xk_protocol_types[type] != p->type &&
	       strcmp(xk_protocol_types[type]->name, p->type->name) != 0)
		type++;
	for (unsigned i = 1; type < RUN_TYPES_MAX && i < xk_drop_count(p->type) && i < RUN_DROPS_MAX; i++)
		run->tally->drops[type][i] += p->drops[i];
	run->drops += run_drops(p);
	if (run_is(p, "stopwait"))
		run->given_up += run_dropped(p, "gave_up") + run_dropped(p, "peer_gone") + run_dropped(p, "closed");
	if (run_is(p, "gm"))
		run->given_up += run_dropped(p, "gave_up") + run_dropped(p, "peer_gone") + run_dropped(p, "was_reset") +
				 run_dropped(p, "closed");
	if (run_is(p, "am"))
		run->given_up += run_dropped(p, "gave_up") + run_dropped(p, "peer_gone") +
				 run_dropped(p, "undelivered") + run_dropped(p, "closed");
	if (run_is(p, "vdelay"))
		run->tally->faults[PLAN_VDELAY] += run_counter(p, "delayed");
	if (!run_is(p, "vdrop"))
		return;
	run->duplicated += run_counter(p, "duplicated");
	run->tally->faults[PLAN_VLOSS] += run_dropped(p, "lost");
	run->tally->faults[PLAN_VDUPLICATE] += run_counter(p, "duplicated");
	run->tally->faults[PLAN_VREORDER] += run_counter(p, "reordered");
	run->tally->faults[PLAN_VCORRUPT] += run_counter(p, "corrupted");
}

/* Checks the guarantees to this user. */
static void
run_check_user(struct run *run, const struct run_user *user, const struct xk_protocol *p)
{
	struct xk_traffic_report report;
	const char *host = user->host->topology->name;
	uint64_t corrupt = run_counter(p, "corrupt"), misdirected = run_counter(p, "misdirected");

	xk_traffic_report(p, &report);
	run->sent += report.sent;
	run->unsent += run_counter(p, "unsent");
	run->received += report.received;
	run->damaged += corrupt;
	run->misdirected += misdirected;
	if (misdirected != 0)
		run_fail(run, RUN_MISDIRECTED, "%s.%s received %llu messages for other hosts", host, p->name,
			 (unsigned long long)misdirected);
	if (corrupt != 0 && (!run->plan->damages || run->plan->checked || report.broken != 0))
		run_fail(run, RUN_CORRUPT, "%s.%s received %llu messages that were never sent", host, p->name,
			 (unsigned long long)corrupt);
	if (plan_has(run->plan->scenario, "bid") && !run->plan->crowded && run_counter(p, "old_incarnation") != 0)
		run_fail(run, RUN_DUPLICATED, "%s.%s received %llu messages of an ended boot", host, p->name,
			 (unsigned long long)run_counter(p, "old_incarnation"));
}

struct xk_protocol *
run_protocol(const struct run *run, const struct run_user *user)
{
	struct xk_kernel *kernel = xk_sim_kernel(user->host->sim);

	return kernel == NULL ? NULL : xk_kernel_find(kernel, run->plan->scenario->traffics[user->n]);
}

void
run_check_promises(struct run *run, bool at_rest)
{
	char why[NET_PROMISE];

	if (net_promise(&run->net, at_rest, why) != NULL)
		run_fail(run, RUN_PROMISE, "%s", why);
}

void
run_harvest(struct run *run, struct net_host *host)
{
	struct xk_kernel *kernel = xk_sim_kernel(host->sim);
	struct xk_kernel_stats stats;

	if (kernel == NULL)
		return;
	for (struct xk_protocol *p = xk_kernel_first(kernel); p != NULL; p = p->next)
		run_tally_protocol(run, p);
	for (unsigned i = 0; i < run->user_count; i++)
		if (run->users[i].host == host)
			run_check_user(run, &run->users[i], run_protocol(run, &run->users[i]));
	run_check_promises(run, false);
	xk_kernel_stats(kernel, &stats);
	for (unsigned i = 0; i < XK_HANDOFF_REASONS; i++)
		run->tally->handoffs += stats.handoffs[i];
	run->tally->fallbacks += stats.fallbacks;
	run->tally->no_stack += stats.no_stack;
	run->tally->parks += stats.parks;
}

/* Writes a host's nonzero counts, a line for each protocol. */
static void
run_write_counts(struct net_host *host, FILE *file)
{
	struct xk_kernel *kernel = xk_sim_kernel(host->sim);

	for (struct xk_protocol *p = kernel == NULL ? NULL : xk_kernel_first(kernel); p != NULL; p = p->next) {
		fprintf(file, "%s.%s:", host->topology->name, p->name);
		for (unsigned i = 0; p->type->counters != NULL && p->type->counters[i] != NULL; i++)
			if (xk_counter(p, i) != 0)
				fprintf(file, " %s %llu", p->type->counters[i], (unsigned long long)xk_counter(p, i));
		for (unsigned i = 1; i < xk_drop_count(p->type); i++)
			if (p->drops[i] != 0)
				fprintf(file, " dropped.%s %llu", xk_drop_name(p->type, i),
					(unsigned long long)p->drops[i]);
		fprintf(file, "\n");
	}
}

void
run_keep_counts(struct run *run, const char *directory)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%scounts.txt", directory);
	file = fopen(path, "we");
	if (file == NULL)
		return;
	for (unsigned i = 0; i < run->plan->hosts; i++)
		run_write_counts(&run->net.hosts[i], file);
	fclose(file);
}
