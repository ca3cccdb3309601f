/* choices.c - see choices.h. */
#include "tools/explore/choices.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/net/net.h"

enum { CHOICE_WORD = 80, CHOICE_WORDS = 7 /* the longest choice has one fewer */ };

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

/* Parses a number from 1 to max. Refuses signs and other characters than digits. */
static bool
choice_parse_number(const char *text, uint32_t max, uint32_t *number)
{
	char digits[11], rest;
	uint64_t value;

	if (sscanf(text, "%10[0-9]%c", digits, &rest) != 1)
		return false;
	value = strtoull(digits, NULL, 10);
	*number = (uint32_t)value;
	return value > 0 && value <= max;
}

/* Parses a fate's amount, a time or OFFSET:BITS. */
static bool
choice_parse_amount(const char *text, struct choice *c)
{
	char offset[7], bits[5], rest;

	if (c->option == XK_SIM_DELAY && xk_time_parse(text, &c->amount) && c->amount == 0)
		return false; /* it would be the delay without an amount */
	if (c->option == XK_SIM_DELAY || c->option == XK_SIM_DOUBLE)
		return xk_time_parse(text, &c->amount) && c->amount <= UINT64_MAX >> 8;
	if (c->option != XK_SIM_DAMAGE || sscanf(text, "%6[0-9]:%4[0-9a-fA-F]%c", offset, bits, &rest) != 2)
		return false;
	c->amount = xk_sim_damage(strtoul(offset, NULL, 10), (uint16_t)strtoul(bits, NULL, 16));
	return (c->amount & 0xffff) != 0;
}

/* Parses the words behind a frame's number. */
static bool
choice_parse_frame(char words[][CHOICE_WORD], int count, const struct net *net, struct choice *c)
{
	int at = 0;

	c->kind = XK_SIM_FRAME;
	c->any_host = strcmp(words[0], "at") != 0;
	if (!c->any_host) {
		if (count < 3 || !choice_find_host(net, words[1], c))
			return false;
		at = 2;
	}
	return choice_find_fate(words[at], c) &&
	       (count == at + 1 || (count == at + 2 && choice_parse_amount(words[at + 1], c)));
}

/* Parses a choice with a number. */
static bool
choice_parse(char all[][CHOICE_WORD], int count, const struct net *net, struct choice *c)
{
	const char *what = all[0];
	char(*words)[CHOICE_WORD] = all + 2;
	uint32_t place;

	c->option = 1;
	count -= 2;
	if (count < 1 || !choice_parse_number(all[1], UINT32_MAX, &c->number))
		return false;
	if (strcmp(what, "frame") == 0)
		return choice_parse_frame(words, count, net, c);
	if (count == 2 && strcmp(what, "event") == 0 && strcmp(words[0], "boot") == 0) {
		c->kind = XK_SIM_CRASH;
		return choice_find_host(net, words[1], c);
	}
	if (count == 2 && (strcmp(what, "event") == 0 || strcmp(what, "timer") == 0) &&
	    strcmp(words[0], "order") == 0) {
		c->kind = *what == 't' ? XK_SIM_TIMER : XK_SIM_ORDER;
		c->any_host = true;
		if (!choice_parse_number(words[1], UINT8_MAX, &place))
			return false;
		c->place = (uint8_t)place;
		return true;
	}
	c->kind = strcmp(what, "stack") == 0 ? XK_SIM_STACK : XK_SIM_BUFFER;
	c->any_host = true;
	return count == 1 && (c->kind == XK_SIM_STACK || strcmp(what, "buffer") == 0) &&
	       strcmp(words[0], "refuse") == 0;
}

/* Numbers the fates of one frame. */
static void
choices_place(struct choices *choices)
{
	struct choice *last = &choices->list[choices->count - 1];

	for (struct choice *c = choices->list; c < last && last->kind == XK_SIM_FRAME; c++)
		last->place += c->kind == XK_SIM_FRAME && c->number == last->number && c->host == last->host &&
			       c->any_host == last->any_host;
}

/* Adds what is between two commas to the list. */
static bool
choices_parse_one(const char *text, const struct net *net, struct choices *choices)
{
	char words[CHOICE_WORDS][CHOICE_WORD] = { "" };
	int count = sscanf(text, "%79s %79s %79s %79s %79s %79s %79s", words[0], words[1], words[2], words[3], words[4],
			   words[5], words[6]);

	if (count == 2 && strcmp(words[0], "links") == 0 && strcmp(words[1], "good") == 0) {
		choices->no_faults = true;
		return true;
	}
	if (!choice_parse(words, count, net, &choices->list[choices->count++]))
		return false;
	choices_place(choices);
	return true;
}

int
choices_parse(const char *text, const struct net *net, struct choices *choices, char *why, size_t room)
{
	char one[6 * CHOICE_WORD];
	size_t len;

	*choices = (struct choices){ .count = 0 };
	for (; *text != '\0'; text += len + (text[len] == ',')) {
		len = strcspn(text, ",");
		if (choices->count == CHOICES_MAX) {
			snprintf(why, room, "more than %d choices", CHOICES_MAX);
			return -EINVAL;
		}
		snprintf(one, sizeof(one), "%.*s", len < sizeof(one) ? (int)len : 0, text);
		if (choices_parse_one(one, net, choices))
			continue;
		snprintf(
			why, room,
			"\"%.40s\" is none of: frame N [at HOST] lose|double [T]|delay [T]|damage [BYTE:BITS], event N "
			"boot HOST, event|timer N order PLACE, buffer|stack N refuse, links good",
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
	char time[XK_SETTING_TEXT];

	if (c->kind == XK_SIM_FRAME) {
		fprintf(out, "frame %" PRIu32 "%s%s %s", c->number, c->any_host ? "" : " at ", c->any_host ? "" : host,
			choice_fates[c->option]);
		if (c->amount != 0 && c->option == XK_SIM_DAMAGE)
			fprintf(out, " %" PRIu64 ":%04x", c->amount >> 16, (unsigned)c->amount & 0xffff);
		else if (c->amount != 0)
			fprintf(out, " %s", xk_setting_print(XK_SETTING_TIME, c->amount, time));
	} else if (c->kind == XK_SIM_CRASH) {
		fprintf(out, "event %" PRIu32 " boot %s", c->number, host);
	} else if (c->kind == XK_SIM_ORDER || c->kind == XK_SIM_TIMER) {
		fprintf(out, "%s %" PRIu32 " order %u", c->kind == XK_SIM_TIMER ? "timer" : "event", c->number,
			c->place);
	} else {
		fprintf(out, "%s %" PRIu32 " refuse", c->kind == XK_SIM_STACK ? "stack" : "buffer", c->number);
	}
}

void
choices_print(const struct choices *choices, const struct net *net, FILE *out)
{
	fputs(choices->no_faults ? "links good" : "", out);
	for (unsigned i = 0; i < choices->count; i++) {
		fputs(i == 0 && !choices->no_faults ? "" : ", ", out);
		choice_print(&choices->list[i], net, out);
	}
}

/* ---- replaying ---- */

uint64_t
choices_option(const struct choices *choices, bool is_made[], const struct xk_sim_choice *made)
{
	for (unsigned i = 0; i < choices->count; i++) {
		const struct choice *c = &choices->list[i];

		if (!choice_is(c, made))
			continue;
		is_made[i] = true;
		return xk_sim_fate_by((enum xk_sim_fate)c->option, c->amount);
	}
	return 0;
}

uint64_t
choices_choose(void *context, const struct xk_sim_choice *made)
{
	struct choices_replay *replay = context;

	return choices_option(&replay->choices, replay->is_made, made);
}

static bool
choice_equals(const struct choice *a, const struct choice *b)
{
	return a->kind == b->kind && a->option == b->option && a->place == b->place && a->number == b->number &&
	       a->host == b->host && a->amount == b->amount;
}

void
choices_print_missing(const struct choices *asked, const struct choices *had, const struct net *net,
		      const char *program)
{
	unsigned next = 0;

	for (unsigned i = 0; i < asked->count; i++) {
		if (next < had->count && choice_equals(&asked->list[i], &had->list[next])) {
			next++;
			continue;
		}
		fprintf(stderr, "%s: --choices: the run had no choice \"", program);
		choice_print(&asked->list[i], net, stderr);
		fprintf(stderr, "\"\n");
	}
}

bool
choices_are_made(const struct choices_replay *replay, const struct net *net, const char *program)
{
	struct choices had = { .count = 0 };

	for (unsigned i = 0; i < replay->choices.count; i++)
		if (replay->is_made[i])
			had.list[had.count++] = replay->choices.list[i];
	choices_print_missing(&replay->choices, &had, net, program);
	return had.count == replay->choices.count;
}

/* ---- recording ---- */

uint64_t
choices_record(void *context, const struct xk_sim_choice *made)
{
	struct choices *choices = context;

	if (made->drawn == 0 || choices->count > CHOICES_MAX)
		return 0;
	if (choices->count < CHOICES_MAX)
		choices->list[choices->count] = (struct choice){ .kind = XK_SIM_FRAME,
								 .option = (uint8_t)made->drawn,
								 .amount = made->drawn >> 8,
								 .host = (uint16_t)xk_sim_host_number(made->host),
								 .number = (uint32_t)made->number };
	choices->count++;
	return 0;
}
