/*
 * bidctl.c - which boot of a host is there now: asks hosts for their boot ids, and tells the protocols above of first
 * contacts, reboots and losses. bidctl_message.c has the messages and what they lead to, bidctl_peer.c what is known of
 * which host, bidctl_tag.c the tags of questions that nobody remembers; bidctl.h is how it is asked.
 *
 * Promise:      Only a host's own answer to a question of ours, known by a tag that nobody else can know, confirms a boot
 *               id; what a message says of itself never does, it makes us ask. Each reboot that is confirmed is told once.
 * Boot ids:     64 bits, never 0: a keyed hash of a secret and of the host that is told; key and secret are drawn at
 *               each boot. A host that is told one id cannot derive the ids that others are told, so it cannot speak
 *               for them even where addresses can be forged. Where the host counts its boots (xk_boots), the upper 24
 *               bits are that count, the same for all, and 40 bits are the hash: no two boots have one id. No clock has
 *               a part in it: two boots within a tick of one, or after one was set back, differ like any other two.
 *               Broadcasts bear the id of host 0, which is nobody's: it only makes their receivers ask.
 * Spec:         our own, after x-kernel 3.2's; a 40-byte header and nothing behind it:
 *
 *                0            2             4                    8
 *               +------------+-------------+--------------------+----------------------------------------+
 *               | flags      | checksum    | source host        | source's boot id (8 bytes)             |
 *               +------------+-------------+--------------------+----------------------------------------+
 *               | destination's boot id (8 bytes, 0: not known) | tag of a question (8 bytes, 0: none)   |
 *               +-----------------------------------------------+----------------------------------------+
 *               | tag of an answer (8 bytes, 0: none)           |
 *
 *               flags: QUERY 1, RESPONSE 2, BCAST 4 (alone: "I have booted"). The checksum is RFC 1071's.
 * Exchange:     QUERY (tag) -> RESPONSE (that tag, the destination's boot id being the one the QUERY came from). Every QUERY
 *               is answered, without any memory of its sender, by one message of the same length. If the asker is no
 *               peer, or was known by another boot, the answer is a question, too: the asker is known before its first
 *               message comes.
 *
 *               QUERY (tag a) -> RESPONSE (a) and QUERY (tag b), in one message -> RESPONSE (b)
 *
 *               Of who is no peer tag b is not remembered but computed from his host and boot id, a key and the time, and is
 *               good for a short while; only he who has received it takes memory. What is both answer and question is
 *               answered by a RESPONSE alone, and only if its own answer is right, so that nothing goes on for ever. If the
 *               last message is lost, the first one above is dropped by BID, and makes us ask.
 * Asking:       hosts that somebody opens (confirm), that a message with a strange boot id has come from (heard), that say
 *               to everybody that they have booted (after a random wait), and now and then those that somebody uses. A
 *               question is repeated after `timeout`, twice that and so on up to `timeout_max`, `retries` times; then the
 *               host is unreachable, or lost. A host is asked once in an `interval` at most, whatever strangers say of it.
 * Strangers:    who was never heard of before, and has not answered, has a place in a table of fixed size (`strangers`),
 *               no timer, and a part in a common `stranger_rate`. Only hosts that have answered, or are being opened, take
 *               memory: `peers` of them at most, 184 bytes each. When the table is full, a new peer replaces an unused
 *               one, chosen at random: whoever holds most of the table loses most.
 * Ended boots:  a boot that another one has followed is not confirmed again for `lifetime`, so that nobody need
 *               remember its requests. 4 ended boots of each host are remembered, and up to 1,024 while all hosts
 *               together have fewer than 16,384. Answers of a host with more are dropped until its oldest is forgotten.
 *               Each takes 16 bytes. A lost host is remembered as long, since its boot may have ended. A host with
 *               ended boots makes room for a new one only if no other can.
 * Participants: none; BID and CHAN call it (bidctl.h). Below: hosts, opened lazily (vnet.h), so that asking never waits
 * Hosts:        a host is the address that its messages bear. Where the session below knows its peer's host, it must be
 *               the same one. VNET knows only a station: whatever is sent to a host goes to the station that ARP knows
 *               (XK_VNET_LEADS_TO), never to another that speaks for the host, because that one would learn the host's
 *               boot ids. If a message came from another station, ARP asks for the host again (XK_VNET_DOUBT), which
 *               finds a host that has moved. Such answers count as questions to strangers, and are limited with them.
 * Ways:         a peer is where its latest answer came from: the answer's tag shows that this station gets what is sent
 *               to the host. A message from another station does not count as the peer's (xk_bidctl_heard), and makes
 *               us ask; an answer from there moves the peer. Over IP no station is known, and boot ids alone decide.
 * Telling:      uppers first (bidctl.h), by the shepherd that brought the answer, without the lock; what is confirmed
 *               meanwhile of the same host is told when it is done.
 * Settings:     peers, strangers, stranger_rate, timeout, timeout_max, retries, interval, keepalive, lifetime (longer than a
 *               message may be under way, so that nothing of a forgotten host is left), broadcast, broadcast_wait
 * Drops:        bad_checksum, bad_flags (or tags that they cannot have), bad_boot (none), bad_host (no single host, this one,
 *               or not the one below knows), stale (an answer to a former boot of this host), unasked (an answer to no
 *               question, or a second one), full (a stranger's answer: all `peers` are in use), ended (an answer as a
 *               boot that has ended), rebooting (an answer as one boot more than can be remembered)
 * Counters:     queries_in, queries_out, responses_in, responses_out, broadcasts_in, broadcasts_out, retries, keepalives;
 *               first_contacts, reboots, lost, forgotten (not used for long) as told; unreachable (asked in vain), limited
 *               (questions not asked), replaced (strangers that lost their place), too_many (peers that found no room), unsent,
 *               asked_back (responses_out that were questions, too)
 * Differs:      from x-kernel 3.2: ids of 64 bits and not a clock's seconds, a byte order, tags that cannot be guessed, an
 *               end to retries, answers without state, and LOST.
 * Graph:        bid -> bidctl, chan -> bidctl; bidctl -> vnet, or ip
 */
#include <errno.h>

#include "protocols/bid/bidctl_private.h"
#include "xkernel/trace.h"

/* ---- telling; the lock is held on both ends, and not in between ---- */

static enum xk_bidctl_change
bidctl_change(struct bidctl_peer *peer)
{
	struct xk_protocol *self = &peer->bidctl->protocol;

	if (peer->boot == 0)
		return XK_BIDCTL_LOST;
	xk_count(self, peer->told == 0 ? BIDCTL_FIRST_CONTACTS : BIDCTL_REBOOTS);
	return peer->told == 0 ? XK_BIDCTL_FIRST_CONTACT : XK_BIDCTL_REBOOTED;
}

static void
bidctl_tell_change(struct bidctl_peer *peer)
{
	static const char *const names[] = { "first contact with", "reboot of", "lost" };
	struct bidctl *b = peer->bidctl;
	struct xk_bidctl_peer known = { peer->host, peer->boot };
	enum xk_bidctl_change change = bidctl_change(peer);
	char host[16];

	xk_unlock(&b->lock);
	xk_trace(&b->protocol, XK_TRACE_EVENTS, "%s %s, boot %016llx", names[change], xk_host_print(known.host, host),
		 (unsigned long long)known.boot);
	for (struct xk_bidctl_watcher *watcher = b->watchers; watcher != NULL; watcher = watcher->next)
		watcher->changed(watcher, change, &known);
	xk_lock(&b->lock);
	peer->told = known.boot;
}

void
bidctl_tell(struct bidctl_peer *peer)
{
	if (peer->telling)
		return; /* who does goes on */
	peer->telling = true;
	peer->holds++;
	while (peer->told != peer->boot)
		bidctl_tell_change(peer);
	peer->holds--;
	peer->telling = false;
	if (peer->told != 0 || !peer->asking)
		bidctl_peer_wake(peer);
}

/* ---- a peer's timer ---- */

/* The last question has not been answered. */
static void
bidctl_give_up(struct bidctl_peer *peer)
{
	struct bidctl *b = peer->bidctl;

	peer->asking = false;
	xk_count(&b->protocol, peer->boot != 0 ? BIDCTL_LOSSES : BIDCTL_UNREACHABLE);
	if (peer->boot != 0)
		peer->lost_ns = xk_now_ns(&b->protocol);
	peer->boot = 0;
	bidctl_tell(peer);
}

/* Nothing is being asked. */
static void
bidctl_look(struct bidctl_peer *peer, struct bidctl_question *question)
{
	struct bidctl *b = peer->bidctl;

	if (peer->suspected) {
		bidctl_peer_ask(peer, question);
	} else if (peer->uses == 0) {
		if (peer->boot != 0) {
			xk_count(&b->protocol, BIDCTL_FORGOTTEN);
			peer->last = 0;
		}
		peer->boot = 0;
		bidctl_tell(peer);
	} else if (b->keepalive_ns != 0 && peer->boot != 0) {
		xk_count(&b->protocol, BIDCTL_KEEPALIVES);
		bidctl_peer_ask(peer, question);
	}
}

static void
bidctl_act(struct bidctl_peer *peer, struct bidctl_question *question)
{
	struct bidctl *b = peer->bidctl;
	uint64_t now_ns = xk_now_ns(&b->protocol);

	if (now_ns < peer->due_ns) {
		bidctl_peer_schedule(peer, peer->due_ns - now_ns);
	} else if (!peer->asking) {
		bidctl_look(peer, question);
	} else if (peer->tries < b->retries) {
		xk_count(&b->protocol, BIDCTL_RETRIES);
		bidctl_peer_ask_again(peer, question);
	} else {
		bidctl_give_up(peer);
	}
}

/*
 * Removes a peer of which nothing is known and that nobody uses. It stays for a while if one of its boots has ended
 * lately, or a shepherd is still using it.
 */
static void
bidctl_end(struct bidctl_peer *peer)
{
	uint64_t remembers_ns;

	if (peer->pending || peer->uses != 0 || peer->asking || peer->boot != 0 || peer->told != 0)
		return;
	remembers_ns = bidctl_peer_remembers(peer);
	if (remembers_ns == 0 && peer->holds == 0 && peer->waiters == NULL)
		bidctl_peer_forget(peer);
	else
		bidctl_peer_schedule(peer, remembers_ns != 0 ? remembers_ns : peer->bidctl->timeout_ns);
}

static void
bidctl_timeout(struct xk_event *event, void *argument)
{
	struct bidctl_peer *peer = argument;
	struct bidctl *b = peer->bidctl;
	struct bidctl_question question = { .tag = 0 };

	(void)event;
	xk_lock(&b->lock);
	peer->pending = false;
	peer->holds++;
	bidctl_act(peer, &question);
	xk_unlock(&b->lock);
	bidctl_send_question(b, &question);
	xk_lock(&b->lock);
	peer->holds--;
	bidctl_end(peer);
	xk_unlock(&b->lock);
}

/* ---- questions from above ---- */

/* Waits until the peer is told of, or given up. 0 or -errno. The lock is held on both ends. */
static int
bidctl_wait(struct bidctl_peer *peer, const struct bidctl_question *question, uint64_t *boot)
{
	struct bidctl *b = peer->bidctl;
	struct bidctl_waiter waiter = { .next = peer->waiters }, **at;
	int status;

	xk_semaphore_init(&waiter.semaphore, &b->protocol, 0);
	peer->waiters = &waiter;
	peer->holds++;
	xk_unlock(&b->lock);
	bidctl_send_question(b, question);
	status = xk_semaphore_wait(&waiter.semaphore, XK_FOREVER);
	xk_lock(&b->lock);
	peer->holds--;
	for (at = &peer->waiters; !waiter.done && *at != NULL; at = &(*at)->next)
		if (*at == &waiter) {
			*at = waiter.next;
			break;
		}
	*boot = waiter.boot;
	return waiter.done ? waiter.status : status;
}

static int
bidctl_confirm(struct xk_protocol *self, uint32_t host, uint64_t *boot)
{
	struct bidctl *b = bidctl_of(self);
	struct bidctl_question question = { .tag = 0 };
	struct bidctl_peer *peer;
	int status = -ENOBUFS;

	if (!bidctl_is_host(host))
		return -EINVAL;
	xk_lock(&b->lock);
	peer = bidctl_peer_get(b, host);
	if (peer != NULL && peer->told != 0 && !peer->telling) {
		*boot = peer->told;
		status = 0;
	} else if (peer != NULL) {
		if (peer->boot == 0 && !peer->asking)
			bidctl_peer_ask(peer, &question);
		status = bidctl_wait(peer, &question, boot);
	}
	xk_unlock(&b->lock);
	return status;
}

static int
bidctl_use(struct xk_protocol *self, uint32_t host)
{
	struct bidctl *b = bidctl_of(self);
	struct bidctl_peer *peer;

	xk_lock(&b->lock);
	peer = bidctl_peer_get(b, host);
	if (peer != NULL && peer->uses++ == 0 && !peer->asking && !peer->suspected)
		bidctl_peer_rest(peer);
	xk_unlock(&b->lock);
	return peer != NULL ? 0 : -ENOBUFS;
}

static void
bidctl_unuse(struct xk_protocol *self, uint32_t host)
{
	struct bidctl *b = bidctl_of(self);
	struct bidctl_peer *peer;

	xk_lock(&b->lock);
	peer = bidctl_peer_find(b, host);
	xk_assert(peer != NULL && peer->uses > 0);
	if (--peer->uses == 0 && !peer->asking && !peer->suspected)
		bidctl_peer_rest(peer);
	xk_unlock(&b->lock);
}

static void
bidctl_watch(struct xk_protocol *self, struct xk_bidctl_watcher *watcher)
{
	struct bidctl *b = bidctl_of(self);

	watcher->next = b->watchers;
	b->watchers = watcher;
}

static const struct xk_bidctl_ops bidctl_neighbour_ops = {
	.own = bidctl_own,
	.watch = bidctl_watch,
	.confirm = bidctl_confirm,
	.heard = bidctl_hear,
	.use = bidctl_use,
	.unuse = bidctl_unuse,
};

/* ---- life ---- */

/* The first thing that is done: everybody is told. */
static void
bidctl_boot(struct xk_event *event, void *argument)
{
	(void)event;
	bidctl_send_broadcast(argument);
}

static void
bidctl_fini(struct xk_protocol *self)
{
	struct bidctl *b = bidctl_of(self);

	xk_event_cancel(&b->boot);
	bidctl_peer_fini(b);
}

static int
bidctl_init(struct xk_protocol *self)
{
	struct bidctl *b = bidctl_of(self);
	struct xk_participants anybody = { .remote.depth = 0 };
	int status;

	if (b->timeout_max_ns < b->timeout_ns)
		return -EINVAL;
	b->secret = xk_random(self);
	bidctl_tag_init(b);
	xk_lock_init(&b->lock, self);
	xk_event_init(&b->boot, self->kernel, bidctl_boot, b);
	status = bidctl_peer_init(b, bidctl_timeout);
	if (status == 0)
		status = xk_open_enable(self, self, xk_lower(self, 0), &anybody);
	if (status != 0)
		bidctl_peer_fini(b);
	else if (b->broadcast)
		xk_event_schedule(&b->boot, 0);
	return status;
}

/* ---- tables ---- */

static const struct xk_protocol_ops bidctl_ops = {
	.init = bidctl_init,
	.fini = bidctl_fini,
	.demux = bidctl_demux,
};

static const struct xk_role bidctl_lowers[] = {
	{ "network", XK_ASYNC, NULL, "carries messages to hosts; vnet, ip, or what chooses between them" },
	{ NULL, 0, NULL, NULL },
};

enum { BIDCTL_PEERS_MAX = 1 << 20 };

static const struct xk_setting bidctl_settings[] = {
	{ "peers", XK_SETTING_UINT, offsetof(struct bidctl, peer_max), "4096", "hosts that are known, at most", 1,
	  BIDCTL_PEERS_MAX },
	{ "strangers", XK_SETTING_UINT, offsetof(struct bidctl, stranger_count), "1024",
	  "hosts that were asked because of a message and have not answered yet", BIDCTL_WAYS, BIDCTL_PEERS_MAX },
	{ "stranger_rate", XK_SETTING_UINT, offsetof(struct bidctl, stranger_rate), "10000",
	  "questions to them per second, to all together", 1, 1000000 },
	{ "timeout", XK_SETTING_TIME, offsetof(struct bidctl, timeout_ns), "200ms",
	  "after this without an answer a question is repeated, at first", 1000, UINT64_C(60000000000) },
	{ "timeout_max", XK_SETTING_TIME, offsetof(struct bidctl, timeout_max_ns), "5s",
	  "the longest that doubling makes of it", 1000, UINT64_C(3600000000000) },
	{ "retries", XK_SETTING_UINT, offsetof(struct bidctl, retries), "6",
	  "how often a question is repeated before the host is given up", 0, 100 },
	{ "interval", XK_SETTING_TIME, offsetof(struct bidctl, interval_ns), "200ms",
	  "a host is asked at most once in this, whatever comes from it", 1000, UINT64_C(3600000000000) },
	{ "keepalive", XK_SETTING_TIME, offsetof(struct bidctl, keepalive_ns), "60s",
	  "how often a host that is used is asked whether it is there; 0: never", 0, UINT64_C(86400000000000) },
	{ "lifetime", XK_SETTING_TIME, offsetof(struct bidctl, lifetime_ns), "300s",
	  "how long a host is remembered that nobody uses", 1000, UINT64_C(86400000000000) },
	{ "broadcast", XK_SETTING_BOOL, offsetof(struct bidctl, broadcast), "yes", "tell everybody of this boot", 0,
	  0 },
	{ "broadcast_wait", XK_SETTING_TIME, offsetof(struct bidctl, broadcast_wait_ns), "3s",
	  "who is told asks after a random time, this at most", 0, UINT64_C(60000000000) },
	{ NULL, 0, 0, NULL, NULL, 0, 0 },
};

static const char *const bidctl_drops[] = { "bad_checksum", "bad_flags", "bad_boot", "bad_host",  "stale",
					    "unasked",      "full",      "ended",    "rebooting", NULL };

static const char *const bidctl_counters[] = {
	"queries_in",  "queries_out", "responses_in",   "responses_out", "broadcasts_in", "broadcasts_out",
	"retries",     "keepalives",  "first_contacts", "reboots",       "lost",          "forgotten",
	"unreachable", "limited",     "replaced",       "too_many",      "unsent",        "asked_back",
	NULL,
};

static const struct xk_number_on bidctl_numbers[] = { { "eth", 0x3006 }, { "ip", 205 }, { NULL, 0 } };

const struct xk_protocol_type xk_type_bidctl = {
	.name = "bidctl",
	.help = "Boot-id agreement: which boot of a host is there now, asked for and confirmed.",
	.ops = &bidctl_ops,
	.header = BIDCTL_HEADER_LEN,
	.fields = bidctl_fields,
	.size = sizeof(struct bidctl),
	.offers = XK_CONTROL,
	.lowers = bidctl_lowers,
	.numbers = bidctl_numbers,
	.settings = bidctl_settings,
	.drops = bidctl_drops,
	.counters = bidctl_counters,
	.neighbour_ops = &bidctl_neighbour_ops,
};
