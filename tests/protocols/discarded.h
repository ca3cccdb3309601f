/* discarded.h - for tests of the reassembler alone: the fragments that it holds and discards. */
#ifndef TESTS_DISCARDED_H
#define TESTS_DISCARDED_H

#include "protocols/ip/ip_reassembly.h"

/* Frees the discarded fragments and counts them by reason. */
static inline void
collect_discarded(struct xk_msg *discarded, unsigned counts[IP_REASSEMBLY_REASONS])
{
	enum ip_reassembly_reason why;

	while (discarded != NULL) {
		xk_msg_free(ip_reassembly_next_discarded(&discarded, &why));
		counts[why]++;
	}
}

/* Returns the number of fragments in the table. */
static inline unsigned
waiting_fragments(const struct ip_reassembly *table)
{
	const struct ip_reassembly_datagram *d;
	unsigned count = 0;

	TAILQ_FOREACH(d, &table->by_age, in_list)
	for (const struct xk_msg *m = d->first; m != NULL; m = m->link)
		count++;
	return count;
}

#endif
