/*
 * client.h - light clients of one CHAN server, at frame level. Each keeps a few bytes of state and sends only in answer
 * to a frame. They share nothing with the server but the wire.
 *
 * A client broadcasts its boot, queries the server's link address by ARP and its boot id by BIDCTL, answers the
 * server's own queries, and makes its calls one after another, each in a single BLAST fragment over BID. It checks
 * every bit of each reply. The wire loses nothing, so clients never retransmit. A client whose message was dropped
 * stops, and the program reports it.
 */
#ifndef CROWD_CLIENT_H
#define CROWD_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CLIENT_PAYLOAD = 16,
	CLIENT_FRAME_MAX = 128, /* length of a client's longest frame */
	CLIENT_ANSWERS = 2,     /* most frames sent in answer to one frame, or at boot */
	CLIENT_MAX = 1 << 20,
};

#define CLIENT_SERVER_LINK UINT64_C(0x020000000001)
#define CLIENT_SERVER_HOST UINT32_C(0x0afffffe) /* 10.255.255.254 */

enum client_state {
	CLIENT_OFF,
	CLIENT_AWAITS_ADDRESS, /* the server's link address */
	CLIENT_AWAITS_BOOT_ID, /* the server's */
	CLIENT_CALLS,
	CLIENT_IS_DONE,
};

struct client {
	uint64_t boot;
	uint64_t server_boot; /* from the server's own messages; 0: unknown */
	uint32_t channel, sequence;
	uint32_t calls_left;
	uint8_t state;
};

struct client_frame {
	size_t len;
	uint8_t bytes[CLIENT_FRAME_MAX];
};

struct clients {
	struct client *list;
	uint32_t count, calls; /* clients, and calls of each */
	uint64_t calls_made, replies, repeated, acked;
	uint64_t wrong; /* frames that no client should receive */
};

/* Boots client i with a new boot id. Stores its first frames, at most CLIENT_ANSWERS; returns their number. */
unsigned client_boot(struct clients *clients, uint32_t i, unsigned boots, struct client_frame *frames);

/*
 * Delivers a frame of the server's to its client. Stores the client's answers and returns their number. Sets *ended if
 * this was the reply to the client's last call.
 */
unsigned client_receive(struct clients *clients, const uint8_t *bytes, size_t len, struct client_frame *answers,
			bool *ended);

#endif
