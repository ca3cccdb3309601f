/*
 * client.h - light clients of one server of CHAN, at the level of frames: what each knows fits a few words, and what it
 * sends is an answer to what it has got. They share a wire with the server and nothing else.
 *
 * A client tells everybody that it has booted, asks for the server by ARP, then for its boot id by BIDCTL, answers what it is asked in turn, and makes its calls
 * one after the other, each by BLAST's short way over BID. Every reply is checked to the last bit. The wire loses nothing,
 * so no client sends anything twice; one whose message was dropped stands still, and is found so.
 */
#ifndef CROWD_CLIENT_H
#define CROWD_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CLIENT_PAYLOAD = 16,
	CLIENT_FRAME_MAX = 128, /* of any frame that a client sends */
	CLIENT_ANSWERS = 2,     /* to one frame, or when it boots, at most */
	CLIENT_MAX = 1 << 20,
};

#define CLIENT_SERVER_LINK UINT64_C(0x020000000001)
#define CLIENT_SERVER_HOST UINT32_C(0x0afffffe) /* 10.255.255.254 */

enum client_state {
	CLIENT_OFF,
	CLIENT_LOOKS, /* for the server's link address */
	CLIENT_ASKS,  /* for its boot id */
	CLIENT_CALLS,
	CLIENT_IS_DONE,
};

struct client {
	uint64_t boot;
	uint64_t server_boot; /* as the server tells this client; 0: not known */
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
	uint32_t count, calls; /* of each */
	/* what has happened */
	uint64_t calls_made, replies, repeated, acked;
	uint64_t wrong; /* frames that no client may get */
};

/* Client i boots, with another boot id than ever before: what it sends first. How many frames: CLIENT_ANSWERS at most. */
unsigned client_boot(struct clients *clients, uint32_t i, unsigned boots, struct client_frame *frames);

/*
 * The server has sent this frame: what the client that it is for sends then. How many frames. *ended: that client has got the
 * reply to its last call now.
 */
unsigned client_hear(struct clients *clients, const uint8_t *bytes, size_t len, struct client_frame *answers,
		     bool *ended);

#endif
