/*
 * msg.c - the Message tool: the parts of msg.h that are not inline.
 *
 * A chain's total, tail, id, flags and annotations are valid in its first segment only: code that replaces the first
 * segment carries them over. A segment's bytes belong to its view of the buffer. The bytes around them may be written
 * only if the buffer has no other view.
 */
#include "xkernel/msg.h"

#include <stdlib.h>
#include <string.h>

#include "xkernel/checksum.h"
#include "xkernel/platform.h"

static struct xk_msg *
msg_segment_new(struct xk_platform *platform)
{
	return platform->ops->buffer_new(platform);
}

static void
msg_segment_free(struct xk_msg *segment)
{
	segment->platform->ops->buffer_free(segment->platform, segment);
}

/* Returns whether the chain agrees with its first segment. For debug builds. */
static bool
msg_is_sound(const struct xk_msg *m)
{
	const struct xk_msg *last = NULL;
	size_t total = 0;

	for (const struct xk_msg *s = m; s != NULL; last = s, s = s->next) {
		if (s->data < s->floor || s->data > s->ceiling || s->len > (size_t)(s->ceiling - s->data))
			return false;
		total += s->len;
	}
	return total == m->total && last == m->tail;
}

/* Aborts if m was freed. For slow paths, which freed messages always take: they have no bytes and no references. */
static void
msg_must_live(const struct xk_msg *m, const char *what)
{
	if (xk_unlikely(xk_msg_is_given_up(m)))
		xk_msg_misused(m, what);
}

/* Copies the record of crossings, in debug builds. */
static void
msg_carry_trail(struct xk_msg *to, const struct xk_msg *from)
{
	(void)to;
	(void)from;
#ifdef XK_DEBUG
	memcpy(to->trail, from->trail, sizeof(to->trail));
	to->crossings = from->crossings;
#endif
}

/* Copies the fields that are valid in a first segment from `from` to `to`. */
static void
msg_carry_over(struct xk_msg *to, const struct xk_msg *from)
{
	to->owner = from->owner;
	msg_carry_trail(to, from);
	to->total = from->total;
	to->tail = from->tail;
	to->id = from->id;
	to->flags = from->flags;
	memcpy(to->annotation_kinds, from->annotation_kinds, sizeof(to->annotation_kinds));
	memcpy(to->annotations, from->annotations, sizeof(to->annotations));
}

/* Appends one segment to the chain that begins at *first, which may be NULL. */
static void
msg_append(struct xk_msg **first, struct xk_msg *segment)
{
	if (*first == NULL) {
		*first = segment;
		segment->total = segment->len;
		return;
	}
	(*first)->tail->next = segment;
	(*first)->tail = segment;
	(*first)->total += segment->len;
}

struct xk_msg *
xk_msg_new(struct xk_platform *platform, size_t len)
{
	struct xk_msg *m = NULL;

	if (len > XK_MSG_MAX)
		return NULL;
	if (len > XK_MSG_SHORT && platform->ops->is_short != NULL && xk_unlikely(platform->ops->is_short(platform)))
		return NULL;
	do {
		struct xk_msg *segment = msg_segment_new(platform);
		size_t room;

		if (segment == NULL) {
			xk_msg_free(m);
			return NULL;
		}
		room = (size_t)(segment->ceiling - segment->data);
		segment->len = (uint32_t)(len < room ? len : room);
		len -= segment->len;
		msg_append(&m, segment);
	} while (len > 0);
	xk_debug_assert(msg_is_sound(m));
	return m;
}

struct xk_msg *
xk_msg_from(struct xk_platform *platform, const void *bytes, size_t len)
{
	struct xk_msg *m = xk_msg_new(platform, len);
	const uint8_t *p = bytes;

	if (m == NULL || len == 0)
		return m;
	for (struct xk_msg *s = m; s != NULL; p += s->len, s = s->next)
		memcpy(s->data, p, s->len);
	return m;
}

struct xk_msg *
xk_msg_lend(struct xk_platform *platform, const void *bytes, size_t len, void (*given_back)(void *context),
	    void *context)
{
	struct xk_msg *m = NULL;

	if (len <= XK_MSG_MAX)
		m = platform->ops->buffer_lend(platform, bytes, len, given_back, context);
	if (m != NULL)
		m->total = m->len;
	return m;
}

void *
xk_lendable_new(struct xk_platform *platform, size_t len)
{
	return platform->ops->lendable_new == NULL ? malloc(len) : platform->ops->lendable_new(platform, len);
}

void
xk_lendable_free(struct xk_platform *platform, void *bytes)
{
	if (platform->ops->lendable_free == NULL)
		free(bytes);
	else
		platform->ops->lendable_free(platform, bytes);
}

/* Returns a view of len bytes of segment, which exist, from offset on, without room in front; NULL: no buffer. */
static inline struct xk_msg *
msg_view(const struct xk_msg *segment, size_t offset, size_t len)
{
	struct xk_msg *view = segment->platform->ops->buffer_view(segment->platform, segment);

	if (xk_unlikely(view == NULL))
		return NULL;
	view->own_end = view->floor;
	view->data += offset;
	view->len = (uint32_t)len;
	return view;
}

/* As msg_view, of bytes that segment still shows: it keeps the room in front of them. */
static inline struct xk_msg *
msg_share(struct xk_msg *segment, size_t offset, size_t len)
{
	struct xk_msg *view = msg_view(segment, offset, len);

	if (xk_likely(view != NULL) && segment->own_end > view->data)
		segment->own_end = view->data;
	return view;
}

struct xk_msg *
xk_msg_part(struct xk_msg *m, size_t offset, size_t len)
{
	struct xk_msg *s = m, *other, *last;
	size_t left = len, piece;

	msg_must_live(m, "copies");
	xk_debug_assert(msg_is_sound(m));
	xk_assert(offset <= m->total && len <= m->total - offset);
	for (; offset >= s->len && s->next != NULL; s = s->next)
		offset -= s->len;
	piece = left < s->len - offset ? left : s->len - offset;
	other = last = msg_share(s, offset, piece);
	if (xk_unlikely(other == NULL))
		return NULL;
	while ((left -= piece) > 0) {
		s = s->next;
		piece = left < s->len ? left : s->len;
		if (piece == 0) /* the popped header of a joined fragment */
			continue;
		last->next = msg_share(s, 0, piece);
		if (xk_unlikely(last->next == NULL)) {
			xk_msg_free(other);
			return NULL;
		}
		last = last->next;
	}
	other->tail = last;
	other->total = (uint32_t)len;
	other->id = m->id;
	other->flags = m->flags & (uint16_t) ~(XK_MSG_ANNOTATED << XK_OF_PUSH);
	if (len != m->total)
		other->flags &= (uint16_t) ~(XK_MSG_NETWORK_SUM_GOOD | XK_MSG_TRANSPORT_SUM_GOOD);
	other->annotation_kinds[XK_OF_MESSAGE] = m->annotation_kinds[XK_OF_MESSAGE];
	other->annotations[XK_OF_MESSAGE] = m->annotations[XK_OF_MESSAGE];
	msg_carry_trail(other, m);
	return other;
}

struct xk_msg *
xk_msg_reference(struct xk_msg *m)
{
	return xk_msg_part(m, 0, m->total);
}

/* ---- kept messages ---- */

/* Keeps the segments of m by their bytes. Returns false, keeping nothing, if they are too many or cannot be held. */
static inline bool
kept_hold(struct xk_kept *kept, struct xk_msg *m)
{
	struct xk_kept_segment *to = kept->segments;
	struct xk_msg *s;

	for (s = m; s != NULL; s = s->next) {
		struct xk_platform *platform = s->platform;

		if (s->len == 0) /* the popped header of a joined fragment */
			continue;
		if (to == kept->segments + XK_MSG_KEPT || !platform->ops->buffer_hold(platform, s))
			break;
		to->platform = platform;
		to->references = s->references;
		to->data = s->data;
		to->floor = s->floor;
		to->ceiling = s->ceiling;
		to->len = s->len;
		if (s->own_end > s->data)
			s->own_end = s->data;
		to++;
	}
	kept->buffers = (uint16_t)(to - kept->segments);
	if (xk_unlikely(s != NULL))
		xk_kept_free(kept);
	return s == NULL;
}

bool
xk_msg_keep(struct xk_kept *kept, struct xk_msg *m)
{
	msg_must_live(m, "keeps");
	xk_debug_assert(msg_is_sound(m));
	xk_assert(m->total > 0);
	kept->m = NULL;
	kept->total = m->total;
	kept->flags = m->flags & (uint16_t) ~(XK_MSG_ANNOTATED << XK_OF_PUSH);
	kept->id = m->id;
	kept->annotation_kind = m->annotation_kinds[XK_OF_MESSAGE];
	kept->annotation = m->annotations[XK_OF_MESSAGE];
	if (xk_likely(kept_hold(kept, m)))
		return true;
	if (xk_msg_buffers(m) <= UINT16_MAX)
		kept->m = xk_msg_reference(m);
	kept->buffers = (uint16_t)xk_msg_buffers(kept->m);
	return kept->m != NULL;
}

struct xk_msg *
xk_kept_part(const struct xk_kept *kept, size_t offset, size_t len)
{
	struct xk_msg whole[XK_MSG_KEPT] = { { .total = kept->total, .flags = kept->flags, .id = kept->id } };

	if (kept->m != NULL)
		return xk_msg_part(kept->m, offset, len);
	for (unsigned i = 0; i < kept->buffers; i++) {
		const struct xk_kept_segment *segment = &kept->segments[i];

		whole[i].platform = segment->platform;
		whole[i].references = segment->references;
		whole[i].data = segment->data;
		whole[i].floor = whole[i].own_end = segment->floor;
		whole[i].ceiling = segment->ceiling;
		whole[i].len = segment->len;
		whole[i].next = i + 1u < kept->buffers ? &whole[i + 1] : NULL;
		whole[0].tail = &whole[i];
	}
	whole[0].annotation_kinds[XK_OF_MESSAGE] = kept->annotation_kind;
	whole[0].annotations[XK_OF_MESSAGE] = kept->annotation;
	return xk_msg_part(&whole[0], offset, len);
}

void
xk_kept_let_go(struct xk_kept *kept)
{
	const struct xk_kept_segment *segment = kept->segments, *end = segment + kept->buffers;

	kept->buffers = 0;
	if (xk_unlikely(kept->m != NULL)) {
		xk_msg_free(kept->m);
		return;
	}
	for (; segment != end; segment++)
		segment->platform->ops->buffer_let_go(segment->platform, segment->references);
}

/* ---- freeing, pushing, popping ---- */

/* Frees one segment. */
static inline void
msg_give_up(struct xk_msg *segment, uintptr_t here)
{
	segment->given_up_at = here;
	segment->own_end = NULL; /* a push onto a freed message then takes the slow path, which notices */
	msg_segment_free(segment);
}

XK_APART static void
msg_give_up_all(struct xk_msg *m, uintptr_t here)
{
	for (struct xk_msg *next; m != NULL; m = next) {
		next = m->next;
		msg_give_up(m, here);
	}
}

/* Most messages have one segment: then this makes only a tail call, and saves no registers. */
void
xk_msg_free_here(struct xk_msg *m, uintptr_t here)
{
	if (m == NULL)
		return;
	if (m->next == NULL)
		msg_give_up(m, here);
	else
		msg_give_up_all(m, here);
}

uint8_t *
xk_msg_push_segment(struct xk_msg **m, size_t len)
{
	struct xk_msg *head = *m;
	struct xk_msg *fresh;

	xk_assert(len <= XK_MSG_HEADROOM);
	msg_must_live(head, "puts a header on");
	xk_debug_assert(msg_is_sound(head));
	if (xk_msg_is_writable(head) && (size_t)(head->data - head->floor) >= len) { /* others' views are gone */
		head->own_end = head->ceiling;
		return xk_msg_push_in_place(head, len);
	}
	fresh = msg_segment_new(head->platform);
	if (fresh == NULL)
		return NULL;
	msg_carry_over(fresh, head);
	fresh->data -= len; /* into the headroom; the rest of it is for the headers of lower layers */
	fresh->len = (uint32_t)len;
	fresh->total += (uint32_t)len;
	head->owner = NULL;
	fresh->next = head;
	if (head->len == 0) {
		fresh->next = head->next;
		if (fresh->tail == head)
			fresh->tail = fresh;
		msg_segment_free(head);
	}
	*m = fresh;
	xk_debug_assert(msg_is_sound(fresh));
	return fresh->data;
}

/* Copies len bytes, which must exist, from offset of the chain that begins at segment. */
static void
msg_gather(const struct xk_msg *segment, size_t offset, uint8_t *bytes, size_t len)
{
	for (; offset >= segment->len && len > 0; segment = segment->next)
		offset -= segment->len;
	while (len > 0) {
		size_t piece = segment->len - offset;

		if (piece > len)
			piece = len;
		memcpy(bytes, segment->data + offset, piece);
		bytes += piece;
		len -= piece;
		offset = 0;
		segment = segment->next;
	}
}

/* Removes len bytes from the segments behind head, and frees those that are then empty. */
static void
msg_consume_behind(struct xk_msg *head, size_t len)
{
	while (len > 0) {
		struct xk_msg *next = head->next;

		if (next->len > len) {
			next->data += len;
			next->len -= (uint32_t)len;
			return;
		}
		len -= next->len;
		head->next = next->next;
		msg_segment_free(next);
	}
	if (head->next == NULL)
		head->tail = head;
}

/* Frees empty segments at the beginning of *m, except the last one. */
static void
msg_pass_empty(struct xk_msg **m)
{
	while ((*m)->len == 0 && (*m)->next != NULL) {
		struct xk_msg *head = *m;

		msg_carry_over(head->next, head);
		*m = head->next;
		msg_segment_free(head);
	}
}

uint8_t *
xk_msg_pull_up(struct xk_msg **m, size_t len)
{
	struct xk_msg *head;
	size_t missing;

	msg_must_live(*m, "takes a header off");
	xk_debug_assert(msg_is_sound(*m));
	if ((*m)->total < len)
		return NULL;
	msg_pass_empty(m);
	head = *m;
	if (head->len >= len)
		return head->data;
	if (!xk_msg_is_writable(head) || (size_t)(head->ceiling - head->data) < len) {
		head = msg_segment_new((*m)->platform);
		if (head == NULL)
			return NULL;
		if ((size_t)(head->ceiling - head->data) < len) {
			msg_segment_free(head);
			return NULL;
		}
		msg_carry_over(head, *m);
		(*m)->owner = NULL;
		head->next = *m;
	}
	missing = len - head->len;
	msg_gather(head->next, 0, head->data + head->len, missing);
	msg_consume_behind(head, missing);
	head->len = (uint32_t)len;
	*m = head;
	xk_debug_assert(msg_is_sound(head));
	return head->data;
}

void
xk_msg_truncate_segments(struct xk_msg *m, size_t len)
{
	struct xk_msg *last = m;
	size_t left = len;

	xk_debug_assert(msg_is_sound(m));
	for (; last->len < left; last = last->next)
		left -= last->len;
	last->len = (uint32_t)left;
	xk_msg_free(last->next);
	last->next = NULL;
	m->tail = last;
	m->total = (uint32_t)len;
	xk_debug_assert(msg_is_sound(m));
}

/* Returns the chain behind the first len bytes of segment: a view of the segment's rest, or what follows it. */
static struct xk_msg *
msg_cut(struct xk_msg *segment, size_t len)
{
	struct xk_msg *rest = segment->next;

	if (len == segment->len)
		return rest != NULL ? rest : msg_segment_new(segment->platform);
	rest = msg_view(segment, len, segment->len - len);
	if (rest == NULL)
		return NULL;
	rest->next = segment->next;
	segment->len = (uint32_t)len;
	return rest;
}

/* Neither part keeps the checksum flags, because the port verified the checksum of the whole. */
struct xk_msg *
xk_msg_split(struct xk_msg **m, size_t len)
{
	struct xk_msg *front = *m, *last = front, *rest;
	size_t left = len;

	msg_must_live(front, "splits");
	xk_assert(len <= front->total);
	xk_debug_assert(msg_is_sound(front));
	if (len == 0) {
		front = msg_segment_new(front->platform);
		if (front != NULL) {
			front->id = (*m)->id;
			front->flags = (*m)->flags & XK_MSG_TRACED;
		}
		return front;
	}
	for (; last->len < left; last = last->next)
		left -= last->len;
	rest = msg_cut(last, left);
	if (rest == NULL)
		return NULL;
	front->flags &= XK_MSG_TRACED;
	rest->owner = front->owner;
	msg_carry_trail(rest, front);
	rest->id = front->id;
	rest->flags = front->flags;
	rest->total = front->total - (uint32_t)len;
	rest->tail = front->tail == last ? rest : front->tail;
	front->total = (uint32_t)len;
	front->tail = last;
	last->next = NULL;
	*m = rest;
	xk_debug_assert(msg_is_sound(front) && msg_is_sound(rest));
	return front;
}

/* Clears the checksum flags: the port verified the checksum of a, not of the whole. */
void
xk_msg_join(struct xk_msg *a, struct xk_msg *b)
{
	xk_assert((size_t)a->total + b->total <= XK_MSG_MAX);
	xk_debug_assert(a->tail->next == NULL && b->tail->next == NULL);
	if (b->total == 0) {
		xk_msg_free(b);
		return;
	}
	b->owner = NULL;
	a->tail->next = b;
	a->tail = b->tail;
	a->total += b->total;
	a->flags &= XK_MSG_TRACED | XK_MSG_TO_ALL;
}

bool
xk_msg_copy_out(const struct xk_msg *m, size_t offset, void *bytes, size_t len)
{
	if (offset > m->total || len > m->total - offset)
		return false;
	msg_gather(m, offset, bytes, len);
	return true;
}

/* The bytes of a segment at an odd offset lie in the other half of each word: its sum is swapped (RFC 1071, 2 (B)). */
uint64_t
xk_msg_sum_segments(const struct xk_msg *m)
{
	uint64_t sum = xk_sum(0, m->data, m->len);
	bool odd = m->len & 1;

	for (const struct xk_msg *s = m->next; s != NULL; s = s->next) {
		if (odd)
			sum += __builtin_bswap16(xk_sum_fold(xk_sum(0, s->data, s->len)));
		else
			sum = xk_sum(sum, s->data, s->len);
		odd ^= s->len & 1;
	}
	return sum;
}
