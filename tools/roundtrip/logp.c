/*
 * logp.c - measures the LogP parameters of a graph of protocols between two hosts, as Chen and Watson did for GM, GM+
 * and BIP ("User Level Communication on Alpha Linux Systems"), and predicts bursts of messages from them.
 *
 * A repetition runs each loop in turn, `rounds` batches of each, and takes the medians (logptest.h). T is the time of a
 * batch, until its last answer. For N messages to the server (b), with work D after each, or for N answers from it (c):
 *
 *	g(D) = (T(N) - T(N / 2)) / (N / 2)
 *	g(D) = Os + D                   (b), for large D, if messages are not acknowledged
 *	g(D) = Os + Or + max(Idle, D)   (b), if each is acknowledged; Os is then that of a single message, which does not wait for one
 *	g(D) = Or + D                   (c), for large D
 *	g = g(0)                        (b)
 *	L = RTT / 2 - Os - Or
 *
 * The output has the median of each parameter over the repetitions, and its minimum and maximum.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocols/papers/logptest.h"
#include "tools/json.h"
#include "tools/roundtrip/programs.h"
#include "tools/roundtrip/roundtrip.h"

enum {
	LOGP_REPEATS_MAX = 99,
	LOGP_BYTES = 65536, /* maximum per batch: messages in flight should fit into queues */
	LOGP_WORK_NS = 500, /* the smallest D is half of it */
	LOGP_WORKS = 5,     /* D: 0, 1/2, 1, 2 and 4 times g; the last is large */
	LOGP_BURSTS = 3,
};

static const uint32_t logp_bursts[LOGP_BURSTS] = { 2, 8, 32 };

/* By enum xk_logptest_copies. */
static const char *const logp_copies[] = { "sender", "nobody", "both", NULL };

/* Times are in nanoseconds, bandwidths in bytes per second. */
enum logp_figure {
	LOGP_HALF_RTT,
	LOGP_GAP,
	LOGP_OS,
	LOGP_OR,
	LOGP_L,
	LOGP_CREDIT, /* gain of a stream's start over RTT + (N - 1) g; negative: its loss */
	LOGP_ONE_WAY,
	LOGP_PING_PONG,
	LOGP_BOTH_WAYS,
	LOGP_BYTE_GAP, /* LogGP's G, per byte */
	LOGP_SEND,     /* g(D) of loop (b) */
	LOGP_RECEIVE = LOGP_SEND + LOGP_WORKS,
	LOGP_MEASURED = LOGP_RECEIVE + LOGP_WORKS,
	LOGP_FIGURES = LOGP_MEASURED + LOGP_BURSTS, /* T of each burst */
};

/* A configuration, beside its struct roundtrip_run. */
struct logp_run {
	uint32_t messages; /* per batch */
	uint64_t work_ns[LOGP_WORKS];
	double answers; /* frames returned for each message: acknowledgements */
	unsigned repeats;
	double samples[LOGP_FIGURES][LOGP_REPEATS_MAX];
};

/* ---- measuring ---- */

/* Runs batches of a configuration. */
static int
logp_block(struct roundtrip_job *job, struct roundtrip_run *run, const struct xk_logptest_loop *loop,
	   struct xk_logptest_times *times)
{
	const struct pair_block block = {
		.host = job->server,
		.size = run->size,
		.copies = run->copies,
		.rounds = job->options->rounds,
		.loop = *loop,
	};
	int status = pair_run(&job->pair, &block, &job->result);

	if (status != 0)
		return status;
	run->rounds += job->result.rounds;
	run->lost += job->result.lost;
	*times = job->result.times;
	return 0;
}

/* The same, and stores the number of frames that reached the client per batch. */
static int
logp_count_block(struct roundtrip_job *job, struct roundtrip_run *run, const struct xk_logptest_loop *loop,
		 struct xk_logptest_times *times, double *frames)
{
	uint64_t before = run->rounds;
	int status = pair_counts(&job->pair, PAIR_CLIENT, &job->before[PAIR_CLIENT]);

	if (status == 0)
		status = logp_block(job, run, loop, times);
	if (status == 0)
		status = pair_counts(&job->pair, PAIR_CLIENT, &job->after[PAIR_CLIENT]);
	if (status == 0)
		*frames = (double)(job->after[PAIR_CLIENT].frames - job->before[PAIR_CLIENT].frames) /
			  (double)(run->rounds - before);
	return status;
}

/* Runs a loop of N messages, or answers, and one of half as many. Stores the times of the first, and the gap. */
static int
logp_gap(struct roundtrip_job *job, struct roundtrip_run *run, uint32_t messages, const struct xk_logptest_loop *loop,
	 struct xk_logptest_times *times, double *gap)
{
	struct xk_logptest_loop half = *loop;
	struct xk_logptest_times half_times;
	int status;

	half.sends = half.sends == 1 ? 1 : half.sends / 2;
	half.first /= 2;
	half.last = half.last == 1 ? 1 : half.last / 2;
	status = logp_block(job, run, loop, times);
	if (status == 0)
		status = logp_block(job, run, &half, &half_times);
	if (status == 0)
		*gap = ((double)times->answered_ns - (double)half_times.answered_ns) / (messages - messages / 2);
	return status;
}

/* Plans the work of the loops from a first measurement of the gap, and determines whether messages are acknowledged. */
static int
logp_prepare(struct roundtrip_job *job, struct roundtrip_run *run, struct logp_run *logp)
{
	const struct xk_logptest_loop trip = { .sends = 1, .last = 1 };
	struct xk_logptest_loop stream = { .last = 1 };
	struct xk_logptest_times times;
	double trip_frames, frames, gap;
	int status;

	logp->messages = (uint32_t)job->options->messages;
	if (logp->messages > LOGP_BYTES / run->size)
		logp->messages = run->size > LOGP_BYTES / 2 ? 2 : LOGP_BYTES / run->size;
	stream.sends = logp->messages;
	status = logp_count_block(job, run, &trip, &times, &trip_frames);
	if (status == 0)
		status = logp_count_block(job, run, &stream, &times, &frames);
	if (status == 0)
		status = logp_gap(job, run, logp->messages, &stream, &times, &gap);
	if (status != 0)
		return status;
	logp->answers = (frames - trip_frames) / (stream.sends - 1);
	if (gap < LOGP_WORK_NS)
		gap = LOGP_WORK_NS;
	for (unsigned i = 1; i < LOGP_WORKS; i++)
		logp->work_ns[i] = (uint64_t)(gap * (1 << i) / 4);
	return 0;
}

/*
 * Returns true if the client's g(D) includes an acknowledgement. A few frames per many messages may have other reasons.
 */
static bool
logp_is_acknowledged(const struct logp_run *logp)
{
	return logp->answers > 0.125;
}

/*
 * Runs loops (b) and (c), for each D: stores g(D) in figures[LOGP_SEND + i] and [LOGP_RECEIVE + i], and Os and Or as
 * they are without acknowledgements. Also stores T(N) of (b) without work, and g(D) - D of (b) for the largest D.
 */
static int
logp_spin(struct roundtrip_job *job, struct roundtrip_run *run, const struct logp_run *logp,
	  double figures[LOGP_FIGURES], double *stream, double *intercept)
{
	uint32_t n = logp->messages;

	for (unsigned i = 0; i < LOGP_WORKS; i++) {
		const struct xk_logptest_loop send = { .sends = n, .last = 1, .send_work_ns = logp->work_ns[i] };
		const struct xk_logptest_loop receive = { .sends = 1, .last = n, .receive_work_ns = logp->work_ns[i] };
		double *send_gap = &figures[LOGP_SEND + i], *receive_gap = &figures[LOGP_RECEIVE + i];
		struct xk_logptest_times times;
		int status = logp_gap(job, run, n, &send, &times, send_gap);

		if (status != 0)
			return status;
		if (i == 0)
			*stream = (double)times.answered_ns;
		*intercept = *send_gap - (double)times.send_work_ns;
		figures[LOGP_OS] = ((double)times.sent_ns - (n - 1) * (double)times.send_work_ns) / n;
		status = logp_gap(job, run, n, &receive, &times, receive_gap);
		if (status != 0)
			return status;
		figures[LOGP_OR] = *receive_gap - (double)times.receive_work_ns;
	}
	return 0;
}

/* Runs one repetition. */
static int
logp_repeat(struct roundtrip_job *job, struct roundtrip_run *run, struct logp_run *logp)
{
	const struct xk_logptest_loop trip = { .sends = 1, .last = 1 };
	const struct xk_logptest_loop both = { .sends = logp->messages, .first = logp->messages, .last = 1 };
	double figures[LOGP_FIGURES] = { 0 }, size = run->size, stream = 0, intercept = 0, both_gap = 0, rtt, alone;
	struct xk_logptest_times times;
	int status = logp_block(job, run, &trip, &times);

	rtt = (double)times.answered_ns;
	alone = (double)times.sent_ns;
	if (status == 0)
		status = logp_spin(job, run, logp, figures, &stream, &intercept);
	for (unsigned i = 0; i < LOGP_BURSTS && status == 0 && logp_bursts[i] <= logp->messages; i++) {
		const struct xk_logptest_loop burst = { .sends = logp_bursts[i], .last = 1 };

		status = logp_block(job, run, &burst, &times);
		figures[LOGP_MEASURED + i] = (double)times.answered_ns;
	}
	if (status == 0)
		status = logp_gap(job, run, logp->messages, &both, &times, &both_gap);
	if (status != 0)
		return status;
	if (logp_is_acknowledged(logp)) {
		figures[LOGP_OS] = alone;
		figures[LOGP_OR] = intercept - alone;
	}
	figures[LOGP_HALF_RTT] = rtt / 2;
	figures[LOGP_GAP] = figures[LOGP_SEND];
	figures[LOGP_L] = rtt / 2 - figures[LOGP_OS] - figures[LOGP_OR];
	figures[LOGP_CREDIT] = rtt + (logp->messages - 1) * figures[LOGP_GAP] - stream;
	figures[LOGP_ONE_WAY] = 1e9 * size / figures[LOGP_GAP];
	figures[LOGP_PING_PONG] = 2e9 * size / rtt;
	figures[LOGP_BOTH_WAYS] = 2e9 * size / both_gap;
	for (unsigned i = 0; i < LOGP_FIGURES; i++)
		logp->samples[i][logp->repeats] = figures[i];
	logp->repeats++;
	return 0;
}

/* Computes G from the shortest messages of the same configuration. */
static void
logp_find_byte_gap(const struct roundtrip_job *job, unsigned index)
{
	struct logp_run *logps = job->own, *logp = &logps[index], *least = &logps[index % job->per_size];
	double bytes = (double)job->runs[index].size - (double)job->runs[index % job->per_size].size;

	for (unsigned i = 0; i < logp->repeats; i++)
		logp->samples[LOGP_BYTE_GAP][i] =
			bytes == 0 ? 0 : (logp->samples[LOGP_GAP][i] - least->samples[LOGP_GAP][i]) / bytes;
}

/* Runs the repetitions, each with all configurations in turn, so that disturbances affect all of them alike. */
static int
logp_measure(struct roundtrip_job *job)
{
	struct logp_run *logps = calloc(job->run_count, sizeof(*logps));
	int status = logps == NULL ? OPTIONS_FAILURE : 0;

	job->own = logps;
	for (uint64_t repeat = 0; repeat < job->options->repeats && status == 0; repeat++)
		for (unsigned i = 0; i < job->run_count && status == 0; i++) {
			status = pair_setup(&job->pair, &job->runs[i].setup);
			if (status == 0 && repeat == 0)
				status = logp_prepare(job, &job->runs[i], &logps[i]);
			if (status == 0)
				status = logp_repeat(job, &job->runs[i], &logps[i]);
			if (status == 0)
				logp_find_byte_gap(job, i);
		}
	return status;
}

/* ---- results ---- */

/* A figure over the repetitions. */
struct logp_summary {
	double median, low, high;
};

static int
logp_compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static struct logp_summary
logp_summarize(const struct logp_run *logp, unsigned figure)
{
	double sorted[LOGP_REPEATS_MAX];

	memcpy(sorted, logp->samples[figure], sizeof(sorted));
	qsort(sorted, logp->repeats, sizeof(*sorted), logp_compare);
	return (struct logp_summary){ sorted[logp->repeats / 2], sorted[0], sorted[logp->repeats - 1] };
}

/*
 * Returns the time of a burst until its last message's answer. By LogP, messages follow each other at intervals of g,
 * or of an overhead that is longer; the first ones at the overheads alone, until the credit is spent. An Os above g is
 * that of single messages: in a stream, the sender does not pay for waking its receiver.
 *
 * A receiver sends its frames at the end of its turn. The first message has a turn of its own, and others accumulate
 * meanwhile. The last answer therefore arrives behind the acknowledgements of those, one Or each, unless the sender has
 * already handled them, which a negative credit shows.
 */
static double
logp_predict(const struct logp_run *logp, uint32_t messages)
{
	double rtt = 2 * logp_summarize(logp, LOGP_HALF_RTT).median; /* 2 (Os + L + Or) */
	double send = logp_summarize(logp, LOGP_OS).median, overhead = logp_summarize(logp, LOGP_OR).median;
	double gap = logp_summarize(logp, LOGP_GAP).median, credit = logp_summarize(logp, LOGP_CREDIT).median;
	double more = messages - 1, gain, behind;

	if (gap < overhead)
		gap = overhead;
	behind = logp_is_acknowledged(logp) ? (more - 1) * overhead : 0;
	if (overhead < send && send <= gap)
		overhead = send;
	gain = more * (gap - overhead);
	if (credit < 0)
		return rtt + more * gap + (behind < -credit ? behind : -credit);
	return rtt + more * gap - (gain < credit ? gain : credit);
}

static void
logp_json_figure(struct json *json, const char *key, const struct logp_run *logp, unsigned figure)
{
	struct logp_summary summary = logp_summarize(logp, figure);

	json_object(json, key);
	json_double(json, "median", summary.median);
	json_double(json, "min", summary.low);
	json_double(json, "max", summary.high);
	json_close(json);
}

static void
logp_json(const struct roundtrip_job *job, struct json *json)
{
	static const char *const keys[] = { "half_rtt_ns", "g_ns",    "os_ns",     "or_ns",     "l_ns",
					    "credit_ns",   "one_way", "ping_pong", "both_ways", "byte_gap_ns" };
	const struct logp_run *logp = job->own;

	for (unsigned i = 0; i < job->run_count && logp != NULL; i++, logp++) {
		if (logp->repeats == 0)
			continue;
		json_object(json, NULL);
		roundtrip_json_setup(job, &job->runs[i], json);
		json_string(json, "copies", logp_copies[job->runs[i].copies]);
		json_uint(json, "messages", logp->messages);
		json_uint(json, "repeats", logp->repeats);
		json_uint(json, "lost", job->runs[i].lost);
		json_double(json, "acknowledgements", logp->answers);
		for (unsigned figure = 0; figure < XK_ARRAY_LENGTH(keys); figure++)
			logp_json_figure(json, keys[figure], logp, figure);
		json_array(json, "gaps");
		for (unsigned j = 0; j < LOGP_WORKS; j++) {
			json_object(json, NULL);
			json_uint(json, "work_ns", logp->work_ns[j]);
			logp_json_figure(json, "send_ns", logp, LOGP_SEND + j);
			logp_json_figure(json, "receive_ns", logp, LOGP_RECEIVE + j);
			json_close(json);
		}
		json_close(json);
		json_array(json, "bursts");
		for (unsigned j = 0; j < LOGP_BURSTS && logp_bursts[j] <= logp->messages; j++) {
			json_object(json, NULL);
			json_uint(json, "messages", logp_bursts[j]);
			json_double(json, "predicted_ns", logp_predict(logp, logp_bursts[j]));
			logp_json_figure(json, "measured_ns", logp, LOGP_MEASURED + j);
			json_close(json);
		}
		json_close(json);
		json_close(json);
	}
}

/* Returns true if the tables have a column for copies: it was an option. */
static bool
logp_shows_copies(const struct roundtrip_job *job)
{
	const struct options_numbers *copies = &job->options->copies;

	return copies->count > 1 || copies->value[0] != XK_LOGPTEST_SENDER;
}

static void
logp_print_setup(const struct roundtrip_job *job, const struct roundtrip_run *run, FILE *out)
{
	roundtrip_print_setup(job, run, out);
	if (logp_shows_copies(job))
		fprintf(out, " %-6s", logp_copies[run->copies]);
}

/* Prints figures of each configuration, in a unit (G: unscaled), with the lowest and the highest below. */
static void
logp_print_figures(const struct roundtrip_job *job, enum logp_figure first, enum logp_figure last, double unit,
		   FILE *out)
{
	static const char *const rows[] = { NULL, "lowest", "highest" };
	const struct logp_run *logp = job->own;

	for (unsigned i = 0; i < job->run_count && logp->repeats > 0; i++, logp++)
		for (unsigned row = 0; row < XK_ARRAY_LENGTH(rows); row++) {
			if (row == 0)
				logp_print_setup(job, &job->runs[i], out);
			else
				fprintf(out, "%*s", logp_shows_copies(job) ? 42 : 35, rows[row]);
			for (unsigned figure = first; figure <= last; figure++) {
				struct logp_summary summary = logp_summarize(logp, figure);
				const double values[] = { summary.median, summary.low, summary.high };

				if (figure != LOGP_BYTE_GAP || i >= job->per_size)
					fprintf(out, " %10.2f", values[row] / (figure == LOGP_BYTE_GAP ? 1 : unit));
			}
			fprintf(out, "%s\n",
				row == 0 && first == LOGP_HALF_RTT && logp_is_acknowledged(logp) ? "  acknowledged"
												 : "");
		}
}

static void
logp_print_bursts(const struct roundtrip_job *job, FILE *out)
{
	const struct logp_run *logp = job->own;

	for (unsigned i = 0; i < job->run_count && logp->repeats > 0; i++, logp++)
		for (unsigned j = 0; j < LOGP_BURSTS && logp_bursts[j] <= logp->messages; j++) {
			double predicted = logp_predict(logp, logp_bursts[j]);
			struct logp_summary measured = logp_summarize(logp, LOGP_MEASURED + j);

			logp_print_setup(job, &job->runs[i], out);
			fprintf(out, " %10" PRIu32 " %10.2f %10.2f %10.2f %10.2f %10.2f\n", logp_bursts[j],
				predicted / 1e3, measured.median / 1e3, measured.low / 1e3, measured.high / 1e3,
				predicted / measured.median);
		}
}

static void
logp_print(const struct roundtrip_job *job, FILE *out)
{
	const char *columns = logp_shows_copies(job) ? "   bytes  mode     threads handoff  copies"
						     : "   bytes  mode     threads handoff ";
	const struct logp_run *logps = job->own;
	uint64_t lost = 0;

	if (logps == NULL || logps[0].repeats == 0)
		return;
	roundtrip_print_head(job, "LogP", out);
	fprintf(out,
		"Medians of %u repetition%s, us\n\n%s      RTT/2          g         Os         Or          L     "
		"credit\n",
		logps[0].repeats, logps[0].repeats == 1 ? "" : "s", columns);
	logp_print_figures(job, LOGP_HALF_RTT, LOGP_CREDIT, 1e3, out);
	fprintf(out, "\nBandwidth, MB/s, and LogGP's G, ns a byte\n\n%s    one way  ping-pong  both ways          G\n",
		columns);
	logp_print_figures(job, LOGP_ONE_WAY, LOGP_BYTE_GAP, 1e6, out);
	fprintf(out,
		"\nBursts, from the first message until the last one's answer, us\n\n"
		"%s   messages  predicted   measured     lowest    highest      ratio\n",
		columns);
	logp_print_bursts(job, out);
	for (unsigned i = 0; i < job->run_count; i++)
		lost += job->runs[i].lost;
	if (lost > 0)
		fprintf(out, "\n%" PRIu64 " batches were lost, and are not counted.\n", lost);
}

/* ---- the program ---- */

static const struct options_option logp_options[] = {
	OPTION(NUMBERS, struct roundtrip_options, sizes, "size", "N,...", "bytes of a message (8,1024)",
	       .min = XK_LOGPTEST_MIN, .max = XK_LOGPTEST_MAX),
	OPTION(CHOICES, struct roundtrip_options, copies, "copies", "WHO,...",
	       "ends that copy messages between their memory and buffers: sender,\n"
	       "nobody (the sender lends its bytes), both (sender)",
	       .choices = logp_copies),
	OPTION(NUMBER, struct roundtrip_options, messages, "messages", "N",
	       "messages of a batch; fewer, if they are long: 64 KiB in all (64)", .min = 2,
	       .max = XK_LOGPTEST_MESSAGES),
	OPTION(NUMBER, struct roundtrip_options, rounds, "rounds", "N", "batches of each loop in a repetition (20)",
	       .min = 1, .max = XK_LOGPTEST_BATCHES),
	OPTION(NUMBER, struct roundtrip_options, repeats, "repeats", "N", "repetitions (7)", .min = 1,
	       .max = LOGP_REPEATS_MAX),
	{ .name = NULL },
};

static const struct options_program logp_program = {
	.name = "logp",
	.usage = "[OPTION]...",
	.about = "Measures the LogP parameters of a protocol graph between two hosts: the overheads of sending (Os) "
		 "and\n"
		 "receiving (Or), the gap between messages (g), and the latency (L); with them, the three bandwidths "
		 "and\n"
		 "LogGP's G. Then predicts bursts from them. Any test protocol over messages may be at the graph's "
		 "top:\n"
		 "logptest replaces it. Both ends are started here, as by udptest.",
	.footer = roundtrip_footer,
	.options = logp_options,
	.shared = { { roundtrip_common_options, 0 },
		    { host_common_options, offsetof(struct roundtrip_options, common) } },
};

static void
logp_finished(void *argument, const struct xk_logptest_result *result)
{
	struct roundtrip_end *end = argument;

	end->result->error = result->error;
	end->result->rounds = result->rounds;
	end->result->lost = result->lost;
	end->result->times = result->times;
	roundtrip_finished(end, result->max_packet);
}

static int
logp_start(struct xk_protocol *protocol, const struct pair_block *block, struct roundtrip_end *end)
{
	struct xk_logptest_run run = {
		.host = block->host,
		.size = block->size,
		.rounds = block->rounds,
		.loop = block->loop,
		.copies = (enum xk_logptest_copies)block->copies,
		.record = roundtrip_record,
		.lost = roundtrip_lost,
		.finished = logp_finished,
		.argument = end,
	};

	return xk_logptest_start(protocol, &run);
}

int
logp_main(int argc, char **argv)
{
	static const struct roundtrip_test test = {
		.program = &logp_program,
		.protocol = "logptest",
		.takes_top = true,
		.rounds = 20,
		.sizes = { 2, { 8, 1024 } },
		.graph = "logp.dot",
		.message = "message",
		.answer = "answer",
		.start = logp_start,
		.measure = logp_measure,
		.print = logp_print,
		.json = logp_json,
	};

	return roundtrip_main(&test, argc, argv);
}
