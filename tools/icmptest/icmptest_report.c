/* icmptest_report.c - what icmptest tells: a line for each reply, a summary, JSON for programs. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tools/icmptest/icmptest_private.h"
#include "tools/json.h"
#include "tools/machine.h"

static double
icmptest_us(uint64_t ns)
{
	return (double)ns / 1000.0;
}

void
icmptest_print_head(const struct icmptest_job *job)
{
	const struct icmptest_options *o = job->options;
	char to[16], from[16];

	fprintf(job->out, "Pinging %s from %s over %s: %" PRIu64 " bytes, mode %s, driver %s\n",
		xk_host_print(job->to, to), xk_host_print(job->host.address, from), o->common.link, o->size,
		host_modes[o->single.mode], host_drivers[o->common.driver]);
	fflush(job->out);
}

static void
icmptest_print_fault(const struct icmptest_job *job, const struct xk_icmptest_event *event)
{
	char from[16];

	fprintf(job->out, "%s says of seq %" PRIu64 ": %s", xk_host_print((uint32_t)event->from, from), event->sequence,
		xk_fault_name(event->fault));
	if (event->fault == XK_FAULT_TOO_BIG && event->mtu != 0)
		fprintf(job->out, " (mtu %" PRIu32 ")", event->mtu);
	fputc('\n', job->out);
}

void
icmptest_print_event(const struct icmptest_job *job, const struct xk_icmptest_event *event)
{
	char to[16];

	if (job->options->quiet)
		return;
	if (event->kind == XK_ICMPTEST_FAULT)
		icmptest_print_fault(job, event);
	else if (event->kind == XK_ICMPTEST_LOST)
		fprintf(job->out, "no reply: seq %" PRIu64 "\n", event->sequence);
	else if (event->kind == XK_ICMPTEST_UNSENT)
		fprintf(job->out, "not sent: seq %" PRIu64 "\n", event->sequence);
	else
		fprintf(job->out, "%" PRIu32 " bytes from %s: seq %" PRIu64, event->size, xk_host_print(job->to, to),
			event->sequence);
	if (event->kind == XK_ICMPTEST_REPLY)
		fprintf(job->out, ", %.1f us\n", icmptest_us(event->rtt_ns));
	else if (event->kind == XK_ICMPTEST_DUPLICATE)
		fprintf(job->out, ", a duplicate\n");
	else if (event->kind == XK_ICMPTEST_LATE)
		fprintf(job->out, ", too late\n");
	else if (event->kind == XK_ICMPTEST_CORRUPT)
		fprintf(job->out, ", corrupt\n");
	fflush(job->out);
}

static void
icmptest_print_faults(const struct icmptest_job *job)
{
	const char *before = "told by hosts on the way: ";

	for (unsigned i = 0; i < XK_FAULTS; i++)
		if (job->result.faults[i] != 0) {
			fprintf(job->out, "%s%s %" PRIu64, before, xk_fault_name((enum xk_fault)i),
				job->result.faults[i]);
			before = ", ";
		}
	if (before[0] == ',')
		fputc('\n', job->out);
}

void
icmptest_print_summary(const struct icmptest_job *job)
{
	const struct xk_icmptest_result *r = &job->result;
	uint64_t untold = atomic_load(&job->events->untold);
	char to[16];

	if (untold != 0)
		fprintf(job->out, "(%" PRIu64 " lines came too fast to be printed)\n", untold);
	fprintf(job->out, "\n%s: %" PRIu64 " sent, %" PRIu64 " received, %" PRIu64 " lost (%.3g %%)",
		xk_host_print(job->to, to), r->sent, r->received, r->lost,
		r->sent == 0 ? 0.0 : 100.0 * (double)r->lost / (double)r->sent);
	fprintf(job->out, ", %" PRIu64 " duplicates, %" PRIu64 " late, %" PRIu64 " corrupt\n", r->duplicates, r->late,
		r->corrupt);
	if (r->unsent != 0)
		fprintf(job->out, "%" PRIu64 " of those lost could not be sent\n", r->unsent);
	icmptest_print_faults(job);
	if (job->rtt.count != 0)
		fprintf(job->out,
			"round trip, us: min %.1f, median %.1f, 90 %% %.1f, 99 %% %.1f, max %.1f, mean %.1f\n",
			icmptest_us(job->rtt.min), icmptest_us(histogram_percentile(&job->rtt, 50)),
			icmptest_us(histogram_percentile(&job->rtt, 90)),
			icmptest_us(histogram_percentile(&job->rtt, 99)), icmptest_us(job->rtt.max),
			icmptest_us(histogram_mean(&job->rtt)));
}

/* ---- JSON ---- */

static void
icmptest_json_result(const struct icmptest_job *job, struct json *json)
{
	const struct xk_icmptest_result *r = &job->result;

	json_uint(json, "sent", r->sent);
	json_uint(json, "received", r->received);
	json_uint(json, "lost", r->lost);
	json_uint(json, "duplicates", r->duplicates);
	json_uint(json, "late", r->late);
	json_uint(json, "corrupt", r->corrupt);
	json_uint(json, "unsent", r->unsent);
	json_object(json, "faults");
	for (unsigned i = 0; i < XK_FAULTS; i++)
		json_uint(json, xk_fault_name((enum xk_fault)i), r->faults[i]);
	json_close(json);
	histogram_json(&job->rtt, json, "rtt_ns");
	json_close(json);
}

int
icmptest_json(struct icmptest_job *job)
{
	const struct icmptest_options *o = job->options;
	struct machine machine;
	struct json json;
	char to[16];

	if (job->json == NULL)
		return 0;
	machine_describe(&machine);
	json_begin(&json, job->json);
	json_object(&json, NULL);
	json_string(&json, "program", icmptest_program.name);
	json_string(&json, "graph", o->graph);
	json_string(&json, "link", o->common.link);
	json_string(&json, "driver", host_drivers[o->common.driver]);
	machine_json(&machine, &json, "machine");
	json_string(&json, "to", xk_host_print(job->to, to));
	json_uint(&json, "size", o->size);
	icmptest_json_result(job, &json);
	host_json(&job->host, &json, "client");
	json_close(&json);
	if (json_end(&json))
		return 0;
	fprintf(stderr, "icmptest: --json %s cannot be written: %s\n", o->common.json, strerror(errno));
	return OPTIONS_FAILURE;
}
