/*
 * fuzz_calls.c - two hosts that call each other through the RPC suite over a hostile wire. For each frame a script
 * chooses whether it gets through, is lost, duplicated, delayed, replayed, cut, damaged or sent from another station of
 * its host, and when a host falls silent, or crashes and boots.
 *
 * The script's first byte makes choices (enum calls_choice); each further byte is the fate of one frame (enum
 * calls_fate; its upper four bits are an argument). After the script everything gets through. Then these must hold:
 * every call has ended once; each reply is its call's; no call was run by another procedure, run twice, or run by a
 * later boot of its host than when it was made (unless frames were damaged: no checksum here covers the contents);
 * nothing waits, and no buffer is left.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "platform/sim/sim.h"
#include "protocols/chan/chan.h"
#include "tests/fuzz/fuzz.h"
#include "xkernel/kernel.h"

enum calls_choice {
	CALLS_REGULAR = 1 << 0,
	CALLS_FULL = 1 << 1,   /* with VSIZE and VMUX */
	CALLS_DAMAGE = 1 << 2, /* frames may be damaged */
	CALLS_LONG = 1 << 3,   /* messages of several frames */
	CALLS_BOTH = 1 << 4,   /* both hosts call */
	CALLS_LATE = 1 << 5,   /* messages wait above BID */
	CALLS_SELECT = 1 << 6, /* calls go to procedures, through SELECT over VCHAN */
};

enum calls_fate {
	/* 0 to 5: it gets through */
	CALLS_ELSEWHERE = 6, /* it is sent from another station of its host: argument */
	CALLS_MUTE,          /* its host is cut off for up to 2^11 ms: argument */
	CALLS_LOST = 8,
	CALLS_TWICE,
	CALLS_LATER, /* it arrives behind those of the next ms */
	CALLS_AGAIN, /* one of the last 16 arrives too: argument */
	CALLS_WAIT,  /* 2^argument ms pass before the next */
	CALLS_CUT,   /* argument: number of bytes cut off */
	CALLS_WRONG, /* a bit is flipped: the next byte names it */
	CALLS_CRASH, /* argument: bit 0: the host; bits 1 to 3: it boots after 2^.. ms */
};

enum {
	CALLS_HOSTS = 2,
	CALLS_USERS = 2, /* per host */
	CALLS_EACH = 4,  /* calls per user and boot */
	CALLS_MAX = 256,
	CALLS_QUEUE = 256,
	CALLS_KEPT = 16,
	CALLS_CRASHES = 6,
	CALLS_STATIONS = 4,  /* per host; byte 4 of a link address is the station */
	CALLS_PROCEDURE = 5, /* the first of two; the next one is unserved */
	CALLS_PROCEDURES = 2,
	CALLS_FRAME_MAX = 1514,
	CALLS_LONG_LEN = 4000,
	CALLS_SCRIPT_MS = 4000, /* the script ends then at the latest */
	CALLS_END_MS = 30000,
};

#define CALLS_MS UINT64_C(1000000)
#define CALLS_LINK UINT64_C(0x020000000001)
#define CALLS_HOST UINT32_C(0x0a4d0001)

struct calls;

/* A call that was made. */
struct call {
	unsigned from, to, procedure, runs, ends;
	uint64_t from_boot, to_boot;
};

struct caller {
	struct xk_protocol protocol;
	struct calls *calls;
	unsigned host;
	unsigned users; /* users that have not ended */
};

struct frame {
	unsigned from; /* the host */
	uint16_t len;
	uint8_t bytes[CALLS_FRAME_MAX];
};

struct place {
	struct calls *calls;
	unsigned host;
};

struct calls {
	struct xk_sim *sim;
	struct xk_sim_host *hosts[CALLS_HOSTS], *wire;
	struct xk_sim_link *links[CALLS_HOSTS];
	struct xk_port *ports[CALLS_HOSTS]; /* the wire's */
	struct place places[CALLS_HOSTS];
	unsigned choices, crashes;
	uint64_t boot_at_ns[CALLS_HOSTS]; /* 0: it is up */
	uint64_t mute_until_ns[CALLS_HOSTS];
	struct frame queue[CALLS_QUEUE]; /* frames in flight */
	unsigned queued;
	struct frame kept[CALLS_KEPT];
	unsigned kept_next;
	struct call calls[CALLS_MAX];
	unsigned count;
	struct fuzz_input input;
};

static uint64_t
calls_boots(const struct calls *c, unsigned host)
{
	return xk_sim_host_boots(c->hosts[host]);
}

static bool
calls_is_damaged(const struct calls *c)
{
	return (c->choices & CALLS_DAMAGE) != 0;
}

/* ---- the users ---- */

/* Makes a request: the call's number and a pattern. The reply is the same with the number inverted. */
static struct xk_msg *
caller_message(struct caller *caller, size_t len, uint32_t number)
{
	struct xk_msg *m = xk_msg_new(xk_platform_of(&caller->protocol), len);

	FUZZ_CHECK(m != NULL);
	for (struct xk_msg *part = m; part != NULL; part = part->next)
		memset(part->data, (int)(number & 0x7f), part->len);
	memcpy(m->data, &number, sizeof(number));
	return m;
}

/* Returns the procedure called; 0: none in use. */
static unsigned
caller_procedure(struct xk_session *lls)
{
	struct xk_participants who;

	if (strcmp(lls->protocol->type->name, "select") != 0)
		return 0;
	FUZZ_CHECK(xk_get_participants(lls, &who) == 0);
	return (unsigned)xk_participant_pop(&who.local);
}

static int
caller_call_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_msg **reply)
{
	struct caller *caller = (struct caller *)self;
	struct calls *c = caller->calls;
	size_t len = xk_msg_len(m);
	uint32_t number = UINT32_MAX;
	bool known = len >= sizeof(number) && xk_msg_copy_out(m, 0, &number, sizeof(number)) && number < c->count;

	xk_msg_free(m);
	FUZZ_CHECK(known || calls_is_damaged(c));
	if (!known)
		return -EINVAL;
	if (!calls_is_damaged(c)) {
		FUZZ_CHECK(c->calls[number].procedure == caller_procedure(lls));
		FUZZ_CHECK(c->calls[number].to == caller->host);
		FUZZ_CHECK(c->calls[number].runs == 0);
		FUZZ_CHECK(calls_boots(c, caller->host) <= c->calls[number].to_boot);
	}
	c->calls[number].runs++;
	if (number % 5 == 1)
		xk_delay(self, 30000);
	if (number % 7 == 2)
		return -ENOENT;
	*reply = caller_message(caller, len, ~number);
	return 0;
}

static void
caller_check(struct calls *c, struct call *call, int status, struct xk_msg *reply)
{
	uint32_t number = 0;

	FUZZ_CHECK(call->ends++ == 0);
	FUZZ_CHECK(status <= 0);
	if (status != 0)
		return;
	FUZZ_CHECK(reply != NULL);
	xk_msg_copy_out(reply, 0, &number, sizeof(number));
	xk_msg_free(reply);
	if (calls_is_damaged(c))
		return;
	FUZZ_CHECK(~number == (uint32_t)(call - c->calls));
	FUZZ_CHECK(call->runs == 1);
}

static int
caller_call(struct caller *caller, struct xk_session *s, unsigned procedure)
{
	struct calls *c = caller->calls;
	struct call *call = &c->calls[c->count];
	struct xk_msg *reply = NULL;
	size_t len = c->choices & CALLS_LONG && c->count % 3 == 0 ? CALLS_LONG_LEN : 4 + c->count % 100;
	unsigned to = 1 - caller->host;
	int status;

	if (c->count == CALLS_MAX)
		return -ECANCELED;
	*call = (struct call){ caller->host, to, procedure, 0, 0, calls_boots(c, caller->host), calls_boots(c, to) };
	status = xk_call(s, caller_message(caller, len, c->count++), &reply);
	caller_check(c, call, status, reply);
	return status;
}

static void
caller_live(void *argument)
{
	struct caller *caller = argument;
	struct xk_protocol *self = &caller->protocol;
	int status = 0;

	for (unsigned i = 0; i < CALLS_EACH && status != -ECANCELED; i++) {
		struct xk_participants participants = { .remote = { 1, { CALLS_HOST + 1 - caller->host } } };
		unsigned procedure = 0;
		struct xk_session *s;

		if (caller->calls->choices & CALLS_SELECT) {
			procedure = CALLS_PROCEDURE + (caller->users + i) % (CALLS_PROCEDURES + 1);
			xk_participant_push(&participants.remote, procedure);
		}
		status = xk_open(self, self, xk_lower(self, 0), &participants, &s);
		if (status != 0)
			continue;
		status = caller_call(caller, s, procedure);
		if (status == 0)
			status = caller_call(caller, s, procedure);
		xk_close(s);
	}
	caller->users--;
}

static int
caller_init(struct xk_protocol *self)
{
	bool selects = strcmp(xk_lower(self, 0)->type->name, "select") == 0;
	int err = 0;

	for (unsigned i = 0; i < (selects ? CALLS_PROCEDURES : 1) && err == 0; i++) {
		struct xk_participants enabled = { .remote.depth = 0 };

		if (selects)
			xk_participant_push(&enabled.local, CALLS_PROCEDURE + i);
		err = xk_open_enable(self, self, xk_lower(self, 0), &enabled);
	}
	return err;
}

static const struct xk_role caller_lowers[] = {
	{ "transport", XK_RPC, NULL, "carries calls" },
	{ NULL, 0, NULL, NULL },
};

static const struct xk_protocol_ops caller_ops = { .init = caller_init, .call_demux = caller_call_demux };

static const struct xk_protocol_type caller_type = {
	.name = "caller",
	.help = "Calls the other, and is called.",
	.ops = &caller_ops,
	.size = sizeof(struct caller),
	.lowers = caller_lowers,
};

/* ---- the hosts ---- */

#define CALLS_GRAPH                                                                                                    \
	"digraph calls { caller; chan [timeout=\"20ms\", timeout_min=\"2ms\", timeout_max=\"80ms\", "                  \
	"silence=\"400ms\", "                                                                                          \
	"deadline=\"900ms\", lifetime=\"1s\", retries=4]; bidctl [timeout=\"20ms\", timeout_max=\"80ms\", "            \
	"interval=\"5ms\", keepalive=\"300ms\", lifetime=\"2s\", broadcast_wait=\"20ms\"]; bid [interval=\"5ms\"];"    \
	"blast [nack=\"5ms\", nack_max=\"40ms\", keep=\"200ms\", give_up=\"800ms\"];"                                  \
	"arp [timeout=\"20ms\", tries=4]; vnet [address=\"10.77.0.%u/24\"]; %s %s "                                    \
	"chan -> bidctl; bid -> bidctl; vnet -> eth; vnet -> arp; arp -> eth; eth -> port }"

/* By CALLS_FULL and CALLS_LATE. */
static const char *const calls_paths[4] = {
	"chan -> bid -> blast -> vnet; bidctl -> vnet;",
	"chan -> bid -> vsize -> vmux; vsize -> blast -> vmux -> vnet; vmux -> ip -> vnet; bidctl -> vmux;",
	"vdelay [up=\"1ms\", down=\"1ms\", jitter=\"60ms\", reorder=yes, seed=1];"
	"chan -> vdelay -> bid -> blast -> vnet; bidctl -> vnet;",
	"vdelay [up=\"1ms\", down=\"1ms\", jitter=\"60ms\", reorder=yes, seed=1]; chan -> vdelay -> bid -> vsize -> "
	"vmux;"
	"vsize -> blast -> vmux -> vnet; vmux -> ip -> vnet; bidctl -> vmux;",
};

/* By CALLS_SELECT. Fewer channels than users, so that callers wait. */
static const char *const calls_uppers[2] = {
	"caller -> chan [number=77];",
	"vchan [channels=1, wait=\"300ms\"]; caller -> select -> vchan -> chan;",
};

/* Returns the graph of a host, path and upper protocol; read once. */
static const struct xk_graph *
calls_graph(unsigned host, unsigned path, unsigned upper)
{
	static struct xk_graph *graphs[CALLS_HOSTS][XK_ARRAY_LENGTH(calls_paths)][XK_ARRAY_LENGTH(calls_uppers)];
	const struct xk_protocol_type *types[128] = { &caller_type };
	struct xk_graph_errors errors = { 0 };
	struct xk_graph **graph = &graphs[host][path][upper];
	char text[2048];

	if (*graph != NULL)
		return *graph;
	for (unsigned i = 0; xk_protocol_types[i] != NULL && i < XK_ARRAY_LENGTH(types) - 2; i++)
		types[i + 1] = xk_protocol_types[i];
	snprintf(text, sizeof(text), CALLS_GRAPH, host + 1, calls_uppers[upper], calls_paths[path]);
	*graph = xk_graph_read_text("calls", text, strlen(text), &errors);
	if (*graph == NULL || xk_graph_check(*graph, types, &errors) != 0)
		xk_graph_errors_print(&errors, stderr);
	FUZZ_CHECK(errors.list == NULL);
	return *graph;
}

static void
calls_start_users(struct calls *c, struct caller *caller, struct xk_kernel *kernel)
{
	if (caller->host != 0 && !(c->choices & CALLS_BOTH))
		return;
	for (; caller->users < CALLS_USERS; caller->users++)
		FUZZ_CHECK(xk_thread_start(kernel, "caller", caller_live, caller) == 0);
}

static struct xk_kernel *
calls_boot(void *context, struct xk_sim_host *host)
{
	struct place *place = context;
	struct calls *c = place->calls;
	struct xk_kernel_config config = { .name = "host", .stacks = 8, .threads = 3, .core = -1 };
	unsigned path = (c->choices & CALLS_FULL ? 1 : 0) | (c->choices & CALLS_LATE ? 2 : 0);
	struct xk_graph_errors errors = { 0 };
	struct xk_kernel *kernel;
	struct xk_protocol *failed;
	struct caller *caller;

	config.platform = xk_sim_platform(host);
	config.mode = c->choices & CALLS_REGULAR ? XK_REGULAR : XK_IPP;
	config.driver = XK_DRIVER_INTERRUPT;
	kernel = xk_kernel_new(&config);
	FUZZ_CHECK(kernel != NULL);
	xk_kernel_add_port(kernel, xk_sim_port_new(host, 0));
	FUZZ_CHECK(xk_graph_build(calls_graph(place->host, path, (c->choices & CALLS_SELECT) != 0), kernel, &errors) ==
		   0);
	caller = (struct caller *)xk_kernel_find(kernel, "caller");
	caller->calls = c;
	caller->host = place->host;
	FUZZ_CHECK(xk_kernel_init(kernel, &failed) == 0);
	FUZZ_CHECK(xk_kernel_start(kernel) == 0);
	calls_start_users(c, caller, kernel);
	return kernel;
}

/* Composes the wire: a host of ports without protocols, through which the script sends. */
static struct xk_kernel *
calls_boot_wire(void *context, struct xk_sim_host *host)
{
	struct calls *c = context;
	struct xk_kernel_config config = { .name = "wire", .platform = xk_sim_platform(host), .stacks = 2, .core = -1 };
	struct xk_kernel *kernel = xk_kernel_new(&config);

	FUZZ_CHECK(kernel != NULL);
	for (unsigned i = 0; i < CALLS_HOSTS; i++) {
		c->ports[i] = xk_sim_port_new(host, i);
		FUZZ_CHECK(c->ports[i] != NULL);
		xk_kernel_add_port(kernel, c->ports[i]);
	}
	return kernel;
}

/* ---- the wire ---- */

static void
calls_see(void *context, const struct xk_sim_record *record)
{
	struct calls *c = context;
	unsigned from = record->host == c->hosts[0] ? 0 : 1;
	struct frame *frame = &c->queue[c->queued];

	if (record->event != XK_SIM_SENT || record->host == c->wire || record->len > CALLS_FRAME_MAX ||
	    c->queued == CALLS_QUEUE)
		return;
	frame->from = from;
	frame->len = (uint16_t)record->len;
	memcpy(frame->bytes, record->frame, record->len);
	c->queued++;
}

/* Delivers a frame for any station of a host to the one it has here. */
static void
calls_pass(struct calls *c, const struct frame *frame)
{
	struct xk_port *port = c->ports[1 - frame->from];
	struct xk_msg *m = xk_memory_frame(port->platform, frame->len);

	FUZZ_CHECK(m != NULL);
	if (frame->len > 0)
		memcpy(m->data, frame->bytes, frame->len);
	if (frame->len >= 6 && !(frame->bytes[0] & 1))
		m->data[4] = 0;
	if (port->ops->transmit(port, &m, 1) == 0)
		xk_msg_free(m);
}

static void
calls_run(struct calls *c, uint64_t ns)
{
	xk_sim_run(c->sim, xk_sim_now_ns(c->sim) + ns);
}

static void
calls_boot_again(struct calls *c, bool now)
{
	for (unsigned i = 0; i < CALLS_HOSTS; i++) {
		if (c->boot_at_ns[i] == 0 || (!now && xk_sim_now_ns(c->sim) < c->boot_at_ns[i]))
			continue;
		c->boot_at_ns[i] = 0;
		FUZZ_CHECK(xk_sim_boot(c->hosts[i]) == 0);
	}
}

static void
calls_crash(struct calls *c, unsigned argument)
{
	unsigned host = argument & 1;

	if (c->boot_at_ns[host] != 0 || c->crashes++ >= CALLS_CRASHES)
		return;
	FUZZ_CHECK(xk_sim_crash(c->hosts[host]) == 0);
	c->boot_at_ns[host] = xk_sim_now_ns(c->sim) + (CALLS_MS << (argument >> 1));
}

static void
calls_damage(struct calls *c, struct frame *frame, unsigned fate, unsigned argument)
{
	unsigned where = fate == CALLS_WRONG ? fuzz_u8(&c->input) : 0;

	if (!calls_is_damaged(c))
		return;
	if (fate == CALLS_CUT)
		frame->len = (uint16_t)(frame->len > argument ? frame->len - argument : 0);
	else if (where < frame->len)
		frame->bytes[where] ^= (uint8_t)(1 << (argument & 7));
	calls_pass(c, frame);
}

/* Decides the fate of one frame. Returns true if it is delayed. */
static bool
calls_decide(struct calls *c, struct frame *frame)
{
	unsigned byte = fuzz_u8(&c->input), fate = byte & 0xf, argument = byte >> 4;

	c->kept[c->kept_next++ % CALLS_KEPT] = *frame;
	switch (fate) {
	case CALLS_LOST:
		return false;
	case CALLS_LATER:
		return true;
	case CALLS_CUT:
	case CALLS_WRONG:
		calls_damage(c, frame, fate, argument);
		return false;
	case CALLS_ELSEWHERE:
		if (frame->len >= 12)
			frame->bytes[10] = (uint8_t)(argument % CALLS_STATIONS);
		break;
	case CALLS_MUTE:
		c->mute_until_ns[frame->from] = xk_sim_now_ns(c->sim) + (CALLS_MS << (argument % 12));
		break;
	case CALLS_AGAIN:
		calls_pass(c, &c->kept[argument]);
		break;
	case CALLS_TWICE:
		calls_pass(c, frame);
		break;
	case CALLS_CRASH:
		calls_crash(c, argument);
		break;
	case CALLS_WAIT:
		calls_pass(c, frame);
		calls_run(c, CALLS_MS << (argument & 7));
		return false;
	default:
		break;
	}
	calls_pass(c, frame);
	return false;
}

/* Carries the frames sent in the last ms. */
static void
calls_carry(struct calls *c)
{
	unsigned count = c->queued, later = 0;

	for (unsigned i = 0; i < count; i++) {
		struct frame frame = c->queue[i];

		if (xk_sim_now_ns(c->sim) >= c->mute_until_ns[frame.from] && calls_decide(c, &frame))
			c->queue[later++] = frame;
	}
	memmove(&c->queue[later], &c->queue[count], (c->queued - count) * sizeof(c->queue[0]));
	c->queued -= count - later;
}

/* ---- a run ---- */

static void
calls_begin(struct calls *c)
{
	static const struct sim_link_config link = {
		.kind = SIM_LINK_WIRE, .latency_ns = 1000, .mtu = CALLS_FRAME_MAX - 14, .queue = 256
	};
	static const char *const names[CALLS_HOSTS] = { "a", "b" };
	struct xk_sim_host_config wire = { .name = "wire", .boot = calls_boot_wire, .context = c };

	c->sim = xk_sim_new(1 + c->choices);
	c->wire = xk_sim_host_new(c->sim, &wire);
	FUZZ_CHECK(c->wire != NULL);
	for (unsigned i = 0; i < CALLS_HOSTS; i++) {
		struct xk_sim_host_config host = { .name = names[i], .boot = calls_boot, .context = &c->places[i] };

		c->places[i] = (struct place){ c, i };
		c->hosts[i] = xk_sim_host_new(c->sim, &host);
		c->links[i] = xk_sim_link_new(c->sim, names[i], &link);
		FUZZ_CHECK(c->hosts[i] != NULL && c->links[i] != NULL);
		FUZZ_CHECK(xk_sim_attach(c->hosts[i], "port", c->links[i], CALLS_LINK + i) == 0);
		FUZZ_CHECK(xk_sim_attach(c->wire, names[i], c->links[i], CALLS_LINK + 1 - i) == 0);
	}
	xk_sim_watch(c->sim, calls_see, c);
	FUZZ_CHECK(xk_sim_boot(c->wire) == 0);
	for (unsigned i = 0; i < CALLS_HOSTS; i++)
		FUZZ_CHECK(xk_sim_boot(c->hosts[i]) == 0);
}

static void
calls_check(struct calls *c)
{
	for (unsigned i = 0; i < c->count; i++)
		if (c->calls[i].from_boot == calls_boots(c, c->calls[i].from))
			FUZZ_CHECK(c->calls[i].ends == 1);
	for (unsigned i = 0; i < CALLS_HOSTS; i++) {
		struct xk_kernel *kernel = xk_sim_kernel(c->hosts[i]);
		struct xk_platform *platform = xk_sim_platform(c->hosts[i]);
		struct xk_kernel_stats stats;

		xk_kernel_stats(kernel, &stats);
		FUZZ_CHECK(stats.stacks_parked == 0);
		FUZZ_CHECK(((struct caller *)xk_kernel_find(kernel, "caller"))->users == 0);
		FUZZ_CHECK(platform->ops->buffers_out(platform) == 0);
	}
}

static void
calls_live(struct calls *c)
{
	uint64_t end_ns = CALLS_SCRIPT_MS * CALLS_MS;

	while (c->input.left > 0 && xk_sim_now_ns(c->sim) < end_ns) {
		calls_run(c, CALLS_MS);
		calls_boot_again(c, false);
		calls_carry(c);
	}
	c->input.left = 0;
	memset(c->mute_until_ns, 0, sizeof(c->mute_until_ns));
	calls_boot_again(c, true);
	end_ns = xk_sim_now_ns(c->sim) + CALLS_END_MS * CALLS_MS;
	while (xk_sim_now_ns(c->sim) < end_ns) {
		calls_run(c, 5 * CALLS_MS);
		calls_carry(c);
	}
}

static void *
calls_main(void *argument)
{
	struct calls *c = argument;

	c->choices = fuzz_u8(&c->input);
	calls_begin(c);
	calls_live(c);
	calls_check(c);
	FUZZ_CHECK(xk_sim_free(c->sim) == 0);
	return NULL;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct calls *c = calloc(1, sizeof(*c));

	FUZZ_CHECK(c != NULL);
	c->input = (struct fuzz_input){ data, size };
	fuzz_on_thread(calls_main, c);
	free(c);
	return 0;
}
