/* hostile_fragments.c - see hostile.h: abuse of fragments. */
#include <stdio.h>
#include <string.h>

#include "tests/system/hostile.h"
#include "xkernel/bytes.h"

/* Sends a fragment of a datagram without checksum to an open port; its bytes depend only on the offset. */
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

/* Returns a host that has sent no fragment yet: the table limits fragments per host. */
static uint32_t
hostile_stranger(struct hostile *h)
{
	return h->next_host++;
}

void
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
	if (!hostile_awaits_echo(h, id)) {
		printf("FAIL duplicates: no echo of the datagram\n");
		h->failures++;
	}
}

void
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
	/* the same offset, other bytes */
	hostile_fragment(h, host, 5, 0, true, 80);
	hostile_ip(h, host, 17, 80);
	xk_put16(h->frame + HOSTILE_IP + 4, 5);
	xk_put16(h->frame + HOSTILE_IP + 6, HOSTILE_MORE);
	hostile_fix_ip(h);
	memset(h->frame + HOSTILE_UDP, 0xee, 80);
	hostile_send(h);
	hostile_expect(h, "ip.overlap", 2, false);
}

void
hostile_ends(struct hostile *h)
{
	uint32_t host = hostile_stranger(h);

	/* beyond the end; a second end; an end before existing fragments */
	hostile_fragment(h, host, 1, 800, false, 200);
	hostile_fragment(h, host, 1, 1600, true, 80);
	hostile_fragment(h, host, 2, 800, false, 200);
	hostile_fragment(h, host, 2, 1600, false, 80);
	hostile_fragment(h, host, 3, 1600, true, 80);
	hostile_fragment(h, host, 3, 800, false, 80);
	hostile_expect(h, "ip.inconsistent", 6, false);
}

void
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

/* Sends one datagram in ever smaller fragments. */
void
hostile_endless(struct hostile *h)
{
	uint32_t host = hostile_stranger(h);

	for (unsigned i = 0; i < 300; i++)
		hostile_fragment(h, host, 1, 8 * i, true, 8);
	hostile_expect(h, "ip.too_many", 241, false);
	hostile_expect(h, "ip.refused_datagram", 59, false);
}

/* Sends unfinished datagrams beyond the limits of one host, of all hosts, and of fragments. */
void
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

/* Leaves fragments waiting: the server's reassembly_timeout is 2 s. */
void
hostile_late(struct hostile *h)
{
	uint32_t host = hostile_stranger(h);

	hostile_fragment(h, host, 1, 0, true, 800);
	hostile_fragment(h, host, 1, 800, true, 80);
	for (unsigned waited = 0; waited < 3000; waited += 10) {
		hostile_drain(h);
		hostile_pause(10);
	}
	/* after the timeout, this begins another datagram */
	hostile_fragment(h, host, 1, 880, false, 120);
	hostile_expect(h, "ip.timed_out", 2, true);
}
