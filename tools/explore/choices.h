/*
 * choices.h - a run of the simulator as the list of its unusual choices, in the order in which they come:
 *
 *	frame 17 at b lose, event 41 boot b, event 52 order 1, timer 3 order 1, buffer 9 refuse, stack 4 refuse
 *
 * Frames, events, buffers and stacks have the numbers of xk_sim_choose. What is not listed happens as usual, so a list is a
 * whole run, on every build.
 *
 * Amounts make a run of the links' own faults a list: `delay 340us` instead of behind the receiver's next event,
 * `double 12us` for a second copy that is late, `damage 20:8001` for the bits to flip from byte 20 on. `links good` turns
 * the links' own faults off.
 */
#ifndef EXPLORE_CHOICES_H
#define EXPLORE_CHOICES_H

#include <stdio.h>
#include <string.h>

#include "platform/sim/sim.h"

struct net;

enum { CHOICES_MAX = 256, CHOICES_WHY = 200 };

struct choice {
	uint8_t kind, option, place; /* enum xk_sim_choice_kind; the option without its amount; as in xk_sim_choice */
	bool any_host;               /* the list does not name a frame's receiver */
	uint16_t host;               /* its number */
	uint32_t number;
	uint64_t amount; /* of a frame's fate */
};

struct choices {
	unsigned count; /* CHOICES_MAX + 1: choices_record had no room */
	bool no_faults; /* of the links' own */
	struct choice list[CHOICES_MAX];
};

/* Parses text. Returns 0, or -EINVAL with a sentence in why (CHOICES_WHY bytes suffice). */
int choices_parse(const char *text, const struct net *net, struct choices *choices, char *why, size_t room);

/* Prints the list, as choices_parse reads it. */
void choices_print(const struct choices *choices, const struct net *net, FILE *out);

/* Returns whether the list's choice c is the one that the world makes. */
static inline bool
choice_is(const struct choice *c, const struct xk_sim_choice *made)
{
	return c->number == made->number && c->kind == made->kind && c->place == made->place &&
	       (made->host == NULL || c->any_host || c->host == xk_sim_host_number(made->host));
}

static inline void
choices_copy(struct choices *to, const struct choices *from)
{
	to->count = from->count;
	to->no_faults = from->no_faults;
	memcpy(to->list, from->list, from->count * sizeof(from->list[0]));
}

/*
 * Returns the option that the list has for the world's choice, whose place in the list is marked in is_made; 0: it is not
 * in the list.
 */
uint64_t choices_option(const struct choices *choices, bool is_made[], const struct xk_sim_choice *made);

/* A list that is being replayed: context of choices_choose. */
struct choices_replay {
	struct choices choices;
	bool is_made[CHOICES_MAX]; /* the run has had the choice */
};

/* Chooses as the list says; for xk_sim_choose. */
uint64_t choices_choose(void *replay, const struct xk_sim_choice *made);

/* Prints the choices of `asked` that are not among `had`, which has the same order, after `program`. */
void choices_print_missing(const struct choices *asked, const struct choices *had, const struct net *net,
			   const char *program);

/* Prints the choices that the run has not had, after `program`. Returns false if there are any. */
bool choices_are_made(const struct choices_replay *replay, const struct net *net, const char *program);

/* Adds what the links' own faults do to the struct choices; for xk_sim_choose. */
uint64_t choices_record(void *choices, const struct xk_sim_choice *made);

#endif
