/* test_fiber.c - fibers: turns, resting on any stack, the shepherd that xk_self returns, and freeing at rest. */
#include "xkernel/engine/fiber.h"

#include <errno.h>
#include <pthread.h>

#include "tests/test.h"
#include "xkernel/engine/engine.h"

enum { STACK_SIZE = 256 * 1024, MANY = 200, TURNS = 50 };

/* Each fiber writes its letter, so the text shows the order of turns. */
struct stage {
	struct xk_context own;
	char text[64];
	unsigned len;
};

struct actor {
	struct stage *stage;
	struct xk_fiber fiber;
	char letter;
};

static void
stage_open(struct stage *stage)
{
	*stage = (struct stage){ .len = 0 };
	xk_context_adopt(&stage->own);
}

static void
stage_write(struct stage *stage, char letter)
{
	REQUIRE(stage->len + 1 < sizeof(stage->text));
	stage->text[stage->len++] = letter;
}

static void
actor_make(struct actor *actor, struct stage *stage, char letter, void (*body)(void *argument))
{
	actor->stage = stage;
	actor->letter = letter;
	REQUIRE(xk_fiber_init(&actor->fiber, STACK_SIZE, body, actor) == 0);
}

static void
actor_run(struct actor *actor)
{
	xk_fiber_run(&actor->fiber, &actor->stage->own);
}

static void
write_for_ever(void *argument)
{
	struct actor *actor = argument;

	for (;;) {
		stage_write(actor->stage, actor->letter);
		xk_fiber_rest(&actor->fiber);
	}
}

TEST(fibers_take_turns_as_they_are_run)
{
	struct stage stage;
	struct actor a, b;

	stage_open(&stage);
	actor_make(&a, &stage, 'a', write_for_ever);
	actor_make(&b, &stage, 'b', write_for_ever);
	CHECK_STR(stage.text, "");
	for (const char *turn = "abbaaab"; *turn != '\0'; turn++)
		actor_run(*turn == 'a' ? &a : &b);
	CHECK_STR(stage.text, "abbaaab");
	xk_fiber_fini(&a.fiber);
	xk_fiber_fini(&b.fiber);
	xk_context_disown(&stage.own);
}

/* ---- state kept across a rest ---- */

struct sum {
	struct xk_context *own;
	struct xk_fiber fiber;
	uint64_t seed, result;
	bool done;
};

/* Sums the numbers from seed to seed + depth, one per frame, with a rest at the bottom and one while returning. */
static uint64_t
sum_nest(struct sum *sum, unsigned depth)
{
	volatile uint64_t mine = sum->seed + depth;
	uint64_t below = depth == 0 ? 0 : sum_nest(sum, depth - 1);

	if (depth % 7 == 0)
		xk_fiber_rest(&sum->fiber);
	return below + mine;
}

static void
sum_main(void *argument)
{
	struct sum *sum = argument;

	sum->result = sum_nest(sum, TURNS);
	sum->done = true;
	xk_fiber_rest(&sum->fiber);
}

/* Resumes many fibers in turn, each inside nested calls of its own. */
static void
check_many(struct sum *sums, struct xk_context *own)
{
	bool done = false;

	for (unsigned i = 0; i < MANY; i++) {
		sums[i] = (struct sum){ .own = own, .seed = UINT64_C(1000003) * i };
		REQUIRE(xk_fiber_init(&sums[i].fiber, STACK_SIZE, sum_main, &sums[i]) == 0);
	}
	while (!done) {
		done = true;
		for (unsigned i = 0; i < MANY; i++)
			if (!sums[i].done) {
				xk_fiber_run(&sums[i].fiber, own);
				done = false;
			}
	}
	for (unsigned i = 0; i < MANY; i++) {
		CHECK_EQ(sums[i].result, (TURNS + 1) * sums[i].seed + TURNS * (TURNS + 1) / 2);
		xk_fiber_fini(&sums[i].fiber);
	}
}

static void *
check_many_here(void *argument)
{
	struct sum *sums = calloc(MANY, sizeof(*sums));
	struct xk_context own;

	REQUIRE(sums != NULL);
	xk_context_adopt(&own);
	check_many(sums, &own);
	xk_context_disown(&own);
	free(sums);
	return NULL;
}

TEST_OF(many_fibers_keep_their_state, check_many_here(NULL));

TEST(several_threads_run_fibers_of_their_own)
{
	pthread_t threads[3];

	for (unsigned i = 0; i < 3; i++)
		REQUIRE(pthread_create(&threads[i], NULL, check_many_here, NULL) == 0);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

/* ---- the running shepherd and its stack ---- */

struct player;

struct role {
	struct xk_shepherd shepherd;
	struct player *player; /* carries it */
};

/* A fiber as the engine uses it: begins on its own stack and switches to a shepherd's. */
struct player {
	struct actor actor;
	struct xk_context own;
	struct xk_shepherd self;
	struct role *role;
};

/* Body of a detachable stack: writes and rests on its fiber, twice, then returns to that fiber. */
static void
role_write(void *argument)
{
	struct role *role = argument;

	for (char letter = '1';; letter++) {
		CHECK(xk_self() == &role->shepherd);
		stage_write(role->player->actor.stage, letter);
		xk_fiber_rest(&role->player->actor.fiber);
		CHECK(xk_self() == &role->shepherd);
		if (letter % 2 == 0) {
			xk_self_set(&role->player->self);
			xk_context_switch(&role->shepherd.context, &role->player->own);
		}
	}
}

static void
player_main(void *argument)
{
	struct player *player = argument;

	CHECK(xk_self() == NULL);
	xk_fiber_adopt(&player->actor.fiber, &player->own);
	xk_self_set(&player->self);
	for (;;) {
		stage_write(player->actor.stage, player->actor.letter);
		xk_fiber_rest(&player->actor.fiber);
		CHECK(xk_self() == &player->self);
		player->role->player = player;
		xk_self_set(&player->role->shepherd);
		xk_context_switch(&player->own, &player->role->shepherd.context);
		CHECK(xk_self() == &player->self);
	}
}

static void
player_make(struct player *player, struct stage *stage, char letter, struct role *role)
{
	*player = (struct player){ .actor = { .stage = stage, .letter = letter }, .role = role };
	REQUIRE(xk_fiber_init(&player->actor.fiber, STACK_SIZE, player_main, player) == 0);
}

static void
player_run(struct player *player)
{
	actor_run(&player->actor);
	CHECK(xk_self() == NULL);
}

static void
role_make(struct role *role)
{
	*role = (struct role){ .shepherd.detachable = true };
	REQUIRE(xk_context_map(&role->shepherd.context, STACK_SIZE) == 0);
	xk_context_prepare(&role->shepherd.context, role_write, role);
}

TEST(fiber_rests_and_resumes_on_a_shepherds_stack)
{
	struct player player;
	struct stage stage;
	struct role role;

	stage_open(&stage);
	role_make(&role);
	player_make(&player, &stage, 'a', &role);
	for (unsigned i = 0; i < 7; i++)
		player_run(&player);
	CHECK_STR(stage.text, "a12a34a");
	xk_fiber_fini(&player.actor.fiber);
	xk_context_unmap(&role.shepherd.context);
	xk_context_disown(&stage.own);
}

TEST(each_fiber_keeps_its_shepherd)
{
	struct player players[2];
	struct role roles[2];
	struct stage stage;

	stage_open(&stage);
	for (unsigned i = 0; i < 2; i++) {
		role_make(&roles[i]);
		player_make(&players[i], &stage, (char)('a' + i), &roles[i]);
	}
	for (const char *turn = "baabaabaabaa"; *turn != '\0'; turn++)
		player_run(&players[*turn - 'a']);
	CHECK_STR(stage.text, "ba112a234ba5");
	for (unsigned i = 0; i < 2; i++) {
		xk_fiber_fini(&players[i].actor.fiber);
		xk_context_unmap(&roles[i].shepherd.context);
	}
	xk_context_disown(&stage.own);
}

/* A shepherd begins on one fiber and continues on another, as when the driver hands off. */
TEST(shepherd_resumes_on_another_fiber)
{
	struct player players[2];
	struct stage stage;
	struct role role;

	stage_open(&stage);
	role_make(&role);
	for (unsigned i = 0; i < 2; i++)
		player_make(&players[i], &stage, (char)('a' + i), &role);
	for (const char *turn = "baaaabbbaaabbb"; *turn != '\0'; turn++)
		player_run(&players[*turn - 'a']);
	CHECK_STR(stage.text, "ba12a34b56a78b");
	for (unsigned i = 0; i < 2; i++)
		xk_fiber_fini(&players[i].actor.fiber);
	xk_context_unmap(&role.shepherd.context);
	xk_context_disown(&stage.own);
}

/* ---- the end ---- */

TEST(a_fiber_that_never_ran_is_freed)
{
	struct stage stage;
	struct actor actor;

	stage_open(&stage);
	actor_make(&actor, &stage, 'a', write_for_ever);
	xk_fiber_fini(&actor.fiber);
	CHECK_STR(stage.text, "");
	xk_context_disown(&stage.own);
}

TEST_IN(fibers_freed_inside_calls_can_be_made_again, struct xk_context, own, xk_context_adopt(own), xk_context_disown)
{
	struct sum sum;

	for (unsigned i = 0; i < 20; i++) {
		sum = (struct sum){ .own = own, .seed = i };
		REQUIRE(xk_fiber_init(&sum.fiber, STACK_SIZE, sum_main, &sum) == 0);
		for (unsigned turn = 0; turn < i % 7; turn++)
			xk_fiber_run(&sum.fiber, own);
		CHECK(!sum.done);
		xk_fiber_fini(&sum.fiber);
	}
}

TEST(impossible_stack_size_is_refused)
{
	struct xk_fiber fiber;

	CHECK_EQ(xk_fiber_init(&fiber, SIZE_MAX, sum_main, NULL), -ENOMEM);
}
