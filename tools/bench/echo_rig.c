/* echo_rig.c - see echo_rig.h. */
#include "tools/bench/echo_rig.h"

enum {
	RIG_PATIENCE = 1 << 22,   /* calls without an echo until the rig gives up: some tenths of a second */
	RIG_COST_ROUNDS = 200000, /* constant, so that counts of instructions can be subtracted */
};

void
echo_rig_init(struct echo_rig *rig, const struct echo_end *server, uint32_t size)
{
	xk_assert(rig->sessions >= 1 && rig->sessions <= ECHO_FRAME_MAX_PEERS - rig->first);
	xk_assert(rig->burst >= 1 && rig->burst <= ECHO_RIG_BURST && rig->rounds >= 1);
	echo_frames_init(&rig->frames, server, size);
	rig->frames.neighbours = rig->neighbours;
	rig->random = UINT64_C(0x9e3779b97f4a7c15);
	batches_init(&rig->batches, rig->sessions + ECHO_RIG_WARM_UP, rig->rounds);
	rig->batches.counting = rig->counting;
	rig->batches.context = rig->context;
	rig->made = 0;
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
	rig->wrong_round = rig->batches.done;
	if (rig->finished != NULL)
		rig->finished(rig->context);
}

/* Uses xorshift64 (Marsaglia 2003), which is uniform enough among a million peers. */
static uint32_t
rig_next_peer(struct echo_rig *rig)
{
	if (rig->made < rig->sessions)
		return rig->first + (uint32_t)rig->made;
	rig->random ^= rig->random << 13;
	rig->random ^= rig->random >> 7;
	rig->random ^= rig->random << 17;
	return rig->first + (uint32_t)((rig->random >> 32) * rig->sessions >> 32);
}

/* Returns the buffer of the previous echo if nothing else holds it, otherwise a new one, or NULL if none is left. */
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

/* Creates a request in several pieces. Returns false if no buffer was left. */
XK_APART static bool
rig_write_pieces(struct echo_rig *rig, uint32_t peer, struct xk_msg **frames)
{
	for (uint32_t i = 0; i < rig->frames.pieces; i++) {
		frames[i] = rig_frame(rig, rig->frames.piece[i].len);
		if (frames[i] == NULL) {
			while (i-- > 0)
				xk_msg_free(frames[i]);
			return false;
		}
		echo_frame_write_piece(&rig->frames, peer, i, (uint16_t)rig->made, frames[i]->data);
	}
	return true;
}

unsigned
echo_rig_receive(void *context, struct xk_msg **frames, unsigned max)
{
	struct echo_rig *rig = context;
	unsigned count = 0, pieces = rig->frames.pieces;

	if (xk_unlikely(rig->pending_count != 0 || rig->done)) {
		if (++rig->silent == RIG_PATIENCE)
			rig_finish(rig, "no echo arrived");
		return 0;
	}
	rig->silent = 0;
	rig->pending_first = 0;
	while (count + pieces <= max && rig->pending_count < rig->burst && rig->made < rig->batches.end) {
		uint32_t peer = rig_next_peer(rig);
		bool made;

		if (xk_likely(pieces == 1)) {
			frames[count] = rig_frame(rig, rig->frames.len);
			made = frames[count] != NULL;
			if (xk_likely(made))
				echo_frame_write(&rig->frames, peer, frames[count]->data);
		} else {
			made = rig_write_pieces(rig, peer, frames + count);
		}
		if (xk_unlikely(!made)) {
			rig_finish(rig, "no buffer was left");
			break;
		}
		rig->made++;
		rig->pending[rig->pending_count++] = peer;
		count += pieces;
	}
	return count;
}

/*
 * Checks the next piece of a peer's echo, in any segments: everything in each peer's first echo. Returns NULL, or the
 * part that is wrong.
 */
XK_APART static const char *
rig_check(struct echo_rig *rig, uint32_t peer, const struct xk_msg *m)
{
	uint8_t bytes[sizeof(rig->frames.piece[0].template)];
	bool is_first = rig->batches.done < rig->sessions;
	size_t len = xk_msg_len(m), checked = is_first || len < ECHO_FRAME_HEADERS ? len : ECHO_FRAME_HEADERS;

	if (rig->alone)
		return NULL;
	if (len != rig->frames.piece[rig->piece].len)
		return "its length";
	xk_msg_copy_first(m, bytes, checked);
	if (is_first)
		return echo_frame_check_piece(&rig->frames, peer, rig->piece, bytes, len, &rig->sum);
	return echo_frame_is_echo(&rig->frames, peer, rig->piece, bytes, len) ? NULL
									      : "an address, a port or an offset";
}

static void
rig_take(struct echo_rig *rig, const struct xk_msg *m)
{
	const char *wrong = NULL;
	uint32_t peer;

	if (xk_unlikely(rig->pending_count == 0)) {
		rig_finish(rig, "a frame arrived that answers no request");
		return;
	}
	peer = rig->pending[rig->pending_first];
	if (xk_unlikely(rig->batches.done < rig->sessions || rig->piece != 0 || m->len < ECHO_FRAME_HEADERS ||
			(!echo_frame_is_echo(&rig->frames, peer, 0, m->data, xk_msg_len(m)) && !rig->alone)))
		wrong = rig_check(rig, peer, m);
	if (xk_unlikely(wrong != NULL))
		rig_finish(rig, wrong);
	if (xk_unlikely(rig->frames.pieces > 1) && ++rig->piece < rig->frames.pieces)
		return;
	rig->piece = 0;
	rig->pending_first++;
	rig->pending_count--;
	if (!batches_count(&rig->batches))
		rig_finish(rig, NULL);
}

unsigned
echo_rig_transmit(void *context, struct xk_msg **frames, unsigned count)
{
	struct echo_rig *rig = context;

	for (unsigned i = 0; i < count; i++) {
		rig_take(rig, frames[i]);
		frames[i]->link = rig->spares;
		rig->spares = frames[i];
	}
	while (xk_unlikely(rig->done) && rig->spares != NULL) {
		struct xk_msg *m = rig->spares;

		rig->spares = m->link;
		xk_msg_free(m);
	}
	return count;
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
				.first = like->first,
				.sessions = like->sessions,
				.neighbours = like->neighbours,
				.burst = like->burst,
				.rounds = RIG_COST_ROUNDS,
				.alone = true };

	echo_rig_init(&rig, &nobody, size);
	echo_rig_alone(&rig);
	return batches_median_ns(&rig.batches);
}
