/*
 * run_check.c - checks a run's guarantees: messages arrive once all is healed; in the end every message is accounted
 * for, and nothing is held; see run_private.h.
 */
#include "tests/swarm/run_private.h"

#include <string.h>

/* Accepted messages of a pair after which one must have arrived. */
enum { RUN_NEED = 3 };

/* ---- liveness ---- */

/* Returns how many different messages user has received from the current boot of `from`. */
static uint64_t
run_had_of(struct run *run, const struct run_user *user, const struct run_user *from)
{
	const struct xk_protocol *p = run_protocol(run, user);
	unsigned count = p == NULL ? 0 : xk_traffic_senders(p, run->senders, RUN_STREAMS);
	uint64_t had = 0;

	for (unsigned i = 0; i < count; i++)
		if (run->senders[i].host == from->address && run->senders[i].incarnation == from->incarnation)
			had += run->senders[i].received - run->senders[i].duplicates;
	return had;
}

static const struct xk_traffic_peer *
run_peer(struct run *run, const struct run_user *user, const struct run_user *to, struct xk_traffic_peer *peers)
{
	const struct xk_protocol *p = run_protocol(run, user);
	unsigned count = p == NULL ? 0 : xk_traffic_peers(p, peers, PLAN_HOSTS_MAX);

	for (unsigned i = 0; i < count; i++)
		if (peers[i].host == to->address)
			return &peers[i];
	return NULL;
}

static struct run_attempts
run_attempts(struct run *run, const struct run_user *user, const struct run_user *to)
{
	struct xk_traffic_peer peers[PLAN_HOSTS_MAX];
	const struct xk_traffic_peer *peer = run_peer(run, user, to, peers);

	if (peer == NULL)
		return (struct run_attempts){ .open = false };
	return (struct run_attempts){ peer->accepted, peer->unsent, peer->open };
}

/* Calls look for each pair that sends: `from` to `to`. */
static void
run_for_each_pair(struct run *run, void (*look)(struct run *run, struct run_user *from, struct run_user *to))
{
	for (unsigned i = 0; i < run->user_count; i++)
		for (unsigned k = 0; k < run->user_count; k++)
			if (run->users[i].host != run->users[k].host && run->users[i].n == run->users[k].n)
				look(run, &run->users[i], &run->users[k]);
}

static unsigned
run_host_number(const struct run_user *user)
{
	return xk_sim_host_number(user->host->sim);
}

static void
run_remember(struct run *run, struct run_user *from, struct run_user *to)
{
	from->tried[run_host_number(to)] = run_attempts(run, from, to);
	to->had_of[run_host_number(from)] = run_had_of(run, to, from);
}

void
run_begin_settled(struct run *run)
{
	struct xk_traffic_report report;

	for (unsigned i = 0; i < run->user_count; i++) {
		struct run_user *user = &run->users[i];
		const struct xk_protocol *p = run_protocol(run, user);

		if (p == NULL) {
			run_fail(run, RUN_REFUSED, "%s is down", user->host->topology->name);
			continue;
		}
		xk_traffic_report(p, &report);
		user->incarnation = report.incarnation;
		user->address = report.host;
	}
	run_for_each_pair(run, run_remember);
}

/*
 * Checks that since the network settled something could be sent, and something arrived; unless none was drawn for the
 * pair.
 */
static void
run_check_pair(struct run *run, struct run_user *from, struct run_user *to)
{
	struct run_attempts before = from->tried[run_host_number(to)], now = run_attempts(run, from, to);
	uint64_t sent = now.accepted - before.accepted, refused = now.refused - before.refused;
	uint64_t had = run_had_of(run, to, from) - to->had_of[run_host_number(from)];

	if (had > 0 || (now.open && sent < RUN_NEED && refused < RUN_NEED))
		return;
	run_fail(run, RUN_STUCK,
		 "since the network healed %s.%s has sent %llu messages to %s, was refused %llu, and none has arrived",
		 from->host->topology->name, run->plan->scenario->traffics[from->n], (unsigned long long)sent,
		 to->host->topology->name, (unsigned long long)refused);
}

bool
run_is_live(const struct run *run)
{
	return !run->plan->scarce && !run->plan->crowded && !run->plan->misled;
}

void
run_check_live(struct run *run)
{
	if (run_is_live(run) && run->result->verdict == RUN_GOOD)
		run_for_each_pair(run, run_check_pair);
}

/*
 * Checks that all accepted messages of live sessions were delivered, if guaranteed. A session that has carried nothing
 * since the network settled may be one with a former boot.
 */
static void
run_check_delivered(struct run *run, struct run_user *from, struct run_user *to)
{
	struct xk_traffic_peer peers[PLAN_HOSTS_MAX];
	const struct xk_traffic_peer *peer = run_peer(run, from, to, peers);
	const struct xk_protocol *p = run_protocol(run, to);
	unsigned count = p == NULL ? 0 : xk_traffic_senders(p, run->senders, RUN_STREAMS);

	if (peer == NULL || !peer->open || peer->position == 0 ||
	    peer->accepted == from->tried[run_host_number(to)].accepted)
		return;
	for (unsigned i = 0; i < count; i++) {
		const struct xk_traffic_sender *s = &run->senders[i];

		if (s->host == from->address && s->incarnation == from->incarnation && s->stream == peer->stream &&
		    s->highest + 1 == peer->position)
			return;
	}
	run_fail(run, RUN_STUCK, "not all of the %u messages of stream %u from %s have arrived at %s", peer->position,
		 peer->stream, from->host->topology->name, to->host->topology->name);
}

static void
run_check_ordered(struct run *run, struct run_user *from, struct run_user *to)
{
	if (strcmp(run->plan->scenario->promises[from->n], "ordered") == 0)
		run_check_delivered(run, from, to);
}

/* ---- sums ---- */

static void
run_tally_links(struct run *run, struct sim_link_counts *counts)
{
	xk_sim_link_counts(run->net.links[0], counts);
	run->tally->faults[PLAN_LOSS] += counts->loss;
	run->tally->faults[PLAN_DUPLICATE] += counts->duplicate;
	run->tally->faults[PLAN_REORDER] += counts->reorder;
	run->tally->faults[PLAN_CORRUPT] += counts->corrupt;
	run->tally->faults[PLAN_CUT] += counts->cut;
	run->tally->frames += counts->delivered;
}

static bool
run_is_ordered(const struct run *run)
{
	const char *const *promises = run->plan->scenario->promises;

	return promises[0] != NULL && promises[1] == NULL && strcmp(promises[0], "ordered") == 0;
}

/*
 * Checks that every message sent has arrived or was dropped by name. Crashed kernels take their counts along; with few
 * stacks, and with damaged frames, ARP has some of the drops.
 */
static void
run_check_sums(struct run *run, const struct sim_link_counts *counts)
{
	const struct run_frames *f = &run->frames;
	uint64_t pushed = run->sent + run->unsent + run->duplicated;
	uint64_t ended = run->received + run->misdirected + run->damaged + run->drops;

	if (run->plan->asked[PLAN_CRASH] || run->plan->scarce)
		return;
	run->tally->counted++;
	if (f->receivers + counts->duplicate != f->arrived + f->lost + counts->nobody)
		run_fail(run, RUN_UNKNOWN, "of %llu frames and %llu duplicates %llu arrived, and %llu were lost",
			 (unsigned long long)f->receivers, (unsigned long long)counts->duplicate,
			 (unsigned long long)f->arrived, (unsigned long long)(f->lost + counts->nobody));
	if ((run->plan->scenario->allows & PLAN_COUNTED) != 0 && !run->plan->misled && !run->plan->crowded &&
	    pushed + f->ip_arrived != ended + f->ip_sent)
		run_fail(run, RUN_UNKNOWN,
			 "%llu messages were pushed or duplicated, %llu frames sent and %llu arrived: %llu ended",
			 (unsigned long long)pushed, (unsigned long long)f->ip_sent, (unsigned long long)f->ip_arrived,
			 (unsigned long long)ended);
	if (run_is_ordered(run) && (run->received > run->sent || run->received + run->given_up < run->sent))
		run_fail(run, RUN_UNKNOWN, "%llu messages were accepted: %llu have arrived, %llu were given up",
			 (unsigned long long)run->sent, (unsigned long long)run->received,
			 (unsigned long long)run->given_up);
}

/*
 * Of so many frames a fault of this probability meets one, except in one of 10^8 runs: otherwise the network lacks the
 * fault.
 */
static void
run_check_faults(struct run *run, const struct sim_link_counts *counts)
{
	const uint64_t happened[PLAN_FAULTS] = { [PLAN_LOSS] = counts->loss,
						 [PLAN_DUPLICATE] = counts->duplicate,
						 [PLAN_REORDER] = counts->reorder,
						 [PLAN_CORRUPT] = counts->corrupt };

	for (unsigned i = PLAN_LOSS; i <= PLAN_CORRUPT; i++)
		if (run->faulty_frames * run->plan->permille[i] > 20 * 1000 && happened[i] == 0)
			run_fail(run, RUN_IDLE, "%s was requested, but happened to none of %llu frames",
				 plan_fault_names[i], (unsigned long long)run->faulty_frames);
}

/* Checks that nobody gives up if peers are up and retry long enough. */
static void
run_check_patience(struct run *run)
{
	if (run->plan->patient && !run->plan->crowded && run->given_up != 0)
		run_fail(run, RUN_STUCK, "%llu messages were given up although all hosts were up",
			 (unsigned long long)run->given_up);
}

void
run_end(struct run *run)
{
	struct sim_link_counts counts;

	for (unsigned i = 0; i < run->plan->hosts; i++)
		run_harvest(run, &run->net.hosts[i]);
	run_tally_links(run, &counts);
	if (run->result->verdict != RUN_GOOD)
		return;
	run_check_promises(run, true);
	if (!run->plan->misled)
		run_for_each_pair(run, run_check_ordered);
	run_check_sums(run, &counts);
	run_check_patience(run);
	run_check_faults(run, &counts);
}
