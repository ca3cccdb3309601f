/* choices.c - see choices.h. */
#include "tools/explore/choices.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tools/net/net.h"

enum { CHOICE_WORD = 80 };

static const char *const choice_fates[XK_SIM_FATES] = {
	[XK_SIM_LOSE] = "lose",
	[XK_SIM_DOUBLE] = "double",
	[XK_SIM_DELAY] = "delay",
	[XK_SIM_DAMAGE] = "damage",
};

/* ---- parsing ---- */

/* Stores the number of the host of this name. */
static bool
choice_find_host(const struct net *net, const char *name, struct choice *c)
{
	for (unsigned i = 0; i < net->topology->host_count; i++)
		if (strcmp(net->topology->hosts[i].name, name) == 0) {
			c->host = (uint16_t)i;
			return true;
		}
	return false;
}

static bool
choice_find_fate(const char *word, struct choice *c)
{
	for (c->option = XK_SIM_LOSE; c->option < XK_SIM_FATES; c->option++)
		if (strcmp(choice_fates[c->option], word) == 0)
			return true;
	return false;
}

/* Parses one choice, without commas. */
static bool
choice_parse(const char *text, const struct net *net, struct choice *c)
{
	char what[CHOICE_WORD], verb[CHOICE_WORD], third[CHOICE_WORD] = "", fourth[CHOICE_WORD] = "", rest;
	int words = sscanf(text, " %79s %" SCNu32 " %79s %79s %79s %c", what, &c->number, verb, third, fourth, &rest);

	c->option = 1;
	if (words == 3 && strcmp(what, "frame") == 0) {
		c->kind = XK_SIM_FRAME;
		c->any_host = true;
		return choice_find_fate(verb, c);
	}
	if (words == 5 && strcmp(what, "frame") == 0) {
		c->kind = XK_SIM_FRAME;
		return strcmp(verb, "at") == 0 && choice_find_host(net, third, c) && choice_find_fate(fourth, c);
	}
	if (words == 4 && strcmp(what, "event") == 0 && strcmp(verb, "boot") == 0) {
		c->kind = XK_SIM_CRASH;
		return choice_find_host(net, third, c);
	}
	if (words == 4 && strcmp(what, "event") == 0 && strcmp(verb, "order") == 0) {
		c->kind = XK_SIM_ORDER;
		return sscanf(third, "%" SCNu8 "%c", &c->place, &rest) == 1 && c->place > 0;
	}
	c->kind = strcmp(what, "stack") == 0 ? XK_SIM_STACK : XK_SIM_BUFFER;
	c->any_host = true;
	return words == 3 && (c->kind == XK_SIM_STACK || strcmp(what, "buffer") == 0) && strcmp(verb, "refuse") == 0;
}

int
choices_parse(const char *text, const struct net *net, struct choices *choices, char *why, size_t room)
{
	char one[4 * CHOICE_WORD];
	size_t len;

	*choices = (struct choices){ .count = 0 };
	for (; *text != '\0'; text += len + (text[len] == ',')) {
		len = strcspn(text, ",");
		if (choices->count == CHOICES_MAX) {
			snprintf(why, room, "more than %d choices", CHOICES_MAX);
			return -EINVAL;
		}
		snprintf(one, sizeof(one), "%.*s", len < sizeof(one) ? (int)len : 0, text);
		if (choice_parse(one, net, &choices->list[choices->count++]))
			continue;
		snprintf(why, room,
			 "\"%.40s\" is none of: frame N [at HOST] lose|double|delay|damage, event N boot HOST, event N "
			 "order PLACE, buffer|stack N refuse",
			 one);
		return -EINVAL;
	}
	return 0;
}

/* ---- printing ---- */

static void
choice_print(const struct choice *c, const struct net *net, FILE *out)
{
	const char *host = net->topology->hosts[c->host].name;

	if (c->kind == XK_SIM_FRAME && c->any_host)
		fprintf(out, "frame %" PRIu32 " %s", c->number, choice_fates[c->option]);
	else if (c->kind == XK_SIM_FRAME)
		fprintf(out, "frame %" PRIu32 " at %s %s", c->number, host, choice_fates[c->option]);
	else if (c->kind == XK_SIM_CRASH)
		fprintf(out, "event %" PRIu32 " boot %s", c->number, host);
	else if (c->kind == XK_SIM_ORDER)
		fprintf(out, "event %" PRIu32 " order %u", c->number, c->place);
	else
		fprintf(out, "%s %" PRIu32 " refuse", c->kind == XK_SIM_STACK ? "stack" : "buffer", c->number);
}

void
choices_print(const struct choices *choices, const struct net *net, FILE *out)
{
	for (unsigned i = 0; i < choices->count; i++) {
		fputs(i == 0 ? "" : ", ", out);
		choice_print(&choices->list[i], net, out);
	}
}

/* ---- replaying ---- */

unsigned
choices_choose(void *context, const struct xk_sim_choice *made)
{
	struct choices_replay *replay = context;

	for (unsigned i = 0; i < replay->choices.count; i++)
		if (choice_is(&replay->choices.list[i], made)) {
			replay->made |= UINT32_C(1) << i;
			return replay->choices.list[i].option;
		}
	return 0;
}

bool
choices_are_made(const struct choices_replay *replay, const struct net *net, const char *program)
{
	bool all = true;

	for (unsigned i = 0; i < replay->choices.count; i++) {
		if ((replay->made & UINT32_C(1) << i) != 0)
			continue;
		fprintf(stderr, "%s: --choices: the run had no choice \"", program);
		choice_print(&replay->choices.list[i], net, stderr);
		fprintf(stderr, "\"\n");
		all = false;
	}
	return all;
}
