/*
 * vtap.c - records the messages that cross it: a virtual protocol, for any edge of a graph. Messages of both directions
 * go to the host's capture (`--pcap`), as an interface with the node's name. Without a capture they are only counted.
 *
 * Participants: those of the protocol below
 * Control:      the protocol below answers
 * Link type:    `linktype` tells readers of the capture the format. auto: ethernet on a port, ip if only ip stands on
 *               it, both looking through other virtual protocols; otherwise user0 (unknown bytes)
 * Not done:     calls (RPC); link types for other protocols
 * Graph:        ip -> vtap -> vnet, or any other edge
 */
#include <errno.h>
#include <string.h>

#include "xkernel/capture.h"
#include "xkernel/kernel.h"
#include "xkernel/support/virtual.h"
#include "xkernel/trace.h"

struct vtap {
	struct xk_protocol protocol;
	unsigned linktype;
	struct xk_capture *capture; /* NULL: there is none */
	unsigned place;
};

/* By direction. */
#define VTAP_COUNTERS(C) C(VTAP_UP, "up") C(VTAP_DOWN, "down")
XK_COUNTERS(vtap, VTAP_COUNTERS);
static_assert((int)VTAP_UP == (int)XK_UP && (int)VTAP_DOWN == (int)XK_DOWN, "they are the same");

/* ---- link types ---- */

static const char *const vtap_linktypes[] = { "auto", "ethernet", "ip", "raw", "user0", NULL };

/* By their position; the first is chosen by vtap_init. */
static const enum xk_capture_link vtap_links[] = { 0, XK_CAPTURE_ETHERNET, XK_CAPTURE_IPV4, XK_CAPTURE_IP,
						   XK_CAPTURE_USER0 };

static bool
vtap_is_virtual(const struct xk_protocol *p)
{
	return (p->type->flags & XK_VIRTUAL) != 0;
}

static bool
vtap_is_on_port(const struct xk_protocol *self)
{
	const struct xk_protocol *lower = xk_lower(self, 0);

	return (lower->type->flags & XK_PORT) != 0 || (vtap_is_virtual(lower) && vtap_is_on_port(lower));
}

static bool
vtap_has_lower(const struct xk_protocol *p, const struct xk_protocol *lower)
{
	for (unsigned i = 0; i < p->lower_count; i++)
		if (p->lowers[i]->lower == lower)
			return true;
	return false;
}

/* Returns whether only protocols of the type called name, and at least one, stand on lower. */
static bool
vtap_is_under(const struct xk_protocol *lower, const char *name)
{
	bool found = false;

	for (const struct xk_protocol *p = xk_kernel_first(lower->kernel); p != NULL; p = p->next) {
		if (!vtap_has_lower(p, lower))
			continue;
		if (strcmp(p->type->name, name) != 0 && !(vtap_is_virtual(p) && vtap_is_under(p, name)))
			return false;
		found = true;
	}
	return found;
}

static int
vtap_init(struct xk_protocol *self)
{
	struct vtap *vtap = (struct vtap *)self;
	enum xk_capture_link link = vtap_links[vtap->linktype];
	int place;

	if (link == 0)
		link = vtap_is_on_port(self)       ? XK_CAPTURE_ETHERNET
		       : vtap_is_under(self, "ip") ? XK_CAPTURE_IPV4
						   : XK_CAPTURE_USER0;
	vtap->capture = xk_capture_of(self);
	if (vtap->capture == NULL)
		return 0;
	place = vtap->capture->ops->add(vtap->capture, self->name, link);
	vtap->place = (unsigned)place;
	return place < 0 ? place : 0;
}

/* ---- messages ---- */

static int
vtap_carry(struct xk_session *s, struct xk_msg *m, enum xk_direction direction)
{
	struct vtap *vtap = (struct vtap *)s->protocol;

	xk_count(s->protocol, direction);
	if (vtap->capture != NULL)
		vtap->capture->ops->see(vtap->capture, vtap->place, direction, m);
	return xk_virtual_pass(s, m, direction);
}

/* ---- tables ---- */

XK_VIRTUAL_SESSION_OPS(vtap);

static const struct xk_protocol_ops vtap_ops = { .init = vtap_init, XK_VIRTUAL_OPS };

static const struct xk_role vtap_lowers[] = {
	{ "lower", XK_ASYNC, NULL, "carries the messages" },
	{ NULL, 0, NULL, NULL },
};

static const struct xk_setting vtap_settings[] = {
	XK_SETTING(CHOICE, struct vtap, linktype, "linktype", "format for readers of the capture", .initial = "auto",
		   .choices = vtap_linktypes),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_vtap = {
	.name = "vtap",
	.help = "Records messages in the host's capture (--pcap), and counts them. No header; for any edge.",
	.ops = &vtap_ops,
	.session_ops = &vtap_session_ops,
	.size = sizeof(struct vtap),
	.offers = XK_ASYNC,
	.flags = XK_VIRTUAL,
	.lowers = vtap_lowers,
	.settings = vtap_settings,
	.counters = vtap_counters,
	.session_max = 256,
};
