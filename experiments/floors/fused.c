/* fused.c - see fused.h. One function, but for the loads, stores and sums of bytes.h and checksum.h. */
#include "experiments/floors/fused.h"

#include "xkernel/bytes.h"
#include "xkernel/checksum.h"

enum {
	FUSED_ETH = 14,
	FUSED_IP = 20,
	FUSED_UDP = 8,
	FUSED_TTL = 64,
	FUSED_PROTOCOL = 17,
};

/* The four bytes at p as the machine reads them: what sums are made of. */
static inline uint32_t
fused_word(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* The checksum over a sum of fewer than 2^16 words of 32 bits. */
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
