/*
 * dpdk_host.h - for tests of the DPDK platform: a host with one port, and messages of a known pattern, made without the
 * Message tool.
 */
#ifndef TESTS_DPDK_HOST_H
#define TESTS_DPDK_HOST_H

#include <event2/event.h>
#include <sched.h>

#include "platform/dpdk/dpdk.h"
#include "tests/test.h"

enum {
	BUFFERS = 4096,
	HEADER = 14,
	FRAME_MAX = 1514,
};

static const uint64_t PATIENCE_NS =
	UINT64_C(30000000000); /* a frame that has not arrived by then is lost, however busy the machine */

struct host {
	struct xk_platform *platform;
	struct xk_port *port;
	unsigned began; /* buffers in use before the port was opened */
	bool sleeps;
	char why[XK_DPDK_WHY];
};

/* ---- a host ---- */

static inline uint64_t
now_ns(struct host *h)
{
	return h->platform->ops->now_ns(h->platform);
}

static inline int
host_start(struct host *h)
{
	struct xk_dpdk_config config = { .core = -1, .buffers = BUFFERS };

	memset(h, 0, sizeof(*h));
	return xk_dpdk_start(&config, &h->platform, h->why, sizeof(h->why));
}

static inline void
host_stop(struct host *h)
{
	xk_dpdk_stop(h->platform);
}

/* A test with a started host `h`. */
#define HOST_TEST(name) TEST_IN(name, struct host, h, REQUIRE(host_start(h) == 0), host_stop)

static inline bool
host_open(struct host *h, enum xk_dpdk_end end, const char *socket, unsigned wait_ms, bool sleeps)
{
	struct xk_dpdk_port_config config = {
		.link = "virtio", .name = "port", .device = socket, .end = end, .wait_ms = wait_ms
	};

	h->why[0] = '\0';
	h->sleeps = sleeps;
	h->began = h->platform->ops->buffers_out(h->platform);
	h->port = xk_dpdk_open(h->platform, &config, h->why, sizeof(h->why));
	return h->port != NULL;
}

static inline void
host_close(struct host *h)
{
	if (h->port != NULL)
		h->port->ops->close(h->port);
	h->port = NULL;
}

/* Receives one frame; NULL: none within PATIENCE_NS. */
static inline struct xk_msg *
host_receive(struct host *h)
{
	uint64_t until = now_ns(h) + PATIENCE_NS;
	struct xk_msg *m;

	while (h->port->ops->receive(h->port, &m, 1) == 0) {
		if (now_ns(h) > until)
			return NULL;
		if (!h->sleeps) {
			sched_yield();
			continue;
		}
		h->port->ops->arm(h->port);
		if (h->port->ops->receive(h->port, &m, 1) == 1) {
			h->port->ops->disarm(h->port);
			return m;
		}
		h->platform->ops->sleep(h->platform, until);
		h->port->ops->disarm(h->port);
	}
	return m;
}

static inline bool
host_send(struct host *h, struct xk_msg *m)
{
	uint64_t until = now_ns(h) + PATIENCE_NS;

	while (h->port->ops->transmit(h->port, &m, 1) == 0) {
		if (now_ns(h) > until)
			return false;
		sched_yield();
	}
	return true;
}

struct port_count {
	const char *name;
	uint64_t count;
};

static inline void
port_count_see(void *context, const char *name, uint64_t count, bool is_drop)
{
	struct port_count *wanted = context;

	if (strcmp(name, wanted->name) == 0)
		wanted->count = count;
}

/* Returns the port's count of this name, which must exist. */
static inline uint64_t
port_count(struct xk_port *port, const char *name)
{
	struct port_count wanted = { name, UINT64_MAX };

	port->ops->counts(port, port_count_see, &wanted);
	CHECK(wanted.count != UINT64_MAX);
	return wanted.count;
}

/* ---- messages, without the Message tool ---- */

static inline void
msg_free(struct xk_msg *m)
{
	while (m != NULL) {
		struct xk_msg *next = m->next;

		m->platform->ops->buffer_free(m->platform, m);
		m = next;
	}
}

static inline uint8_t
byte_at(unsigned seed, size_t i)
{
	return (uint8_t)(seed * 31 + i * 7 + (i >> 8));
}

/* Makes a segment of `len` bytes from `offset` of the pattern `seed`. */
static inline struct xk_msg *
segment_new(struct xk_platform *platform, unsigned seed, size_t offset, size_t len)
{
	struct xk_msg *s = platform->ops->buffer_new(platform);

	if (s == NULL)
		return NULL;
	for (size_t i = 0; i < len; i++)
		s->data[i] = byte_at(seed, offset + i);
	s->len = s->total = (uint32_t)len;
	return s;
}

static inline void
msg_append(struct xk_msg *head, struct xk_msg *s)
{
	head->tail->next = s;
	head->tail = s;
	head->total += s->len;
}

/* Makes a message of len bytes of the pattern in segments of at most `piece`. */
static inline struct xk_msg *
msg_new(struct xk_platform *platform, unsigned seed, size_t len, size_t piece)
{
	struct xk_msg *head = segment_new(platform, seed, 0, len < piece ? len : piece);

	for (size_t at = piece; at < len; at += piece)
		msg_append(head, segment_new(platform, seed, at, len - at < piece ? len - at : piece));
	return head;
}

static inline bool
msg_is(const struct xk_msg *m, unsigned seed, size_t len)
{
	size_t at = 0;

	if (m == NULL || m->total != len)
		return false;
	for (; m != NULL; m = m->next)
		for (size_t i = 0; i < m->len; i++, at++)
			if (m->data[i] != byte_at(seed, at))
				return false;
	return at == len;
}

/* A handler for the platform's event loop: sets the bool that is its argument. */
static inline void
host_note_event(evutil_socket_t fd, short what, void *argument)
{
	*(bool *)argument = true;
}

#endif
