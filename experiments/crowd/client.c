/* client.c - see client.h. Formats: see eth.c, arp.c, bidctl.c, blast.c, bid.c and chan.c. */
#include "experiments/crowd/client.h"

#include <string.h>

#include "xkernel/bytes.h"
#include "xkernel/checksum.h"

enum {
	CLIENT_ETH_LEN = 14,
	CLIENT_ARP_LEN = 28,
	CLIENT_BIDCTL_LEN = 40,
	CLIENT_BLAST_LEN = 24,
	CLIENT_BID_LEN = 24,
	CLIENT_CHAN_LEN = 20,
	CLIENT_CHAN_AT = CLIENT_ETH_LEN + CLIENT_BLAST_LEN + CLIENT_BID_LEN,
	CLIENT_CALL_LEN = CLIENT_CHAN_AT + CLIENT_CHAN_LEN,
};

enum { CLIENT_TYPE_ARP = 0x0806, CLIENT_TYPE_BLAST = 0x3001, CLIENT_TYPE_BIDCTL = 0x3006 };
enum { CLIENT_BLAST_BID = 0x3005, CLIENT_BLAST_SHORT = 1 << 8 | 64, CLIENT_BID_CHAN = 102, CLIENT_CHAN_TEST = 1 };
enum { CLIENT_ARP_REQUEST = 1, CLIENT_ARP_REPLY = 2 };
enum { CLIENT_QUERY = 1, CLIENT_RESPONSE = 2, CLIENT_BROADCAST = 4 };
enum { CLIENT_FROM_CLIENT = 1, CLIENT_USER_MSG = 2, CLIENT_ACK_REQUESTED = 4 };

#define CLIENT_LINK UINT64_C(0x020100000000)
#define CLIENT_HOST UINT32_C(0x0a000001)
#define CLIENT_BROADCAST_LINK UINT64_C(0xffffffffffff)

/* Returns a hash of x, in place of a random number. */
static uint64_t
client_mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* ---- frames ---- */

static uint8_t *
client_frame_begin(struct client_frame *frame, uint32_t i, uint64_t to, unsigned type, size_t len)
{
	memset(frame, 0, sizeof(*frame));
	frame->len = CLIENT_ETH_LEN + len;
	xk_put48(frame->bytes, to);
	xk_put48(frame->bytes + 6, CLIENT_LINK + i);
	xk_put16(frame->bytes + 12, (uint16_t)type);
	return frame->bytes + CLIENT_ETH_LEN;
}

static void
client_send_arp(struct client_frame *frame, uint32_t i, unsigned operation)
{
	bool is_request = operation == CLIENT_ARP_REQUEST;
	uint64_t to = is_request ? CLIENT_BROADCAST_LINK : CLIENT_SERVER_LINK;
	uint8_t *p = client_frame_begin(frame, i, to, CLIENT_TYPE_ARP, CLIENT_ARP_LEN);

	xk_put16(p, 1);
	xk_put16(p + 2, 0x0800);
	p[4] = 6;
	p[5] = 4;
	xk_put16(p + 6, (uint16_t)operation);
	xk_put48(p + 8, CLIENT_LINK + i);
	xk_put32(p + 14, CLIENT_HOST + i);
	xk_put48(p + 18, is_request ? 0 : CLIENT_SERVER_LINK);
	xk_put32(p + 24, CLIENT_SERVER_HOST);
}

static void
client_send_bidctl(const struct clients *clients, struct client_frame *frame, uint32_t i, unsigned flags, uint64_t tag)
{
	uint64_t to = flags == CLIENT_BROADCAST ? CLIENT_BROADCAST_LINK : CLIENT_SERVER_LINK;
	uint8_t *p = client_frame_begin(frame, i, to, CLIENT_TYPE_BIDCTL, CLIENT_BIDCTL_LEN);

	xk_put16(p, (uint16_t)flags);
	xk_put32(p + 4, CLIENT_HOST + i);
	xk_put64(p + 8, clients->list[i].boot);
	xk_put64(p + 16, flags == CLIENT_RESPONSE ? clients->list[i].server_boot : 0);
	xk_put64(p + (flags == CLIENT_RESPONSE ? 32 : 24), tag);
	xk_checksum_store(p + 2, xk_checksum_finish(xk_sum(0, p, CLIENT_BIDCTL_LEN)));
}

/* Returns the tag of the client's query. Only a host that has seen the query can echo it. */
static uint64_t
client_tag(const struct client *client)
{
	return client_mix(client->boot) | 1;
}

static void
client_payload(const struct client *client, uint32_t i, uint32_t sequence, uint8_t *p)
{
	xk_put64(p, client_mix(client->boot ^ i));
	xk_put64(p + 8, client_mix(client->boot + sequence));
}

/* Builds a CHAN frame with these flags, and with the payload if it is a request. */
static void
client_send_chan(const struct clients *clients, struct client_frame *frame, uint32_t i, unsigned flags,
		 uint32_t sequence)
{
	const struct client *client = &clients->list[i];
	size_t payload = flags & CLIENT_USER_MSG ? CLIENT_PAYLOAD : 0;
	uint8_t *p = client_frame_begin(frame, i, CLIENT_SERVER_LINK, CLIENT_TYPE_BLAST,
					CLIENT_CALL_LEN - CLIENT_ETH_LEN + payload);

	xk_put32(p, CLIENT_BLAST_BID);
	xk_put32(p + 8, (uint32_t)(CLIENT_BID_LEN + CLIENT_CHAN_LEN + payload));
	xk_put16(p + 14, CLIENT_BLAST_SHORT);
	p += CLIENT_BLAST_LEN;
	xk_put32(p, CLIENT_BID_CHAN);
	xk_put32(p + 4, CLIENT_HOST + i);
	xk_put64(p + 8, client->boot);
	xk_put64(p + 16, client->server_boot);
	p += CLIENT_BID_LEN;
	xk_put32(p, client->channel);
	xk_put16(p + 4, (uint16_t)flags);
	xk_put32(p + 8, CLIENT_CHAN_TEST);
	xk_put32(p + 12, sequence);
	xk_put32(p + 16, (uint32_t)payload);
	if (payload != 0)
		client_payload(client, i, sequence, p + CLIENT_CHAN_LEN);
}

static void
client_call(struct clients *clients, struct client_frame *frame, uint32_t i)
{
	clients->calls_made++;
	client_send_chan(clients, frame, i, CLIENT_FROM_CLIENT | CLIENT_USER_MSG, ++clients->list[i].sequence);
}

/* ---- receiving ---- */

static unsigned
client_receive_arp(struct clients *clients, const uint8_t *p, uint32_t i, struct client_frame *answers)
{
	struct client *client = &clients->list[i];

	if (xk_get16(p + 6) == CLIENT_ARP_REQUEST) {
		client_send_arp(answers, i, CLIENT_ARP_REPLY);
		return 1;
	}
	if (client->state != CLIENT_AWAITS_ADDRESS || xk_get32(p + 14) != CLIENT_SERVER_HOST ||
	    xk_get48(p + 8) != CLIENT_SERVER_LINK) {
		clients->wrong++;
		return 0;
	}
	client->state = CLIENT_AWAITS_BOOT_ID;
	client_send_bidctl(clients, answers, i, CLIENT_QUERY, client_tag(client));
	return 1;
}

/* Returns whether the message is valid, from the server and to this boot of the client. */
static bool
client_accepts_bidctl(struct clients *clients, const uint8_t *p, uint32_t i)
{
	struct client *client = &clients->list[i];
	bool is_response = (xk_get16(p) & CLIENT_RESPONSE) != 0;

	if (!xk_sum_is_intact(xk_sum(0, p, CLIENT_BIDCTL_LEN)) || xk_get32(p + 4) != CLIENT_SERVER_HOST)
		return false;
	if (client->server_boot == 0)
		client->server_boot = xk_get64(p + 8);
	return xk_get64(p + 8) == client->server_boot &&
	       (!is_response || (client->state == CLIENT_AWAITS_BOOT_ID && xk_get64(p + 16) == client->boot &&
				 xk_get64(p + 32) == client_tag(client)));
}

static unsigned
client_receive_bidctl(struct clients *clients, const uint8_t *p, uint32_t i, struct client_frame *answers)
{
	unsigned flags = xk_get16(p), count = 0;

	if (!client_accepts_bidctl(clients, p, i)) {
		clients->wrong++;
		return 0;
	}
	if (flags & CLIENT_QUERY)
		client_send_bidctl(clients, &answers[count++], i, CLIENT_RESPONSE, xk_get64(p + 24));
	if (flags & CLIENT_RESPONSE) {
		clients->list[i].state = CLIENT_CALLS;
		client_call(clients, &answers[count++], i);
	}
	return count;
}

/* Returns whether these bytes are the correct reply to a call of the client. */
static bool
client_accepts_reply(const struct clients *clients, const uint8_t *bytes, size_t len, uint32_t i)
{
	const struct client *client = &clients->list[i];
	const uint8_t *bid = bytes + CLIENT_ETH_LEN + CLIENT_BLAST_LEN, *chan = bytes + CLIENT_CHAN_AT;
	uint8_t payload[CLIENT_PAYLOAD];

	if (len < CLIENT_CALL_LEN || xk_get32(bid) != CLIENT_BID_CHAN || xk_get32(bid + 4) != CLIENT_SERVER_HOST ||
	    xk_get64(bid + 8) != client->server_boot || xk_get64(bid + 16) != client->boot)
		return false;
	if ((xk_get16(chan + 4) | CLIENT_USER_MSG | CLIENT_ACK_REQUESTED) != (CLIENT_USER_MSG | CLIENT_ACK_REQUESTED) ||
	    xk_get32(chan) != client->channel)
		return false;
	if (!(xk_get16(chan + 4) & CLIENT_USER_MSG))
		return true; /* only a query about a reply */
	client_payload(client, i, xk_get32(chan + 12), payload);
	return len >= CLIENT_CALL_LEN + CLIENT_PAYLOAD && xk_get32(chan + 16) == CLIENT_PAYLOAD &&
	       memcmp(bytes + CLIENT_CALL_LEN, payload, CLIENT_PAYLOAD) == 0;
}

static unsigned
client_receive_reply(struct clients *clients, const uint8_t *bytes, size_t len, uint32_t i,
		     struct client_frame *answers, bool *ended)
{
	struct client *client = &clients->list[i];
	int32_t ahead;
	unsigned flags;

	if (client->state < CLIENT_CALLS || !client_accepts_reply(clients, bytes, len, i)) {
		clients->wrong++;
		return 0;
	}
	ahead = (int32_t)(xk_get32(bytes + CLIENT_CHAN_AT + 12) - client->sequence);
	if (ahead != 0) { /* of an older call, retransmitted while the next request was in flight */
		clients->wrong += ahead > 0;
		clients->repeated++;
		return 0;
	}
	flags = xk_get16(bytes + CLIENT_CHAN_AT + 4);
	if (client->state == CLIENT_CALLS && (flags & CLIENT_USER_MSG)) {
		clients->replies++;
		if (--client->calls_left > 0) {
			client_call(clients, answers, i);
			return 1;
		}
		client->state = CLIENT_IS_DONE;
		*ended = true;
	} else {
		clients->repeated++;
	}
	if (!(flags & CLIENT_ACK_REQUESTED))
		return 0;
	clients->acked++;
	client_send_chan(clients, answers, i, CLIENT_FROM_CLIENT, client->sequence + 1);
	return 1;
}

unsigned
client_receive(struct clients *clients, const uint8_t *bytes, size_t len, struct client_frame *answers, bool *ended)
{
	uint64_t to = xk_get48(bytes), i = to - CLIENT_LINK;
	unsigned type = xk_get16(bytes + 12);

	*ended = false;
	if (to == CLIENT_BROADCAST_LINK && type == CLIENT_TYPE_ARP)
		i = xk_get32(bytes + CLIENT_ETH_LEN + 24) - CLIENT_HOST;
	else if (to == CLIENT_BROADCAST_LINK)
		return 0; /* the server has booted */
	if (i >= clients->count || clients->list[i].state == CLIENT_OFF) {
		clients->wrong++;
		return 0;
	}
	if (type == CLIENT_TYPE_ARP && len >= CLIENT_ETH_LEN + CLIENT_ARP_LEN)
		return client_receive_arp(clients, bytes + CLIENT_ETH_LEN, (uint32_t)i, answers);
	if (type == CLIENT_TYPE_BIDCTL && len >= CLIENT_ETH_LEN + CLIENT_BIDCTL_LEN)
		return client_receive_bidctl(clients, bytes + CLIENT_ETH_LEN, (uint32_t)i, answers);
	if (type == CLIENT_TYPE_BLAST)
		return client_receive_reply(clients, bytes, len, (uint32_t)i, answers, ended);
	clients->wrong++;
	return 0;
}

unsigned
client_boot(struct clients *clients, uint32_t i, unsigned boots, struct client_frame *frames)
{
	uint64_t random = client_mix((uint64_t)boots << 32 | i);

	clients->list[i] = (struct client){
		.boot = (uint64_t)boots << 40 | random >> 24 | 1,
		.channel = (uint32_t)random,
		.sequence = (uint32_t)client_mix(random),
		.calls_left = clients->calls,
		.state = CLIENT_AWAITS_ADDRESS,
	};
	client_send_bidctl(clients, &frames[0], i, CLIENT_BROADCAST, 0);
	client_send_arp(&frames[1], i, CLIENT_ARP_REQUEST);
	return 2;
}
