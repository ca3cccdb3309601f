/*
 * arp.c - the link addresses of neighbours: packets and questions. arp_table.c has the table of hosts.
 *
 * Spec:         RFC 826, for IPv4 over Ethernet; the packet is a header of 28 bytes, without a payload
 * Participants: none; VNET calls it (arp.h)
 * Calls:        (arp.h) set the own address, resolve (may wait), look up, output (a message that waits here for its
 *               link address), follow (be told of changes), doubt (ask again)
 * Control:      the link answers
 * Learning:     an entry comes to be when this host asks, or when somebody asks for this host; every other packet at
 *               most updates an entry that is there (RFC 826's merge). The table is bounded; what was not used for
 *               longest makes room, but never what is being waited for.
 * Following:    a sender that uses a host for long is told when its link address changes, becomes too old or is lost.
 *               With its next use it asks again: the host itself at the address it had, and if that does not answer,
 *               everybody (RFC 1122, 2.3.2.1). Addresses that nobody uses are not asked for. An address that changes
 *               unasked is believed only as long as asking takes, so that a wrong one does not last.
 * Settings:     entries (with fewer than there are hosts in use at a time, every other use asks again), queue, age,
 *               timeout, tries
 * Drops:        bad_hardware, bad_protocol, bad_length, bad_operation (a field's value), bad_sender (not who sent the
 *               frame), bad_address (no host of this network), conflict (somebody else claims our address; traced),
 *               unasked (a reply), queue_full (the oldest of too many that wait for a host; or too many wait in all),
 *               unresolved (nobody answered), table_full (everything in the table is being asked for)
 * Counters:     requests_in, replies_in, others (requests for others), requests_out, replies_out, learned (entries made
 *               from requests to us), replaced (entries that made room), unreachable (hosts that did not answer); of
 *               hosts that are followed polls (requests to one station), moved (to another link address), lost (did not
 *               answer)
 * Not done:     announcing and probing the own address (RFC 5227), several addresses on one link
 * Graph:        vnet -> arp; arp -> eth
 */
#include "protocols/arp/arp.h"

#include <errno.h>
#include <stdlib.h>

#include "protocols/arp/arp_private.h"
#include "protocols/eth.h"
#include "xkernel/bytes.h"
#include "xkernel/trace.h"

/* ---- packets ---- */

enum {
	ARP_HARDWARE = 0,
	ARP_PROTOCOL = 2,
	ARP_HARDWARE_LEN = 4,
	ARP_PROTOCOL_LEN = 5,
	ARP_OPERATION = 6,
	ARP_SENDER_LINK = 8,
	ARP_SENDER_HOST = 14,
	ARP_TARGET_LINK = 18,
	ARP_TARGET_HOST = 24,
	ARP_PACKET_LEN = 28,

	ARP_ETHERNET = 1,
	ARP_IPV4 = 0x0800,
	ARP_LINK_LEN = 6,
	ARP_HOST_LEN = 4,
	ARP_REQUEST = 1,
	ARP_REPLY = 2,
};

static const struct xk_field_value arp_operations[] = { { ARP_REQUEST, "request" },
							{ ARP_REPLY, "reply" },
							{ 0, NULL } };

static const struct xk_field arp_fields[] = {
	{ .name = "hardware", .bits = 16, .kind = XK_FIXED, .usual = ARP_ETHERNET, .help = "Ethernet" },
	{ .name = "protocol", .bits = 16, .kind = XK_FIXED, .print = XK_PRINT_HEX, .usual = ARP_IPV4, .help = "IPv4" },
	{ .name = "hardware_length", .bits = 8, .kind = XK_FIXED, .usual = ARP_LINK_LEN },
	{ .name = "protocol_length", .bits = 8, .kind = XK_FIXED, .usual = ARP_HOST_LEN },
	{ .name = "operation", .bits = 16, .values = arp_operations },
	{ .name = "sender_link", .bits = 48, .kind = XK_FIXED, .print = XK_PRINT_LINK, .help = "the frame's source" },
	{ .name = "sender_host", .bits = 32, .print = XK_PRINT_HOST, .help = "0: a probe" },
	{ .name = "target_link", .bits = 48, .print = XK_PRINT_LINK, .help = "not looked at" },
	{ .name = "target_host", .bits = 32, .print = XK_PRINT_HOST },
	{ .name = NULL },
};

struct arp_packet {
	uint32_t operation;
	uint64_t sender_link, target_link;
	uint32_t sender_host, target_host;
};

static struct arp *
arp_of(struct xk_protocol *self)
{
	return xk_container_of(self, struct arp, protocol);
}

/* Loads the packet at p and checks each field by itself. 0, or the reason to drop it. */
static unsigned
arp_packet_load(struct arp_packet *packet, const uint8_t *p)
{
	if (xk_get16(p + ARP_HARDWARE) != ARP_ETHERNET)
		return ARP_DROP_BAD_HARDWARE;
	if (xk_get16(p + ARP_PROTOCOL) != ARP_IPV4)
		return ARP_DROP_BAD_PROTOCOL;
	if (p[ARP_HARDWARE_LEN] != ARP_LINK_LEN || p[ARP_PROTOCOL_LEN] != ARP_HOST_LEN)
		return ARP_DROP_BAD_LENGTH;
	packet->operation = xk_get16(p + ARP_OPERATION);
	if (packet->operation != ARP_REQUEST && packet->operation != ARP_REPLY)
		return ARP_DROP_BAD_OPERATION;
	packet->sender_link = xk_get48(p + ARP_SENDER_LINK);
	packet->sender_host = xk_get32(p + ARP_SENDER_HOST);
	packet->target_link = xk_get48(p + ARP_TARGET_LINK);
	packet->target_host = xk_get32(p + ARP_TARGET_HOST);
	return XK_DROP_NONE;
}

/* Whether host may be that of another station of network. */
static bool
arp_is_neighbour(const struct xk_network *network, uint32_t host)
{
	uint32_t rest = network->bits == 0 ? UINT32_MAX : (uint32_t)((UINT64_C(1) << (32 - network->bits)) - 1);

	if (((host ^ network->host) & ~rest) != 0 || host >> 28 >= 0xe)
		return false;
	return network->bits >= 31 || ((host & rest) != 0 && (host & rest) != rest);
}

static struct xk_msg *
arp_packet_make(struct xk_protocol *self, const struct arp_packet *packet)
{
	struct xk_msg *m = xk_msg_new(xk_platform_of(self), ARP_PACKET_LEN);

	if (m == NULL)
		return NULL;
	xk_put16(m->data + ARP_HARDWARE, ARP_ETHERNET);
	xk_put16(m->data + ARP_PROTOCOL, ARP_IPV4);
	m->data[ARP_HARDWARE_LEN] = ARP_LINK_LEN;
	m->data[ARP_PROTOCOL_LEN] = ARP_HOST_LEN;
	xk_put16(m->data + ARP_OPERATION, (uint16_t)packet->operation);
	xk_put48(m->data + ARP_SENDER_LINK, packet->sender_link);
	xk_put32(m->data + ARP_SENDER_HOST, packet->sender_host);
	xk_put48(m->data + ARP_TARGET_LINK, packet->target_link);
	xk_put32(m->data + ARP_TARGET_HOST, packet->target_host);
	return m;
}

/* Opens the link's session to one station, with a reference for the caller. NULL: none. */
static struct xk_session *
arp_open_link(struct arp *arp, uint64_t link)
{
	struct xk_protocol *self = &arp->protocol;
	struct xk_participants participants = { .remote.depth = 0 };
	struct xk_session *lls;

	xk_participant_push(&participants.remote, link);
	return xk_open(self, self, xk_lower(self, 0), &participants, &lls) == 0 ? lls : NULL;
}

/* Sends a request to everybody, or to the station `link` alone; not without a buffer: the timer tries again. */
static void
arp_send_request(struct arp *arp, uint32_t own, uint32_t host, uint64_t link)
{
	struct arp_packet packet = { ARP_REQUEST, arp->link, 0, own, host };
	struct xk_session *one = link != 0 ? arp_open_link(arp, link) : NULL;
	struct xk_msg *m = arp_packet_make(&arp->protocol, &packet);

	if (m != NULL) {
		xk_count(&arp->protocol, ARP_COUNT_REQUESTS_OUT);
		if (one != NULL)
			xk_count(&arp->protocol, ARP_COUNT_POLLS);
		xk_push(one != NULL ? one : arp->broadcast, m);
	}
	xk_close(one);
}

/* Answers request, which came up lls. Takes it. */
static void
arp_send_reply(struct arp *arp, struct xk_session *lls, const struct arp_packet *asked, struct xk_msg *request)
{
	struct arp_packet packet = { ARP_REPLY, arp->link, asked->sender_link, asked->target_host, asked->sender_host };
	struct xk_msg *m = arp_packet_make(&arp->protocol, &packet);

	if (m == NULL) {
		xk_drop(&arp->protocol, request, XK_DROP_NO_BUFFER);
		return;
	}
	xk_msg_free(request);
	xk_count(&arp->protocol, ARP_COUNT_REPLIES_OUT);
	xk_push(lls, m);
}

static bool
arp_may_ask(const struct arp *arp, uint32_t host)
{
	const struct xk_network *network = &arp->network;

	return network->host != 0 && host != network->host && arp_is_neighbour(network, host);
}

/* ---- queues of messages; the lock is not held ---- */

/* Takes the first message off queue, for the caller to free. NULL: none. */
static struct arp_waiting *
arp_queue_take(struct arp_queue *queue)
{
	struct arp_waiting *waiting = STAILQ_FIRST(&queue->waiting);

	if (waiting != NULL)
		STAILQ_REMOVE_HEAD(&queue->waiting, next);
	return waiting;
}

static void
arp_send_queue(struct arp_queue *queue, uint64_t link)
{
	struct arp_waiting *waiting;

	while ((waiting = arp_queue_take(queue)) != NULL) {
		waiting->output.send(&waiting->output, link);
		free(waiting);
	}
}

static void
arp_tell_follower(const struct arp *arp, const struct arp_queue *queue)
{
	if (queue->changed != 0 && arp->follower.changed != NULL)
		arp->follower.changed(&arp->follower, queue->changed);
}

static void
arp_drop_queue(struct arp *arp, struct arp_queue *queue)
{
	struct arp_waiting *waiting;

	while ((waiting = arp_queue_take(queue)) != NULL) {
		const struct xk_arp_output *output = &waiting->output;

		if (output->unsent != NULL)
			output->unsent(output);
		xk_drop(&arp->protocol, output->m, ARP_DROP_UNRESOLVED);
		free(waiting);
	}
	arp_tell_follower(arp, queue);
}

/* Nobody has answered in time: asks again, or gives up. Or the address has become too old. */
static void
arp_timeout(struct xk_event *event, void *argument)
{
	struct arp_entry *e = argument;
	struct arp *arp = e->arp;
	struct arp_queue queue = ARP_QUEUE_INITIALIZER(queue);
	bool again = false;
	uint32_t own, host;
	uint64_t link = 0;

	xk_lock(&arp->lock);
	own = arp->network.host;
	host = e->host;
	if (e->state == ARP_ASKING) {
		link = e->is_polled ? e->link : 0;
		again = e->is_polled || e->tries < arp->tries;
		e->tries += !e->is_polled;
		e->is_polled = false;
		if (again) {
			xk_event_schedule(event, arp->timeout_ns / ARP_NS_PER_US);
		} else {
			arp_table_give_up(arp, e, &queue);
			xk_trace(&arp->protocol, XK_TRACE_EVENTS, "host %08x does not answer", host);
		}
	} else if (e->state == ARP_KNOWN && arp_table_expire(arp, e)) {
		queue.changed = host;
	}
	xk_unlock(&arp->lock);
	if (again)
		arp_send_request(arp, own, host, link);
	arp_drop_queue(arp, &queue);
}

/* Waits until e is no longer ASKING in this round. 0 or as xk_semaphore_wait. The lock is held on both ends. */
static int
arp_wait(struct arp *arp, struct arp_entry *e, uint32_t own, bool asks)
{
	uint64_t round = e->round;
	int status = 0;

	e->waiters++;
	while (status == 0 && e->round == round && e->state == ARP_ASKING) {
		xk_unlock(&arp->lock);
		if (asks)
			arp_send_request(arp, own, e->host, 0);
		asks = false;
		status = xk_semaphore_wait(&e->answered, XK_FOREVER);
		xk_lock(&arp->lock);
	}
	e->waiters--;
	if (status == 0 && (e->round != round || e->state != ARP_KNOWN))
		return -EHOSTUNREACH;
	return status;
}

static int
arp_resolve(struct xk_protocol *self, uint32_t host, uint64_t *link)
{
	struct arp *arp = arp_of(self);
	struct arp_queue queue = ARP_QUEUE_INITIALIZER(queue);
	struct arp_entry *e;
	bool asks;
	int status = -EHOSTUNREACH;

	xk_lock(&arp->lock);
	if (!arp_may_ask(arp, host))
		goto out;
	status = -ENOBUFS;
	e = arp_table_get(arp, host, &asks, &queue);
	if (e == NULL)
		goto out;
	status = e->state == ARP_KNOWN ? 0 : arp_wait(arp, e, arp->network.host, asks);
	if (status == 0)
		*link = e->link;
out:
	xk_unlock(&arp->lock);
	arp_drop_queue(arp, &queue);
	return status;
}

static int
arp_lookup(struct xk_protocol *self, uint32_t host, uint64_t *link)
{
	struct arp *arp = arp_of(self);
	struct arp_entry *e;
	int status = -ENOENT;

	xk_lock(&arp->lock);
	e = arp_table_find(arp, host);
	if (e != NULL && arp_table_is_known(arp, e)) {
		arp_table_use(arp, e);
		*link = e->link;
		status = 0;
	}
	xk_unlock(&arp->lock);
	return status;
}

/* Finds the entry of the host that is followed, and asks for it if need be and may_ask. 0 or -errno. */
static int
arp_follow_entry(struct arp *arp, uint32_t host, bool may_ask, struct arp_queue *replaced, struct arp_entry **entry)
{
	struct arp_entry *e = arp_table_find(arp, host);
	bool asks;

	*entry = e;
	if (e != NULL && (e->state == ARP_ASKING || arp_table_is_known(arp, e)))
		return 0;
	if (!may_ask)
		return -ENOENT;
	if (!arp_may_ask(arp, host))
		return -EHOSTUNREACH;
	e = arp_table_get(arp, host, &asks, replaced);
	if (e == NULL)
		return -ENOBUFS;
	arp_table_poll(e);
	*entry = e;
	return 0;
}

static int
arp_follow(struct xk_protocol *self, uint32_t host, uint64_t *link, bool asks)
{
	struct arp *arp = arp_of(self);
	struct arp_queue replaced = ARP_QUEUE_INITIALIZER(replaced);
	struct arp_entry *e;
	int status;

	xk_lock(&arp->lock);
	status = arp_follow_entry(arp, host, asks, &replaced, &e);
	if (status == 0) {
		arp_table_use(arp, e);
		arp_table_follow(arp, e, asks && e->link != *link);
		*link = e->link;
		if (asks && (e->state != ARP_KNOWN || e->is_to_tell))
			status = -EINPROGRESS;
		else if (e->state != ARP_KNOWN)
			status = -ENOENT;
	}
	xk_unlock(&arp->lock);
	arp_drop_queue(arp, &replaced);
	return status;
}

/*
 * Queues output, unless it can be sent to *link now (0: it cannot). *oldest: a message that must be dropped for it, or
 * NULL. Returns 0, or the reason to drop output itself.
 */
static unsigned
arp_enqueue(struct arp *arp, const struct xk_arp_output *output, bool *asks, uint64_t *link, struct arp_queue *replaced,
	    struct xk_msg **oldest)
{
	struct arp_entry *e;

	*link = 0;
	*asks = false;
	*oldest = NULL;
	if (!arp_may_ask(arp, output->host))
		return ARP_DROP_UNRESOLVED;
	e = arp_table_get(arp, output->host, asks, replaced);
	if (e == NULL)
		return ARP_DROP_TABLE_FULL;
	if (e->state != ARP_KNOWN)
		return arp_table_wait(arp, e, output, oldest);
	*link = e->link;
	return XK_DROP_NONE;
}

static int
arp_output(struct xk_protocol *self, const struct xk_arp_output *output)
{
	struct arp *arp = arp_of(self);
	struct arp_queue replaced = ARP_QUEUE_INITIALIZER(replaced);
	struct xk_msg *oldest;
	uint64_t link;
	uint32_t own, host = output->host;
	unsigned why;
	bool asks;

	xk_lock(&arp->lock);
	own = arp->network.host;
	why = arp_enqueue(arp, output, &asks, &link, &replaced, &oldest);
	xk_unlock(&arp->lock);
	arp_drop_queue(arp, &replaced);
	if (oldest != NULL)
		xk_drop(&arp->protocol, oldest, ARP_DROP_QUEUE_FULL);
	if (why != XK_DROP_NONE)
		xk_drop(&arp->protocol, output->m, why);
	if (asks)
		arp_send_request(arp, own, host, 0);
	else if (link != 0)
		output->send(output, link);
	return why != XK_DROP_NONE ? -ENOBUFS : 0;
}

static void
arp_doubt(struct xk_protocol *self, uint32_t host, uint64_t link)
{
	struct arp *arp = arp_of(self);
	struct arp_entry *e;
	uint32_t own;
	bool asks;

	xk_lock(&arp->lock);
	own = arp->network.host;
	e = arp_table_find(arp, host);
	asks = e != NULL && arp_table_is_known(arp, e) && e->link != link;
	if (asks)
		arp_table_ask(arp, e);
	xk_unlock(&arp->lock);
	if (asks)
		arp_send_request(arp, own, host, 0);
}

/* ---- arriving packets ---- */

/* Whether the packet names the same sender as its frame, which came up lls. No lock is held. */
static bool
arp_is_from_sender(struct xk_session *lls, const struct arp_packet *packet)
{
	uint64_t link;

	return xk_control(lls, XK_GET_PEER_LINK, &link, sizeof(link)) > 0 && link == packet->sender_link;
}

/* Checks the sender's host against this host's network. 0, or the reason to drop the packet. */
static unsigned
arp_check_host(const struct xk_network *network, const struct arp_packet *packet)
{
	if (packet->sender_host == network->host)
		return ARP_DROP_CONFLICT;
	if (packet->sender_host == 0) /* a probe (RFC 5227) */
		return packet->operation == ARP_REQUEST ? XK_DROP_NONE : ARP_DROP_BAD_ADDRESS;
	return arp_is_neighbour(network, packet->sender_host) ? XK_DROP_NONE : ARP_DROP_BAD_ADDRESS;
}

/* RFC 826's merge; a new entry only if this host is asked for. 0, or the reason to drop the packet. */
static unsigned
arp_merge(struct arp *arp, const struct arp_packet *packet, bool mine, struct arp_queue *queue)
{
	struct arp_entry *e = arp_table_find(arp, packet->sender_host);
	bool announces = packet->sender_host == packet->target_host;

	if (packet->operation == ARP_REPLY && (e == NULL || (!mine && !announces)))
		return ARP_DROP_UNASKED;
	if (e == NULL && mine && packet->sender_host != 0) {
		e = arp_table_add(arp, packet->sender_host, queue);
		if (e != NULL)
			xk_count(&arp->protocol, ARP_COUNT_LEARNED);
	}
	if (e != NULL)
		arp_table_learn(arp, e, packet->sender_link, queue);
	return XK_DROP_NONE;
}

/* Learns from a packet, unless this host has no address of its own. 0, or the reason to drop the packet. */
static unsigned
arp_receive(struct arp *arp, const struct arp_packet *packet, bool *mine, struct arp_queue *queue)
{
	unsigned why;

	if (arp->network.host == 0)
		return packet->operation == ARP_REPLY ? ARP_DROP_UNASKED : XK_DROP_NONE;
	*mine = packet->target_host == arp->network.host;
	why = arp_check_host(&arp->network, packet);
	return why != XK_DROP_NONE ? why : arp_merge(arp, packet, *mine, queue);
}

/* Ends a good packet, whose padding m is, with a reply if it asks for this host. Takes m. */
static void
arp_reply_or_end(struct arp *arp, struct xk_session *lls, const struct arp_packet *packet, bool mine, struct xk_msg *m)
{
	bool asks = packet->operation == ARP_REQUEST;

	xk_count(&arp->protocol, !asks ? ARP_COUNT_REPLIES_IN : mine ? ARP_COUNT_REQUESTS_IN : ARP_COUNT_OTHERS);
	if (asks && mine)
		arp_send_reply(arp, lls, packet, m);
	else
		xk_msg_free(m);
}

static void
arp_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct arp *arp = arp_of(self);
	struct arp_queue queue = ARP_QUEUE_INITIALIZER(queue);
	struct arp_packet packet;
	bool mine = false;
	unsigned why = arp_packet_load(&packet, m->data);

	xk_msg_pop_in_place(m, ARP_PACKET_LEN);
	if (why == XK_DROP_NONE && !arp_is_from_sender(lls, &packet))
		why = ARP_DROP_BAD_SENDER;
	if (why == XK_DROP_NONE) {
		xk_lock(&arp->lock);
		why = arp_receive(arp, &packet, &mine, &queue);
		xk_unlock(&arp->lock);
	}
	if (why == ARP_DROP_CONFLICT)
		xk_trace(self, XK_TRACE_ERRORS, "%012llx claims this host's address",
			 (unsigned long long)packet.sender_link);
	if (why != XK_DROP_NONE) {
		xk_drop(self, m, why);
		return;
	}
	arp_reply_or_end(arp, lls, &packet, mine, m);
	arp_tell_follower(arp, &queue);
	arp_send_queue(&queue, packet.sender_link);
}

/* ---- life and control ---- */

static void
arp_fini(struct xk_protocol *self)
{
	struct arp *arp = arp_of(self);
	struct xk_participants nobody = { .remote.depth = 0 };

	xk_open_disable(self, self, xk_lower(self, 0), &nobody);
	xk_close(arp->broadcast);
	arp_table_fini(arp);
}

static int
arp_open_lower(struct arp *arp)
{
	struct xk_protocol *self = &arp->protocol, *eth = xk_lower(self, 0);
	struct xk_participants everybody = { .remote.depth = 0 }, nobody = { .remote.depth = 0 };
	int status = xk_control_protocol(eth, XK_GET_LINK_ADDRESS, &arp->link, sizeof(arp->link));

	if (status < 0)
		return status;
	xk_participant_push(&everybody.remote, XK_ETH_BROADCAST);
	status = xk_open(self, self, eth, &everybody, &arp->broadcast);
	if (status != 0)
		return status;
	status = xk_open_enable(self, self, eth, &nobody);
	if (status != 0)
		xk_close(arp->broadcast);
	return status;
}

static int
arp_init(struct xk_protocol *self)
{
	struct arp *arp = arp_of(self);
	int status;

	xk_lock_init(&arp->lock, self);
	status = arp_table_init(arp, arp_timeout);
	if (status == 0)
		status = arp_open_lower(arp);
	if (status != 0)
		arp_table_fini(arp);
	return status;
}

static int
arp_set_address(struct xk_protocol *self, const struct xk_network *network)
{
	struct arp *arp = arp_of(self);

	if (network->bits > 32 || network->host == 0)
		return -EINVAL;
	xk_lock(&arp->lock);
	arp->network = *network;
	xk_unlock(&arp->lock);
	return 0;
}

static void
arp_set_follower(struct xk_protocol *self, const struct xk_arp_follower *follower)
{
	arp_of(self)->follower = *follower;
}

static const struct xk_arp_ops arp_neighbour_ops = {
	.set_address = arp_set_address,
	.set_follower = arp_set_follower,
	.resolve = arp_resolve,
	.lookup = arp_lookup,
	.follow = arp_follow,
	.doubt = arp_doubt,
	.output = arp_output,
};

static const struct xk_protocol_ops arp_ops = {
	.init = arp_init,
	.fini = arp_fini,
	.demux = arp_demux,
};

static const struct xk_role arp_lowers[] = {
	{ "link", XK_ASYNC, NULL, "the link whose addresses are resolved" },
	{ NULL, 0, NULL, NULL },
};

static const struct xk_setting arp_settings[] = {
	{ "entries", XK_SETTING_UINT, offsetof(struct arp, entry_count), "256", "hosts in the table", 1, 1 << 20 },
	{ "queue", XK_SETTING_UINT, offsetof(struct arp, queue_max), "48", "messages that wait for one host", 1, 1024 },
	{ "age", XK_SETTING_TIME, offsetof(struct arp, age_ns), "600s", "how long an answer is believed", 1000,
	  UINT64_C(86400000000000) },
	{ "timeout", XK_SETTING_TIME, offsetof(struct arp, timeout_ns), "500ms", "how long one request waits", 1000,
	  UINT64_C(60000000000) },
	{ "tries", XK_SETTING_UINT, offsetof(struct arp, tries), "3", "requests before a host is unreachable", 1, 100 },
	{ NULL, 0, 0, NULL, NULL, 0, 0 },
};

static const char *const arp_drops[] = {
	"bad_hardware", "bad_protocol", "bad_length", "bad_operation", "bad_sender", "bad_address",
	"conflict",     "unasked",      "queue_full", "unresolved",    "table_full", NULL,
};

static const char *const arp_counters[] = {
	"requests_in", "replies_in",  "others", "requests_out", "replies_out", "learned",
	"replaced",    "unreachable", "polls",  "moved",        "lost",        NULL,
};

static const struct xk_number_on arp_numbers[] = { { "eth", 0x0806 }, { NULL, 0 } };

const struct xk_protocol_type xk_type_arp = {
	.name = "arp",
	.help = "Address resolution: the link addresses of neighbours, asked for and answered.",
	.ops = &arp_ops,
	.header = ARP_PACKET_LEN,
	.fields = arp_fields,
	.size = sizeof(struct arp),
	.offers = XK_CONTROL,
	.lowers = arp_lowers,
	.numbers = arp_numbers,
	.settings = arp_settings,
	.drops = arp_drops,
	.counters = arp_counters,
	.neighbour_ops = &arp_neighbour_ops,
};
