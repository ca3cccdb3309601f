/*
 * test_paths.c - compares hosts with paths (xkernel/path.h) with hosts without. Each packet script
 * - is run with hosts of each kind: its expectations must hold;
 * - is replayed to a host of each kind side by side, its frames unchanged and randomly changed (bits flipped, cut,
 *   lengthened, duplicated, reordered, checksums corrected or not): after each frame both must have sent the same bytes
 *   at the same time, and at the end all counters and drop reasons must be equal. Now and then edges are counted, and
 *   these counts must be equal too.
 */
#include <glob.h>

#include "tests/conformance/host.h"
#include "tests/conformance/script.h"
#include "tests/random.h"
#include "tests/test.h"

enum { KINDS = 2, ROUNDS = 2, ROUNDS_LONG = 20, DIFFER_FRAMES = 4096, DIFFER_LONG = 2048, DIFFER_TEXT = 256 };

enum { BY_LAYERS, BY_PATHS, DIFFER_HOSTS };

#define DIFFER_AFTER_NS UINT64_C(200000000000) /* time after which everything has timed out */

static const char *const folders[] = { CONFORMANCE_ROOT "/tests/conformance", CONFORMANCE_ROOT "/graphs", NULL };

struct frame {
	uint64_t at_ns;
	unsigned port;
	size_t len;
	uint8_t bytes[DIFFER_LONG];
};

/* The effects of a script on its host, and the results compared. */
struct recording {
	const char *script;
	bool by_layers; /* the next host has no paths */
	struct host_plan plan;
	char graph[4096], sets[HOST_SETS][DIFFER_TEXT];
	struct frame *frames;
	unsigned count;
	uint64_t total, by_path; /* total: of all counters; by_path: frames that took paths */
};

/* ---- recording ---- */

static void
record(void *context, const struct host_plan *plan, uint64_t at_ns, unsigned port, const uint8_t *bytes, size_t len)
{
	struct recording *r = context;
	struct frame *frame = &r->frames[r->count];

	if (r->count == DIFFER_FRAMES || len > DIFFER_LONG)
		return;
	*frame = (struct frame){ .at_ns = at_ns, .port = port, .len = len };
	memcpy(frame->bytes, bytes, len);
	r->count++;
}

/* Keeps the plan of a script's host, and records the host if it has paths. */
static void
prepare(void *context, struct host_plan *plan)
{
	struct recording *r = context;

	plan->no_paths = r->by_layers;
	if (r->by_layers)
		return;
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

/* ---- changed frames ---- */

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

/* Changes one frame in three; half of the damaged ones get a valid IP checksum again, so that they get further. */
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

/* Takes the frames that the hosts have sent and compares them. */
static bool
compare_sent(const char *script, struct host *const hosts[DIFFER_HOSTS])
{
	for (;;) {
		const struct sent *a = host_first_sent(hosts[BY_LAYERS]), *b = host_first_sent(hosts[BY_PATHS]);

		if (a == NULL && b == NULL)
			return true;
		if (a == NULL || b == NULL || a->at_ns != b->at_ns || a->port != b->port || a->len != b->len ||
		    memcmp(a->bytes, b->bytes, a->len) != 0) {
			printf("%s: layers sent %zu bytes at %llu ns, paths %zu at %llu\n", script,
			       a == NULL ? 0 : a->len, a == NULL ? 0ULL : (unsigned long long)a->at_ns,
			       b == NULL ? 0 : b->len, b == NULL ? 0ULL : (unsigned long long)b->at_ns);
			return false;
		}
		host_drop_sent(hosts[BY_LAYERS]);
		host_drop_sent(hosts[BY_PATHS]);
	}
}

struct counting {
	const struct host *with;
	const char *script;
	unsigned counters;
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
	printf("%s: %s is %llu by layers, %llu by paths\n", c->script, name, (unsigned long long)count,
	       (unsigned long long)other);
	c->good = false;
}

static bool
compare_counts(struct recording *r, struct host *const hosts[DIFFER_HOSTS])
{
	struct counting c = { .with = hosts[BY_PATHS], .script = r->script, .good = true };

	host_each_count(hosts[BY_LAYERS], compare_count, &c);
	r->total += c.total;
	if (host_crossings(hosts[BY_LAYERS]) == host_crossings(hosts[BY_PATHS]))
		return c.good && c.counters > 0;
	printf("%s: paths count different crossings\n", r->script);
	return false;
}

static bool
wait_both(const char *script, struct host *const hosts[DIFFER_HOSTS], uint64_t until_ns)
{
	for (unsigned i = 0; i < DIFFER_HOSTS; i++)
		if (until_ns > host_now_ns(hosts[i]))
			host_run_until(hosts[i], until_ns, false);
	return compare_sent(script, hosts);
}

/* Runs one round over a recording: unchanged (round 0), or changed. */
static bool
replay(const struct recording *r, unsigned round, struct host *const hosts[DIFFER_HOSTS])
{
	uint64_t random = 0x9e3779b97f4a7c15 + round;
	bool counting = false;
	struct frame f;

	for (unsigned i = 0; i < r->count; i++) {
		unsigned repeat = 1;

		f = r->frames[i];
		if (!wait_both(r->script, hosts, f.at_ns))
			return false;
		if (round > 0) {
			uint64_t bits = next_random(&random);

			if (bits % 16 == 0 && i + 1 < r->count)
				f = r->frames[i + 1];
			repeat = bits % 16 == 1 ? 2 : bits % 16 == 2 ? 4 : 1;
			change(&f, &random);
			if (bits % 16 == 3) {
				counting = !counting;
				host_count_edges(hosts[BY_LAYERS], counting);
				host_count_edges(hosts[BY_PATHS], counting);
			}
		}
		for (; repeat > 0; repeat--) {
			host_inject(hosts[BY_LAYERS], f.port, f.bytes, f.len);
			host_inject(hosts[BY_PATHS], f.port, f.bytes, f.len);
			if (!compare_sent(r->script, hosts))
				return false;
		}
	}
	return wait_both(r->script, hosts, host_now_ns(hosts[BY_LAYERS]) + DIFFER_AFTER_NS);
}

static bool
compare(struct recording *r, unsigned round)
{
	struct host *hosts[DIFFER_HOSTS];
	static char why[SCRIPT_WHY];
	bool good;

	for (unsigned i = 0; i < DIFFER_HOSTS; i++) {
		struct host_plan plan = r->plan;

		plan.no_paths = i == BY_LAYERS;
		hosts[i] = host_new(&plan, why, sizeof(why));
		REQUIRE(hosts[i] != NULL);
	}
	good = replay(r, round, hosts) && compare_counts(r, hosts);
	if (!good)
		printf("%s: in round %u of its frames\n", r->script, round);
	r->by_path += host_by_path(hosts[BY_PATHS]);
	for (unsigned i = 0; i < DIFFER_HOSTS; i++)
		CHECK(host_free(hosts[i])); /* every buffer has come back */
	return good;
}

TEST(paths_and_layers_give_the_same_results)
{
	struct {
		const char *folder;
		uint64_t by_path;
	} kinds[KINDS] = { { "/chan/", 0 }, { "/rfc768/", 0 } };
	struct recording r = { .frames = calloc(DIFFER_FRAMES, sizeof(*r.frames)) };
	static char why[SCRIPT_WHY];
	unsigned frames = 0, rounds = test_is_long() ? ROUNDS_LONG : ROUNDS;
	glob_t scripts;

	REQUIRE(r.frames != NULL);
	REQUIRE(glob(CONFORMANCE_ROOT "/tests/conformance/*/*.packets", 0, NULL, &scripts) == 0);
	for (size_t i = 0; i < scripts.gl_pathc; i++) {
		uint64_t before = r.by_path;
		bool good = true;

		r.script = scripts.gl_pathv[i];
		r.count = 0;
		for (unsigned kind = 0; kind < DIFFER_HOSTS; kind++) {
			r.by_layers = kind == BY_LAYERS;
			if (!script_run_prepared(r.script, folders, prepare, &r, why)) {
				printf("%s: by %s: %s\n", r.script, r.by_layers ? "layers" : "paths", why);
				good = false;
			}
		}
		for (unsigned round = 0; good && round <= rounds; round++, frames += r.count)
			good = compare(&r, round);
		CHECK(good);
		for (unsigned k = 0; k < KINDS; k++)
			if (strstr(r.script, kinds[k].folder) != NULL)
				kinds[k].by_path += r.by_path - before;
	}
	for (unsigned k = 0; k < KINDS; k++)
		CHECK(kinds[k].by_path > 0);
	printf("%zu scripts, %u frames, %llu by path ", scripts.gl_pathc, frames, (unsigned long long)r.by_path);
	CHECK(r.by_path > 1000 && r.total > 0);
	globfree(&scripts);
	free(r.frames);
}
