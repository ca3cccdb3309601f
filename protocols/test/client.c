/* client.c - the common part of the test protocols' clients; see client_private.h. */
#include "protocols/test/client_private.h"

#include <errno.h>
#include <stdlib.h>

#include "protocols/virtual/vnet.h"
#include "xkernel/trace.h"

enum { CLIENT_PERIOD = 65521 };

void
client_fail(struct xk_protocol *self, int err)
{
	if (err == -ECANCELED || err == -EADDRNOTAVAIL)
		return;
	xk_trace(self, XK_TRACE_NONE, "the run has failed: %s", xk_error(err));
	xk_host_end(self, err);
}

void
client_report(struct xk_protocol *self, int err, struct client_count some, struct client_count others,
	      const struct client_trips *trips, unsigned first)
{
	uint64_t mean_ns = client_trips_mean_ns(trips);

	xk_counter_set(self, first, trips->min_ns);
	xk_counter_set(self, first + 1, mean_ns);
	xk_counter_set(self, first + 2, trips->max_ns);
	xk_trace(self, XK_TRACE_EVENTS, "%s: %llu %s, %llu %s, rtt %llu to %llu, mean %llu ns",
		 err == 0 ? "finished" : "failed", (unsigned long long)some.count, some.what,
		 (unsigned long long)others.count, others.what, (unsigned long long)trips->min_ns,
		 (unsigned long long)trips->max_ns, (unsigned long long)mean_ns);
	if (err != 0)
		client_fail(self, err);
}

bool
client_may_retry(int err)
{
	return err == -EHOSTUNREACH || err == -ETIMEDOUT || err == -ENOBUFS || err == -EAGAIN || err == -ECONNREFUSED;
}

/* Returns whether host is an address of this host. */
static bool
client_is_own(struct xk_protocol *self, uint32_t host)
{
	struct xk_vnet_interfaces own = { .count = 0 };
	unsigned index;

	return xk_control_protocol(xk_lower(self, 0), XK_VNET_GET_INTERFACES, &own) == 0 &&
	       xk_vnet_kind(own.list, own.count, host, &index) == XK_VNET_MINE;
}

int
client_open(struct xk_protocol *self, uint32_t host, uint16_t port, uint64_t patience_ns, struct xk_session **s)
{
	uint64_t begun_ns = xk_now_ns(self);

	for (;;) {
		struct xk_participants participants = { .remote.depth = 0 };
		int err;

		xk_participant_push(&participants.remote, host);
		if (port != 0)
			xk_participant_push(&participants.remote, port);
		err = xk_open(self, self, xk_lower(self, 0), &participants, s);
		if (err != 0 && client_is_own(self, host))
			return -EADDRNOTAVAIL;
		if (!client_may_retry(err) || xk_now_ns(self) >= begun_ns + patience_ns)
			return err;
		if (xk_delay(self, CLIENT_RETRY_US) == -ECANCELED)
			return -ECANCELED;
	}
}

int
client_refuse_port(struct xk_session *session, uint64_t port)
{
	struct xk_participants participants = { .remote.depth = 0 };
	int err = xk_get_participants(session, &participants);

	if (err != 0)
		return err;
	return xk_participant_pop(&participants.remote) == port ? -EPERM : 0;
}

int
client_init(struct client *c, size_t size_max, xk_event_handler *starter)
{
	c->pattern = calloc(1, size_max);
	if (c->pattern == NULL)
		return -ENOMEM;
	c->pattern_word = 1;
	xk_event_init(&c->starter, c->protocol.kernel, starter, c);
	if (c->peer != 0)
		xk_event_schedule(&c->starter, c->start_ns / 1000);
	return 0;
}

void
client_make_pattern(struct client *c, size_t size)
{
	/* a long period, so that misplaced pieces of a message are detected */
	for (; c->pattern_len < size; c->pattern_len++) {
		c->pattern_word = c->pattern_word * 1664525 + 1013904223;
		c->pattern[c->pattern_len] = (uint8_t)((c->pattern_word >> 24) + c->pattern_len / CLIENT_PERIOD);
	}
}

int
client_check_size(struct xk_session *s, uint32_t size, uint32_t size_max, uint32_t *max_packet)
{
	if (xk_control(s, XK_GET_MAX_PACKET, max_packet) != 0)
		*max_packet = size_max;
	return size <= *max_packet ? 0 : -EMSGSIZE;
}

void
client_record(void *argument, uint64_t rtt_ns)
{
	client_trips_add(&((struct client *)argument)->trips, rtt_ns);
}

struct xk_msg *
client_pattern_message(struct client *c, uint32_t size)
{
	struct xk_msg *m = xk_msg_new(xk_platform_of(&c->protocol), size);
	const uint8_t *pattern = c->pattern;

	for (struct xk_msg *part = m; part != NULL; pattern += part->len, part = part->next)
		memcpy(part->data, pattern, part->len);
	return m;
}
