/*
 * hostile.c - hostile SOCKET SEED: a peer that sends what no good one would to the udptest server on a socket of link
 * `virtio`, whose address is 10.77.0.2/16. After each kind of abuse a good request must still be echoed.
 *
 * Prints `ok NAME` or `FAIL NAME: why` for each kind, and in the end `# drop NAME COUNT` or `# drop NAME COUNT+` for
 * what the server must have counted: so many, or at least so many. hostile.sh compares. SEED is of the last kind, in
 * which good frames are damaged at random.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "platform/dpdk/dpdk.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"

enum {
	HOSTILE_IP = 14,
	HOSTILE_UDP = HOSTILE_IP + 20,
	HOSTILE_DATA = HOSTILE_UDP + 8,
	HOSTILE_ARP = 14,
	HOSTILE_ARP_END = HOSTILE_ARP + 28,
	HOSTILE_PORT = 2001,
	HOSTILE_MORE = 0x2000,
	HOSTILE_FRAME = 32000,
	HOSTILE_DROPS = 64,
	HOSTILE_PATIENCE_MS = 10000,
	HOSTILE_RESEND_MS = 250,
};

#define HOSTILE_HOST UINT32_C(0x0a4d0001)
#define HOSTILE_SERVER UINT32_C(0x0a4d0002)
#define HOSTILE_LINK UINT64_C(0x020000001001)
#define HOSTILE_EVERYBODY UINT64_C(0xffffffffffff)

struct hostile_drop {
	const char *name;
	unsigned count;
	bool at_least;
};

struct hostile {
	struct xk_platform *platform;
	struct xk_port *port;
	uint64_t server_link;
	uint64_t random;
	uint16_t next_port, next_id;
	uint32_t next_host;
	uint8_t frame[HOSTILE_FRAME];
	size_t len;
	struct hostile_drop drops[HOSTILE_DROPS];
	unsigned drop_count, failures;
};

static uint64_t
hostile_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void
hostile_pause(unsigned ms)
{
	struct timespec pause = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

	nanosleep(&pause, NULL);
}

/* xorshift64. */
static uint32_t
hostile_random(struct hostile *h, uint32_t below)
{
	h->random ^= h->random << 13;
	h->random ^= h->random >> 7;
	h->random ^= h->random << 17;
	return (uint32_t)((h->random >> 32) * below >> 32);
}

/* What the server must have counted more. */
static void
hostile_expect(struct hostile *h, const char *name, unsigned count, bool at_least)
{
	unsigned i = 0;

	while (i < h->drop_count && strcmp(h->drops[i].name, name) != 0)
		i++;
	xk_assert(i < HOSTILE_DROPS);
	if (i == h->drop_count)
		h->drops[h->drop_count++] = (struct hostile_drop){ .name = name };
	h->drops[i].count += count;
	h->drops[i].at_least |= at_least;
}

/* ---- the wire ---- */

/* Throws away what has arrived. Whether that was anything. */
static bool
hostile_drain(struct hostile *h)
{
	struct xk_msg *frames[XK_BURST];
	unsigned count = h->port->ops->receive(h->port, frames, XK_BURST);

	for (unsigned i = 0; i < count; i++)
		xk_msg_free(frames[i]);
	return count > 0;
}

/* Sends the first len bytes of the frame, however long that takes; drains: and throws away what arrives meanwhile. */
static void
hostile_send_len(struct hostile *h, size_t len, bool drains)
{
	uint64_t until_ms = hostile_now_ms() + HOSTILE_PATIENCE_MS;
	struct xk_msg *m = xk_msg_from(h->platform, h->frame, len);

	xk_assert(m != NULL);
	for (;;) {
		if (drains)
			hostile_drain(h);
		if (h->port->ops->transmit(h->port, &m, 1) == 1)
			return;
		xk_assert(hostile_now_ms() < until_ms);
		hostile_pause(1);
	}
}

static void
hostile_send(struct hostile *h)
{
	hostile_send_len(h, h->len, true);
}

/* ---- good frames ---- */

static void
hostile_fix_ip(struct hostile *h)
{
	uint8_t *ip = h->frame + HOSTILE_IP;

	xk_put16(ip + 10, 0);
	xk_checksum_store(ip + 10, xk_checksum_finish(xk_sum(0, ip, 20)));
}

static void
hostile_fix_udp(struct hostile *h)
{
	uint8_t *ip = h->frame + HOSTILE_IP, *udp = h->frame + HOSTILE_UDP;
	uint8_t rest[4] = { 0, 17, udp[4], udp[5] };
	uint64_t sum = xk_sum(xk_sum(0, ip + 12, 8), rest, sizeof(rest));
	uint16_t checksum;

	xk_put16(udp + 6, 0);
	checksum = xk_checksum_finish(xk_sum(sum, udp, xk_get16(udp + 4)));
	xk_checksum_store(udp + 6, checksum == 0 ? 0xffff : checksum);
}

static void
hostile_ethernet(struct hostile *h, uint64_t target, uint64_t source, uint16_t type)
{
	xk_put48(h->frame, target);
	xk_put48(h->frame + 6, source);
	xk_put16(h->frame + 12, type);
}

/* An IP datagram of len bytes, header not counted, from host. */
static void
hostile_ip(struct hostile *h, uint32_t host, uint8_t protocol, size_t len)
{
	uint8_t *ip = h->frame + HOSTILE_IP;

	hostile_ethernet(h, h->server_link, HOSTILE_LINK, 0x0800);
	memset(ip, 0, 20);
	ip[0] = 0x45;
	xk_put16(ip + 2, (uint16_t)(20 + len));
	xk_put16(ip + 4, h->next_id++);
	ip[8] = 64;
	ip[9] = protocol;
	xk_put32(ip + 12, host);
	xk_put32(ip + 16, HOSTILE_SERVER);
	hostile_fix_ip(h);
	h->len = HOSTILE_UDP + len;
}

/* A request of size bytes from a port that nobody has used. */
static uint16_t
hostile_request(struct hostile *h, uint32_t host, size_t size)
{
	uint8_t *udp = h->frame + HOSTILE_UDP;
	uint16_t port = h->next_port++;

	hostile_ip(h, host, 17, 8 + size);
	xk_put16(udp, port);
	xk_put16(udp + 2, HOSTILE_PORT);
	xk_put16(udp + 4, (uint16_t)(8 + size));
	for (size_t i = 0; i < size; i++)
		udp[8 + i] = (uint8_t)(i * 7 + port);
	hostile_fix_udp(h);
	return port;
}

static void
hostile_arp(struct hostile *h, uint16_t operation, uint32_t sender, uint32_t target)
{
	uint8_t *arp = h->frame + HOSTILE_ARP;

	hostile_ethernet(h, h->server_link, HOSTILE_LINK, 0x0806);
	memset(arp, 0, 28);
	xk_put16(arp, 1);
	xk_put16(arp + 2, 0x0800);
	arp[4] = 6;
	arp[5] = 4;
	xk_put16(arp + 6, operation);
	xk_put48(arp + 8, HOSTILE_LINK);
	xk_put32(arp + 14, sender);
	xk_put32(arp + 24, target);
	h->len = HOSTILE_ARP_END;
}

/* ---- answers ---- */

/* Whether the frame is wanted; may keep what it needs of it. */
typedef bool hostile_wanted(struct hostile *h, const uint8_t *frame, size_t len, uint16_t port);

static bool
hostile_is_echo(struct hostile *h, const uint8_t *frame, size_t len, uint16_t port)
{
	(void)h;
	return len >= HOSTILE_DATA && xk_get16(frame + 12) == 0x0800 && frame[HOSTILE_IP + 9] == 17 &&
	       xk_get16(frame + HOSTILE_UDP) == HOSTILE_PORT && xk_get16(frame + HOSTILE_UDP + 2) == port;
}

static bool
hostile_is_arp_reply(struct hostile *h, const uint8_t *frame, size_t len, uint16_t port)
{
	(void)port;
	if (len < HOSTILE_ARP_END || xk_get16(frame + 12) != 0x0806 || xk_get16(frame + HOSTILE_ARP + 6) != 2 ||
	    xk_get32(frame + HOSTILE_ARP + 14) != HOSTILE_SERVER)
		return false;
	h->server_link = xk_get48(frame + HOSTILE_ARP + 8);
	return true;
}

/* Waits at most ms for a frame that is wanted. */
static bool
hostile_await(struct hostile *h, hostile_wanted *wanted, uint16_t port, unsigned ms)
{
	uint64_t until_ms = hostile_now_ms() + ms;
	bool found = false;

	while (!found && hostile_now_ms() < until_ms) {
		struct xk_msg *frames[XK_BURST];
		unsigned count = h->port->ops->receive(h->port, frames, XK_BURST);

		for (unsigned i = 0; i < count; i++) {
			found = found || wanted(h, frames[i]->data, frames[i]->len, port);
			xk_msg_free(frames[i]);
		}
		if (count == 0)
			hostile_pause(1);
	}
	return found;
}

/* A good request, sent again until it is answered. */
static bool
hostile_echoes(struct hostile *h, size_t size)
{
	for (unsigned waited = 0; waited < HOSTILE_PATIENCE_MS; waited += HOSTILE_RESEND_MS) {
		uint16_t port = hostile_request(h, HOSTILE_HOST, size);

		hostile_send(h);
		if (hostile_await(h, hostile_is_echo, port, HOSTILE_RESEND_MS))
			return true;
	}
	return false;
}

static bool
hostile_finds_server(struct hostile *h)
{
	for (unsigned waited = 0; waited < HOSTILE_PATIENCE_MS; waited += HOSTILE_RESEND_MS) {
		hostile_arp(h, 1, HOSTILE_HOST, HOSTILE_SERVER);
		xk_put48(h->frame, HOSTILE_EVERYBODY);
		hostile_send(h);
		if (hostile_await(h, hostile_is_arp_reply, 0, HOSTILE_RESEND_MS))
			return true;
	}
	return false;
}

/* ---- abuse of Ethernet and ARP ---- */

static void
hostile_short_frames(struct hostile *h)
{
	hostile_request(h, HOSTILE_HOST, 10);
	for (size_t len = 1; len < HOSTILE_IP; len++)
		hostile_send_len(h, len, true);
	hostile_expect(h, "eth.short", HOSTILE_IP - 1, false);
}

static void
hostile_long_frames(struct hostile *h)
{
	static const size_t sizes[] = { 1473, 1480, 2000, 4000, 16000, 30000 };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(sizes); i++) {
		hostile_request(h, HOSTILE_HOST, sizes[i]);
		hostile_send(h);
		/* and one whose rest belongs to nothing */
		hostile_request(h, HOSTILE_HOST, 10);
		hostile_send_len(h, HOSTILE_DATA + sizes[i], true);
	}
}

static void
hostile_misaddressed_frames(struct hostile *h)
{
	static const uint64_t targets[] = { 0x020000000099, 0x01005e000001, 0, 0x333300000001 };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(targets); i++) {
		hostile_request(h, HOSTILE_HOST, 10);
		xk_put48(h->frame, targets[i]);
		hostile_send(h);
	}
	hostile_expect(h, "eth.not_mine", XK_ARRAY_LENGTH(targets), false);
}

static void
hostile_frame_sources(struct hostile *h)
{
	const uint64_t sources[] = { 0, HOSTILE_EVERYBODY, 0x010203040506, h->server_link };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(sources); i++) {
		hostile_request(h, HOSTILE_HOST, 10);
		xk_put48(h->frame + 6, sources[i]);
		hostile_send(h);
	}
	hostile_expect(h, "eth.bad_source", XK_ARRAY_LENGTH(sources), false);
}

static void
hostile_frame_types(struct hostile *h)
{
	static const uint16_t types[] = { 0, 46, 1535, 0x88b5, 0x86dd, 0xffff };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(types); i++) {
		hostile_request(h, HOSTILE_HOST, 10);
		xk_put16(h->frame + 12, types[i]);
		hostile_send(h);
	}
	hostile_expect(h, "eth.bad_type", 3, false);
	hostile_expect(h, "eth.no_session", 3, false);
}

static void
hostile_arp_packets(struct hostile *h)
{
	static const struct {
		const char *drop;
		unsigned offset;
		uint8_t value;
	} fields[] = {
		{ "arp.bad_hardware", 1, 6 },    { "arp.bad_protocol", 3, 6 },   { "arp.bad_length", 4, 7 },
		{ "arp.bad_length", 5, 16 },     { "arp.bad_operation", 7, 0 },  { "arp.bad_operation", 7, 3 },
		{ "arp.bad_operation", 6, 255 }, { "arp.bad_sender", 13, 0x77 },
	};

	hostile_arp(h, 1, HOSTILE_HOST, HOSTILE_SERVER);
	for (size_t len = HOSTILE_ARP; len < HOSTILE_ARP_END; len++)
		hostile_send_len(h, len, true);
	hostile_expect(h, "arp.short", HOSTILE_ARP_END - HOSTILE_ARP, false);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(fields); i++) {
		hostile_arp(h, 1, HOSTILE_HOST, HOSTILE_SERVER);
		h->frame[HOSTILE_ARP + fields[i].offset] = fields[i].value;
		hostile_send(h);
		hostile_expect(h, fields[i].drop, 1, false);
	}
}

static void
hostile_arp_lies(struct hostile *h)
{
	static const struct {
		const char *drop;
		uint16_t operation;
		uint32_t sender, target;
	} lies[] = {
		{ "arp.bad_address", 2, 0, HOSTILE_SERVER },
		{ "arp.bad_address", 1, 0x0a4dffff, HOSTILE_SERVER },
		{ "arp.bad_address", 1, 0x08080808, HOSTILE_SERVER },
		{ "arp.conflict", 1, HOSTILE_SERVER, HOSTILE_SERVER },
		{ "arp.conflict", 2, HOSTILE_SERVER, HOSTILE_HOST },
		{ "arp.unasked", 2, 0x0a4d0050, HOSTILE_SERVER },
	};

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(lies); i++) {
		hostile_arp(h, lies[i].operation, lies[i].sender, lies[i].target);
		hostile_send(h);
		hostile_expect(h, lies[i].drop, 1, false);
	}
}

/* More neighbours than the table holds. */
static void
hostile_arp_flood(struct hostile *h)
{
	for (uint32_t i = 0; i < 1000; i++) {
		hostile_arp(h, 1, 0x0a4d1000 + i, HOSTILE_SERVER);
		xk_put48(h->frame + 6, HOSTILE_LINK + 0x1000 + i);
		xk_put48(h->frame + HOSTILE_ARP + 8, HOSTILE_LINK + 0x1000 + i);
		hostile_send(h);
	}
}

/* ---- abuse of IP and UDP ---- */

static void
hostile_short_datagrams(struct hostile *h)
{
	hostile_request(h, HOSTILE_HOST, 10);
	for (size_t len = HOSTILE_IP; len < HOSTILE_UDP; len++)
		hostile_send_len(h, len, true);
	hostile_expect(h, "ip.short", HOSTILE_UDP - HOSTILE_IP, false);
	for (size_t len = HOSTILE_UDP; len < HOSTILE_DATA + 10; len++)
		hostile_send_len(h, len, true);
	hostile_expect(h, "ip.bad_length", HOSTILE_DATA + 10 - HOSTILE_UDP, false);
}

/* Sets a byte of a good datagram's IP header, and its checksum, unless that is what is wrong. */
static void
hostile_ip_headers(struct hostile *h)
{
	static const struct {
		const char *drop;
		unsigned offset;
		uint8_t value;
		bool keeps_checksum;
	} fields[] = {
		{ "ip.bad_version", 0, 0x55, false },  { "ip.bad_version", 0, 0x65, false },
		{ "ip.bad_version", 0, 0, false },     { "ip.bad_header", 0, 0x44, false },
		{ "ip.bad_header", 0, 0x40, false },   { "ip.options", 0, 0x46, false },
		{ "ip.options", 0, 0x4f, false },      { "ip.bad_length", 3, 19, false },
		{ "ip.bad_length", 3, 39, false },     { "ip.bad_length", 2, 0xff, false },
		{ "ip.bad_checksum", 11, 0x5a, true }, { "ip.bad_checksum", 8, 63, true },
		{ "ip.bad_flags", 6, 0x80, false },    { "ip.ttl_zero", 8, 0, false },
		{ "ip.no_session", 9, 1, false },      { "ip.no_session", 9, 255, false },
		{ "ip.martian", 12, 127, false },      { "ip.martian", 16, 127, false },
		{ "ip.bad_source", 12, 0, false },     { "ip.bad_source", 12, 224, false },
		{ "ip.bad_source", 12, 255, false },   { "ip.bad_source", 15, 2, false },
		{ "ip.bad_source", 15, 0, false },     { "ip.not_mine", 19, 3, false },
		{ "ip.not_mine", 16, 224, false },
	};

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(fields); i++) {
		hostile_request(h, HOSTILE_HOST, 10);
		h->frame[HOSTILE_IP + fields[i].offset] = fields[i].value;
		if (!fields[i].keeps_checksum)
			hostile_fix_ip(h);
		hostile_send(h);
		hostile_expect(h, fields[i].drop, 1, false);
	}
}

static void
hostile_udp_headers(struct hostile *h)
{
	uint8_t *udp = h->frame + HOSTILE_UDP;

	for (size_t len = 0; len < 8; len++) {
		hostile_ip(h, HOSTILE_HOST, 17, len);
		hostile_send(h);
	}
	hostile_expect(h, "udp.short", 8, false);
	for (uint16_t len = 0; len < 8; len++) {
		hostile_request(h, HOSTILE_HOST, 10);
		xk_put16(udp + 4, len);
		hostile_send(h);
	}
	hostile_request(h, HOSTILE_HOST, 10);
	xk_put16(udp + 4, 19);
	hostile_send(h);
	hostile_expect(h, "udp.bad_length", 9, false);
	for (unsigned i = 0; i < 10; i++) {
		hostile_request(h, HOSTILE_HOST + (i & 1) * 77, 10);
		udp[8 + i] ^= 0x10;
		hostile_send(h);
	}
	hostile_expect(h, "udp.bad_checksum", 10, false);
	hostile_request(h, HOSTILE_HOST, 10);
	xk_put16(udp + 2, 2002);
	hostile_fix_udp(h);
	hostile_send(h);
	hostile_expect(h, "udp.no_session", 1, false);
	/* a request from a server's port: two servers would send it to and fro for ever */
	hostile_request(h, HOSTILE_HOST, 10);
	xk_put16(udp, HOSTILE_PORT);
	hostile_fix_udp(h);
	hostile_send(h);
	hostile_expect(h, "udp.refused", 1, false);
}

/* Everybody on the network sends one request. */
static void
hostile_strangers(struct hostile *h)
{
	for (uint32_t i = 0; i < 12000; i++) {
		hostile_request(h, 0x0a4d4000 + i, 10);
		xk_put48(h->frame + 6, HOSTILE_LINK + 0x4000 + i);
		hostile_send(h);
	}
}

/* Requests whose echoes nobody takes. */
static void
hostile_deaf(struct hostile *h)
{
	for (unsigned i = 0; i < 1500; i++) {
		hostile_request(h, HOSTILE_HOST, 1400);
		hostile_send_len(h, h->len, false);
	}
	/* a thread that finds the ring full has patience for some milliseconds */
	hostile_pause(300);
	while (hostile_drain(h))
		hostile_pause(1);
	hostile_expect(h, "port.tx_full", 1, true);
}

/* ---- abuse of fragments ---- */

/* A fragment of a datagram to an open port that says no checksum; what it holds depends on its place alone. */
static void
hostile_fragment(struct hostile *h, uint32_t host, uint16_t id, unsigned offset, bool more, size_t len)
{
	uint8_t *ip = h->frame + HOSTILE_IP, *data = h->frame + HOSTILE_UDP;

	hostile_ip(h, host, 17, len);
	xk_put16(ip + 4, id);
	xk_put16(ip + 6, (uint16_t)(offset / 8 | (more ? HOSTILE_MORE : 0)));
	hostile_fix_ip(h);
	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)((offset + i) * 13);
	if (offset == 0 && len >= 8) {
		xk_put16(data, id);
		xk_put16(data + 2, HOSTILE_PORT);
		xk_put16(data + 4, 1000);
		xk_put16(data + 6, 0);
	}
	hostile_send(h);
}

/* A host that has sent no fragment yet, since what one has in the table counts. */
static uint32_t
hostile_stranger(struct hostile *h)
{
	return h->next_host++;
}

static void
hostile_duplicates(struct hostile *h)
{
	uint32_t host = hostile_stranger(h);
	uint16_t id = 5001;

	hostile_fragment(h, host, id, 800, false, 200);
	for (unsigned i = 0; i < 5; i++)
		hostile_fragment(h, host, id, 800, false, 200);
	hostile_fragment(h, host, id, 0, true, 400);
	hostile_fragment(h, host, id, 0, true, 400);
	hostile_fragment(h, host, id, 400, true, 400);
	hostile_expect(h, "ip.duplicate", 6, false);
	if (!hostile_await(h, hostile_is_echo, id, HOSTILE_PATIENCE_MS)) {
		printf("FAIL duplicates: no echo of the datagram\n");
		h->failures++;
	}
}

static void
hostile_overlaps(struct hostile *h)
{
	uint32_t host = hostile_stranger(h);

	for (uint16_t id = 1; id <= 4; id++) {
		hostile_fragment(h, host, id, 0, true, 800);
		hostile_fragment(h, host, id, 800 - 8 * id, true, 800);
		hostile_fragment(h, host, id, 800, true, 80);
		hostile_fragment(h, host, id, 880, false, 120);
	}
	hostile_expect(h, "ip.overlap", 8, false);
	hostile_expect(h, "ip.refused_datagram", 8, false);
	/* the same place, other bytes */
	hostile_fragment(h, host, 5, 0, true, 80);
	hostile_ip(h, host, 17, 80);
	xk_put16(h->frame + HOSTILE_IP + 4, 5);
	xk_put16(h->frame + HOSTILE_IP + 6, HOSTILE_MORE);
	hostile_fix_ip(h);
	memset(h->frame + HOSTILE_UDP, 0xee, 80);
	hostile_send(h);
	hostile_expect(h, "ip.overlap", 2, false);
}

static void
hostile_ends(struct hostile *h)
{
	uint32_t host = hostile_stranger(h);

	/* beyond the end; a second end; an end before what is there */
	hostile_fragment(h, host, 1, 800, false, 200);
	hostile_fragment(h, host, 1, 1600, true, 80);
	hostile_fragment(h, host, 2, 800, false, 200);
	hostile_fragment(h, host, 2, 1600, false, 80);
	hostile_fragment(h, host, 3, 1600, true, 80);
	hostile_fragment(h, host, 3, 800, false, 80);
	hostile_expect(h, "ip.inconsistent", 6, false);
}

static void
hostile_odd_fragments(struct hostile *h)
{
	uint32_t host = hostile_stranger(h);

	hostile_fragment(h, host, 1, 0, true, 801);
	hostile_fragment(h, host, 2, 8, true, 0);
	hostile_fragment(h, host, 3, 8, false, 0);
	hostile_expect(h, "ip.bad_fragment", 3, false);
	for (size_t len = 1; len < 8; len++)
		hostile_fragment(h, host, 4, 0, true, len);
	hostile_expect(h, "ip.tiny", 7, false);
	/* the ping of death */
	hostile_fragment(h, host, 5, 65528, false, 400);
	hostile_fragment(h, host, 6, 65512, true, 8);
	hostile_expect(h, "ip.too_long", 2, false);
}

/* One datagram in ever smaller pieces. */
static void
hostile_endless(struct hostile *h)
{
	uint32_t host = hostile_stranger(h);

	for (unsigned i = 0; i < 100; i++)
		hostile_fragment(h, host, 1, 8 * i, true, 8);
	hostile_expect(h, "ip.too_many", 65, false);
	hostile_expect(h, "ip.refused_datagram", 35, false);
}

/* More datagrams than one host may have, than all may have, and more fragments; none of them finished. */
static void
hostile_never_finished(struct hostile *h)
{
	uint32_t host = hostile_stranger(h);

	for (uint16_t id = 1; id <= 200; id++)
		hostile_fragment(h, host, id, 0, true, 1480);
	for (unsigned i = 0; i < 2000; i++)
		hostile_fragment(h, hostile_stranger(h), 1, 1480, true, 1480);
	for (unsigned i = 0; i < 8; i++) {
		host = hostile_stranger(h);
		for (uint16_t id = 1; id <= 10; id++)
			for (unsigned j = 0; j < 60; j++)
				hostile_fragment(h, host, id, 8 * j, true, 8);
	}
	hostile_expect(h, "ip.evicted", 2000, true);
}

/* What waits when nothing more comes: the server's reassembly_timeout is 2 s. */
static void
hostile_late(struct hostile *h)
{
	uint32_t host = hostile_stranger(h);

	hostile_fragment(h, host, 1, 0, true, 800);
	hostile_fragment(h, host, 1, 800, true, 80);
	for (unsigned waited = 0; waited < 3000; waited += 10) {
		hostile_drain(h);
		hostile_pause(10);
	}
	/* its time is up: this begins another datagram */
	hostile_fragment(h, host, 1, 880, false, 120);
	hostile_expect(h, "ip.timed_out", 2, true);
}

/* ---- at random ---- */

static void
hostile_good_frame(struct hostile *h)
{
	switch (hostile_random(h, 4)) {
	case 0:
		hostile_arp(h, (uint16_t)(1 + hostile_random(h, 2)), HOSTILE_HOST, HOSTILE_SERVER);
		break;
	case 1:
		hostile_request(h, HOSTILE_HOST, 1 + hostile_random(h, 1472));
		xk_put16(h->frame + HOSTILE_IP + 4, (uint16_t)hostile_random(h, 8));
		xk_put16(h->frame + HOSTILE_IP + 6,
			 (uint16_t)(hostile_random(h, 2) * HOSTILE_MORE | hostile_random(h, 400)));
		break;
	default:
		hostile_request(h, HOSTILE_HOST + hostile_random(h, 3), 1 + hostile_random(h, 100));
	}
}

/* A few bits or bytes of good frames, mostly of their headers; checksums are put right half of the time. */
static void
hostile_damaged(struct hostile *h)
{
	for (unsigned i = 0; i < 20000; i++) {
		hostile_good_frame(h);
		for (unsigned j = hostile_random(h, 4); j > 0; j--) {
			uint32_t headers = h->len < HOSTILE_DATA ? (uint32_t)h->len : HOSTILE_DATA;
			uint32_t at = hostile_random(h, hostile_random(h, 4) == 0 ? (uint32_t)h->len : headers);

			h->frame[at] = hostile_random(h, 2) == 0 ? (uint8_t)(h->frame[at] ^ 1u << hostile_random(h, 8))
								 : (uint8_t)hostile_random(h, 256);
		}
		if (hostile_random(h, 2) == 0 && xk_get16(h->frame + 12) == 0x0800)
			hostile_fix_ip(h);
		if (hostile_random(h, 8) == 0)
			h->len = 1 + hostile_random(h, (uint32_t)h->len);
		hostile_send(h);
	}
}

/* ---- all of it ---- */

static const struct {
	const char *name;
	void (*abuse)(struct hostile *h);
} hostile_kinds[] = {
	{ "short frames", hostile_short_frames },
	{ "long frames", hostile_long_frames },
	{ "misaddressed frames", hostile_misaddressed_frames },
	{ "impossible senders of frames", hostile_frame_sources },
	{ "unknown types", hostile_frame_types },
	{ "bad ARP packets", hostile_arp_packets },
	{ "ARP packets that lie", hostile_arp_lies },
	{ "more neighbours than ARP's table holds", hostile_arp_flood },
	{ "short datagrams", hostile_short_datagrams },
	{ "bad IP headers", hostile_ip_headers },
	{ "bad UDP headers", hostile_udp_headers },
	{ "duplicate fragments", hostile_duplicates },
	{ "overlapping fragments", hostile_overlaps },
	{ "fragments beyond the end", hostile_ends },
	{ "impossible fragments", hostile_odd_fragments },
	{ "endless fragments", hostile_endless },
	{ "never finished datagrams, more than memory", hostile_never_finished },
	{ "fragments that come too late", hostile_late },
	{ "more strangers than sessions", hostile_strangers },
	{ "a peer that does not take its echoes", hostile_deaf },
	{ "frames damaged at random", hostile_damaged },
};

static void
hostile_run(struct hostile *h)
{
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(hostile_kinds) - (h->random == 0); i++) {
		bool good;

		hostile_kinds[i].abuse(h);
		good = hostile_echoes(h, 10) && hostile_echoes(h, 1400);
		printf(good ? "ok %s\n" : "FAIL %s: a good request is not answered\n", hostile_kinds[i].name);
		fflush(stdout);
		h->failures += !good;
	}
	for (unsigned i = 0; i < h->drop_count; i++)
		printf("# drop %s %u%s\n", h->drops[i].name, h->drops[i].count, h->drops[i].at_least ? "+" : "");
}

static int
hostile_open(struct hostile *h, const char *socket)
{
	struct xk_dpdk_config config = { .core = -1 };
	struct xk_dpdk_virtio_config link = { .name = "hostile", .socket = socket, .address = HOSTILE_LINK };
	char why[XK_DPDK_WHY];

	if (xk_dpdk_start(&config, &h->platform, why, sizeof(why)) == 0)
		h->port = xk_dpdk_virtio_open(h->platform, &link, why, sizeof(why));
	if (h->port == NULL) {
		printf("FAIL hostile: %s\n", why);
		return 1;
	}
	h->port->mtu = HOSTILE_FRAME; /* longer frames than the link's go out, too */
	return 0;
}

int
main(int argc, char **argv)
{
	static struct hostile h = { .next_port = 10000, .next_id = 1, .next_host = 0x0a4d8000 };

	if (argc != 3) {
		fprintf(stderr, "usage: hostile SOCKET SEED\n");
		return 2;
	}
	h.random = strtoull(argv[2], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15);
	if (hostile_open(&h, argv[1]) != 0)
		return 1;
	if (hostile_finds_server(&h) && hostile_echoes(&h, 10)) {
		hostile_run(&h);
	} else {
		printf("FAIL hostile: the server does not answer\n");
		h.failures++;
	}
	h.port->ops->close(h.port);
	xk_dpdk_stop(h.platform);
	return h.failures != 0;
}
