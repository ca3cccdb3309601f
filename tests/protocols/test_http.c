/* test_http.c - requests and connections of http: what is served, each refusal by its name, bounds in time and number. */
#include "protocols/tcp/tcp.h"
#include "tests/protocols/http_rig.h"
#include "tests/random.h"

/* ---- what is served ---- */

HTTP_TEST(http_serves_a_page, "")
{
	const char *text;

	say(r, GET("/"));
	text = heard(r);
	CHECK_TEXT(text, "HTTP/1.1 200 OK\r\n", "\r\n\r\nhello");
	CHECK(strstr(text, "\r\nContent-Length: 5\r\n") != NULL);
	CHECK(strstr(text, "\r\nContent-Type: text/plain\r\n") != NULL);
	CHECK(strstr(text, "\r\nContent-Security-Policy: default-src 'self'\r\n") != NULL);
	CHECK(strstr(text, "\r\nCache-Control: no-store\r\n") != NULL);
	CHECK(strstr(text, "\r\nX-Content-Type-Options: nosniff\r\n") != NULL);
	CHECK(strstr(text, "Connection: close") == NULL);
	rig_expect_counts(r, "accepted=1 requests=1 responses=1");
}

HTTP_TEST(http_answers_head_without_a_body, "")
{
	const char *text;

	say(r, "HEAD /large HTTP/1.1\r\n" HOST "\r\n");
	text = heard(r);
	CHECK_TEXT(text, "HTTP/1.1 200 OK\r\n", "\r\n\r\n");
	CHECK(strstr(text, "\r\nContent-Length: 100000\r\n") != NULL);
	say(r, "HEAD /absent HTTP/1.1\r\n" HOST "\r\n");
	CHECK_TEXT(heard(r), "HTTP/1.1 404 Not Found\r\n", "\r\n\r\n");
	say(r, GET("/"));
	CHECK_TEXT(heard(r), "HTTP/1.1 200 OK\r\n", "hello");
}

HTTP_TEST(http_serves_requests_that_come_together_in_order, "")
{
	const char *text;

	say(r, GET("/") GET("/absent") GET("/") "GET / HT");
	text = heard(r);
	CHECK_TEXT(text, "HTTP/1.1 200 OK\r\n", "hello");
	text = strstr(text, "helloHTTP/1.1 404 Not Found\r\n");
	CHECK(text != NULL && strstr(text, "404 Not Found: not_found\nHTTP/1.1 200 OK\r\n") != NULL);
	say(r, "TP/1.1\r\n" HOST "\r\n");
	CHECK_TEXT(heard(r), "HTTP/1.1 200 OK\r\n", "hello");
	rig_expect_counts(r, "accepted=1 requests=4 responses=4 not_found=1");
}

HTTP_TEST(http_serves_a_request_that_comes_byte_by_byte, "")
{
	const char *request = GET("/");

	for (const char *p = request; *p != '\0'; p++) {
		rig_expect_nothing_sent(r);
		rig_inject_bytes(r, p, 1);
	}
	CHECK_TEXT(heard(r), "HTTP/1.1 200 OK\r\n", "hello");
}

enum { MIXTURES = 300, MIXED = 12, MIXTURE_MAX = 4096 };

/* Joins requests, good ones and bad ones, in any order. Returns the length. */
static size_t
mix(char *text, uint64_t *state)
{
	static const char *const pieces[] = { GET("/"),
					      GET("/"),
					      GET("/"),
					      GET("/absent"),
					      "HEAD / HTTP/1.1\r\n" HOST "\r\n",
					      GET("/.."),
					      "GET / HTTP/1.1\r\n\r\n",
					      "G\n\n",
					      "\r\n",
					      "GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n" };
	size_t len = 0;

	for (unsigned i = next_random(state) % MIXED; i > 0; i--) {
		const char *piece = pieces[next_random(state) % XK_ARRAY_LENGTH(pieces)];

		memcpy(text + len, piece, strlen(piece));
		len += strlen(piece);
	}
	return len;
}

HTTP_TEST(http_answers_the_same_however_requests_are_cut, "")
{
	uint64_t state = 7;
	char text[MIXTURE_MAX], *whole;
	size_t len;

	for (unsigned i = 0; i < MIXTURES; i++) {
		len = mix(text, &state);
		rig_wire_peer(r, 0x99);
		rig_inject_bytes(r, text, len);
		whole = strdup(heard(r));
		rig_wire_peer(r, 0x99);
		for (size_t at = 0, piece; at < len; at += piece) {
			piece = 1 + next_random(&state) % 60;
			piece = piece < len - at ? piece : len - at;
			rig_inject_bytes(r, text + at, piece);
		}
		CHECK(strcmp(heard(r), whole) == 0);
		free(whole);
	}
	CHECK(rig_counter(r, "responses") > MIXTURES);
}

HTTP_TEST(http_closes_when_the_browser_wants_that, "")
{
	say(r, "GET / HTTP/1.1\r\n" HOST "Connection: foo, Close\r\n\r\n");
	CHECK(strstr(heard(r), "\r\nConnection: close\r\n") != NULL);
	say(r, GET("/"));
	rig_expect_nothing_sent(r);
	rig_expect_counts(r, "late=1 responses=1");
	rig_close_done(r, rig_wire_newest_session(r));
	CHECK_EQ(rig_wire_session_count(r), 0);
}

HTTP_TEST(http_1_0_stays_only_if_asked_to, "")
{
	say(r, "GET / HTTP/1.0\r\n" HOST "Connection: keep-alive\r\n\r\n");
	CHECK(strstr(heard(r), "Connection: close") == NULL);
	say(r, "GET / HTTP/1.0\r\n" HOST "\r\n");
	CHECK(strstr(heard(r), "\r\nConnection: close\r\n") != NULL);
}

/* ---- refusals ---- */

/* Checks the status and the counter of a request; `stays`: whether the next one on the connection is served. */
#define REFUSED(name, text, status, counter, stays)                                                                    \
	HTTP_TEST(http_refuses_##name, "http.names=web,web.example;")                                                  \
	{                                                                                                              \
		check_refused(r, text, status, counter, stays);                                                        \
	}
static void
check_refused(struct rig *r, const char *text, int status, const char *counter, bool stays)
{
	char begin[32], end[64];

	say(r, text);
	snprintf(begin, sizeof(begin), "HTTP/1.1 %d ", status);
	snprintf(end, sizeof(end), ": %s\n", counter);
	CHECK_TEXT(heard(r), begin, end);
	CHECK_EQ(rig_counter(r, counter), 1);
	say(r, GET("/"));
	CHECK_EQ(rig_counter(r, "responses"), stays ? 2 : 1);
	CHECK_EQ(rig_counter(r, "late"), stays ? 0 : 1);
	rig_forget(r);
	say_anew(r, GET("/")); /* others are served */
	CHECK_TEXT(heard(r), "HTTP/1.1 200 OK\r\n", "hello");
}

#define LINE(line) line "\r\n" HOST "\r\n"
#define FIELD(field) "GET / HTTP/1.1\r\n" HOST field "\r\n\r\n"
#define OF_HOST(host) "GET / HTTP/1.1\r\n" host "\r\n\r\n"

REFUSED(a_line_of_one_word, LINE("GET"), 400, "bad_line", false);
REFUSED(a_line_without_a_version, LINE("GET /"), 400, "bad_line", false);
REFUSED(a_line_with_two_blanks, LINE("GET  / HTTP/1.1"), 400, "bad_line", false);
REFUSED(a_line_of_four_words, LINE("GET / / HTTP/1.1"), 400, "bad_line", false);
REFUSED(a_method_with_a_colon, LINE("GE:T / HTTP/1.1"), 400, "bad_line", false);
REFUSED(an_empty_first_line, "\r\n" GET("/"), 400, "bad_line", false);
REFUSED(lines_without_returns, "GET / HTTP/1.1\nHost: 10.77.0.2\n\n", 400, "bad_line_end", false);
REFUSED(a_return_in_a_line, "GET / HTTP/1.1\r\n" HOST "A: b\rc\r\n\r\n", 400, "bad_line_end", false);
REFUSED(a_field_without_a_colon, FIELD("Accept"), 400, "bad_field", false);
REFUSED(a_blank_before_the_colon, FIELD("Accept : a"), 400, "bad_field", false);
REFUSED(a_continued_line, FIELD("A: b\r\n c"), 400, "bad_field", false);
REFUSED(a_field_without_a_name, FIELD(": a"), 400, "bad_field", false);
REFUSED(a_control_character, FIELD("A: \x01"), 400, "bad_field", false);
REFUSED(a_negative_length, FIELD("Content-Length: -1"), 400, "bad_content_length", false);
REFUSED(a_length_in_words, FIELD("Content-Length: five"), 400, "bad_content_length", false);
REFUSED(a_length_with_a_sign, FIELD("Content-Length: +0"), 400, "bad_content_length", false);
REFUSED(an_empty_length, FIELD("Content-Length:"), 400, "bad_content_length", false);
REFUSED(an_enormous_length, FIELD("Content-Length: 99999999999999999999"), 400, "bad_content_length", false);
REFUSED(two_lengths, FIELD("Content-Length: 0\r\nContent-Length: 0"), 400, "bad_content_length", false);
REFUSED(a_body, FIELD("Content-Length: 1"), 413, "body", false);
REFUSED(a_chunked_body, FIELD("Transfer-Encoding: chunked"), 413, "body", false);
REFUSED(a_request_without_a_host, "GET / HTTP/1.1\r\n\r\n", 400, "bad_host", false);
REFUSED(two_hosts, FIELD("Host: 10.77.0.2"), 400, "bad_host", false);
REFUSED(an_empty_host, OF_HOST("Host:"), 400, "bad_host", false);
REFUSED(a_host_with_a_user, OF_HOST("Host: me@10.77.0.2"), 400, "bad_host", false);
REFUSED(a_port_in_words, OF_HOST("Host: 10.77.0.2:http"), 400, "bad_host", false);
REFUSED(an_empty_port, OF_HOST("Host: 10.77.0.2:"), 400, "bad_host", false);
REFUSED(the_name_of_another_host, OF_HOST("Host: evil.example"), 421, "foreign_host", false);
REFUSED(another_address, OF_HOST("Host: 10.77.0.20"), 421, "foreign_host", false);
REFUSED(the_beginning_of_a_name, OF_HOST("Host: we"), 421, "foreign_host", false);
REFUSED(a_url_of_another_host, LINE("GET http://evil.example/ HTTP/1.1"), 421, "foreign_host", false);
REFUSED(a_target_without_a_slash, LINE("GET stats HTTP/1.1"), 400, "bad_target", false);
REFUSED(a_star, LINE("GET * HTTP/1.1"), 400, "bad_target", false);
REFUSED(a_url_of_another_scheme, LINE("GET https://10.77.0.2/ HTTP/1.1"), 400, "bad_target", false);
REFUSED(half_an_escape, LINE("GET /%2 HTTP/1.1"), 400, "bad_target", false);
REFUSED(an_escape_that_is_none, LINE("GET /%zz HTTP/1.1"), 400, "bad_target", false);
REFUSED(bytes_above_ascii, LINE("GET /\xc3\xa4 HTTP/1.1"), 400, "bad_target", false);
REFUSED(the_folder_above, LINE("GET /../secret HTTP/1.1"), 400, "bad_path", false);
REFUSED(the_folder_above_at_the_end, LINE("GET /a/.. HTTP/1.1"), 400, "bad_path", false);
REFUSED(the_folder_above_in_escapes, LINE("GET /%2e%2e/secret HTTP/1.1"), 400, "bad_path", false);
REFUSED(a_slash_in_an_escape, LINE("GET /a%2f..%2fb HTTP/1.1"), 400, "bad_path", false);
REFUSED(a_nul_in_an_escape, LINE("GET /a%00.html HTTP/1.1"), 400, "bad_path", false);
REFUSED(an_empty_part, LINE("GET //etc/passwd HTTP/1.1"), 400, "bad_path", false);
REFUSED(a_hidden_file, LINE("GET /.git/config HTTP/1.1"), 400, "bad_path", false);
REFUSED(another_method, LINE("POST / HTTP/1.1"), 405, "bad_method", false);
REFUSED(another_version, LINE("GET / HTTP/1.2"), 505, "bad_version", false);
REFUSED(http_2, LINE("PRI * HTTP/2.0"), 505, "bad_version", false);
REFUSED(what_is_not_there, GET("/absent"), 404, "not_found", true);
REFUSED(what_there_is_no_memory_for, GET("/none-left"), 503, "busy", true);

HTTP_TEST(http_refuses_too_many_fields, "")
{
	say(r, "GET / HTTP/1.1\r\n" HOST);
	for (unsigned i = 0; i < 99; i++)
		say(r, "A: b\r\n");
	say(r, "\r\n");
	CHECK_TEXT(heard(r), "HTTP/1.1 200 OK\r\n", "hello");
	say(r, "GET / HTTP/1.1\r\n" HOST);
	for (unsigned i = 0; i < 100; i++)
		say(r, "A: b\r\n");
	say(r, "\r\n");
	CHECK_TEXT(heard(r), "HTTP/1.1 431 ", ": many_fields\n");
	rig_expect_counts(r, "many_fields=1");
}

HTTP_TEST(http_serves_the_hosts_own_names, "http.names=web, web.example;")
{
	static const char *const hosts[] = { "10.77.0.2:80", "localhost", "LocalHost:8080", "web", "WEB.example:8080" };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(hosts); i++) {
		say(r, "GET / HTTP/1.1\r\nHost: ");
		say(r, hosts[i]);
		say(r, "\r\n\r\n");
		CHECK_TEXT(heard(r), "HTTP/1.1 200 OK\r\n", "hello");
	}
	say(r, "GET http://web/?a=/../b HTTP/1.1\r\nHost: evil.example\r\n\r\n");
	CHECK_TEXT(heard(r), "HTTP/1.1 200 OK\r\n", "hello");
	say(r, "GET HTTP://web HTTP/1.1\r\nHost: web\r\n\r\n");
	CHECK_TEXT(heard(r), "HTTP/1.1 200 OK\r\n", "hello");
	rig_expect_counts(r, "foreign_host=0 bad_host=0");
}

/* ---- bounds ---- */

HTTP_TEST(http_refuses_long_lines, "http.request=256;")
{
	say(r, "GET /");
	for (unsigned i = 0; i < 30; i++)
		say(r, "0123456789");
	CHECK_TEXT(heard(r), "HTTP/1.1 414 ", ": long_line\n");
	rig_expect_counts(r, "long_line=1 late=4");
	rig_close_done(r, rig_wire_newest_session(r));
	CHECK_EQ(rig_wire_session_count(r), 0);
}

HTTP_TEST(http_refuses_long_heads, "http.request=256;")
{
	say(r, "GET / HTTP/1.1\r\nA: ");
	for (unsigned i = 0; i < 24; i++)
		say(r, "0123456789");
	CHECK_TEXT(heard(r), "HTTP/1.1 431 ", ": long_head\n");
	rig_expect_counts(r, "long_head=1");
}

HTTP_TEST(http_serves_what_it_keeps_of_many_requests_and_refuses_the_rest, "http.request=256;")
{
	say(r, GET("/") GET("/") GET("/") GET("/") GET("/") GET("/") GET("/") GET("/"));
	CHECK_TEXT(heard(r), "HTTP/1.1 200 OK\r\n", ": long_line\n");
	rig_expect_counts(r, "requests=7 responses=8 long_line=1");
}

HTTP_TEST(http_refuses_slow_requests, "")
{
	say(r, GET("/"));
	rig_forget(r);
	for (unsigned i = 0; i < 9; i++) { /* bytes that come do not help */
		say(r, "G");
		rig_advance_ms(r, 1000);
	}
	rig_expect_nothing_sent(r);
	rig_advance_ms(r, 1001);
	CHECK_TEXT(heard(r), "HTTP/1.1 408 ", ": slow_request\n");
	say(r, "ET / HTTP/1.1\r\n");
	rig_expect_counts(r, "slow_request=1 late=1");
	rig_advance_ms(r, 2001);
	CHECK_EQ(rig_wire_session_count(r), 0);
}

HTTP_TEST(http_closes_idle_connections, "http.idle_time=3s;")
{
	say(r, "");
	CHECK_EQ(rig_counter(r, "accepted"), 1);
	rig_advance_ms(r, 2000);
	say(r, GET("/"));
	rig_forget(r);
	rig_advance_ms(r, 3001); /* it is seen that the response was taken */
	rig_advance_ms(r, 2000);
	CHECK_EQ(rig_wire_session_count(r), 1);
	rig_advance_ms(r, 1001);
	CHECK_EQ(rig_wire_session_count(r), 0);
	rig_expect_counts(r, "idle=1 cut=0");
}

HTTP_TEST(http_ends_the_connection_idle_longest_for_a_new_one, "http.connections=2;")
{
	struct xk_session *first = say_anew(r, GET("/"));

	say_anew(r, GET("/"));
	rig_forget(r);
	rig_inject_on(r, first, "47"); /* a G: it is not idle */
	say_anew(r, GET("/"));
	CHECK_TEXT(heard(r), "HTTP/1.1 200 OK\r\n", "hello");
	CHECK_EQ(rig_wire_session_count(r), 2);
	rig_expect_counts(r, "evicted=1 accepted=3");
	rig_inject_on(r, first, "47");
	CHECK_EQ(rig_counter(r, "late"), 0);
}

HTTP_TEST(http_ends_a_peers_only_connection_for_a_new_one_of_it, "http.connections=1;")
{
	for (unsigned i = 0; i < 3; i++) {
		say_anew(r, GET("/"));
		CHECK_TEXT(heard(r), "HTTP/1.1 200 OK\r\n", "hello");
		CHECK_EQ(rig_wire_session_count(r), 1);
	}
	rig_expect_counts(r, "evicted=2 accepted=3");
}

/* Another browser, on this host, opens a connection with its first bytes. */
static struct xk_session *
say_from(struct rig *r, uint64_t host, const char *text)
{
	rig_answer_control(r, XK_GET_PEER_HOST, &host, sizeof(host));
	return say_anew(r, text);
}

HTTP_TEST(http_takes_a_connection_of_the_peer_that_has_most, "http.connections=4;")
{
	rig_fail_sending(r, -EAGAIN);
	for (unsigned i = 0; i < 3; i++)
		say_from(r, 1, GET("/"));
	say_from(r, 2, "");
	say_from(r, 3, "");
	rig_expect_counts(r, "evicted=1 accepted=5 cut=0");
	CHECK_EQ(rig_wire_session_count(r), 4);
	say_from(r, 1, ""); /* what it has is being served, and all others have no more */
	rig_expect_counts(r, "evicted=1 accepted=5");
	say_from(r, 3, "");
	rig_expect_counts(r, "evicted=2 accepted=6");
	say_from(r, 3, ""); /* has as many as any: its own ends */
	rig_expect_counts(r, "evicted=3 accepted=7");
	say_from(r, 4, "");
	say_from(r, 5, "");
	say_from(r, 6, ""); /* each has one: any that is idle */
	rig_expect_counts(r, "accepted=10 idle=0");
	CHECK_EQ(rig_wire_session_count(r), 4);
}

HTTP_TEST(http_refuses_connections_while_all_are_served, "http.connections=1;")
{
	struct xk_session *first;

	rig_fail_sending(r, -EAGAIN);
	first = say_anew(r, GET("/"));
	say_anew(r, GET("/"));
	rig_expect_counts(r, "accepted=1 evicted=0");
	rig_advance_ms(r, 10001);
	rig_expect_counts(r, "stalled=1");
	CHECK(first != NULL);
	CHECK_EQ(rig_wire_session_count(r), 0);
	rig_fail_sending(r, 0);
	say_anew(r, GET("/"));
	CHECK_TEXT(heard(r), "HTTP/1.1 200 OK\r\n", "hello");
}

/* ---- responses ---- */

static void
check_large(const char *text, size_t len)
{
	const char *body = strstr(text, "\r\n\r\n");
	bool is_good = body != NULL && len - (size_t)(body + 4 - text) == HTTP_PAGE;

	for (size_t i = 0; is_good && i < HTTP_PAGE; i++)
		is_good = body[4 + i] == page_byte(i);
	CHECK(is_good);
}

HTTP_TEST(http_sends_a_large_page_whole, "")
{
	const char *text;
	size_t len;

	say(r, GET("/large"));
	CHECK(rig_sent(r) > 1);
	text = heard_len(r, &len);
	check_large(text, len);
}

static void
announce_room(void *argument)
{
	struct rig *r = argument;
	struct xk_protocol *http = rig_protocol(r, "http");

	http->ops->room(http, rig_wire_newest_session(r));
}

HTTP_TEST(http_goes_on_when_there_is_room, "")
{
	const char *text;
	size_t len;

	rig_fail_sending(r, -EAGAIN);
	say(r, GET("/large") GET("/"));
	rig_advance_ms(r, 9000);
	rig_expect_nothing_sent(r);
	rig_fail_sending(r, 0);
	rig_do(r, announce_room, r);
	text = heard_len(r, &len);
	CHECK_TEXT(text, "HTTP/1.1 200 OK\r\n", "hello");
	rig_expect_counts(r, "stalled=0 responses=2");
}

HTTP_TEST(http_serves_a_browser_that_has_ended_its_side, "")
{
	rig_fail_sending(r, -EAGAIN);
	say(r, GET("/") "GET");
	rig_close_done(r, rig_wire_newest_session(r));
	CHECK_EQ(rig_wire_session_count(r), 1);
	rig_fail_sending(r, 0);
	rig_do(r, announce_room, r);
	CHECK_TEXT(heard(r), "HTTP/1.1 200 OK\r\n", "hello");
	CHECK_EQ(rig_wire_session_count(r), 0);
}

HTTP_TEST(http_goes_on_when_there_are_buffers, "")
{
	const char *text;
	size_t len;

	rig_fail_sending(r, -ENOBUFS);
	say(r, GET("/large"));
	rig_advance_ms(r, 100);
	rig_expect_nothing_sent(r);
	rig_fail_sending(r, 0);
	rig_advance_ms(r, 11);
	text = heard_len(r, &len);
	check_large(text, len);
}

HTTP_TEST(http_gives_up_without_buffers, "")
{
	rig_fail_sending(r, -ENOBUFS);
	say(r, GET("/large"));
	rig_advance_repeatedly_ms(r, 1100, 10);
	rig_expect_counts(r, "stalled=1 responses=0");
	CHECK_EQ(rig_wire_session_count(r), 0);
}

/* Makes TCP say that it has so many bytes which the peer has not taken. */
static void
have_queued(struct rig *r, uint32_t queued)
{
	const struct xk_tcp_info info = { .state = "ESTABLISHED", .queued = queued };

	rig_answer_control(r, XK_TCP_GET_INFO, &info, sizeof(info));
}

HTTP_TEST(http_ends_a_connection_whose_peer_takes_nothing, "")
{
	have_queued(r, 100);
	say(r, GET("/"));
	rig_forget(r);
	rig_advance_ms(r, 10001);
	CHECK_EQ(rig_wire_session_count(r), 1);
	rig_advance_ms(r, 10001);
	CHECK_EQ(rig_wire_session_count(r), 0);
	rig_expect_counts(r, "stalled=1 idle=0");
}

HTTP_TEST(http_waits_for_a_peer_that_takes_little, "")
{
	say(r, "GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
	rig_forget(r);
	rig_close_done(r, rig_wire_newest_session(r));
	CHECK_EQ(rig_wire_session_count(r), 0);
	have_queued(r, 100);
	say_anew(r, "GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
	rig_forget(r);
	rig_close_done(r, rig_wire_newest_session(r));
	for (unsigned left = 90; left > 0; left -= 10) {
		have_queued(r, left);
		rig_advance_ms(r, 10001);
		CHECK_EQ(rig_wire_session_count(r), 1);
	}
	have_queued(r, 0);
	rig_advance_ms(r, 10001);
	CHECK_EQ(rig_wire_session_count(r), 0);
	rig_expect_counts(r, "stalled=0");
}

HTTP_TEST(http_takes_the_buffers_of_peers_that_take_nothing, "")
{
	have_queued(r, 100);
	say_anew(r, GET("/"));
	say_anew(r, GET("/"));
	rig_forget(r);
	rig_fail_sending(r, -ENOBUFS);
	say_anew(r, GET("/"));
	rig_expect_counts(r, "stalled=1");
	CHECK_EQ(rig_wire_session_count(r), 2);
	rig_fail_sending(r, 0);
	rig_advance_ms(r, 10);
	CHECK_TEXT(heard(r), "HTTP/1.1 200 OK\r\n", "hello");
}

HTTP_TEST(http_a_peer_that_gets_no_buffers_does_not_end_the_connections_of_others, "")
{
	uint32_t queued = 100000;

	have_queued(r, queued);
	for (unsigned i = 0; i < 3; i++)
		say_from(r, 2, GET("/"));
	rig_forget(r);
	rig_fail_sending(r, -ENOBUFS); /* TCP gives this peer no more, as it has more than its equal share */
	say_from(r, 1, GET("/large"));
	for (unsigned i = 0; i < 5; i++) {
		have_queued(r, queued -= 10000); /* all take what TCP has */
		rig_advance_ms(r, 10);
	}
	rig_expect_counts(r, "stalled=0");
	CHECK_EQ(rig_wire_session_count(r), 4);
	rig_fail_sending(r, 0);
}

HTTP_TEST(http_goes_on_if_a_peer_that_is_to_make_room_has_done_so, "")
{
	rig_fail_sending(r, -EAGAIN);
	say_anew(r, GET("/"));
	rig_fail_sending(r, -ENOBUFS);
	say_anew(r, GET("/"));
	rig_fail_sending(r, 0);
	rig_advance_ms(r, 10);
	rig_expect_counts(r, "stalled=0 responses=2");
	rig_forget(r);
}

HTTP_TEST(http_ends_a_connection_that_fails, "")
{
	rig_fail_sending(r, -ECONNRESET);
	say(r, GET("/"));
	rig_expect_counts(r, "cut=1 responses=0");
	CHECK_EQ(rig_wire_session_count(r), 0);
	rig_fail_sending(r, 0);
	say_anew(r, GET("/") "GET");
	rig_forget(r);
	rig_close_done(r, rig_wire_newest_session(r));
	rig_expect_counts(r, "cut=2");
	CHECK_EQ(rig_wire_session_count(r), 0);
}

HTTP_TEST(http_bounds_the_bytes_of_pages_on_their_way, "http.pages=150000;")
{
	rig_fail_sending(r, -EAGAIN);
	say_anew(r, GET("/large"));
	rig_fail_sending(r, 0);
	say_anew(r, GET("/large"));
	CHECK_TEXT(heard(r), "HTTP/1.1 503 ", ": busy\n");
	rig_advance_ms(r, 10001);
	rig_expect_counts(r, "stalled=1");
	say_anew(r, GET("/large"));
	CHECK_EQ(rig_counter(r, "responses"), 2);
	rig_forget(r);
}
