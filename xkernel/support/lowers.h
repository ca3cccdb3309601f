/*
 * lowers.h - enables on all lowers, or on none, for protocols whose messages come up from any of them. Skips lowers
 * that only answer control operations.
 */
#ifndef XK_LOWERS_H
#define XK_LOWERS_H

#include "xkernel/protocol.h"

/* Returns whether lower i of self carries messages, by its role. */
static inline bool
xk_lower_carries(const struct xk_protocol *self, unsigned i)
{
	const struct xk_role *roles = self->type->lowers;
	unsigned count = 0;

	while (roles != NULL && roles[count].name != NULL)
		count++;
	return count == 0 || roles[i % count].needs != XK_CONTROL;
}

/*
 * Withdraws an open_enable from the first of each `step` lowers, before `end`; each gets a copy of the participants.
 * Returns 0, or the error of the first lower that refused.
 */
static inline int
xk_disable_lowers(struct xk_protocol *self, unsigned step, unsigned end, struct xk_protocol *hlp_receive,
		  struct xk_protocol *hlp_type, const struct xk_participants *participants)
{
	int err = 0;

	for (unsigned i = 0; i < end; i += step) {
		struct xk_participants copy = *participants;
		int answer = 0;

		if (xk_lower_carries(self, i))
			answer = xk_open_disable(hlp_receive, hlp_type, xk_lower(self, i), &copy);
		err = err == 0 ? answer : err;
	}
	return err;
}

/* Enables on the first of each `step` lowers; each gets a copy of the participants. 0, or -errno: enabled on none. */
static inline int
xk_enable_lowers(struct xk_protocol *self, unsigned step, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		 const struct xk_participants *participants)
{
	for (unsigned i = 0; i < self->lower_count; i += step) {
		struct xk_participants copy = *participants;
		int err = 0;

		if (xk_lower_carries(self, i))
			err = xk_open_enable(hlp_receive, hlp_type, xk_lower(self, i), &copy);
		if (err != 0) {
			xk_disable_lowers(self, step, i, hlp_receive, hlp_type, participants);
			return err;
		}
	}
	return 0;
}

#endif
