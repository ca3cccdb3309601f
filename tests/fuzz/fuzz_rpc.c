/* fuzz_rpc.c - see fuzz_rpc.h. */
#include "tests/fuzz/fuzz_rpc.h"

#include <string.h>

#include "xkernel/bytes.h"
#include "xkernel/checksum.h"

enum { ETH_LEN = 14, IP_LEN = 20, BLAST_LEN = 24, BID_LEN = 24, BIDCTL_LEN = 40, CHAN_LEN = 20 };

/* Protocol numbers, on the link and on IP. */
enum { BLAST_TYPE = 0x3001, BID_TYPE = 0x3005, BIDCTL_TYPE = 0x3006, BLAST_IP = 101, BID_IP = 204, BIDCTL_IP = 205 };
enum { CHAN_ON_BID = 102, CHANTEST_ON_CHAN = 1, SELECT_ON_CHAN = 2, SELECT_LEN = 8, PEER_BOOT = 0x1000 };

enum { BLAST_SEND = 1, BLAST_NACK, BLAST_RETRANSMIT };
enum { BIDCTL_QUERY = 1, BIDCTL_RESPONSE, BIDCTL_BCAST = 4 };
enum { FROM_CLIENT = 1, USER_MSG = 2 };

/* ---- the parts of a frame ---- */

struct rpc_parts {
	uint8_t *bidctl, *blast, *bid, *chan, *gm, *am;
	size_t len; /* from gm or am to the end of the frame */
};

/* Finds the parts of a BID message of len bytes at p. */
static void
rpc_find_bid(struct rpc_parts *parts, uint8_t *p, size_t len)
{
	if (len < BID_LEN)
		return;
	parts->bid = p;
	if (len >= BID_LEN + CHAN_LEN && xk_get32(p) == CHAN_ON_BID)
		parts->chan = p + BID_LEN;
	if (xk_get32(p) == FUZZ_GM_ON_BID) {
		parts->gm = p + BID_LEN;
		parts->len = len - BID_LEN;
	}
}

/* Only a message's first fragment has the layers above BLAST. */
static void
rpc_find_blast(struct rpc_parts *parts, uint8_t *p, size_t len)
{
	if (len < BLAST_LEN)
		return;
	parts->blast = p;
	if (xk_get32(p) == BID_TYPE && p[14] != BLAST_NACK && (xk_get32(p + 4) == 0 || xk_get64(p + 16) == 1))
		rpc_find_bid(parts, p + BLAST_LEN, len - BLAST_LEN);
}

static struct rpc_parts
rpc_find(uint8_t *frame, size_t len)
{
	struct rpc_parts parts = { .bid = NULL };
	uint8_t *p = frame + ETH_LEN;
	unsigned type;

	if (len < ETH_LEN)
		return parts;
	type = xk_get16(frame + 12);
	len -= ETH_LEN;
	if (type == 0x0800 && len >= IP_LEN) {
		type = p[9];
		p += IP_LEN;
		len -= IP_LEN;
	}
	if ((type == BIDCTL_TYPE || type == BIDCTL_IP) && len >= BIDCTL_LEN)
		parts.bidctl = p;
	else if (type == BLAST_TYPE || type == BLAST_IP)
		rpc_find_blast(&parts, p, len);
	else if (type == BID_TYPE || type == BID_IP)
		rpc_find_bid(&parts, p, len);
	if (type == FUZZ_AM_TYPE) {
		parts.am = p;
		parts.len = len;
	}
	return parts;
}

/* ---- memory ---- */

/* Returns the peer that has this link address; the first if none has. */
static unsigned
rpc_peer(const uint8_t *link)
{
	uint64_t peer = xk_get48(link) - FUZZ_PEER_LINK;

	return peer < FUZZ_PEERS ? (unsigned)peer : 0;
}

void
fuzz_rpc_remember(struct fuzz_rpc_memory *memory, const uint8_t *frame, size_t len)
{
	struct rpc_parts parts = rpc_find((uint8_t *)frame, len);

	if (parts.bidctl != NULL) {
		memory->boots[rpc_peer(frame)] = xk_get64(parts.bidctl + 8);
		if (xk_get16(parts.bidctl) & BIDCTL_QUERY)
			memory->tag = xk_get64(parts.bidctl + 24);
	}
	if (parts.blast != NULL && xk_get32(parts.blast + 4) != 0)
		memory->blast_sequence = xk_get32(parts.blast + 4);
	if (parts.bid != NULL)
		memory->boots[rpc_peer(frame)] = xk_get64(parts.bid + 8);
	if (parts.chan != NULL) {
		memory->channel = xk_get32(parts.chan);
		memory->sequence = xk_get32(parts.chan + 12);
	}
	if (parts.gm != NULL)
		fuzz_gm_remember(&memory->messages, parts.gm, parts.len);
	if (parts.am != NULL)
		fuzz_am_remember(&memory->messages, parts.am, parts.len);
}

void
fuzz_rpc_recall(const struct fuzz_rpc_memory *memory, uint8_t *frame, size_t len)
{
	struct rpc_parts parts = rpc_find(frame, len);

	if (parts.bidctl != NULL && xk_get16(parts.bidctl + 2) == 0) {
		fuzz_recall64(parts.bidctl + 16, memory->boots[rpc_peer(frame + 6)]);
		fuzz_recall64(parts.bidctl + 32, memory->tag);
		xk_checksum_store(parts.bidctl + 2, xk_checksum_finish(xk_sum(0, parts.bidctl, BIDCTL_LEN)));
	}
	if (parts.blast != NULL)
		fuzz_recall32(parts.blast + 4, memory->blast_sequence);
	if (parts.bid != NULL)
		fuzz_recall64(parts.bid + 16, memory->boots[rpc_peer(frame + 6)]);
	if (parts.chan != NULL) {
		fuzz_recall32(parts.chan, memory->channel);
		fuzz_recall32(parts.chan + 12, memory->sequence);
	}
	if (parts.gm != NULL)
		fuzz_gm_recall(&memory->messages, parts.gm, parts.len);
	if (parts.am != NULL)
		fuzz_am_recall(&memory->messages, parts.am, parts.len);
}

/* ---- messages ---- */

static bool
chance(uint64_t *random, unsigned one_in)
{
	return fuzz_draw(random, one_in) == 0;
}

/* Returns mostly `right`, sometimes `wrong`. */
static uint64_t
mostly(uint64_t *random, uint64_t right, uint64_t wrong)
{
	return chance(random, 12) ? wrong : right;
}

static size_t
make_bidctl(uint8_t *p, unsigned peer, unsigned flags, uint64_t request)
{
	memset(p, 0, BIDCTL_LEN);
	xk_put16(p, (uint16_t)flags);
	xk_put32(p + 4, FUZZ_PEER_HOST + peer);
	xk_put64(p + 8, PEER_BOOT + peer);
	xk_put64(p + 16, flags == BIDCTL_BCAST ? 0 : UINT64_MAX);
	xk_put64(p + 24, flags & BIDCTL_QUERY ? request : 0);
	xk_put64(p + 32, flags & BIDCTL_RESPONSE ? UINT64_MAX : 0);
	return BIDCTL_LEN;
}

size_t
fuzz_rpc_make_response(uint8_t *payload, unsigned peer, unsigned *type)
{
	*type = BIDCTL_TYPE;
	return make_bidctl(payload, peer, BIDCTL_RESPONSE, 0);
}

/* Makes a SELECT header of a call or a reply; rarely truncated. Returns its length. */
static size_t
make_select(uint8_t *p, uint64_t *random, bool is_call)
{
	static const uint16_t statuses[] = { 1, 1, 1, 2, 3, 4, 256 + 110, 5, 5000 };

	xk_put32(p, FUZZ_PROCEDURE + fuzz_draw(random, FUZZ_PROCEDURES + 1));
	xk_put32(p + 4, is_call ? (uint32_t)mostly(random, 0, fuzz_draw(random, 5))
				: statuses[fuzz_draw(random, XK_ARRAY_LENGTH(statuses))]);
	return chance(random, 24) ? fuzz_draw(random, SELECT_LEN) : SELECT_LEN;
}

/* Makes a CHAN message, with few channels and sequence numbers, so that they match. Every third carries SELECT. */
static size_t
make_chan(uint8_t *p, uint64_t *random, unsigned flags)
{
	bool selects = chance(random, 3);
	size_t len = flags & USER_MSG && !(flags & 16) ? fuzz_draw(random, 24) : 0;

	memset(p, 0, CHAN_LEN + SELECT_LEN + len);
	if (selects && flags & USER_MSG)
		len += make_select(p + CHAN_LEN, random, (flags & FROM_CLIENT) != 0);
	xk_put32(p, (flags & FROM_CLIENT) && !chance(random, 8) ? fuzz_draw(random, 3) : UINT32_MAX);
	xk_put16(p + 4, (uint16_t)flags);
	xk_put16(p + 6, (uint16_t)(flags & 16 || chance(random, 16) ? fuzz_draw(random, 0x1100) : 0));
	xk_put32(p + 8, (uint32_t)mostly(random, selects ? SELECT_ON_CHAN : CHANTEST_ON_CHAN, 3));
	xk_put32(p + 12, (flags & FROM_CLIENT) && !chance(random, 6) ? 5 + fuzz_draw(random, 4) : UINT32_MAX);
	xk_put32(p + 16, (uint32_t)mostly(random, len, fuzz_draw(random, 64)));
	return CHAN_LEN + len;
}

static void
make_bid_header(uint8_t *p, unsigned peer, uint64_t *random, uint32_t number)
{
	xk_put32(p, (uint32_t)mostly(random, number, 206));
	xk_put32(p + 4, FUZZ_PEER_HOST + (uint32_t)mostly(random, peer, fuzz_draw(random, FUZZ_PEERS)));
	xk_put64(p + 8, PEER_BOOT + mostly(random, peer, fuzz_draw(random, 64)));
	xk_put64(p + 16, mostly(random, UINT64_MAX, fuzz_draw(random, 3)));
}

static size_t
make_bid(uint8_t *p, unsigned peer, uint64_t *random, unsigned flags)
{
	make_bid_header(p, peer, random, CHAN_ON_BID);
	if (chance(random, 24))
		return BID_LEN;
	return BID_LEN + make_chan(p + BID_LEN, random, flags);
}

/* Makes a message in BLAST, whole or as one of two or three fragments, or without BLAST (VSIZE). */
static size_t
make_message(uint8_t *p, unsigned peer, uint64_t *random, unsigned flags, unsigned *type)
{
	bool on_ip = chance(random, 4);
	size_t len;

	if (chance(random, 3)) {
		*type = on_ip ? BID_IP : BID_TYPE;
		return make_bid(p, peer, random, flags);
	}
	*type = on_ip ? BLAST_IP : BLAST_TYPE;
	len = make_bid(p + BLAST_LEN, peer, random, flags);
	memset(p, 0, BLAST_LEN);
	xk_put32(p, BID_TYPE);
	xk_put32(p + 8, (uint32_t)len);
	p[14] = BLAST_SEND;
	p[15] = 64;
	if (!chance(random, 6))
		return BLAST_LEN + len;
	xk_put32(p + 4, 1 + fuzz_draw(random, 3));
	xk_put16(p + 12, (uint16_t)(2 + fuzz_draw(random, 2)));
	p[14] = chance(random, 4) ? BLAST_RETRANSMIT : BLAST_SEND;
	xk_put64(p + 16, UINT64_C(1) << fuzz_draw(random, 3));
	return BLAST_LEN + len;
}

/* Makes a NACK: the host has sent a message in fragments, some of which are missing. */
static size_t
make_nack(uint8_t *p, uint64_t *random, unsigned *type)
{
	*type = chance(random, 4) ? BLAST_IP : BLAST_TYPE;
	memset(p, 0, BLAST_LEN);
	xk_put32(p, BID_TYPE);
	xk_put32(p + 4, UINT32_MAX);
	xk_put16(p + 12, (uint16_t)(2 + fuzz_draw(random, 4)));
	p[14] = BLAST_NACK;
	p[15] = 64;
	xk_put64(p + 16, 1 + fuzz_draw(random, 6));
	return BLAST_LEN;
}

size_t
fuzz_rpc_make_request(uint8_t *payload, unsigned peer, uint64_t *random, unsigned *type)
{
	return make_message(payload, peer, random, FROM_CLIENT | USER_MSG, type);
}

size_t
fuzz_rpc_make_gm(uint8_t *payload, unsigned peer, uint64_t *random, unsigned *type)
{
	*type = BID_TYPE;
	make_bid_header(payload, peer, random, FUZZ_GM_ON_BID);
	return BID_LEN + fuzz_gm_make(payload + BID_LEN, random);
}

size_t
fuzz_rpc_make(uint8_t *payload, unsigned peer, uint64_t *random, unsigned *type)
{
	static const uint8_t flags[] = { 3, 3, 3, 7, 7, 5, 9, 1, 0, 2, 2, 2, 6, 4, 8, 16, 18, 22, 10, 31 };
	static const uint8_t controls[] = { BIDCTL_QUERY, BIDCTL_RESPONSE, BIDCTL_QUERY | BIDCTL_RESPONSE,
					    BIDCTL_BCAST };

	switch (fuzz_draw(random, 8)) {
	case 0:
		*type = chance(random, 4) ? BIDCTL_IP : BIDCTL_TYPE;
		return make_bidctl(payload, peer, controls[fuzz_draw(random, sizeof(controls))],
				   1 + fuzz_draw(random, 9));
	case 1:
		return make_nack(payload, random, type);
	case 2:
		return fuzz_rpc_make_gm(payload, peer, random, type);
	case 3:
		*type = FUZZ_AM_TYPE;
		return fuzz_am_make(payload, random);
	default:
		return make_message(payload, peer, random, flags[fuzz_draw(random, sizeof(flags))], type);
	}
}
