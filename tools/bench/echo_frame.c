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
	FRAME_MORE = 0x2000, /* fragments follow */
};

struct echo_end
echo_frame_peer(const struct echo_frames *frames, uint32_t index)
{
	struct echo_end peer = {
		.link = UINT64_C(0x020000000000) | ((frames->neighbours ? index : 0) + 0x100),
		.address = 0x0a800100 + index,
		.port = (uint16_t)(3000 + index * UINT32_C(7919) % 60000),
	};

	return peer;
}

/* The part of UDP's sum that IP's addresses, the protocol and the length are; the addresses are in the frame. */
static uint64_t
frame_pseudo_sum(const uint8_t *frame)
{
	uint8_t rest[4] = { 0, FRAME_PROTOCOL, frame[FRAME_UDP_LEN], frame[FRAME_UDP_LEN + 1] };

	return xk_sum(xk_sum(0, frame + FRAME_IP_SOURCE, 8), rest, sizeof(rest));
}

/* The data of every message. */
static uint8_t
frame_byte(uint32_t at)
{
	return (uint8_t)(0xa5 + at);
}

/* Of what the first piece has; all its data is added to the datagram's sum. */
static void
frames_init_piece(struct echo_frames *frames, uint32_t number)
{
	struct echo_piece *piece = &frames->piece[number];
	uint32_t begin = number * ECHO_FRAME_PIECE, end = 8 + frames->size;
	uint8_t *frame = piece->template;

	if (end - begin > ECHO_FRAME_PIECE)
		end = begin + ECHO_FRAME_PIECE;
	piece->len = FRAME_UDP + end - begin;
	memcpy(frame, frames->template, FRAME_UDP);
	xk_put16(frame + FRAME_IP_LEN, (uint16_t)(20 + end - begin));
	xk_put16(frame + FRAME_IP_FRAGMENT, (uint16_t)(begin / 8 | (number + 1 < frames->pieces ? FRAME_MORE : 0)));
	for (uint32_t i = begin; i < end; i++)
		frame[FRAME_UDP + i - begin] = number == 0 ? frames->template[FRAME_UDP + i] : frame_byte(i - 8);
	piece->ip_sum = xk_sum(0, frame + FRAME_IP, 20);
	if (number > 0)
		frames->udp_sum += xk_sum(0, frame + FRAME_UDP, end - begin);
}

void
echo_frames_init(struct echo_frames *frames, const struct echo_end *server, uint32_t size)
{
	uint32_t first = size < ECHO_FRAME_MAX_SIZE ? size : ECHO_FRAME_MAX_SIZE;
	uint8_t *frame = frames->template;

	xk_assert(size <= ECHO_FRAME_MAX_MESSAGE);
	*frames = (struct echo_frames){ .server = *server,
					.len = ECHO_FRAME_HEADERS + first,
					.size = size,
					.pieces = (8 + size + ECHO_FRAME_PIECE - 1) / ECHO_FRAME_PIECE };
	xk_put48(frame + FRAME_TARGET, server->link);
	xk_put16(frame + FRAME_TYPE, 0x0800);
	frame[FRAME_IP] = 0x45;
	xk_put16(frame + FRAME_IP_LEN, (uint16_t)(20 + 8 + first));
	frame[FRAME_IP_TTL] = FRAME_TTL;
	frame[FRAME_IP_PROTOCOL] = FRAME_PROTOCOL;
	xk_put32(frame + FRAME_IP_TARGET, server->address);
	xk_put16(frame + FRAME_UDP_TARGET, server->port);
	xk_put16(frame + FRAME_UDP_LEN, (uint16_t)(8 + size));
	for (uint32_t i = 0; i < first; i++)
		frame[FRAME_DATA + i] = frame_byte(i);
	frames->ip_sum = xk_sum(0, frame + FRAME_IP, 20);
	frames->udp_sum = xk_sum(frame_pseudo_sum(frame), frame + FRAME_UDP, 8 + first);
	for (uint32_t i = 0; frames->pieces > 1 && i < frames->pieces; i++)
		frames_init_piece(frames, i);
}

/* Stores whole words, as they will be loaded: nothing has to wait until parts of one have met in the cache. */
void
echo_frame_write(const struct echo_frames *frames, uint32_t index, uint8_t *frame)
{
	struct echo_end peer = echo_frame_peer(frames, index);
	uint64_t address = __builtin_bswap32(peer.address);
	uint32_t udp_len = 8 + frames->size;
	uint16_t sum;

	if (xk_likely(frames->len == FRAME_SMALL))
		memcpy(frame, frames->template, FRAME_SMALL); /* of a length known here: no call */
	else
		memcpy(frame, frames->template, frames->len);
	xk_put48(frame + FRAME_SOURCE, peer.link);
	sum = xk_checksum_finish(frames->ip_sum + address);
	xk_put32(frame + FRAME_IP_TTL, FRAME_TTL << 24 | FRAME_PROTOCOL << 16 | __builtin_bswap16(sum));
	xk_put32(frame + FRAME_IP_SOURCE, peer.address);
	xk_put32(frame + FRAME_UDP_SOURCE, (uint32_t)peer.port << 16 | frames->server.port);
	sum = xk_checksum_finish(frames->udp_sum + address + __builtin_bswap16(peer.port));
	xk_put32(frame + FRAME_UDP_LEN, udp_len << 16 | __builtin_bswap16(sum == 0 ? 0xffff : sum));
}

bool
echo_frame_is_echo(const struct echo_frames *frames, uint32_t index, const uint8_t *frame, size_t len)
{
	struct echo_end peer = echo_frame_peer(frames, index);

	/* no shortcut: it costs the same whatever it finds */
	return ((len ^ frames->len) | (xk_get48(frame + FRAME_TARGET) ^ peer.link) |
		(xk_get48(frame + FRAME_SOURCE) ^ frames->server.link) |
		(xk_get32(frame + FRAME_IP_TARGET) ^ peer.address) |
		(xk_get32(frame + FRAME_IP_SOURCE) ^ frames->server.address) |
		(uint32_t)(xk_get16(frame + FRAME_UDP_TARGET) ^ peer.port) |
		(uint32_t)(xk_get16(frame + FRAME_UDP_SOURCE) ^ frames->server.port)) == 0;
}

const char *
echo_frame_check(const struct echo_frames *frames, uint32_t index, const uint8_t *frame, size_t len)
{
	const uint8_t *request = frames->template;
	size_t size = frames->len - ECHO_FRAME_HEADERS;

	if (len != frames->len)
		return "its length";
	if (!echo_frame_is_echo(frames, index, frame, len))
		return "an address or a port";
	if (xk_get16(frame + FRAME_TYPE) != 0x0800 || frame[FRAME_IP] != 0x45 || frame[FRAME_IP_TTL] == 0 ||
	    frame[FRAME_IP_PROTOCOL] != FRAME_PROTOCOL || (xk_get16(frame + FRAME_IP + 6) & 0xbfff) != 0)
		return "its type or IP header";
	if (xk_get16(frame + FRAME_IP_LEN) != 20 + 8 + size || xk_get16(frame + FRAME_UDP_LEN) != 8 + size)
		return "a length in its headers";
	if (xk_checksum_finish(xk_sum(0, frame + FRAME_IP, 20)) != 0)
		return "its IP checksum";
	if (xk_get16(frame + FRAME_UDP_SUM) == 0 ||
	    xk_checksum_finish(xk_sum(frame_pseudo_sum(frame), frame + FRAME_UDP, 8 + size)) != 0)
		return "its UDP checksum";
	return memcmp(frame + FRAME_DATA, request + FRAME_DATA, size) == 0 ? NULL : "its data";
}

/* ---- pieces ---- */

uint32_t
echo_frame_piece_len(const struct echo_frames *frames, uint32_t piece)
{
	return frames->piece[piece].len;
}

void
echo_frame_write_piece(const struct echo_frames *frames, uint32_t index, uint32_t piece, uint16_t id, uint8_t *frame)
{
	const struct echo_piece *p = &frames->piece[piece];
	struct echo_end peer = echo_frame_peer(frames, index);
	uint64_t address = __builtin_bswap32(peer.address);
	uint16_t sum;

	if (piece == 0) {
		echo_frame_write(frames, index, frame);
		memcpy(frame + FRAME_IP_FRAGMENT, p->template + FRAME_IP_FRAGMENT, 2);
	} else {
		memcpy(frame, p->template, p->len);
		xk_put48(frame + FRAME_SOURCE, peer.link);
		xk_put32(frame + FRAME_IP_SOURCE, peer.address);
	}
	xk_put16(frame + FRAME_IP_ID, id);
	sum = xk_checksum_finish(p->ip_sum + address + __builtin_bswap16(id));
	xk_put32(frame + FRAME_IP_TTL, FRAME_TTL << 24 | FRAME_PROTOCOL << 16 | __builtin_bswap16(sum));
}

bool
echo_frame_is_piece(const struct echo_frames *frames, uint32_t index, uint32_t piece, const uint8_t *frame, size_t len)
{
	const struct echo_piece *p = &frames->piece[piece];
	struct echo_end peer = echo_frame_peer(frames, index);
	uint32_t ports = (uint32_t)frames->server.port << 16 | peer.port;

	return ((len ^ p->len) | (xk_get48(frame + FRAME_TARGET) ^ peer.link) |
		(xk_get48(frame + FRAME_SOURCE) ^ frames->server.link) |
		(xk_get32(frame + FRAME_IP_TARGET) ^ peer.address) |
		(xk_get32(frame + FRAME_IP_SOURCE) ^ frames->server.address) |
		(uint32_t)(xk_get16(frame + FRAME_IP_FRAGMENT) ^ xk_get16(p->template + FRAME_IP_FRAGMENT)) |
		(piece == 0 ? xk_get32(frame + FRAME_UDP_SOURCE) ^ ports : 0)) == 0;
}

const char *
echo_frame_check_piece(const struct echo_frames *frames, uint32_t index, uint32_t piece, const uint8_t *frame,
		       size_t len, uint64_t *sum)
{
	const uint8_t *request = frames->piece[piece].template;
	size_t data = piece == 0 ? FRAME_DATA : FRAME_UDP;

	if (!echo_frame_is_piece(frames, index, piece, frame, len))
		return "the length, an address, the ports or the offset of a piece";
	if (xk_get16(frame + FRAME_TYPE) != 0x0800 || frame[FRAME_IP] != 0x45 || frame[FRAME_IP_TTL] == 0 ||
	    frame[FRAME_IP_PROTOCOL] != FRAME_PROTOCOL || xk_get16(frame + FRAME_IP_LEN) != len - FRAME_IP)
		return "the type or IP header of a piece";
	if (xk_checksum_finish(xk_sum(0, frame + FRAME_IP, 20)) != 0)
		return "the IP checksum of a piece";
	if (memcmp(frame + data, request + data, len - data) != 0)
		return "the data of a piece";
	if (piece == 0 && (xk_get16(frame + FRAME_UDP_LEN) != 8 + frames->size || xk_get16(frame + FRAME_UDP_SUM) == 0))
		return "its length, or it has no UDP checksum";
	*sum = (piece == 0 ? frame_pseudo_sum(frame) : *sum) + xk_sum(0, frame + FRAME_UDP, len - FRAME_UDP);
	return piece + 1 < frames->pieces || xk_checksum_finish(*sum) == 0 ? NULL : "its UDP checksum";
}
