/*
 * mistake.c - passes messages on, except for one: with that it makes the mistake named by `makes`, as a first protocol
 * might. tests/mistakes/run.sh checks the programs' reports.
 *
 * Participants: those of the protocol below
 * Control:      the protocol below answers
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "xkernel/event.h"
#include "xkernel/support/virtual.h"

struct mistake {
	struct xk_protocol protocol; /* first */
	const char *makes;
	uint64_t at; /* the number of that message, from 1 */
	_Atomic uint64_t ups, downs;
	struct xk_event event;
	struct xk_session *session;
	struct xk_msg *kept;
	struct xk_semaphore never, unset;
	struct xk_lock lock;
	volatile uint64_t spun;
};

static struct mistake *
mistake_of(const struct xk_session *s)
{
	return (struct mistake *)s->protocol;
}

/* Returns true if the mistake `name` is to be made now. */
static bool
mistake_makes(const struct mistake *self, const char *name, uint64_t count)
{
	return count == self->at && strcmp(self->makes, name) == 0;
}

__attribute__((noinline)) static void
mistake_spin(struct mistake *self)
{
	while (self->spun < UINT64_MAX)
		self->spun++;
}

static void
mistake_push_kept(struct xk_event *event, void *argument)
{
	struct mistake *self = argument;

	(void)event;
	if (strcmp(self->makes, "loop_event") == 0)
		mistake_spin(self);
	else
		xk_push(self->session->lls, self->kept);
}

static void
mistake_keep(struct mistake *self, struct xk_session *s, struct xk_msg *m)
{
	self->session = s;
	self->kept = m;
	xk_event_schedule(&self->event, 1000);
}

/* Initialized by the first caller, on any host. */
static struct xk_semaphore *
mistake_static_semaphore(struct mistake *self)
{
	static struct xk_semaphore semaphore;

	if (semaphore.owner == NULL)
		xk_semaphore_init(&semaphore, &self->protocol, 0);
	return &semaphore;
}

/* Waits in a way that messages must not, if that is the mistake. */
static void
mistake_wait(struct mistake *self, uint64_t count)
{
	if (mistake_makes(self, "waits_forever", count))
		xk_semaphore_wait(&self->never, XK_FOREVER);
	if (mistake_makes(self, "waits_long", count))
		xk_delay(&self->protocol, UINT64_C(3600000000));
	if (mistake_makes(self, "refuses_to_end", count))
		while (xk_delay(&self->protocol, UINT64_C(3600000000)) != 0)
			continue;
	if (mistake_makes(self, "unset_semaphore", count))
		xk_semaphore_wait(&self->unset, 1000);
	if (strcmp(self->makes, "static_semaphore") == 0)
		xk_semaphore_wait(mistake_static_semaphore(self), 1000);
	if (strcmp(self->makes, "set_again") == 0) {
		xk_semaphore_init(&self->never, &self->protocol, 0);
		xk_semaphore_wait(&self->never, XK_UNTIL_SIGNALLED);
	}
	while (mistake_makes(self, "sleeps", count)) /* the watchdog's signal interrupts it */
		sleep(3600);
	if (mistake_makes(self, "locked_wait", count)) {
		xk_lock(&self->lock);
		xk_delay(&self->protocol, 1000);
	}
}

/* Replaces m with a new message and pushes it on its own session instead of the one below: for ever. */
static int
mistake_push_again(struct mistake *self, struct xk_session *s, struct xk_msg *m)
{
	int status;

	xk_msg_free(m);
	status = xk_push(s, xk_msg_new(xk_platform_of(&self->protocol), 1));
	self->spun++; /* no tail call */
	return status;
}

static int
mistake_push(struct xk_session *s, struct xk_msg *m)
{
	struct mistake *self = mistake_of(s);
	uint64_t count = ++self->downs;

	if (mistake_makes(self, "locked_push", count))
		xk_lock(&self->lock);
	if (mistake_makes(self, "loop_push", count))
		mistake_spin(self);
	if (mistake_makes(self, "null_session", count))
		return xk_push(self->session, m); /* NULL */
	if (strcmp(self->makes, "pushes_to_itself") == 0)
		return mistake_push_again(self, s, m);
	if (mistake_makes(self, "pushes_on_its_own", count))
		return xk_push(s, m);
	if (mistake_makes(self, "undeclared_header", count))
		m = xk_push_header(s, m, 4);
	if (mistake_makes(self, "undeclared_counter", count))
		xk_count(&self->protocol, 1);
	if (mistake_makes(self, "undeclared_drop", count))
		xk_drop(&self->protocol, xk_msg_reference(m), XK_DROP_OWN + 2);
	if (mistake_makes(self, "unnamed_drop", count))
		xk_drop(&self->protocol, xk_msg_reference(m), 0);
	if (mistake_makes(self, "freed_and_pushed", count))
		xk_msg_free(m);
	if (mistake_makes(self, "dropped_and_pushed", count))
		xk_drop(&self->protocol, m, XK_DROP_REFUSED);
	if (mistake_makes(self, "kept_and_pushed", count) || mistake_makes(self, "loop_event", count))
		mistake_keep(self, s, m);
	if (mistake_makes(self, "kept_and_freed", count)) {
		mistake_keep(self, s, m);
		xk_msg_free(m);
		return 0;
	}
	return xk_push(s->lls, m);
}

static void
mistake_pop(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct mistake *self = mistake_of(s);
	uint64_t count = ++self->ups;

	(void)hdr;
	mistake_wait(self, count);
	if (mistake_makes(self, "prints", count))
		printf("a line\n");
	if (mistake_makes(self, "keeps", count))
		xk_keep(&self->protocol, 3);
	if (mistake_makes(self, "locked_end", count)) {
		xk_lock(&self->lock);
		xk_msg_free(m);
		return;
	}
	if (mistake_makes(self, "loop_pop", count))
		mistake_spin(self);
	if (mistake_makes(self, "never_freed", count))
		return;
	if (mistake_makes(self, "unlocks", count))
		xk_unlock(&self->lock);
	if (mistake_makes(self, "delivers_below", count)) {
		xk_demux(lls, m);
		return;
	}
	if (mistake_makes(self, "pops_below", count)) {
		xk_pop(lls, lls, m, NULL);
		return;
	}
	if (mistake_makes(self, "freed_and_measured", count)) {
		xk_msg_free(m);
		self->spun += xk_msg_len(m);
		return;
	}
	if (mistake_makes(self, "freed_and_cut", count)) {
		xk_msg_free(m);
		xk_msg_truncate(m, 0);
		return;
	}
	if (mistake_makes(self, "freed_twice", count)) {
		xk_msg_free(m);
		xk_msg_free(m);
		return;
	}
	if (mistake_makes(self, "null_message", count)) {
		xk_demux(s, self->kept); /* NULL */
		return;
	}
	if (mistake_makes(self, "freed_and_delivered", count))
		xk_msg_free(m);
	if (mistake_makes(self, "popped_too_much", count))
		xk_msg_pop_in_place(m, xk_msg_len(m) + 1);
	if (mistake_makes(self, "delivered_twice", count))
		xk_demux(s, m);
	xk_demux(s, m);
}

static const struct xk_session_ops mistake_session_ops = {
	.push = mistake_push,
	.pop = mistake_pop,
	.close = xk_virtual_session_close,
};

static int
mistake_init(struct xk_protocol *protocol)
{
	struct mistake *self = (struct mistake *)protocol;

	xk_event_init(&self->event, protocol->kernel, mistake_push_kept, self);
	xk_semaphore_init(&self->never, protocol, 0);
	xk_lock_init(&self->lock, protocol);
	if (mistake_makes(self, "loop_init", self->at))
		mistake_spin(self);
	if (mistake_makes(self, "waits_in_init", self->at))
		xk_delay(protocol, 1000);
	return 0;
}

/* ---- tables ---- */

/* Unterminated lists are reported before anything runs. MISTAKE_UNENDED is the letter of the unterminated list. */
#ifndef MISTAKE_UNENDED
#define MISTAKE_UNENDED 0
#endif

/* Missing operations are refused, too. */
#ifdef MISTAKE_LACKS_OPEN
static const struct xk_protocol_ops mistake_ops = { .init = mistake_init };
#elif defined(MISTAKE_LACKS_DEMUX)
static const struct xk_protocol_ops mistake_ops = { .init = mistake_init, .open = xk_virtual_open };
#else
static const struct xk_protocol_ops mistake_ops = { .init = mistake_init, XK_VIRTUAL_OPS };
#endif

static const struct xk_role mistake_lowers[] = {
	{ "lower", XK_ASYNC, NULL, "where the messages come from and go to" },
#if MISTAKE_UNENDED != 'l'
	{ NULL, 0, NULL, NULL },
#endif
};

static const char *const mistake_drops[] = {
	"late",
	"early",
#if MISTAKE_UNENDED != 'd'
	NULL,
#endif
};

static const struct xk_setting mistake_settings[] = {
	XK_SETTING(STRING, struct mistake, makes, "makes", "the mistake", .initial = "none"),
	XK_SETTING(UINT, struct mistake, at, "at", "the message", .initial = "5", .min = 1, .max = 1000000),
#if MISTAKE_UNENDED != 's'
	{ .name = NULL },
#endif
};

#if MISTAKE_UNENDED == 'f' || MISTAKE_UNENDED == 'v'
static const struct xk_field_value mistake_values[] = {
	{ 1, "one" },
#if MISTAKE_UNENDED != 'v'
	{ 0, NULL },
#endif
};

static const struct xk_field mistake_fields[] = {
	{ .name = "field", .bits = 8, .values = mistake_values },
#if MISTAKE_UNENDED != 'f'
	{ .name = NULL },
#endif
};
#endif

const struct xk_protocol_type xk_type_mistake = {
	.name = "mistake",
	.help = "Makes one of the mistakes that first protocols make.",
	.ops = &mistake_ops,
	.session_ops = &mistake_session_ops,
	.size = sizeof(struct mistake),
	.offers = XK_ASYNC,
	.flags = XK_VIRTUAL,
	.lowers = mistake_lowers,
#if MISTAKE_UNENDED == 'f' || MISTAKE_UNENDED == 'v'
	.fields = mistake_fields,
#endif
	.settings = mistake_settings,
	.drops = mistake_drops,
	.session_max = 256,
};
