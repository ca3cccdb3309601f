/* script_packets.c - packets injected and expected; see script_private.h. */
#include <stdio.h>

#include "tests/conformance/script_private.h"
#include "xkernel/platform.h"

static struct let *
find_let(struct script *s, const char *name)
{
	for (unsigned i = 0; name != NULL && i < s->let_count; i++)
		if (strcmp(s->lets[i].name, name) == 0)
			return &s->lets[i];
	return NULL;
}

bool
script_do_let(struct script *s, char *const *words)
{
	struct let *let = find_let(s, words[0]);

	if (words[0] == NULL || words[1] == NULL || strlen(words[0]) >= NAME_LEN)
		return script_fail(s, "let takes a name and a packet");
	if (let == NULL) {
		if (s->let_count == LETS_MAX)
			return script_fail(s, "too many packets have names");
		let = &s->lets[s->let_count++];
		snprintf(let->name, sizeof(let->name), "%s", words[0]);
	}
	return packet_parse(&let->packet, &s->names, words + 1, s->detail) || script_fail_detail(s);
}

/* Parses "FROM..TO"; TO may be `end`. */
static bool
parse_range(struct script *s, const char *text, size_t *from, size_t *to)
{
	const char *dots = text == NULL ? NULL : strstr(text, "..");
	char first[NAME_LEN];
	uint64_t number;

	if (dots == NULL || (size_t)(dots - text) >= sizeof(first))
		return script_fail(s, "a piece is written FROM..TO, in bytes of what the IP header carries");
	snprintf(first, sizeof(first), "%.*s", (int)(dots - text), text);
	if (!number_parse(&s->names, first, &number, s->detail))
		return script_fail_detail(s);
	*from = number;
	*to = SIZE_MAX;
	if (script_is(dots + 2, "end"))
		return true;
	if (!number_parse(&s->names, dots + 2, &number, s->detail))
		return script_fail_detail(s);
	*to = number;
	return true;
}

/* Makes a piece of a named datagram with the fields in `words`; without a range, the datagram itself. */
static bool
make_piece(struct script *s, const struct let *let, char *const *words)
{
	size_t from = 0, to = SIZE_MAX;

	if (*words == NULL) {
		s->packet = let->packet;
		return true;
	}
	if (!parse_range(s, *words, &from, &to))
		return false;
	if (!packet_slice(&let->packet, &s->names, from, to, &s->packet, s->detail) ||
	    !packet_parse_fields(&s->packet, &s->names, words + 1, s->detail))
		return script_fail_detail(s);
	return true;
}

/* Makes the packet that words describe, or a piece of a named one. */
static bool
make_packet(struct script *s, char *const *words)
{
	const struct let *let = find_let(s, *words);

	if (*words == NULL)
		return script_fail(s, "a packet is missing");
	if (let != NULL)
		return make_piece(s, let, words + 1);
	return packet_parse(&s->packet, &s->names, words, s->detail) || script_fail_detail(s);
}

/* Parses "on PORT", counted from 1, at the start of *words; 0: absent. */
static bool
parse_port(struct script *s, char *const **words, unsigned *port)
{
	uint64_t number;

	*port = 0;
	if (!script_is(**words, "on"))
		return true;
	if ((*words)[1] == NULL || !number_parse(&s->names, (*words)[1], &number, s->detail) || number == 0 ||
	    number > host_port_count(s->host))
		return script_fail(s, "on needs a port's number, from 1 on");
	*port = (unsigned)number;
	*words += 2;
	return true;
}

bool
script_do_burst(struct script *s, char *const *words)
{
	uint64_t count;

	if (words[0] == NULL || words[1] != NULL)
		return script_fail(s, "burst takes a number of frames");
	if (!number_parse(&s->names, words[0], &count, s->detail))
		return script_fail_detail(s);
	if (count == 0 || count > XK_BURST)
		return script_fail(s, "a burst has 1 to %d frames", XK_BURST);
	s->burst = (unsigned)count;
	return true;
}

bool
script_do_inject(struct script *s, char *const *words)
{
	unsigned port;
	size_t len;

	if (!parse_port(s, &words, &port))
		return false;
	s->names.port = port == 0 ? 0 : port - 1;
	if (!make_packet(s, words))
		return false;
	len = packet_build(&s->packet, &s->names, s->frame, s->detail);
	if (len == 0 && s->packet.cut != 0)
		return script_fail_detail(s);
	host_queue(s->host, s->names.port, s->frame, len, 0, 0);
	if (s->burst > 0)
		s->burst--;
	if (s->burst == 0)
		host_run_until(s->host, host_now_ns(s->host), false);
	return true;
}

static bool
expect_nothing(struct script *s, char *const *words)
{
	uint64_t ns = 0;

	if (script_is(*words, "within")) {
		if (!script_check_unseen(s) || !script_parse_time(s, words[1], &ns))
			return false;
		host_run_until(s->host, host_now_ns(s->host) + ns, true);
	} else if (*words != NULL) {
		return script_fail(s, "'%s' after nothing", *words);
	}
	return host_first_sent(s->host) == NULL || script_fail_expected(s, "no frame was expected");
}

bool
script_do_expect(struct script *s, char *const *words)
{
	const struct sent *sent;
	unsigned port;
	uint64_t ns;

	if (script_is(*words, "nothing"))
		return expect_nothing(s, words + 1);
	if (!parse_port(s, &words, &port))
		return false;
	if (script_is(*words, "within")) {
		if (!script_parse_time(s, words[1], &ns))
			return false;
		if (host_first_sent(s->host) == NULL)
			host_run_until(s->host, host_now_ns(s->host) + ns, true);
		words += 2;
	}
	if (!make_packet(s, words))
		return false;
	sent = host_first_sent(s->host);
	if (sent == NULL)
		return script_fail_expected(s, "nothing was sent");
	if (port != 0 && sent->port != port - 1)
		return script_fail_expected(s, "it was sent on another port");
	if (!packet_match(&s->packet, &s->names, sent->bytes, sent->len, s->detail))
		return script_fail_expected(s, s->detail);
	host_drop_sent(s->host);
	return true;
}

bool
script_do_ignore(struct script *s, char *const *words)
{
	if (*words != NULL)
		return script_fail(s, "'%s' after ignore", *words);
	while (host_first_sent(s->host) != NULL)
		host_drop_sent(s->host);
	return true;
}
