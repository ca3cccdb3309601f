/*
 * fuzz_frames.c - hostile peers and careless uppers against the whole UDP graph, driven by a script (fuzz.h).
 *
 * A real kernel in IPP mode over the platform in memory; the caller's thread is its driver, and time is virtual. After
 * each record the kernel runs until nothing is left to do at the current time. Then these must hold:
 * - each frame has ended once: dropped by name, accepted by ARP, delivered to an upper, or waiting in the reassembler
 * (a
 *   datagram reassembled from k fragments ends once);
 * - all checksums sent are right;
 * - buffers out and sessions kept are within the settings.
 *
 * At the end, time alone frees every buffer, and closing frees every session.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "protocols/ip/ip_private.h"
#include "protocols/test/udptest.h"
#include "tests/fuzz/fuzz.h"
#include "tests/protocols/discarded.h"
#include "xkernel/kernel.h"

enum {
	FRAMES_IP_FRAGMENTS = 24,
	FRAMES_IP_DATAGRAM_FRAGMENTS = 12,
	FRAMES_ARP_ENTRIES = 4,
	FRAMES_ARP_QUEUE = 4,
	FRAMES_SESSIONS = 3,
	FRAMES_STACKS = 8,
	FRAMES_STATION = 0x3000, /* its number on eth */
	FRAMES_RECORDS = 400,
	FRAMES_ENDINGS = 256,
};

#define FRAMES_GRAPH                                                                                                   \
	"digraph fuzz { graph [resume=driver%s]; edge [%s];"                                                           \
	"udptest -> udp; user -> udp; udp -> ip -> vnet -> eth; vnet -> arp -> eth -> port;"                           \
	"station -> vnet [number=\"0x3000\"];"                                                                         \
	"udp [sessions=3, seed=1%s]; vnet [sessions=3, address=\"10.77.0.2/24\"%s]; eth [sessions=3%s];"               \
	"ip [sessions=3, seed=2, gateway=\"10.77.0.16\", reassembly_timeout=\"2s\", reassembly_datagrams=6,"           \
	"reassembly_bytes=52224, reassembly_source_datagrams=3, reassembly_source_bytes=26112%s];"                     \
	"arp [entries=4, age=\"3s\", timeout=\"100ms\", tries=2] }"

/* ---- the uppers: one on udp, one on vnet ---- */

enum { UPPER_DELIVERED };

static void
upper_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	xk_count(self, UPPER_DELIVERED);
	xk_msg_free(m);
}

static int
station_init(struct xk_protocol *self)
{
	struct xk_participants anybody = { .remote.depth = 0 };

	return xk_open_enable(self, self, xk_lower(self, 0), &anybody);
}

static const struct xk_protocol_ops user_ops = { .demux = upper_demux };
static const struct xk_protocol_ops station_ops = { .init = station_init, .demux = upper_demux };
static const struct xk_role upper_lowers[] = { { "below", XK_ASYNC, NULL, "carries messages" }, { .name = NULL } };
static const char *const upper_counters[] = { "delivered", NULL };

static const struct xk_protocol_type user_type = {
	.name = "user",
	.help = "Opens sessions of udp and counts what it receives.",
	.ops = &user_ops,
	.size = sizeof(struct xk_protocol),
	.lowers = upper_lowers,
	.counters = upper_counters,
};

static const struct xk_protocol_type station_type = {
	.name = "station",
	.help = "The same of vnet, which it has also enabled.",
	.ops = &station_ops,
	.size = sizeof(struct xk_protocol),
	.lowers = upper_lowers,
	.counters = upper_counters,
};

/* ---- the host ---- */

struct frames;

/* A session that an upper has open; used by one shepherd at a time. */
struct slot {
	struct frames *f;
	struct xk_session *session;
	bool busy, lazy;
	unsigned peer;
	size_t len; /* bytes to push */
};

struct frames {
	struct xk_platform *platform;
	struct xk_kernel *kernel;
	struct xk_port *port;
	struct xk_protocol *udptest, *user, *station, *udp, *arp, *vnet, *eth, *wire;
	struct ip *ip;
	struct slot slots[FUZZ_SLOTS];
	uint32_t baseline; /* references on the port's session */
	bool serves, limited;
	const _Atomic uint64_t *endings[FRAMES_ENDINGS];
	unsigned ending_count;
	uint64_t done, reassembled; /* frames_done and datagrams reassembled before the record */
	struct fuzz_input input;
};

/* Returns the graph for these policies; made once. */
static const struct xk_graph *
frames_graph(unsigned policies)
{
	static struct xk_graph *graphs[FUZZ_POLICIES];
	const struct xk_protocol_type *types[64] = { &station_type, &user_type };
	struct xk_graph_errors errors = { 0 };
	const char *order = policies & FUZZ_ORDERED ? ", order=session" : "";
	char text[2048];
	unsigned count = 2;

	if (graphs[policies] != NULL)
		return graphs[policies];
	for (unsigned i = 0; xk_protocol_types[i] != NULL && count < XK_ARRAY_LENGTH(types) - 1; i++)
		types[count++] = xk_protocol_types[i];
	snprintf(text, sizeof(text), FRAMES_GRAPH, policies & FUZZ_NO_WAIT ? ", implicit=fail" : "",
		 policies & FUZZ_EXPLICIT ? "handoff=explicit" : "", order, order, order, order);
	graphs[policies] = xk_graph_read_text("fuzz", text, strlen(text), &errors);
	if (graphs[policies] == NULL || xk_graph_check(graphs[policies], types, &errors) != 0)
		xk_graph_errors_print(&errors, stderr);
	FUZZ_CHECK(graphs[policies] != NULL && graphs[policies]->checked);
	return graphs[policies];
}

static void
frames_idle(void *context)
{
	xk_kernel_halt(context);
}

static uint32_t
frames_references(const struct frames *f)
{
	return atomic_load_explicit(&f->port->receiver->references, memory_order_relaxed);
}

static void
frames_begin(struct frames *f, unsigned policies)
{
	struct xk_kernel_config config = { .name = "fuzz", .mode = XK_IPP, .stacks = FRAMES_STACKS, .core = -1 };
	struct xk_graph_errors errors = { 0 };
	struct xk_protocol *failed;

	f->platform = config.platform = xk_memory_platform_new(XK_MEMORY_VIRTUAL);
	f->kernel = xk_kernel_new(&config);
	FUZZ_CHECK(f->kernel != NULL);
	xk_memory_on_idle(f->platform, frames_idle, f->kernel);
	f->port = xk_memory_port_new(f->platform, "port", FUZZ_LINK, FUZZ_MTU);
	xk_kernel_add_port(f->kernel, f->port);
	FUZZ_CHECK(xk_graph_build(frames_graph(policies), f->kernel, &errors) == 0);
	FUZZ_CHECK(xk_kernel_init(f->kernel, &failed) == 0);
	f->udptest = xk_kernel_find(f->kernel, "udptest");
	f->user = xk_kernel_find(f->kernel, "user");
	f->station = xk_kernel_find(f->kernel, "station");
	f->udp = xk_kernel_find(f->kernel, "udp");
	f->ip = (struct ip *)xk_kernel_find(f->kernel, "ip");
	f->vnet = xk_kernel_find(f->kernel, "vnet");
	f->arp = xk_kernel_find(f->kernel, "arp");
	f->eth = xk_kernel_find(f->kernel, "eth");
	f->wire = xk_kernel_find(f->kernel, "port");
	f->baseline = frames_references(f);
	f->serves = true;
	for (unsigned i = 0; i < FUZZ_SLOTS; i++)
		f->slots[i].f = f;
}

/* ---- frames sent ---- */

enum { ETH_LEN = 14, IP_LEN = 20, UDP_LEN = 8, ARP_LEN = 28 };

static void
frames_check_ip(const uint8_t *p, size_t len)
{
	uint16_t fragment;

	FUZZ_CHECK(len >= IP_LEN && p[0] == 0x45 && xk_get16(p + 2) == len);
	FUZZ_CHECK(xk_sum_fold(xk_sum(0, p, IP_LEN)) == 0xffff);
	FUZZ_CHECK(p[8] == 64 && p[9] == 17 && xk_get32(p + 12) == FUZZ_HOST);
	fragment = xk_get16(p + 6);
	FUZZ_CHECK((fragment & 0xc000) == 0);
	if (fragment != 0) {
		FUZZ_CHECK((fragment & 0x1fff) * 8u + len - IP_LEN <= 65515);
		FUZZ_CHECK((fragment & 0x2000) == 0 || (len - IP_LEN) % 8 == 0);
		return;
	}
	len -= IP_LEN;
	FUZZ_CHECK(len >= UDP_LEN && xk_get16(p + IP_LEN + 4) == len && xk_get16(p + IP_LEN + 6) != 0);
	FUZZ_CHECK(xk_sum_fold(fuzz_udp_sum(p, p + IP_LEN, len)) == 0xffff);
}

static void
frames_check_arp(const uint8_t *p, size_t len)
{
	FUZZ_CHECK(len == ARP_LEN && xk_get32(p) == 0x00010800 && xk_get16(p + 4) == 0x0604);
	FUZZ_CHECK(xk_get16(p + 6) == 1 || xk_get16(p + 6) == 2);
	FUZZ_CHECK(xk_get48(p + 8) == FUZZ_LINK && xk_get32(p + 14) == FUZZ_HOST);
}

static void
frames_check_sent(const struct xk_msg *m)
{
	uint8_t frame[ETH_LEN + FUZZ_MTU];
	size_t len = xk_msg_len(m);

	FUZZ_CHECK(len >= ETH_LEN && len <= sizeof(frame));
	FUZZ_CHECK(xk_msg_copy_out(m, 0, frame, len));
	FUZZ_CHECK(xk_get48(frame + 6) == FUZZ_LINK);
	FUZZ_CHECK((frame[0] & 1) == 0 || xk_get48(frame) == UINT64_C(0xffffffffffff));
	switch (xk_get16(frame + 12)) {
	case 0x0800:
		frames_check_ip(frame + ETH_LEN, len - ETH_LEN);
		break;
	case 0x0806:
		frames_check_arp(frame + ETH_LEN, len - ETH_LEN);
		break;
	default:
		FUZZ_CHECK(xk_get16(frame + 12) == FRAMES_STATION);
	}
}

/* ---- properties ---- */

static unsigned
frames_counter(const struct xk_protocol *p, const char *name)
{
	unsigned i = 0;

	while (strcmp(p->type->counters[i], name) != 0)
		i++;
	return i;
}

static void
frames_add_ending(struct frames *f, const _Atomic uint64_t *count)
{
	FUZZ_CHECK(f->ending_count < FRAMES_ENDINGS);
	f->endings[f->ending_count++] = count;
}

/* Of all lanes: there is one driver. */
static void
frames_add_ending_counter(struct frames *f, const struct xk_protocol *p, const char *name)
{
	frames_add_ending(f, &p->counts[0][XK_COUNT_OWN + frames_counter(p, name)]);
	frames_add_ending(f, &p->counts[1][XK_COUNT_OWN + frames_counter(p, name)]);
}

/* Returns true if this drop is of a message on send, or one that waits for ARP. */
static bool
frames_is_of_sending(const struct frames *f, const struct xk_protocol *p, const char *name)
{
	static const char *const of_ip[] = { "no_buffer", "too_big", "unsent", NULL };
	static const char *const of_arp[] = { "no_buffer", "queue_full", "unresolved", "table_full", NULL };
	static const char *const of_others[] = { "no_buffer", "too_big", NULL };
	const char *const *names = p == &f->ip->protocol ? of_ip : p == f->arp ? of_arp : of_others;

	if (p == f->wire)
		return true;
	while (*names != NULL && strcmp(*names, name) != 0)
		names++;
	return *names != NULL;
}

/* Looks up once what is summed often. */
static void
frames_find_endings(struct frames *f)
{
	f->ending_count = 0;
	frames_add_ending_counter(f, f->arp, "requests_in");
	frames_add_ending_counter(f, f->arp, "replies_in");
	frames_add_ending_counter(f, f->arp, "others");
	frames_add_ending_counter(f, f->udptest, "messages");
	frames_add_ending_counter(f, f->user, "delivered");
	frames_add_ending_counter(f, f->station, "delivered");
	for (struct xk_protocol *p = xk_kernel_first(f->kernel); p != NULL; p = p->next)
		for (unsigned i = 1; i < xk_drop_count(p->type); i++)
			if (!frames_is_of_sending(f, p, xk_drop_name(p->type, i)))
				frames_add_ending(f, &p->drops[i]);
}

/* Returns the number of frames that have ended or wait in the reassembler. */
static uint64_t
frames_done(const struct frames *f)
{
	uint64_t done = waiting_fragments(&f->ip->reassembly);

	for (unsigned i = 0; i < f->ending_count; i++)
		done += atomic_load_explicit(f->endings[i], memory_order_relaxed);
	return done;
}

/* frame: one has arrived since the last check. */
static void
frames_check_conserved(struct frames *f, bool frame)
{
	uint64_t done = frames_done(f);
	uint64_t reassembled = xk_counter(&f->ip->protocol, frames_counter(&f->ip->protocol, "reassembled"));
	int64_t more = (int64_t)(done - f->done);

	if (reassembled == f->reassembled) {
		FUZZ_CHECK(more == frame);
	} else {
		/* k fragments, stored or just received, end as one */
		FUZZ_CHECK(frame && reassembled == f->reassembled + 1);
		FUZZ_CHECK(more <= 0 && more >= 2 - FRAMES_IP_DATAGRAM_FRAGMENTS);
	}
	f->done = done;
	f->reassembled = reassembled;
}

/*
 * A session in use is not evicted: each layer keeps at most its own, those of the layer above, and those of the slots.
 */
static void
frames_check_bounds(const struct frames *f)
{
	const struct xk_protocol *layers[] = { f->udp, &f->ip->protocol, f->vnet, f->eth };
	unsigned kept = 0;

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(layers); i++) {
		kept += FRAMES_SESSIONS + FUZZ_SLOTS;
		FUZZ_CHECK(layers[i]->cache_count <= kept);
	}
	FUZZ_CHECK(waiting_fragments(&f->ip->reassembly) <= FRAMES_IP_FRAGMENTS);
	FUZZ_CHECK(f->platform->ops->buffers_out(f->platform) <=
		   2 * waiting_fragments(&f->ip->reassembly) + 2 * FRAMES_ARP_ENTRIES * FRAMES_ARP_QUEUE);
	FUZZ_CHECK(f->limited || xk_counter(f->udptest, frames_counter(f->udptest, "unsent")) == 0);
}

static void
frames_run(struct frames *f, uint64_t ms, bool frame)
{
	uint64_t now_ns = f->platform->ops->now_ns(f->platform);
	struct xk_msg *m;

	xk_memory_run_until(f->platform, now_ns + ms * 1000000);
	xk_kernel_run(f->kernel);
	while ((m = xk_memory_take(f->port)) != NULL) {
		frames_check_sent(m);
		xk_msg_free(m);
	}
	frames_check_conserved(f, frame);
	frames_check_bounds(f);
}

/* ---- records: frames ---- */

static struct xk_msg *
frames_message(struct frames *f, const uint8_t *bytes, size_t len)
{
	struct xk_msg *m = xk_memory_frame(f->platform, len);

	FUZZ_CHECK(m != NULL);
	if (len > 0)
		memcpy(m->data, bytes, len);
	return m;
}

/* Makes a message of two segments, split in the headers. These are pulled up, so buffers are not limited as well. */
static struct xk_msg *
frames_split(struct frames *f, const uint8_t *bytes, size_t len, unsigned where)
{
	size_t cut = where * 3 + 1;
	struct xk_msg *m;

	if (cut > len)
		cut = len;
	m = frames_message(f, bytes, cut);
	xk_msg_join(m, frames_message(f, bytes + cut, len - cut));
	return m;
}

static void
frames_frame(struct frames *f, unsigned flags, unsigned argument)
{
	uint8_t bytes[FUZZ_FRAME_MAX];
	size_t len = fuzz_u16(&f->input) & FUZZ_FRAME_MAX;
	struct xk_msg *m;

	len = fuzz_bytes(&f->input, bytes, len);
	if (flags & (FUZZ_FIX_IP | FUZZ_FIX_UDP))
		fuzz_fix_checksums(bytes, len, (flags & FUZZ_FIX_UDP) != 0);
	m = flags & FUZZ_SPLIT ? frames_split(f, bytes, len, argument) : frames_message(f, bytes, len);
	if (!(flags & FUZZ_SPLIT) && argument > 0) {
		xk_memory_platform_limit(f->platform, f->platform->ops->buffers_out(f->platform) + argument - 1);
		f->limited = true;
	}
	FUZZ_CHECK(xk_memory_inject(f->port, m));
	frames_run(f, 0, true);
	xk_memory_platform_limit(f->platform, UINT_MAX);
}

/* ---- records: uppers ---- */

/* Returns the host of a slot's session: mostly a peer, or a missing one; the last of 32 are of other kinds. */
static uint32_t
slot_host(const struct slot *slot)
{
	static const uint32_t others[] = { 0, 0x7f000001, 0xe0000001, 0x0a4d0000, FUZZ_HOST, 0x0a4d00ff, 0x0a630001 };
	unsigned index = slot->peer % 32, peers = 32 - XK_ARRAY_LENGTH(others);

	return index < peers ? FUZZ_PEER_HOST + index : others[index - peers];
}

static void
slot_open(void *argument)
{
	struct slot *slot = argument;
	struct frames *f = slot->f;
	struct xk_participants participants = { .remote.depth = 0 };
	struct xk_protocol *hlp = slot->lazy ? f->station : f->user;

	xk_participant_push(&participants.remote, slot_host(slot));
	if (slot->lazy)
		xk_participant_push(&participants.local, XK_VNET_LAZY);
	else
		xk_participant_push(&participants.remote, 7000 + slot->peer / 128);
	if (!slot->lazy && slot->peer & 64)
		xk_participant_push(&participants.local, 7000 + slot->peer / 32 % 2);
	if (xk_open(hlp, hlp, xk_lower(hlp, 0), &participants, &slot->session) != 0)
		slot->session = NULL;
	slot->busy = false;
}

static void
slot_close(void *argument)
{
	struct slot *slot = argument;

	xk_close(slot->session);
	slot->session = NULL;
	slot->busy = false;
}

static void
slot_push(void *argument)
{
	struct slot *slot = argument;
	struct xk_msg *m = xk_msg_new(slot->f->platform, slot->len);

	for (struct xk_msg *part = m; part != NULL; part = part->next)
		memset(part->data, 'x', part->len);
	if (m != NULL)
		xk_push(slot->session, m);
	slot->busy = false;
}

/* Lets a shepherd of its own act on the slot. */
static void
slot_act(struct slot *slot, void (*act)(void *argument))
{
	slot->busy = true;
	if (xk_thread_start(slot->f->kernel, "slot", act, slot) != 0)
		slot->busy = false;
	frames_run(slot->f, 0, false);
}

static void
frames_open(struct frames *f, struct slot *slot, bool lazy)
{
	unsigned peer = fuzz_u8(&f->input);

	if (slot->busy || slot->session != NULL)
		return;
	slot->peer = peer;
	slot->lazy = lazy;
	slot_act(slot, slot_open);
}

static void
frames_push(struct frames *f, struct slot *slot)
{
	size_t len = fuzz_u16(&f->input);

	if (slot->busy || slot->session == NULL)
		return;
	slot->len = slot->lazy ? len % FUZZ_MTU : len;
	slot_act(slot, slot_push);
}

static void
frames_close(struct slot *slot)
{
	if (!slot->busy && slot->session != NULL)
		slot_act(slot, slot_close);
}

static void
frames_do_serve(void *argument)
{
	struct frames *f = argument;
	struct xk_participants participants = { .remote.depth = 0 };
	int status;

	xk_participant_push(&participants.local, FUZZ_PORT);
	if (f->serves)
		status = xk_open_enable(f->udptest, f->udptest, f->udp, &participants);
	else
		status = xk_open_disable(f->udptest, f->udptest, f->udp, &participants);
	FUZZ_CHECK(status == 0);
}

static void
frames_serve(struct frames *f, bool serves)
{
	if (f->serves == serves)
		return;
	f->serves = serves;
	if (xk_thread_start(f->kernel, "serve", frames_do_serve, f) != 0)
		f->serves = !serves;
	frames_run(f, 0, false);
}

static void
frames_record(struct frames *f)
{
	unsigned byte = fuzz_u8(&f->input), what = byte & 0xf, argument = byte >> 4;
	struct slot *slot = &f->slots[argument % FUZZ_SLOTS];

	switch (what) {
	case FUZZ_TIME:
		frames_run(f, UINT64_C(1) << argument, false);
		break;
	case FUZZ_OPEN:
	case FUZZ_LAZY:
		frames_open(f, slot, what == FUZZ_LAZY);
		break;
	case FUZZ_CLOSE:
		frames_close(slot);
		break;
	case FUZZ_PUSH:
		frames_push(f, slot);
		break;
	case FUZZ_SERVE:
		frames_serve(f, argument & 1);
		break;
	default:
		frames_frame(f, what & 7, argument);
	}
}

/* ---- the end ---- */

static void
frames_do_uncache(void *argument)
{
	const struct frames *f = argument;
	struct xk_protocol *layers[] = { f->udp, &f->ip->protocol, f->vnet, f->eth };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(layers); i++)
		xk_session_uncache(layers[i], NULL, NULL);
}

static void
frames_end(struct frames *f)
{
	struct xk_kernel_stats stats;

	frames_run(f, 100000, false);
	FUZZ_CHECK(f->platform->ops->buffers_out(f->platform) == 0);
	for (unsigned i = 0; i < FUZZ_SLOTS; i++) {
		FUZZ_CHECK(!f->slots[i].busy);
		frames_close(&f->slots[i]);
		FUZZ_CHECK(f->slots[i].session == NULL);
	}
	FUZZ_CHECK(xk_thread_start(f->kernel, "end", frames_do_uncache, f) == 0);
	frames_run(f, 0, false);
	xk_kernel_stats(f->kernel, &stats);
	FUZZ_CHECK(stats.stacks_parked == 0);
	FUZZ_CHECK(xk_map_count(&f->ip->protocol.table.sessions) == 0);
	FUZZ_CHECK(frames_references(f) == f->baseline);
	xk_kernel_free(f->kernel);
	FUZZ_CHECK(f->platform->ops->buffers_out(f->platform) == 0);
	xk_memory_platform_free(f->platform);
}

static void *
frames_main(void *argument)
{
	struct frames *f = argument;

	frames_begin(f, fuzz_u8(&f->input) % FUZZ_POLICIES);
	frames_find_endings(f);
	f->done = frames_done(f);
	for (unsigned i = 0; i < FRAMES_RECORDS && f->input.left > 0; i++)
		frames_record(f);
	frames_end(f);
	return NULL;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frames f = { .input = { data, size } };

	fuzz_on_thread(frames_main, &f);
	return 0;
}
