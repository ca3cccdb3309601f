/* tcp_gaps.c - see tcp_private.h. */
#include <stdlib.h>
#include <string.h>

#include "protocols/tcp/tcp_private.h"

/* Removes the bytes of *m, which begin at `begin`, before `sequence`. Returns false, with *m as it was: no buffer. */
static bool
gaps_cut(struct xk_msg **m, uint32_t begin, uint32_t sequence)
{
	struct xk_msg *cut;

	if (*m == NULL || !tcp_before(begin, sequence))
		return true;
	cut = xk_msg_split(m, sequence - begin);
	xk_msg_free(cut);
	return cut != NULL;
}

/* Inserts a range before the one at index. Returns false if there are too many. */
static bool
gaps_insert(struct tcp_gaps *gaps, unsigned index, struct tcp_range range, struct xk_msg *m)
{
	unsigned rest = gaps->count - index;

	if (gaps->count == TCP_RANGES)
		return false;
	memmove(&gaps->range[index + 1], &gaps->range[index], rest * sizeof(gaps->range[0]));
	memmove(&gaps->m[index + 1], &gaps->m[index], rest * sizeof(gaps->m[0]));
	memmove(&gaps->since_ns[index + 1], &gaps->since_ns[index], rest * sizeof(gaps->since_ns[0]));
	gaps->range[index] = range;
	gaps->m[index] = m;
	gaps->since_ns[index] = 0;
	gaps->count++;
	gaps->buffers += xk_msg_buffers(m);
	return true;
}

/* Returns the bytes of the range at index, which is removed. */
static struct xk_msg *
gaps_remove(struct tcp_gaps *gaps, unsigned index)
{
	struct xk_msg *m = gaps->m[index];
	unsigned rest = --gaps->count - index;

	gaps->buffers -= xk_msg_buffers(m);
	memmove(&gaps->range[index], &gaps->range[index + 1], rest * sizeof(gaps->range[0]));
	memmove(&gaps->m[index], &gaps->m[index + 1], rest * sizeof(gaps->m[0]));
	memmove(&gaps->since_ns[index], &gaps->since_ns[index + 1], rest * sizeof(gaps->since_ns[0]));
	return m;
}

/*
 * Appends the range behind the one at index, which it touches or overlaps, to that one, whose bytes stay. Takes *m unless
 * it fails: no buffer, or the bytes of both are too many for a message.
 */
static bool
gaps_append(struct tcp_gaps *gaps, unsigned index, struct tcp_range range, struct xk_msg **m)
{
	struct tcp_range *before = &gaps->range[index];

	if (!tcp_before(before->end, range.end)) {
		xk_msg_free(*m);
		*m = NULL;
		return true;
	}
	if (*m != NULL) {
		if (!gaps_cut(m, range.begin, before->end) || xk_msg_len(gaps->m[index]) + xk_msg_len(*m) > XK_MSG_MAX)
			return false;
		gaps->buffers += xk_msg_buffers(*m);
		xk_msg_join(gaps->m[index], *m);
		*m = NULL;
	}
	before->end = range.end;
	return true;
}

bool
tcp_gaps_add(struct tcp_gaps **all, struct tcp_range range, struct xk_msg **m)
{
	struct tcp_gaps *gaps = *all;
	unsigned index = 0;

	if (gaps == NULL && (gaps = *all = calloc(1, sizeof(*gaps))) == NULL)
		return false;
	while (index < gaps->count && !tcp_before(range.begin, gaps->range[index].begin))
		index++;
	/* the range before it, which begins no later */
	if (index > 0 && !tcp_before(gaps->range[index - 1].end, range.begin)) {
		if (!gaps_append(gaps, --index, range, m))
			return false;
	} else {
		if (!gaps_insert(gaps, index, range, *m))
			return false;
		*m = NULL;
	}
	while (index + 1 < gaps->count && !tcp_before(gaps->range[index].end, gaps->range[index + 1].begin)) {
		struct tcp_range next = gaps->range[index + 1];
		struct xk_msg *rest = gaps_remove(gaps, index + 1);

		if (!gaps_append(gaps, index, next, &rest)) {
			xk_msg_free(rest); /* the peer sends it again */
			break;
		}
	}
	return true;
}

uint32_t
tcp_gaps_bytes(const struct tcp_gaps *gaps)
{
	uint32_t bytes = 0;

	for (unsigned i = 0; gaps != NULL && i < gaps->count; i++)
		bytes += gaps->range[i].end - gaps->range[i].begin;
	return bytes;
}

struct xk_msg *
tcp_gaps_take(struct tcp_gaps **all, uint32_t sequence)
{
	struct tcp_gaps *gaps = *all;
	struct xk_msg *m = NULL;

	while (gaps != NULL && gaps->count > 0 && m == NULL && !tcp_before(sequence, gaps->range[0].begin)) {
		struct tcp_range range = gaps->range[0];

		m = gaps_remove(gaps, 0);
		if (!tcp_before(sequence, range.end)) {
			xk_msg_free(m);
			m = NULL;
		} else if (m != NULL) {
			if (!gaps_cut(&m, range.begin, sequence)) {
				xk_msg_free(m);
				m = NULL;
			}
		} else {
			gaps_insert(gaps, 0, (struct tcp_range){ sequence, range.end }, NULL);
			break;
		}
	}
	if (gaps != NULL && gaps->count == 0) {
		free(gaps);
		*all = NULL;
	}
	return m;
}
