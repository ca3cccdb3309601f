/*
 * fuzz_traffic.c - scripts for fuzz_frames and fuzz_hosts: peers' frames (ARP, datagrams, fragments in any order),
 * uppers' operations, and faults of both.
 */
#include <string.h>

#include "tests/fuzz/fuzz_options.h"
#include "tests/fuzz/fuzz_payload.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"

enum { TRAFFIC_PIECES = 12, TRAFFIC_PAYLOAD = 8192 };

struct traffic {
	uint8_t *bytes;
	size_t len, max;
	uint64_t random;
};

static unsigned
draw(struct traffic *t, unsigned below)
{
	return (unsigned)(fuzz_random(&t->random) % below);
}

static bool
chance(struct traffic *t, unsigned one_in)
{
	return draw(t, one_in) == 0;
}

static void
put_record(struct traffic *t, unsigned what, unsigned argument, const uint8_t *rest, size_t len)
{
	if (t->max - t->len < len + 1)
		return;
	t->bytes[t->len++] = (uint8_t)(argument << 4 | what);
	if (len > 0)
		memcpy(t->bytes + t->len, rest, len);
	t->len += len;
}

/* ---- frames ---- */

/* Changes a bit, a byte or an interesting value, mostly in the headers. */
static void
damage(struct traffic *t, uint8_t *frame, size_t len)
{
	static const uint16_t words[] = { 0, 1, 7, 8, 19, 20, 0x7fff, 0x8000, 0x1fff, 0x2000, 0x3fff, 0xfff8, 0xffff };
	size_t at = draw(t, chance(t, 4) ? (unsigned)len : len < 42 ? (unsigned)len : 42);

	switch (draw(t, 3)) {
	case 0:
		frame[at] ^= (uint8_t)(1 << draw(t, 8));
		break;
	case 1:
		frame[at] = (uint8_t)draw(t, 256);
		break;
	default:
		if (at + 2 <= len)
			xk_put16(frame + at, words[draw(t, sizeof(words) / sizeof(words[0]))]);
	}
}

/* Writes frame as a record; mostly valid. */
static void
put_frame(struct traffic *t, const uint8_t *frame, size_t len)
{
	uint8_t rest[2 + FUZZ_FRAME_MAX];
	unsigned flags = chance(t, 16) ? 0 : FUZZ_FIX_UDP, argument = 0;

	if (len == 0 || len > FUZZ_FRAME_MAX)
		return;
	memcpy(rest + 2, frame, len);
	if (chance(t, 12))
		len = draw(t, (unsigned)len + 1);
	while (len > 0 && chance(t, 6))
		damage(t, rest + 2, len);
	if (chance(t, 8)) {
		flags |= FUZZ_SPLIT;
		argument = draw(t, 16);
	} else if (chance(t, 16)) {
		argument = 1 + draw(t, 6);
	}
	rest[0] = (uint8_t)len;
	rest[1] = (uint8_t)(len >> 8);
	put_record(t, flags, argument, rest, 2 + len);
}

static size_t
store_eth(uint8_t *p, uint64_t destination, unsigned peer, unsigned type)
{
	xk_put48(p, destination);
	xk_put48(p + 6, FUZZ_PEER_LINK + peer);
	xk_put16(p + 12, (uint16_t)type);
	return 14;
}

static void
put_arp(struct traffic *t)
{
	uint8_t frame[60] = { 0 }, *p = frame + 14;
	unsigned peer = draw(t, FUZZ_PEERS), operation = 1 + draw(t, 2);
	bool announces = chance(t, 6);

	store_eth(frame, operation == 1 ? UINT64_C(0xffffffffffff) : FUZZ_LINK, peer, 0x0806);
	xk_put32(p, 0x00010800);
	xk_put16(p + 4, 0x0604);
	xk_put16(p + 6, (uint16_t)operation);
	xk_put48(p + 8, FUZZ_PEER_LINK + peer);
	xk_put32(p + 14, chance(t, 16) ? 0 : FUZZ_PEER_HOST + peer);
	xk_put48(p + 18, operation == 1 ? 0 : FUZZ_LINK);
	xk_put32(p + 24, announces ? FUZZ_PEER_HOST + peer : FUZZ_HOST);
	put_frame(t, frame, chance(t, 3) ? sizeof(frame) : 42);
}

/* Returns mostly the host; or broadcast, or a host behind a router. */
static uint32_t
draw_destination(struct traffic *t)
{
	if (!chance(t, 12))
		return FUZZ_HOST;
	return chance(t, 2) ? FUZZ_HOST | 0xff : FUZZ_BEHIND + draw(t, FUZZ_PEERS);
}

/* Fragment [start, end) of a datagram's payload. */
struct piece {
	size_t start, end;
	bool more;
};

struct datagram {
	unsigned peer, id;
	size_t len; /* of the payload, UDP header included */
	uint8_t payload[TRAFFIC_PAYLOAD];
};

static void
put_piece(struct traffic *t, const struct datagram *d, struct piece piece)
{
	uint8_t frame[FUZZ_FRAME_MAX + 1], options[XK_OPTIONS_MAX], *p = frame + 14;
	size_t len = piece.end - piece.start, padding = chance(t, 4) ? draw(t, 20) : 0;
	size_t header = 20 + (chance(t, 8) ? fuzz_make_options("ip", options, &t->random) : 0);

	if (14 + header + len + padding > FUZZ_FRAME_MAX)
		return;
	store_eth(frame, FUZZ_LINK, d->peer, 0x0800);
	memset(p, 0, 20);
	memcpy(p + 20, options, header - 20);
	p[0] = (uint8_t)(0x40 | header / 4);
	xk_put16(p + 2, (uint16_t)(header + len));
	xk_put16(p + 4, (uint16_t)d->id);
	xk_put16(p + 6, (uint16_t)(piece.start / 8 | (piece.more ? 0x2000 : 0)));
	p[8] = chance(t, 24) ? 1 : 64;
	p[9] = 17;
	xk_put32(p + 12, FUZZ_PEER_HOST + d->peer);
	xk_put32(p + 16, draw_destination(t));
	memcpy(p + header, d->payload + piece.start, len);
	memset(p + header + len, 0, padding);
	put_frame(t, frame, 14 + header + len + padding);
}

/* Makes a UDP datagram with a valid checksum or none. */
static void
make_datagram(struct traffic *t, struct datagram *d, size_t max)
{
	uint8_t *p = d->payload, pseudo[12] = { 0 };
	uint64_t sum;

	d->peer = draw(t, FUZZ_PEERS);
	d->id = draw(t, 4);
	d->len = 8 + draw(t, (unsigned)(chance(t, 3) ? 32 : max - 8));
	for (size_t i = 0; i < d->len; i++)
		p[i] = (uint8_t)(i * 7 + (i >> 8) + d->id);
	xk_put16(p, chance(t, 32) ? FUZZ_PORT : (uint16_t)(7000 + draw(t, 3)));
	xk_put16(p + 2, chance(t, 6) ? (uint16_t)(7000 + draw(t, 2)) : FUZZ_PORT);
	xk_put16(p + 4, (uint16_t)d->len);
	xk_put16(p + 6, 0);
	if (chance(t, 8))
		return;
	xk_put32(pseudo, FUZZ_PEER_HOST + d->peer);
	xk_put32(pseudo + 4, FUZZ_HOST);
	xk_put16(pseudo + 8, 17);
	xk_put16(pseudo + 10, (uint16_t)d->len);
	sum = xk_sum(xk_sum(0, pseudo, sizeof(pseudo)), p, d->len);
	xk_checksum_store(p + 6, xk_checksum_finish(sum));
}

static void
put_datagram(struct traffic *t)
{
	struct datagram d;

	make_datagram(t, &d, 1400);
	put_piece(t, &d, (struct piece){ 0, d.len, false });
}

/* Cuts d into at most TRAFFIC_PIECES pieces. Returns their number. */
static unsigned
cut(struct traffic *t, const struct datagram *d, struct piece *pieces)
{
	unsigned count = 0;
	size_t at = 0;

	while (at < d->len && count < TRAFFIC_PIECES) {
		size_t len = 8 + 8 * (size_t)draw(t, (unsigned)(d->len / 8 / (1 + draw(t, 6)) + 1));

		if (len > 1480)
			len = 1480;
		if (at + len > d->len || count == TRAFFIC_PIECES - 1)
			len = d->len - at;
		pieces[count++] = (struct piece){ at, at + len, at + len < d->len };
		at += len;
	}
	return count;
}

/* Spoils a fragment in one of several ways. */
static void
spoil(struct traffic *t, const struct datagram *d, struct piece *piece)
{
	switch (draw(t, 6)) {
	case 0: /* overlaps the bytes before */
		if (piece->start >= 8)
			piece->start -= 8;
		break;
	case 1: /* ... the bytes behind */
		if (piece->end + 8 <= d->len)
			piece->end += 8;
		break;
	case 2:
		piece->more = !piece->more;
		break;
	case 3: /* not a multiple of 8, or empty */
		piece->end -= draw(t, (unsigned)(piece->end - piece->start) + 1);
		break;
	case 4: /* far away */
		piece->start += 8 * draw(t, 16);
		if (piece->start > piece->end)
			piece->start = piece->end & ~(size_t)7;
		break;
	default:
		break;
	}
}

static void
put_fragments(struct traffic *t)
{
	struct piece pieces[TRAFFIC_PIECES];
	struct datagram d;
	unsigned count;

	make_datagram(t, &d, chance(t, 2) ? 400 : TRAFFIC_PAYLOAD);
	count = cut(t, &d, pieces);
	for (unsigned i = count; i > 1; i--) {
		unsigned other = chance(t, 2) ? draw(t, i) : i - 1;
		struct piece was = pieces[i - 1];

		pieces[i - 1] = pieces[other];
		pieces[other] = was;
	}
	for (unsigned i = 0; i < count; i++) {
		if (chance(t, 16))
			continue;
		if (chance(t, 16))
			spoil(t, &d, &pieces[i]);
		put_piece(t, &d, pieces[i]);
		if (chance(t, 16))
			put_piece(t, &d, pieces[draw(t, count)]);
		if (chance(t, 16))
			put_record(t, FUZZ_TIME, 6 + draw(t, 6), NULL, 0);
	}
}

/* Small fragments of a few incomplete datagrams from one peer: fills shares and tables. */
static void
put_flood(struct traffic *t)
{
	struct datagram d;
	unsigned count = 4 + draw(t, 24), ids = 1 + draw(t, 6);

	make_datagram(t, &d, TRAFFIC_PAYLOAD);
	while (count-- > 0) {
		size_t start = 16 * (size_t)draw(t, 12), end = start + 8;

		d.id = draw(t, ids);
		if (chance(t, 4))
			d.peer = draw(t, FUZZ_PEERS);
		if (end <= d.len)
			put_piece(t, &d, (struct piece){ start, end, true });
	}
}

/* A datagram with this payload, of at most FUZZ_PAYLOAD_MAX bytes. */
static void
put_payload_of(struct traffic *t, unsigned peer, uint32_t destination, uint8_t number, const uint8_t *payload,
	       size_t len)
{
	uint8_t frame[14 + 20 + XK_OPTIONS_MAX + FUZZ_PAYLOAD_MAX] = { 0 }, *p = frame + 14;
	size_t header = 20 + (chance(t, 16) ? fuzz_make_options("ip", p + 20, &t->random) : 0);

	memcpy(p + header, payload, len);
	len += header;
	store_eth(frame, FUZZ_LINK, peer, 0x0800);
	p[0] = (uint8_t)(0x40 | header / 4);
	xk_put16(p + 2, (uint16_t)len);
	xk_put16(p + 4, (uint16_t)draw(t, 4));
	p[8] = 64;
	p[9] = number;
	xk_put32(p + 12, FUZZ_PEER_HOST + peer);
	xk_put32(p + 16, destination);
	put_frame(t, frame, 14 + len);
}

/* A datagram of another protocol than the server's. */
static void
put_payload(struct traffic *t)
{
	uint8_t payload[FUZZ_PAYLOAD_MAX], number;
	unsigned peer = draw(t, FUZZ_PEERS);
	size_t len = fuzz_payload_make(payload, peer, &t->random, &number);

	put_payload_of(t, peer, draw_destination(t), number, payload, len);
}

/* A segment of a few peers. */
static void
put_segment(struct traffic *t)
{
	uint8_t payload[FUZZ_PAYLOAD_MAX];
	size_t len = fuzz_payload_make_segment(payload, &t->random);

	put_payload_of(t, chance(t, 8) ? draw(t, 3) : 0, FUZZ_HOST, FUZZ_IP_TCP, payload, len);
}

/* On the link, or on IP. */
static void
put_rpc_message(struct traffic *t, unsigned peer, const uint8_t *payload, size_t len, unsigned type)
{
	uint8_t frame[14 + 20 + FUZZ_RPC_MAX] = { 0 }, *p = frame + 14;
	size_t header = type < 256 ? 20 : 0;

	/* a peer may have several stations, or another station may claim its address */
	store_eth(frame, FUZZ_LINK, chance(t, 8) ? draw(t, FUZZ_PEERS) : peer, type < 256 ? 0x0800 : type);
	if (type < 256) {
		p[0] = 0x45;
		xk_put16(p + 2, (uint16_t)(20 + len));
		p[8] = 64;
		p[9] = (uint8_t)type;
		xk_put32(p + 12, FUZZ_PEER_HOST + peer);
		xk_put32(p + 16, FUZZ_HOST);
	}
	memcpy(p + header, payload, len);
	put_frame(t, frame, 14 + header + len);
}

static void
put_rpc(struct traffic *t)
{
	uint8_t payload[FUZZ_RPC_MAX];
	unsigned peer = draw(t, FUZZ_PEERS), type;
	size_t len = fuzz_rpc_make(payload, peer, &t->random, &type);

	put_rpc_message(t, peer, payload, len, type);
}

/* Makes the host know a peer's station. */
static void
put_acquaintance(struct traffic *t, unsigned peer)
{
	uint8_t arp[60] = { 0 };

	store_eth(arp, UINT64_C(0xffffffffffff), peer, 0x0806);
	xk_put32(arp + 14, 0x00010800);
	xk_put32(arp + 18, 0x06040001);
	xk_put48(arp + 22, FUZZ_PEER_LINK + peer);
	xk_put32(arp + 28, FUZZ_PEER_HOST + peer);
	xk_put32(arp + 38, FUZZ_HOST);
	put_frame(t, arp, sizeof(arp));
}

/* A peer that is sent a query and answers, which confirms it. */
static void
put_rpc_meeting(struct traffic *t, unsigned peer)
{
	uint8_t payload[FUZZ_RPC_MAX];
	unsigned type;
	size_t len;

	put_acquaintance(t, peer);
	len = fuzz_rpc_make_request(payload, peer, &t->random, &type);
	put_rpc_message(t, peer, payload, len, type);
	put_record(t, FUZZ_TIME, 0, NULL, 0);
	if (chance(t, 8))
		return; /* its answer never arrives */
	len = fuzz_rpc_make_response(payload, peer, &type);
	put_rpc_message(t, peer, payload, len, type);
	for (unsigned i = 1 + draw(t, 4); i > 0; i--) {
		len = fuzz_rpc_make_request(payload, peer, &t->random, &type);
		put_rpc_message(t, peer, payload, len, type);
	}
}

/* A BLAST frame for the test protocol above it, directly over the link, with few numbers, so that they match. */
static void
put_blast(struct traffic *t)
{
	uint8_t frame[14 + 24 + 20] = { 0 }, *p = frame + 14;
	bool is_short = chance(t, 3);
	unsigned op = is_short ? 1 : 1 + draw(t, 3), fragments = is_short ? 0 : 2 + draw(t, 3);

	store_eth(frame, FUZZ_LINK, draw(t, FUZZ_PEERS), 0x3001);
	xk_put32(p, 0x3004);
	xk_put32(p + 4, is_short ? 0 : 1 + draw(t, 3));
	xk_put32(p + 8, op == 2 ? 0 : 20);
	xk_put16(p + 12, (uint16_t)fragments);
	p[14] = (uint8_t)op;
	p[15] = 64;
	xk_put64(p + 16, is_short ? 0 : UINT64_C(1) << draw(t, fragments));
	xk_put32(p + 24, 1 + draw(t, 2));
	xk_put32(p + 40, 20);
	put_frame(t, frame, sizeof(frame));
}

static void
put_station(struct traffic *t)
{
	uint8_t frame[46] = { 0 };

	if (chance(t, 2)) {
		put_blast(t);
		return;
	}
	put_frame(t, frame, store_eth(frame, FUZZ_LINK, draw(t, FUZZ_PEERS), 0x3000) + draw(t, 32));
}

/* ---- uppers ---- */

static void
put_upper(struct traffic *t)
{
	unsigned slot = draw(t, FUZZ_SLOTS), len = chance(t, 16)  ? 0xffff - draw(t, 60)
						   : chance(t, 8) ? draw(t, 0x10000)
								  : draw(t, 700);
	uint8_t peer = (uint8_t)((chance(t, 6) ? draw(t, 32) : draw(t, FUZZ_PEERS + 2)) | draw(t, 8) << 5), lengths[2];

	lengths[0] = (uint8_t)len;
	lengths[1] = (uint8_t)(len >> 8);
	switch (draw(t, 5)) {
	case 0:
		put_record(t, FUZZ_OPEN, slot, &peer, 1);
		break;
	case 1:
		put_record(t, FUZZ_LAZY, slot, &peer, 1);
		break;
	case 2:
		put_record(t, FUZZ_CLOSE, slot, NULL, 0);
		break;
	case 3:
		put_record(t, FUZZ_SERVE, chance(t, 4) ? 0 : 1, NULL, 0);
		break;
	default:
		put_record(t, FUZZ_PUSH, slot, lengths, 2);
	}
}

/* Messages to more hosts than ARP has entries for. */
static void
put_strangers(struct traffic *t)
{
	unsigned count = 2 + draw(t, 8), slot = draw(t, FUZZ_SLOTS);
	const uint8_t lengths[2] = { 40, 0 };

	while (count-- > 0) {
		uint8_t peer = (uint8_t)draw(t, 16);

		put_record(t, FUZZ_CLOSE, slot, NULL, 0);
		put_record(t, FUZZ_LAZY, slot, &peer, 1);
		for (unsigned i = draw(t, 6); i > 0; i--)
			put_record(t, FUZZ_PUSH, slot, lengths, sizeof(lengths));
	}
}

static void
put_something(struct traffic *t)
{
	switch (draw(t, 25)) {
	case 0:
	case 1:
	case 2:
		put_arp(t);
		break;
	case 3:
	case 4:
	case 5:
	case 6:
		put_datagram(t);
		break;
	case 7:
	case 8:
	case 9:
		put_fragments(t);
		break;
	case 10:
		put_station(t);
		break;
	case 11:
	case 12:
		put_record(t, FUZZ_TIME, draw(t, 13), NULL, 0);
		break;
	case 13:
		put_flood(t);
		break;
	case 14:
		put_strangers(t);
		break;
	case 15:
	case 16:
	case 17:
	case 18:
		put_payload(t);
		break;
	case 19:
	case 20:
		put_rpc(t);
		break;
	case 21:
		put_rpc_meeting(t, draw(t, FUZZ_PEERS));
		break;
	default:
		put_upper(t);
	}
}

size_t
fuzz_traffic_make(uint8_t *script, size_t max, uint64_t seed)
{
	struct traffic t = { script, 0, max, seed };
	unsigned count = 1 + draw(&t, 60);

	if (max == 0)
		return 0;
	script[t.len++] = (uint8_t)draw(&t, 256);
	while (count-- > 0)
		put_something(&t);
	return t.len;
}

size_t
fuzz_traffic_make_calls(uint8_t *script, size_t max, uint64_t seed)
{
	struct traffic t = { script, 0, max, seed };
	unsigned count = 1 + draw(&t, 80), graph;

	if (max == 0)
		return 0;
	graph = chance(&t, 3) ? FUZZ_SELECT_GRAPH : FUZZ_CALLS_GRAPH + draw(&t, 2);
	script[t.len++] = (uint8_t)(draw(&t, 8) | graph << 3);
	put_rpc_meeting(&t, 0); /* a peer that the host itself calls */
	while (count-- > 0) {
		if (chance(&t, 12))
			put_something(&t);
		else if (chance(&t, 8))
			put_record(&t, FUZZ_TIME, draw(&t, 10), NULL, 0);
		else if (chance(&t, 6))
			put_rpc_meeting(&t, draw(&t, 3));
		else
			put_rpc(&t);
	}
	return t.len;
}

size_t
fuzz_traffic_make_messages(uint8_t *script, size_t max, uint64_t seed)
{
	struct traffic t = { script, 0, max, seed };
	bool is_gm = chance(&t, 2);
	unsigned count = 1 + draw(&t, 80), peer, type = FUZZ_AM_TYPE;
	uint8_t payload[FUZZ_RPC_MAX];
	size_t len;

	if (max == 0)
		return 0;
	script[t.len++] = (uint8_t)(draw(&t, 8) | (is_gm ? FUZZ_GM_GRAPH : FUZZ_AM_GRAPH) << 3);
	put_rpc_meeting(&t, 0); /* a peer that the host itself sends to */
	while (count-- > 0) {
		peer = chance(&t, 4) ? draw(&t, 3) : 0;
		if (chance(&t, 12)) {
			put_something(&t);
		} else if (chance(&t, 8)) {
			put_record(&t, FUZZ_TIME, draw(&t, 10), NULL, 0);
		} else if (chance(&t, 8)) {
			put_rpc_meeting(&t, draw(&t, 3));
		} else {
			len = is_gm ? fuzz_rpc_make_gm(payload, peer, &t.random, &type)
				    : fuzz_am_make(payload, &t.random);
			put_rpc_message(&t, peer, payload, len, type);
		}
	}
	return t.len;
}

/* ---- mutation ---- */

/* Returns the length of the record at p; at least 1. */
static size_t
record_len(const uint8_t *p, size_t left)
{
	unsigned what = *p & 0xf;
	size_t len = 1;

	if (what == FUZZ_OPEN || what == FUZZ_LAZY)
		len = 2;
	else if (what == FUZZ_PUSH)
		len = 3;
	else if (what < FUZZ_TIME || what >= FUZZ_FIRST_FREE)
		len = left < 3 ? left : 3u + ((p[1] | (size_t)p[2] << 8) & FUZZ_FRAME_MAX);
	return len < left ? len : left;
}

/* Returns the start of a random record; *len: its length. */
static size_t
choose_record(struct traffic *t, size_t *len)
{
	size_t at = 1, chosen = 1;
	unsigned seen = 0;

	*len = t->len > 1 ? record_len(t->bytes + 1, t->len - 1) : 0;
	for (; at < t->len; at += record_len(t->bytes + at, t->len - at)) {
		if (!chance(t, ++seen))
			continue;
		chosen = at;
		*len = record_len(t->bytes + at, t->len - at);
	}
	return chosen;
}

static void
remove_record(struct traffic *t, size_t at, size_t len)
{
	memmove(t->bytes + at, t->bytes + at + len, t->len - at - len);
	t->len -= len;
}

/* Inserts a copy of the script's len bytes at `from` at `at`. */
static void
insert_record(struct traffic *t, size_t at, size_t from, size_t len)
{
	uint8_t copy[3 + FUZZ_FRAME_MAX];

	if (len > sizeof(copy) || t->max - t->len < len)
		return;
	memcpy(copy, t->bytes + from, len);
	memmove(t->bytes + at + len, t->bytes + at, t->len - at);
	memcpy(t->bytes + at, copy, len);
	t->len += len;
}

size_t
fuzz_traffic_mutate(uint8_t *script, size_t len, size_t max, uint64_t seed)
{
	struct traffic t = { script, len, max, seed };
	size_t record, at = choose_record(&t, &record), other, ignored;

	switch (record == 0 ? 0 : draw(&t, 6)) {
	case 0:
		put_something(&t);
		break;
	case 1:
		remove_record(&t, at, record);
		break;
	case 2:
		other = choose_record(&t, &ignored);
		insert_record(&t, other, at, record);
		break;
	case 3:
		script[at] = (uint8_t)((script[at] & 0xf) | draw(&t, 16) << 4);
		break;
	default:
		if (record > 3)
			damage(&t, script + at + 3, record - 3);
		else
			script[at + record - 1] ^= (uint8_t)(1 << draw(&t, 8));
	}
	return t.len;
}

size_t
fuzz_traffic_make_segments(uint8_t *script, size_t max, uint64_t seed)
{
	struct traffic t = { script, 0, max, seed };
	unsigned count = 1 + draw(&t, 120);

	if (max == 0)
		return 0;
	script[t.len++] = (uint8_t)(draw(&t, 8) | FUZZ_TCP_GRAPH << 3);
	put_acquaintance(&t, 0);
	while (count-- > 0) {
		if (chance(&t, 30))
			put_something(&t);
		else if (chance(&t, 8))
			put_record(&t, FUZZ_TIME, draw(&t, 12), NULL, 0);
		else
			put_segment(&t);
	}
	return t.len;
}
