/* echo_frame.c - see echo_frame.h. */
#include "tools/bench/echo_frame.h"

#include "xkernel/bytes.h"
#include "xkernel/checksum.h"

enum {
	FRAME_TARGET = 0,
	FRAME_SOURCE = 6,
	FRAME_TYPE = 12,
	FRAME_IP = 14,
	FRAME_IP_LEN = FRAME_IP + 2,
	FRAME_IP_ID = FRAME_IP + 4,
	FRAME_IP_FRAGMENT = FRAME_IP + 6,
	FRAME_IP_TTL = FRAME_IP + 8,
	FRAME_IP_PROTOCOL = FRAME_IP + 9,
	FRAME_IP_SUM = FRAME_IP + 10,
	FRAME_IP_SOURCE = FRAME_IP + 12,
	FRAME_IP_TARGET = FRAME_IP + 16,
	FRAME_UDP = FRAME_IP + 20,
	FRAME_UDP_SOURCE = FRAME_UDP,
	FRAME_UDP_TARGET = FRAME_UDP + 2,
	FRAME_UDP_LEN = FRAME_UDP + 4,
	FRAME_UDP_SUM = FRAME_UDP + 6,
	FRAME_DATA = FRAME_UDP + 8,
	FRAME_TTL = 64,
	FRAME_PROTOCOL = 17,
	FRAME_SMALL = ECHO_FRAME_HEADERS + 1,
	FRAME_MORE = 0x2000,  /* fragments follow */
	FRAME_WHOLE = 0x4000, /* must not be fragmented */
};

/* Returns the peer with this index. Addresses lie in 10.128.0.0/9. */
static inline struct echo_end
frame_peer(const struct echo_frames *frames, uint32_t index)
{
	return (struct echo_end){
		.link = UINT64_C(0x020000000000) | ((frames->neighbours ? index : 0) + 0x100),
		.address = 0x0a800100 + index,
		.port = (uint16_t)(3000 + index * UINT32_C(7919) % 60000),
	};
}

/* Returns the sum of the pseudo-header of UDP: addresses, protocol and length from the frame. */
static uint64_t
frame_pseudo_sum(const uint8_t *frame)
{
	uint8_t rest[4] = { 0, FRAME_PROTOCOL, frame[FRAME_UDP_LEN], frame[FRAME_UDP_LEN + 1] };

	return xk_sum(xk_sum(0, frame + FRAME_IP_SOURCE, 8), rest, sizeof(rest));
}

void
echo_frames_init(struct echo_frames *frames, const struct echo_end *server, uint32_t size)
{
	uint32_t len = 8 + size; /* length of the datagram: UDP header and data */

	xk_assert(size <= ECHO_FRAME_MAX_MESSAGE);
	*frames = (struct echo_frames){ .server = *server,
					.size = size,
					.pieces = (len + ECHO_FRAME_PIECE - 1) / ECHO_FRAME_PIECE };
	for (uint32_t number = 0; number < frames->pieces; number++) {
		struct echo_piece *piece = &frames->piece[number];
		uint32_t begin = number * ECHO_FRAME_PIECE;
		uint32_t part = len - begin < ECHO_FRAME_PIECE ? len - begin : ECHO_FRAME_PIECE;
		uint8_t *frame = piece->template;

		piece->len = FRAME_UDP + part;
		xk_put48(frame + FRAME_TARGET, server->link);
		xk_put16(frame + FRAME_TYPE, 0x0800);
		frame[FRAME_IP] = 0x45;
		xk_put16(frame + FRAME_IP_LEN, (uint16_t)(20 + part));
		xk_put16(frame + FRAME_IP_FRAGMENT,
			 (uint16_t)(begin / 8 | (number + 1 < frames->pieces ? FRAME_MORE : 0)));
		frame[FRAME_IP_TTL] = FRAME_TTL;
		frame[FRAME_IP_PROTOCOL] = FRAME_PROTOCOL;
		xk_put32(frame + FRAME_IP_TARGET, server->address);
		for (uint32_t i = 0; i < part; i++)
			frame[FRAME_UDP + i] = (uint8_t)(0xa5 + begin + i - 8);
		if (number == 0) {
			memset(frame + FRAME_UDP, 0, 8);
			xk_put16(frame + FRAME_UDP_TARGET, server->port);
			xk_put16(frame + FRAME_UDP_LEN, (uint16_t)len);
			frames->udp_sum = frame_pseudo_sum(frame);
		}
		piece->ip_sum = xk_sum(0, frame + FRAME_IP, 20);
		frames->udp_sum = xk_sum(frames->udp_sum, frame + FRAME_UDP, part);
	}
	frames->len = frames->piece[0].len;
}

/* Stores fields in the sizes in which they will be loaded, so that no load waits for several partial stores. */
void
echo_frame_write(const struct echo_frames *frames, uint32_t peer, uint8_t *frame)
{
	const struct echo_piece *piece = &frames->piece[0];
	struct echo_end from = frame_peer(frames, peer);
	uint64_t address = __builtin_bswap32(from.address);
	uint32_t udp_len = 8 + frames->size;
	uint16_t sum;

	if (xk_likely(frames->len == FRAME_SMALL))
		memcpy(frame, piece->template, FRAME_SMALL); /* the compiler knows the length: no call */
	else
		memcpy(frame, piece->template, frames->len);
	xk_put48(frame + FRAME_SOURCE, from.link);
	sum = xk_checksum_finish(piece->ip_sum + address);
	xk_put32(frame + FRAME_IP_TTL, FRAME_TTL << 24 | FRAME_PROTOCOL << 16 | __builtin_bswap16(sum));
	xk_put32(frame + FRAME_IP_SOURCE, from.address);
	xk_put32(frame + FRAME_UDP_SOURCE, (uint32_t)from.port << 16 | frames->server.port);
	sum = xk_checksum_finish(frames->udp_sum + address + __builtin_bswap16(from.port));
	xk_put32(frame + FRAME_UDP_LEN, udp_len << 16 | __builtin_bswap16(sum == 0 ? 0xffff : sum));
}

void
echo_frame_write_piece(const struct echo_frames *frames, uint32_t peer, uint32_t piece, uint16_t id, uint8_t *frame)
{
	const struct echo_piece *p = &frames->piece[piece];
	struct echo_end from = frame_peer(frames, peer);
	uint64_t address = __builtin_bswap32(from.address);
	uint16_t sum;

	if (piece == 0) {
		echo_frame_write(frames, peer, frame);
	} else {
		memcpy(frame, p->template, p->len);
		xk_put48(frame + FRAME_SOURCE, from.link);
		xk_put32(frame + FRAME_IP_SOURCE, from.address);
	}
	xk_put16(frame + FRAME_IP_ID, id);
	sum = xk_checksum_finish(p->ip_sum + address + __builtin_bswap16(id));
	xk_put32(frame + FRAME_IP_TTL, FRAME_TTL << 24 | FRAME_PROTOCOL << 16 | __builtin_bswap16(sum));
}

bool
echo_frame_is_echo(const struct echo_frames *frames, uint32_t peer, uint32_t piece, const uint8_t *frame, size_t len)
{
	const struct echo_piece *p = &frames->piece[piece];
	struct echo_end to = frame_peer(frames, peer);
	uint32_t ports = (uint32_t)frames->server.port << 16 | to.port;

	return ((len ^ p->len) | (xk_get48(frame + FRAME_TARGET) ^ to.link) |
		(xk_get48(frame + FRAME_SOURCE) ^ frames->server.link) |
		(xk_get32(frame + FRAME_IP_TARGET) ^ to.address) |
		(xk_get32(frame + FRAME_IP_SOURCE) ^ frames->server.address) |
		(uint32_t)((xk_get16(frame + FRAME_IP_FRAGMENT) ^ xk_get16(p->template + FRAME_IP_FRAGMENT)) &
			   ~FRAME_WHOLE) |
		(piece == 0 ? xk_get32(frame + FRAME_UDP_SOURCE) ^ ports : 0)) == 0;
}

const char *
echo_frame_check_piece(const struct echo_frames *frames, uint32_t peer, uint32_t piece, const uint8_t *frame,
		       size_t len, uint64_t *sum)
{
	size_t data = piece == 0 ? FRAME_DATA : FRAME_UDP;

	if (len != frames->piece[piece].len)
		return "its length";
	if (!echo_frame_is_echo(frames, peer, piece, frame, len))
		return "an address, a port or the offset of a piece";
	if (xk_get16(frame + FRAME_TYPE) != 0x0800 || frame[FRAME_IP] != 0x45 || frame[FRAME_IP_TTL] == 0 ||
	    frame[FRAME_IP_PROTOCOL] != FRAME_PROTOCOL || xk_get16(frame + FRAME_IP_LEN) != len - FRAME_IP)
		return "its type or IP header";
	if (xk_checksum_finish(xk_sum(0, frame + FRAME_IP, 20)) != 0)
		return "its IP checksum";
	if (piece == 0 && (xk_get16(frame + FRAME_UDP_LEN) != 8 + frames->size || xk_get16(frame + FRAME_UDP_SUM) == 0))
		return "its UDP header";
	if (memcmp(frame + data, frames->piece[piece].template + data, len - data) != 0)
		return "its data";
	*sum = xk_sum(piece == 0 ? frame_pseudo_sum(frame) : *sum, frame + FRAME_UDP, len - FRAME_UDP);
	return piece + 1 < frames->pieces || xk_checksum_finish(*sum) == 0 ? NULL : "its UDP checksum";
}
