/*
 * http_rig.h - http between a browser's bytes and a fake stream: a session of the wire is a connection, on which messages
 * are handed up and down as TCP hands them, without its options.
 */
#ifndef HTTP_RIG_H
#define HTTP_RIG_H

#include "tests/protocols/http_pages.h"
#include "tests/rig.h"

enum { ME = 0x0a4d0002, HTTP_SENT = 300000 };

#define HOST "Host: 10.77.0.2\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\n" HOST "\r\n"

static void
http_prepare(struct rig *r)
{
	static const uint64_t me = ME;

	rig_answer_control(r, XK_GET_MY_HOST, &me, sizeof(me));
	xk_kernel_set_pages(rig_kernel(r), &test_pages);
}

/* Returns a rig of http with settings: statements, each ending in ';'. */
static inline struct rig *
http_rig(const char *settings)
{
	char graph[1024];

	snprintf(graph, sizeof(graph), "wire:; http: wire; %s", settings);
	return rig_new_prepared(graph, http_prepare);
}

/* Frees the rig after every connection has ended by itself, as http ends what is idle. */
static inline void
http_rig_free(struct rig *r)
{
	rig_fail_sending(r, 0);
	for (unsigned i = 0; i < 3; i++)
		rig_advance_ms(r, 60001);
	CHECK_EQ(rig_wire_session_count(r), 0);
	rig_forget(r);
	rig_free(r);
}

#define HTTP_TEST(name, settings) TEST_WITH(name, struct rig *r, http_rig(settings), http_rig_free)

/* A piece of what the browser sends arrives. */
static inline void
say(struct rig *r, const char *text)
{
	rig_inject_bytes(r, text, strlen(text));
}

/* Another browser opens a connection with its first bytes, from then on the newest. */
static inline struct xk_session *
say_anew(struct rig *r, const char *text)
{
	rig_wire_peer(r, 0x99);
	say(r, text);
	return rig_wire_newest_session(r);
}

/* Takes all that was sent, as a string, which is valid until the next call. */
static inline const char *
heard_len(struct rig *r, size_t *len)
{
	static char bytes[HTTP_SENT];
	long got;

	*len = 0;
	while ((got = rig_take_sent(r, bytes + *len, sizeof(bytes) - 1 - *len)) >= 0)
		*len += (size_t)got;
	bytes[*len] = '\0';
	return bytes;
}

static inline const char *
heard(struct rig *r)
{
	size_t len;

	return heard_len(r, &len);
}

/* Checks that text begins and ends so. */
#define CHECK_TEXT(text, begin, end) check_text(text, begin, end, __LINE__)
static inline void
check_text(const char *text, const char *begin, const char *end, int line)
{
	size_t len = strlen(text);
	bool is_good = strncmp(text, begin, strlen(begin)) == 0 && len >= strlen(end) &&
		       strcmp(text + len - strlen(end), end) == 0;

	if (!is_good)
		printf("line %d: sent: %s\n", line, text);
	CHECK(is_good);
}

#endif
