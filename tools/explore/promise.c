/* promise.c - see promise.h. Reads the text anew each time, which takes less time than a run's last event. */
#include "tools/explore/promise.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graphs/graph.h"
#include "tools/net/net.h"

enum {
	PROMISE_NAME = XK_GRAPH_NAME_MAX + 1,
	PROMISE_DIGITS = 15, /* of a number: no sum of a text's numbers overflows */
};

static const char promise_letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

struct promise {
	const struct net *net;
	const char *at; /* rest of the text */
	char *why;      /* empty: nothing is wrong so far */
};

__attribute__((format(printf, 2, 3))) static int64_t
promise_refuse(struct promise *p, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	if (p->why[0] == '\0')
		vsnprintf(p->why, PROMISE_WHY, format, arguments);
	va_end(arguments);
	return 0;
}

static void
promise_skip(struct promise *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

/* Skips `word` if it comes next. */
static bool
promise_takes(struct promise *p, const char *word)
{
	size_t len = strlen(word);

	promise_skip(p);
	if (strncmp(p->at, word, len) != 0)
		return false;
	p->at += len;
	return true;
}

/* ---- counters ---- */

/* Returns the count of this name since the host's boot; 0 if the host is down. */
static int64_t
promise_count(struct promise *p, const struct net_host *host, const struct xk_protocol_type *type, const char *node,
	      const char *name)
{
	struct xk_kernel *kernel = host->sim == NULL ? NULL : xk_sim_kernel(host->sim);
	const struct xk_protocol *protocol = kernel == NULL ? NULL : xk_kernel_find(kernel, node);

	for (unsigned i = 0; type->counters != NULL && type->counters[i] != NULL; i++)
		if (strcmp(type->counters[i], name) == 0)
			return protocol == NULL ? 0 : (int64_t)xk_counter(protocol, i);
	for (unsigned i = 1; i < xk_drop_count(type); i++)
		if (strcmp(xk_drop_name(type, i), name) == 0)
			return protocol == NULL ? 0 : (int64_t)protocol->drops[i];
	return promise_refuse(p, "%.60s has no counter %.60s", node, name);
}

/* Returns whether the text begins with `name` and a dot, and the name is longer than *longest, which it becomes. */
static bool
promise_begins(const char *text, const char *name, size_t *longest)
{
	size_t len = strlen(name);

	if (len <= *longest || strncmp(text, name, len) != 0 || text[len] != '.')
		return false;
	*longest = len;
	return true;
}

/* Reads HOST.boots or HOST.PROTOCOL.COUNTER. Names of hosts and protocols may have dots and hyphens: the longest counts. */
static int64_t
promise_name(struct promise *p)
{
	const struct net_host *host = NULL;
	const struct xk_graph_node *node = NULL;
	const char *at = p->at, *own;
	char name[PROMISE_NAME];
	size_t len = 0;

	if (!isalnum((unsigned char)*at) && *at != '_')
		return promise_refuse(p, "expected a number or HOST.PROTOCOL.COUNTER at \"%.40s\"", at);
	for (unsigned i = 0; i < p->net->topology->host_count; i++)
		if (promise_begins(at, p->net->topology->hosts[i].name, &len))
			host = &p->net->hosts[i];
	if (host == NULL)
		return promise_refuse(p, "there is no host called %.*s", (int)strcspn(at, ". "), at);
	at += len + 1;
	len = 0;
	for (unsigned i = 0; i < host->topology->checked->node_count; i++)
		if (promise_begins(at, host->topology->checked->nodes[i].name, &len))
			node = &host->topology->checked->nodes[i];
	if (node != NULL)
		at += len + 1;
	len = strspn(at, promise_letters);
	p->at = at + len;
	if (len >= sizeof(name))
		len = sizeof(name) - 1;
	memcpy(name, at, len);
	name[len] = '\0';
	if (node != NULL)
		return promise_count(p, host, node->type, node->name, name);
	own = host->topology->name;
	if (strcmp(name, "boots") == 0)
		return host->sim == NULL ? 0 : (int64_t)xk_sim_host_boots(host->sim);
	if (*p->at == '.')
		return promise_refuse(p, "%.60s has no protocol %.60s", own, name);
	return promise_refuse(p, "expected %.60s.PROTOCOL.COUNTER or %.60s.boots", own, own);
}

/* ---- expressions ---- */

static int64_t
promise_term(struct promise *p)
{
	size_t len;
	char *end;
	int64_t value;

	promise_skip(p);
	len = strspn(p->at, "0123456789");
	if (len == 0 || p->at[len] == '.' || strspn(p->at + len, promise_letters) > 0)
		return promise_name(p);
	if (len > PROMISE_DIGITS)
		return promise_refuse(p, "the number at \"%.40s\" has more than %d digits", p->at, PROMISE_DIGITS);
	value = (int64_t)strtoull(p->at, &end, 10);
	p->at = end;
	return value;
}

static int64_t
promise_sum(struct promise *p)
{
	int64_t sum = promise_term(p);

	for (;;) {
		if (promise_takes(p, "+"))
			sum = (int64_t)((uint64_t)sum + (uint64_t)promise_term(p));
		else if (promise_takes(p, "-"))
			sum = (int64_t)((uint64_t)sum - (uint64_t)promise_term(p));
		else
			return sum;
	}
}

static bool
promise_comparison(struct promise *p)
{
	int64_t left = promise_sum(p);

	if (promise_takes(p, "=="))
		return left == promise_sum(p);
	if (promise_takes(p, "!="))
		return left != promise_sum(p);
	if (promise_takes(p, "<="))
		return left <= promise_sum(p);
	if (promise_takes(p, ">="))
		return left >= promise_sum(p);
	if (promise_takes(p, "<"))
		return left < promise_sum(p);
	if (promise_takes(p, ">"))
		return left > promise_sum(p);
	return promise_refuse(p, "expected a comparison at \"%.40s\"", p->at);
}

/* Reads what is between two semicolons. */
static bool
promise_holds(struct promise *p)
{
	bool holds = promise_comparison(p);

	while (promise_takes(p, "or"))
		holds |= promise_comparison(p);
	promise_skip(p);
	if (*p->at != ';' && *p->at != '\0')
		promise_refuse(p, "expected \"or\", a semicolon or the end at \"%.40s\"", p->at);
	return holds;
}

/* Writes the promise from begin on, to where p has read, with the values of its counters and with single blanks. */
static void
promise_tell(const struct promise *p, const char *begin, char why[PROMISE_WHY])
{
	char values[PROMISE_WHY] = "";
	struct promise again = { p->net, begin, values };
	int len = snprintf(why, PROMISE_WHY, "not");

	for (promise_skip(&again); again.at < p->at && len < PROMISE_WHY; promise_skip(&again)) {
		const char *word = again.at;

		if (isalpha((unsigned char)*word) &&
		    (strncmp(word, "or", 2) != 0 || !isspace((unsigned char)word[2]))) {
			int64_t value = promise_name(&again);

			len += snprintf(why + len, PROMISE_WHY - (size_t)len, " %.*s (%" PRId64 ")",
					(int)(again.at - word), word, value);
			continue;
		}
		again.at += strcspn(word, " \t\n");
		if (again.at > p->at)
			again.at = p->at;
		len += snprintf(why + len, PROMISE_WHY - (size_t)len, " %.*s", (int)(again.at - word), word);
	}
}

const char *
promise_check(const struct net *net, char why[PROMISE_WHY])
{
	const struct xk_graph_attribute *a = xk_graph_attribute_find(&net->topology->written->attributes, "promise");
	struct promise p = { net, a == NULL ? "" : a->value, why };

	why[0] = '\0';
	for (promise_skip(&p); *p.at != '\0'; promise_skip(&p)) {
		const char *begin = p.at;
		bool holds = promise_holds(&p);

		if (net->sim != NULL && !holds && why[0] == '\0')
			promise_tell(&p, begin, why);
		if (why[0] != '\0')
			return why;
		p.at += *p.at == ';';
	}
	return NULL;
}
