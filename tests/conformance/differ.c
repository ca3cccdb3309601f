/* differ.c - see differ.h. */
#include "tests/conformance/differ.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conformance/script.h"
#include "tests/random.h"

enum { DIFFER_FRAMES = 4096, DIFFER_LONG = 2048, DIFFER_TEXT = 256 };

#define DIFFER_AFTER_NS UINT64_C(200000000000) /* when everything has timed out */

struct frame {
	uint64_t at_ns;
	unsigned port;
	size_t len;
	uint8_t bytes[DIFFER_LONG];
};

/* What a script has done to its host. */
struct recording {
	const struct differ *differ;
	unsigned kind; /* of the host */
	bool is_ours;  /* it has the graph */
	struct host_plan plan;
	char graph[4096], sets[HOST_SETS][DIFFER_TEXT];
	struct frame *frames;
	unsigned count;
};

/* ---- recording ---- */

static const char *
base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL ? path : slash + 1;
}

static void
record(void *context, const struct host_plan *plan, uint64_t at_ns, unsigned port, const uint8_t *bytes, size_t len)
{
	struct recording *r = context;
	struct frame *frame = &r->frames[r->count];

	(void)plan;
	if (r->count == DIFFER_FRAMES || len > DIFFER_LONG)
		return;
	*frame = (struct frame){ .at_ns = at_ns, .port = port, .len = len };
	memcpy(frame->bytes, bytes, len);
	r->count++;
}

static void
make_of(struct host_plan *plan, const struct differ_kind *kind)
{
	plan->compiled = kind->compiled;
	plan->watched = kind->watched;
	plan->no_paths = kind->no_paths;
}

static void
prepare(void *context, struct host_plan *plan)
{
	struct recording *r = context;

	r->is_ours = r->differ->graph == NULL || strcmp(base_of(plan->graph), base_of(r->differ->graph)) == 0;
	if (!r->is_ours)
		return;
	if (r->kind == 0) {
		r->plan = *plan;
		snprintf(r->graph, sizeof(r->graph), "%s", plan->graph);
		r->plan.graph = r->graph;
		for (unsigned i = 0; i < plan->set_count; i++) {
			snprintf(r->sets[i], DIFFER_TEXT, "%s", plan->sets[i]);
			r->plan.sets[i] = r->sets[i];
		}
		plan->saw = record;
		plan->context = r;
	}
	make_of(plan, &r->differ->kinds[r->kind]);
}

/* ---- frames that are changed ---- */

static void
checksum_ip(struct frame *f)
{
	size_t header = f->len > 14 ? (size_t)(f->bytes[14] & 15) * 4 : 0;
	uint32_t sum = 0;

	if (header < 20 || f->len < 14 + header || f->bytes[12] != 8 || f->bytes[13] != 0)
		return;
	f->bytes[24] = f->bytes[25] = 0;
	for (size_t i = 14; i < 14 + header; i += 2)
		sum += (uint32_t)f->bytes[i] << 8 | f->bytes[i + 1];
	while (sum > 0xffff)
		sum = (sum & 0xffff) + (sum >> 16);
	f->bytes[24] = (uint8_t)(~sum >> 8);
	f->bytes[25] = (uint8_t)~sum;
}

/* One change in three frames; half of those that are hurt get a right IP checksum again, so that they come further. */
static void
change(struct frame *f, uint64_t *random)
{
	uint64_t bits = next_random(random);
	size_t at = (size_t)(bits >> 32) % (f->len == 0 ? 1 : f->len);

	switch (bits % 24) {
	case 0:
	case 1:
	case 2:
		f->bytes[at] ^= (uint8_t)(1 << (bits >> 8 & 7));
		break;
	case 3:
		f->bytes[at] = (uint8_t)(bits >> 8);
		break;
	case 4:
		f->len = at;
		break;
	case 5:
		f->len = f->len + 40 > DIFFER_LONG ? f->len : f->len + (bits >> 8) % 40;
		break;
	case 6:
		f->len = f->len > 14 ? 14 + at % 28 : f->len;
		break;
	case 7: /* no checksum, if this is UDP in IP without options */
		if (f->len >= 42)
			f->bytes[40] = f->bytes[41] = 0;
		break;
	default:
		return;
	}
	if (bits >> 16 & 1)
		checksum_ip(f);
}

/* ---- side by side ---- */

static bool
say_sent(const struct differ *d, const char *script, unsigned kind, const struct sent *a, const struct sent *b)
{
	printf("%s: %s sent %zu bytes at %llu ns, %s %zu at %llu\n", script, d->kinds[0].name, a == NULL ? 0 : a->len,
	       a == NULL ? 0ULL : (unsigned long long)a->at_ns, d->kinds[kind].name, b == NULL ? 0 : b->len,
	       b == NULL ? 0ULL : (unsigned long long)b->at_ns);
	return false;
}

/* Takes what the hosts have sent. */
static bool
compare_sent(const struct differ *d, const char *script, struct host *const *hosts)
{
	while (host_first_sent(hosts[0]) != NULL) {
		const struct sent *a = host_first_sent(hosts[0]);

		for (unsigned i = 1; i < d->count; i++) {
			const struct sent *b = host_first_sent(hosts[i]);

			if (b == NULL || a->at_ns != b->at_ns || a->port != b->port || a->len != b->len ||
			    memcmp(a->bytes, b->bytes, a->len) != 0)
				return say_sent(d, script, i, a, b);
		}
		for (unsigned i = 0; i < d->count; i++)
			host_drop_sent(hosts[i]);
	}
	for (unsigned i = 1; i < d->count; i++)
		if (host_first_sent(hosts[i]) != NULL)
			return say_sent(d, script, i, NULL, host_first_sent(hosts[i]));
	return true;
}

struct counting {
	const struct differ *differ;
	const struct host *with;
	const char *script;
	unsigned kind, counters;
	uint64_t total;
	bool good;
};

static void
compare_count(void *context, const char *name, uint64_t count)
{
	struct counting *c = context;
	uint64_t other = 0;
	bool known = host_count(c->with, name, &other);

	c->counters++;
	c->total += count;
	if (known && other == count)
		return;
	printf("%s: %s is %llu %s, %llu %s\n", c->script, name, (unsigned long long)count, c->differ->kinds[0].name,
	       (unsigned long long)other, c->differ->kinds[c->kind].name);
	c->good = false;
}

static bool
compare_counts(const struct differ *d, const char *script, struct host *const *hosts, uint64_t *total)
{
	bool good = true;

	for (unsigned i = 1; i < d->count; i++) {
		struct counting c = { .differ = d, .with = hosts[i], .script = script, .kind = i, .good = true };

		host_each_count(hosts[0], compare_count, &c);
		if (host_crossings(hosts[0]) != host_crossings(hosts[i])) {
			printf("%s: %s and %s count other crossings\n", script, d->kinds[0].name, d->kinds[i].name);
			good = false;
		}
		good = good && c.good && c.counters > 0;
		*total += c.total;
	}
	return good;
}

static bool
feed_all(const struct differ *d, const char *script, struct host *const *hosts, const struct frame *f)
{
	for (unsigned i = 0; i < d->count; i++)
		host_inject(hosts[i], f->port, f->bytes, f->len);
	return compare_sent(d, script, hosts);
}

static bool
wait_all(const struct differ *d, const char *script, struct host *const *hosts, uint64_t until_ns)
{
	for (unsigned i = 0; i < d->count; i++)
		if (until_ns > host_now_ns(hosts[i]))
			host_run_until(hosts[i], until_ns, false);
	return compare_sent(d, script, hosts);
}

/* One round over a recording: as it was (round 0), or changed. */
static bool
replay(const struct differ *d, const char *script, const struct recording *r, unsigned round, struct host *const *hosts)
{
	uint64_t random = 0x9e3779b97f4a7c15 + round;
	bool counting = false;
	struct frame f;

	for (unsigned i = 0; i < r->count; i++) {
		unsigned repeat = 1;

		f = r->frames[i];
		if (!wait_all(d, script, hosts, f.at_ns))
			return false;
		if (round > 0) {
			uint64_t bits = next_random(&random);

			if (bits % 16 == 0 && i + 1 < r->count)
				f = r->frames[i + 1];
			repeat = bits % 16 == 1 ? 2 : bits % 16 == 2 ? 4 : 1;
			change(&f, &random);
			if (d->counts_edges && bits % 16 == 3) {
				counting = !counting;
				for (unsigned j = 0; j < d->count; j++)
					host_count_edges(hosts[j], counting);
			}
		}
		for (; repeat > 0; repeat--)
			if (!feed_all(d, script, hosts, &f))
				return false;
	}
	return wait_all(d, script, hosts, host_now_ns(hosts[0]) + DIFFER_AFTER_NS);
}

static bool
compare(const struct differ *d, const char *script, const struct recording *r, unsigned round, uint64_t *total)
{
	struct host *hosts[DIFFER_KINDS];
	static char why[SCRIPT_WHY];
	bool good = true;

	for (unsigned i = 0; i < d->count; i++) {
		struct host_plan plan = r->plan;

		plan.saw = NULL;
		make_of(&plan, &d->kinds[i]);
		hosts[i] = host_new(&plan, why, sizeof(why));
		if (hosts[i] == NULL) {
			printf("%s: %s: %s\n", script, d->kinds[i].name, why);
			while (i-- > 0)
				host_free(hosts[i]);
			return false;
		}
	}
	good = replay(d, script, r, round, hosts) && compare_counts(d, script, hosts, total);
	if (!good)
		printf("%s: in round %u of its frames\n", script, round);
	for (unsigned i = 0; i < d->count; i++) {
		if (d->kinds[i].by_path != NULL)
			*d->kinds[i].by_path += host_by_path(hosts[i]);
		if (!host_free(hosts[i])) {
			printf("%s: %s: not every buffer has come back\n", script, d->kinds[i].name);
			good = false;
		}
	}
	return good;
}

/* ---- scripts ---- */

static bool
run(const char *script, struct recording *r, const char *const *folders)
{
	static char why[SCRIPT_WHY];

	for (r->kind = 0; r->kind < r->differ->count; r->kind++) {
		r->is_ours = false;
		if (!script_run_prepared(script, folders, prepare, r, why)) {
			printf("%s: %s: %s\n", script, r->differ->kinds[r->kind].name, why);
			return false;
		}
		if (!r->is_ours)
			return true;
	}
	return true;
}

bool
differ_run(const struct differ *d, const char *script, const char *const *folders, unsigned rounds,
	   struct differ_done *done)
{
	struct recording *r = calloc(1, sizeof(*r));
	bool good = r != NULL && (r->frames = calloc(DIFFER_FRAMES, sizeof(*r->frames))) != NULL;

	if (good) {
		r->differ = d;
		good = run(script, r, folders);
		if (good && r->is_ours) {
			done->scripts++;
			done->frames += r->count * (rounds + 1);
			for (unsigned round = 0; good && round <= rounds; round++)
				good = compare(d, script, r, round, &done->total);
		}
	}
	if (r != NULL)
		free(r->frames);
	free(r);
	return good;
}
