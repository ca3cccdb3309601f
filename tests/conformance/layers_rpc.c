/*
 * layers_rpc.c - the headers of BLAST, BIDCTL, BID, CHAN, GM and AM, as in layers.c. Sources: the top comments of
 * protocols/blast/blast.c, bidctl.c, bid.c, chan.c, gm.c and am.c.
 */
#include "tests/conformance/layers_private.h"

enum { USUAL_BOOT = 0xb007, USUAL_CHANNEL = 0x1234, USUAL_PROTOCOL = 1 };

static uint64_t
load(const struct field *fields, int field, const uint8_t *header)
{
	return field_load(&fields[field], header);
}

/* ---- BLAST ---- */

enum { BLAST_PROTOCOL, BLAST_SEQ, BLAST_LEN, BLAST_COUNT, BLAST_OP, BLAST_WIDTH, BLAST_MASK };

enum { BLAST_LENGTH = 24, OP_SEND = 1, OP_NACK = 2, OP_RETRANSMIT = 3, WIDTH = 64 };

static const struct field blast_fields[] = {
	{ "protocol", 0, 32, 1, 17 }, { "seq", 32, 32, 1, 0 },      { "len", 64, 32, 1, 0 },
	{ "count", 96, 16, 1, 0 },    { "op", 112, 8, 1, OP_SEND }, { "width", 120, 8, 1, WIDTH },
	{ "mask", 128, 64, 1, 0 },    { NULL, 0, 0, 0, 0 },
};

static void
blast_complete(struct packet *packet, unsigned at, uint8_t *header, size_t body_len)
{
	layer_compute(packet, at, BLAST_PROTOCOL, layer_number(packet, at), header);
	layer_compute(packet, at, BLAST_LEN, body_len - BLAST_LENGTH, header);
}

/* Returns true if the mask suits the op: one fragment of the message, or some of them but not all. */
static bool
blast_mask_is_good(const uint8_t *header)
{
	uint64_t mask = load(blast_fields, BLAST_MASK, header), count = load(blast_fields, BLAST_COUNT, header);
	uint64_t all = count == 0 || count > WIDTH ? 0 : UINT64_MAX >> (WIDTH - count);

	if (load(blast_fields, BLAST_SEQ, header) == 0)
		return mask == 0 && count == 0;
	if (mask == 0 || (mask & ~all) != 0)
		return false;
	return load(blast_fields, BLAST_OP, header) == OP_NACK ? mask != all : (mask & (mask - 1)) == 0;
}

static const char *
blast_check(const struct packet *packet, unsigned at, const uint8_t *header, size_t *body_len)
{
	uint64_t op = load(blast_fields, BLAST_OP, header);

	if (load(blast_fields, BLAST_WIDTH, header) != WIDTH)
		return "blast has a wrong mask width";
	if (op < OP_SEND || op > OP_RETRANSMIT)
		return "blast has a wrong op";
	if (!layer_is_given(packet, at, BLAST_LEN) && load(blast_fields, BLAST_LEN, header) != *body_len - BLAST_LENGTH)
		return "blast has a wrong length";
	if (!blast_mask_is_good(header))
		return "blast has an impossible mask";
	if (!layer_is_given(packet, at, BLAST_PROTOCOL) && layer_above(packet, at) != NULL &&
	    load(blast_fields, BLAST_PROTOCOL, header) != layer_number(packet, at))
		return "blast carries another protocol";
	return NULL;
}

const struct layer_type layer_blast = { "blast", BLAST_LENGTH, blast_fields, blast_complete, blast_check };

/* ---- BIDCTL ---- */

enum { BIDCTL_FLAGS, BIDCTL_SUM, BIDCTL_HOST, BIDCTL_SOURCE, BIDCTL_DESTINATION, BIDCTL_REQUEST, BIDCTL_REPLY };

enum { BIDCTL_LENGTH = 40 };

static const struct field bidctl_fields[] = {
	{ "flags", 0, 16, 1, 0 },         { "sum", 16, 16, 1, 0 },
	{ "host", 32, 32, 1, 0 },         { "source", 64, 64, 1, USUAL_BOOT },
	{ "destination", 128, 64, 1, 0 }, { "request", 192, 64, 1, 0 },
	{ "reply", 256, 64, 1, 0 },       { NULL, 0, 0, 0, 0 },
};

static void
bidctl_complete(struct packet *packet, unsigned at, uint8_t *header, size_t body_len)
{
	layer_compute_sum(packet, at, BIDCTL_SUM, checksum_end(checksum_add(0, header, BIDCTL_LENGTH)), header);
}

static const char *
bidctl_check(const struct packet *packet, unsigned at, const uint8_t *header, size_t *body_len)
{
	if (!layer_is_given(packet, at, BIDCTL_SUM) && checksum_end(checksum_add(0, header, BIDCTL_LENGTH)) != 0)
		return "bidctl has a wrong checksum";
	if (load(bidctl_fields, BIDCTL_SOURCE, header) == 0)
		return "bidctl has no boot id";
	return *body_len != BIDCTL_LENGTH ? "bidctl has bytes behind its header" : NULL;
}

const struct layer_type layer_bidctl = { "bidctl", BIDCTL_LENGTH, bidctl_fields, bidctl_complete, bidctl_check };

/* ---- BID ---- */

enum { BID_PROTOCOL, BID_HOST, BID_SOURCE, BID_DESTINATION };

static const struct field bid_fields[] = {
	{ "protocol", 0, 32, 1, 17 },     { "host", 32, 32, 1, 0 }, { "source", 64, 64, 1, USUAL_BOOT },
	{ "destination", 128, 64, 1, 0 }, { NULL, 0, 0, 0, 0 },
};

static void
bid_complete(struct packet *packet, unsigned at, uint8_t *header, size_t body_len)
{
	layer_compute(packet, at, BID_PROTOCOL, layer_number(packet, at), header);
}

static const char *
bid_check(const struct packet *packet, unsigned at, const uint8_t *header, size_t *body_len)
{
	if (load(bid_fields, BID_SOURCE, header) == 0)
		return "bid has no boot id";
	if (!layer_is_given(packet, at, BID_PROTOCOL) && layer_above(packet, at) != NULL &&
	    load(bid_fields, BID_PROTOCOL, header) != layer_number(packet, at))
		return "bid carries another protocol";
	return NULL;
}

const struct layer_type layer_bid = { "bid", 24, bid_fields, bid_complete, bid_check };

/* ---- CHAN ---- */

enum { CHAN_CHANNEL, CHAN_FLAGS, CHAN_STATUS, CHAN_PROTOCOL, CHAN_SEQ, CHAN_LEN };

enum { CHAN_LENGTH = 20 };

static const struct field chan_fields[] = {
	{ "channel", 0, 32, 1, USUAL_CHANNEL },
	{ "flags", 32, 16, 1, 0 },
	{ "status", 48, 16, 1, 0 },
	{ "protocol", 64, 32, 1, USUAL_PROTOCOL },
	{ "seq", 96, 32, 1, 0 },
	{ "len", 128, 32, 1, 0 },
	{ NULL, 0, 0, 0, 0 },
};

static void
chan_complete(struct packet *packet, unsigned at, uint8_t *header, size_t body_len)
{
	layer_compute(packet, at, CHAN_LEN, body_len - CHAN_LENGTH, header);
}

static const char *
chan_check(const struct packet *packet, unsigned at, const uint8_t *header, size_t *body_len)
{
	if (!layer_is_given(packet, at, CHAN_LEN) && load(chan_fields, CHAN_LEN, header) != *body_len - CHAN_LENGTH)
		return "chan has a wrong length";
	return NULL;
}

const struct layer_type layer_chan = { "chan", CHAN_LENGTH, chan_fields, chan_complete, chan_check };

/* ---- GM ---- */

enum { GM_SRC, GM_DST, GM_KIND, GM_LEN, GM_TOTAL, GM_OFFSET, GM_BEGIN, GM_NUMBER, GM_PREVIOUS };

enum { GM_LENGTH = 40, GM_KINDS = 5, USUAL_BEGIN = 100 };

static const struct field gm_fields[] = {
	{ "src", 0, 16, 1, 5000 },
	{ "dst", 16, 16, 1, 2001 },
	{ "kind", 32, 16, 1, 1 },
	{ "len", 48, 16, 1, 0 },
	{ "total", 64, 32, 1, 0 },
	{ "offset", 96, 32, 1, 0 },
	{ "begin", 128, 64, 1, USUAL_BEGIN },
	{ "number", 192, 64, 1, 0 },
	{ "previous", 256, 64, 1, 0 },
	{ NULL, 0, 0, 0, 0 },
};

static void
gm_complete(struct packet *packet, unsigned at, uint8_t *header, size_t body_len)
{
	layer_compute(packet, at, GM_LEN, body_len - GM_LENGTH, header);
	layer_compute(packet, at, GM_TOTAL, body_len - GM_LENGTH, header);
}

static const char *
gm_check(const struct packet *packet, unsigned at, const uint8_t *header, size_t *body_len)
{
	uint64_t kind = load(gm_fields, GM_KIND, header), number = load(gm_fields, GM_NUMBER, header);

	if (kind == 0 || kind > GM_KINDS)
		return "gm has a wrong kind";
	if (!layer_is_given(packet, at, GM_LEN) && load(gm_fields, GM_LEN, header) != *body_len - GM_LENGTH)
		return "gm has a wrong length";
	if (number != 0 && load(gm_fields, GM_PREVIOUS, header) >= number)
		return "gm has a previous packet later than this one";
	return load(gm_fields, GM_BEGIN, header) == 0 ? "gm has no session" : NULL;
}

const struct layer_type layer_gm = { "gm", GM_LENGTH, gm_fields, gm_complete, gm_check };

/* ---- AM ---- */

enum { AM_KIND, AM_WORDS, AM_HANDLER, AM_SEQUENCE, AM_OLDEST, AM_LEN, AM_TO, AM_FROM };

enum { AM_LENGTH = 32, AM_KINDS = 10, AM_CALL = 1, USUAL_NUMBER = 0xa11 };

static const struct field am_fields[] = {
	{ "kind", 0, 8, 1, 4 },      { "words", 8, 8, 1, 0 },
	{ "handler", 16, 16, 1, 0 }, { "sequence", 32, 32, 1, 0 },
	{ "oldest", 64, 32, 1, 0 },  { "len", 96, 32, 1, 0 },
	{ "to", 128, 64, 1, 0 },     { "from", 192, 64, 1, USUAL_NUMBER },
	{ NULL, 0, 0, 0, 0 },
};

static void
am_complete(struct packet *packet, unsigned at, uint8_t *header, size_t body_len)
{
	layer_compute(packet, at, AM_LEN, body_len - AM_LENGTH, header);
}

static const char *
am_check(const struct packet *packet, unsigned at, const uint8_t *header, size_t *body_len)
{
	uint64_t kind = load(am_fields, AM_KIND, header), len = *body_len - AM_LENGTH;

	if (kind == 0 || kind > AM_KINDS)
		return "am has a wrong kind";
	if (!layer_is_given(packet, at, AM_LEN) && load(am_fields, AM_LEN, header) != len)
		return "am has a wrong length";
	if (kind == AM_CALL ? len != 12 : kind < 4 || kind > 6 ? len != 0 : 4 * load(am_fields, AM_WORDS, header) > len)
		return "am has an impossible length for its kind";
	return load(am_fields, AM_FROM, header) == 0 ? "am has no session" : NULL;
}

const struct layer_type layer_am = { "am", AM_LENGTH, am_fields, am_complete, am_check };
