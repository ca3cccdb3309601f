/* plan_draw.c - see plan_maker.h: random numbers, and the text written from them. */
#include "tests/swarm/plan_maker.h"

#include <stdarg.h>
#include <stdio.h>

uint64_t
plan_between(struct plan_maker *maker, uint64_t low, uint64_t high)
{
	return low + xk_chance_below(&maker->chance, high - low + 1);
}

bool
plan_one_in(struct plan_maker *maker, uint64_t n)
{
	return xk_chance_below(&maker->chance, n) == 0;
}

void
plan_write(struct plan_maker *maker, const char *format, ...)
{
	va_list arguments;
	int len;

	va_start(arguments, format);
	len = vsnprintf(maker->text + maker->used, PLAN_TEXT - maker->used, format, arguments);
	va_end(arguments);
	xk_assert(len >= 0 && maker->used + (size_t)len < PLAN_TEXT);
	maker->used += (size_t)len;
}

void
plan_begin_text(struct plan_maker *maker, char *text)
{
	maker->text = text;
	maker->used = 0;
}

void
plan_write_fault(struct plan_maker *maker, enum plan_fault fault, const char *name, uint64_t max)
{
	uint64_t permille;

	if (!plan_one_in(maker, 2))
		return;
	permille = plan_between(maker, 1, max);
	permille = plan_between(maker, 1, permille);
	plan_write(maker, ", %s=\"%u.%u%%\"", name, (unsigned)(permille / 10), (unsigned)(permille % 10));
	maker->plan->asked[fault] = true;
	maker->plan->permille[fault] = (unsigned)permille;
}

void
plan_write_time(struct plan_maker *maker, const char *name, uint64_t ns)
{
	plan_write(maker, ", %s=\"%lluus\"", name, (unsigned long long)(ns / 1000));
}
