/*
 * bidctl_rig.h - rig for tests of BIDCTL on a fake wire, whose other side the test plays. Of its two watchers, `lower`
 * watches first and is therefore notified last, after `upper`.
 */
#ifndef TESTS_BIDCTL_RIG_H
#define TESTS_BIDCTL_RIG_H

#include "protocols/bid/bidctl_private.h"
#include "tests/rig.h"
#include "xkernel/bytes.h"

enum { ME = 0x0a4d0001, HOST = 0x0a4d0002, OTHER = 0x0a4d0003, QUERY = 1, RESPONSE = 2, BCAST = 4, LEN = 40 };

#define BOOT_A UINT64_C(0xa000000000000001)
#define BOOT_B UINT64_C(0xb000000000000002)
#define BOOT_C UINT64_C(0xc000000000000003)

static const char *const change_names[] = { "first", "reboot", "lost" };

struct watching {
	struct xk_bidctl_watcher watcher;
	const char *name;
	struct stage *stage;
};

/* A request to confirm a host, and its result. */
struct confirming {
	struct stage *stage;
	uint32_t host;
	uint64_t boot;
	int status;
};

struct stage {
	struct rig *r;
	struct xk_protocol *bidctl;
	uint64_t own;  /* boot id that this host shows to HOST */
	uint32_t with; /* host of the latest message in or of the latest request to confirm */
	struct watching lower, upper;
	char notified[512];                 /* "upper:first:a lower:first:a " */
	void (*meanwhile)(struct stage *s); /* runs while `upper` is notified */
	struct confirming asking;           /* the request that stage_open_asking made, whose query bears `tag` */
	uint64_t tag;
};

static void
stage_changed(const struct xk_bidctl_watcher *watcher, enum xk_bidctl_change change, const struct xk_bidctl_peer *peer)
{
	const struct watching *w = xk_container_of(watcher, struct watching, watcher);
	struct stage *s = w->stage;
	size_t used = strlen(s->notified);

	snprintf(s->notified + used, sizeof(s->notified) - used, "%s:%s:%x%s ", w->name, change_names[change],
		 (unsigned)(peer->boot >> 60), peer->host == HOST ? "" : "?");
	if (w == &s->upper && s->meanwhile != NULL)
		s->meanwhile(s);
}

static inline void
stage_watch(struct stage *s, struct watching *w, const char *name)
{
	*w = (struct watching){ .name = name, .stage = s };
	w->watcher.protocol = rig_protocol(s->r, "user");
	w->watcher.changed = stage_changed;
	xk_bidctl_watch(s->bidctl, &w->watcher);
}

static inline void
stage_open(struct stage *s, const char *settings)
{
	uint64_t host = ME;
	char graph[512];

	memset(s, 0, sizeof(*s));
	snprintf(graph, sizeof(graph), "wire:; bidctl: wire; bidctl.broadcast=no; bidctl.keepalive=0s; %s user: bidctl",
		 settings);
	s->r = rig_new_graph(graph);
	s->bidctl = rig_protocol(s->r, "bidctl");
	s->own = xk_bidctl_own(s->bidctl, HOST);
	s->with = HOST;
	rig_answer_control(s->r, XK_GET_MY_HOST, &host, sizeof(host));
	rig_wire_peer(s->r, HOST);
	stage_watch(s, &s->lower, "lower");
	stage_watch(s, &s->upper, "upper");
}

static inline void
stage_close(struct stage *s)
{
	rig_free(s->r);
}

/* A test on the stage that `opening` opens. */
#define STAGE_TEST(name, opening) TEST_IN(name, struct stage, s, opening, stage_close)

static inline void
expect_notified(struct stage *s, const char *notified)
{
	CHECK_STR(s->notified, notified);
	s->notified[0] = '\0';
}

/* ---- messages on the wire, in both directions ---- */

struct packet {
	unsigned flags;
	uint32_t host;
	uint64_t source, destination, request, reply;
};

static inline void
packet_store(const struct packet *p, uint8_t *bytes)
{
	memset(bytes, 0, LEN);
	xk_put16(bytes, (uint16_t)p->flags);
	xk_put32(bytes + 4, p->host);
	xk_put64(bytes + 8, p->source);
	xk_put64(bytes + 16, p->destination);
	xk_put64(bytes + 24, p->request);
	xk_put64(bytes + 32, p->reply);
	xk_checksum_store(bytes + 2, xk_checksum_finish(xk_sum(0, bytes, LEN)));
}

static inline void
inject(struct stage *s, struct packet p)
{
	uint8_t bytes[LEN];

	packet_store(&p, bytes);
	s->with = p.host;
	rig_wire_peer(s->r, p.host);
	rig_inject_bytes(s->r, bytes, LEN);
}

/* Returns the next message sent; flags 0: none. */
static inline struct packet
sent(struct stage *s)
{
	uint8_t bytes[LEN];
	struct packet p = { .flags = 0 };

	if (rig_sent(s->r) == 0)
		return p;
	CHECK_EQ(rig_take_sent(s->r, bytes, LEN), LEN);
	CHECK(xk_sum_is_intact(xk_sum(0, bytes, LEN)));
	p = (struct packet){ xk_get16(bytes),      xk_get32(bytes + 4),  xk_get64(bytes + 8),
			     xk_get64(bytes + 16), xk_get64(bytes + 24), xk_get64(bytes + 32) };
	CHECK_EQ(p.host, ME);
	CHECK_EQ(p.source, xk_bidctl_own(s->bidctl, p.flags == BCAST ? 0 : s->with));
	return p;
}

/* Checks that one query was sent and nothing else. Returns its tag. */
static inline uint64_t
expect_query(struct stage *s)
{
	struct packet p = sent(s);

	CHECK_EQ(p.flags, QUERY);
	CHECK(p.request != 0);
	CHECK_EQ(p.reply, 0);
	rig_expect_nothing_sent(s->r);
	return p.request;
}

static inline struct packet
response_of(const struct stage *s, uint32_t host, uint64_t boot, uint64_t tag)
{
	return (struct packet){ RESPONSE, host, boot, xk_bidctl_own(s->bidctl, host), 0, tag };
}

static inline struct packet
response(const struct stage *s, uint64_t boot, uint64_t tag)
{
	return response_of(s, HOST, boot, tag);
}

static inline struct packet
query(uint64_t boot, uint64_t tag)
{
	return (struct packet){ QUERY, HOST, boot, 0, tag, 0 };
}

/* ---- calls from above ---- */

static void
do_confirm(void *argument)
{
	struct confirming *c = argument;

	c->status = xk_bidctl_confirm(c->stage->bidctl, c->host, &c->boot);
}

/* Returns true if the host was confirmed without waiting. */
static inline bool
confirm(struct stage *s, struct confirming *c, uint32_t host)
{
	*c = (struct confirming){ .stage = s, .host = host, .status = -EINPROGRESS };
	s->with = host;
	return rig_do(s->r, do_confirm, c);
}

static void
do_check_boot(void *argument)
{
	struct confirming *c = argument;

	c->status = xk_bidctl_check(c->stage->bidctl, c->host, c->boot, NULL);
}

static inline int
check_boot(struct stage *s, uint32_t host, uint64_t boot)
{
	struct confirming c = { s, host, boot, 1 };

	s->with = host;
	CHECK(rig_do(s->r, do_check_boot, &c));
	return c.status;
}

static void
do_use(void *argument)
{
	struct confirming *c = argument;

	c->status = xk_bidctl_use(c->stage->bidctl, c->host);
}

static inline int
use(struct stage *s, uint32_t host)
{
	struct confirming c = { s, host, 0, 1 };

	CHECK(rig_do(s->r, do_use, &c));
	return c.status;
}

static void
do_unuse(void *argument)
{
	struct confirming *c = argument;

	xk_bidctl_unuse(c->stage->bidctl, c->host);
}

static inline void
unuse(struct stage *s, uint32_t host)
{
	struct confirming c = { s, host, 0, 0 };

	CHECK(rig_do(s->r, do_unuse, &c));
}

/* Confirms HOST with this boot. */
static inline void
meet(struct stage *s, uint64_t boot)
{
	struct confirming c;

	CHECK(!confirm(s, &c, HOST));
	inject(s, response(s, boot, expect_query(s)));
	CHECK_EQ(c.status, 0);
	CHECK_EQ(c.boot, boot);
	s->notified[0] = '\0';
	rig_expect_nothing_sent(s->r);
}

/* Opens the stage and begins to confirm HOST, which is sent a query. */
static inline void
stage_open_asking(struct stage *s, const char *settings)
{
	stage_open(s, settings);
	CHECK(!confirm(s, &s->asking, HOST));
	s->tag = expect_query(s);
}

/* Opens the stage, confirms HOST with BOOT_A, and waits until HOST may be queried again. */
static inline void
stage_open_met(struct stage *s, const char *settings)
{
	stage_open(s, settings);
	meet(s, BOOT_A);
	rig_advance_ms(s->r, 300);
}

/* Checks a message from `host` that bears this boot, which sends a query. Returns its tag. */
static inline uint64_t
check_draws_query(struct stage *s, uint32_t host, uint64_t boot)
{
	CHECK_EQ(check_boot(s, host, boot), -EINPROGRESS);
	return expect_query(s);
}

static inline uint64_t
peers(const struct stage *s)
{
	return ((const struct bidctl *)s->bidctl)->peer_count;
}

static inline long
counted(struct stage *s, const char *name)
{
	return rig_counter_of(s->r, "bidctl", name);
}

#endif
