/*
 * traffic.c - the load of simulated networks: sends messages to many peers (here), and checks every message that comes
 * (traffic_check.c).
 *
 * Every instance does both. A message says who has sent it to whom, in which stream and as which of it, and its other bytes
 * follow from that: what was damaged, mixed, cut off or delivered to somebody else is seen. A stream is what one boot of
 * a host pushes on one session; its messages are numbered from 0, and only what the protocol below has accepted counts. A
 * session that the protocol below closes is opened again, with a new stream.
 *
 * Spec:         our own (traffic_message.c)
 * Participants: none above; below (remote: host, port; local: port, if `local` says one); no port if it is 0
 * Promise:      what the protocols below are held to. Each kind of fault is counted always; which are violations, counted
 *               as broken and traced at level errors, the setting `promise` says:
 *               intact:  corrupt
 *               once:    and misdirected (for another host), duplicate
 *               ordered: and reordered (came after a later one of its stream), gap (some before it have not come; or a
 *               stream begins in its middle, which was meant for a boot of this host that is over), mixed (a session
 *               carries two streams)
 *               old_incarnation is none: a message of a boot that is over, up the session of its own time, after one of a
 *               later boot. After streams were forgotten (`senders`) none begins in its middle.
 * Settings:     peers, fanout, pattern, port, local, rate, spacing, count, size_min, size_max, start, stop, promise, senders
 * Hosts:        a host on several links has an address on each. It sends under that of the session, expects messages to
 *               that of the session they come up, and sends to none of its own.
 * Sending:      one event for all. The peers' sessions are opened by a shepherd of its own, which may wait for ARP; messages
 *               go to those that are open. At rate=0 it sends until the protocol below refuses, and again after 1 ms. What
 *               is refused is not sent again. Hosts with the same settings begin at different times within 1/rate.
 * Control:      traffic.h. From below: XK_FAULT
 * Counters:     sent, received, unsent (the protocol below would not), unopened (nobody to send to), opened, closed (by
 *               the protocol below), broken, forgotten, reports (what hosts say of messages: fault.h), and the faults by
 *               name
 * Drops:        no_buffer
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

static const char *const traffic_promises[] = { "none", "intact", "once", "ordered", NULL };
static const char *const traffic_patterns[] = { "turn", "random", NULL };
static const char *const traffic_spacings[] = { "even", "random", NULL };

enum {
	TRAFFIC_BATCH = 64,        /* messages that one event sends at most */
	TRAFFIC_REFUSED_US = 1000, /* rate=0: after a refusal */
};

#define TRAFFIC_LAG_NS UINT64_C(1000000000)   /* who is later than this catches up no more */
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

/* 0 or -errno. */
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

/* Sees to it that sessions that are missing are opened. */
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

/* The peer's session. NULL: it has none, or none any more. */
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

/* Whose turn it is, of those that have a session. NULL: nobody's. */
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

static uint32_t
traffic_draw_size(struct traffic *t, const struct traffic_peer *peer)
{
	uint64_t size = t->size_min;

	if (t->size_max > t->size_min)
		size += xk_chance_below(&t->chance, t->size_max - t->size_min + 1);
	if (size > peer->max_packet)
		size = peer->max_packet;
	return size < XK_TRAFFIC_SIZE_MIN ? XK_TRAFFIC_SIZE_MIN : (uint32_t)size;
}

/* False: nobody has accepted a message. */
static bool
traffic_send(struct traffic *t)
{
	struct traffic_peer *peer = traffic_choose(t);
	struct traffic_header h = { .incarnation = t->incarnation };
	struct xk_msg *m;

	if (peer == NULL)
		return false;
	h.source = peer->own;
	h.destination = peer->host;
	h.stream = peer->stream;
	h.position = peer->position;
	m = traffic_message_new(&t->protocol, &h, traffic_draw_size(t, peer));
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
 * An exponential variate with mean 1, in parts of 2^32, from nothing but comparisons (von Neumann, 1951), so that it is the
 * same with every compiler: of numbers drawn until one is not less than the one before, the first is kept if their count
 * is odd; otherwise it is one more.
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

/* From one message to the next. */
static uint64_t
traffic_draw_interval_ns(struct traffic *t)
{
	if (!t->is_uneven)
		return t->interval_ns;
	return (uint64_t)((unsigned __int128)t->interval_ns * traffic_draw_exponential(&t->chance) >> 32);
}

/* What is due now, and when to look again: in nanoseconds from now. */
static uint64_t
traffic_send_due(struct traffic *t, uint64_t now_ns)
{
	for (unsigned i = 0; i < TRAFFIC_BATCH && t->next_ns <= now_ns && !traffic_is_finished(t, now_ns); i++) {
		if (!traffic_send(t) && t->interval_ns == 0)
			return TRAFFIC_REFUSED_US * 1000;
		t->next_ns += traffic_draw_interval_ns(t);
	}
	if (t->next_ns + TRAFFIC_LAG_NS < now_ns)
		t->next_ns = now_ns;
	return t->next_ns > now_ns ? t->next_ns - now_ns : 0;
}

static void
traffic_tick(struct xk_event *event, void *argument)
{
	struct traffic *t = argument;
	uint64_t now_ns = xk_now_ns(&t->protocol), later_ns;

	if (traffic_is_finished(t, now_ns)) {
		xk_trace(&t->protocol, XK_TRACE_EVENTS, "finished: %llu messages sent",
			 (unsigned long long)t->accepted);
		return;
	}
	traffic_see_to_sessions(t, now_ns);
	later_ns = traffic_send_due(t, now_ns);
	xk_event_schedule(event, xk_us_of_ns(later_ns));
}

/* ---- whom to send to ---- */

/* Hosts first to last. */
struct traffic_range {
	uint32_t first, last;
};

/* Parses "HOST" or "HOST-HOST"; text is cut up. False: it is neither. */
static bool
traffic_range_parse(char *text, struct traffic_range *range)
{
	char *dash = strchr(text, '-');

	if (dash != NULL)
		*dash = '\0';
	if (!xk_host_parse(text, &range->first))
		return false;
	range->last = range->first;
	return dash == NULL || (xk_host_parse(dash + 1, &range->last) && range->last >= range->first);
}

static bool
traffic_is_own(const struct traffic *t, uint32_t host)
{
	for (unsigned i = 0; i < t->host_count; i++)
		if (t->hosts[i] == host)
			return true;
	return false;
}

/* Calls add(t, host) for every host of the setting `peers` but this one. 0, -EINVAL, -ENOMEM. */
static int
traffic_for_each_peer(struct traffic *t, void (*add)(struct traffic *t, uint32_t host))
{
	char *copy = strdup(t->peers_text == NULL ? "" : t->peers_text), *rest = NULL, *word;
	struct traffic_range range;
	unsigned hosts = 0;
	int err = copy == NULL ? -ENOMEM : 0;

	for (word = err != 0 ? NULL : strtok_r(copy, " ,", &rest); word != NULL && err == 0;
	     word = strtok_r(NULL, " ,", &rest)) {
		if (!traffic_range_parse(word, &range) || range.last - range.first >= XK_TRAFFIC_PEERS_MAX - hosts) {
			err = -EINVAL;
			break;
		}
		hosts += range.last - range.first + 1;
		for (uint64_t host = range.first; host <= range.last; host++)
			if (!traffic_is_own(t, (uint32_t)host))
				add(t, (uint32_t)host);
	}
	free(copy);
	return err;
}

static void
traffic_count_peer(struct traffic *t, uint32_t host)
{
	(void)host;
	t->peer_count++;
}

/*
 * Each of n hosts is among the k that are wanted with the same probability, and all that is kept is those k (Vitter's
 * reservoir, 1985): the turn counts the hosts that were seen.
 */
static void
traffic_consider_peer(struct traffic *t, uint32_t host)
{
	uint64_t at = t->turn < t->peer_count ? t->turn : xk_chance_below(&t->chance, t->turn + 1);

	t->turn++;
	if (at < t->peer_count)
		t->peers[at].host = host;
}

static int
traffic_make_peers(struct traffic *t)
{
	int err = traffic_for_each_peer(t, traffic_count_peer);

	if (err != 0) {
		xk_trace(&t->protocol, XK_TRACE_NONE, "peers=\"%s\": hosts and ranges of hosts, %u at most",
			 t->peers_text, XK_TRAFFIC_PEERS_MAX);
		return err;
	}
	if (t->fanout != 0 && t->fanout < t->peer_count)
		t->peer_count = (unsigned)t->fanout;
	if (t->peer_count == 0)
		return 0;
	t->peers = calloc(t->peer_count, sizeof(*t->peers));
	if (t->peers == NULL)
		return -ENOMEM;
	err = traffic_for_each_peer(t, traffic_consider_peer);
	t->turn = 0;
	return err;
}

/* ---- life ---- */

/* The index of word among words; -1: it is none of them, and the trace says so. */
static int
traffic_choice(const struct traffic *t, const char *setting, const char *const *words, const char *word)
{
	for (int i = 0; words[i] != NULL; i++)
		if (strcmp(words[i], word) == 0)
			return i;
	xk_trace((struct xk_protocol *)&t->protocol, XK_TRACE_NONE, "%s=\"%s\": there is no such one", setting, word);
	return -1;
}

static int
traffic_read_settings(struct traffic *t)
{
	int promise = traffic_choice(t, "promise", traffic_promises, t->promise_text);
	int pattern = traffic_choice(t, "pattern", traffic_patterns, t->pattern_text);
	int spacing = traffic_choice(t, "spacing", traffic_spacings, t->spacing_text);

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

/* All addresses where a vnet is below, which has them; otherwise the one that there is. */
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

static void
traffic_be_somebody(struct traffic *t)
{
	struct xk_protocol *self = &t->protocol;
	uint64_t boots = xk_boots(self);

	traffic_ask_hosts(t);
	t->incarnation = xk_random(self) >> 16 | boots << 48;
	xk_chance_init(&t->chance, xk_random(self), 0);
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

static void
traffic_schedule(struct traffic *t)
{
	uint64_t delay_ns = t->start_ns + xk_chance_below(&t->chance, t->interval_ns);
	uint64_t now_ns = xk_now_ns(&t->protocol);

	t->next_ns = now_ns + delay_ns;
	t->end_ns = t->stop_ns == 0 ? UINT64_MAX : now_ns + t->stop_ns;
	atomic_store_explicit(&t->missing, true, memory_order_relaxed);
	if (t->peer_count != 0)
		xk_event_schedule(&t->event, xk_us_of_ns(delay_ns));
}

static int
traffic_init(struct xk_protocol *self)
{
	struct traffic *t = traffic_of(self);
	struct xk_participants participants = { .remote.depth = 0 };
	int err = traffic_read_settings(t);

	if (err != 0)
		return err;
	xk_event_init(&t->event, self->kernel, traffic_tick, t);
	traffic_be_somebody(t);
	if (t->port != 0)
		xk_participant_push(&participants.local, t->port);
	if ((err = traffic_make_peers(t)) != 0 || (err = traffic_check_init(t)) != 0 ||
	    (err = xk_open_enable(self, self, xk_lower(self, 0), &participants)) != 0)
		traffic_fini(self);
	else
		traffic_schedule(t);
	return err;
}

/* ---- for programs ---- */

static uint64_t
traffic_counter(const struct traffic *t, enum traffic_counter counter)
{
	return xk_counter(&t->protocol, counter);
}

void
xk_traffic_report(const struct xk_protocol *traffic, struct xk_traffic_report *report)
{
	const struct traffic *t = traffic_of(traffic);

	memset(report, 0, sizeof(*report));
	report->incarnation = t->incarnation;
	report->host = t->host_count == 0 ? 0 : t->hosts[0];
	report->finished = traffic_is_finished(t, xk_now_ns(traffic));
	report->peers = t->peer_count;
	for (unsigned i = 0; i < t->stream_max; i++)
		report->senders += t->streams[i].taken;
	report->sent = traffic_counter(t, TRAFFIC_SENT);
	report->received = traffic_counter(t, TRAFFIC_RECEIVED);
	report->broken = traffic_counter(t, TRAFFIC_BROKEN);
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
