/* test_fused.c - the hand-fused echo and the frames that measure it: it answers valid frames and no others. */

#include "experiments/floors/fused.h"
#include "platform/sim/memory.h"
#include "tests/test.h"
#include "tools/bench/echo_rig.h"

static const struct echo_end server = { UINT64_C(0x020000000001), 0x0a000002, 2001 };

struct bench {
	struct xk_platform *platform;
	struct fused_host host;
	struct echo_frames frames;
};

static struct bench *
bench_new(uint32_t size)
{
	struct bench *b = calloc(1, sizeof(*b));

	REQUIRE(b != NULL);
	b->platform = xk_memory_platform_new(XK_MEMORY_VIRTUAL);
	REQUIRE(b->platform != NULL);
	b->host = (struct fused_host){ .link = server.link, .address = server.address, .port = server.port };
	echo_frames_init(&b->frames, &server, size);
	return b;
}

static void
bench_free(struct bench *b)
{
	xk_memory_platform_free(b->platform);
	free(b);
}

/* Makes the request of a peer in a buffer that ends with it. */
static struct xk_msg *
bench_request(struct bench *b, uint32_t peer)
{
	struct xk_msg *m = xk_memory_frame(b->platform, b->frames.len);

	REQUIRE(m != NULL);
	echo_frame_write(&b->frames, peer, m->data);
	return m;
}

TEST(every_size_and_peer_is_echoed)
{
	for (uint32_t size = 1; size <= ECHO_FRAME_MAX_SIZE; size += 1 + size / 7) {
		struct bench *b = bench_new(size);

		for (uint32_t peer = 0; peer < ECHO_FRAME_MAX_PEERS; peer += 65521) {
			struct xk_msg *m = bench_request(b, peer);

			CHECK(fused_echo(&b->host, m));
			CHECK(echo_frame_check(&b->frames, peer, m->data, m->len) == NULL);
			CHECK(echo_frame_is_echo(&b->frames, peer, 0, m->data, m->len));
			CHECK(!echo_frame_is_echo(&b->frames, peer + 1, 0, m->data, m->len));
			xk_msg_free(m);
		}
		bench_free(b);
	}
}

TEST_WITH(padding_is_cut_off, struct bench *b, bench_new(1), bench_free)
{
	struct xk_msg *m = xk_memory_frame(b->platform, 60);

	REQUIRE(m != NULL);
	memset(m->data, 0xee, 60);
	echo_frame_write(&b->frames, 5, m->data);
	CHECK(fused_echo(&b->host, m));
	CHECK(echo_frame_check(&b->frames, 5, m->data, xk_msg_len(m)) == NULL);
	xk_msg_free(m);
}

TEST_WITH(every_truncation_is_refused, struct bench *b, bench_new(8), bench_free)
{
	for (uint32_t len = 0; len < b->frames.len; len++) {
		struct xk_msg *m = xk_memory_frame(b->platform, len);
		uint8_t whole[ECHO_FRAME_HEADERS + 8];

		REQUIRE(m != NULL);
		echo_frame_write(&b->frames, 5, whole);
		memcpy(m->data, whole, len);
		CHECK(!fused_echo(&b->host, m));
		xk_msg_free(m);
	}
}

/* No check covers the source link address (but its group bit). */
TEST_WITH(every_wrong_bit_is_refused, struct bench *b, bench_new(4), bench_free)
{
	for (uint32_t bit = 0; bit < 8 * b->frames.len; bit++) {
		struct xk_msg *m = bench_request(b, 5);
		bool free_bit = bit / 8 >= 6 && bit / 8 < 12 && bit != 6 * 8;

		m->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		CHECK_EQ(fused_echo(&b->host, m), free_bit);
		xk_msg_free(m);
	}
}

TEST_WITH(wrong_echo_is_detected, struct bench *b, bench_new(4), bench_free)
{
	for (uint32_t bit = 0; bit < 8 * b->frames.len; bit++) {
		struct xk_msg *m = bench_request(b, 5);

		REQUIRE(fused_echo(&b->host, m));
		m->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		CHECK(echo_frame_check(&b->frames, 5, m->data, m->len) != NULL);
		xk_msg_free(m);
	}
}

/* A rig must report a port that returns nothing, or the wrong frame. */
TEST_WITH(rig_reports_a_missing_echo, struct bench *b, bench_new(1), bench_free)
{
	struct echo_rig *rig = calloc(1, sizeof(*rig));
	struct xk_msg *frames[ECHO_RIG_BURST];

	REQUIRE(rig != NULL);
	*rig = (struct echo_rig){ .platform = b->platform, .sessions = 2, .burst = 1, .rounds = 10 };
	echo_rig_init(rig, &server, 1);
	REQUIRE(echo_rig_receive(rig, frames, ECHO_RIG_BURST) == 1);
	xk_msg_free(frames[0]);
	while (!rig->done)
		CHECK_EQ(echo_rig_receive(rig, frames, ECHO_RIG_BURST), 0);
	CHECK_STR(rig->wrong, "no echo arrived");

	echo_rig_init(rig, &server, 1);
	REQUIRE(echo_rig_receive(rig, frames, ECHO_RIG_BURST) == 1);
	CHECK_EQ(echo_rig_transmit(rig, frames, 1), 1);
	CHECK(rig->done && rig->wrong != NULL);
	free(rig);
}

TEST_WITH(rig_counts_its_rounds, struct bench *b, bench_new(1), bench_free)
{
	struct echo_rig *rig = calloc(1, sizeof(*rig));
	struct xk_msg *frames[ECHO_RIG_BURST];
	uint64_t echoes = 0;

	REQUIRE(rig != NULL);
	*rig = (struct echo_rig){ .platform = b->platform, .sessions = 100, .burst = 7, .rounds = 1000 };
	echo_rig_init(rig, &server, 1);
	while (!rig->done) {
		unsigned count = echo_rig_receive(rig, frames, ECHO_RIG_BURST);

		for (unsigned i = 0; i < count; i++)
			CHECK(fused_echo(&b->host, frames[i]));
		echoes += count;
		echo_rig_transmit(rig, frames, count);
	}
	CHECK(rig->wrong == NULL);
	CHECK_EQ(echoes, 100 + ECHO_RIG_WARM_UP + 1000);
	CHECK(batches_median_ns(&rig->batches) > 0);
	free(rig);
}

/* ---- pieces ---- */

/* Each size leaves one byte or more in its last piece. */
static const uint32_t sizes_in_pieces[] = { 1473, 2952, 2953, 4000, ECHO_FRAME_MAX_MESSAGE };

static void
bench_request_pieces(struct bench *b, uint32_t peer, struct xk_msg **m)
{
	for (uint32_t i = 0; i < b->frames.pieces; i++) {
		m[i] = xk_memory_frame(b->platform, b->frames.piece[i].len);
		REQUIRE(m[i] != NULL);
		echo_frame_write_piece(&b->frames, peer, i, 0x1234, m[i]->data);
	}
}

/* Returns the fault in all pieces of an echo. */
static const char *
bench_check_pieces(struct bench *b, uint32_t peer, struct xk_msg *const *m)
{
	const char *wrong = NULL;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < b->frames.pieces && wrong == NULL; i++)
		wrong = echo_frame_check_piece(&b->frames, peer, i, m[i]->data, xk_msg_len(m[i]), &sum);
	return wrong;
}

static void
bench_free_pieces(struct bench *b, struct xk_msg *const *m)
{
	for (uint32_t i = 0; i < b->frames.pieces; i++)
		xk_msg_free(m[i]);
}

TEST(messages_in_pieces_are_echoed)
{
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(sizes_in_pieces); i++) {
		struct bench *b = bench_new(sizes_in_pieces[i]);
		struct xk_msg *m[ECHO_FRAME_MAX_PIECES], *swapped[ECHO_FRAME_MAX_PIECES];

		CHECK_EQ(b->frames.pieces, i < 2 ? 2 : 3);
		bench_request_pieces(b, 70000, m);
		CHECK(bench_check_pieces(b, 70000, m) != NULL);
		memcpy(swapped, m, sizeof(m));
		swapped[0] = m[1];
		swapped[1] = m[0];
		CHECK(!fused_echo_pieces(&b->host, swapped, b->frames.pieces));
		CHECK(!fused_echo_pieces(&b->host, m, b->frames.pieces - 1));
		CHECK(fused_echo_pieces(&b->host, m, b->frames.pieces));
		CHECK(bench_check_pieces(b, 70000, m) == NULL);
		CHECK(bench_check_pieces(b, 70001, m) != NULL);
		bench_free_pieces(b, m);
		bench_free(b);
	}
}

/* Every bit of every piece, including its identification, which must be the other pieces'. */
TEST_WITH(every_wrong_bit_of_a_piece_is_refused, struct bench *b, bench_new(1480), bench_free)
{
	for (uint32_t piece = 0; piece < 2; piece++)
		for (uint32_t bit = 0; bit < 8 * b->frames.piece[piece].len; bit++) {
			struct xk_msg *m[ECHO_FRAME_MAX_PIECES];

			bench_request_pieces(b, 5, m);
			m[piece]->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
			CHECK(!fused_echo_pieces(&b->host, m, 2));
			bench_free_pieces(b, m);
		}
}

TEST_WITH(wrong_bit_in_a_pieces_echo_is_detected, struct bench *b, bench_new(1480), bench_free)
{
	struct xk_msg *m[ECHO_FRAME_MAX_PIECES];

	bench_request_pieces(b, 5, m);
	REQUIRE(fused_echo_pieces(&b->host, m, 2));
	for (uint32_t piece = 0; piece < 2; piece++)
		for (uint32_t bit = 0; bit < 8 * b->frames.piece[piece].len; bit++) {
			m[piece]->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
			CHECK(bench_check_pieces(b, 5, m) != NULL);
			m[piece]->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
	CHECK(bench_check_pieces(b, 5, m) == NULL);
	bench_free_pieces(b, m);
}

TEST_WITH(rig_accepts_pieces, struct bench *b, bench_new(4000), bench_free)
{
	struct echo_rig *rig = calloc(1, sizeof(*rig));
	struct xk_msg *frames[ECHO_RIG_BURST];

	REQUIRE(rig != NULL);
	*rig = (struct echo_rig){ .platform = b->platform, .sessions = 9, .burst = ECHO_RIG_BURST, .rounds = 100 };
	echo_rig_init(rig, &server, 4000);
	while (!rig->done) {
		unsigned count = echo_rig_receive(rig, frames, ECHO_RIG_BURST);

		CHECK(count > 0 && count % 3 == 0);
		for (unsigned i = 0; i < count; i += 3)
			CHECK(fused_echo_pieces(&b->host, frames + i, 3));
		echo_rig_transmit(rig, frames, count);
	}
	CHECK(rig->wrong == NULL);
	echo_rig_init(rig, &server, 4000);
	REQUIRE(echo_rig_receive(rig, frames, 3) == 3);
	CHECK_EQ(echo_rig_transmit(rig, frames, 3), 3);
	CHECK(rig->done && rig->wrong != NULL);
	free(rig);
}
