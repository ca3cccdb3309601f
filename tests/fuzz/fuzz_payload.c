/* fuzz_payload.c - peers' messages above IP in scripts, and their checksums; see fuzz_payload.h. */
#include "tests/fuzz/fuzz_payload.h"

#include <string.h>

#include "protocols/stopwait/stopwait_private.h"
#include "protocols/tcp/tcp_private.h"
#include "protocols/test/traffic_private.h"
#include "tests/fuzz/fuzz_options.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"

enum { ETH_LEN = 14, IP_LEN = 20, UDP_LEN = 8, ICMP_LEN = 8, PAYLOAD = ETH_LEN + IP_LEN };

/* stopwait's header */
enum { SW_PORTS = 0, SW_LENGTH = 4, SW_CHECKSUM = 6, SW_KIND = 8, SW_SEQUENCE = 10, SW_FROM = 14, SW_TO = 22 };

/* Offsets in TCP's header, and what its numbers near ones count in. */
enum { TCP_SEQUENCE = 4, TCP_ACKNOWLEDGEMENT = 8, TCP_OFFSET = 12, TCP_FLAGS = 13, TCP_CHECKSUM = 16, TCP_STEP = 20 };

/* ---- checksums ---- */

uint64_t
fuzz_udp_sum(const uint8_t *ip, const uint8_t *p, size_t len)
{
	uint8_t pseudo[12];

	memcpy(pseudo, ip + 12, 8);
	pseudo[8] = 0;
	pseudo[9] = ip[9];
	xk_put16(pseudo + 10, (uint16_t)len);
	return xk_sum(xk_sum(0, pseudo, sizeof(pseudo)), p, len);
}

/* Returns the length that the 16 bits at `at` of a payload claim; 0: impossible. */
static size_t
payload_claims(const uint8_t *p, size_t len, size_t at, size_t header)
{
	size_t claimed = len < header ? 0 : xk_get16(p + at);

	return claimed < header || claimed > len ? 0 : claimed;
}

/* Returns where the payload of an IP frame begins: behind the options, if its header may be as long as it claims. */
static size_t
payload_at(const uint8_t *frame, size_t len)
{
	size_t options = xk_options_len(xk_protocol_type_find("ip")->options, frame + ETH_LEN, len - PAYLOAD);

	return options == SIZE_MAX ? PAYLOAD : PAYLOAD + options;
}

/* Corrects the checksum of the payload, of len bytes behind an IP header of ip_len bytes. */
static void
payload_fix(uint8_t *ip, size_t ip_len, size_t len)
{
	uint8_t *p = ip + ip_len;
	size_t claimed;

	switch (ip[9]) {
	case FUZZ_IP_UDP:
		claimed = payload_claims(p, len, 4, UDP_LEN);
		if (claimed == 0)
			return;
		xk_put16(p + 6, 0);
		xk_checksum_store(p + 6, xk_checksum_finish(fuzz_udp_sum(ip, p, claimed)));
		return;
	case FUZZ_IP_TCP:
		claimed = xk_get16(ip + 2) < ip_len + TCP_HEADER_LEN ? 0 : xk_get16(ip + 2) - ip_len;
		if (claimed == 0 || claimed > len)
			return;
		xk_put16(p + TCP_CHECKSUM, 0);
		xk_checksum_store(p + TCP_CHECKSUM, xk_checksum_finish(fuzz_udp_sum(ip, p, claimed)));
		return;
	case FUZZ_IP_STOPWAIT:
		claimed = payload_claims(p, len, SW_LENGTH, STOPWAIT_HEADER_LEN);
		if (claimed == 0)
			return;
		xk_put16(p + SW_CHECKSUM, 0);
		xk_checksum_store(p + SW_CHECKSUM, xk_checksum_finish(xk_sum(0, p, claimed)));
		return;
	case FUZZ_IP_ICMP:
		claimed = xk_get16(ip + 2) < ip_len + ICMP_LEN ? 0 : xk_get16(ip + 2) - ip_len;
		if (claimed == 0 || claimed > len)
			return;
		xk_put16(p + 2, 0);
		xk_checksum_store(p + 2, xk_checksum_finish(xk_sum(0, p, claimed)));
		return;
	default:
		return;
	}
}

void
fuzz_fix_checksums(uint8_t *frame, size_t len, bool whole)
{
	uint8_t *ip = frame + ETH_LEN;
	size_t at;

	if (len < PAYLOAD || xk_get16(frame + 12) != 0x0800)
		return;
	at = payload_at(frame, len);
	xk_put16(ip + 10, 0);
	xk_checksum_store(ip + 10, xk_checksum_finish(xk_sum(0, ip, at - ETH_LEN)));
	if (whole)
		payload_fix(ip, at - ETH_LEN, len - at);
}

/* ---- memory ---- */

static bool
payload_is(const uint8_t *frame, size_t len, uint8_t number, size_t header)
{
	return len >= PAYLOAD && xk_get16(frame + 12) == 0x0800 && frame[ETH_LEN + 9] == number &&
	       len >= payload_at(frame, len) + header;
}

static void
payload_remember_tcp(struct fuzz_payload_memory *memory, const uint8_t *ip, const uint8_t *p)
{
	size_t header = 4 * (size_t)(p[TCP_OFFSET] >> 4), len = xk_get16(ip + 2) - IP_LEN;

	memory->tcp_ports = xk_get32(p);
	if (p[TCP_FLAGS] & TCP_ACK)
		memory->tcp_wants = xk_get32(p + TCP_ACKNOWLEDGEMENT);
	memory->tcp_end = xk_get32(p + TCP_SEQUENCE) + (uint32_t)(len - header) + ((p[TCP_FLAGS] & TCP_SYN) != 0) +
			  ((p[TCP_FLAGS] & TCP_FIN) != 0);
}

void
fuzz_payload_remember(struct fuzz_payload_memory *memory, const uint8_t *frame, size_t len)
{
	fuzz_rpc_remember(&memory->rpc, frame, len);
	if (payload_is(frame, len, FUZZ_IP_STOPWAIT, STOPWAIT_HEADER_LEN))
		memcpy(memory->stopwait, frame + PAYLOAD, STOPWAIT_HEADER_LEN);
	if (payload_is(frame, len, FUZZ_IP_TCP, TCP_HEADER_LEN))
		payload_remember_tcp(memory, frame + ETH_LEN, frame + PAYLOAD);
	if (len < PAYLOAD || xk_get16(frame + 12) != 0x0800)
		return;
	memory->packet_len = len - ETH_LEN < sizeof(memory->packet) ? len - ETH_LEN : sizeof(memory->packet);
	memcpy(memory->packet, frame + ETH_LEN, memory->packet_len);
}

static void
payload_recall_stopwait(const struct fuzz_payload_memory *memory, uint8_t *p)
{
	uint32_t ports = xk_get32(memory->stopwait + SW_PORTS);

	if (xk_get64(p + SW_TO) == UINT64_MAX)
		xk_put64(p + SW_TO, xk_get64(memory->stopwait + SW_FROM));
	if (xk_get64(p + SW_FROM) == UINT64_MAX)
		xk_put64(p + SW_FROM, xk_get64(memory->stopwait + SW_TO));
	if (xk_get32(p + SW_PORTS) == UINT32_MAX)
		xk_put32(p + SW_PORTS, ports << 16 | ports >> 16);
	if (xk_get32(p + SW_SEQUENCE) == UINT32_MAX)
		xk_put32(p + SW_SEQUENCE, xk_get32(memory->stopwait + SW_SEQUENCE));
}

/* Replaces the number at p, if it is near ones. */
static void
payload_recall_near(uint8_t *p, uint32_t number)
{
	uint32_t below = UINT32_MAX - xk_get32(p);

	if (below < FUZZ_TCP_NEAR)
		xk_put32(p, number + TCP_STEP * below);
}

static void
payload_recall_tcp(const struct fuzz_payload_memory *memory, uint8_t *p)
{
	if (xk_get32(p) == UINT32_MAX)
		xk_put32(p, memory->tcp_ports << 16 | memory->tcp_ports >> 16);
	payload_recall_near(p + TCP_SEQUENCE, memory->tcp_wants);
	payload_recall_near(p + TCP_ACKNOWLEDGEMENT, memory->tcp_end);
}

void
fuzz_payload_recall(const struct fuzz_payload_memory *memory, uint8_t *frame, size_t len)
{
	size_t at = len < PAYLOAD ? len : payload_at(frame, len);
	uint8_t *p = frame + at;

	fuzz_rpc_recall(&memory->rpc, frame, len);
	if (payload_is(frame, len, FUZZ_IP_STOPWAIT, STOPWAIT_HEADER_LEN)) {
		payload_recall_stopwait(memory, p);
	} else if (payload_is(frame, len, FUZZ_IP_TCP, TCP_HEADER_LEN)) {
		payload_recall_tcp(memory, p);
	} else if (payload_is(frame, len, FUZZ_IP_ICMP, ICMP_LEN + 4) && xk_get32(p + ICMP_LEN) == UINT32_MAX) {
		size_t room = len - at - ICMP_LEN;

		memcpy(p + ICMP_LEN, memory->packet, room < memory->packet_len ? room : memory->packet_len);
	}
}

static void
payload_swap(uint8_t *a, uint8_t *b, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		uint8_t was = a[i];

		a[i] = b[i];
		b[i] = was;
	}
}

void
fuzz_payload_answer(uint8_t *frame, size_t len)
{
	uint8_t *ip = frame + ETH_LEN, *p = ip + IP_LEN;

	if (len < PAYLOAD + 4)
		return;
	payload_swap(ip + 12, ip + 16, 4);
	if ((xk_get16(ip + 6) & 0x1fff) != 0)
		return;
	if (ip[9] == FUZZ_IP_ICMP && p[0] == 8) {
		p[0] = 0;
		fuzz_fix_checksums(frame, len, true);
	} else if (ip[9] != FUZZ_IP_ICMP) {
		payload_swap(p, p + 2, 2);
	}
}

/* ---- messages ---- */

/* Returns a random small number, or a field of ones. */
static uint64_t
known(uint64_t *random, unsigned few)
{
	return fuzz_draw(random, 2) == 0 ? UINT64_MAX : fuzz_draw(random, few);
}

/* Makes a valid message of traffic for the host. Returns its length. */
static size_t
make_traffic(uint8_t *p, unsigned peer, uint64_t *random)
{
	size_t len = XK_TRAFFIC_SIZE_MIN + (fuzz_draw(random, 2) == 0 ? 0 : fuzz_draw(random, 64));
	uint64_t hash = 0, word;

	xk_put32(p, 0x78747266);
	xk_put32(p + 4, (uint32_t)len);
	xk_put64(p + 8, 1 + fuzz_draw(random, 3));
	xk_put32(p + 16, FUZZ_PEER_HOST + peer);
	xk_put32(p + 20, fuzz_draw(random, 8) == 0 ? FUZZ_PEER_HOST : (uint32_t)FUZZ_HOST);
	xk_put32(p + 24, fuzz_draw(random, 3));
	xk_put32(p + 28, fuzz_draw(random, 8));
	for (unsigned i = 0; i < 4; i++) {
		memcpy(&word, p + 8 * i, sizeof(word));
		hash = traffic_mix(hash, word);
	}
	xk_put64(p + 32, hash);
	for (size_t at = XK_TRAFFIC_SIZE_MIN; at < len; at += sizeof(hash), hash += UINT64_C(0xd1342543de82ef95))
		memcpy(p + at, &hash, len - at < sizeof(hash) ? len - at : sizeof(hash));
	return len;
}

static size_t
make_udp_traffic(uint8_t *p, unsigned peer, uint64_t *random)
{
	size_t len = UDP_LEN + make_traffic(p + UDP_LEN, peer, random);

	xk_put16(p, FUZZ_TRAFFIC_PORT);
	xk_put16(p + 2, FUZZ_TRAFFIC_PORT);
	xk_put16(p + 4, (uint16_t)len);
	xk_put16(p + 6, 0);
	return len;
}

static size_t
make_stopwait(uint8_t *p, unsigned peer, uint64_t *random)
{
	unsigned kind = 1 + fuzz_draw(random, STOPWAIT_GONE);
	size_t len = STOPWAIT_HEADER_LEN;

	if (kind == STOPWAIT_DATA)
		len += make_traffic(p + STOPWAIT_HEADER_LEN, peer, random);
	xk_put16(p + SW_LENGTH, (uint16_t)len);
	xk_put16(p + SW_CHECKSUM, 0);
	xk_put32(p + SW_PORTS, fuzz_draw(random, 2) == 0 ? UINT32_MAX : FUZZ_TRAFFIC_PORT << 16 | FUZZ_TRAFFIC_PORT);
	xk_put16(p + SW_KIND, (uint16_t)kind);
	xk_put32(p + SW_SEQUENCE, (uint32_t)known(random, 4));
	xk_put64(p + SW_FROM, known(random, 4));
	xk_put64(p + SW_TO, kind == STOPWAIT_CALL ? 0 : known(random, 4));
	return len;
}

/* Returns a number near ones, mostly ones. */
static uint32_t
near_ones(uint64_t *random)
{
	return UINT32_MAX - (fuzz_draw(random, 3) > 0 ? 0 : fuzz_draw(random, FUZZ_TCP_NEAR));
}

/* Makes a segment: of an open, or of the host's latest connection; with a request of tcptest's, or other bytes. */
size_t
fuzz_payload_make_segment(uint8_t *p, uint64_t *random)
{
	static const uint8_t flags[] = { TCP_SYN,           TCP_SYN, TCP_SYN | TCP_ACK, TCP_ACK,
					 TCP_ACK,           TCP_ACK, TCP_ACK | TCP_PSH, TCP_ACK | TCP_FIN,
					 TCP_ACK | TCP_URG, TCP_RST, TCP_RST | TCP_ACK, 0,
					 TCP_SYN | TCP_FIN };
	static const uint8_t syn[] = { 2, 4, 2, 0, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 2 };
	static const uint16_t windows[] = { 0, 1, 700, UINT16_MAX };
	uint8_t what = flags[fuzz_draw(random, sizeof(flags))];
	size_t header = TCP_HEADER_LEN, len = fuzz_draw(random, 2) == 0 ? 0 : fuzz_draw(random, 128);

	memset(p, 0, TCP_HEADER_LEN + XK_OPTIONS_MAX + 128);
	if ((what & TCP_SYN) != 0 && fuzz_draw(random, 2) == 0) {
		memcpy(p + header, syn, sizeof(syn));
		header += sizeof(syn);
	} else if (fuzz_draw(random, 3) == 0) {
		header += fuzz_make_options("tcp", p + header, random);
	}
	xk_put32(p, what == TCP_SYN ? (1 + fuzz_draw(random, 4)) << 16 | FUZZ_TCP_PORT : UINT32_MAX);
	xk_put32(p + TCP_SEQUENCE, what == TCP_SYN ? fuzz_draw(random, 3) : near_ones(random));
	xk_put32(p + TCP_ACKNOWLEDGEMENT, near_ones(random));
	p[TCP_OFFSET] = (uint8_t)(header / 4 << 4);
	p[TCP_FLAGS] = what;
	xk_put16(p + 14, windows[fuzz_draw(random, XK_ARRAY_LENGTH(windows))]);
	if (len >= 16 && fuzz_draw(random, 2) == 0) {
		xk_put64(p + header, fuzz_draw(random, 4000));
		xk_put32(p + header + 8, 1 + fuzz_draw(random, 1500));
		xk_put32(p + header + 12, 1 + fuzz_draw(random, 4));
	}
	return header + (what == TCP_SYN ? 0 : len);
}

/* Makes an echo, or an error about the host's last datagram. Returns its length. */
static size_t
make_icmp(uint8_t *p, uint64_t *random)
{
	static const uint8_t types[] = { 0, 3, 3, 3, 4, 5, 8, 8, 8, 11, 12, 13, 17, 30 };
	size_t len = ICMP_LEN + fuzz_draw(random, 64);

	memset(p, 0, len + 4);
	p[0] = types[fuzz_draw(random, sizeof(types))];
	p[1] = (uint8_t)(p[0] == 0 || p[0] == 8 ? 0 : fuzz_draw(random, 6));
	xk_put16(p + 4, (uint16_t)fuzz_draw(random, 3));
	xk_put16(p + 6, (uint16_t)(fuzz_draw(random, 3) == 0 ? fuzz_draw(random, 0x10000) : fuzz_draw(random, 3)));
	if (p[0] != 0 && p[0] != 8)
		xk_put32(p + ICMP_LEN, UINT32_MAX);
	return len;
}

size_t
fuzz_payload_make(uint8_t *payload, unsigned peer, uint64_t *random, uint8_t *number)
{
	switch (fuzz_draw(random, 5)) {
	case 0:
		*number = FUZZ_IP_UDP;
		return make_udp_traffic(payload, peer, random);
	case 1:
		*number = FUZZ_IP_ICMP;
		return make_icmp(payload, random);
	case 2:
		*number = FUZZ_IP_TCP;
		return fuzz_payload_make_segment(payload, random);
	default:
		*number = FUZZ_IP_STOPWAIT;
		return make_stopwait(payload, peer, random);
	}
}
