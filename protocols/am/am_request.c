/*
 * am_request.c - who requests by Active Messages: sessions, and their requests, which wait until they may be sent, then for
 * their answers, or are lost; see am.c.
 */
#include <errno.h>

#include "protocols/am/am_private.h"

/* ---- requesting; the lock is held, so what is to be sent is returned, to be sent without it ---- */

/* The request of that sequence that is unanswered; NULL: there is none. */
static struct am_request *
am_find_request(struct am_session *as, uint32_t sequence)
{
	for (unsigned i = 0; i < am_of(as->session.protocol)->outstanding; i++)
		if (as->requests[i].unanswered && as->requests[i].sequence == sequence)
			return &as->requests[i];
	return NULL;
}

/* m is the next request, and unanswered from now on; there is room for it. */
static void
am_begin(struct am_session *as, struct xk_msg *m)
{
	struct am_request *request = as->requests;

	while (request->unanswered)
		request++;
	request->sequence = as->sequence++;
	request->unanswered = true;
	request->due_ns = xk_now_ns(as->session.protocol) + am_of(as->session.protocol)->timeout_ns;
	as->unanswered++;
	xk_put32(m->data + AM_AT_SEQUENCE, request->sequence);
}

/* The request that has waited longest, which may be sent now; NULL: none, or not yet. */
static struct xk_msg *
am_next(struct am_session *as)
{
	struct xk_msg *m = as->first;

	if (m == NULL || as->unanswered >= am_of(as->session.protocol)->outstanding)
		return NULL;
	as->first = m->link;
	if (--as->waiting == 0)
		as->last = &as->first;
	am_begin(as, m);
	return m;
}

/* The timer looks in time. False: the session is being closed. */
static bool
am_keep_time(struct am_session *as)
{
	if (as->timing)
		return true;
	as->timing = xk_duplicate(&as->session);
	if (as->timing)
		xk_event_schedule(&as->timer, xk_us_of_ns(am_of(as->session.protocol)->timeout_ns));
	return as->timing;
}

/* Takes m, with its header. 0 and *now (m, if it may be sent now, or NULL), or the reason to drop it. */
static unsigned
am_take(struct am_session *as, struct xk_msg *m, struct xk_msg **now)
{
	*now = NULL;
	if (as->waiting == 0 && as->unanswered < am_of(as->session.protocol)->outstanding) {
		if (!am_keep_time(as))
			return AM_CLOSED;
		am_begin(as, m);
		*now = m;
		return 0;
	}
	if (as->waiting >= am_of(as->session.protocol)->queue)
		return AM_QUEUE_FULL;
	m->link = NULL;
	*as->last = m;
	as->last = &m->link;
	as->waiting++;
	return 0;
}

/* ---- ... and without the lock ---- */

/* Puts a request's header in place of the number in front of *m. 0, or the reason to drop *m. */
static unsigned
am_make_request(struct am_session *as, struct xk_msg **m)
{
	struct am_header h = { .kind = AM_REQUEST, .session = as->number };
	const uint8_t *p = xk_msg_pop(m, XK_AM_NUMBER_LEN);

	if (p == NULL)
		return xk_msg_len(*m) < XK_AM_NUMBER_LEN ? AM_BAD_REQUEST : XK_DROP_NO_BUFFER;
	h.handler = xk_get16(p);
	if (h.handler >= XK_AM_HANDLERS)
		return AM_BAD_REQUEST;
	return am_header_push(m, &h) ? 0 : XK_DROP_NO_BUFFER;
}

int
am_push(struct xk_session *s, struct xk_msg *m)
{
	struct am_session *as = am_session_of(s);
	struct xk_msg *now = NULL;
	unsigned why = am_make_request(as, &m);

	if (why == 0) {
		xk_lock(&as->lock);
		why = am_take(as, m, &now);
		xk_unlock(&as->lock);
	}
	if (why != 0) {
		xk_drop(s->protocol, m, why);
		return why == AM_BAD_REQUEST ? -EINVAL : why == AM_CLOSED ? -ECONNRESET : -ENOBUFS;
	}
	return now == NULL ? 0 : xk_push(s->lls, now);
}

void
am_send_waiting(struct am_session *as)
{
	struct xk_msg *m;

	do {
		xk_lock(&as->lock);
		m = am_next(as);
		xk_unlock(&as->lock);
		if (m != NULL)
			xk_push(as->session.lls, m);
	} while (m != NULL);
}

bool
am_answered(struct am_session *as, uint32_t sequence, bool *others_wait)
{
	struct am_request *request;

	xk_lock(&as->lock);
	request = am_find_request(as, sequence);
	if (request != NULL) {
		request->unanswered = false;
		as->unanswered--;
	}
	*others_wait = as->waiting > 0;
	xk_unlock(&as->lock);
	return request != NULL;
}

/* Those that are due are lost. When the next one is; UINT64_MAX: none is unanswered. The lock is held. */
static uint64_t
am_lose(struct am_session *as, uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;

	for (unsigned i = 0; i < am_of(as->session.protocol)->outstanding; i++) {
		struct am_request *request = &as->requests[i];

		if (!request->unanswered)
			continue;
		if (request->due_ns <= now_ns) {
			request->unanswered = false;
			as->unanswered--;
			xk_count(as->session.protocol, AM_LOST);
		} else if (request->due_ns < next_ns) {
			next_ns = request->due_ns;
		}
	}
	return next_ns;
}

static void
am_expire(struct xk_event *event, void *argument)
{
	struct am_session *as = argument;
	uint64_t now_ns = xk_now_ns(as->session.protocol), next_ns;

	(void)event;
	xk_lock(&as->lock);
	next_ns = am_lose(as, now_ns);
	if (next_ns == UINT64_MAX && as->waiting > 0)
		next_ns = now_ns + am_of(as->session.protocol)->timeout_ns;
	as->timing = next_ns != UINT64_MAX && xk_duplicate(&as->session);
	if (as->timing)
		xk_event_schedule(&as->timer, xk_us_of_ns(next_ns - now_ns));
	xk_unlock(&as->lock);
	am_send_waiting(as);
	xk_session_release(&as->session);
}

/* ---- sessions ---- */

/* how: the header of the first request. */
int
am_setup(struct xk_session *s, const void *how)
{
	struct am_session *as = am_session_of(s);
	const struct am_header *first = how;

	xk_event_init(&as->timer, s->protocol->kernel, am_expire, as);
	xk_lock_init(&as->lock, s->protocol);
	as->number = first->session;
	as->sequence = first->sequence;
	as->last = &as->first;
	return 0;
}

int
am_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	struct xk_participants *participants, struct xk_session **session)
{
	struct am_header first = { .kind = AM_REQUEST };
	struct xk_session *lls;
	int status = xk_open(self, self, xk_lower(self, 0), participants, &lls);

	if (status != 0)
		return status;
	first.sequence = (uint32_t)xk_random(self);
	first.session = xk_random(self);
	return xk_table_add(self, am_key(first.session), hlp_receive, hlp_type, lls, &first, session);
}

/* Nothing of the session is under way any more, but in fini. */
void
am_close(struct xk_session *s)
{
	struct am_session *as = am_session_of(s);
	struct xk_msg *next;

	for (struct xk_msg *m = as->first; m != NULL; m = next) {
		next = m->link;
		xk_drop(s->protocol, m, AM_CLOSED);
	}
}
