/*
 * test_http_threads.c - http under threads: many connections at once, over a link that loses and reorders. Every response is
 * whole, unless its connection is ended within it, as some are.
 */
#include "protocols/tcp/tcp.h"
#include "tests/protocols/http_pages.h"
#include "tests/protocols/pair.h"

enum { BROWSERS = 6, TIMES = 8 };

static const char requests[] = "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"
			       "GET /absent HTTP/1.1\r\nHost: localhost\r\n\r\n"
			       "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/* A thread's connection. */
struct browsing {
	struct browser *browser;
	_Atomic(struct xk_session *) session; /* NULL: none */
	_Atomic uint64_t received;
	struct xk_semaphore ended, begun;
};

struct browser {
	struct xk_protocol protocol;
	struct browsing browsing[BROWSERS];
	struct xk_event begins;
	_Atomic unsigned started;
	_Atomic unsigned whole, ended, failed;
	_Atomic uint64_t len; /* of all responses of a connection */
};

static struct browsing *
browsing_of(struct xk_protocol *self, struct xk_session *session)
{
	struct browser *browser = (struct browser *)self;

	for (unsigned i = 0; i < BROWSERS; i++)
		if (atomic_load(&browser->browsing[i].session) == session)
			return &browser->browsing[i];
	return NULL;
}

static void
browser_demux(struct xk_protocol *self, struct xk_session *session, struct xk_msg *m)
{
	struct browsing *b = browsing_of(self, session);

	if (b != NULL && atomic_fetch_add(&b->received, xk_msg_len(m)) == 0)
		xk_semaphore_signal(&b->begun);
	xk_msg_free(m);
}

static void
browser_close_done(struct xk_protocol *self, struct xk_session *session)
{
	struct browsing *b = browsing_of(self, session);

	if (b != NULL)
		xk_semaphore_signal(&b->ended);
}

/* Uses a connection; an odd one is ended when its first bytes have come. Returns false if it is wrong. */
static bool
browsing_use(struct browsing *b, unsigned number)
{
	struct browser *browser = b->browser;
	struct xk_protocol *self = &browser->protocol;
	struct xk_participants participants = { .remote = { 2, { 0x0a4d0001, 80 } } };
	struct xk_session *session;
	uint64_t len, expected = 0;
	int err = xk_open(self, self, xk_lower(self, 0), &participants, &session);

	if (err != 0)
		return false;
	xk_semaphore_init(&b->ended, self, 0);
	xk_semaphore_init(&b->begun, self, 0);
	atomic_store(&b->received, 0);
	atomic_store(&b->session, session);
	err = xk_push(session, xk_msg_from(xk_platform_of(self), requests, sizeof(requests) - 1));
	if (err == 0)
		err = xk_semaphore_wait(number % 2 == 0 ? &b->ended : &b->begun, 60000000);
	if (number % 2 != 0)
		xk_control(session, XK_TCP_ABORT, NULL);
	atomic_store(&b->session, NULL);
	len = atomic_load(&b->received);
	xk_close(session);
	if (err != 0 || number % 2 != 0)
		return err == 0;
	atomic_fetch_add(&browser->whole, 1);
	return len > HTTP_PAGE && (atomic_compare_exchange_strong(&browser->len, &expected, len) || expected == len);
}

static void
browser_run(void *argument)
{
	struct browser *browser = argument;
	struct browsing *b = &browser->browsing[atomic_fetch_add(&browser->started, 1)];

	b->browser = browser;
	for (unsigned i = 0; i < TIMES; i++)
		atomic_fetch_add(browsing_use(b, i) ? &browser->ended : &browser->failed, 1);
}

static void
browser_begin(struct xk_event *event, void *argument)
{
	struct browser *browser = argument;

	(void)event;
	for (unsigned i = 0; i < BROWSERS; i++)
		REQUIRE(xk_thread_start(browser->protocol.kernel, "browser", browser_run, browser) == 0);
}

static int
browser_init(struct xk_protocol *self)
{
	struct browser *browser = (struct browser *)self;

	xk_event_init(&browser->begins, self->kernel, browser_begin, browser);
	xk_event_schedule(&browser->begins, 0);
	return 0;
}

COMPOSE_UPPER(browser, struct browser, XK_ASYNC, .init = browser_init, .demux = browser_demux,
	      .close_done = browser_close_done);

static const char graph_text[] =
	"digraph web { graph [%s]; http [connections=64, request=256]; vnet [address=\"10.77.0.%u/24\"];"
	"tcp [timeout=\"50ms\", timeout_min=\"5ms\", timeout_max=\"100ms\", time_wait=\"200ms\", send=\"8k\", "
	"receive=\"16k\"];"
	"vdrop [seed=%u, loss=\"1%%\", reorder=\"2%%\", reorder_time=\"1ms\", direction=both];"
	"%s -> tcp [%s]; tcp -> ip -> vdrop -> vnet; vnet -> eth; vnet -> arp; arp -> eth; eth -> port }";

static bool
has_browsed(void *context)
{
	const struct browser *browser = context;

	return atomic_load(&browser->ended) + atomic_load(&browser->failed) == BROWSERS * TIMES;
}

static void
check_browsing(enum xk_mode mode, const char *policy, const char *mark)
{
	struct browser *browser;
	struct pair pair;
	char text[1024];

	pair_begin(&pair, mode);
	for (unsigned i = 0; i < 2; i++) {
		snprintf(text, sizeof(text), graph_text, policy, 1 + i, 7 + i, i == 0 ? "http" : "browser", mark);
		if (i == 1) { /* no http there */
			char *begin = strstr(text, "http ["), *end = strchr(begin, ';');

			memset(begin, ' ', (size_t)(end + 1 - begin));
		}
		compose(pair.kernels[i], i == 0 ? NULL : &browser_type, text);
	}
	xk_kernel_set_pages(pair.kernels[0], &test_pages);
	pair_start(&pair);
	browser = (struct browser *)xk_kernel_find(pair.kernels[1], "browser");
	CHECK(pair_wait(has_browsed, browser));
	if (!has_browsed(browser))
		return; /* what hangs cannot be freed */
	pair_stop(&pair);
	CHECK_EQ(browser->failed, 0);
	CHECK_EQ(browser->whole, BROWSERS * TIMES / 2);
	CHECK_EQ(compose_count(pair.kernels[0], "http", "accepted"), BROWSERS * TIMES);
	CHECK(compose_count(pair.kernels[0], "http", "responses") >= 3 * BROWSERS * TIMES / 2);
	pair_end(&pair);
}

TEST_OF(http_works_under_threads_in_regular_mode, check_browsing(XK_REGULAR, "resume=thread", ""));
TEST_OF(http_works_under_threads_in_ipp_mode, check_browsing(XK_IPP, "resume=driver", ""));
TEST_OF(http_works_under_threads_in_ipp_mode_with_handoffs,
	check_browsing(XK_IPP, "resume=thread", "handoff=explicit"));
