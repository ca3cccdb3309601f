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
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/clock.h"
#include "tools/explore/promise.h"

enum {
	SEARCH_STATES = 2 * SEARCH_STATES_MAX, /* slots of their table */
	SEARCH_STEPS_MAX = 10 * 1000 * 1000,   /* of a run, which never ends then */
	SEARCH_RUN_S = 20,                     /* real time for a run, which never ends then */
	SEARCH_POLL_MS = 50,
	SEARCH_FOUND = 3, /* exit status of a process that has found a broken promise */
};

/* What processes share. */
struct search_shared {
	struct search_job {
		_Atomic uint64_t runs, events, at, of; /* at, of: first choices done, and all of them */
		struct choices current;
		struct search_outcome outcome;
		uint64_t first; /* place of the first choice of `current` */
	} jobs[SEARCH_JOBS_MAX];
	_Atomic uint64_t bound; /* place of the first choice up to which to go on: there, a promise was broken */
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
};

/* A run in progress. */
struct search_run {
	struct searcher *searcher;
	const struct choices *choices;
	struct search_points *points; /* NULL: not wanted */
	unsigned passed;              /* choices of the list that have come */
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

/* Chooses as the list says, and records the choices that could follow it. */
static unsigned
search_choose(void *context, const struct xk_sim_choice *made)
{
	struct search_run *run = context;
	const struct choices *choices = run->choices;
	uint32_t choose = run->searcher->options->choose;

	if (run->passed < choices->count) {
		if (!choice_is(&choices->list[run->passed], made))
			return 0;
		return choices->list[run->passed++].option;
	}
	if (run->points == NULL)
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

	if (++run->steps > SEARCH_STEPS_MAX)
		search_break(run->outcome, "the run does not end: %u steps", SEARCH_STEPS_MAX);
	search_check(run, false);
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

static void
search_run_one(struct searcher *s, const struct choices *choices, struct search_points *points,
	       void (*see)(void *context, const struct xk_sim_record *record), void *context,
	       struct search_outcome *outcome)
{
	struct search_run run = { .searcher = s, .choices = choices, .points = points, .outcome = outcome };
	struct net *net = s->net;
	char why[PROMISE_WHY];

	*outcome = (struct search_outcome){ .is_broken = false };
	if (points != NULL)
		points->count = 0;
	alarm(SEARCH_RUN_S);
	if (net_open(net, s->options->seed, NULL, false) != 0) {
		search_break(outcome, "a host does not boot");
	} else {
		xk_sim_watch(net->sim, see, context);
		xk_sim_choose(net->sim, s->options->all, search_choose, &run);
		xk_sim_run_while(net->sim, s->options->until_ns, search_continues, &run);
		if (!outcome->is_broken)
			search_check(&run, true);
		if (!outcome->is_broken && promise_check(net, why) != NULL)
			search_break(outcome, "%s", why);
		outcome->events = xk_sim_events(net->sim);
		search_add_state(s);
		xk_sim_watch(net->sim, NULL, NULL);
	}
	if (net_end(net) != 0)
		search_break(outcome, "a host has ended badly, or has lost buffers");
	alarm(0);
}

/* ---- all runs of a length ---- */

/* Counts a run that was not made before. Returns whether its promises hold. */
static bool
search_try_next(struct searcher *s)
{
	struct search_job *job = s->job;

	job->current = s->choices;
	search_run_one(s, &s->choices, NULL, NULL, NULL, &job->outcome);
	atomic_fetch_add_explicit(&job->runs, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&job->events, job->outcome.events, memory_order_relaxed);
	return !job->outcome.is_broken;
}

/* Runs all lists with `more` further choices. */
static bool
search_deeper(struct searcher *s, unsigned more)
{
	struct search_points *points = &s->points[s->choices.count];
	struct search_outcome outcome;
	bool holds = true;

	if (more == 0)
		return search_try_next(s);
	search_run_one(s, &s->choices, points, NULL, NULL, &outcome); /* again: its promises held */
	s->choices.count++;
	for (size_t i = 0; i < points->count && holds; i++) {
		s->choices.list[s->choices.count - 1] = points->list[i];
		holds = search_deeper(s, more - 1);
	}
	s->choices.count--;
	return holds;
}

/* Runs the lists of `length` choices of which job `number` has the first one. */
static bool
search_part(struct searcher *s, unsigned number, unsigned length)
{
	struct search_points *points = &s->points[0];
	struct search_outcome outcome;

	if (length == 0)
		return number != 0 || search_try_next(s);
	search_run_one(s, &s->choices, points, NULL, NULL, &outcome);
	atomic_store(&s->job->of, points->count);
	s->choices.count = 1;
	for (uint64_t i = number; i < points->count; i += s->options->jobs) {
		if (i > atomic_load(&s->shared->bound))
			return true;
		s->job->first = i;
		s->choices.list[0] = points->list[i];
		if (!search_deeper(s, length - 1)) {
			for (uint64_t bound = atomic_load(&s->shared->bound);
			     i < bound && !atomic_compare_exchange_weak(&s->shared->bound, &bound, i);)
				continue;
			return false;
		}
		atomic_store(&s->job->at, i + 1);
	}
	atomic_store(&s->job->at, points->count);
	return true;
}

/* ---- processes ---- */

/* Prepares a process that runs networks: it ends with its parent, and failures are silent. */
static void
search_begin_process(bool is_silent)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGALRM, SIG_DFL);
	signal(SIGINT, SIG_IGN);
	if (is_silent && null >= 0)
		dup2(null, STDERR_FILENO);
}

/* Completes the outcome of a process that has ended: it may have been killed. */
static void
search_explain(int status, struct search_outcome *outcome)
{
	if (!WIFSIGNALED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == SEARCH_FOUND))
		return;
	*outcome = (struct search_outcome){ .is_broken = false };
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
search_try(struct net *net, const struct search_options *options, const struct choices *choices,
	   void (*see)(void *context, const struct xk_sim_record *record), void *context,
	   struct search_outcome *outcome)
{
	struct search_shared *shared = search_share();
	struct searcher s = { .net = net, .options = options, .shared = shared };
	int status;
	pid_t pid;

	if (shared == NULL)
		return -ENOMEM;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		search_begin_process(see == NULL);
		search_run_one(&s, choices, NULL, see, context, &shared->jobs[0].outcome);
		fflush(NULL);
		_exit(0);
	}
	if (pid > 0 && waitpid(pid, &status, 0) == pid) {
		*outcome = shared->jobs[0].outcome;
		search_explain(status, outcome);
	}
	munmap(shared, sizeof(*shared));
	return pid < 0 ? -EAGAIN : 0;
}

/* ---- the search ---- */

struct search_watch {
	struct search_shared *shared;
	const struct search_options *options;
	struct search_result *result;
	unsigned length;
	uint64_t begun_ns, shown_ns;
};

/* Sums up what the processes have done. */
static void
search_sum(const struct search_watch *w)
{
	struct search_result *result = w->result;
	uint64_t at = 0, of = 0;

	result->runs = result->events = 0;
	for (unsigned i = 0; i < w->options->jobs; i++) {
		result->runs += atomic_load(&w->shared->jobs[i].runs);
		result->events += atomic_load(&w->shared->jobs[i].events);
		at += atomic_load(&w->shared->jobs[i].at);
		of += atomic_load(&w->shared->jobs[i].of);
	}
	result->length = w->length;
	result->share = of == 0 ? 0 : (double)at / (double)of;
	result->elapsed_ns = clock_system_ns() - w->begun_ns;
}

static void
search_show(struct search_watch *w, uint64_t now_ns)
{
	const struct search_result *result = w->result;
	double seconds;

	if (!w->options->is_shown || now_ns < w->shown_ns + 1000000000)
		return;
	w->shown_ns = now_ns;
	search_sum(w);
	seconds = (double)result->elapsed_ns / 1e9;
	fprintf(stderr, "\r%u choices: %.0f %%, %" PRIu64 " runs, %.0f a second, %.0f s   ", w->length,
		100 * result->share, result->runs, (double)result->runs / seconds, seconds);
}

/* Waits for the processes. Returns false if they were ended before. Sets *found to a job, or leaves it. */
static bool
search_await(struct search_watch *w, pid_t *pids, int signals, int *found)
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
			search_explain(status, &job->outcome);
			if (job->outcome.is_broken && (*found < 0 || job->first < w->shared->jobs[*found].first))
				*found = (int)i;
		}
	}
	return !ended;
}

/* Runs all lists of a length. Returns 1 to go on, 0 to end, or -EAGAIN: no process could be made. */
static int
search_length(struct net *net, struct search_watch *w, int signals)
{
	pid_t pids[SEARCH_JOBS_MAX];
	int found = -1;

	atomic_store(&w->shared->bound, UINT64_MAX);
	fflush(NULL);
	for (unsigned i = 0; i < w->options->jobs; i++) {
		struct search_job *job = &w->shared->jobs[i];

		job->outcome.is_broken = false;
		job->first = 0;
		atomic_store(&job->at, 0);
		atomic_store(&job->of, 0);
		pids[i] = fork();
		if (pids[i] == 0) {
			static struct searcher s;

			s = (struct searcher){ .net = net, .options = w->options, .shared = w->shared, .job = job };
			search_begin_process(true);
			_exit(search_part(&s, i, w->length) ? 0 : SEARCH_FOUND);
		}
		if (pids[i] > 0)
			continue;
		while (i-- > 0) {
			kill(pids[i], SIGKILL);
			waitpid(pids[i], NULL, 0);
		}
		return -EAGAIN;
	}
	w->result->is_complete = search_await(w, pids, signals, &found);
	search_sum(w);
	if (found < 0)
		return w->result->is_complete;
	w->result->is_found = true;
	w->result->choices = w->shared->jobs[found].current;
	w->result->outcome = w->shared->jobs[found].outcome;
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
