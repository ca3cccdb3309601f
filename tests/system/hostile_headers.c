/* hostile_headers.c - see hostile.h: abuse of Ethernet, ARP, IP and UDP. */
#include <string.h>

#include "tests/system/hostile.h"
#include "xkernel/bytes.h"

/* ---- abuse of Ethernet and ARP ---- */

void
hostile_short_frames(struct hostile *h)
{
	hostile_request(h, HOSTILE_HOST, 10);
	for (size_t len = 1; len < HOSTILE_IP; len++)
		hostile_send_len(h, len, true);
	hostile_expect(h, "eth.short", HOSTILE_IP - 1, false);
}

void
hostile_long_frames(struct hostile *h)
{
	static const size_t sizes[] = { 1473, 1480, 2000, 4000, 16000, 30000 };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(sizes); i++) {
		hostile_request(h, HOSTILE_HOST, sizes[i]);
		hostile_send(h);
		/* and one with trailing bytes */
		hostile_request(h, HOSTILE_HOST, 10);
		hostile_send_len(h, HOSTILE_DATA + sizes[i], true);
	}
}

void
hostile_misaddressed_frames(struct hostile *h)
{
	static const uint64_t targets[] = { 0x020000000099, 0x01005e000001, 0, 0x333300000001 };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(targets); i++) {
		hostile_request(h, HOSTILE_HOST, 10);
		xk_put48(h->frame, targets[i]);
		hostile_send(h);
	}
	hostile_expect(h, "eth.not_mine", XK_ARRAY_LENGTH(targets), false);
}

void
hostile_frame_sources(struct hostile *h)
{
	const uint64_t sources[] = { 0, HOSTILE_EVERYBODY, 0x010203040506, h->server_link };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(sources); i++) {
		hostile_request(h, HOSTILE_HOST, 10);
		xk_put48(h->frame + 6, sources[i]);
		hostile_send(h);
	}
	hostile_expect(h, "eth.bad_source", XK_ARRAY_LENGTH(sources), false);
}

void
hostile_frame_types(struct hostile *h)
{
	static const uint16_t types[] = { 0, 46, 1535, 0x88b5, 0x86dd, 0xffff };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(types); i++) {
		hostile_request(h, HOSTILE_HOST, 10);
		xk_put16(h->frame + 12, types[i]);
		hostile_send(h);
	}
	hostile_expect(h, "eth.bad_type", 3, false);
	hostile_expect(h, "eth.no_session", 3, false);
}

void
hostile_arp_packets(struct hostile *h)
{
	static const struct {
		const char *drop;
		unsigned offset;
		uint8_t value;
	} fields[] = {
		{ "arp.bad_hardware", 1, 6 },    { "arp.bad_protocol", 3, 6 },  { "arp.bad_length", 4, 7 },
		{ "arp.bad_length", 5, 16 },     { "arp.bad_operation", 7, 0 }, { "arp.bad_operation", 7, 3 },
		{ "arp.bad_operation", 6, 255 }, { "arp.bad_sender", 8, 0x77 },
	};

	hostile_arp(h, 1, HOSTILE_HOST, HOSTILE_SERVER);
	for (size_t len = HOSTILE_ARP; len < HOSTILE_ARP_END; len++)
		hostile_send_len(h, len, true);
	hostile_expect(h, "arp.short", HOSTILE_ARP_END - HOSTILE_ARP, false);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(fields); i++) {
		hostile_arp(h, 1, HOSTILE_HOST, HOSTILE_SERVER);
		h->frame[HOSTILE_ARP + fields[i].offset] = fields[i].value;
		hostile_send(h);
		hostile_expect(h, fields[i].drop, 1, false);
	}
}

void
hostile_arp_lies(struct hostile *h)
{
	static const struct {
		const char *drop;
		uint16_t operation;
		uint32_t sender, target;
	} lies[] = {
		{ "arp.bad_address", 2, 0, HOSTILE_SERVER },
		{ "arp.bad_address", 1, 0x0a4dffff, HOSTILE_SERVER },
		{ "arp.bad_address", 1, 0x7f080808, HOSTILE_SERVER },
		{ "arp.conflict", 1, HOSTILE_SERVER, HOSTILE_SERVER },
		{ "arp.conflict", 2, HOSTILE_SERVER, HOSTILE_HOST },
		{ "arp.unasked", 2, 0x0a4d0050, HOSTILE_SERVER },
	};

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(lies); i++) {
		hostile_arp(h, lies[i].operation, lies[i].sender, lies[i].target);
		hostile_send(h);
		hostile_expect(h, lies[i].drop, 1, false);
	}
}

/* Announces more neighbours than the table holds. */
void
hostile_arp_flood(struct hostile *h)
{
	for (uint32_t i = 0; i < 1000; i++) {
		hostile_arp(h, 1, 0x0a4d1000 + i, HOSTILE_SERVER);
		xk_put48(h->frame + 6, HOSTILE_LINK + 0x1000 + i);
		xk_put48(h->frame + HOSTILE_ARP + 8, HOSTILE_LINK + 0x1000 + i);
		hostile_send(h);
	}
}

/* ---- abuse of IP and UDP ---- */

void
hostile_short_datagrams(struct hostile *h)
{
	hostile_request(h, HOSTILE_HOST, 10);
	for (size_t len = HOSTILE_IP; len < HOSTILE_UDP; len++)
		hostile_send_len(h, len, true);
	hostile_expect(h, "ip.short", HOSTILE_UDP - HOSTILE_IP, false);
	for (size_t len = HOSTILE_UDP; len < HOSTILE_DATA + 10; len++)
		hostile_send_len(h, len, true);
	hostile_expect(h, "ip.bad_length", HOSTILE_DATA + 10 - HOSTILE_UDP, false);
}

/* Sets a byte of a valid datagram's IP header and, unless the checksum is the fault, corrects the checksum. */
void
hostile_ip_headers(struct hostile *h)
{
	static const struct {
		const char *drop;
		unsigned offset;
		uint8_t value;
		bool keeps_checksum;
	} fields[] = {
		{ "ip.bad_version", 0, 0x55, false },  { "ip.bad_version", 0, 0x65, false },
		{ "ip.bad_version", 0, 0, false },     { "ip.bad_header", 0, 0x44, false },
		{ "ip.bad_header", 0, 0x40, false },   { "ip.bad_length", 3, 19, false },
		{ "ip.bad_length", 3, 39, false },     { "ip.bad_length", 2, 0xff, false },
		{ "ip.bad_checksum", 11, 0x5a, true }, { "ip.bad_checksum", 8, 63, true },
		{ "ip.bad_flags", 6, 0x80, false },    { "ip.no_session", 9, 1, false },
		{ "ip.no_session", 9, 255, false },    { "ip.martian", 12, 127, false },
		{ "ip.martian", 16, 127, false },      { "ip.bad_source", 12, 0, false },
		{ "ip.bad_source", 12, 224, false },   { "ip.bad_source", 12, 255, false },
		{ "ip.bad_source", 15, 2, false },     { "ip.bad_source", 15, 0, false },
		{ "ip.not_mine", 19, 3, false },       { "ip.not_mine", 16, 224, false },
	};

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(fields); i++) {
		hostile_request(h, HOSTILE_HOST, 10);
		h->frame[HOSTILE_IP + fields[i].offset] = fields[i].value;
		if (!fields[i].keeps_checksum)
			hostile_fix_ip(h);
		hostile_send(h);
		hostile_expect(h, fields[i].drop, 1, false);
	}
}

void
hostile_udp_headers(struct hostile *h)
{
	uint8_t *udp = h->frame + HOSTILE_UDP;

	for (size_t len = 0; len < 8; len++) {
		hostile_ip(h, HOSTILE_HOST, 17, len);
		hostile_send(h);
	}
	hostile_expect(h, "udp.short", 8, false);
	for (uint16_t len = 0; len < 8; len++) {
		hostile_request(h, HOSTILE_HOST, 10);
		xk_put16(udp + 4, len);
		hostile_send(h);
	}
	hostile_request(h, HOSTILE_HOST, 10);
	xk_put16(udp + 4, 19);
	hostile_send(h);
	hostile_expect(h, "udp.bad_length", 9, false);
	for (unsigned i = 0; i < 10; i++) {
		hostile_request(h, HOSTILE_HOST + (i & 1) * 77, 10);
		udp[8 + i] ^= 0x10;
		hostile_send(h);
	}
	hostile_expect(h, "udp.bad_checksum", 10, false);
	hostile_request(h, HOSTILE_HOST, 10);
	xk_put16(udp + 2, 2002);
	hostile_fix_udp(h);
	hostile_send(h);
	hostile_expect(h, "udp.no_session", 1, false);
	/* a request from a server's port: two servers would echo it for ever */
	hostile_request(h, HOSTILE_HOST, 10);
	xk_put16(udp, HOSTILE_PORT);
	hostile_fix_udp(h);
	hostile_send(h);
	hostile_expect(h, "udp.refused", 1, false);
}

/* Sends one request from every host of the network. */
void
hostile_strangers(struct hostile *h)
{
	for (uint32_t i = 0; i < 12000; i++) {
		hostile_request(h, 0x0a4d4000 + i, 10);
		xk_put48(h->frame + 6, HOSTILE_LINK + 0x4000 + i);
		hostile_send(h);
	}
}

/* Sends requests and does not receive the echoes. */
void
hostile_deaf(struct hostile *h)
{
	for (unsigned i = 0; i < 1500; i++) {
		hostile_request(h, HOSTILE_HOST, 1400);
		hostile_send_len(h, h->len, false);
	}
	/* a thread that finds the ring full waits some milliseconds */
	hostile_pause(300);
	while (hostile_drain(h))
		hostile_pause(1);
	hostile_expect(h, "port.tx_full", 1, true);
}
