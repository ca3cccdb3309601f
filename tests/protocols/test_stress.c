/*
 * test_stress.c - the whole UDP graph under threads and a random load: many peers, fragments in any order with losses
 * and duplicates, sessions that are replaced all the time, uppers that open and close sessions to peers that answer ARP
 * or do not, ports enabled and disabled, and buffers that run out now and then.
 *
 * The checks do not depend on the threads' timing:
 * - each frame that arrived has ended once: dropped by name, accepted by ARP, delivered, reassembled with others, or
 *   waiting to be;
 * - each delivered datagram came back unchanged, or was counted as unsent;
 * - nothing is left.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <time.h>

#include "platform/sim/memory.h"
#include "protocols/ip/ip_private.h"
#include "protocols/test/udptest.h"
#include "tests/compose.h"
#include "tests/protocols/discarded.h"

#ifdef __SANITIZE_THREAD__
#define STRESS_DATAGRAMS (test_is_long() ? 3000u : 1000u)
#else
#define STRESS_DATAGRAMS (test_is_long() ? 20000u : 8000u)
#endif

enum {
	STRESS_PEERS = 40,
	STRESS_PIECES = 4, /* fragments of each datagram that is cut, so that reassembled ones can be counted */
	STRESS_WINDOW = 64,
	STRESS_AHEAD = 600,  /* frames that may wait at the port */
	STRESS_NAPS = 60000, /* a bound for hangs, not for slow machines */
	STRESS_LOADS = 2000, /* likewise */
	STRESS_SAME = 20,    /* naps without a change after which a count is final */
	STRESS_OPENERS = 3,
	STRESS_MTU = 600,
	STRESS_MAX = 4 * 540,
	STRESS_FRAME_MAX = 14 + STRESS_MTU,
	STRESS_HEADERS = 14 + 20 + 8,
	STRESS_PORT = 40000, /* the peers' */
	STRESS_HOST = 0x0a4d0002,
	STRESS_FIRST_PEER = 0x0a4d0010,
};

#define STRESS_LINK UINT64_C(0x020000000001)
#define STRESS_PEER_LINK UINT64_C(0x020000000100)

#define STRESS_GRAPH                                                                                                   \
	"digraph stress { edge [%s]; udptest -> udp; opener -> udp; udp -> ip -> vnet -> eth; vnet -> arp -> eth;"     \
	"eth -> port; udp [sessions=4, seed=1%s]; vnet [sessions=4, address=\"10.77.0.2/24\"]; eth [sessions=4];"      \
	"ip [sessions=4, seed=2, reassembly_timeout=\"200ms\", reassembly_datagrams=64,"                               \
	"reassembly_bytes=348160];"                                                                                    \
	"arp [entries=8, age=\"30ms\", timeout=\"%s\", tries=2] }"

struct frame {
	uint32_t len;
	uint8_t bytes[STRESS_FRAME_MAX];
};

/* An echo in fragments, with its identification and the server's bytes. */
struct echo {
	uint16_t id;
	bool taken;
	uint32_t got, end;
	uint32_t peer;
	uint8_t bytes[STRESS_MAX + 8];
};

enum { STRESS_ECHOES = 1 << 12 };

struct stress {
	struct xk_platform *platform;
	struct xk_kernel *kernel;
	struct xk_port *port;
	struct xk_protocol *udptest, *opener, *udp, *arp;
	struct ip *ip;
	uint32_t baseline;
	uint64_t random;
	unsigned peers;   /* number that send: few of them have paths */
	bool marks_edges; /* marks edges now and then, which voids all paths */
	/* to the host */
	struct frame window[STRESS_WINDOW];
	unsigned waiting, made, injected;
	/* from it */
	struct echo *echoes;
	unsigned echoed, cut_echoed;
	/* the uppers */
	_Atomic bool ends;
	_Atomic unsigned finished, opens;
};

static unsigned
draw(struct stress *t, unsigned below)
{
	t->random = t->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)((t->random >> 33) % below);
}

/* ---- datagrams ---- */

/* Bytes and length of a datagram follow from its number. */
static uint32_t
datagram_size(uint32_t number)
{
	return number % 2 == 0 ? 4 + number * 7 % 540 : 600 + number * 13 % (STRESS_MAX - 600);
}

static void
datagram_fill(uint8_t *p, uint32_t number)
{
	uint32_t x = number * UINT32_C(2654435761);

	xk_put32(p, number);
	for (uint32_t i = 4; i < datagram_size(number); i++) {
		x = x * 1664525 + 1013904223;
		p[i] = (uint8_t)(x >> 24);
	}
}

/* ---- frames from peers ---- */

static void
frame_eth(struct frame *f, uint64_t destination, uint64_t source, unsigned type)
{
	xk_put48(f->bytes, destination);
	xk_put48(f->bytes + 6, source);
	xk_put16(f->bytes + 12, (uint16_t)type);
}

/* Makes a frame from peer of bytes [start, end) of the datagram at udp. */
static void
frame_ip(struct frame *f, unsigned peer, unsigned id, const uint8_t *udp, uint32_t start, uint32_t end, bool more)
{
	uint8_t *p = f->bytes + 14;
	const struct ip_header h = { .version = 4,
				     .header_length = IP_HEADER_LEN / 4,
				     .length = (uint16_t)(IP_HEADER_LEN + end - start),
				     .identification = (uint16_t)id,
				     .flags = more ? IP_FLAG_MORE : 0,
				     .offset = (uint16_t)(start / 8),
				     .ttl = 64,
				     .protocol = 17,
				     .source = STRESS_FIRST_PEER + peer,
				     .destination = STRESS_HOST };

	frame_eth(f, STRESS_LINK, STRESS_PEER_LINK + peer, 0x0800);
	ip_store(p, &h);
	xk_checksum_store(p + XK_OFFSET(ip, checksum), xk_checksum_finish(xk_header_sum(p, IP_HEADER_LEN)));
	memcpy(p + IP_HEADER_LEN, udp + start, end - start);
	f->len = 14 + IP_HEADER_LEN + end - start;
}

static void
datagram_udp(uint8_t *udp, unsigned peer, uint32_t number)
{
	uint32_t len = 8 + datagram_size(number);
	uint8_t pseudo[12] = { [9] = 17 };

	xk_put16(udp, (uint16_t)(STRESS_PORT + number / STRESS_PEERS % 2));
	xk_put16(udp + 2, XK_UDPTEST_PORT);
	xk_put16(udp + 4, (uint16_t)len);
	xk_put16(udp + 6, 0);
	datagram_fill(udp + 8, number);
	xk_put32(pseudo, STRESS_FIRST_PEER + peer);
	xk_put32(pseudo + 4, STRESS_HOST);
	xk_put16(pseudo + 10, (uint16_t)len);
	xk_checksum_store(udp + 6, xk_checksum_finish(xk_sum(xk_sum(0, pseudo, sizeof(pseudo)), udp, len)));
}

static void stress_push_out(struct stress *t);

/* Puts a frame into the window, from which frames leave in any order; some are lost, some duplicated. */
static void
stress_put(struct stress *t, const struct frame *f)
{
	unsigned copies = draw(t, 20) == 0 ? 0 : draw(t, 20) == 0 ? 2 : 1;

	while (copies-- > 0) {
		while (t->waiting == STRESS_WINDOW)
			stress_push_out(t);
		t->window[t->waiting++] = *f;
	}
}

static void
stress_put_datagram(struct stress *t, uint32_t number)
{
	uint8_t udp[STRESS_MAX + 8];
	unsigned peer = number % t->peers;
	uint32_t len = 8 + datagram_size(number), piece = len / STRESS_PIECES / 8 * 8, at = 0;
	struct frame f;

	datagram_udp(udp, peer, number);
	if (number % 2 == 0) {
		frame_ip(&f, peer, number, udp, 0, len, false);
		stress_put(t, &f);
		return;
	}
	for (unsigned i = 0; i < STRESS_PIECES; i++, at += piece) {
		bool last = i == STRESS_PIECES - 1;

		frame_ip(&f, peer, number, udp, at, last ? len : at + piece, !last);
		stress_put(t, &f);
	}
}

/* Puts a peer's ARP packet: a request for the host, or an answer to it. */
static void
stress_put_arp(struct stress *t, unsigned peer, unsigned operation)
{
	struct frame f = { .len = 60 };
	uint8_t *p = f.bytes + 14;

	frame_eth(&f, operation == 1 ? UINT64_C(0xffffffffffff) : STRESS_LINK, STRESS_PEER_LINK + peer, 0x0806);
	xk_put32(p, 0x00010800);
	xk_put16(p + 4, 0x0604);
	xk_put16(p + 6, (uint16_t)operation);
	xk_put48(p + 8, STRESS_PEER_LINK + peer);
	xk_put32(p + 14, STRESS_FIRST_PEER + peer);
	xk_put48(p + 18, operation == 1 ? 0 : STRESS_LINK);
	xk_put32(p + 24, STRESS_HOST);
	stress_put(t, &f);
}

/* ---- frames to peers ---- */

/* Checks a whole echo: it must be the datagram sent, to the peer that sent it. */
static void
stress_echo(struct stress *t, unsigned peer, const uint8_t *udp, uint32_t len)
{
	uint8_t expected[STRESS_MAX];
	uint32_t number = len < 12 ? UINT32_MAX : xk_get32(udp + 8);

	t->echoed++;
	CHECK(number < t->made && number % t->peers == peer && len == 8 + datagram_size(number));
	if (number >= t->made || len != 8 + datagram_size(number))
		return;
	datagram_fill(expected, number);
	CHECK(memcmp(udp + 8, expected, len - 8) == 0);
	CHECK_EQ(xk_get16(udp + 2), STRESS_PORT + number / STRESS_PEERS % 2);
}

/* Returns the echo to peer that gathers these fragments; identifications are each session's own. */
static struct echo *
stress_echo_of(struct stress *t, uint32_t peer, uint16_t id)
{
	struct echo *unused = NULL;

	for (unsigned i = 0; i < STRESS_ECHOES; i++) {
		struct echo *e = &t->echoes[i];

		if (e->taken && e->id == id && e->peer == peer)
			return e;
		if (!e->taken && unused == NULL)
			unused = e;
	}
	if (unused == NULL) /* some lost fragments and stay incomplete: reuses what is most likely one of those */
		unused = &t->echoes[id / 2 % STRESS_ECHOES];
	*unused = (struct echo){ .id = id, .taken = true, .peer = peer };
	return unused;
}

/* Takes a fragment of an echo. The server sends each once, in the order of its threads. */
static void
stress_receive_fragment(struct stress *t, const uint8_t *ip, uint32_t len)
{
	uint16_t id = XK_GET(ip, identification, ip), fragment = xk_get16(ip + IP_FRAGMENT);
	struct echo *e = stress_echo_of(t, XK_GET(ip, destination, ip), id);
	uint32_t start = (uint32_t)(fragment & IP_OFFSET) * 8;

	CHECK(start + len <= sizeof(e->bytes));
	if (start + len > sizeof(e->bytes))
		return;
	memcpy(e->bytes + start, ip + IP_HEADER_LEN, len);
	e->got += len;
	if ((fragment & IP_MORE) == 0)
		e->end = start + len;
	if (e->end == 0 || e->got != e->end)
		return;
	e->taken = false;
	t->cut_echoed++;
	stress_echo(t, e->peer - STRESS_FIRST_PEER, e->bytes, e->end);
}

static void
stress_receive_ip(struct stress *t, const uint8_t *ip, uint32_t len)
{
	uint16_t fragment = xk_get16(ip + IP_FRAGMENT);

	CHECK(len >= IP_HEADER_LEN && XK_GET(ip, length, ip) == len &&
	      xk_sum_is_intact(xk_header_sum(ip, IP_HEADER_LEN)));
	len -= IP_HEADER_LEN;
	if (fragment != 0)
		stress_receive_fragment(t, ip, len);
	else if (xk_get16(ip + IP_HEADER_LEN) == XK_UDPTEST_PORT)
		stress_echo(t, XK_GET(ip, destination, ip) - STRESS_FIRST_PEER, ip + IP_HEADER_LEN, len);
}

/* Answers ARP for two of three peers, mostly. */
static void
stress_receive_arp(struct stress *t, const uint8_t *p)
{
	uint32_t peer = xk_get32(p + 24) - STRESS_FIRST_PEER;

	if (xk_get16(p + 6) == 1 && peer < STRESS_PEERS && peer % 3 != 0 && t->waiting < STRESS_WINDOW - 1)
		stress_put_arp(t, peer, 2);
}

static void
stress_receive(struct stress *t)
{
	uint8_t frame[STRESS_FRAME_MAX];
	struct xk_msg *m;

	while ((m = xk_memory_take(t->port)) != NULL) {
		uint32_t len = (uint32_t)xk_msg_len(m);

		CHECK(len <= sizeof(frame) && xk_msg_copy_out(m, 0, frame, len));
		xk_msg_free(m);
		if (xk_get16(frame + 12) == 0x0800)
			stress_receive_ip(t, frame + 14, len - 14);
		else
			stress_receive_arp(t, frame + 14);
	}
}

static unsigned
stress_frames(struct stress *t)
{
	return (unsigned)atomic_load_explicit(&t->port->frames_in, memory_order_relaxed);
}

static void
stress_nap(void)
{
	static const struct timespec nap = { 0, 1000000 };

	nanosleep(&nap, NULL);
}

/* Injects a frame of the window, chosen at random. Without a buffer it is lost. */
static void
stress_push_out(struct stress *t)
{
	struct frame *f = &t->window[draw(t, t->waiting)];
	struct xk_msg *m = xk_memory_frame(t->platform, f->len);

	if (m != NULL) {
		memcpy(m->data, f->bytes, f->len);
		t->injected += xk_memory_inject(t->port, m);
	}
	*f = t->window[--t->waiting];
	stress_receive(t);
	for (unsigned naps = 0; t->injected > STRESS_AHEAD + stress_frames(t) && naps < STRESS_NAPS; naps++)
		stress_nap();
}

/* ---- uppers ---- */

struct opener {
	struct xk_protocol protocol;
	struct stress *stress;
};

static void
opener_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	xk_drop(self, m, XK_DROP_NO_SESSION);
}

COMPOSE_UPPER(opener, struct opener, XK_ASYNC, .demux = opener_demux);

/* Opens and closes a session; nobody waits for an answer. Strangers open and evict the lower session meanwhile. */
static void
opener_open(struct stress *t, unsigned i)
{
	struct xk_protocol *self = t->opener;
	unsigned peer = t->peers < STRESS_PEERS ? t->peers + i % (STRESS_PEERS - t->peers) : i % STRESS_PEERS;
	struct xk_participants to = { .remote = { 2, { STRESS_FIRST_PEER + peer, 9 } } };
	struct xk_session *s;
	struct xk_msg *m;

	if (xk_open(self, self, t->udp, &to, &s) != 0)
		return;
	atomic_fetch_add_explicit(&t->opens, 1, memory_order_relaxed);
	m = xk_msg_new(t->platform, 100);
	if (m != NULL) {
		memset(m->data, 0, 100);
		xk_push(s, m);
	}
	xk_close(s);
}

/* Opens until the end, or until one of the openers has succeeded: on a busy machine they may be late. */
static void
opener_main(void *argument)
{
	struct stress *t = argument;

	for (unsigned i = 0; !atomic_load(&t->ends) || atomic_load(&t->opens) == 0; i++) {
		opener_open(t, i * 7);
		xk_checkpoint(t->opener);
		if (i % 8 == 0)
			xk_delay(t->opener, 1000);
	}
	atomic_fetch_add_explicit(&t->finished, 1, memory_order_release);
}

/* Closes the server's port to strangers now and then, with all sessions that they opened. */
static void
disabler_main(void *argument)
{
	struct stress *t = argument;

	for (unsigned i = 0; !atomic_load_explicit(&t->ends, memory_order_acquire); i++) {
		struct xk_participants port = { .local = { 1, { XK_UDPTEST_PORT } } }, again = port;

		xk_delay(t->udptest, 20000);
		if (t->marks_edges && i % 16 >= 14)
			xk_kernel_count_edges(t->kernel, i % 16 == 14);
		if (t->marks_edges && i % 16 != 7)
			continue;
		CHECK_EQ(xk_open_disable(t->udptest, t->udptest, t->udp, &port), 0);
		CHECK_EQ(xk_open_enable(t->udptest, t->udptest, t->udp, &again), 0);
	}
	if (t->marks_edges)
		xk_kernel_count_edges(t->kernel, false);
	atomic_fetch_add_explicit(&t->finished, 1, memory_order_release);
}

/* ---- the run ---- */

static void
stress_build(struct stress *t, const char *marks, const char *order)
{
	char text[1024];

	/* Paths come and go only if answers to ARP arrive in time, however slow the machine. */
	snprintf(text, sizeof(text), STRESS_GRAPH, marks, order, t->marks_edges ? "1s" : "10ms");
	compose(t->kernel, &opener_type, text);
}

static struct stress *
stress_begin(enum xk_mode mode, const char *marks, const char *order, unsigned peers)
{
	struct xk_kernel_config config = { .name = "stress", .mode = mode, .threads = 4, .stacks = 24, .core = -1 };
	struct stress *t = calloc(1, sizeof(*t));
	struct xk_protocol *failed;

	REQUIRE(t != NULL);
	config.driver = XK_DRIVER_INTERRUPT;
	t->random = 1;
	t->peers = peers;
	t->marks_edges = peers < STRESS_PEERS;
	t->echoes = calloc(STRESS_ECHOES, sizeof(*t->echoes));
	t->platform = config.platform = xk_memory_platform_new(XK_MEMORY_REAL);
	t->kernel = xk_kernel_new(&config);
	t->port = xk_memory_port_new(t->platform, "port", STRESS_LINK, STRESS_MTU);
	REQUIRE(t->echoes != NULL && t->kernel != NULL && t->port != NULL);
	xk_kernel_add_port(t->kernel, t->port);
	stress_build(t, marks, order);
	REQUIRE(xk_kernel_init(t->kernel, &failed) == 0);
	t->udptest = xk_kernel_find(t->kernel, "udptest");
	t->opener = xk_kernel_find(t->kernel, "opener");
	t->udp = xk_kernel_find(t->kernel, "udp");
	t->arp = xk_kernel_find(t->kernel, "arp");
	t->ip = (struct ip *)xk_kernel_find(t->kernel, "ip");
	t->baseline = atomic_load_explicit(&t->port->receiver->references, memory_order_relaxed);
	REQUIRE(xk_kernel_start(t->kernel) == 0);
	for (unsigned i = 0; i < STRESS_OPENERS; i++)
		CHECK_EQ(xk_thread_start(t->kernel, "opener", opener_main, t), 0);
	CHECK_EQ(xk_thread_start(t->kernel, "disabler", disabler_main, t), 0);
	return t;
}

/* Sends datagrams with each `step`-th number; with step 2 none is cut. */
static void
stress_load(struct stress *t, uint32_t numbers, uint32_t step)
{
	for (uint32_t number = t->made, end = number + numbers; number < end; number += step) {
		unsigned out = t->platform->ops->buffers_out(t->platform);

		if (number % 100 == 90)
			xk_memory_platform_limit(t->platform, out + draw(t, 8));
		else if (number % 100 == 0)
			xk_memory_platform_limit(t->platform, UINT_MAX);
		if (number % 16 == 0)
			stress_put_arp(t, draw(t, STRESS_PEERS), 1 + draw(t, 2));
		t->made = number + step;
		stress_put_datagram(t, number);
	}
	xk_memory_platform_limit(t->platform, UINT_MAX);
	while (t->waiting > 0)
		stress_push_out(t);
}

/* Waits until the uppers have ended and every frame sent has been received. */
static void
stress_wait(struct stress *t)
{
	unsigned naps = 0;

	atomic_store_explicit(&t->ends, true, memory_order_release);
	while ((stress_frames(t) != t->injected || atomic_load(&t->finished) != STRESS_OPENERS + 1) &&
	       naps++ < STRESS_NAPS) {
		stress_nap();
		stress_receive(t);
		while (t->waiting > 0)
			stress_push_out(t);
	}
	CHECK_EQ(stress_frames(t), t->injected);
	CHECK_EQ(atomic_load(&t->finished), STRESS_OPENERS + 1);
}

static void
stress_settle(struct stress *t)
{
	stress_wait(t);
	xk_kernel_stop(t->kernel);
	stress_receive(t);
}

/*
 * Returns how many frames took paths, once that is stable. Counted as frames received less those that went layer by
 * layer: a frame that a thread has just received makes it too high for a moment.
 */
static uint64_t
stress_by_path(const struct stress *t)
{
	struct xk_kernel_stats stats;
	uint64_t count = 0;

	for (unsigned same = 0; same < STRESS_SAME; same++) {
		xk_kernel_stats(t->kernel, &stats);
		if (stats.by_path != count)
			same = 0;
		count = stats.by_path;
		stress_nap();
	}
	return count;
}

static uint64_t
stress_count(const struct xk_protocol *p, const char *name)
{
	long count = compose_count_of(p, name);

	REQUIRE(count >= 0);
	return (uint64_t)count;
}

/* Returns the drops on send and while waiting for ARP; no other drops here have these names. */
static uint64_t
stress_drops_of_sending(const struct stress *t, const struct xk_protocol *p)
{
	const struct xk_protocol *ip = &t->ip->protocol;

	if (strcmp(p->type->name, "port") == 0)
		return stress_count(p, "tx_full") + stress_count(p, "too_long");
	if (p == t->arp)
		return stress_count(p, "no_buffer") + stress_count(p, "unresolved") + stress_count(p, "queue_full") +
		       stress_count(p, "table_full");
	return stress_count(p, "no_buffer") + (p == ip ? stress_count(p, "unsent") + stress_count(p, "too_big") : 0);
}

static uint64_t
stress_drops_of_receiving(const struct stress *t)
{
	uint64_t drops = 0;

	for (struct xk_protocol *p = xk_kernel_first(t->kernel); p != NULL; p = p->next) {
		for (unsigned i = 1; i < xk_drop_count(p->type); i++)
			drops += atomic_load_explicit(&p->drops[i], memory_order_relaxed);
		drops -= stress_drops_of_sending(t, p);
	}
	return drops;
}

/* Prints the counts, to find out where a frame is missing. */
static void
stress_print(const struct stress *t)
{
	for (struct xk_protocol *p = xk_kernel_first(t->kernel); p != NULL; p = p->next)
		for (unsigned i = 1; i < xk_drop_count(p->type); i++)
			if (atomic_load_explicit(&p->drops[i], memory_order_relaxed) != 0)
				printf("%s.%s %llu\n", p->name, xk_drop_name(p->type, i),
				       (unsigned long long)atomic_load_explicit(&p->drops[i], memory_order_relaxed));
}

static void
stress_check_account(struct stress *t)
{
	const struct xk_protocol *ip = &t->ip->protocol;
	uint64_t arp = stress_count(t->arp, "requests_in") + stress_count(t->arp, "replies_in") +
		       stress_count(t->arp, "others");
	uint64_t joined = stress_count(ip, "reassembled") * (STRESS_PIECES - 1);
	uint64_t messages = stress_count(t->udptest, "messages");

	CHECK_EQ(stress_drops_of_receiving(t) + arp + joined + messages + waiting_fragments(&t->ip->reassembly),
		 t->injected);
	if (t->echoed + stress_count(t->udptest, "unsent") != messages)
		stress_print(t);
	CHECK_EQ(t->echoed + stress_count(t->udptest, "unsent"), messages);
	CHECK_EQ(stress_count(t->udp, "no_memory") + stress_count(ip, "no_memory"),
		 0); /* buffers may be short, memory may not */
	/* the load was as intended */
	CHECK(t->echoed > STRESS_DATAGRAMS / 4 && t->cut_echoed > 0);
	CHECK(atomic_load(&t->opens) > 0);
	CHECK(stress_count(ip, "duplicate") + stress_count(ip, "evicted") + stress_count(ip, "timed_out") > 0);
}

/* Closes strangers' sessions, the uppers' first; then nothing may use the port but what init opened. */
static void
stress_end(struct stress *t)
{
	static const char *const layers[] = { "udp", "ip", "vnet", "eth" };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(layers); i++)
		xk_session_uncache(xk_kernel_find(t->kernel, layers[i]), NULL, NULL);
	CHECK_EQ(xk_map_count(&t->ip->protocol.table.sessions), 0);
	CHECK_EQ(atomic_load_explicit(&t->port->receiver->references, memory_order_relaxed), t->baseline);
	xk_kernel_free(t->kernel);
	CHECK_EQ(t->platform->ops->buffers_out(t->platform), 0);
	xk_memory_platform_free(t->platform);
	free(t->echoes);
	free(t);
}

static void
stress(enum xk_mode mode, const char *marks, const char *order)
{
	struct stress *t = stress_begin(mode, marks, order, STRESS_PEERS);

	stress_load(t, STRESS_DATAGRAMS, 1);
	stress_settle(t);
	stress_check_account(t);
	stress_end(t);
}

TEST_OF(four_input_threads_account_for_every_frame, stress(XK_REGULAR, "", ""));
TEST_OF(handoffs_on_every_edge_account_for_every_frame, stress(XK_IPP, "handoff=explicit", ""));
TEST_OF(handoffs_in_order_account_for_every_frame, stress(XK_IPP, "handoff=explicit", ", order=session"));

/*
 * Few peers, so that they have paths. Every few milliseconds the paths are voided, and now and then their sessions end.
 * The number of messages that take paths meanwhile depends on the machine. After the uppers have ended some do, but how
 * soon depends on how rarely the port looks for paths by then.
 */
static void
stress_paths(enum xk_mode mode)
{
	struct stress *t = stress_begin(mode, "", "", 3);
	uint64_t before;

	stress_load(t, STRESS_DATAGRAMS, 1);
	stress_load(t, 2 * STRESS_DATAGRAMS, 2);
	stress_wait(t);
	before = stress_by_path(t);
	for (unsigned loads = 0; loads < STRESS_LOADS && stress_by_path(t) <= before; loads++) {
		stress_load(t, STRESS_DATAGRAMS, 2);
		stress_wait(t);
	}
	CHECK(stress_by_path(t) > before);
	stress_settle(t);
	stress_check_account(t);
	stress_end(t);
}

TEST_OF(changing_paths_under_threads_account_for_every_frame, stress_paths(XK_REGULAR));
TEST_OF(changing_paths_in_the_driver_account_for_every_frame, stress_paths(XK_IPP));
