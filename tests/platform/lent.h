/* lent.h - for tests of platforms: rules of lent bytes (xk_msg_lend) that each platform must keep. */
#ifndef TESTS_LENT_H
#define TESTS_LENT_H

#include <pthread.h>

#include "tests/test.h"
#include "xkernel/platform.h"

enum { LENT_LONG = 200000 };

/* The callback of a loan; counts its calls in context. */
static inline void
lent_ended(void *context)
{
	atomic_fetch_add((_Atomic unsigned *)context, 1);
}

static inline bool
lent_is(const struct xk_msg *m, const char *words)
{
	char bytes[64];

	return m != NULL && xk_msg_len(m) == strlen(words) && xk_msg_copy_out(m, 0, bytes, xk_msg_len(m)) &&
	       memcmp(bytes, words, strlen(words)) == 0;
}

/* Checks that no operation on a message writes to lent bytes. */
static inline void
check_lent_bytes_stay(struct xk_platform *platform)
{
	static const char words[] = "lent words";
	_Atomic unsigned ended = 0;
	struct xk_msg *m = xk_msg_lend(platform, words, 10, lent_ended, &ended), *copy;

	REQUIRE(m != NULL);
	CHECK(m->data == (const uint8_t *)words && lent_is(m, "lent words"));
	CHECK(m->len == 10 && m->next == NULL && m->tail == m && m->id == 0 && m->flags == 0 && m->owner == NULL);
	CHECK(!xk_msg_is_writable(m));
	memcpy(xk_msg_push(&m, 5), "head ", 5);
	CHECK(m->next != NULL && xk_msg_is_writable(m));
	memcpy(xk_msg_push(&m, 5), "more ", 5); /* into the first header's buffer */
	CHECK(m->next->next == NULL && lent_is(m, "more head lent words"));
	CHECK(xk_msg_pop(&m, 15) != NULL); /* the last 5 are lent */
	CHECK(lent_is(m, "words"));
	memcpy(xk_msg_push(&m, 5), "four ", 5); /* not over "lent " */
	CHECK(lent_is(m, "four words"));
	copy = xk_msg_reference(m);
	xk_msg_free(m);
	CHECK(lent_is(copy, "four words"));
	xk_msg_pop(&copy, 5);
	while (copy->len == 0)
		CHECK(xk_msg_peek(&copy, 1) != NULL);
	CHECK(copy->data == (const uint8_t *)words + 5 && !xk_msg_is_writable(copy));
	CHECK(!xk_msg_has_room(copy, 1)); /* although bytes precede it and there is no other view */
	memcpy(xk_msg_push(&copy, 2), "2 ", 2);
	CHECK(lent_is(copy, "2 words"));
	CHECK_EQ(ended, 0);
	xk_msg_free(copy);
	CHECK_EQ(ended, 1);
	CHECK_STR(words, "lent words");
}

/* Checks that a loan ends once, with the last of its parts. */
static inline void
check_loan_ends_once(struct xk_platform *platform)
{
	enum { PARTS = 5 };
	unsigned before = platform->ops->buffers_out(platform);

	for (unsigned last = 0; last < PARTS; last++) {
		_Atomic unsigned ended = 0;
		struct xk_msg *parts[PARTS], *rest = xk_msg_lend(platform, "abcdefghij", 10, lent_ended, &ended);

		REQUIRE(rest != NULL);
		for (unsigned i = 0; i + 1 < PARTS; i++) /* by split and by part, in turn */
			parts[i] = i % 2 == 0 ? xk_msg_split(&rest, 2) : xk_msg_part(rest, 0, 2);
		xk_msg_join(rest, xk_msg_from(platform, "!", 1));
		parts[PARTS - 1] = rest;
		CHECK(lent_is(parts[0], "ab") && lent_is(parts[1], "cd") && lent_is(parts[2], "cd"));
		CHECK(lent_is(parts[3], "ef") && lent_is(rest, "efghij!"));
		for (unsigned i = 1; i <= PARTS; i++) {
			CHECK_EQ(ended, 0);
			xk_msg_free(parts[(last + i) % PARTS]);
		}
		CHECK_EQ(ended, 1);
	}
	CHECK_EQ(platform->ops->buffers_out(platform), before);
}

/* Checks that parts of loans of any length show their bytes. */
static inline void
check_long_loan(struct xk_platform *platform)
{
	static const size_t offsets[] = { 0, 1, 65535, 65536, 131071, LENT_LONG - 1000 };
	uint8_t *bytes = xk_lendable_new(platform, LENT_LONG);
	_Atomic unsigned ended = 0;
	struct xk_msg *m, *part;

	REQUIRE(bytes != NULL);
	for (size_t i = 0; i < LENT_LONG; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	m = xk_msg_lend(platform, bytes, LENT_LONG, lent_ended, &ended);
	REQUIRE(m != NULL);
	CHECK_EQ(xk_msg_len(m), LENT_LONG);
	CHECK_EQ(m->ceiling - m->data, LENT_LONG);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(offsets); i++) {
		part = xk_msg_part(m, offsets[i], 1000);
		REQUIRE(part != NULL);
		CHECK(part->data == bytes + offsets[i] && part->len == 1000);
		xk_msg_free(part);
	}
	part = xk_msg_split(&m, 100000);
	REQUIRE(part != NULL);
	CHECK(part->data == bytes && xk_msg_len(part) == 100000 && m->data == bytes + 100000 &&
	      xk_msg_len(m) == 100000);
	xk_msg_free(part);
	CHECK_EQ(ended, 0);
	xk_msg_free(m);
	CHECK_EQ(ended, 1);
	xk_lendable_free(platform, bytes);
	xk_lendable_free(platform, NULL);
}

static inline void
check_lending(struct xk_platform *platform)
{
	_Atomic unsigned ended = 0;
	struct xk_msg *m;

	check_lent_bytes_stay(platform);
	check_loan_ends_once(platform);
	check_long_loan(platform);
	m = xk_msg_lend(platform, "", 0, lent_ended, &ended);
	REQUIRE(m != NULL);
	memcpy(xk_msg_push(&m, 4), "head", 4); /* an empty segment is freed */
	CHECK_EQ(ended, 1);
	CHECK(lent_is(m, "head"));
	xk_msg_free(m);
	CHECK(xk_msg_lend(platform, "", XK_MSG_MAX + 1, lent_ended, &ended) == NULL);
	CHECK_EQ(ended, 1);
}

/* ---- among threads ---- */

enum { LENT_THREADS = 3, LENT_SHARES = 3000 };

struct lent_shared {
	unsigned ended;
	char bytes[8];
};

/* Overwrites the bytes when the last part is freed: all threads have read them. */
static inline void
lent_overwrite(void *context)
{
	struct lent_shared *shared = context;

	shared->ended++;
	memset(shared->bytes, 0, sizeof(shared->bytes));
}

static inline void *
lent_share(void *argument)
{
	struct xk_msg *m = argument;
	bool good = true;

	for (unsigned i = 0; i < LENT_SHARES; i++) {
		struct xk_msg *other = xk_msg_reference(m);

		good = good && other != NULL && xk_msg_push(&other, 14) != NULL;
		xk_msg_free(other);
	}
	good = good && lent_is(m, "shared");
	xk_msg_free(m);
	return good ? argument : NULL;
}

static inline void
check_loan_among_threads(struct xk_platform *platform)
{
	struct lent_shared shared = { 0, "shared" };
	struct xk_msg *m = xk_msg_lend(platform, shared.bytes, 6, lent_overwrite, &shared), *copies[LENT_THREADS];
	pthread_t threads[LENT_THREADS];

	for (unsigned i = 0; i < LENT_THREADS; i++)
		REQUIRE((copies[i] = xk_msg_reference(m)) != NULL);
	for (unsigned i = 0; i < LENT_THREADS; i++)
		REQUIRE(pthread_create(&threads[i], NULL, lent_share, copies[i]) == 0);
	xk_msg_free(m);
	for (unsigned i = 0; i < LENT_THREADS; i++) {
		void *good;

		pthread_join(threads[i], &good);
		CHECK(good != NULL);
	}
	CHECK_EQ(shared.ended, 1);
	CHECK_EQ(shared.bytes[0], 0);
}

#endif
