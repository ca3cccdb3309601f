/*
 * test_paths.c - compares hosts with paths (xkernel/path.h) with hosts without. Each packet script
 * - is run with hosts of each kind: its expectations must hold;
 * - is replayed to a host of each kind side by side, its frames unchanged and randomly changed (bits flipped, cut,
 *   lengthened, duplicated, reordered, checksums corrected or not): after each frame both must have sent the same bytes
 *   at the same time, and at the end all counters and drop reasons must be equal. Now and then edges are counted, and
 *   these counts must be equal too.
 */
#include <glob.h>

#include "tests/conformance/script.h"
#include "tests/conformance/twins.h"
#include "tests/random.h"
#include "tests/test.h"

enum {
	KINDS = 2,
	ROUNDS = 2,
	ROUNDS_LONG = 20,
	DIFFER_FRAMES = 4096,
	DIFFER_LONG = 2048,
	DIFFER_TEXT = 256,
	BURST_MAX = 7
};

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
	uint64_t by_path; /* frames that took paths */
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
		frame_correct_sums(f->bytes, f->len, false);
}

/* ---- side by side ---- */

/* Runs one round over a recording: unchanged (round 0), or changed. */
static bool
replay(const struct recording *r, unsigned round, const struct twins *twins)
{
	uint64_t random = 0x9e3779b97f4a7c15 + round;
	unsigned together = 0; /* frames that the burst in progress lacks */
	bool counting = false;
	struct frame f;

	for (unsigned i = 0; i < r->count; i++) {
		unsigned repeat = 1;

		f = r->frames[i];
		if (together == 0 && !twins_wait(twins, f.at_ns))
			return false;
		if (round > 0) {
			uint64_t bits = next_random(&random);

			if (bits % 16 == 0 && i + 1 < r->count)
				f = r->frames[i + 1];
			repeat = bits % 16 == 1 ? 2 : bits % 16 == 2 ? 4 : 1;
			change(&f, &random);
			if (bits % 16 == 3) {
				counting = !counting;
				host_count_edges(twins->hosts[BY_LAYERS], counting);
				host_count_edges(twins->hosts[BY_PATHS], counting);
			}
		}
		if (round > 0 && together == 0 && next_random(&random) % 4 == 0)
			together = 2 + (unsigned)(next_random(&random) % (BURST_MAX - 1));
		for (; repeat > 0; repeat--)
			twins_queue(twins, f.port, f.bytes, f.len);
		together -= together > 0;
		if (together == 0 && !twins_deliver(twins))
			return false;
	}
	if (!twins_deliver(twins))
		return false;
	return twins_wait(twins, host_now_ns(twins->hosts[BY_LAYERS]) + DIFFER_AFTER_NS);
}

static bool
compare(struct recording *r, unsigned round)
{
	struct twins twins;
	bool good;

	twins_begin(&twins, r->script, &r->plan);
	good = replay(r, round, &twins) && twins_compare(&twins);
	if (!good)
		printf("%s: in round %u of its frames\n", r->script, round);
	r->by_path += host_by_path(twins.hosts[BY_PATHS]);
	twins_end(&twins);
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
		for (unsigned kind = 0; kind < TWINS; kind++) {
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
	CHECK(r.by_path > 1000);
	globfree(&scripts);
	free(r.frames);
}
