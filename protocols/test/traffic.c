/*
 * traffic.c - the load of simulated networks: sends messages to many peers (here), and checks every message that
 * comes (traffic_check.c).
 *
 * A message says who has sent it to whom, in which stream and as which of it, and its other bytes follow from that:
 * damage, mixing, cuts and wrong deliveries are seen. A stream is what one boot of a host pushes on one session; its
 * messages are numbered from 0, and only what the protocol below has accepted counts. A session that the protocol
 * below closes is opened again, with a new stream.
 *
 * Participants: none above; below (remote: host, port; local: port, if `local` says one); no port if it is 0
 * Hosts:        A host on several links has an address on each. It sends under that of the session, expects messages
 *               to that of the session they come up, and sends to none of its own.
 * Sending:      One event sends. A shepherd of its own opens the peers' sessions, because that may wait for ARP;
 *               messages go to those that are open. At rate=0 it sends until the protocol below refuses, and again
 *               after 1 ms. What is refused is not sent again. Hosts with the same settings begin at different times
 *               within 1/rate.
 * Control:      traffic.h. From below: XK_FAULT
 * Counters:     unsent: refused by the protocol below; unopened: there was nobody to send to; reports: what hosts say
 *               of messages (fault.h). The faults, from corrupt on, are counted always; `promise` says which of them
 *               are broken, too.
 * Not done:     answers
 * Graph:        traffic -> udp, traffic -> stopwait, traffic [port=0] -> blast
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protocols/test/traffic_private.h"
#include "xkernel/fault.h"
#include "xkernel/trace.h"

const char *const traffic_counters[] = {
	"sent",      "received",  "unsent",  "unopened",        "opened",      "closed",
	"broken",    "forgotten", "reports", "corrupt",         "misdirected", "duplicate",
	"reordered", "gap",       "mixed",   "old_incarnation", NULL,
};

enum {
	TRAFFIC_BATCH = 64,        /* messages that one event sends at most */
	TRAFFIC_REFUSED_US = 1000, /* rate=0: after a refusal */
};

#define TRAFFIC_LAG_NS UINT64_C(1000000000)   /* a longer delay is not caught up */
#define TRAFFIC_REOPEN_NS UINT64_C(100000000) /* from one attempt to open sessions to the next */

/* ---- opening: a shepherd that may wait ---- */

uint32_t
traffic_own_host(const struct traffic *t, struct xk_session *s)
{
	uint64_t host;

	if (xk_control(s, XK_GET_MY_HOST, &host, sizeof(host)) == sizeof(host))
		return (uint32_t)host;
	return t->host_count == 0 ? 0 : t->hosts[0];
}

/* Opens the peer's session. 0 or -errno. */
static int
traffic_open(struct traffic *t, struct traffic_peer *peer)
{
	struct xk_protocol *self = &t->protocol;
	struct xk_participants participants = { .remote.depth = 0 };
	struct xk_session *s;
	int err;

	xk_participant_push(&participants.remote, peer->host);
	if (t->port != 0)
		xk_participant_push(&participants.remote, t->port);
	if (t->local != 0)
		xk_participant_push(&participants.local, t->local);
	err = xk_open(self, self, xk_lower(self, 0), &participants, &s);
	if (err != 0)
		return err;
	if (xk_control(s, XK_GET_MAX_PACKET, &peer->max_packet, sizeof(peer->max_packet)) < 0)
		peer->max_packet = XK_TRAFFIC_SIZE_MAX;
	peer->own = traffic_own_host(t, s);
	xk_count(self, TRAFFIC_OPENED);
	atomic_store_explicit(&peer->closed, false, memory_order_relaxed);
	atomic_store_explicit(&peer->session, s, memory_order_release);
	return 0;
}

static void
traffic_open_all(void *argument)
{
	struct traffic *t = argument;
	bool missing = false;
	int err = 0;

	for (unsigned i = 0; i < t->peer_count && err != -ECANCELED; i++) {
		if (atomic_load_explicit(&t->peers[i].session, memory_order_acquire) != NULL)
			continue;
		err = traffic_open(t, &t->peers[i]);
		missing |= err != 0;
	}
	if (missing)
		atomic_store_explicit(&t->missing, true, memory_order_relaxed);
	atomic_store_explicit(&t->open_ns, xk_now_ns(&t->protocol) + TRAFFIC_REOPEN_NS, memory_order_relaxed);
	atomic_store_explicit(&t->opening, false, memory_order_release);
}

/* Starts a shepherd that opens the sessions that are missing, now and then. */
static void
traffic_see_to_sessions(struct traffic *t, uint64_t now_ns)
{
	if (!atomic_load_explicit(&t->missing, memory_order_relaxed) ||
	    now_ns < atomic_load_explicit(&t->open_ns, memory_order_relaxed) ||
	    atomic_exchange_explicit(&t->opening, true, memory_order_acquire))
		return;
	atomic_store_explicit(&t->missing, false, memory_order_relaxed);
	if (xk_thread_start(t->protocol.kernel, t->protocol.name, traffic_open_all, t) == 0)
		return;
	atomic_store_explicit(&t->missing, true, memory_order_relaxed);
	atomic_store_explicit(&t->opening, false, memory_order_release);
}

/* ---- sending: the event ---- */

static void
traffic_close_done(struct xk_protocol *self, struct xk_session *session)
{
	struct traffic *t = traffic_of(self);

	for (unsigned i = 0; i < t->peer_count; i++)
		if (atomic_load_explicit(&t->peers[i].session, memory_order_acquire) == session)
			atomic_store_explicit(&t->peers[i].closed, true, memory_order_release);
}

/* Returns the peer's session, or NULL: there is none, or the protocol below has closed it. */
static struct xk_session *
traffic_session(struct traffic *t, struct traffic_peer *peer)
{
	struct xk_session *s = atomic_load_explicit(&peer->session, memory_order_acquire);

	if (s == NULL || !atomic_load_explicit(&peer->closed, memory_order_acquire))
		return s;
	xk_count(&t->protocol, TRAFFIC_CLOSED);
	peer->stream++;
	peer->position = 0;
	atomic_store_explicit(&peer->session, NULL, memory_order_release);
	atomic_store_explicit(&t->missing, true, memory_order_relaxed);
	xk_close(s);
	return NULL;
}

/* Returns the next peer to send to, of those that have a session, or NULL: none has. */
static struct traffic_peer *
traffic_choose(struct traffic *t)
{
	unsigned begin = t->random ? (unsigned)xk_chance_below(&t->chance, t->peer_count) : t->turn;

	for (unsigned i = 0; i < t->peer_count; i++) {
		unsigned at = begin + i < t->peer_count ? begin + i : begin + i - t->peer_count;

		if (traffic_session(t, &t->peers[at]) == NULL)
			continue;
		t->turn = at + 1 < t->peer_count ? at + 1 : 0;
		return &t->peers[at];
	}
	xk_count(&t->protocol, TRAFFIC_UNOPENED);
	return NULL;
}

/* Sends a message. Returns false if nobody has accepted one. */
static bool
traffic_send(struct traffic *t)
{
	struct traffic_peer *peer = traffic_choose(t);
	uint64_t size = t->size_min;
	struct traffic_header h;
	struct xk_msg *m;

	if (peer == NULL)
		return false;
	if (t->size_max > t->size_min)
		size += xk_chance_below(&t->chance, t->size_max - t->size_min + 1);
	if (size > peer->max_packet)
		size = peer->max_packet;
	if (size < XK_TRAFFIC_SIZE_MIN)
		size = XK_TRAFFIC_SIZE_MIN;
	h = (struct traffic_header){ t->incarnation, peer->own, peer->host, peer->stream, peer->position };
	m = traffic_message_new(&t->protocol, &h, (uint32_t)size);
	if (m == NULL || xk_push(atomic_load_explicit(&peer->session, memory_order_relaxed), m) != 0) {
		peer->unsent++;
		xk_count(&t->protocol, TRAFFIC_UNSENT);
		return false;
	}
	peer->position++;
	peer->accepted++;
	t->accepted++;
	xk_count(&t->protocol, TRAFFIC_SENT);
	return true;
}

static bool
traffic_is_finished(const struct traffic *t, uint64_t now_ns)
{
	return t->peer_count == 0 || (t->count != 0 && t->accepted >= t->count) || now_ns >= t->end_ns;
}

/*
 * Draws an exponential variate with mean 1, in parts of 2^32, from nothing but comparisons, so that it is the same
 * with every compiler (von Neumann, 1951): of numbers drawn until one is not less than the one before, the first is
 * kept if their count is odd; otherwise it is one more.
 */
static uint64_t
traffic_draw_exponential(struct xk_chance *chance)
{
	for (uint64_t whole = 0;; whole++) {
		uint64_t first = xk_chance_below(chance, UINT64_C(1) << 32), least = first, next;
		bool odd = true;

		while ((next = xk_chance_below(chance, UINT64_C(1) << 32)) < least) {
			least = next;
			odd = !odd;
		}
		if (odd)
			return (whole << 32) + first;
	}
}

/* Sends what is due. Returns in how many nanoseconds to look again. */
static uint64_t
traffic_send_due(struct traffic *t, uint64_t now_ns)
{
	for (unsigned i = 0; i < TRAFFIC_BATCH && t->next_ns <= now_ns && !traffic_is_finished(t, now_ns); i++) {
		unsigned __int128 interval_ns = t->interval_ns;

		if (!traffic_send(t) && t->interval_ns == 0)
			return TRAFFIC_REFUSED_US * 1000;
		if (t->is_uneven)
			interval_ns = interval_ns * traffic_draw_exponential(&t->chance) >> 32;
		t->next_ns += (uint64_t)interval_ns;
	}
	if (t->next_ns + TRAFFIC_LAG_NS < now_ns)
		t->next_ns = now_ns;
	return t->next_ns > now_ns ? t->next_ns - now_ns : 0;
}

static void
traffic_tick(struct xk_event *event, void *argument)
{
	struct traffic *t = argument;
	uint64_t now_ns = xk_now_ns(&t->protocol);

	if (traffic_is_finished(t, now_ns)) {
		xk_trace(&t->protocol, XK_TRACE_EVENTS, "finished: %llu messages sent",
			 (unsigned long long)t->accepted);
		return;
	}
	traffic_see_to_sessions(t, now_ns);
	xk_event_schedule(event, xk_us_of_ns(traffic_send_due(t, now_ns)));
}

/* ---- whom to send to ---- */

static bool
traffic_is_own(const struct traffic *t, uint32_t host)
{
	for (unsigned i = 0; i < t->host_count; i++)
		if (t->hosts[i] == host)
			return true;
	return false;
}

/*
 * Reads the hosts of the setting `peers`, "HOST" or "HOST-HOST", but for this one's own addresses, into hosts, which
 * has room for XK_TRAFFIC_PEERS_MAX. Cuts text up. Returns how many they are, or -EINVAL.
 */
static int
traffic_read_peers(const struct traffic *t, char *text, uint32_t *hosts)
{
	char *rest = NULL;
	uint32_t named = 0;
	int count = 0;

	for (char *word = strtok_r(text, " ,", &rest); word != NULL; word = strtok_r(NULL, " ,", &rest)) {
		char *dash = strchr(word, '-');
		uint32_t first, last;

		if (dash != NULL)
			*dash = '\0';
		if (!xk_host_parse(word, &first) || !xk_host_parse(dash == NULL ? word : dash + 1, &last) ||
		    last < first || last - first >= XK_TRAFFIC_PEERS_MAX - named)
			return -EINVAL;
		named += last - first + 1;
		for (uint64_t host = first; host <= last; host++)
			if (!traffic_is_own(t, (uint32_t)host))
				hosts[count++] = (uint32_t)host;
	}
	return count;
}

/* Makes the peers. 0, -EINVAL or -ENOMEM. */
static int
traffic_make_peers(struct traffic *t)
{
	uint32_t *hosts = malloc(XK_TRAFFIC_PEERS_MAX * sizeof(*hosts));
	char *text = strdup(t->peers_text == NULL ? "" : t->peers_text);
	int count = hosts == NULL || text == NULL ? -ENOMEM : traffic_read_peers(t, text, hosts);

	if (count > 0) {
		t->peer_count = t->fanout != 0 && t->fanout < (uint64_t)count ? (unsigned)t->fanout : (unsigned)count;
		t->peers = calloc(t->peer_count, sizeof(*t->peers));
		if (t->peers == NULL)
			count = -ENOMEM;
	}
	/* each of n hosts is among the peer_count with the same probability (Vitter's reservoir, 1985) */
	for (unsigned i = 0; count > 0 && i < (unsigned)count; i++) {
		uint64_t at = i < t->peer_count ? i : xk_chance_below(&t->chance, i + 1);

		if (at < t->peer_count)
			t->peers[at].host = hosts[i];
	}
	if (count == -EINVAL)
		xk_trace(&t->protocol, XK_TRACE_NONE, "peers=\"%s\": hosts and ranges of hosts, %u at most",
			 t->peers_text, XK_TRAFFIC_PEERS_MAX);
	free(text);
	free(hosts);
	return count < 0 ? count : 0;
}

/* Asks for all addresses of this host where a vnet is below, which has them; otherwise for the one that there is. */
static void
traffic_ask_hosts(struct traffic *t)
{
	struct xk_protocol *lower = xk_lower(&t->protocol, 0);
	struct xk_vnet_interface interfaces[XK_VNET_INTERFACES];
	int len = xk_control_protocol(lower, XK_VNET_GET_INTERFACES, interfaces, sizeof(interfaces));
	uint64_t host;

	for (unsigned i = 0; len > 0 && i < (unsigned)len / sizeof(interfaces[0]); i++)
		t->hosts[t->host_count++] = interfaces[i].host;
	if (t->host_count == 0 && xk_control_protocol(lower, XK_GET_MY_HOST, &host, sizeof(host)) == sizeof(host))
		t->hosts[t->host_count++] = (uint32_t)host;
}

/* ---- life ---- */

/* Returns the index of word among words, or -1, which is traced. */
static int
traffic_choice(struct traffic *t, const char *setting, const char *const *words, const char *word)
{
	for (int i = 0; words[i] != NULL; i++)
		if (strcmp(words[i], word) == 0)
			return i;
	xk_trace(&t->protocol, XK_TRACE_NONE, "%s=\"%s\": there is no such one", setting, word);
	return -1;
}

static int
traffic_read_settings(struct traffic *t)
{
	static const char *const promises[] = { "none", "intact", "once", "ordered", NULL };
	static const char *const patterns[] = { "turn", "random", NULL };
	static const char *const spacings[] = { "even", "random", NULL };
	int promise = traffic_choice(t, "promise", promises, t->promise_text);
	int pattern = traffic_choice(t, "pattern", patterns, t->pattern_text);
	int spacing = traffic_choice(t, "spacing", spacings, t->spacing_text);

	if (promise < 0 || pattern < 0 || spacing < 0)
		return -EINVAL;
	if (t->size_max < t->size_min) {
		xk_trace(&t->protocol, XK_TRACE_NONE, "size_max is less than size_min");
		return -EINVAL;
	}
	t->promise = (enum traffic_promise)promise;
	t->random = pattern == 1;
	t->is_uneven = spacing == 1;
	t->interval_ns = t->rate == 0 ? 0 : UINT64_C(1000000000) / t->rate;
	return 0;
}

static void
traffic_fini(struct xk_protocol *self)
{
	struct traffic *t = traffic_of(self);

	xk_event_cancel(&t->event);
	for (unsigned i = 0; t->peers != NULL && i < t->peer_count; i++)
		xk_close(atomic_load_explicit(&t->peers[i].session, memory_order_relaxed));
	free(t->peers);
	traffic_check_fini(t);
}

static int
traffic_init(struct xk_protocol *self)
{
	struct traffic *t = traffic_of(self);
	struct xk_participants participants = { .remote.depth = 0 };
	uint64_t now_ns = xk_now_ns(self);
	int err = traffic_read_settings(t);

	if (err != 0)
		return err;
	xk_event_init(&t->event, self->kernel, traffic_tick, t);
	traffic_ask_hosts(t);
	t->incarnation = xk_random(self) >> 16 | xk_boots(self) << 48;
	xk_chance_init(&t->chance, xk_random(self), 0);
	if (t->port != 0)
		xk_participant_push(&participants.local, t->port);
	if ((err = traffic_make_peers(t)) != 0 || (err = traffic_check_init(t)) != 0 ||
	    (err = xk_open_enable(self, self, xk_lower(self, 0), &participants)) != 0) {
		traffic_fini(self);
		return err;
	}
	t->next_ns = now_ns + t->start_ns + xk_chance_below(&t->chance, t->interval_ns);
	t->end_ns = t->stop_ns == 0 ? UINT64_MAX : now_ns + t->stop_ns;
	atomic_store_explicit(&t->missing, true, memory_order_relaxed);
	if (t->peer_count != 0)
		xk_event_schedule(&t->event, xk_us_of_ns(t->next_ns - now_ns));
	return 0;
}

/* ---- for programs ---- */

void
xk_traffic_report(const struct xk_protocol *traffic, struct xk_traffic_report *report)
{
	const struct traffic *t = traffic_of(traffic);

	*report = (struct xk_traffic_report){
		.incarnation = t->incarnation,
		.host = t->host_count == 0 ? 0 : t->hosts[0],
		.finished = traffic_is_finished(t, xk_now_ns(traffic)),
		.peers = t->peer_count,
		.sent = xk_counter(traffic, TRAFFIC_SENT),
		.received = xk_counter(traffic, TRAFFIC_RECEIVED),
		.broken = xk_counter(traffic, TRAFFIC_BROKEN),
	};
	for (unsigned i = 0; i < t->stream_max; i++)
		report->senders += t->streams[i].taken;
	memcpy(report->first, t->first, sizeof(report->first));
}

unsigned
xk_traffic_peers(const struct xk_protocol *traffic, struct xk_traffic_peer *peers, unsigned max)
{
	const struct traffic *t = traffic_of(traffic);
	unsigned count = t->peer_count < max ? t->peer_count : max;

	for (unsigned i = 0; i < count; i++) {
		struct traffic_peer *peer = &t->peers[i];

		peers[i] = (struct xk_traffic_peer){
			.host = peer->host,
			.stream = peer->stream,
			.position = peer->position,
			.open = atomic_load_explicit(&peer->session, memory_order_relaxed) != NULL &&
				!atomic_load_explicit(&peer->closed, memory_order_relaxed),
			.accepted = peer->accepted,
			.unsent = peer->unsent,
		};
	}
	return count;
}

void
xk_traffic_stop(struct xk_protocol *traffic)
{
	traffic_of(traffic)->end_ns = 0;
}

/* ---- tables ---- */

static const struct xk_role traffic_lowers[] = {
	{ .name = "transport", .needs = XK_ASYNC, .help = "carries the messages: udp, stopwait" },
	{ .name = NULL },
};

static const struct xk_setting traffic_settings[] = {
	{ "peers", XK_SETTING_STRING, offsetof(struct traffic, peers_text), NULL,
	  "whom to send to: \"10.77.0.2 10.77.0.5-10.77.0.9\"; this host itself is left out", 0, 0 },
	{ "fanout", XK_SETTING_UINT, offsetof(struct traffic, fanout), "0", "so many of them, at random; 0: all", 0,
	  XK_TRAFFIC_PEERS_MAX },
	{ "pattern", XK_SETTING_STRING, offsetof(struct traffic, pattern_text), "turn",
	  "who is sent to next: turn, random", 0, 0 },
	{ "port", XK_SETTING_UINT, offsetof(struct traffic, port), "2002",
	  "the port, here and at the peers; 0: the protocol below has none", 0, 65535 },
	{ "local", XK_SETTING_UINT, offsetof(struct traffic, local), "0",
	  "the port that is sent from; 0: the protocol below chooses", 0, 65535 },
	{ "rate", XK_SETTING_UINT, offsetof(struct traffic, rate), "10",
	  "messages per second, to all together; 0: as many as are accepted", 0, 10000000 },
	{ "spacing", XK_SETTING_STRING, offsetof(struct traffic, spacing_text), "even",
	  "from one message to the next: even; random, as of many senders who know nothing of each other", 0, 0 },
	{ "count", XK_SETTING_UINT, offsetof(struct traffic, count), "0",
	  "messages that are accepted before it ends; 0: for ever", 0, 0 },
	{ "size_min", XK_SETTING_UINT, offsetof(struct traffic, size_min), "64", "bytes of a message, at least",
	  XK_TRAFFIC_SIZE_MIN, XK_TRAFFIC_SIZE_MAX },
	{ "size_max", XK_SETTING_UINT, offsetof(struct traffic, size_max), "64",
	  "... and at most; what the protocol below can carry bounds it, too", XK_TRAFFIC_SIZE_MIN,
	  XK_TRAFFIC_SIZE_MAX },
	{ "start", XK_SETTING_TIME, offsetof(struct traffic, start_ns), "0s", "from the boot to the first message", 0,
	  UINT64_C(86400000000000) },
	{ "stop", XK_SETTING_TIME, offsetof(struct traffic, stop_ns), "0s", "from the boot to the last; 0: never", 0,
	  UINT64_C(86400000000000) },
	{ "promise", XK_SETTING_STRING, offsetof(struct traffic, promise_text), "intact",
	  "what the protocols below are held to: none, intact, once, ordered", 0, 0 },
	{ "senders", XK_SETTING_UINT, offsetof(struct traffic, stream_max), "64",
	  "streams that come in and are remembered", 1, 65535 },
	{ .name = NULL },
};

/* Counts what hosts say of messages. */
static int
traffic_control(struct xk_protocol *self, int op, void *buffer, size_t len)
{
	const struct xk_fault_report *report = buffer;

	if (op != XK_FAULT)
		return -ENOTSUP;
	xk_count(self, TRAFFIC_REPORTS);
	xk_trace(self, XK_TRACE_EVENTS, "%llx says %s", (unsigned long long)report->from, xk_fault_name(report->fault));
	return 0;
}

static const struct xk_protocol_ops traffic_ops = {
	.init = traffic_init,
	.fini = traffic_fini,
	.open_done = traffic_check_open_done,
	.close_done = traffic_close_done,
	.demux = traffic_check_demux,
	.control = traffic_control,
};

const struct xk_protocol_type xk_type_traffic = {
	.name = "traffic",
	.help = "Sends messages to many peers, and checks every message that comes.",
	.ops = &traffic_ops,
	.size = sizeof(struct traffic),
	.lowers = traffic_lowers,
	.settings = traffic_settings,
	.counters = traffic_counters,
};
