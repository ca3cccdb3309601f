/* fused.c - see fused.h. One function each, apart from the loads, stores and sums of bytes.h and checksum.h. */
#include "experiments/floors/fused.h"

#include "xkernel/bytes.h"
#include "xkernel/checksum.h"

enum {
	FUSED_ETH = 14,
	FUSED_IP = 20,
	FUSED_UDP = 8,
	FUSED_TTL = 64,
	FUSED_PROTOCOL = 17,
	FUSED_PIECES = 3,
};

/* Returns the four bytes at p in the machine's byte order, for summing. */
static inline uint32_t
fused_word(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Returns the checksum of a sum of fewer than 2^16 32-bit words. */
static inline uint16_t
fused_finish(uint64_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~(sum + (sum >> 16));
}

bool
fused_echo(struct fused_host *host, struct xk_msg *m)
{
	uint8_t *eth = m->data, *ip = eth + FUSED_ETH, *udp = ip + FUSED_IP;
	uint32_t ip_len, udp_len, source, target, ports, word;
	uint64_t peer, pseudo, sum;

	if (m->len < FUSED_ETH + FUSED_IP + FUSED_UDP || m->next != NULL || !xk_msg_is_writable(m))
		return false;
	peer = xk_get48(eth + 6);
	if (xk_get48(eth) != host->link || xk_get16(eth + 12) != 0x0800 || (peer & UINT64_C(1) << 40))
		return false;

	ip_len = xk_get16(ip + 2);
	if (ip[0] != 0x45 || ip_len < FUSED_IP + FUSED_UDP || ip_len > m->len - FUSED_ETH)
		return false;
	sum = (uint64_t)fused_word(ip + 12) + fused_word(ip + 16);
	if (fused_finish(sum + fused_word(ip) + fused_word(ip + 4) + fused_word(ip + 8)) != 0)
		return false;
	if ((xk_get16(ip + 6) & 0xbfff) != 0 || ip[8] == 0 || ip[9] != FUSED_PROTOCOL)
		return false;
	source = xk_get32(ip + 12);
	target = xk_get32(ip + 16);
	if (target != host->address || source == target || source == 0 || source >= 0xe0000000)
		return false;

	udp_len = xk_get16(udp + 4);
	ports = xk_get32(udp);
	if (udp_len < FUSED_UDP || udp_len > ip_len - FUSED_IP || (uint16_t)ports != host->port || ports >> 16 == 0)
		return false;
	pseudo = sum + __builtin_bswap32(FUSED_PROTOCOL << 16 | udp_len);
	sum = pseudo + fused_word(udp) + fused_word(udp + 4) + xk_sum(0, udp + FUSED_UDP, udp_len - FUSED_UDP);
	if (xk_get16(udp + 6) != 0 && fused_finish(sum) != 0)
		return false;

	xk_msg_truncate(m, FUSED_ETH + FUSED_IP + udp_len);
	xk_put48(eth, peer);
	xk_put48(eth + 6, host->link);

	word = 0x45000000 | (FUSED_IP + udp_len);
	sum = __builtin_bswap32(word);
	xk_put32(ip, word);
	word = (uint32_t)++host->id << 16;
	sum += __builtin_bswap32(word);
	xk_put32(ip + 4, word);
	sum += __builtin_bswap32(FUSED_TTL << 24 | FUSED_PROTOCOL << 16);
	sum += (uint64_t)__builtin_bswap32(source) + __builtin_bswap32(target);
	xk_put32(ip + 8, FUSED_TTL << 24 | FUSED_PROTOCOL << 16 | __builtin_bswap16(fused_finish(sum)));
	xk_put32(ip + 12, target);
	xk_put32(ip + 16, source);

	ports = ports << 16 | ports >> 16;
	sum = pseudo + __builtin_bswap32(ports) + __builtin_bswap32(udp_len << 16);
	sum = fused_finish(sum + xk_sum(0, udp + FUSED_UDP, udp_len - FUSED_UDP));
	xk_put32(udp, ports);
	xk_put32(udp + 4, udp_len << 16 | __builtin_bswap16(sum == 0 ? 0xffff : (uint16_t)sum));
	return true;
}

/* One piece: the fields that all pieces of a datagram share, and its own length. */
struct fused_piece {
	uint64_t peer, address_sum;
	uint32_t source, len;
	uint16_t id, fragment;
};

/* Checks one piece's headers. */
static inline bool
fused_read(const struct fused_host *host, const struct xk_msg *m, struct fused_piece *piece)
{
	const uint8_t *eth = m->data, *ip = eth + FUSED_ETH;
	uint32_t ip_len;

	if (m->len < FUSED_ETH + FUSED_IP || m->next != NULL || !xk_msg_is_writable(m))
		return false;
	piece->peer = xk_get48(eth + 6);
	if (xk_get48(eth) != host->link || xk_get16(eth + 12) != 0x0800 || (piece->peer & UINT64_C(1) << 40))
		return false;
	ip_len = xk_get16(ip + 2);
	if (ip[0] != 0x45 || ip_len <= FUSED_IP || ip_len > m->len - FUSED_ETH)
		return false;
	piece->address_sum = (uint64_t)fused_word(ip + 12) + fused_word(ip + 16);
	if (fused_finish(piece->address_sum + fused_word(ip) + fused_word(ip + 4) + fused_word(ip + 8)) != 0)
		return false;
	piece->source = xk_get32(ip + 12);
	piece->len = ip_len - FUSED_IP;
	piece->id = xk_get16(ip + 4);
	piece->fragment = xk_get16(ip + 6);
	return ip[8] != 0 && ip[9] == FUSED_PROTOCOL && xk_get32(ip + 16) == host->address &&
	       piece->source != host->address && piece->source != 0 && piece->source < 0xe0000000;
}

/* Writes the headers of one piece of the echo. */
static inline void
fused_write(const struct fused_host *host, struct xk_msg *m, const struct fused_piece *piece)
{
	uint8_t *eth = m->data, *ip = eth + FUSED_ETH;
	uint32_t lengths = 0x45000000 | (FUSED_IP + piece->len), numbers = (uint32_t)host->id << 16 | piece->fragment;
	uint64_t sum = piece->address_sum + __builtin_bswap32(lengths) + __builtin_bswap32(numbers) +
		       __builtin_bswap32(FUSED_TTL << 24 | FUSED_PROTOCOL << 16);

	xk_msg_truncate(m, FUSED_ETH + FUSED_IP + piece->len);
	xk_put48(eth, piece->peer);
	xk_put48(eth + 6, host->link);
	xk_put32(ip, lengths);
	xk_put32(ip + 4, numbers);
	xk_put32(ip + 8, FUSED_TTL << 24 | FUSED_PROTOCOL << 16 | __builtin_bswap16(fused_finish(sum)));
	xk_put32(ip + 12, host->address);
	xk_put32(ip + 16, piece->source);
}

bool
fused_echo_pieces(struct fused_host *host, struct xk_msg *const *pieces, unsigned count)
{
	struct fused_piece piece[FUSED_PIECES];
	uint32_t len = 0, udp_len, ports;
	uint64_t sum = 0, pseudo;
	uint8_t *udp;

	if (count == 0 || count > FUSED_PIECES)
		return false;
	for (unsigned i = 0; i < count; i++) {
		uint16_t more = i + 1 < count ? 0x2000 : 0;

		if (!fused_read(host, pieces[i], &piece[i]) || piece[i].fragment != (len / 8 | more) ||
		    (more != 0 && piece[i].len % 8 != 0) || piece[i].id != piece[0].id ||
		    piece[i].source != piece[0].source || piece[i].peer != piece[0].peer)
			return false;
		sum += xk_sum(0, pieces[i]->data + FUSED_ETH + FUSED_IP, piece[i].len);
		len += piece[i].len;
	}
	if (piece[0].len < FUSED_UDP)
		return false;
	udp = pieces[0]->data + FUSED_ETH + FUSED_IP;
	udp_len = xk_get16(udp + 4);
	ports = xk_get32(udp);
	if (udp_len != len || (uint16_t)ports != host->port || ports >> 16 == 0)
		return false;
	pseudo = piece[0].address_sum + __builtin_bswap32(FUSED_PROTOCOL << 16 | udp_len);
	if (xk_get16(udp + 6) != 0 && fused_finish(pseudo + sum) != 0)
		return false;

	host->id++;
	xk_put32(udp, ports << 16 | ports >> 16);
	xk_put32(udp + 4, udp_len << 16);
	sum = 0;
	for (unsigned i = 0; i < count; i++) {
		sum += xk_sum(0, pieces[i]->data + FUSED_ETH + FUSED_IP, piece[i].len);
		fused_write(host, pieces[i], &piece[i]);
	}
	sum = fused_finish(pseudo + sum);
	xk_put32(udp + 4, udp_len << 16 | __builtin_bswap16(sum == 0 ? 0xffff : (uint16_t)sum));
	return true;
}
