/*
 * siege.h - for tests of attacks: a server, an honest client and an enemy on one simulated link.
 *
 * The enemy sends frames of its own making from four stations and receives the frames sent to them. The last station is
 * the server's router. A meter on the wire counts the bytes sent to each host, and how many of them repeated earlier
 * ones.
 *
 * The server and the client run the whole graph of calls, with ICMP, UDP and Active Messages beside it. From its boot
 * until it is told to stop, the client makes short and long calls through CHAN and through SELECT, and checks each
 * reply.
 */
#ifndef TESTS_SIEGE_H
#define TESTS_SIEGE_H

#include <errno.h>
#include <stdlib.h>

#include "platform/sim/memory.h"
#include "protocols/chan/chan.h"
#include "protocols/papers/am.h"
#include "tests/simulated.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"

#define SIEGE_US UINT64_C(1000)
#define SIEGE_MS UINT64_C(1000000)
#define SIEGE_S UINT64_C(1000000000)

/* Hosts. The enemy's hosts at its first three stations are neighbours; the others are behind its router. */
enum {
	SIEGE_SERVER = 0x0a4d0001,
	SIEGE_CLIENT = 0x0a4d0002,
	SIEGE_ENEMY = 0x0a4d000a,
	SIEGE_ROUTER = 0x0a4d00fe,
	SIEGE_FAR = 0x0b000001,
};

enum { SIEGE_STATIONS = 4, SIEGE_BY_ROUTER = SIEGE_STATIONS - 1 };

/* The tag of the query that the enemy sends as `host`. */
#define SIEGE_TAG(host) (UINT64_C(0x7a67) << 32 | (host))

#define SIEGE_LINK UINT64_C(0x020000000000) /* plus the host's number, or plus 0xa0 and the enemy's station */

/* Protocol numbers: on the link, on IP, and above. */
enum {
	SIEGE_IP = 0x0800,
	SIEGE_ARP = 0x0806,
	SIEGE_BLAST = 0x3001,
	SIEGE_BID = 0x3005,
	SIEGE_BIDCTL = 0x3006,
	SIEGE_AM = 0x3007,
	SIEGE_IP_ICMP = 1,
	SIEGE_IP_TCP = 6,
	SIEGE_IP_UDP = 17,
	SIEGE_IP_BLAST = 101,
	SIEGE_IP_BID = 204,
	SIEGE_IP_BIDCTL = 205,
	SIEGE_IP_AM = 206,
	SIEGE_CHAN = 102,
	SIEGE_PARTY = 77,
	SIEGE_SELECT = 2,
	SIEGE_PROCEDURE = 5,
	SIEGE_ENDPOINT = 6,
	SIEGE_HANDLER = 1,
};

enum { SIEGE_ETH_LEN = 14, SIEGE_IP_LEN = 20, SIEGE_BLAST_LEN = 24, SIEGE_BID_LEN = 24, SIEGE_CHAN_LEN = 20 };
enum { SIEGE_SEND = 1, SIEGE_NACK, SIEGE_RETRANSMIT };
enum { SIEGE_QUERY = 1, SIEGE_RESPONSE = 2 };
enum { SIEGE_FROM_CLIENT = 1, SIEGE_USER_MSG = 2, SIEGE_ACK_REQUESTED = 4, SIEGE_NEGATIVE_ACK = 8 };

enum {
	SIEGE_FRAME = 1514,
	SIEGE_HOSTS = 1 << 15, /* slots in the meter */
	SIEGE_SEEN = 1 << 20,
	SIEGE_PEERS = 4200,
	SIEGE_IDS = 1 << 19,
	SIEGE_USERS = 4,
	SIEGE_SHORT = 16, /* bytes of a call: its number and the length of its reply */
	SIEGE_LONG = 20000,
	SIEGE_TIMES =
		3, /* limit on bytes sent, as a multiple of the bytes received, or of those sent for the first time */
};

struct siege_frame {
	uint8_t bytes[SIEGE_FRAME];
	size_t len;
	unsigned station; /* where it arrived, or which sends it */
};

/* ---- the meter ---- */

/* The meter's counts for one host, in bytes of frames without padding. */
struct siege_flow {
	uint32_t host; /* 0: a free slot */
	bool confirmed;
	uint64_t in;           /* in frames that claimed to be from it */
	uint64_t out;          /* in frames for it */
	uint64_t first, again; /* payload bytes in these: new, and repeated */
	uint64_t asked;        /* ... in frames that only ask for an acknowledgement */
	uint64_t over;         /* the maximum of out - SIEGE_TIMES * in, before the host was confirmed */
	uint64_t again_over;   /* the maximum of again - SIEGE_TIMES * first */
};

/* ---- the siege ---- */

/* A host that the enemy plays: it answers BIDCTL's and ARP's questions. */
struct siege_peer {
	uint32_t host;
	unsigned station;
	uint64_t boot, server_boot; /* server_boot: the boot id that the server shows to this host; 0: not yet known */
	bool on_ip;
	bool is_silent; /* answers nothing */
};

struct siege_user {
	struct siege_party *party;
	unsigned number;
	bool ended;
};

struct siege_party {
	struct xk_protocol protocol;
	struct siege *siege;
	struct siege_user users[SIEGE_USERS];
};

struct siege {
	struct xk_sim *sim;
	struct xk_sim_link *lan;
	struct xk_sim_host *server, *client, *enemy;
	struct xk_port *ports[SIEGE_STATIONS];
	bool stops;         /* the client begins no more calls */
	uint64_t works_us;  /* time for which a call's handler waits */
	unsigned buffers;   /* the server's; 0: many */
	const char *beside; /* statements added to the graph; NULL: none */

	/* the enemy */
	struct siege_peer peers[SIEGE_PEERS];
	unsigned peer_count;
	uint32_t blast_sequence; /* the latest BLAST message for the enemy; 0: none, or a short one */
	unsigned blast_count;    /* its number of fragments */
	void (*receive)(struct siege *s, const struct siege_frame *f); /* receives each frame at the enemy's stations */
	void (*tick)(struct siege *s);                                 /* the attack */
	uint64_t every_ns, until_ns;
	uint64_t ticks;
	unsigned variant; /* the attack's variant */
	uint64_t data[8]; /* for the attack */

	/* the meter */
	struct siege_flow flows[SIEGE_HOSTS];
	uint64_t seen[SIEGE_SEEN];
	uint64_t arp_in, arp_out;

	/* calls */
	uint64_t ids;                 /* the latest number of a call */
	uint8_t ran[SIEGE_IDS];       /* by number: has run, or must not run */
	uint64_t words;               /* makes the bytes of each reply unique */
	unsigned wrongly_run, forged; /* forged: replies that no handler made */
	unsigned calls[2], failed, last_error;
	uint64_t worst_ns[2];
};

static inline struct siege_flow *
siege_flow(struct siege *s, uint32_t host)
{
	uint32_t at = host * UINT32_C(0x9e3779b1) >> 17;

	while (s->flows[at].host != 0 && s->flows[at].host != host)
		at = (at + 1) % SIEGE_HOSTS;
	s->flows[at].host = host;
	return &s->flows[at];
}

/* Returns the host that has this link address. */
static inline uint32_t
siege_host_of(uint64_t link)
{
	uint32_t number = (uint32_t)(link & 0xff);

	if (link == SIEGE_LINK + 0xa0 + SIEGE_BY_ROUTER)
		return SIEGE_ROUTER;
	return number >= 0xa0 ? SIEGE_ENEMY + number - 0xa0 : SIEGE_SERVER - 1 + number;
}

/* Returns the number of the protocol above the link or IP, and stores the offset of its header. */
static inline unsigned
siege_above(const uint8_t *frame, size_t len, size_t *at)
{
	unsigned type = xk_get16(frame + 12);

	*at = SIEGE_ETH_LEN;
	if (type != SIEGE_IP || len < SIEGE_ETH_LEN + SIEGE_IP_LEN)
		return type;
	*at += SIEGE_IP_LEN;
	switch (frame[SIEGE_ETH_LEN + 9]) {
	case SIEGE_IP_BLAST:
		return SIEGE_BLAST;
	case SIEGE_IP_BID:
		return SIEGE_BID;
	case SIEGE_IP_BIDCTL:
		return SIEGE_BIDCTL;
	case SIEGE_IP_AM:
		return SIEGE_AM;
	default:
		return SIEGE_IP;
	}
}

/* Returns the host that the headers above the link or IP name as the sender; 0: none. */
static inline uint32_t
siege_host_inside(const uint8_t *frame, size_t len)
{
	size_t at;
	unsigned type = siege_above(frame, len, &at);

	if (type == SIEGE_BLAST && len >= at + SIEGE_BLAST_LEN && frame[at + 14] != SIEGE_NACK) {
		at += SIEGE_BLAST_LEN;
		type = SIEGE_BID;
	}
	return (type == SIEGE_BID || type == SIEGE_BIDCTL) && len >= at + 8 ? xk_get32(frame + at + 4) : 0;
}

static inline void
siege_meter_in(struct siege *s, const uint8_t *frame, size_t len)
{
	bool on_ip = xk_get16(frame + 12) == SIEGE_IP;
	uint32_t host = on_ip ? xk_get32(frame + SIEGE_ETH_LEN + 12) : siege_host_of(xk_get48(frame + 6));
	uint32_t inside = on_ip ? 0 : siege_host_inside(frame, len);

	if (xk_get16(frame + 12) == SIEGE_ARP) {
		s->arp_in += len;
		return;
	}
	siege_flow(s, host)->in += len;
	if (inside != 0 && inside != host)
		siege_flow(s, inside)->in += len;
}

/* Returns a hash of a frame's payload, without the fields that change in a retransmission; 0: no payload. */
static inline uint64_t
siege_content(const uint8_t *frame, size_t len)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325), mask = 1;
	size_t at, flags = 0;
	unsigned type = siege_above(frame, len, &at);

	if (type == SIEGE_BLAST && frame[at + 14] != SIEGE_NACK) {
		mask = xk_get64(frame + at + 16) | (xk_get32(frame + at + 4) == 0);
		at += SIEGE_BLAST_LEN;
		type = SIEGE_BID;
	}
	if (type != SIEGE_BID || len <= at)
		return 0;
	if (mask == 1) {
		at += SIEGE_BID_LEN;
		flags = at + 4;
		if (len < at + SIEGE_CHAN_LEN || (xk_get16(frame + flags) & SIEGE_USER_MSG) == 0)
			return 0;
	}
	for (; at < len; at++)
		if (flags == 0 || at < flags || at >= flags + 4)
			hash = (hash ^ frame[at]) * UINT64_C(0x100000001b3);
	hash = (hash ^ mask) * UINT64_C(0x100000001b3);
	return hash == 0 ? 1 : hash;
}

/* Returns true if the server's frame only asks for an acknowledgement. */
static inline bool
siege_is_question(const uint8_t *frame, size_t len)
{
	size_t at;
	unsigned type = siege_above(frame, len, &at);

	return type == SIEGE_BID && len >= at + SIEGE_BID_LEN + SIEGE_CHAN_LEN &&
	       (xk_get16(frame + at + SIEGE_BID_LEN + 4) &
		(SIEGE_FROM_CLIENT | SIEGE_USER_MSG | SIEGE_ACK_REQUESTED)) == SIEGE_ACK_REQUESTED;
}

/* Returns true if this payload was sent before; otherwise remembers it. */
static inline bool
siege_is_again(struct siege *s, uint64_t content)
{
	uint32_t at = (uint32_t)(content >> 20) % SIEGE_SEEN;

	while (s->seen[at] != 0 && s->seen[at] != content)
		at = (at + 1) % SIEGE_SEEN;
	if (s->seen[at] == content)
		return true;
	s->seen[at] = content;
	return false;
}

static inline void
siege_meter_out(struct siege *s, const uint8_t *frame, size_t len)
{
	bool on_ip = xk_get16(frame + 12) == SIEGE_IP;
	struct siege_flow *flow =
		siege_flow(s, on_ip ? xk_get32(frame + SIEGE_ETH_LEN + 16) : siege_host_of(xk_get48(frame)));
	uint64_t content = siege_content(frame, len);

	if (xk_get16(frame + 12) == SIEGE_ARP)
		s->arp_out += len;
	if (xk_get16(frame + 12) == SIEGE_ARP || frame[0] == 0xff)
		return;
	flow->out += len;
	if (!flow->confirmed && flow->out > SIEGE_TIMES * flow->in + flow->over)
		flow->over = flow->out - SIEGE_TIMES * flow->in;
	if (content == 0)
		flow->asked += siege_is_question(frame, len) ? len : 0;
	if (content == 0)
		return;
	*(siege_is_again(s, content) ? &flow->again : &flow->first) += len;
	if (flow->again > SIEGE_TIMES * flow->first + flow->again_over)
		flow->again_over = flow->again - SIEGE_TIMES * flow->first;
}

static inline void
siege_see(void *context, const struct xk_sim_record *record)
{
	struct siege *s = context;

	if (record->event == XK_SIM_SENT && record->host == s->enemy)
		siege_meter_in(s, record->frame, record->len);
	if (record->event == XK_SIM_SENT && record->host == s->server)
		siege_meter_out(s, record->frame, record->len);
}

/* ---- the server's half of a party ---- */

/* Makes a reply: the call's number, then bytes that no other reply has. NULL: no buffer. */
static inline struct xk_msg *
siege_reply(struct siege_party *party, uint64_t id, size_t len)
{
	struct xk_msg *m = xk_msg_new(xk_platform_of(&party->protocol), len);
	uint64_t word = id;

	for (struct xk_msg *part = m; part != NULL; part = part->next)
		for (uint32_t at = 0; at + 8 <= part->len; at += 8) {
			memcpy(part->data + at, &word, 8);
			word = ++party->siege->words << 20;
		}
	return m;
}

static inline int
siege_serve(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_msg **reply)
{
	struct siege_party *party = xk_container_of(self, struct siege_party, protocol);
	struct siege *s = party->siege;
	struct {
		uint64_t id, len;
	} asked = { 0, 0 };

	if (!xk_msg_copy_out(m, 0, &asked, sizeof(asked)) || asked.id >= SIEGE_IDS || asked.len > XK_MSG_MAX / 2) {
		xk_msg_free(m);
		return -EINVAL;
	}
	xk_msg_free(m);
	s->wrongly_run += s->ran[asked.id] != 0;
	s->ran[asked.id] = 1;
	if (s->works_us != 0 && xk_delay(self, s->works_us) != 0)
		return -EINTR;
	*reply = siege_reply(party, asked.id, asked.len);
	return *reply == NULL ? -ENOBUFS : 0;
}

/* Handles an active message: replies with as many bytes as the request asks for. */
static inline void
siege_handle(void *argument, const struct xk_am_arrival *arrival, struct xk_msg *m, struct xk_am_reply *reply)
{
	uint32_t len = 0;

	if (reply != NULL && xk_msg_copy_out(m, 0, &len, sizeof(len)) && len > 0)
		*reply = (struct xk_am_reply){ .given = true,
					       .number = SIEGE_HANDLER,
					       .m = siege_reply(argument, 0, len) };
	xk_msg_free(m);
}

/* ---- the client's half ---- */

static inline void
siege_call(struct siege_user *user, struct xk_session *session, bool is_long)
{
	struct siege *s = user->party->siege;
	uint64_t begun_ns = xk_sim_now_ns(s->sim), took_ns, got = 0;
	uint64_t asked[2] = { ++s->ids, is_long ? SIEGE_LONG : SIEGE_SHORT };
	struct xk_msg *reply, *m = xk_msg_new(xk_platform_of(&user->party->protocol), asked[1]);
	int status;

	REQUIRE(m != NULL && s->ids < SIEGE_IDS);
	for (struct xk_msg *part = m; part != NULL; part = part->next)
		memset(part->data, 0, part->len);
	memcpy(m->data, asked, sizeof(asked));
	status = xk_call(session, m, &reply);
	took_ns = xk_sim_now_ns(s->sim) - begun_ns;
	s->calls[is_long]++;
	if (took_ns > s->worst_ns[is_long])
		s->worst_ns[is_long] = took_ns;
	if (status != 0) {
		s->failed++;
		s->last_error = (unsigned)-status;
		return;
	}
	if (xk_msg_len(reply) != asked[1] || !xk_msg_copy_out(reply, 0, &got, sizeof(got)) || got != asked[0] ||
	    !s->ran[asked[0]])
		s->forged++;
	xk_msg_free(reply);
}

static inline struct xk_session *
siege_open(struct siege_user *user)
{
	struct xk_protocol *self = &user->party->protocol;
	struct xk_participants to = { .remote = { 1, { SIEGE_SERVER } } };
	struct xk_session *session;
	uint64_t deadline_ns = 10 * SIEGE_S;
	bool selects = user->number % 2 != 0;

	if (selects)
		xk_participant_push(&to.remote, SIEGE_PROCEDURE);
	if (xk_open(self, self, xk_lower(self, selects), &to, &session) != 0)
		return NULL;
	CHECK_EQ(xk_control(session, XK_CHAN_SET_DEADLINE, &deadline_ns), 0);
	return session;
}

/* Makes calls: short ones for the first two users, long ones for the others. Changes the channel every 16 calls. */
static inline void
siege_live(void *argument)
{
	struct siege_user *user = argument;
	struct xk_protocol *self = &user->party->protocol;
	struct siege *s = user->party->siege;
	struct xk_session *session = NULL;

	for (unsigned i = 0; !s->stops; i++) {
		if (i % 16 == 0) {
			if (session != NULL)
				xk_close(session);
			session = siege_open(user);
			if (session == NULL) {
				s->failed++;
				s->last_error = EHOSTUNREACH;
			}
		}
		if (session != NULL)
			siege_call(user, session, user->number >= SIEGE_USERS / 2);
		if (xk_delay(self, user->number >= SIEGE_USERS / 2 ? 20000 : 5000) != 0)
			break;
	}
	if (session != NULL)
		xk_close(session);
	user->ended = true;
}

/* ---- hosts ---- */

static inline int
siege_init(struct xk_protocol *self)
{
	struct siege_party *party = xk_container_of(self, struct siege_party, protocol);
	const struct xk_am_handler handler = { .run = siege_handle, .argument = party };
	struct xk_participants anybody = { .remote.depth = 0 };
	struct xk_participants procedure = { .local = { 1, { SIEGE_PROCEDURE } } };
	struct xk_participants endpoint = { .local = { 1, { SIEGE_ENDPOINT } } };
	int err = xk_open_enable(self, self, xk_lower(self, 0), &anybody);

	if (err == 0)
		err = xk_open_enable(self, self, xk_lower(self, 1), &procedure);
	if (err == 0)
		err = xk_open_enable(self, self, xk_lower(self, 2), &endpoint);
	return err != 0 ? err : xk_am_register(xk_lower(self, 2), SIEGE_ENDPOINT, SIEGE_HANDLER, &handler);
}

static const struct xk_role siege_lowers[] = {
	{ "calls", XK_RPC, NULL, "carries calls" },
	{ "procedures", XK_RPC, NULL, "carries calls by number" },
	{ "messages", XK_ASYNC, NULL, "carries active messages" },
	{ NULL, 0, NULL, NULL },
};

static const struct xk_protocol_ops siege_ops = { .init = siege_init, .call_demux = siege_serve };

static const struct xk_protocol_type siege_type = {
	.name = "party",
	.help = "Calls, and is called.",
	.ops = &siege_ops,
	.size = sizeof(struct siege_party),
	.lowers = siege_lowers,
};

static const char siege_graph[] =
	"digraph siege { party -> chan [number=77]; party -> select -> chan; party -> am -> vmux; chan -> bid; "
	"chan -> bidctl; bid -> vsize; bid -> bidctl; vsize -> vmux; vsize -> blast; blast -> vmux; bidctl -> vmux;"
	"vmux -> vnet; vmux -> ip; icmp -> ip; udp -> ip; udptest -> udp; ip -> vnet; vnet -> eth; vnet -> arp; "
	"arp -> eth; eth -> port; ip [gateway=\"10.77.0.254\"]; vnet [address=\"10.77.0.%u/24\"]; %s }";

static inline struct xk_kernel *
siege_boot(void *context, struct xk_sim_host *host)
{
	struct siege *s = context;
	bool is_server = host == s->server;
	struct xk_kernel *kernel =
		simulated_kernel(host, (struct xk_kernel_config){ .mode = XK_IPP, .threads = 2, .stacks = 64 });
	struct siege_party *party;
	char text[2048];

	snprintf(text, sizeof(text), siege_graph, is_server ? 1U : 2U, s->beside != NULL ? s->beside : "");
	compose(kernel, &siege_type, text);
	party = (struct siege_party *)xk_kernel_find(kernel, "party");
	party->siege = s;
	simulated_start(kernel);
	for (unsigned i = 0; !is_server && i < SIEGE_USERS; i++) {
		party->users[i] = (struct siege_user){ .party = party, .number = i };
		REQUIRE(xk_thread_start(kernel, "user", siege_live, &party->users[i]) == 0);
	}
	return kernel;
}

/* Composes the enemy: ports without protocols. */
static inline struct xk_kernel *
siege_boot_enemy(void *context, struct xk_sim_host *host)
{
	struct siege *s = context;
	struct xk_kernel_config config = {
		.name = "enemy", .platform = xk_sim_platform(host), .stacks = 2, .core = -1
	};
	struct xk_kernel *kernel = xk_kernel_new(&config);

	REQUIRE(kernel != NULL);
	for (unsigned i = 0; i < SIEGE_STATIONS; i++) {
		s->ports[i] = xk_sim_port_new(host, i);
		REQUIRE(s->ports[i] != NULL);
		xk_kernel_add_port(kernel, s->ports[i]);
	}
	return kernel;
}

static inline struct xk_sim_host *
siege_add(struct siege *s, const char *name, bool is_enemy)
{
	struct xk_sim_host_config config = { .name = name, .boot = siege_boot, .context = s };
	struct xk_sim_host *host;

	if (is_enemy)
		config.boot = siege_boot_enemy;
	else
		config.costs = xk_sim_costs_find("modern")->costs;
	if (strcmp(name, "server") == 0)
		config.buffers = s->buffers;
	host = xk_sim_host_new(s->sim, &config);
	REQUIRE(host != NULL);
	return host;
}

/*
 * Makes a siege. The link loses `loss` frames of a thousand. The server has `buffers` (0: many), and `beside` is added
 * to both hosts' graphs. The client is down at first.
 */
static inline struct siege *
siege_new_with(unsigned loss, unsigned buffers, const char *beside)
{
	static const char *const devices[SIEGE_STATIONS] = { "a", "b", "c", "d" };
	struct siege *s = calloc(1, sizeof(*s));
	struct sim_link_config lan = sim_link_preset_find("rack10g")->config;

	REQUIRE(s != NULL);
	s->buffers = buffers;
	s->beside = beside;
	s->sim = xk_sim_new(7);
	REQUIRE(s->sim != NULL);
	lan.rate = 1000000000;
	lan.loss = SIM_ALWAYS / 1000 * loss;
	lan.latency_ns = 20 * SIEGE_US;
	s->lan = xk_sim_link_new(s->sim, "lan", &lan);
	s->server = siege_add(s, "server", false);
	s->client = siege_add(s, "client", false);
	s->enemy = siege_add(s, "enemy", true);
	REQUIRE(xk_sim_attach(s->server, "port", s->lan, SIEGE_LINK + 1) == 0);
	REQUIRE(xk_sim_attach(s->client, "port", s->lan, SIEGE_LINK + 2) == 0);
	for (unsigned i = 0; i < SIEGE_STATIONS; i++)
		REQUIRE(xk_sim_attach(s->enemy, devices[i], s->lan, SIEGE_LINK + 0xa0 + i) == 0);
	xk_sim_watch(s->sim, siege_see, s);
	REQUIRE(xk_sim_boot(s->enemy) == 0 && xk_sim_boot(s->server) == 0);
	return s;
}

static inline struct siege *
siege_new(unsigned loss)
{
	return siege_new_with(loss, 0, NULL);
}

static inline long
siege_counter(struct siege *s, const char *protocol, const char *name)
{
	return compose_count(xk_sim_kernel(s->server), protocol, name);
}

static inline void
siege_free(struct siege *s)
{
	CHECK_EQ(xk_sim_free(s->sim), 0);
	free(s);
}

/* ---- the enemy's frames ---- */

/* Begins a frame from a station to the link address `to`. */
static inline void
siege_frame_begin(struct siege_frame *f, uint64_t to, unsigned station, unsigned type)
{
	f->station = station;
	f->len = SIEGE_ETH_LEN;
	xk_put48(f->bytes, to);
	xk_put48(f->bytes + 6, SIEGE_LINK + 0xa0 + station);
	xk_put16(f->bytes + 12, (uint16_t)type);
}

static inline uint8_t *
siege_put(struct siege_frame *f, size_t len)
{
	uint8_t *p = f->bytes + f->len;

	REQUIRE(f->len + len <= SIEGE_FRAME);
	memset(p, 0, len);
	f->len += len;
	return p;
}

static inline void
siege_put32s(struct siege_frame *f, uint32_t a, uint32_t b)
{
	uint8_t *p = siege_put(f, 8);

	xk_put32(p, a);
	xk_put32(p + 4, b);
}

static inline void
siege_put64(struct siege_frame *f, uint64_t value)
{
	xk_put64(siege_put(f, 8), value);
}

static inline void
siege_put_ip(struct siege_frame *f, uint32_t from, uint32_t to, unsigned protocol)
{
	uint8_t *p = siege_put(f, SIEGE_IP_LEN);

	p[0] = 0x45;
	p[8] = 64;
	p[9] = (uint8_t)protocol;
	xk_put32(p + 12, from);
	xk_put32(p + 16, to);
}

/* Sends f, with IP's length and checksum filled in. */
static inline void
siege_send(struct siege *s, struct siege_frame *f)
{
	struct xk_port *port = s->ports[f->station];
	uint8_t *ip = f->bytes + SIEGE_ETH_LEN;
	struct xk_msg *m;

	if (xk_get16(f->bytes + 12) == SIEGE_IP) {
		xk_put16(ip + 2, (uint16_t)(f->len - SIEGE_ETH_LEN));
		xk_put16(ip + 10, 0);
		xk_checksum_store(ip + 10, xk_checksum_finish(xk_sum(0, ip, SIEGE_IP_LEN)));
	}
	m = xk_msg_from(port->platform, f->bytes, f->len);
	REQUIRE(m != NULL);
	if (port->ops->transmit(port, &m, 1) == 0)
		xk_msg_free(m);
}

/* Begins a frame from peer to the host `to`, up to the header of `type`. If peer is on IP, adds an IP header. */
static inline void
siege_from_to(struct siege_frame *f, const struct siege_peer *peer, uint32_t to, unsigned type)
{
	static const struct {
		unsigned type, on_ip;
	} numbers[] = { { SIEGE_BLAST, SIEGE_IP_BLAST },
			{ SIEGE_BID, SIEGE_IP_BID },
			{ SIEGE_BIDCTL, SIEGE_IP_BIDCTL },
			{ SIEGE_AM, SIEGE_IP_AM } };

	siege_frame_begin(f, SIEGE_LINK + to - SIEGE_SERVER + 1, peer->station, peer->on_ip ? SIEGE_IP : type);
	for (unsigned i = 0; peer->on_ip && i < XK_ARRAY_LENGTH(numbers); i++)
		if (numbers[i].type == type)
			siege_put_ip(f, peer->host, to, numbers[i].on_ip);
}

static inline void
siege_from(struct siege_frame *f, const struct siege_peer *peer, unsigned type)
{
	siege_from_to(f, peer, SIEGE_SERVER, type);
}

static inline void
siege_put_blast(struct siege_frame *f, uint32_t sequence, uint32_t length, unsigned count, unsigned op, uint64_t mask)
{
	uint8_t *p = siege_put(f, SIEGE_BLAST_LEN);

	xk_put32(p, SIEGE_BID);
	xk_put32(p + 4, sequence);
	xk_put32(p + 8, length);
	xk_put16(p + 12, (uint16_t)count);
	p[14] = (uint8_t)op;
	p[15] = 64;
	xk_put64(p + 16, mask);
}

static inline void
siege_put_bid(struct siege_frame *f, const struct siege_peer *peer)
{
	siege_put32s(f, SIEGE_CHAN, peer->host);
	siege_put64(f, peer->boot);
	siege_put64(f, peer->server_boot);
}

static inline void
siege_put_chan(struct siege_frame *f, uint32_t channel, unsigned flags, uint32_t sequence, uint32_t len)
{
	siege_put32s(f, channel, flags << 16);
	siege_put32s(f, SIEGE_PARTY, sequence);
	xk_put32(siege_put(f, 4), len);
}

static inline void
siege_send_bidctl(struct siege *s, const struct siege_peer *peer, uint32_t to, unsigned flags, uint64_t destination,
		  uint64_t request, uint64_t reply)
{
	struct siege_frame f;
	uint8_t *p;

	siege_from_to(&f, peer, to, SIEGE_BIDCTL);
	p = siege_put(&f, 40);
	xk_put16(p, (uint16_t)flags);
	xk_put32(p + 4, peer->host);
	xk_put64(p + 8, peer->boot);
	xk_put64(p + 16, destination);
	xk_put64(p + 24, request);
	xk_put64(p + 32, reply);
	xk_checksum_store(p + 2, xk_checksum_finish(xk_sum(0, p, 40)));
	siege_send(s, &f);
}

/* Sends a CHAN message without payload. */
static inline void
siege_send_chan(struct siege *s, const struct siege_peer *peer, uint32_t channel, unsigned flags, uint32_t sequence)
{
	struct siege_frame f;

	siege_from(&f, peer, SIEGE_BID);
	siege_put_bid(&f, peer);
	siege_put_chan(&f, channel, flags, sequence, 0);
	siege_send(s, &f);
}

/* Sends call `id`, which asks for a reply of len bytes. */
static inline void
siege_send_request(struct siege *s, const struct siege_peer *peer, uint32_t channel, unsigned flags, uint32_t sequence,
		   uint64_t id, uint64_t len)
{
	uint64_t asked[2] = { id, len };
	struct siege_frame f;

	siege_from(&f, peer, SIEGE_BID);
	siege_put_bid(&f, peer);
	siege_put_chan(&f, channel, SIEGE_FROM_CLIENT | SIEGE_USER_MSG | flags, sequence, sizeof(asked));
	memcpy(siege_put(&f, sizeof(asked)), asked, sizeof(asked));
	siege_send(s, &f);
}

/* Sends a NACK that reports only the first fragment of the message. */
static inline void
siege_send_nack(struct siege *s, const struct siege_peer *peer, uint32_t sequence, unsigned count)
{
	struct siege_frame f;

	siege_from(&f, peer, SIEGE_BLAST);
	siege_put_blast(&f, sequence, 0, count, SIEGE_NACK, 1);
	siege_send(s, &f);
}

/* Sends an ARP request for the server's address, as the neighbour `host` at a station. */
static inline void
siege_ask_arp(struct siege *s, unsigned station, uint32_t host)
{
	struct siege_frame f;
	uint8_t *p;

	siege_frame_begin(&f, UINT64_C(0xffffffffffff), station, SIEGE_ARP);
	p = siege_put(&f, 28);
	xk_put32(p, 0x00010800);
	xk_put32(p + 4, 0x06040001);
	xk_put48(p + 8, SIEGE_LINK + 0xa0 + station);
	xk_put32(p + 14, host);
	xk_put32(p + 24, SIEGE_SERVER);
	siege_send(s, &f);
}

/* Returns true if f is the answer. */
static inline bool
siege_is_arp_answer(const struct siege_frame *f)
{
	const uint8_t *p = f->bytes + SIEGE_ETH_LEN;

	return xk_get16(f->bytes + 12) == SIEGE_ARP && xk_get16(p + 6) == 2 && xk_get32(p + 14) == SIEGE_SERVER;
}

/* ---- what the enemy does on its own ---- */

/* Adds a host for the enemy to play, at one of its stations: over IP if it is behind the router, else over VNET. */
static inline struct siege_peer *
siege_play(struct siege *s, uint32_t host, unsigned station, uint64_t boot)
{
	struct siege_peer *peer = &s->peers[s->peer_count++];

	REQUIRE(s->peer_count <= SIEGE_PEERS);
	*peer = (struct siege_peer){ .host = host, .station = station, .boot = boot };
	peer->on_ip = station == SIEGE_BY_ROUTER;
	return peer;
}

/* Introduces peer to the server, which sends a query back; the answer confirms peer. */
static inline void
siege_introduce(struct siege *s, const struct siege_peer *peer)
{
	siege_send_bidctl(s, peer, SIEGE_SERVER, SIEGE_QUERY, 0, SIEGE_TAG(peer->host), 0);
}

static inline struct siege_peer *
siege_peer_of(struct siege *s, uint32_t host)
{
	for (unsigned i = 0; i < s->peer_count; i++)
		if (s->peers[i].host == host && !s->peers[i].is_silent)
			return &s->peers[i];
	return NULL;
}

static inline void
siege_answer_arp(struct siege *s, const struct siege_frame *asked)
{
	const uint8_t *arp = asked->bytes + SIEGE_ETH_LEN;
	uint32_t host = xk_get32(arp + 24);
	const struct siege_peer *peer = siege_peer_of(s, host);
	unsigned station = host == SIEGE_ROUTER ? SIEGE_BY_ROUTER : peer != NULL ? peer->station : SIEGE_STATIONS;
	struct siege_frame f;
	uint8_t *p;

	if (xk_get16(arp + 6) != 1 || asked->station != station)
		return;
	siege_frame_begin(&f, xk_get48(arp + 8), station, SIEGE_ARP);
	p = siege_put(&f, 28);
	memcpy(p, arp, 6);
	xk_put16(p + 6, 2);
	xk_put48(p + 8, SIEGE_LINK + 0xa0 + station);
	xk_put32(p + 14, host);
	memcpy(p + 18, arp + 8, 10);
	siege_send(s, &f);
}

/*
 * Returns true if the BIDCTL message at p is for peer. Neighbours may share the station where f arrived: a response's
 * tag tells them apart.
 */
static inline bool
siege_is_for(const struct siege_peer *peer, const struct siege_frame *f, const uint8_t *p, bool on_ip)
{
	if (peer->is_silent || peer->on_ip != on_ip || peer->station != f->station)
		return false;
	if (on_ip)
		return peer->host == xk_get32(f->bytes + SIEGE_ETH_LEN + 16);
	return !(xk_get16(p) & SIEGE_RESPONSE) || xk_get64(p + 32) == SIEGE_TAG(peer->host);
}

/* Handles a BIDCTL message for one of the enemy's hosts: learns the server's boot id, and answers queries. */
static inline void
siege_answer_bidctl(struct siege *s, const struct siege_frame *f, size_t at)
{
	const uint8_t *p = f->bytes + at;
	uint32_t from = xk_get32(p + 4);

	for (unsigned i = 0; f->len >= at + 40 && i < s->peer_count; i++) {
		struct siege_peer *peer = &s->peers[i];

		if (!siege_is_for(peer, f, p, at != SIEGE_ETH_LEN))
			continue;
		if (from == SIEGE_SERVER && (xk_get16(p) & SIEGE_RESPONSE))
			peer->server_boot = xk_get64(p + 8);
		if (!(xk_get16(p) & SIEGE_QUERY))
			continue;
		siege_flow(s, peer->host)->confirmed |= from == SIEGE_SERVER;
		siege_send_bidctl(s, peer, from, SIEGE_RESPONSE, xk_get64(p + 8), 0, xk_get64(p + 24));
	}
}

/* Remembers the BLAST message that f is a fragment of. */
static inline void
siege_note_blast(struct siege *s, const struct siege_frame *f, size_t at)
{
	if (f->bytes[at + 14] != SIEGE_SEND)
		return;
	s->blast_sequence = xk_get32(f->bytes + at + 4);
	s->blast_count = xk_get16(f->bytes + at + 12);
}

static inline void
siege_receive(struct siege *s, const struct siege_frame *f)
{
	size_t at;
	unsigned type = siege_above(f->bytes, f->len, &at);

	if (type == SIEGE_ARP)
		siege_answer_arp(s, f);
	if (type == SIEGE_BIDCTL)
		siege_answer_bidctl(s, f, at);
	if (type == SIEGE_BLAST)
		siege_note_blast(s, f, at);
	if (s->receive != NULL)
		s->receive(s, f);
}

/* Receives the frames that have arrived at a station. */
static inline void
siege_listen(struct siege *s, unsigned station)
{
	struct xk_msg *frames[XK_BURST];
	unsigned count;

	while ((count = s->ports[station]->ops->receive(s->ports[station], frames, XK_BURST)) > 0)
		for (unsigned i = 0; i < count; i++) {
			struct siege_frame f = { .len = xk_msg_len(frames[i]), .station = station };

			REQUIRE(xk_msg_copy_out(frames[i], 0, f.bytes, f.len));
			siege_receive(s, &f);
			xk_msg_free(frames[i]);
		}
}

static inline void
siege_tick(void *context)
{
	struct siege *s = context;

	for (unsigned i = 0; i < SIEGE_STATIONS; i++)
		siege_listen(s, i);
	if (s->tick != NULL && xk_sim_now_ns(s->sim) < s->until_ns) {
		s->tick(s);
		s->ticks++;
	}
	REQUIRE(xk_sim_at(s->sim, xk_sim_now_ns(s->sim) + s->every_ns, siege_tick, s) == 0);
}

/*
 * Starts the attack: the enemy receives and answers from now on, and calls tick every every_ns, for for_ns. May be
 * called again.
 */
static inline void
siege_attack(struct siege *s, void (*tick)(struct siege *s), uint64_t every_ns, uint64_t for_ns)
{
	bool begins = s->every_ns == 0;

	s->tick = tick;
	s->every_ns = every_ns;
	s->until_ns = xk_sim_now_ns(s->sim) + for_ns;
	if (begins)
		REQUIRE(xk_sim_at(s->sim, xk_sim_now_ns(s->sim), siege_tick, s) == 0);
}

static inline void
siege_run(struct siege *s, uint64_t ns)
{
	xk_sim_run(s->sim, xk_sim_now_ns(s->sim) + ns);
}

#endif
