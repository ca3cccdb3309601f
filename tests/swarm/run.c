/*
 * run.c - see run.h. Until heal_ns faults happen everywhere; then no more happen, and everything must finish:
 *
 *	0 ... heal        faults; every message delivered must be allowed by the guarantees
 *	heal ... settle   dead peers are noticed; ARP, timeouts
 *	settle ... stop   messages sent now get through, between all pairs of hosts
 *	stop ... quiet    nothing more is sent; messages in flight arrive or expire
 *	quiet ... end     nothing happens, and nothing is held
 */
#include "tests/swarm/run_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const run_verdict_names[RUN_VERDICTS] = {
	"good",  "promise", "corrupt", "duplicated", "misdirected", "leaked",
	"stuck", "busy",    "unknown", "idle",       "refused",     "caught",
};

enum {
	RUN_STEPS_MAX = 20000000, /* per run: a hundred times the longest's */
	RUN_STEPS_QUIET = 8,      /* ... per host while nothing is in flight; some that had a peer forget it */
	RUN_SLICE_NS = 20000000,  /* between two looks at clients */
	RUN_ETHERTYPE = 12,
	RUN_ETHERTYPE_IP = 0x0800,
};

void
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

/* How long streams may go on after the end of traffic. */
#define RUN_LATE_NS UINT64_C(600000000000)

/* ---- scheduled events ---- */

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

/* Harvests a host's counters just before it crashes. */
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

/* ---- changing settings ---- */

static void
run_set(struct xk_protocol *p, const char *name, const char *value)
{
	char why[160];

	for (const struct xk_setting *s = p->type->settings; s->name != NULL; s++)
		if (strcmp(s->name, name) == 0)
			xk_assert(xk_setting_parse(s, value, p, why, sizeof(why)) == 0);
}

/* Sets a setting of all protocols of a type, on all hosts. */
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
	run_set_all(run, "bidctl", "keepalive", "0s");
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

	if (XK_IS_DEBUG)
		run_check_promises(run, false);
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

/* Runs until at_ns, and gives idle clients of tcptest something to do now and then. */
static void
run_streams_until(struct run *run, uint64_t at_ns, void (*start)(struct run *run))
{
	uint64_t next_ns;

	while (plan_has(run->plan->scenario, "tcptest") && run->result->verdict == RUN_GOOD &&
	       (next_ns = xk_sim_now_ns(run->net.sim) + RUN_SLICE_NS) < at_ns) {
		start(run);
		run_until(run, next_ns);
	}
	run_until(run, at_ns);
}

/* ---- a run ---- */

static void
run_live(struct run *run)
{
	const struct plan *plan = run->plan;
	uint64_t late_ns = 0;

	run_schedule(run);
	run_streams_init(run);
	run_streams_until(run, plan->heal_ns, run_streams_start);
	run->faulty_frames = run->frames.arrived;
	run_heal(run);
	run_until(run, plan->settle_ns);
	run_begin_settled(run);
	run_streams_until(run, plan->stop_ns, run_streams_start_settled);
	run_check_live(run);
	run_streams_check(run);
	run_stop_traffic(run);
	while (run_streams_go_on(run) && late_ns < RUN_LATE_NS) { /* hosts with few buffers are slow */
		late_ns += RUN_SLICE_NS;
		run_until(run, plan->stop_ns + late_ns);
	}
	run_until(run, plan->quiet_ns + late_ns);
	run->steps_max = run->steps + RUN_STEPS_QUIET * plan->hosts;
	run_until(run, plan->end_ns + late_ns);
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
		run_fail(run, RUN_LEAKED, "buffers were not returned, or a host could not be booted");
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
