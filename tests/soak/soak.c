/*
 * soak.c - a simulated network for hours of virtual time, in which hosts crash, boot and are cut off at random, and
 * some stay up throughout: messages keep arriving, none is damaged, every buffer comes back, and memory does not grow.
 *
 * soak NETWORK HOURS SEED
 *
 * A host whose name begins with "stone" has no faults: leaks caused by the changing hosts would add up there. Memory is
 * sampled at the end of each of 40 parts of the time, after all hosts have been up for a while. The medians of the
 * second and the last quarter are compared, since caches and tables fill at first.
 */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocols/test/traffic.h"
#include "tests/random.h"
#include "tools/net/net.h"
#include "tools/options.h"

enum {
	SOAK_PARTS = 40,
	SOAK_PRINTED = 4,       /* parts to a line */
	SOAK_SLACK_KB = 64,     /* tolerance of memory, and ... */
	SOAK_SLACK_PERCENT = 2, /* ... relative to the earlier value */
};

#define SOAK_SECOND UINT64_C(1000000000)
#define SOAK_HOUR (3600 * SOAK_SECOND)

enum { SOAK_CALM_S = 20 /* time without faults before memory is sampled */ };

struct soak_host {
	struct soak *soak;
	struct net_host *host;
	bool is_cut;
};

/* In KB. */
struct soak_memory {
	uint64_t heap, mapped, resident;
};

struct soak {
	struct net net;
	struct soak_host *hosts;
	uint64_t chance;
	bool is_calm;
	uint64_t sent, received, broken; /* by ended boots */
	uint64_t crashes, cuts;
	struct soak_memory memory[SOAK_PARTS];
	bool failed;
};

/* ---- memory ---- */

#ifdef __SANITIZE_ADDRESS__
/* gcc installs no header for it. */
size_t __sanitizer_get_current_allocated_bytes(void);
#endif

static uint64_t
soak_heap_kb(void)
{
#ifdef __SANITIZE_ADDRESS__
	return __sanitizer_get_current_allocated_bytes() / 1024;
#else
	struct mallinfo2 info = mallinfo2();

	return (info.uordblks + info.hblkhd) / 1024;
#endif
}

static struct soak_memory
soak_sample(void)
{
	struct soak_memory memory = { .heap = soak_heap_kb() };
	uint64_t page_kb = (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
	FILE *file = fopen("/proc/self/statm", "re");

	if (file == NULL)
		return memory;
	if (fscanf(file, "%" SCNu64 " %" SCNu64, &memory.mapped, &memory.resident) != 2)
		memory.mapped = memory.resident = 0;
	fclose(file);
	memory.mapped *= page_kb;
	memory.resident *= page_kb;
	return memory;
}

static int
soak_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Returns the median over the quarter that begins with part `first` of the samples' field at `offset`. */
static uint64_t
soak_median(const struct soak *soak, unsigned first, size_t offset)
{
	uint64_t seen[SOAK_PARTS / 4];

	for (unsigned i = 0; i < SOAK_PARTS / 4; i++)
		seen[i] = *(const uint64_t *)((const char *)&soak->memory[first + i] + offset);
	qsort(seen, SOAK_PARTS / 4, sizeof(seen[0]), soak_order);
	return seen[SOAK_PARTS / 8];
}

static void
soak_compare(struct soak *soak, const char *what, size_t offset)
{
	uint64_t early = soak_median(soak, SOAK_PARTS / 4, offset);
	uint64_t late = soak_median(soak, SOAK_PARTS - SOAK_PARTS / 4, offset);

	printf("%s: %" PRIu64 " KB in the second quarter, %" PRIu64 " KB in the last\n", what, early, late);
	if (late > early + SOAK_SLACK_KB + early * SOAK_SLACK_PERCENT / 100) {
		printf("FAIL %s: it grows\n", what);
		soak->failed = true;
	}
}

/* ---- counts ---- */

static void
soak_count_traffic(struct soak *soak, const struct soak_host *host, const struct xk_protocol *traffic)
{
	struct xk_traffic_report report;

	xk_traffic_report(traffic, &report);
	soak->sent += report.sent;
	soak->received += report.received;
	soak->broken += report.broken;
	if (report.broken > 0)
		printf("FAIL %s.%s: %s\n", host->host->topology->name, traffic->name, report.first);
}

/* Counts the traffic of a host's boot that ends. */
static void
soak_count(struct soak_host *host)
{
	struct xk_protocol *p = NULL;

	if (xk_sim_is_up(host->host->sim))
		p = xk_kernel_first(xk_sim_kernel(host->host->sim));
	for (; p != NULL; p = p->next)
		if (p->type == &xk_type_traffic)
			soak_count_traffic(host->soak, host, p);
}

static uint64_t
soak_frames(const struct soak *soak)
{
	uint64_t frames = 0;

	for (struct xk_sim_link *l = xk_sim_first_link(soak->net.sim); l != NULL; l = xk_sim_next_link(l)) {
		struct sim_link_counts counts;

		xk_sim_link_counts(l, &counts);
		frames += counts.delivered;
	}
	return frames;
}

/* ---- faults ---- */

static uint64_t
soak_between(struct soak *soak, uint64_t from_ns, uint64_t to_ns)
{
	return from_ns + next_random(&soak->chance) % (to_ns - from_ns);
}

static void
soak_crash(struct soak_host *host)
{
	soak_count(host);
	host->soak->crashes++;
	if (xk_sim_crash(host->host->sim) == 0)
		return;
	printf("FAIL %s: buffers were not returned\n", host->host->topology->name);
	host->soak->failed = true;
}

static void
soak_cut(struct soak_host *host, bool sends, bool receives)
{
	for (unsigned n = 0; n < host->host->topology->device_count; n++)
		xk_sim_cut(host->host->sim, n, sends, receives);
	host->is_cut = sends || receives;
}

static void
soak_recover(struct soak_host *host)
{
	if (host->is_cut)
		soak_cut(host, false, false);
	if (!xk_sim_is_up(host->host->sim) && xk_sim_boot(host->host->sim) != 0) {
		printf("FAIL %s: it does not boot\n", host->host->topology->name);
		host->soak->failed = true;
	}
}

static void
soak_harm(struct soak_host *host)
{
	uint64_t draw = next_random(&host->soak->chance) >> 8;

	if (draw % 2 == 0) {
		soak_crash(host);
		return;
	}
	host->soak->cuts++;
	soak_cut(host, draw % 3 != 0, draw % 3 != 1);
}

/* Harms a healthy host, lets another recover, and schedules its next change. */
static void
soak_turn(void *context)
{
	struct soak_host *host = context;
	struct soak *soak = host->soak;
	bool is_well = xk_sim_is_up(host->host->sim) && !host->is_cut;
	uint64_t now = xk_sim_now_ns(soak->net.sim), next;

	if (!is_well)
		soak_recover(host);
	else if (!soak->is_calm)
		soak_harm(host);
	if (xk_sim_is_up(host->host->sim) && !host->is_cut)
		next = soak_between(soak, SOAK_SECOND, 240 * SOAK_SECOND);
	else
		next = soak_between(soak, SOAK_SECOND / 1000, 20 * SOAK_SECOND);
	if (xk_sim_at(soak->net.sim, now + next, soak_turn, host) != 0)
		soak->failed = true;
}

static bool
soak_is_stone(const struct soak_host *host)
{
	return strncmp(host->host->topology->name, "stone", 5) == 0;
}

static int
soak_begin(struct soak *soak)
{
	unsigned count = soak->net.topology->host_count;

	soak->hosts = calloc(count, sizeof(*soak->hosts));
	if (soak->hosts == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < count; i++) {
		struct soak_host *host = &soak->hosts[i];

		*host = (struct soak_host){ .soak = soak, .host = &soak->net.hosts[i] };
		if (!soak_is_stone(host) && xk_sim_at(soak->net.sim, SOAK_SECOND + i, soak_turn, host) != 0)
			return -ENOMEM;
	}
	return 0;
}

/* ---- time ---- */

/* Runs one part: faults, then calm, with all hosts up. */
static void
soak_part(struct soak *soak, unsigned part, uint64_t part_ns)
{
	uint64_t until = (part + 1) * part_ns, frames = soak_frames(soak);

	soak->is_calm = false;
	xk_sim_run(soak->net.sim, until - SOAK_CALM_S * SOAK_SECOND);
	soak->is_calm = true;
	for (unsigned i = 0; i < soak->net.topology->host_count; i++)
		soak_recover(&soak->hosts[i]);
	xk_sim_run(soak->net.sim, until);
	soak->memory[part] = soak_sample();
	if (soak_frames(soak) == frames) {
		printf("FAIL part %u: no frame has arrived\n", part);
		soak->failed = true;
	}
}

static void
soak_print(const struct soak *soak, unsigned part)
{
	const struct soak_memory *memory = &soak->memory[part];

	printf("%6.2f h: heap %" PRIu64 " KB, mapped %" PRIu64 " KB, resident %" PRIu64 " KB, %" PRIu64
	       " crashes, %" PRIu64 " cuts, %" PRIu64 " frames\n",
	       (double)xk_sim_now_ns(soak->net.sim) / (double)SOAK_HOUR, memory->heap, memory->mapped, memory->resident,
	       soak->crashes, soak->cuts, soak_frames(soak));
	fflush(stdout);
}

/* UDP may lose and links may duplicate, but no message is received that was not sent. */
static void
soak_check(struct soak *soak)
{
	for (unsigned i = 0; i < soak->net.topology->host_count; i++)
		soak_count(&soak->hosts[i]);
	printf("%" PRIu64 " messages sent, %" PRIu64 " received, %" PRIu64 " broken; hash %016" PRIx64 "\n", soak->sent,
	       soak->received, soak->broken, xk_sim_hash(soak->net.sim));
	if (soak->received < soak->sent / 2 || soak->received > soak->sent + soak->sent / 10 || soak->broken > 0) {
		printf("FAIL messages: impossible counts\n");
		soak->failed = true;
	}
	soak_compare(soak, "heap", offsetof(struct soak_memory, heap));
#ifndef __SANITIZE_ADDRESS__ /* which keeps freed memory for a while */
	soak_compare(soak, "mapped", offsetof(struct soak_memory, mapped));
	soak_compare(soak, "resident", offsetof(struct soak_memory, resident));
#endif
}

static int
soak_run(struct soak *soak, double hours, uint64_t seed)
{
	uint64_t part_ns = (uint64_t)(hours * (double)SOAK_HOUR) / SOAK_PARTS;
	int status = net_open(&soak->net, seed, stdout, false);

	if (status != 0 || soak_begin(soak) != 0)
		return OPTIONS_FAILURE;
	for (unsigned part = 0; part < SOAK_PARTS && !soak->failed; part++) {
		soak_part(soak, part, part_ns);
		if ((part + 1) % SOAK_PRINTED == 0)
			soak_print(soak, part);
	}
	if (!soak->failed)
		soak_check(soak);
	return soak->failed ? OPTIONS_FAILURE : OPTIONS_SUCCESS;
}

int
main(int argc, char **argv)
{
	double hours = argc == 4 ? strtod(argv[2], NULL) : 0;
	uint64_t seed = argc == 4 ? strtoull(argv[3], NULL, 10) : 0;
	struct soak *soak = calloc(1, sizeof(*soak));
	int status, closed;

	/* each part is longer than its calm */
	if (soak == NULL || hours * 3600 < 2 * SOAK_CALM_S * SOAK_PARTS || hours > 1000) {
		fprintf(stderr, "usage: soak NETWORK HOURS SEED, with at least %.2f hours\n",
			2.0 * SOAK_CALM_S * SOAK_PARTS / 3600);
		free(soak);
		return OPTIONS_MISUSE;
	}
	soak->chance = seed * 2 + 1;
	status = net_read(&soak->net, "soak", argv[1], NULL, 0);
	if (status == 0)
		status = soak_run(soak, hours, seed);
	closed = net_close(&soak->net);
	free(soak->hosts);
	free(soak);
	return status != 0 ? status : closed;
}
