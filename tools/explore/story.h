/*
 * story.h - tells a simulated run as a short story: from the first unusual event on, what happens to frames with faults,
 * with a few words for each frame's content, crashes and boots, and what protocols drop and decide. A line is
 *
 *	event   31     0.001344400  server: frame 3 arrives: duplicate (stopwait: kind DATA, sequence 1; 106 bytes)
 *
 * The number is that of the event (xk_sim_events) in which it happens, for `--stop-at`. What protocols drop and decide is
 * told up to a maximum of lines, and once if it is repeated.
 */
#ifndef EXPLORE_STORY_H
#define EXPLORE_STORY_H

#include "tools/net/net.h"

struct story;

/*
 * Returns a story that is told to out, in lines that begin with prefix; both are borrowed. The hosts of net report to it
 * from their next boot on.
 */
struct story *story_new(struct net *net, FILE *out, const char *prefix);

/* Tells a choice that was not the usual one. */
void story_choose(struct story *story, const struct xk_sim_choice *made);

/* Tells a record of the world; the story is the context of xk_sim_watch. */
void story_see(void *story, const struct xk_sim_record *record);

/* Tells that a promise is broken. */
void story_break(struct story *story, const char *why);

/* Leaves out what follows: call it before the hosts stop. */
void story_stop(struct story *story);

/* Frees the story, after a line with the number of those that were left out. The world must have ended. NULL is allowed. */
void story_free(struct story *story);

#endif
