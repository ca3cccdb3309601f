/* script_user.c - orders to the user of TCP, and what it knows; see script_private.h. */
#include <errno.h>

#include "tests/conformance/script_private.h"
#include "tests/conformance/user.h"

/* Orders that take one number, or none. */
static const struct order {
	const char *word;
	enum user_verb verb;
	bool takes_number;
} orders[] = {
	{ "listen", USER_LISTEN, true }, { "deaf", USER_DEAF, true },        { "open", USER_OPEN, true },
	{ "send", USER_SEND, true },     { "end-sending", USER_END, false }, { "close", USER_CLOSE, false },
	{ "abort", USER_ABORT, false },  { "hold", USER_HOLD, false },       { "release", USER_RELEASE, false },
	{ "take", USER_TAKE, false },
};

static const struct result {
	const char *word;
	int err;
} results[] = {
	{ "good", 0 },
	{ "opening", -EINPROGRESS },
	{ "refused", -ECONNREFUSED },
	{ "timed-out", -ETIMEDOUT },
	{ "reset", -ECONNRESET },
	{ "aborted", -ECONNABORTED },
	{ "ended", -EPIPE },
	{ "waiting", -EAGAIN },
	{ "in-use", -EADDRINUSE },
	{ "impossible", -EINVAL },
	{ "no-buffer", -ENOBUFS },
};

static struct xk_protocol *
find_user(const struct script *s)
{
	return host_protocol(s->host, "user");
}

/* Carries out an order. */
static void
obey(struct script *s, const struct user_order *order)
{
	user_do(find_user(s), order);
	host_run_until(s->host, host_now_ns(s->host), false);
}

static bool
parse_number(struct script *s, const char *word, uint64_t *number)
{
	if (word == NULL)
		return script_fail(s, "a number is missing");
	return number_parse(&s->names, word, number, s->detail) || script_fail_detail(s);
}

bool
script_do_order(struct script *s, char *const *words)
{
	struct user_order order = { .connection = s->connection, .from = XK_ANY, .peer = s->names.host[0] + 1 };
	const struct order *is = orders;

	if (find_user(s) == NULL)
		return script_fail(s, "the graph has no user of TCP");
	while (!script_is(words[0], is->word)) /* it is one of them */
		is++;
	order.verb = is->verb;
	words++;
	if (is->takes_number && !parse_number(s, *words++, &order.number))
		return false;
	while (is->verb == USER_OPEN && (script_is(*words, "from") || script_is(*words, "at"))) {
		if (!parse_number(s, words[1], script_is(*words, "at") ? &order.peer : &order.from))
			return false;
		words += 2;
	}
	if (is->verb == USER_CLOSE && script_is(*words, "*")) {
		order.verb = USER_CLOSE_ALL;
		words++;
	}
	if (*words != NULL)
		return script_fail(s, "'%s' is a word too many", *words);
	if (is->verb == USER_OPEN)
		s->connection = 0;
	obey(s, &order);
	return true;
}

bool
script_do_use(struct script *s, char *const *words)
{
	uint64_t number;
	struct user_view view;

	if (find_user(s) == NULL)
		return script_fail(s, "the graph has no user of TCP");
	if (!parse_number(s, words[0], &number))
		return false;
	if (words[1] != NULL || number == 0 || !user_see(find_user(s), (unsigned)number, &view))
		return script_fail(s, "there is no connection %llu", (unsigned long long)number);
	s->connection = (unsigned)number;
	return true;
}

/* Sees the connection in use. */
static bool
see(struct script *s, struct user_view *view)
{
	struct user_order look = { .verb = USER_LOOK, .connection = s->connection };

	if (find_user(s) == NULL)
		return script_fail(s, "the graph has no user of TCP");
	obey(s, &look);
	return user_see(find_user(s), s->connection, view) || script_fail(s, "there is no connection yet");
}

/* Returns the number of bytes read of the connection in use. */
static uint64_t *
bytes_read(struct script *s)
{
	unsigned number = s->connection;
	struct user_view view;

	while (number == 0 || (s->connection == 0 && user_see(find_user(s), number + 1, &view)))
		number++;
	return &s->bytes_read[number % NAMES_STREAMS];
}

/* Bytes that nobody has looked at are a mistake of the script, or of the host. */
bool
script_check_unread(struct script *s)
{
	struct user_view view;

	for (unsigned i = 1; find_user(s) != NULL && user_see(find_user(s), i, &view); i++) {
		if (view.is_wrong)
			return script_fail(s, "the bytes that were handed up are not those of the pattern");
		if (view.received != s->bytes_read[i % NAMES_STREAMS])
			return script_fail(s, "connection %u: %llu bytes were handed up that no line reads", i,
					   (unsigned long long)(view.received - s->bytes_read[i % NAMES_STREAMS]));
	}
	return true;
}

bool
script_do_read(struct script *s, char *const *words)
{
	struct user_view view;
	uint64_t wanted = 0, *were;

	if (script_is(words[0], "*") && words[1] == NULL) { /* of all connections */
		for (unsigned i = 1; find_user(s) != NULL && user_see(find_user(s), i, &view); i++)
			s->bytes_read[i % NAMES_STREAMS] = view.received;
		return script_check_unread(s);
	}
	if (!see(s, &view) || (!script_is(words[0], "nothing") && !parse_number(s, words[0], &wanted)))
		return false;
	if (words[0] != NULL && words[1] != NULL)
		return script_fail(s, "'%s' is a word too many", words[1]);
	were = bytes_read(s);
	if (view.is_wrong)
		return script_fail(s, "the bytes that were handed up are not those of the pattern");
	if (view.received - *were != wanted)
		return script_fail(s, "%llu bytes were handed up, not %llu",
				   (unsigned long long)(view.received - *were), (unsigned long long)wanted);
	*were = view.received;
	return true;
}

bool
script_do_state(struct script *s, char *const *words)
{
	struct user_view view;

	if (words[0] == NULL || words[1] != NULL)
		return script_fail(s, "state takes a state's name");
	if (!see(s, &view))
		return false;
	return script_is(words[0], view.state) || script_fail(s, "the state is %s, not %s", view.state, words[0]);
}

bool
script_do_result(struct script *s, char *const *words)
{
	const char *is = "another error", *wanted = NULL;
	struct user_view view;

	if (!see(s, &view))
		return false;
	for (unsigned i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
		if (results[i].err == view.err)
			is = results[i].word;
		if (script_is(words[0], results[i].word))
			wanted = results[i].word;
	}
	if (wanted == NULL || words[1] != NULL)
		return script_fail(s, "result takes one of: good, refused, timed-out, reset, ...");
	return script_is(wanted, is) || script_fail(s, "the result is %s (%d), not %s", is, view.err, wanted);
}
