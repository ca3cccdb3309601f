/* echo_rig.c - see echo_rig.h. */
#include "tools/bench/echo_rig.h"

#include <stdlib.h>
#include <time.h>

/* Asked so often without an echo, the rig gives up: some tenths of a second. */
enum { RIG_PATIENCE = 1 << 22 };

/* Rounds in which the rig measures itself: always as many, so that counts of instructions can be subtracted. */
enum { RIG_COST_ROUNDS = 200000 };

static uint64_t
rig_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void
echo_rig_init(struct echo_rig *rig, const struct echo_end *server, uint32_t size)
{
	xk_assert(rig->sessions >= 1 && rig->sessions <= ECHO_FRAME_MAX_PEERS);
	xk_assert(rig->burst >= 1 && rig->burst <= ECHO_RIG_BURST && rig->rounds >= 1);
	echo_frames_init(&rig->frames, server, size);
	rig->frames.neighbours = rig->neighbours;
	rig->random = UINT64_C(0x9e3779b97f4a7c15);
	rig->counted_from = rig->sessions + ECHO_RIG_WARM_UP;
	rig->end = rig->counted_from + rig->rounds;
	rig->batch = (rig->rounds + ECHO_RIG_BATCHES - 1) / ECHO_RIG_BATCHES;
	rig->batch_end = rig->counted_from;
	rig->batch_count = 0;
	rig->made = rig->checked = 0;
	rig->pending_count = rig->pending_first = rig->silent = rig->piece = 0;
	rig->done = false;
	rig->wrong = NULL;
}

static void
rig_finish(struct echo_rig *rig, const char *wrong)
{
	if (rig->done)
		return;
	rig->done = true;
	rig->wrong = wrong;
	rig->wrong_round = rig->checked;
	if (rig->finished != NULL)
		rig->finished(rig->context);
}

/* xorshift64: Marsaglia (2003); uniform enough among a million peers. */
static uint32_t
rig_next_peer(struct echo_rig *rig)
{
	if (rig->made < rig->sessions)
		return (uint32_t)rig->made;
	rig->random ^= rig->random << 13;
	rig->random ^= rig->random >> 7;
	rig->random ^= rig->random << 17;
	return (uint32_t)((rig->random >> 32) * rig->sessions >> 32);
}

/* The buffer of the echo before, if nobody else has it; otherwise a fresh one: for len bytes. NULL: none is left. */
static inline struct xk_msg *
rig_frame(struct echo_rig *rig, uint32_t len)
{
	struct xk_msg *m = rig->spares;

	if (xk_unlikely(m == NULL))
		return xk_msg_new(rig->platform, len);
	rig->spares = m->link;
	if (xk_unlikely(m->next != NULL || !xk_msg_is_writable(m))) {
		xk_msg_free(m);
		return xk_msg_new(rig->platform, len);
	}
	m->data = m->floor + XK_MSG_HEADROOM;
	m->len = m->total = len;
	m->flags = 0;
	return m;
}

/* The pieces of one request. How many; 0: no buffer was left. */
__attribute__((noinline)) static unsigned
rig_make_pieces(struct echo_rig *rig, struct xk_msg **frames)
{
	uint32_t peer = rig_next_peer(rig);

	for (uint32_t i = 0; i < rig->frames.pieces; i++) {
		frames[i] = rig_frame(rig, echo_frame_piece_len(&rig->frames, i));
		if (frames[i] == NULL) {
			while (i-- > 0)
				xk_msg_free(frames[i]);
			rig_finish(rig, "no buffer was left");
			return 0;
		}
		echo_frame_write_piece(&rig->frames, peer, i, (uint16_t)rig->made, frames[i]->data);
	}
	rig->made++;
	rig->pending[rig->pending_count++] = peer;
	return rig->frames.pieces;
}

__attribute__((noinline)) static unsigned
rig_receive_pieces(struct echo_rig *rig, struct xk_msg **frames, unsigned max)
{
	unsigned count = 0, made = 1;

	while (made > 0 && rig->pending_count < rig->burst && rig->made < rig->end &&
	       max - count >= rig->frames.pieces) {
		made = rig_make_pieces(rig, frames + count);
		count += made;
	}
	return count;
}

unsigned
echo_rig_receive(void *context, struct xk_msg **frames, unsigned max)
{
	struct echo_rig *rig = context;
	unsigned count = 0;

	if (xk_unlikely(rig->pending_count != 0 || rig->done)) {
		if (++rig->silent == RIG_PATIENCE)
			rig_finish(rig, "no echo came");
		return 0;
	}
	rig->silent = 0;
	rig->pending_first = 0;
	if (xk_unlikely(rig->frames.pieces > 1))
		return rig_receive_pieces(rig, frames, max);
	for (; count < max && count < rig->burst && rig->made < rig->end; count++) {
		struct xk_msg *m = rig_frame(rig, rig->frames.len);
		uint32_t peer = rig_next_peer(rig);

		if (m == NULL) {
			rig_finish(rig, "no buffer was left");
			break;
		}
		echo_frame_write(&rig->frames, peer, m->data);
		rig->made++;
		rig->pending[rig->pending_count++] = peer;
		frames[count] = m;
	}
	return count;
}

static void
rig_free_spares(struct echo_rig *rig)
{
	while (rig->spares != NULL) {
		struct xk_msg *m = rig->spares;

		rig->spares = m->link;
		xk_msg_free(m);
	}
}

/* The last echo of a batch has come; the first batch begins where the rounds begin to count. */
static void
rig_end_batch(struct echo_rig *rig)
{
	uint64_t now_ns = rig_now_ns();

	if (rig->checked == rig->counted_from) {
		if (rig->counting != NULL)
			rig->counting(rig->context);
		now_ns = rig_now_ns();
	} else {
		rig->batches[rig->batch_count++] = (double)(now_ns - rig->batch_began_ns) / (double)rig->batch;
	}
	rig->batch_began_ns = now_ns;
	rig->batch_end += rig->batch;
	if (rig->checked == rig->end)
		rig_finish(rig, NULL);
	else if (rig->batch_end > rig->end)
		rig->batch_end = rig->end;
}

/* What is wrong with a checked run's echo, in whatever segments it comes. */
static const char *
rig_check(const struct echo_rig *rig, uint32_t peer, const struct xk_msg *m)
{
	uint8_t bytes[sizeof(rig->frames.template)];

	if (rig->alone)
		return NULL;
	if (!xk_msg_copy_out(m, 0, bytes, rig->frames.len))
		return "its length";
	return echo_frame_check(&rig->frames, peer, bytes, xk_msg_len(m));
}

static void
rig_take(struct echo_rig *rig, const struct xk_msg *m)
{
	uint32_t peer;

	if (xk_unlikely(rig->pending_count == 0)) {
		rig_finish(rig, "a frame came that no request had asked for");
		return;
	}
	peer = rig->pending[rig->pending_first++];
	rig->pending_count--;
	if (xk_unlikely(rig->checked < rig->sessions)) {
		const char *wrong = rig_check(rig, peer, m);

		if (wrong != NULL)
			rig_finish(rig, wrong);
	} else if (xk_unlikely(m->len < ECHO_FRAME_HEADERS ||
			       (!echo_frame_is_echo(&rig->frames, peer, m->data, xk_msg_len(m)) && !rig->alone))) {
		rig_finish(rig, "its length, an address or a port");
	}
	if (++rig->checked == rig->batch_end)
		rig_end_batch(rig);
}

/* What is wrong with the next piece of a peer's echo. */
static const char *
rig_check_piece(struct echo_rig *rig, uint32_t peer, const struct xk_msg *m)
{
	uint8_t bytes[sizeof(rig->frames.template)];
	size_t checked = xk_msg_len(m);

	if (rig->alone)
		return NULL;
	if (rig->checked >= rig->sessions && checked > ECHO_FRAME_HEADERS)
		checked = ECHO_FRAME_HEADERS;
	if (xk_msg_len(m) != echo_frame_piece_len(&rig->frames, rig->piece))
		return "the length of a piece";
	xk_msg_copy_first(m, bytes, checked);
	if (rig->checked < rig->sessions)
		return echo_frame_check_piece(&rig->frames, peer, rig->piece, bytes, checked, &rig->sum);
	return echo_frame_is_piece(&rig->frames, peer, rig->piece, bytes, xk_msg_len(m)) ? NULL : "a piece's header";
}

/* As rig_take, of a message that comes in pieces. */
__attribute__((noinline)) static void
rig_take_piece(struct echo_rig *rig, const struct xk_msg *m)
{
	const char *wrong;

	if (rig->pending_count == 0) {
		rig_finish(rig, "a frame came that no request had asked for");
		return;
	}
	wrong = rig_check_piece(rig, rig->pending[rig->pending_first], m);
	if (wrong != NULL)
		rig_finish(rig, wrong);
	if (++rig->piece < rig->frames.pieces)
		return;
	rig->piece = 0;
	rig->pending_first++;
	rig->pending_count--;
	if (++rig->checked == rig->batch_end)
		rig_end_batch(rig);
}

unsigned
echo_rig_transmit(void *context, struct xk_msg **frames, unsigned count)
{
	struct echo_rig *rig = context;

	for (unsigned i = 0; i < count; i++) {
		if (xk_likely(rig->frames.pieces == 1))
			rig_take(rig, frames[i]);
		else
			rig_take_piece(rig, frames[i]);
		frames[i]->link = rig->spares;
		rig->spares = frames[i];
	}
	if (xk_unlikely(rig->done))
		rig_free_spares(rig);
	return count;
}

static int
rig_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double
echo_rig_median_ns(struct echo_rig *rig)
{
	qsort(rig->batches, rig->batch_count, sizeof(rig->batches[0]), rig_compare);
	return rig->batch_count == 0 ? 0 : rig->batches[rig->batch_count / 2];
}

void
echo_rig_alone(struct echo_rig *rig)
{
	struct xk_msg *frames[ECHO_RIG_BURST];

	while (!rig->done)
		echo_rig_transmit(rig, frames, echo_rig_receive(rig, frames, ECHO_RIG_BURST));
}

double
echo_rig_cost_ns(const struct echo_rig *like, uint32_t size)
{
	static const struct echo_end nobody;
	struct echo_rig rig = { .platform = like->platform,
				.sessions = like->sessions,
				.neighbours = like->neighbours,
				.burst = like->burst,
				.rounds = RIG_COST_ROUNDS,
				.alone = true };

	echo_rig_init(&rig, &nobody, size);
	echo_rig_alone(&rig);
	return echo_rig_median_ns(&rig);
}
