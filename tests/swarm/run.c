/*
 * run.c - see run.h. Until heal_ns faults happen everywhere; then none happens any more, and everything has to finish:
 *
 *	0 ... heal        faults; nothing may come that was not promised
 *	heal ... settle   who is dead is noticed; ARP, time-outs
 *	settle ... stop   what is sent now gets through, between all pairs of hosts
 *	stop ... quiet    nothing more is sent; what is under way arrives, or its time is up
 *	quiet ... end     nothing happens, and nobody holds anything
 */
#include "tests/swarm/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocols/traffic.h"
#include "tools/net.h"
#include "tools/pcapng.h"

const char *const run_verdict_names[RUN_VERDICTS] = {
	"good",   "corrupt", "duplicated", "misdirected", "leaked",  "held",   "stuck",
	"parked", "busy",    "unknown",    "idle",        "refused", "caught",
};

enum {
	RUN_TRAFFICS = PLAN_HOSTS_MAX * PLAN_TRAFFICS_MAX,
	RUN_STREAMS = 1000,
	RUN_STEPS_MAX = 20000000, /* of a run; a hundred times what the longest takes */
	RUN_STEPS_QUIET = 4,      /* ... of a host while nothing is under way */
	RUN_NEED = 3,             /* so many messages of a pair accepted, and one has to have come */
	RUN_ETHERTYPE = 12,
	RUN_ETHERTYPE_IP = 0x0800,
};

/* What one user has tried to send to another: what was accepted, what was refused. */
struct run_attempts {
	uint64_t accepted, refused;
	bool open;
};

/* One traffic instance. */
struct run_user {
	struct net_host *host;
	unsigned n; /* of the scenario's traffics */
	uint32_t address;
	uint64_t incarnation; /* when the network had settled */
	/* by host number: what this user had tried to send to it then, and had of it */
	struct run_attempts tried[PLAN_HOSTS_MAX];
	uint64_t had_of[PLAN_HOSTS_MAX];
};

/* Frames that were seen, all and those of IP. */
struct run_frames {
	uint64_t receivers, arrived, lost, ip_sent, ip_arrived;
};

struct run {
	const struct plan *plan;
	struct net net;
	struct run_tally *tally;
	struct run_result *result;
	struct run_frames frames;
	struct run_user users[RUN_TRAFFICS];
	unsigned user_count;
	uint64_t steps, steps_max;
	uint64_t faulty_frames; /* arrived while there were faults */
	struct pcapng *capture;
	unsigned interfaces[PLAN_HOSTS_MAX];
	/* sums of the messages of this run, over all boots */
	uint64_t sent, unsent, received, damaged, misdirected;
	uint64_t drops, given_up, duplicated;
	struct xk_traffic_sender senders[RUN_STREAMS];
};

/* The first thing that is wrong is told. */
__attribute__((format(printf, 3, 4))) static void
run_fail(struct run *run, enum run_verdict verdict, const char *format, ...)
{
	va_list arguments;

	if (run->result->verdict != RUN_GOOD)
		return;
	run->result->verdict = verdict;
	va_start(arguments, format);
	vsnprintf(run->result->why, sizeof(run->result->why), format, arguments);
	va_end(arguments);
}

/* ---- watching ---- */

static bool
run_is_ip(const struct xk_sim_record *record)
{
	return record->len > RUN_ETHERTYPE + 1 && record->frame[RUN_ETHERTYPE] == RUN_ETHERTYPE_IP >> 8 &&
	       record->frame[RUN_ETHERTYPE + 1] == 0;
}

static void
run_see(void *context, const struct xk_sim_record *record)
{
	struct run *run = context;
	struct run_frames *frames = &run->frames;

	if (record->frame == NULL)
		return;
	if (record->event == XK_SIM_SENT) {
		frames->receivers += (record->frame[0] & 1) != 0 ? run->plan->hosts - 1 : 1;
		frames->ip_sent += run_is_ip(record);
	} else if (record->event == XK_SIM_ARRIVED) {
		frames->arrived++;
		frames->ip_arrived += run_is_ip(record);
	} else {
		frames->lost++;
	}
	if (run->capture != NULL)
		pcapng_frame(run->capture, run->interfaces[xk_sim_host_number(record->host)], record->at_ns,
			     record->event == XK_SIM_SENT ? PCAPNG_OUT : PCAPNG_IN, record->frame, record->len,
			     record->why);
}

static void
run_open_capture(struct run *run, const char *file)
{
	char name[32];

	run->capture = file == NULL ? NULL : pcapng_open(file, "swarm");
	for (unsigned i = 0; run->capture != NULL && i < run->plan->hosts; i++) {
		snprintf(name, sizeof(name), "h%u.port", i + 1);
		run->interfaces[i] = pcapng_interface(run->capture, name);
	}
}

/* ---- what a kernel has counted ---- */

static bool
run_is(const struct xk_protocol *p, const char *type)
{
	return strcmp(p->type->name, type) == 0;
}

/* 0: the protocol has no such counter. */
static uint64_t
run_counter(const struct xk_protocol *p, const char *name)
{
	for (unsigned i = 0; p->type->counters != NULL && p->type->counters[i] != NULL; i++)
		if (strcmp(p->type->counters[i], name) == 0)
			return p->counters[i];
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

/* What it dropped of users' messages: of ARP those that waited for an address, and not its own packets. */
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

/* What was promised to this user. */
static void
run_judge_user(struct run *run, const struct run_user *user, const struct xk_protocol *p)
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
		run_fail(run, RUN_MISDIRECTED, "%s.%s got %llu messages that were for others", host, p->name,
			 (unsigned long long)misdirected);
	if (corrupt != 0 && (!run->plan->damages || run->plan->checked || report.broken != 0))
		run_fail(run, RUN_CORRUPT, "%s.%s got %llu messages that nobody has sent", host, p->name,
			 (unsigned long long)corrupt);
	if (report.broken != 0)
		run_fail(run, RUN_DUPLICATED, "%s.%s: %s", host, p->name, report.first);
}

static struct xk_protocol *
run_protocol(const struct run *run, const struct run_user *user)
{
	struct xk_kernel *kernel = xk_sim_kernel(user->host->sim);

	return kernel == NULL ? NULL : xk_kernel_find(kernel, run->plan->scenario->traffics[user->n]);
}

/* A boot of host is over, or the run is. */
static void
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
			run_judge_user(run, &run->users[i], run_protocol(run, &run->users[i]));
	xk_kernel_stats(kernel, &stats);
	for (unsigned i = 0; i < XK_HANDOFF_REASONS; i++)
		run->tally->handoffs += stats.handoffs[i];
	run->tally->fallbacks += stats.fallbacks;
	run->tally->no_stack += stats.no_stack;
	run->tally->parks += stats.parks;
}

/* What is not zero of a host's counts, a line for each protocol. */
static void
run_write_counts(struct net_host *host, FILE *file)
{
	struct xk_kernel *kernel = xk_sim_kernel(host->sim);

	for (struct xk_protocol *p = kernel == NULL ? NULL : xk_kernel_first(kernel); p != NULL; p = p->next) {
		fprintf(file, "%s.%s:", host->topology->name, p->name);
		for (unsigned i = 0; p->type->counters != NULL && p->type->counters[i] != NULL; i++)
			if (p->counters[i] != 0)
				fprintf(file, " %s %llu", p->type->counters[i], (unsigned long long)p->counters[i]);
		for (unsigned i = 1; i < xk_drop_count(p->type); i++)
			if (p->drops[i] != 0)
				fprintf(file, " dropped.%s %llu", xk_drop_name(p->type, i),
					(unsigned long long)p->drops[i]);
		fprintf(file, "\n");
	}
}

/* ---- what happens at its time ---- */

struct run_act {
	struct run *run;
	struct net_host *host;
	const struct plan_cut *cut;
};

static void
run_before_crash(void *context)
{
	struct run_act *act = context;

	if (!act->host->healed) {
		run_harvest(act->run, act->host);
		act->run->tally->faults[PLAN_CRASH] += xk_sim_is_up(act->host->sim);
	}
	free(act);
}

static void
run_cut(void *context)
{
	struct run_act *act = context;

	if (!act->host->healed)
		xk_sim_cut(act->host->sim, 0, act->cut->sends, act->cut->receives);
	free(act);
}

static void
run_join(void *context)
{
	struct run_act *act = context;

	xk_sim_cut(act->host->sim, 0, false, false);
	free(act);
}

static void
run_at(struct run *run, uint64_t at_ns, void (*act)(void *context), struct net_host *host, const struct plan_cut *cut)
{
	struct run_act *context = malloc(sizeof(*context));

	xk_assert(context != NULL);
	*context = (struct run_act){ run, host, cut };
	xk_assert(xk_sim_at(run->net.sim, at_ns, act, context) == 0);
}

/* What a host counts is asked for just before it crashes. */
static void
run_schedule(struct run *run)
{
	for (unsigned i = 0; i < run->plan->hosts; i++) {
		struct net_host *host = &run->net.hosts[i];

		for (unsigned k = 0; k < host->settings.crash_count; k++)
			run_at(run, host->settings.crash_ns[k] - 1, run_before_crash, host, NULL);
	}
	for (unsigned i = 0; i < run->plan->cut_count; i++) {
		const struct plan_cut *cut = &run->plan->cuts[i];

		run_at(run, cut->from_ns, run_cut, &run->net.hosts[cut->host], cut);
		run_at(run, cut->to_ns, run_join, &run->net.hosts[cut->host], cut);
	}
}

/* ---- changing what runs ---- */

static void
run_set(struct xk_protocol *p, const char *name, const char *value)
{
	char why[160];

	for (const struct xk_setting *s = p->type->settings; s->name != NULL; s++)
		if (strcmp(s->name, name) == 0)
			xk_assert(xk_setting_parse(s, value, p, why, sizeof(why)) == 0);
}

/* Sets something of all protocols of a type, on all hosts. */
static void
run_set_all(struct run *run, const char *type, const char *name, const char *value)
{
	for (unsigned i = 0; i < run->plan->hosts; i++) {
		struct xk_kernel *kernel = xk_sim_kernel(run->net.hosts[i].sim);

		for (struct xk_protocol *p = kernel == NULL ? NULL : xk_kernel_first(kernel); p != NULL; p = p->next)
			if (run_is(p, type))
				run_set(p, name, value);
	}
}

static void
run_stop_traffic(struct run *run)
{
	for (unsigned i = 0; i < run->user_count; i++)
		if (run_protocol(run, &run->users[i]) != NULL)
			xk_traffic_stop(run_protocol(run, &run->users[i]));
}

static void
run_heal(struct run *run)
{
	net_heal(&run->net);
	run_set_all(run, "vdrop", "loss", "0");
	run_set_all(run, "vdrop", "duplicate", "0");
	run_set_all(run, "vdrop", "reorder", "0");
	run_set_all(run, "vdrop", "corrupt", "0");
	run_set_all(run, "vdelay", "jitter", "0s");
	run_set_all(run, "vdelay", "up", "0s");
	run_set_all(run, "vdelay", "down", "0s");
}

/* ---- time ---- */

static bool
run_goes_on(void *context)
{
	struct run *run = context;

	return ++run->steps < run->steps_max;
}

static void
run_until(struct run *run, uint64_t at_ns)
{
	if (run->result->verdict == RUN_BUSY)
		return;
	if (xk_sim_run_while(run->net.sim, at_ns, run_goes_on, run))
		run_fail(run, RUN_BUSY, "%llu steps until %llu us", (unsigned long long)run->steps,
			 (unsigned long long)(xk_sim_now_ns(run->net.sim) / 1000));
}

/* ---- liveness ---- */

/* What user has had of the boot of `from` that is there: different messages. */
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

static void
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

/* Since the network has settled something could be sent, and something has come; unless chance did not want any. */
static void
run_judge_pair(struct run *run, struct run_user *from, struct run_user *to)
{
	struct run_attempts before = from->tried[run_host_number(to)], now = run_attempts(run, from, to);
	uint64_t sent = now.accepted - before.accepted, refused = now.refused - before.refused;
	uint64_t had = run_had_of(run, to, from) - to->had_of[run_host_number(from)];

	if (had > 0 || (now.open && sent < RUN_NEED && refused < RUN_NEED))
		return;
	run_fail(run, RUN_STUCK,
		 "since all was healed %s.%s has sent %llu messages to %s, was refused %llu, and none has come",
		 from->host->topology->name, run->plan->scenario->traffics[from->n], (unsigned long long)sent,
		 to->host->topology->name, (unsigned long long)refused);
}

/*
 * What was promised to come has come: of a session that is not dead, all that was accepted. One that has carried nothing
 * since the network has settled may have been a session with a former boot.
 */
static void
run_judge_delivered(struct run *run, struct run_user *from, struct run_user *to)
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
	run_fail(run, RUN_STUCK, "not all of the %u messages of stream %u from %s have come to %s", peer->position,
		 peer->stream, from->host->topology->name, to->host->topology->name);
}

static void
run_judge_ordered(struct run *run, struct run_user *from, struct run_user *to)
{
	if (strcmp(run->plan->scenario->promises[from->n], "ordered") == 0)
		run_judge_delivered(run, from, to);
}

/* Nobody holds anything, nobody waits. */
static void
run_judge_rest(struct run *run, struct net_host *host)
{
	struct xk_platform *platform = xk_sim_platform(host->sim);
	struct xk_kernel *kernel = xk_sim_kernel(host->sim);
	unsigned out = platform->ops->buffers_out(platform);
	struct xk_kernel_stats stats;

	if (kernel == NULL)
		return;
	xk_kernel_stats(kernel, &stats);
	if (out != 0)
		run_fail(run, RUN_HELD, "%s holds %u buffers, though nothing is going on any more",
			 host->topology->name, out);
	if (stats.stacks_parked != 0)
		run_fail(run, RUN_PARKED, "%s has %u shepherds that wait for ever", host->topology->name,
			 stats.stacks_parked);
}

/* ---- adding up ---- */

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
	return run->plan->scenario->promises[1] == NULL && strcmp(run->plan->scenario->promises[0], "ordered") == 0;
}

/*
 * Every message that was sent is known to have come or to have been dropped. Kernels that crashed take that along; where
 * stacks are few, and where frames are damaged, some of what was dropped is ARP's.
 */
static void
run_judge_sums(struct run *run, const struct sim_link_counts *counts)
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
		run_fail(run, RUN_UNKNOWN, "%llu messages were accepted: %llu have come, %llu were given up",
			 (unsigned long long)run->sent, (unsigned long long)run->received,
			 (unsigned long long)run->given_up);
}

/*
 * Of so many frames and a fault of this probability one would have met it, but in one of 10^8 runs: a network without it
 * has no such fault.
 */
static void
run_judge_faults(struct run *run, const struct sim_link_counts *counts)
{
	const uint64_t happened[PLAN_FAULTS] = { [PLAN_LOSS] = counts->loss,
						 [PLAN_DUPLICATE] = counts->duplicate,
						 [PLAN_REORDER] = counts->reorder,
						 [PLAN_CORRUPT] = counts->corrupt };

	for (unsigned i = PLAN_LOSS; i <= PLAN_CORRUPT; i++)
		if (run->faulty_frames * run->plan->permille[i] > 20 * 1000 && happened[i] == 0)
			run_fail(run, RUN_IDLE, "%s was asked for, and none happened to %llu frames",
				 plan_fault_names[i], (unsigned long long)run->faulty_frames);
}

/* Where peers are there, and try long enough, nobody gives up. */
static void
run_judge_patience(struct run *run)
{
	if (run->plan->patient && !run->plan->crowded && run->given_up != 0)
		run_fail(run, RUN_STUCK, "%llu messages were given up, though everybody was there",
			 (unsigned long long)run->given_up);
}

static void
run_end(struct run *run)
{
	struct sim_link_counts counts;

	for (unsigned i = 0; i < run->plan->hosts; i++)
		run_harvest(run, &run->net.hosts[i]);
	run_tally_links(run, &counts);
	if (run->result->verdict != RUN_GOOD)
		return;
	for (unsigned i = 0; i < run->plan->hosts; i++)
		run_judge_rest(run, &run->net.hosts[i]);
	if (!run->plan->misled)
		run_for_each_pair(run, run_judge_ordered);
	run_judge_sums(run, &counts);
	run_judge_patience(run);
	run_judge_faults(run, &counts);
}

/* ---- a run ---- */

static void
run_live(struct run *run)
{
	const struct plan *plan = run->plan;

	run_schedule(run);
	run_until(run, plan->heal_ns);
	run->faulty_frames = run->frames.arrived;
	run_heal(run);
	run_until(run, plan->settle_ns);
	run_begin_settled(run);
	run_until(run, plan->stop_ns);
	if (!plan->scarce && !plan->crowded && !plan->misled && run->result->verdict == RUN_GOOD)
		run_for_each_pair(run, run_judge_pair);
	run_stop_traffic(run);
	run_until(run, plan->quiet_ns);
	run->steps_max = run->steps + RUN_STEPS_QUIET * plan->hosts;
	run_until(run, plan->end_ns);
}

static void
run_find_users(struct run *run)
{
	for (unsigned i = 0; i < run->plan->hosts; i++)
		for (unsigned n = 0; n < PLAN_TRAFFICS_MAX && run->plan->scenario->traffics[n] != NULL; n++)
			run->users[run->user_count++] = (struct run_user){ .host = &run->net.hosts[i], .n = n };
}

static bool
run_open(struct run *run, const char *directory)
{
	char file[4096];

	snprintf(file, sizeof(file), "%snetwork.dot", directory);
	if (!run_write_files(run->plan, directory) ||
	    net_read_text(&run->net, "swarm", file, run->plan->network, strlen(run->plan->network)) != 0 ||
	    net_open(&run->net, run->plan->seed, NULL, false) != 0) {
		run_fail(run, RUN_REFUSED, "the network is refused");
		return false;
	}
	return true;
}

static void
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

static void
run_close(struct run *run)
{
	run->tally->runs++;
	run->tally->sent += run->sent;
	run->tally->received += run->received;
	run->tally->steps += run->steps;
	run->tally->virtual_ns += xk_sim_now_ns(run->net.sim);
	for (unsigned i = 0; i < run->plan->hosts; i++)
		run->tally->boots += xk_sim_host_boots(run->net.hosts[i].sim);
	run->result->hash = xk_sim_hash(run->net.sim);
	run->tally->hash += run->result->hash * (2 * run->plan->seed + 1);
	xk_sim_watch(run->net.sim, NULL, NULL);
	pcapng_close(run->capture);
}

void
run_plan(const struct plan *plan, const char *directory, const char *capture, struct run_tally *tally,
	 struct run_result *result)
{
	struct run *run = calloc(1, sizeof(*run));

	xk_assert(run != NULL);
	*result = (struct run_result){ .verdict = RUN_GOOD };
	*run = (struct run){ .plan = plan, .tally = tally, .result = result, .steps_max = RUN_STEPS_MAX };
	if (run_open(run, directory)) {
		run_find_users(run);
		run_open_capture(run, capture);
		xk_sim_watch(run->net.sim, run_see, run);
		run_live(run);
		run_end(run);
		if (capture != NULL)
			run_keep_counts(run, directory);
		run_close(run);
	}
	if (run->net.sim != NULL && net_close(&run->net) != 0)
		run_fail(run, RUN_LEAKED, "buffers have not come back, or a host could not be booted");
	free(run);
}

/* ---- files ---- */

static bool
run_write_file(const char *directory, const char *name, const char *text)
{
	char path[4096];
	FILE *file;
	bool good;

	snprintf(path, sizeof(path), "%s%s", directory, name);
	file = fopen(path, "we");
	if (file == NULL)
		return false;
	good = fputs(text, file) >= 0;
	return fclose(file) == 0 && good;
}

bool
run_write_files(const struct plan *plan, const char *directory)
{
	bool good = run_write_file(directory, "network.dot", plan->network);

	for (unsigned i = 0; i < PLAN_GRAPHS; i++)
		good = run_write_file(directory, plan_graph_files[i], plan->graphs[i]) && good;
	return good;
}
