/*
 * hostile.h - the hostile peer, shared by hostile.c (the kinds of abuse, and the program), hostile_wire.c (valid
 * frames, sending, answers), hostile_headers.c and hostile_fragments.c (abuse).
 */
#ifndef TESTS_HOSTILE_H
#define TESTS_HOSTILE_H

#include "platform/dpdk/dpdk.h"

enum {
	HOSTILE_IP = 14,
	HOSTILE_UDP = HOSTILE_IP + 20,
	HOSTILE_DATA = HOSTILE_UDP + 8,
	HOSTILE_ARP = 14,
	HOSTILE_ARP_END = HOSTILE_ARP + 28,
	HOSTILE_PORT = 2001,
	HOSTILE_MORE = 0x2000,
	HOSTILE_FRAME = 32000,
	HOSTILE_DROPS = 64,
	HOSTILE_PATIENCE_MS = 10000,
};

#define HOSTILE_HOST UINT32_C(0x0a4d0001)
#define HOSTILE_SERVER UINT32_C(0x0a4d0002)
#define HOSTILE_LINK UINT64_C(0x020000001001)
#define HOSTILE_EVERYBODY UINT64_C(0xffffffffffff)

struct hostile_drop {
	const char *name;
	unsigned count;
	bool at_least;
};

struct hostile {
	struct xk_platform *platform;
	struct xk_port *port;
	uint64_t server_link;
	uint64_t random;
	uint16_t next_port, next_id;
	uint32_t next_host;
	uint8_t frame[HOSTILE_FRAME];
	size_t len;
	struct hostile_drop drops[HOSTILE_DROPS];
	unsigned drop_count, failures;
};

/* ---- hostile_wire.c ---- */

void hostile_pause(unsigned ms);

/* Expects `count` more drops of that name at the server, or at least as many. */
void hostile_expect(struct hostile *h, const char *name, unsigned count, bool at_least);

/* Discards received frames. Returns true if there were any. */
bool hostile_drain(struct hostile *h);

/* Sends the first len bytes of the frame, waiting as long as needed; drains: discards frames received meanwhile. */
void hostile_send_len(struct hostile *h, size_t len, bool drains);
void hostile_send(struct hostile *h);

/* Correct the checksum of the frame's IP or UDP header. */
void hostile_fix_ip(struct hostile *h);
void hostile_fix_udp(struct hostile *h);

/* Makes the frame an IP datagram from host with len bytes of payload. */
void hostile_ip(struct hostile *h, uint32_t host, uint8_t protocol, size_t len);

/* Makes the frame a request of size bytes from an unused port. Returns the port. */
uint16_t hostile_request(struct hostile *h, uint32_t host, size_t size);

/* Makes the frame an ARP packet. */
void hostile_arp(struct hostile *h, uint16_t operation, uint32_t sender, uint32_t target);

/* Waits for the echo to a request from port. Returns false after HOSTILE_PATIENCE_MS. */
bool hostile_awaits_echo(struct hostile *h, uint16_t port);

/* Sends a valid request of size bytes until it is answered. Returns false after HOSTILE_PATIENCE_MS. */
bool hostile_echoes(struct hostile *h, size_t size);

/* Resolves the server's link address. */
bool hostile_finds_server(struct hostile *h);

/* ---- abuse ---- */

void hostile_short_frames(struct hostile *h);
void hostile_long_frames(struct hostile *h);
void hostile_misaddressed_frames(struct hostile *h);
void hostile_frame_sources(struct hostile *h);
void hostile_frame_types(struct hostile *h);
void hostile_arp_packets(struct hostile *h);
void hostile_arp_lies(struct hostile *h);
void hostile_arp_flood(struct hostile *h);
void hostile_short_datagrams(struct hostile *h);
void hostile_ip_headers(struct hostile *h);
void hostile_udp_headers(struct hostile *h);
void hostile_duplicates(struct hostile *h);
void hostile_overlaps(struct hostile *h);
void hostile_ends(struct hostile *h);
void hostile_odd_fragments(struct hostile *h);
void hostile_endless(struct hostile *h);
void hostile_never_finished(struct hostile *h);
void hostile_late(struct hostile *h);
void hostile_strangers(struct hostile *h);
void hostile_deaf(struct hostile *h);

#endif
