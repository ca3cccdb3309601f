/* hostile_wire.c - see hostile.h: valid frames, sending, and the server's answers. */
#include <string.h>
#include <time.h>

#include "tests/system/hostile.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"

enum { HOSTILE_RESEND_MS = 250 };

static uint64_t
hostile_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void
hostile_pause(unsigned ms)
{
	struct timespec pause = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

	nanosleep(&pause, NULL);
}

void
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

bool
hostile_drain(struct hostile *h)
{
	struct xk_msg *frames[XK_BURST];
	unsigned count = h->port->ops->receive(h->port, frames, XK_BURST);

	for (unsigned i = 0; i < count; i++)
		xk_msg_free(frames[i]);
	return count > 0;
}

void
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

void
hostile_send(struct hostile *h)
{
	hostile_send_len(h, h->len, true);
}

/* ---- valid frames ---- */

void
hostile_fix_ip(struct hostile *h)
{
	uint8_t *ip = h->frame + HOSTILE_IP;

	xk_put16(ip + 10, 0);
	xk_checksum_store(ip + 10, xk_checksum_finish(xk_sum(0, ip, 20)));
}

void
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

void
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

uint16_t
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

void
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

/* Returns true if the frame is wanted; may store data from it in h. */
typedef bool hostile_wanted(struct hostile *h, const uint8_t *frame, size_t len, uint16_t port);

static bool
hostile_is_echo(struct hostile *h, const uint8_t *frame, size_t len, uint16_t port)
{
	return len >= HOSTILE_DATA && xk_get16(frame + 12) == 0x0800 && frame[HOSTILE_IP + 9] == 17 &&
	       xk_get16(frame + HOSTILE_UDP) == HOSTILE_PORT && xk_get16(frame + HOSTILE_UDP + 2) == port;
}

static bool
hostile_is_arp_reply(struct hostile *h, const uint8_t *frame, size_t len, uint16_t port)
{
	if (len < HOSTILE_ARP_END || xk_get16(frame + 12) != 0x0806 || xk_get16(frame + HOSTILE_ARP + 6) != 2 ||
	    xk_get32(frame + HOSTILE_ARP + 14) != HOSTILE_SERVER)
		return false;
	h->server_link = xk_get48(frame + HOSTILE_ARP + 8);
	return true;
}

/* Waits at most ms for a wanted frame. */
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

bool
hostile_awaits_echo(struct hostile *h, uint16_t port)
{
	return hostile_await(h, hostile_is_echo, port, HOSTILE_PATIENCE_MS);
}

bool
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

bool
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
