/* test_stack.c - detachable stacks: the switch, prepare and abandon, other threads, the guard page. */
#include "xkernel/engine/stack.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

enum { STACK_SIZE = 256 * 1024 };

#if defined(XK_CONTEXT_ASAN) || defined(XK_CONTEXT_TSAN)
enum { PING_PONGS = 200000, PREPARES = 3000 };
#else
enum { PING_PONGS = 1000000, PREPARES = 20000 };
#endif

struct pair {
	struct xk_context driver, stack;
	uint64_t count;
	uint64_t seed;
	bool ok;
};

static void
pair_open(struct pair *pair)
{
	*pair = (struct pair){ .ok = true };
	xk_context_adopt(&pair->driver);
	REQUIRE(xk_context_map(&pair->stack, STACK_SIZE) == 0);
}

static void
pair_close(struct pair *pair)
{
	xk_context_unmap(&pair->stack);
	xk_context_disown(&pair->driver);
}

static void
pair_count_for_ever(void *argument)
{
	struct pair *pair = argument;

	for (;;) {
		pair->count++;
		xk_context_switch(&pair->stack, &pair->driver);
	}
}

TEST_IN(two_contexts_alternate_a_million_times, struct pair, pair, pair_open(pair), pair_close)
{
	xk_context_prepare(&pair->stack, pair_count_for_ever, pair);
	for (unsigned i = 0; i < PING_PONGS; i++)
		xk_context_switch(&pair->driver, &pair->stack);
	CHECK_EQ(pair->count, PING_PONGS);
}

/* More integers and floating-point values live across a switch than there are callee-saved registers. */
#define SURVIVE_INTS(do_) do_(0) do_(1) do_(2) do_(3) do_(4) do_(5) do_(6) do_(7) do_(8) do_(9) do_(10) do_(11)
#define SURVIVE_SET(n)                                                                                                 \
	uint64_t i##n = mix(seed + n);                                                                                 \
	double d##n = (double)(seed + n) * 1.5;
#define SURVIVE_KEEP(n) __asm__ volatile("" : "+r"(i##n));
#define SURVIVE_CHECK(n) ok = ok && i##n == mix(again + n) && d##n == (double)(again + n) * 1.5;

static uint64_t
mix(uint64_t x)
{
	return (x ^ x >> 31) * 0x9e3779b97f4a7c15;
}

__attribute__((noinline)) static bool
survives(volatile const uint64_t *seeds, struct xk_context *from, struct xk_context *to)
{
	uint64_t seed = *seeds, again;
	bool ok = true;

	SURVIVE_INTS(SURVIVE_SET)
	SURVIVE_INTS(SURVIVE_KEEP)
	xk_context_switch(from, to);
	SURVIVE_INTS(SURVIVE_KEEP)
	again = *seeds;
	SURVIVE_INTS(SURVIVE_CHECK)
	return ok;
}

static void
pair_survive_for_ever(void *argument)
{
	struct pair *pair = argument;
	uint64_t mine = 1000;

	for (;; mine++)
		pair->ok = survives(&mine, &pair->stack, &pair->driver) && pair->ok;
}

TEST_IN(callee_saved_registers_survive_a_switch, struct pair, pair, pair_open(pair), pair_close)
{
	xk_context_prepare(&pair->stack, pair_survive_for_ever, pair);
	for (uint64_t i = 0; i < 1000; i++)
		CHECK(survives(&i, &pair->driver, &pair->stack));
	CHECK(pair->ok);
}

static void
pair_note_alignment(void *argument)
{
	struct pair *pair = argument;
	_Alignas(16) volatile char aligned[16] = { 0 };
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);

	/* AddressSanitizer may keep locals elsewhere; the frame's own address is always on the stack. */
	pair->ok = frame % 16 == 0 && (uintptr_t)aligned % 16 == 0 && frame > (uintptr_t)pair->stack.bottom &&
		   frame <= (uintptr_t)pair->stack.bottom + pair->stack.size;
	xk_context_leave(&pair->stack, &pair->driver);
}

TEST_IN(a_prepared_stack_is_aligned_and_used, struct pair, pair, pair_open(pair), pair_close)
{
	pair->ok = false;
	xk_context_prepare(&pair->stack, pair_note_alignment, pair);
	xk_context_switch(&pair->driver, &pair->stack);
	CHECK(pair->ok);
}

/* Each level of a nest prepares the next, switches to it and is switched back to. */
struct nest {
	struct xk_context context;
	struct nest *above;
	unsigned left;
	uint64_t sum;
};

static void
nest_run(void *argument)
{
	struct nest *self = argument, inner = { .above = self, .left = self->left - 1 };

	if (self->left > 0 && xk_context_map(&inner.context, STACK_SIZE) == 0) {
		xk_context_prepare(&inner.context, nest_run, &inner);
		xk_context_switch(&self->context, &inner.context);
		xk_context_unmap(&inner.context);
	}
	self->above->sum += self->sum + 1;
	xk_context_leave(&self->context, &self->above->context);
}

TEST(contexts_nest)
{
	struct nest outer = { .left = 0 }, inner = { .above = &outer, .left = 20 };

	xk_context_adopt(&outer.context);
	REQUIRE(xk_context_map(&inner.context, STACK_SIZE) == 0);
	xk_context_prepare(&inner.context, nest_run, &inner);
	xk_context_switch(&outer.context, &inner.context);
	CHECK_EQ(outer.sum, 21);
	xk_context_unmap(&inner.context);
	xk_context_disown(&outer.context);
}

/* Touches much of the stack, so that sanitizers' marks there must be cleared. */
__attribute__((noinline)) static uint64_t
dig(unsigned depth, struct pair *pair, void (*at_the_end)(struct pair *pair))
{
	volatile char room[512];

	for (unsigned i = 0; i < sizeof(room); i++)
		room[i] = (char)(depth + i);
	if (depth == 0)
		at_the_end(pair);
	else
		dig(depth - 1, pair, at_the_end);
	return (uint64_t)room[depth];
}

static void
pair_leave(struct pair *pair)
{
	pair->count++;
	xk_context_leave(&pair->stack, &pair->driver);
}

static void
pair_abandon(struct pair *pair)
{
	pair->count++;
	xk_context_switch(&pair->stack, &pair->driver);
	abort();
}

static void
pair_dig_and_leave(void *argument)
{
	dig(20 + (unsigned)((struct pair *)argument)->count % 7, argument, pair_leave);
}

static void
pair_dig_and_abandon(void *argument)
{
	dig(20 + (unsigned)((struct pair *)argument)->count % 7, argument, pair_abandon);
}

TEST_IN(stack_can_be_prepared_again_after_leaving_or_abandoning, struct pair, pair, pair_open(pair), pair_close)
{
	for (unsigned i = 0; i < PREPARES; i++) {
		xk_context_prepare(&pair->stack, i % 3 == 0 ? pair_dig_and_abandon : pair_dig_and_leave, pair);
		xk_context_switch(&pair->driver, &pair->stack);
	}
	CHECK_EQ(pair->count, PREPARES);
}

TEST(stacks_can_be_unmapped_with_code_still_on_them)
{
	struct pair pair;

	for (unsigned i = 0; i < 200; i++) {
		pair_open(&pair);
		xk_context_prepare(&pair.stack, pair_dig_and_abandon, &pair);
		xk_context_switch(&pair.driver, &pair.stack);
		CHECK_EQ(pair.count, 1);
		pair_close(&pair);
	}
}

TEST(an_impossible_size_is_refused)
{
	struct xk_context context;

	CHECK(xk_context_map(&context, SIZE_MAX) < 0);
	CHECK(xk_context_map(&context, SIZE_MAX / 2) < 0);
}

/* ---- other threads ---- */

/* The stack runs under whichever driver switched to it last. */
struct traveller {
	struct xk_context stack;
	struct xk_context *driver;
	struct traveller *next;
	uint64_t seed, rounds;
	bool ok, ended;
};

__attribute__((noinline)) static bool
traveller_leg(struct traveller *self)
{
	return survives(&self->seed, &self->stack, self->driver);
}

static void
traveller_run(void *argument)
{
	struct traveller *self = argument;
	char kept[64];

	memset(kept, (int)self->seed, sizeof(kept));
	for (uint64_t left = self->rounds; left > 0; left--)
		self->ok = traveller_leg(self) && self->ok;
	for (unsigned i = 0; i < sizeof(kept); i++)
		self->ok = self->ok && kept[i] == (char)self->seed;
	self->ended = true;
	xk_context_leave(&self->stack, self->driver);
}

static void
traveller_open(struct traveller *self, uint64_t seed, uint64_t rounds)
{
	*self = (struct traveller){ .seed = seed, .rounds = rounds, .ok = true };
	REQUIRE(xk_context_map(&self->stack, STACK_SIZE) == 0);
	xk_context_prepare(&self->stack, traveller_run, self);
}

static void *
thread_go_on(void *argument)
{
	struct traveller *traveller = argument;
	struct xk_context own;

	xk_context_adopt(&own);
	traveller->driver = &own;
	xk_context_switch(&own, &traveller->stack);
	xk_context_disown(&own);
	return NULL;
}

TEST(context_resumes_on_another_thread)
{
	struct traveller traveller;
	pthread_t thread;

	traveller_open(&traveller, 42, 10);
	for (unsigned i = 0; i < 11; i++) {
		if (i % 2 == 0) {
			thread_go_on(&traveller);
		} else {
			REQUIRE(pthread_create(&thread, NULL, thread_go_on, &traveller) == 0);
			pthread_join(thread, NULL);
		}
		CHECK_EQ(traveller.ended, i == 10);
	}
	CHECK(traveller.ok);
	xk_context_unmap(&traveller.stack);
}

/*
 * Two threads take travellers from one list, run each to its next switch, and put it back once they have left its
 * stack.
 */
struct pool {
	pthread_mutex_t lock;
	struct traveller *first;
	unsigned ended;
};

static struct traveller *
pool_take(struct pool *pool)
{
	struct traveller *traveller;

	pthread_mutex_lock(&pool->lock);
	traveller = pool->first;
	if (traveller != NULL)
		pool->first = traveller->next;
	pthread_mutex_unlock(&pool->lock);
	return traveller;
}

static void
pool_give(struct pool *pool, struct traveller *traveller)
{
	pthread_mutex_lock(&pool->lock);
	if (traveller->ended) {
		pool->ended++;
	} else {
		traveller->next = pool->first;
		pool->first = traveller;
	}
	pthread_mutex_unlock(&pool->lock);
}

static void *
pool_serve(void *argument)
{
	struct pool *pool = argument;
	struct traveller *traveller;
	struct xk_context own;

	xk_context_adopt(&own);
	while ((traveller = pool_take(pool)) != NULL) {
		traveller->driver = &own;
		xk_context_switch(&own, &traveller->stack);
		pool_give(pool, traveller);
	}
	xk_context_disown(&own);
	return NULL;
}

TEST(two_threads_carry_many_contexts)
{
	enum { COUNT = 8 };
	struct pool pool = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct traveller travellers[COUNT];
	pthread_t thread;

	for (unsigned i = 0; i < COUNT; i++) {
		traveller_open(&travellers[i], i, 3000);
		travellers[i].next = pool.first;
		pool.first = &travellers[i];
	}
	REQUIRE(pthread_create(&thread, NULL, pool_serve, &pool) == 0);
	pool_serve(&pool);
	pthread_join(thread, NULL);
	CHECK_EQ(pool.ended, COUNT);
	for (unsigned i = 0; i < COUNT; i++) {
		CHECK(travellers[i].ok);
		xk_context_unmap(&travellers[i].stack);
	}
}

/* ---- the guard page ---- */

__attribute__((noinline)) static uint64_t
recurse(uint64_t depth)
{
	volatile char room[256];

	room[0] = (char)depth;
	if (depth < UINT32_MAX)
		depth += recurse(depth + 1);
	return depth + (uint64_t)room[0];
}

static void
guard_overflow(void *argument)
{
	recurse(0);
	_exit(0);
}

static void
guard_child(void)
{
	struct rlimit none = { 0, 0 };
	struct pair pair;
	stack_t alternate = { .ss_sp = malloc(65536), .ss_size = 65536 };

	setrlimit(RLIMIT_CORE, &none);
	sigaltstack(&alternate, NULL);
	signal(SIGSEGV, SIG_DFL);
	pair_open(&pair);
	xk_context_prepare(&pair.stack, guard_overflow, &pair);
	xk_context_switch(&pair.driver, &pair.stack);
	_exit(0);
}

TEST(overflow_hits_the_guard_page)
{
	int status = 0;
	pid_t child = fork();

	REQUIRE(child >= 0);
	if (child == 0)
		guard_child();
	REQUIRE(waitpid(child, &status, 0) == child);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGSEGV);
}
