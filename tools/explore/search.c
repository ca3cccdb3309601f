/* search.c - see search.h. */
#include "tools/explore/search.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "platform/clock.h"
#include "tools/explore/promise.h"
#include "tools/host/host_pair.h"

enum {
	SEARCH_STATES = 2 * SEARCH_STATES_MAX, /* slots of their table */
	SEARCH_STEPS_MAX = 10 * 1000 * 1000,   /* of a run, which never ends then */
	SEARCH_RUN_S = 20,                     /* real time for a run, which never ends then */
	SEARCH_POLL_MS = 5,
	SEARCH_MORE = 2000, /* least runs after a broken promise was found */
};

/* What processes share. */
struct search_shared {
	struct search_job {
		_Atomic uint64_t runs, events;
		struct search_try {
			struct choices choices;
			struct search_outcome outcome;
		} current, best;           /* best: of those that break a promise, the first that ends earliest */
		bool is_made[CHOICES_MAX]; /* by search_try: choices of the list that the run has had */
	} jobs[SEARCH_JOBS_MAX];
	_Atomic uint64_t taken, done, first; /* of the `first` choices that can begin a list, by all processes */
	_Atomic uint64_t more;               /* runs left since a promise was broken; UINT64_MAX: none was */
	_Atomic uint64_t state_count, states[SEARCH_STATES];
};

/* Choices of a run behind those of its list. */
struct search_points {
	struct choice *list;
	size_t count, room;
};

struct searcher {
	struct net *net;
	const struct search_options *options;
	struct search_shared *shared;
	struct search_job *job;
	struct choices choices;
	struct search_points points[CHOICES_MAX + 1]; /* by the length of the list */
	volatile sig_atomic_t seconds;                /* for which the current run has taken */
};

/* A run in progress. */
struct search_run {
	struct searcher *searcher;
	const struct choices *choices;
	struct search_points *points; /* NULL: not wanted */
	unsigned passed;              /* choices of the list that have come */
	bool *is_made;                /* NULL: they come in the order of the list, or not at all */
	const struct search_observer *observer;
	uint64_t steps;
	struct search_outcome *outcome;
};

/* ---- choosing ---- */

/* Adds a choice to those that could follow the list. */
static void
search_add_point(struct search_run *run, const struct xk_sim_choice *made, unsigned option)
{
	struct search_points *points = run->points;

	if (points->count == points->room) {
		points->room = points->room == 0 ? 256 : 2 * points->room;
		points->list = reallocarray(points->list, points->room, sizeof(*points->list));
		xk_assert(points->list != NULL);
	}
	points->list[points->count++] =
		(struct choice){ .kind = (uint8_t)made->kind,
				 .option = (uint8_t)option,
				 .place = (uint8_t)made->place,
				 .host = made->host == NULL ? 0 : (uint16_t)xk_sim_host_number(made->host),
				 .number = (uint32_t)made->number };
}

/* Returns the list's option for a choice, in whatever order they come. */
static uint64_t
search_replay(struct search_run *run, const struct xk_sim_choice *made)
{
	uint64_t option = choices_option(run->choices, run->is_made, made);

	if (option != 0 && run->observer != NULL && run->observer->choice != NULL)
		run->observer->choice(run->observer->context, made);
	return option;
}

/* Chooses as the list says, and records the choices that could follow it. */
static uint64_t
search_choose(void *context, const struct xk_sim_choice *made)
{
	struct search_run *run = context;
	const struct choices *choices = run->choices;
	uint32_t choose = run->searcher->options->choose;

	if (run->is_made != NULL)
		return search_replay(run, made);
	if (run->passed < choices->count)
		return choice_is(&choices->list[run->passed], made) ? choices->list[run->passed++].option : 0;
	if (run->points == NULL)
		return 0;
	if (made->kind == XK_SIM_FRAME && (made->place != 0 || made->drawn != 0)) /* one fate for each frame */
		return 0;
	if (made->kind != XK_SIM_FRAME && (choose & SEARCH_KIND(made->kind)) != 0)
		search_add_point(run, made, 1);
	for (unsigned fate = XK_SIM_LOSE; made->kind == XK_SIM_FRAME && fate < XK_SIM_FATES; fate++)
		if ((choose & SEARCH_FATE(fate)) != 0)
			search_add_point(run, made, fate);
	return 0;
}

/* ---- promises ---- */

__attribute__((format(printf, 2, 3))) static void
search_break(struct search_outcome *outcome, const char *format, ...)
{
	va_list arguments;

	if (outcome->is_broken)
		return;
	outcome->is_broken = true;
	va_start(arguments, format);
	vsnprintf(outcome->why, sizeof(outcome->why), format, arguments);
	va_end(arguments);
}

/* Asks all protocols for their promises. */
static void
search_check(struct search_run *run, bool at_rest)
{
	char why[NET_PROMISE];

	if (net_promise(run->searcher->net, at_rest, why) != NULL)
		search_break(run->outcome, "%s", why);
}

static bool
search_continues(void *context)
{
	struct search_run *run = context;

	run->outcome->events = xk_sim_events(run->searcher->net->sim);
	if (++run->steps > SEARCH_STEPS_MAX)
		search_break(run->outcome, "the run does not end: %u steps", SEARCH_STEPS_MAX);
	search_check(run, false);
	if (run->outcome->is_broken && run->observer != NULL && run->observer->broken != NULL)
		run->observer->broken(run->observer->context, run->outcome->why);
	return !run->outcome->is_broken;
}

/* ---- states ---- */

static uint64_t
search_mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

/* Adds the end of a run to the set of states. */
static void
search_add_state(struct searcher *s)
{
	uint64_t hash = 1, none;

	for (unsigned i = 0; i < s->net->topology->host_count; i++) {
		struct xk_kernel *kernel = xk_sim_kernel(s->net->hosts[i].sim);

		hash = search_mix(hash, xk_sim_host_boots(s->net->hosts[i].sim));
		for (struct xk_protocol *p = kernel == NULL ? NULL : xk_kernel_first(kernel); p != NULL; p = p->next) {
			for (unsigned n = 0; p->type->counters != NULL && p->type->counters[n] != NULL; n++)
				if (strstr(p->type->counters[n], "_ns") == NULL)
					hash = search_mix(hash, xk_counter(p, n));
			for (unsigned n = 1; n < xk_drop_count(p->type); n++)
				hash = search_mix(hash, p->drops[n]);
		}
	}
	hash += hash == 0;
	for (size_t slot = hash % SEARCH_STATES;; slot = (slot + 1) % SEARCH_STATES) {
		none = 0;
		if (atomic_load_explicit(&s->shared->states[slot], memory_order_relaxed) == hash)
			return;
		if (atomic_load_explicit(&s->shared->state_count, memory_order_relaxed) >= SEARCH_STATES_MAX)
			return;
		if (atomic_compare_exchange_strong(&s->shared->states[slot], &none, hash)) {
			atomic_fetch_add(&s->shared->state_count, 1);
			return;
		}
		if (none == hash)
			return;
	}
}

/* ---- a run ---- */

/* Runs a list. run: its searcher, choices and outcome, and what else is wanted. */
static void
search_run_one(struct search_run *run)
{
	struct net *net = run->searcher->net;
	const struct search_options *options = run->searcher->options;
	const struct search_observer none = { .begin = NULL }, *o = run->observer == NULL ? &none : run->observer;
	struct search_outcome *outcome = run->outcome;
	char why[PROMISE_WHY];

	*outcome = (struct search_outcome){ .is_broken = false };
	if (run->points != NULL)
		run->points->count = 0;
	run->searcher->seconds = 0;
	if (o->begin != NULL)
		o->begin(o->context, net);
	if (net_open(net, options->seed, NULL, false) != 0) {
		search_break(outcome, "a host does not boot");
	} else {
		xk_sim_watch(net->sim, o->record, o->context);
		if (run->choices->no_faults)
			net_end_faults(net);
		xk_sim_choose(net->sim, options->all || run->is_made != NULL, search_choose, run);
		xk_sim_run_while(net->sim, options->until_ns, search_continues, run);
		if (!outcome->is_broken)
			search_check(run, true);
		if (!outcome->is_broken && promise_check(net, why) != NULL)
			search_break(outcome, "%s", why);
		search_add_state(run->searcher);
		xk_sim_watch(net->sim, NULL, NULL);
		if (o->stop != NULL)
			o->stop(o->context);
	}
	if (net_end(net) != 0)
		search_break(outcome, "a host has ended badly, or has lost buffers");
	if (o->end != NULL)
		o->end(o->context);
}

/* ---- all runs of a length ---- */

/* Keeps the current run if it breaks a promise and ends earlier than the one kept. */
static void
search_keep(struct search_job *job)
{
	const struct search_outcome *outcome = &job->current.outcome, *best = &job->best.outcome;

	if (outcome->is_broken && (!best->is_broken || outcome->events < best->events))
		job->best = job->current;
}

/*
 * Counts the current run. Returns whether to go on: no promise was broken so far, or runs are left to find an earlier
 * end.
 */
static bool
search_count(struct search_shared *shared, struct search_job *job, uint64_t jobs)
{
	uint64_t runs = atomic_fetch_add_explicit(&job->runs, 1, memory_order_relaxed) + 1, none = UINT64_MAX;

	atomic_fetch_add_explicit(&job->events, job->current.outcome.events, memory_order_relaxed);
	if (job->current.outcome.is_broken) {
		search_keep(job);
		atomic_compare_exchange_strong(&shared->more, &none, SEARCH_MORE + runs * jobs);
	}
	return atomic_load(&shared->more) == UINT64_MAX || (int64_t)atomic_fetch_sub(&shared->more, 1) > 0;
}

/* Makes a run that was not made before. Returns whether to go on. */
static bool
search_try_next(struct searcher *s)
{
	struct search_run run = { .searcher = s, .choices = &s->choices, .outcome = &s->job->current.outcome };

	choices_copy(&s->job->current.choices, &s->choices);
	search_run_one(&run);
	return search_count(s->shared, s->job, s->options->jobs);
}

/* Finds the choices that can follow the list: a run that was made before, and broke no promise. */
static struct search_points *
search_find_points(struct searcher *s)
{
	struct search_points *points = &s->points[s->choices.count];
	struct search_run run = {
		.searcher = s, .choices = &s->choices, .points = points, .outcome = &s->job->current.outcome
	};

	choices_copy(&s->job->current.choices, &s->choices);
	search_run_one(&run);
	return points;
}

/* Runs all lists with `more` further choices. */
static bool
search_deeper(struct searcher *s, unsigned more)
{
	const struct search_points *points;
	bool goes_on = true;

	if (more == 0)
		return search_try_next(s);
	points = search_find_points(s);
	s->choices.count++;
	for (size_t i = 0; i < points->count && goes_on; i++) {
		s->choices.list[s->choices.count - 1] = points->list[i];
		goes_on = search_deeper(s, more - 1);
	}
	s->choices.count--;
	return goes_on;
}

/* Runs lists of `length` choices, until the processes have taken all first choices. */
static void
search_part(struct searcher *s, unsigned length)
{
	const struct search_points *points;
	uint64_t i;

	if (length == 0) {
		if (atomic_fetch_add(&s->shared->taken, 1) == 0)
			search_try_next(s);
		return;
	}
	points = search_find_points(s);
	atomic_store(&s->shared->first, points->count);
	s->choices.count = 1;
	while ((i = atomic_fetch_add(&s->shared->taken, 1)) < points->count) {
		s->choices.list[0] = points->list[i];
		if (!search_deeper(s, length - 1))
			return;
		atomic_fetch_add(&s->shared->done, 1);
	}
}

/* ---- processes ---- */

/* Counts a second of the current run. Ends the process if the run does not end. */
static void
search_tick(int signal_number, siginfo_t *info, void *context)
{
	struct searcher *s = info->si_value.sival_ptr;

	(void)context;
	if (info->si_code != SI_TIMER || ++s->seconds < SEARCH_RUN_S)
		return;
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

/* Watches the process's runs. While the process is stopped, as by ctrl-Z, no seconds are counted: its signals are one. */
static void
search_limit_runs(struct searcher *s)
{
	const struct sigaction action = { .sa_sigaction = search_tick, .sa_flags = SA_SIGINFO | SA_RESTART };
	const struct itimerspec second = { { .tv_sec = 1 }, { .tv_sec = 1 } };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
				  .sigev_signo = SIGALRM,
				  .sigev_value = { .sival_ptr = s } };
	timer_t timer;

	sigaction(SIGALRM, &action, NULL);
	xk_assert(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	timer_settime(timer, 0, &second, NULL);
}

/* Silences a process that runs networks: what their protocols print, and how they fail. */
static void
search_silence(void)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (null < 0)
		return;
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
}

/* Completes the outcome of a process that has ended: it may have been killed. */
static void
search_explain(int status, struct search_outcome *outcome)
{
	if (!WIFSIGNALED(status) && WEXITSTATUS(status) == 0)
		return;
	outcome->is_broken = false;
	outcome->has_ended = true;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		search_break(outcome, "the run does not end: it took more than %d s", SEARCH_RUN_S);
	else if (WIFSIGNALED(status))
		search_break(outcome, "the program ended: %s", strsignal(WTERMSIG(status)));
	else
		search_break(outcome, "the program ended with status %d", WEXITSTATUS(status));
}

/* Returns memory that processes share, or NULL. */
static struct search_shared *
search_share(void)
{
	const int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_ANONYMOUS;
	/* cppcheck-suppress invalidFunctionArg; -1 is what anonymous memory takes */
	void *shared = mmap(NULL, sizeof(struct search_shared), protection, flags, -1, 0);

	if (shared == MAP_FAILED)
		return NULL;
	return shared; /* cppcheck-suppress memleak; the caller unmaps it */
}

int
search_try(struct net *net, const struct search_options *options, struct choices *choices,
	   const struct search_observer *observer, struct search_outcome *outcome)
{
	struct search_shared *shared = search_share();
	struct searcher s = { .net = net, .options = options, .shared = shared };
	unsigned kept = 0;
	int status;
	pid_t pid;

	if (shared == NULL)
		return -ENOMEM;
	pid = pair_fork();
	if (pid == 0) {
		struct search_job *job = &shared->jobs[0];
		struct search_run run = { .searcher = &s,
					  .choices = choices,
					  .is_made = job->is_made,
					  .observer = observer,
					  .outcome = &job->current.outcome };

		if (observer == NULL)
			search_silence();
		search_limit_runs(&s);
		search_run_one(&run);
		fflush(NULL);
		_exit(0);
	}
	if (pid > 0 && waitpid(pid, &status, 0) == pid) {
		*outcome = shared->jobs[0].current.outcome;
		search_explain(status, outcome);
		for (unsigned i = 0; i < choices->count; i++)
			if (shared->jobs[0].is_made[i])
				choices->list[kept++] = choices->list[i];
		choices->count = kept;
	}
	munmap(shared, sizeof(*shared));
	return pid < 0 ? -EAGAIN : 0;
}

int
search_shrink(struct net *net, const struct search_options *options, struct choices *choices,
	      struct search_outcome *outcome)
{
	struct search_outcome tried;
	struct choices without;
	bool is_shorter = true;
	int err = 0;

	while (is_shorter && err == 0) {
		is_shorter = false;
		for (unsigned i = choices->count; i-- > 0 && err == 0;) {
			without = *choices;
			memmove(&without.list[i], &without.list[i + 1],
				(--without.count - i) * sizeof(without.list[0]));
			err = search_try(net, options, &without, NULL, &tried);
			if (err != 0 || !tried.is_broken)
				continue;
			*choices = without;
			*outcome = tried;
			is_shorter = true;
			i = i < choices->count ? i : choices->count;
		}
	}
	return err;
}

/* ---- the search ---- */

struct search_watch {
	struct search_shared *shared;
	const struct search_options *options;
	struct search_result *result;
	unsigned length;
	uint64_t begun_ns, length_ns, shown_ns; /* length_ns: when the runs of this length began */
};

/* Sums up what the processes have done. */
static void
search_sum(const struct search_watch *w)
{
	struct search_result *result = w->result;
	uint64_t first = atomic_load(&w->shared->first);

	result->runs = result->events = 0;
	for (unsigned i = 0; i < w->options->jobs; i++) {
		result->runs += atomic_load(&w->shared->jobs[i].runs);
		result->events += atomic_load(&w->shared->jobs[i].events);
	}
	result->length = w->length;
	result->share = first == 0 ? 0 : (double)atomic_load(&w->shared->done) / (double)first;
	result->elapsed_ns = clock_system_ns() - w->begun_ns;
}

static void
search_show(struct search_watch *w, uint64_t now_ns)
{
	const struct search_result *result = w->result;
	double seconds, length_s = (double)(now_ns - w->length_ns) / 1e9;

	if (!w->options->is_shown || now_ns < w->shown_ns + 1000000000)
		return;
	w->shown_ns = now_ns;
	search_sum(w);
	seconds = (double)result->elapsed_ns / 1e9;
	fprintf(stderr, "\r%u choices: %.0f %%, %" PRIu64 " runs, %.0f a second, %.0f s", w->length,
		100 * result->share, result->runs, (double)result->runs / seconds, seconds);
	if (result->share > 0)
		fprintf(stderr, ", %.0f s left", length_s * (1 - result->share) / result->share);
	fputs("   ", stderr);
}

/* Waits for the processes. Returns false if they were ended before. */
static bool
search_await(struct search_watch *w, pid_t *pids, int signals)
{
	struct pollfd polls = { .fd = signals, .events = POLLIN };
	unsigned running = (unsigned)w->options->jobs;
	bool ended = false;

	while (running > 0) {
		uint64_t now_ns = clock_system_ns();
		bool late = w->options->limit_ns != 0 && now_ns - w->begun_ns > w->options->limit_ns;

		search_show(w, now_ns);
		if (!ended && (poll(&polls, 1, SEARCH_POLL_MS) > 0 || late)) {
			ended = true;
			for (unsigned i = 0; i < w->options->jobs; i++)
				if (pids[i] > 0)
					kill(pids[i], SIGKILL);
		}
		for (unsigned i = 0; i < w->options->jobs; i++) {
			struct search_job *job = &w->shared->jobs[i];
			int status;

			if (pids[i] <= 0 || waitpid(pids[i], &status, ended ? 0 : WNOHANG) != pids[i])
				continue;
			pids[i] = 0;
			running--;
			if (ended)
				continue;
			search_explain(status, &job->current.outcome);
			if (job->current.outcome.has_ended)
				search_count(w->shared, job, w->options->jobs);
		}
	}
	return !ended;
}

/* Runs all lists of a length. Returns 1 to go on, 0 to end, or -EAGAIN: no process could be made. */
static int
search_length(struct net *net, struct search_watch *w, int signals)
{
	pid_t pids[SEARCH_JOBS_MAX];
	const struct search_try *best = NULL;

	w->length_ns = clock_system_ns();
	atomic_store(&w->shared->more, UINT64_MAX);
	atomic_store(&w->shared->taken, 0);
	atomic_store(&w->shared->done, 0);
	atomic_store(&w->shared->first, 0);
	for (unsigned i = 0; i < w->options->jobs; i++) {
		struct search_job *job = &w->shared->jobs[i];

		job->current.outcome = (struct search_outcome){ .is_broken = false };
		pids[i] = pair_fork();
		if (pids[i] == 0) {
			static struct searcher s;

			s = (struct searcher){ .net = net, .options = w->options, .shared = w->shared, .job = job };
			search_silence();
			search_limit_runs(&s);
			search_part(&s, w->length);
			_exit(0);
		}
		if (pids[i] > 0)
			continue;
		while (i-- > 0) {
			kill(pids[i], SIGKILL);
			waitpid(pids[i], NULL, 0);
		}
		return -EAGAIN;
	}
	w->result->is_complete = search_await(w, pids, signals);
	search_sum(w);
	for (unsigned i = 0; i < w->options->jobs; i++) {
		const struct search_try *one = &w->shared->jobs[i].best;

		if (one->outcome.is_broken && (best == NULL || one->outcome.events < best->outcome.events))
			best = one;
	}
	if (best == NULL)
		return w->result->is_complete;
	w->result->is_found = true;
	w->result->choices = best->choices;
	w->result->outcome = best->outcome;
	return 0;
}

int
search(struct net *net, const struct search_options *options, int signals, struct search_result *result)
{
	struct search_watch w = { search_share(), options, result, .begun_ns = clock_system_ns() };
	int more = 1;

	*result = (struct search_result){ .runs = 0 };
	if (w.shared == NULL)
		return -ENOMEM;
	w.shown_ns = w.begun_ns;
	for (w.length = 0; w.length <= options->faults && more == 1; w.length++)
		more = search_length(net, &w, signals);
	if (options->is_shown && w.shown_ns != w.begun_ns)
		fprintf(stderr, "\n");
	result->states = atomic_load(&w.shared->state_count);
	if (result->states > SEARCH_STATES_MAX) /* several processes have added the last one */
		result->states = SEARCH_STATES_MAX;
	for (size_t i = 0; i < SEARCH_STATES; i++)
		result->states_hash += search_mix(1, atomic_load_explicit(&w.shared->states[i], memory_order_relaxed)) *
				       (w.shared->states[i] != 0);
	munmap(w.shared, sizeof(*w.shared));
	return more < 0 ? more : 0;
}
