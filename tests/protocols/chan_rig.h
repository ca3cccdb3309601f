/*
 * chan_rig.h - rig for tests of CHAN: chan between a fake user, which calls and is called, and fakes of BID (a wire)
 * and BIDCTL.
 */
#ifndef TESTS_CHAN_RIG_H
#define TESTS_CHAN_RIG_H

#include "protocols/bid/bidctl.h"
#include "protocols/chan/chan_private.h"
#include "tests/rig.h"
#include "xkernel/bytes.h"

enum { SERVER = 0x0a4d0002, CLIENT = 0x99, NUMBER = 7, CHANNEL = 0x1234, BOOT = 0xb007, PAYLOAD_MAX = 4000 };

/* ---- the fake BIDCTL ---- */

struct fake_bidctl {
	struct xk_protocol protocol;
	struct xk_bidctl_watcher *watcher;
	uint64_t boot; /* every host's boot id */
};

static inline void
fake_bidctl_watch(struct xk_protocol *self, struct xk_bidctl_watcher *watcher)
{
	xk_container_of(self, struct fake_bidctl, protocol)->watcher = watcher;
}

static inline int
fake_bidctl_check(struct xk_protocol *self, uint32_t host, uint64_t *boot, struct xk_session *lls)
{
	struct fake_bidctl *b = xk_container_of(self, struct fake_bidctl, protocol);

	if (b->boot == 0)
		return -EINPROGRESS;
	*boot = b->boot;
	return 0;
}

static const struct xk_protocol_ops fake_bidctl_ops = { .init = NULL };
static const struct xk_bidctl_ops fake_bidctl_neighbour_ops = { .watch = fake_bidctl_watch,
								.check = fake_bidctl_check };

static const struct xk_protocol_type fake_bidctl_type = {
	.name = "bidctl",
	.help = "A fake.",
	.ops = &fake_bidctl_ops,
	.size = sizeof(struct fake_bidctl),
	.offers = XK_CONTROL,
	.neighbour_ops = &fake_bidctl_neighbour_ops,
};

/* ---- the fake user ---- */

/* The handler of requests: it echoes by default, or fails, replies with zeros, or waits for `go`. */
struct caller {
	struct xk_protocol protocol;
	int fails;            /* nonzero: the handler's error */
	bool replies_nothing; /* returns 0 without a reply */
	size_t reply_len;     /* nonzero: length of a reply of zeros */
	bool waits;           /* the handler waits for `go` */
	bool open_waits;      /* open_done waits for `go` */
	struct xk_semaphore go;
	unsigned executed, running, opened, closed;
	int refuses; /* what open_done returns */
	char last[16];
};

static inline struct caller *
caller_of(struct xk_protocol *self)
{
	return xk_container_of(self, struct caller, protocol);
}

static inline int
caller_init(struct xk_protocol *self)
{
	xk_semaphore_init(&caller_of(self)->go, self, 0);
	return 0;
}

static inline int
caller_open_done(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *s, struct xk_protocol *hlp_type)
{
	caller_of(self)->opened++;
	if (caller_of(self)->open_waits)
		CHECK_EQ(xk_semaphore_wait(&caller_of(self)->go, XK_UNTIL_SIGNALLED), 0);
	return caller_of(self)->refuses;
}

static inline void
caller_close_done(struct xk_protocol *self, struct xk_session *s)
{
	caller_of(self)->closed++;
}

static inline int
caller_call_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_msg **reply)
{
	struct caller *c = caller_of(self);
	size_t len = xk_msg_len(m) < sizeof(c->last) - 1 ? xk_msg_len(m) : sizeof(c->last) - 1;

	memset(c->last, 0, sizeof(c->last));
	xk_msg_copy_out(m, 0, c->last, len);
	c->executed++;
	CHECK_EQ(++c->running, 1);
	if (c->waits)
		CHECK_EQ(xk_semaphore_wait(&c->go, XK_UNTIL_SIGNALLED), 0);
	c->running--;
	if (c->fails == 0 && !c->replies_nothing && c->reply_len == 0) {
		*reply = m;
		return 0;
	}
	xk_msg_free(m);
	if (c->reply_len != 0) {
		*reply = xk_msg_new(xk_platform_of(self), c->reply_len);
		for (struct xk_msg *part = *reply; part != NULL; part = part->next)
			memset(part->data, 0, part->len);
	}
	return c->fails;
}

static const struct xk_protocol_ops caller_ops = {
	.init = caller_init,
	.open_done = caller_open_done,
	.close_done = caller_close_done,
	.call_demux = caller_call_demux,
};

static const struct xk_protocol_type caller_type = {
	.name = "caller",
	.help = "A fake.",
	.ops = &caller_ops,
	.size = sizeof(struct caller),
};

/* ---- the rig ---- */

static inline void
chan_rig_prepare(struct rig *r)
{
	struct xk_kernel *kernel = rig_kernel(r);
	struct xk_protocol *chan = rig_protocol(r, "chan");
	struct xk_protocol *bidctl = xk_kernel_add_protocol(kernel, &fake_bidctl_type, "bidctl");
	struct xk_protocol *user = xk_kernel_add_protocol(kernel, &caller_type, "caller");
	struct xk_edge *edge;

	REQUIRE(bidctl != NULL && user != NULL);
	user->resume = XK_RESUME_DRIVER;
	((struct fake_bidctl *)bidctl)->boot = BOOT;
	REQUIRE(xk_kernel_add_edge(kernel, chan, bidctl, "bidctl") != NULL);
	edge = xk_kernel_add_edge(kernel, user, chan, "");
	REQUIRE(edge != NULL);
	edge->has_number = true;
	edge->number = NUMBER;
}

/* Returns chan with these settings ("chan.retries=1;..."). */
static inline struct rig *
chan_rig(const char *settings)
{
	char graph[512];

	snprintf(graph, sizeof(graph), "wire:; chan: wire; %s", settings);
	return rig_new_prepared(graph, chan_rig_prepare);
}

static inline struct caller *
caller_in(struct rig *r)
{
	return caller_of(rig_protocol(r, "caller"));
}

/* Runs until nothing is remembered, then frees the rig. */
static inline void
chan_rig_end(struct rig *r)
{
	rig_advance_ms(r, 600000);
	rig_free(r);
}

#define CHAN_TEST(name, made) TEST_WITH(name, struct rig *r, made, chan_rig_end)
#define CHAN_SESSION_TEST(name, made, opened) SESSION_TEST(name, made, opened, chan_rig_end)

/* ---- frames ---- */

struct frame {
	struct chan_header h;
	size_t len; /* of the payload */
	uint8_t payload[PAYLOAD_MAX];
};

/* Returns the oldest frame sent; flags 0xffff: none. */
static inline struct frame
take(struct rig *r)
{
	uint8_t bytes[CHAN_HEADER_LEN + PAYLOAD_MAX];
	long len = rig_take_sent(r, bytes, sizeof(bytes));
	struct frame f = { .h.flags = 0xffff };

	if (len < CHAN_HEADER_LEN)
		return f;
	f.h = (struct chan_header){ .channel = xk_get32(bytes),
				    .flags = xk_get16(bytes + 4),
				    .status = xk_get16(bytes + 6),
				    .number = xk_get32(bytes + 8),
				    .sequence = xk_get32(bytes + 12) };
	f.len = (size_t)len - CHAN_HEADER_LEN;
	CHECK_EQ(xk_get32(bytes + 16), f.len);
	memcpy(f.payload, bytes + CHAN_HEADER_LEN, f.len);
	return f;
}

/* The same, after checking its flags, sequence number and text (NULL: any). */
static inline struct frame
expect(struct rig *r, unsigned flags, uint32_t sequence, const char *text)
{
	struct frame f = take(r);

	CHECK_EQ(f.h.flags, flags);
	CHECK_EQ(f.h.sequence, sequence);
	CHECK_EQ(f.h.number, NUMBER);
	if (text != NULL) {
		CHECK_EQ(f.len, strlen(text));
		CHECK(memcmp(f.payload, text, f.len < strlen(text) ? f.len : strlen(text)) == 0);
	}
	return f;
}

static inline size_t
frame_bytes(uint8_t *bytes, struct chan_header h, const void *payload, size_t len)
{
	xk_put32(bytes, h.channel);
	xk_put16(bytes + 4, h.flags);
	xk_put16(bytes + 6, h.status);
	xk_put32(bytes + 8, h.number);
	xk_put32(bytes + 12, h.sequence);
	xk_put32(bytes + 16, (uint32_t)len);
	if (len > 0)
		memcpy(bytes + CHAN_HEADER_LEN, payload, len);
	return CHAN_HEADER_LEN + len;
}

static inline void
inject(struct rig *r, struct chan_header h, const char *text)
{
	uint8_t bytes[CHAN_HEADER_LEN + 256];

	rig_inject_bytes(r, bytes, frame_bytes(bytes, h, text, strlen(text)));
}

/* Answers frame f as the server. */
static inline void
answer(struct rig *r, struct frame f, unsigned flags, unsigned status, const char *text)
{
	f.h.flags = (uint16_t)flags;
	f.h.status = (uint16_t)status;
	inject(r, f.h, text);
}

/* Sends a message on CHANNEL as the client. */
static inline void
ask(struct rig *r, unsigned flags, uint32_t sequence, const char *text)
{
	inject(r, (struct chan_header){ CHANNEL, NUMBER, sequence, (uint16_t)(flags | CHAN_FROM_CLIENT), 0 }, text);
}

/* The same, expecting one frame with these flags, this sequence number and this reply (NULL: any). */
static inline struct frame
draw(struct rig *r, unsigned flags, uint32_t sequence, const char *text, unsigned reply_flags, const char *reply)
{
	ask(r, flags, sequence, text);
	return expect(r, reply_flags, sequence, reply);
}

/* Sends a request, which is run and echoed. */
static inline struct frame
call_once(struct rig *r, uint32_t sequence, const char *text)
{
	return draw(r, CHAN_USER_MSG, sequence, text, CHAN_USER_MSG, text);
}

/* ---- the user's side ---- */

/* A call and its result. */
struct calling {
	struct xk_call call; /* first */
	struct xk_session *s;
	const char *text;
	size_t len;
	int begun, status;
	unsigned done;
	size_t reply_len;
	char reply[256];
};

struct opening {
	struct rig *r;
	uint32_t host;
	struct xk_session *s;
	int status;
};

static inline void
do_open(void *argument)
{
	struct opening *o = argument;
	struct xk_participants to = rig_to(o->host);
	struct xk_protocol *user = &caller_in(o->r)->protocol;

	o->status = xk_open(user, user, rig_protocol(o->r, "chan"), &to, &o->s);
}

static inline struct xk_session *
open_channel(struct rig *r, uint32_t host)
{
	struct opening o = { r, host, NULL, 0 };

	REQUIRE(rig_do(r, do_open, &o));
	CHECK_EQ(o.status, 0);
	REQUIRE(o.s != NULL);
	return o.s;
}

static inline void
do_close(void *argument)
{
	xk_close(argument);
}

static inline void
close_channel(struct rig *r, struct xk_session *s)
{
	REQUIRE(rig_do(r, do_close, s));
}

static inline void
calling_note(struct calling *c, int status, struct xk_msg *reply)
{
	c->done++;
	c->status = status;
	CHECK_EQ(reply != NULL, status == 0);
	if (reply == NULL)
		return;
	c->reply_len = xk_msg_len(reply);
	xk_msg_copy_out(reply, 0, c->reply, c->reply_len < sizeof(c->reply) - 1 ? c->reply_len : sizeof(c->reply) - 1);
	xk_msg_free(reply);
}

static inline void
calling_done(struct xk_call *call, int status, struct xk_msg *reply)
{
	calling_note((struct calling *)call, status, reply);
}

static inline struct xk_msg *
calling_message(const struct calling *c)
{
	struct xk_msg *m = xk_msg_new(xk_platform_of(c->s->protocol), c->len);

	REQUIRE(m != NULL);
	for (struct xk_msg *part = m; part != NULL; part = part->next)
		memset(part->data, 0, part->len);
	if (c->text != NULL)
		memcpy(m->data, c->text, c->len);
	return m;
}

static inline void
do_call_async(void *argument)
{
	struct calling *c = argument;

	c->begun = xk_call_async(c->s, calling_message(c), &c->call);
}

static inline void
do_call(void *argument)
{
	struct calling *c = argument;
	struct xk_msg *reply;
	int status = xk_call(c->s, calling_message(c), &reply);

	calling_note(c, status, reply);
}

/* Begins an asynchronous call. Returns what xk_call_async returned. */
static inline int
call_async(struct rig *r, struct calling *c, struct xk_session *s, const char *text)
{
	*c = (struct calling){ .call.done = calling_done, .s = s, .text = text, .len = strlen(text) };
	REQUIRE(rig_do(r, do_call_async, c));
	return c->begun;
}

/* The same with `len` zeros. */
static inline int
call_async_long(struct rig *r, struct calling *c, struct xk_session *s, size_t len)
{
	*c = (struct calling){ .call.done = calling_done, .s = s, .len = len };
	REQUIRE(rig_do(r, do_call_async, c));
	return c->begun;
}

/* Begins a call for which a shepherd waits. Returns false if it ended at once. */
static inline bool
call_sync(struct rig *r, struct calling *c, struct xk_session *s, const char *text)
{
	*c = (struct calling){ .s = s, .text = text, .len = strlen(text) };
	return !rig_do(r, do_call, c);
}

/* Checks that the call ended once, with status. */
static inline void
expect_end(const struct calling *c, int status)
{
	CHECK_EQ(c->done, 1);
	CHECK_EQ(c->status, status);
}

/* A channel to SERVER, and a call to make on it. */
struct client {
	struct rig *r;
	struct xk_session *s;
	struct calling c;
};

static inline void
client_open(struct client *client, const char *settings)
{
	*client = (struct client){ .r = chan_rig(settings) };
	client->s = open_channel(client->r, SERVER);
}

static inline void
client_close(struct client *client)
{
	close_channel(client->r, client->s);
	chan_rig_end(client->r);
}

/* A test of such a client: r, s and c are its rig, session and call. */
#define CLIENT_TEST(name, settings)                                                                                    \
	static void name##_as(struct rig *r, struct xk_session *s, struct calling *c);                                 \
	TEST_IN(name, struct client, client, client_open(client, settings), client_close)                              \
	{                                                                                                              \
		name##_as(client->r, client->s, &client->c);                                                           \
	}                                                                                                              \
	static void name##_as(struct rig *r, struct xk_session *s, struct calling *c)

static inline void
do_serve(void *argument)
{
	struct opening *o = argument;
	struct xk_participants anybody = { .remote.depth = 0 };
	struct xk_protocol *user = &caller_in(o->r)->protocol;

	o->status = o->host != 0 ? xk_open_enable(user, user, rig_protocol(o->r, "chan"), &anybody)
				 : xk_open_disable(user, user, rig_protocol(o->r, "chan"), &anybody);
}

static inline int
serve(struct rig *r, bool willing)
{
	struct opening o = { r, willing, NULL, 0 };

	REQUIRE(rig_do(r, do_serve, &o));
	return o.status;
}

static inline void
do_go(void *argument)
{
	xk_semaphore_signal(&((struct caller *)argument)->go);
}

/* Lets the waiting handler continue. */
static inline void
go(struct rig *r)
{
	REQUIRE(rig_do(r, do_go, caller_in(r)));
}

/* Returns chan with these settings and the user enabled. */
static inline struct rig *
server_new(const char *settings)
{
	struct rig *r = chan_rig(settings);

	CHECK_EQ(serve(r, true), 0);
	return r;
}

static inline long
executed(struct rig *r)
{
	return caller_in(r)->executed;
}

struct reporting {
	struct fake_bidctl *bidctl;
	enum xk_bidctl_change change;
	struct xk_bidctl_peer peer;
};

static inline void
do_report(void *argument)
{
	struct reporting *t = argument;

	t->bidctl->boot = t->peer.boot;
	t->bidctl->watcher->changed(t->bidctl->watcher, t->change, &t->peer);
}

/* Reports a change of host as BIDCTL. */
static inline void
report(struct rig *r, enum xk_bidctl_change change, uint32_t host, uint64_t boot)
{
	struct reporting t = { (struct fake_bidctl *)rig_protocol(r, "bidctl"), change, { host, boot } };

	REQUIRE(rig_do(r, do_report, &t));
}

#endif
