/* discarded.h - for tests of the reassembler alone: what it gives back. */
#ifndef TESTS_DISCARDED_H
#define TESTS_DISCARDED_H

#include "protocols/ip/ip_reassembly.h"

/* Frees what was discarded, and counts it by its reasons. */
static inline void
collect_discarded(const struct ip_reassembly_discarded *discarded, unsigned counts[IP_REASSEMBLY_REASONS])
{
	for (unsigned reason = 0; reason < IP_REASSEMBLY_REASONS; reason++) {
		struct xk_msg *next;

		for (struct xk_msg *m = discarded->first[reason]; m != NULL; m = next) {
			next = m->link;
			counts[reason]++;
			xk_msg_free(m);
		}
	}
}

#endif
