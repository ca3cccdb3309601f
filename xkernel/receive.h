/*
 * receive.h - receives and sends messages by the declaration of a protocol's header (header.h).
 *
 *	XK_MESSAGES(llp, LLP_HEADER);
 *
 * defines llp_receive, a demux, and llp_send, a push: xk_receive_as and xk_send_as, compiled for that header. The type
 * has the flag XK_BY_FIELDS.
 *
 * Up, for a protocol with a table (table.h):
 *
 *   1. Unusual messages go to `slow_path` (upi.h), if there is one: broadcasts, and messages that differ from the usual
 *      ones in `rare` bits or in a fixed field. Without a `slow_path`, those that differ are validated as in 4, even if
 *      they have a session.
 *   2. Lengths are checked, bytes beyond them are cut off, and checksums of the header alone are verified.
 *   3. The session is looked up by the fields that name it and the session below, or by `key`.
 *   4. A stranger's message, which has no session, is validated (`validate`).
 *   5. Other checksums are verified.
 *   6. A stranger's session is made and announced if the number above or the local port is enabled; otherwise `refused`
 *      may inform the sender. A protocol with `stranger` does all that itself.
 *   7. The header is taken off, and the message popped to the session.
 *
 * Before 6, nothing is remembered about a stranger.
 *
 * Down: the header in the session's `sends` (upi.h) is put in front, and lengths, number and checksums are filled in.
 * The framework fills in `sends` from the fields before `setup`, which adds the rest. Messages too long for one piece
 * go to `divide`.
 *
 * Reasons to drop: XK_DROP_BAD_LENGTH, XK_DROP_BAD_CHECKSUM, XK_DROP_UNSUMMED, XK_DROP_TOO_BIG, and table.h's.
 */
#ifndef XK_RECEIVE_H
#define XK_RECEIVE_H

#include "xkernel/checksum.h"
#include "xkernel/protocol.h"
#include "xkernel/table.h"

/* The format as a constant, except in debug builds: these do not evaluate it, and would need kilobytes of stack. */
#if defined(__OPTIMIZE__) && !defined(XK_DEBUG) && !defined(__SANITIZE_ADDRESS__)
#define XK_FORMAT_IS_KNOWN
#define XK_KNOWN_FORMAT(prefix, protocol) prefix##_format()
#else
#define XK_KNOWN_FORMAT(prefix, protocol) (protocol)->format
#endif

#define XK_MESSAGES(prefix, LIST)                                                                                      \
	XK_FORMAT(prefix, LIST);                                                                                       \
	static void prefix##_receive(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)               \
	{                                                                                                              \
		const struct xk_format format = XK_KNOWN_FORMAT(prefix, self);                                         \
		xk_receive_as(&format, self, lls, m);                                                                  \
	}                                                                                                              \
	static int prefix##_send(struct xk_session *s, struct xk_msg *m)                                               \
	{                                                                                                              \
		const struct xk_format format = XK_KNOWN_FORMAT(prefix, s->protocol);                                  \
		return xk_send_as(&format, s, m);                                                                      \
	}                                                                                                              \
	static_assert(true, "")

/*
 * For `slow_path`: as llp_receive from step 2, or from step 3 if the header was checked and taken off, and lies in
 * front of m. Take m. A shepherd; may hand off.
 */
void xk_receive_usual(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m);
void xk_receive_checked(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m);

/*
 * Validates a stranger's m as steps 4 and 6 do, for a protocol that will keep it for a while. Its header was checked
 * and taken off, and lies in front of it. Returns false if m was taken: dropped, or handled by `validate`. A shepherd;
 * waits if `validate` or `refused` does.
 */
bool xk_receive_accept(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m);

/* Returns whether messages of s (NULL: no) may come up lls. Any context. */
static inline bool
xk_receive_is_from(const struct xk_session *s, const struct xk_session *lls)
{
	return s != NULL &&
	       (xk_likely(s->lls == lls) || atomic_load_explicit(&s->sends.from_any, memory_order_relaxed));
}

/*
 * Stores the sums of lls's pseudo-headers in both directions, without lengths. Returns 0, or lls's error if it has no
 * hosts (xk_control). Any context.
 */
int xk_sends_pseudo_sums(const struct xk_protocol *self, struct xk_session *lls, uint64_t *push_sum, uint64_t *pop_sum);

/* ---- the code of XK_MESSAGES ---- */

#define XK_RECEIVE_CODE __attribute__((always_inline)) static inline

/* Returns the length that the header at p claims for the whole message; `total` if it has no length. */
XK_RECEIVE_CODE size_t
xk_receive_length(const struct xk_format *format, const uint8_t *p, size_t total)
{
	if (format->length_len == 0)
		return total;
	return (format->length_len == 2 ? xk_get16(p + format->length_at) : xk_get32(p + format->length_at)) +
	       (size_t)format->length_base;
}

/* Returns the sum of a header of len bytes. */
XK_RECEIVE_CODE uint64_t
xk_header_sum(const uint8_t *p, size_t len)
{
	uint64_t sum = 0;

	if (len % 4 != 0)
		return xk_sum(0, p, len);

#pragma GCC unroll 8
	for (size_t i = 0; i < len; i += 4)
		sum += xk_sum_load32(p + i);
	return sum;
}

/* Returns whether the header at p has no checksum of its own, or a correct one, or one that the port verified. */
XK_RECEIVE_CODE bool
xk_receive_header_is_intact(const struct xk_format *format, const uint8_t *p, const struct xk_msg *m)
{
	return format->sum_covers != XK_COVERS_HEADER || (m->flags & XK_MSG_NETWORK_SUM_GOOD) != 0 ||
	       xk_sum_is_intact(xk_header_sum(p, format->len));
}

XK_RECEIVE_CODE struct xk_key
xk_receive_key_by_fields(const struct xk_format *format, const struct xk_session *lls, const uint8_t *p)
{
	uint64_t names = xk_window_load(&format->names[0], p);

	if (format->names[1].len != 0)
		return (struct xk_key){ names, xk_window_load(&format->names[1], p) };
	return (struct xk_key){ (uintptr_t)lls, names };
}

/* Returns the key of the session of a message with the header at p that comes up lls. Any context. */
static inline struct xk_key
xk_receive_key(struct xk_protocol *self, struct xk_session *lls, const uint8_t *p)
{
	if (self->ops->key != NULL)
		return self->ops->key(self, lls, p);
	return xk_receive_key_by_fields(&self->format, lls, p);
}

/* Returns the session that a usual message with the header at p would be popped to, or NULL. Has no effects. */
static inline struct xk_session *
xk_receive_find(struct xk_protocol *self, struct xk_session *lls, const uint8_t *p)
{
	struct xk_session *s = xk_table_find(self, xk_receive_key(self, lls, p));

	return xk_receive_is_from(s, lls) ? s : NULL;
}

/*
 * Returns the sum of the header in front of payload m and its pseudo-header, if it has a checksum still to be verified;
 * 0: it has none.
 */
XK_RECEIVE_CODE uint64_t
xk_receive_sum_headers(const struct xk_format *format, const struct xk_msg *m, uint64_t pseudo_sum)
{
	const uint8_t *p = m->data - format->len;

	if (format->sum_covers != XK_COVERS_PSEUDO ||
	    (format->sum_may_lack && xk_sum_load16(p + format->sum_at) == 0) ||
	    (m->flags & XK_MSG_TRANSPORT_SUM_GOOD) != 0)
		return 0;
	return pseudo_sum + xk_header_sum(p, format->len) + xk_sum_of16((uint16_t)(xk_msg_len(m) + format->len));
}

/* Pops payload m if its checksum is right; sum is that of the headers. Takes m. */
void xk_receive_pop_summed(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, uint64_t sum);
/* The same, for a session that only passes messages on. */
void xk_receive_pop_summed_on(struct xk_session *s, struct xk_msg *m, uint64_t sum);

/* Returns whether payload m, behind this header, is short enough to be summed here, and intact. */
XK_RECEIVE_CODE bool
xk_receive_is_intact_short(const struct xk_format *format, const struct xk_msg *m, uint64_t sum)
{
	return format->len >= XK_SUM_SHORT && xk_msg_len(m) < XK_SUM_SHORT && m->next == NULL &&
	       xk_sum_is_intact(sum + xk_sum_short(m->data, m->len));
}

/* Pops payload m, whose header lies in front of it, to s, if its checksum is right. Takes m. */
XK_RECEIVE_CODE void
xk_receive_pop(const struct xk_format *format, struct xk_session *s, struct xk_session *lls, struct xk_msg *m)
{
	uint64_t sum = xk_receive_sum_headers(format, m, s->sends.pop_sum);

	if (sum == 0 || xk_receive_is_intact_short(format, m, sum))
		xk_pop(s, lls, m, NULL);
	else
		xk_receive_pop_summed(s, lls, m, sum);
}

/*
 * Checks the length and the header's own checksum of m, whose header is in one piece, and cuts off the bytes beyond the
 * length. Returns 0, or the reason to drop m. m stays the caller's. Any context; never waits.
 */
XK_RECEIVE_CODE unsigned
xk_receive_check(const struct xk_format *format, struct xk_msg *m)
{
	size_t length = xk_receive_length(format, m->data, xk_msg_len(m));

	if (length < format->len || length > xk_msg_len(m))
		return XK_DROP_BAD_LENGTH;
	if (!xk_receive_header_is_intact(format, m->data, m))
		return XK_DROP_BAD_CHECKSUM;
	xk_msg_truncate(m, length);
	return XK_DROP_NONE;
}

/* Handles m, which is unusual or was broadcast. Takes m. */
void xk_receive_slow(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m);

/* Saves no registers, because everything that makes calls is in functions of its own. */
XK_RECEIVE_CODE void
xk_receive_as(const struct xk_format *format, struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	const uint8_t *p = m->data;
	size_t length = xk_receive_length(format, p, xk_msg_len(m));
	struct xk_session *s;

	if (xk_unlikely(!xk_format_is_usual(format, &self->format, p) || (m->flags & XK_MSG_TO_ALL) != 0)) {
		xk_receive_slow(self, lls, m);
		return;
	}
	if (xk_unlikely(
		    (length != xk_msg_len(m) && (length > xk_msg_len(m) || length < format->len || m->next != NULL)) ||
		    !xk_receive_header_is_intact(format, p, m))) {
		xk_receive_usual(self, lls, m);
		return;
	}
	/* with two windows, `key` differs from the fields' key only if the session does not accept messages from lls */
	s = format->names[1].len == 0 && self->ops->key != NULL
		    ? NULL
		    : xk_table_last(self, xk_receive_key_by_fields(format, lls, p));
	if (xk_unlikely(!xk_receive_is_from(s, lls))) {
		xk_receive_usual(self, lls, m);
		return;
	}
	if (xk_unlikely(length != xk_msg_len(m)))
		xk_msg_cut_in_place(m, length);
	xk_msg_pop_in_place(m, format->len);
	xk_receive_pop(format, s, lls, m);
}

/* Copies a header of len bytes, in pieces that may overlap. */
XK_RECEIVE_CODE void
xk_send_copy(uint8_t *to, const uint8_t *from, size_t len)
{
	if (len >= 16) { /* 24 at most */
		memcpy(to, from, 16);
		memcpy(to + len - 8, from + len - 8, 8);
	} else if (len >= 8) {
		memcpy(to, from, 8);
		memcpy(to + len - 8, from + len - 8, 8);
	} else if (len >= 4) {
		memcpy(to, from, 4);
		memcpy(to + len - 4, from + len - 4, 4);
	} else {
		memcpy(to, from, len);
	}
}

/* Returns what a field at byte `at` adds to a checksum; `sum` is what it would add at an even byte (RFC 1071, 2). */
XK_RECEIVE_CODE uint64_t
xk_send_sum_at(uint8_t at, uint64_t sum)
{
	return at % 2 == 0 ? sum : sum << 8;
}

/*
 * Fills in what differs between messages in the header at p: the length (`length` bytes from p on), the number (*next)
 * and the checksum. `fixed` is the sum of what is the same in each message, `sum` that of the payload; sums and
 * offloads are as in struct xk_sends.
 */
XK_RECEIVE_CODE void
xk_send_fill(const struct xk_format *format, uint8_t *p, size_t length, _Atomic uint16_t *next, uint64_t fixed,
	     bool sums, uint64_t sum, bool offloads)
{
	size_t claimed = length - format->length_base;
	bool covers_header = format->sum_covers == XK_COVERS_HEADER, is_summed = covers_header || sums;
	uint16_t number, checksum;

	if (format->length_len == 2) {
		xk_put16(p + format->length_at, (uint16_t)claimed);
		fixed += is_summed ? xk_send_sum_at(format->length_at, xk_sum_of16((uint16_t)claimed)) : 0;
	} else if (format->length_len != 0) {
		xk_put32(p + format->length_at, (uint32_t)claimed);
		fixed += is_summed ? xk_send_sum_at(format->length_at, xk_sum_of32((uint32_t)claimed)) : 0;
	}
	if (format->number_step != 0) {
		/* two shepherds may get the same number, which costs less than an atomic addition */
		number = atomic_load_explicit(next, memory_order_relaxed);
		atomic_store_explicit(next, (uint16_t)(number + format->number_step), memory_order_relaxed);
		xk_put16(p + format->number_at, number);
		fixed += is_summed ? xk_send_sum_at(format->number_at, xk_sum_of16(number)) : 0;
	}
	if (covers_header) {
		xk_checksum_store(p + format->sum_at, xk_checksum_finish(fixed));
	} else if (format->sum_covers == XK_COVERS_PSEUDO && sums) {
		checksum = xk_checksum_finish(fixed + xk_sum_of16((uint16_t)length) + sum);
		if (checksum == 0) /* 0 would mean no checksum */
			checksum = 0xffff;
		xk_checksum_store(p + format->sum_at, checksum);
	} else if (format->sum_covers == XK_COVERS_PSEUDO && offloads) {
		xk_checksum_store(p + format->sum_at, xk_sum_fold(fixed + xk_sum_of16((uint16_t)length)));
	}
}

/* Returns the sum of what is the same in each message of a session, as xk_send_fill needs it. */
XK_RECEIVE_CODE uint64_t
xk_send_fixed(const struct xk_format *format, const struct xk_sends *sends, bool sums)
{
	return format->sum_covers == XK_COVERS_HEADER ? sends->header_sum
						      : sends->push_sum + (sums ? sends->header_sum : 0);
}

/* Puts the header in front of m and pushes it. `sum` is the payload's sum, if `sums`. Takes m. */
XK_RECEIVE_CODE int
xk_send_header_as(const struct xk_format *format, struct xk_session *s, struct xk_msg *m, bool sums, uint64_t sum,
		  bool offloads)
{
	m = xk_push_header(s, m, format->len);
	if (xk_unlikely(m == NULL))
		return -ENOBUFS;
	xk_send_copy(m->data, s->sends.header, format->len);
	xk_send_fill(format, m->data, xk_msg_len(m), &s->sends.number, xk_send_fixed(format, &s->sends, sums), sums,
		     sum, offloads);
	return xk_push(s->lls, m);
}

/*
 * Pushes m, too long for one piece or at all, or with a checksum that the port completes if it fits a frame. Takes m.
 */
int xk_send_slow(struct xk_session *s, struct xk_msg *m);

XK_RECEIVE_CODE int
xk_send_as(const struct xk_format *format, struct xk_session *s, struct xk_msg *m)
{
	const struct xk_sends *sends = &s->sends;
	bool has_sum = format->sum_covers == XK_COVERS_PSEUDO;

	if (xk_unlikely(xk_msg_len(m) > atomic_load_explicit(&sends->whole, memory_order_relaxed) ||
			(has_sum && !sends->sums)))
		return xk_send_slow(s, m);
	return xk_send_header_as(format, s, m, has_sum, has_sum ? xk_msg_sum(m) : 0, false);
}

#endif
