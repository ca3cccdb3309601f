/* test_dpdk_virtio.c - virtio links between two processes on the DPDK platform (dpdk_peer.h). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/platform/dpdk_peer.h"
#include "tests/platform/lent.h"
#include "xkernel/kernel.h"
#include "xkernel/upi.h"

enum { PATIENCE_MS = 60000 }; /* for a peer to start on a busy machine */
#define PINGS (test_is_long() ? 2000u : 300u)

/* ---- pings ---- */

/* Sends a frame. Returns true if it comes back unchanged. */
static bool
ping_message(struct host *h, struct xk_msg *m, unsigned seed, size_t len)
{
	bool good;

	if (!host_send(h, m)) {
		msg_free(m);
		return false;
	}
	m = host_receive(h);
	good = msg_is(m, seed, len);
	msg_free(m);
	return good;
}

static bool
ping(struct host *h, unsigned seed, size_t len)
{
	return ping_message(h, msg_new(h->platform, seed, len, FRAME_MAX), seed, len);
}

static unsigned
ping_many(struct host *h, unsigned rounds)
{
	unsigned good = 0;

	for (unsigned i = 0; i < rounds; i++)
		good += ping(h, i, HEADER + i * 13 % (FRAME_MAX - HEADER + 1));
	return good;
}

/* ---- the other process ---- */

static struct peer
peer_start(const char *what, const char *end, const char *how, const char *socket)
{
	char role[256];

	snprintf(role, sizeof(role), "%s %s %s %s", what, end, how, socket);
	return peer_begin(role);
}

/* Waits until the port's other end is connected: frames sent before are dropped. */
static bool
host_is_joined(struct host *h)
{
	uint64_t until = now_ns(h) + PATIENCE_NS;

	while (!xk_dpdk_port_is_up(h->port) && now_ns(h) < until)
		usleep(1000);
	return xk_dpdk_port_is_up(h->port);
}

static int
role_ping(struct host *h)
{
	unsigned good = ping_many(h, 200);

	if (!role_is_ready())
		return 3;
	host_close(h);
	return good != 200 ? 5 : h->platform->ops->buffers_out(h->platform) == 0 ? 0 : 4;
}

/* Pings until it is killed. */
static int
role_flood(struct host *h)
{
	ping_many(h, 50);
	if (!role_is_ready())
		return 3;
	for (;;)
		ping_many(h, 1000);
}

static int
role_run(const char *what, const char *end, const char *how, const char *socket)
{
	static struct host h; /* static: reachable at exit, so not reported as a leak */

	if (strstr(how, "nobody") != NULL && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
		return 6;
	if (strstr(how, "nobody") != NULL)
		clearenv();
	if (host_start(&h) != 0 || !host_open(&h, strcmp(end, "server") == 0 ? XK_DPDK_SERVER : XK_DPDK_CLIENT, socket,
					      PATIENCE_MS, strstr(how, "sleep") != NULL)) {
		fprintf(stderr, "peer: %s\n", h.why);
		return 7;
	}
	if (strcmp(what, "ping") == 0)
		return role_ping(&h);
	return strcmp(what, "flood") == 0 ? role_flood(&h) : role_echo(&h, false);
}

/* Runs before main, which would run the tests. */
__attribute__((constructor)) static void
role_choose(void)
{
	const char *role = getenv(peer_variable);
	char what[16], end[16], how[32], socket[128];

	if (role != NULL && sscanf(role, "%15s %15s %31s %127s", what, end, how, socket) == 4)
		exit(role_run(what, end, how, socket));
}

/* Writes a socket path unique to this test and run. */
static const char *
socket_for(char *path, const char *name)
{
	sprintf(path, "/tmp/xk-test-%d-%s.sock", (int)getpid(), name);
	return path;
}

/* Pings from this process to a child that echoes. */
static void
check_virtio(enum xk_dpdk_end end, bool sleeps, const char *how)
{
	const char *other = end == XK_DPDK_SERVER ? "client" : "server";
	char path[128];
	struct host h;
	struct peer p;

	p = peer_start("echo", other, how, socket_for(path, "pair"));
	REQUIRE(host_start(&h) == 0);
	CHECK(host_open(&h, end, path, PATIENCE_MS, sleeps));
	if (h.port == NULL) {
		fprintf(stderr, "%s\n", h.why);
	} else {
		CHECK(h.port->can_sleep);
		CHECK(peer_is_ready(&p));
		CHECK(host_is_joined(&h));
		CHECK_EQ(ping_many(&h, PINGS), PINGS);
	}
	CHECK_EQ(peer_end(&p, SIGTERM), 0);
	host_close(&h);
	CHECK_EQ(h.platform->ops->buffers_out(h.platform), h.began);
	CHECK(access(path, F_OK) != 0);
	xk_dpdk_stop(h.platform);
}

TEST_OF(virtio_client_polls_and_server_polls, check_virtio(XK_DPDK_CLIENT, false, "poll"));
TEST_OF(virtio_client_sleeps_and_server_sleeps, check_virtio(XK_DPDK_CLIENT, true, "sleep"));
TEST_OF(virtio_client_polls_and_server_sleeps, check_virtio(XK_DPDK_CLIENT, false, "sleep"));
TEST_OF(virtio_server_sleeps_and_client_polls, check_virtio(XK_DPDK_SERVER, true, "poll"));
TEST_OF(virtio_server_polls_and_client_sleeps, check_virtio(XK_DPDK_SERVER, false, "sleep"));

TEST(virtio_works_without_privileges_or_environment)
{
	if (geteuid() == 0)
		check_virtio(XK_DPDK_CLIENT, true, "sleep,nobody");
	else
		fprintf(stderr, "\nSKIPPED: only root can become another user\n");
}

/* Chains and views, in both directions: by the virtio end here, by the vhost end in the echo. */
TEST(virtio_carries_chains_and_views)
{
	struct xk_msg *owner, *m;
	char path[128];
	struct host h;
	struct peer p = peer_start("echo", "server", "sleep", socket_for(path, "chains"));

	REQUIRE(host_start(&h) == 0);
	REQUIRE(host_open(&h, XK_DPDK_CLIENT, path, PATIENCE_MS, true));
	for (unsigned piece = 3; piece < 1600; piece += 97)
		CHECK(ping_message(&h, msg_new(h.platform, piece, 1500, piece), piece, 1500));
	owner = msg_new(h.platform, 4, 2000, 2000);
	for (unsigned i = 0; i < 500; i++) {
		m = segment_new(h.platform, 4, 0, 20);
		msg_append(m, h.platform->ops->buffer_view(h.platform, owner));
		m->tail->data += 20;
		m->tail->len = 700 + i;
		m->total = 720 + i;
		REQUIRE(ping_message(&h, m, 4, 720 + i));
	}
	CHECK(msg_is(owner, 4, 2000));
	msg_free(owner);
	CHECK_EQ(peer_end(&p, SIGTERM), 0);
	host_close(&h);
	CHECK_EQ(h.platform->ops->buffers_out(h.platform), h.began);
	xk_dpdk_stop(h.platform);
}

/*
 * Lends bytes to frames of one end. `held`: the device reads them after transmit returns, so the first frame's loan is
 * still open then.
 */
static void
check_virtio_loans(enum xk_dpdk_end end, bool lendable, bool held)
{
	enum { LEN = 1000, FRAMES = 500 };
	char path[128];
	struct host h;
	struct peer p =
		peer_start("echo", end == XK_DPDK_SERVER ? "client" : "server", "sleep", socket_for(path, "loans"));
	_Atomic unsigned ended = 0;
	uint8_t *bytes;

	REQUIRE(host_start(&h) == 0);
	REQUIRE(host_open(&h, end, path, PATIENCE_MS, true));
	CHECK(peer_is_ready(&p));
	CHECK(host_is_joined(&h));
	bytes = lendable ? xk_lendable_new(h.platform, LEN) : malloc(LEN);
	REQUIRE(bytes != NULL);
	for (unsigned i = 0; i < LEN; i++)
		bytes[i] = byte_at(8, HEADER + i);
	for (unsigned i = 1; i <= FRAMES; i++) {
		struct xk_msg *m = segment_new(h.platform, 8, 0, HEADER);

		msg_append(m, xk_msg_lend(h.platform, bytes, LEN, lent_ended, &ended));
		REQUIRE(ping_message(&h, m, 8, HEADER + LEN));
		CHECK(held ? ended < i : ended == i);
	}
	CHECK_EQ(peer_end(&p, SIGTERM), 0);
	host_close(&h);
	CHECK_EQ(ended, FRAMES);
	CHECK_EQ(h.platform->ops->buffers_out(h.platform), h.began);
	if (lendable)
		xk_lendable_free(h.platform, bytes);
	else
		free(bytes);
	xk_dpdk_stop(h.platform);
}

TEST_OF(virtio_client_sends_lent_bytes_that_the_server_can_read, check_virtio_loans(XK_DPDK_CLIENT, true, true));
TEST_OF(virtio_client_copies_lent_bytes_that_the_server_cannot_read, check_virtio_loans(XK_DPDK_CLIENT, false, false));
TEST_OF(virtio_server_sends_lent_bytes_of_any_memory, check_virtio_loans(XK_DPDK_SERVER, false, false));

TEST(virtio_bursts_arrive_in_order)
{
	struct xk_msg *frames[100], *m;
	unsigned sent = 0;
	char path[128];
	struct host h;
	struct peer p = peer_start("echo", "server", "poll", socket_for(path, "bursts"));

	REQUIRE(host_start(&h) == 0);
	REQUIRE(host_open(&h, XK_DPDK_CLIENT, path, PATIENCE_MS, false));
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < 100; i++)
			frames[i] = msg_new(h.platform, i, 60 + i, 80);
		for (sent = 0; sent < 100;)
			sent += h.port->ops->transmit(h.port, frames + sent, 100 - sent);
		for (unsigned i = 0; i < 100; i++) {
			m = host_receive(&h);
			REQUIRE(msg_is(m, i, 60 + i));
			msg_free(m);
		}
	}
	CHECK_EQ(peer_end(&p, SIGTERM), 0);
	host_close(&h);
	CHECK_EQ(h.platform->ops->buffers_out(h.platform), h.began);
	xk_dpdk_stop(h.platform);
}

/* Echoes in this process until p has ended. */
static void
serve_until_end(struct host *h, struct peer *p, int *status)
{
	uint64_t until = now_ns(h) + PATIENCE_NS;
	struct xk_msg *frames[XK_BURST];
	unsigned count, sent;

	*status = -1000;
	while (waitpid(p->pid, status, WNOHANG) == 0 && now_ns(h) < until) {
		count = h->port->ops->receive(h->port, frames, XK_BURST);
		for (sent = 0; sent < count;)
			sent += h->port->ops->transmit(h->port, frames + sent, count - sent);
		h->port->ops->arm(h->port);
		if (count == 0)
			h->platform->ops->sleep(h->platform, now_ns(h) + 1000000);
		h->port->ops->disarm(h->port);
	}
	close(p->output);
}

/* Connects as something other than a virtio device and sends an invalid vhost message. */
static void
send_bogus_message(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char nonsense[600];
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path, path);
	memset(nonsense, 0x5a, sizeof(nonsense));
	CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	CHECK(send(fd, nonsense, sizeof(nonsense), MSG_NOSIGNAL) > 0);
	close(fd);
}

TEST(virtio_server_survives_leaving_killed_and_bogus_clients)
{
	char path[128];
	int status;
	struct host h;
	struct peer p;

	REQUIRE(host_start(&h) == 0);
	REQUIRE(host_open(&h, XK_DPDK_SERVER, socket_for(path, "outlives"), 0, true));
	CHECK(!xk_dpdk_port_is_up(h.port));
	for (unsigned i = 0; i < 4; i++) {
		send_bogus_message(path);
		p = peer_start(i % 2 ? "ping" : "flood", "client", i < 2 ? "sleep" : "poll", path);
		if (i % 2 == 0) {
			struct xk_msg *frames[XK_BURST];
			struct pollfd fd = { .fd = p.output, .events = POLLIN };

			while (poll(&fd, 1, 0) == 0) {
				unsigned count = h.port->ops->receive(h.port, frames, XK_BURST);

				for (unsigned sent = 0; sent < count;)
					sent += h.port->ops->transmit(h.port, frames + sent, count - sent);
				sched_yield();
			}
			CHECK(xk_dpdk_port_is_up(h.port));
			kill(p.pid, SIGKILL);
		}
		serve_until_end(&h, &p, &status);
		CHECK(i % 2 ? WIFEXITED(status) && WEXITSTATUS(status) == 0 : WIFSIGNALED(status));
	}
	for (unsigned i = 0; i < 1000 && xk_dpdk_port_is_up(h.port); i++)
		usleep(10000);
	CHECK(!xk_dpdk_port_is_up(h.port));
	host_close(&h);
	CHECK_EQ(h.platform->ops->buffers_out(h.platform), h.began);
	xk_dpdk_stop(h.platform);
}

/* Allocates every buffer that a protocol can get. */
static void
take_buffers(struct host *h, struct xk_msg **all, unsigned *count)
{
	while (*count < BUFFERS && (all[*count] = h->platform->ops->buffer_new(h->platform)) != NULL)
		(*count)++;
}

/* If a protocol holds all buffers, the port reports it once; later it receives again. */
TEST(port_without_buffers_counts_it)
{
	enum { MESSAGES = 1200 };
	static struct xk_msg *sent[MESSAGES], *all[BUFFERS];
	_Atomic uint64_t drops[XK_DROP_OWN] = { 0 };
	struct xk_protocol protocol = { .name = "port", .drops = drops };
	struct xk_session receiver = { .protocol = &protocol };
	struct xk_kernel_config config = { .name = "starving", .stacks = 2, .core = -1 };
	unsigned count = 0, i;
	char path[128];
	struct host h;
	struct peer p = peer_start("echo", "server", "sleep", socket_for(path, "starved"));

	REQUIRE(host_start(&h) == 0);
	REQUIRE(host_open(&h, XK_DPDK_CLIENT, path, PATIENCE_MS, false));
	config.platform = h.platform;
	protocol.kernel = xk_kernel_new(&config);
	REQUIRE(protocol.kernel != NULL);
	h.port->receiver = &receiver;
	CHECK_EQ(ping_many(&h, 100), 100);
	CHECK_EQ(drops[XK_DROP_NO_BUFFER], 0);
	for (i = 0; i < MESSAGES; i++)
		REQUIRE((sent[i] = msg_new(h.platform, i, 100, 100)) != NULL);
	for (i = 0; i < MESSAGES && drops[XK_DROP_NO_BUFFER] == 0; i++) {
		take_buffers(&h, all, &count);
		CHECK(host_send(&h, sent[i]));
		if ((all[count] = host_receive(&h)) != NULL)
			count++;
	}
	CHECK_EQ(drops[XK_DROP_NO_BUFFER], 1);
	while (i < MESSAGES)
		msg_free(sent[i++]);
	while (count > 0)
		msg_free(all[--count]);
	while (h.port->ops->receive(h.port, all, 1) == 1) /* frames that had to wait */
		msg_free(all[0]);
	CHECK_EQ(ping_many(&h, 100), 100);
	CHECK_EQ(drops[XK_DROP_NO_BUFFER], 1);
	h.port->receiver = NULL;
	xk_kernel_free(protocol.kernel);
	host_close(&h);
	CHECK_EQ(h.platform->ops->buffers_out(h.platform), h.began);
	CHECK_EQ(peer_end(&p, SIGTERM), 0);
	xk_dpdk_stop(h.platform);
}

TEST(virtio_client_survives_a_killed_server_and_finds_the_next)
{
	char path[128];
	struct host h;
	struct peer p = peer_start("echo", "server", "sleep", socket_for(path, "killed"));

	REQUIRE(host_start(&h) == 0);
	REQUIRE(host_open(&h, XK_DPDK_CLIENT, path, PATIENCE_MS, true));
	CHECK_EQ(ping_many(&h, 100), 100);
	CHECK_EQ(peer_end(&p, SIGKILL), -SIGKILL);
	for (unsigned i = 0; i < 1000 && xk_dpdk_port_is_up(h.port); i++)
		h.platform->ops->sleep(h.platform, now_ns(&h) + 10000000);
	CHECK(!xk_dpdk_port_is_up(h.port));
	for (unsigned i = 0; i < 1000; i++)
		CHECK(host_send(&h, msg_new(h.platform, i, 100, 100)));
	CHECK_EQ(port_count(h.port, "no_peer"), 1000);
	host_close(&h);
	CHECK_EQ(h.platform->ops->buffers_out(h.platform), h.began);
	CHECK(access(path, F_OK) == 0); /* left by the killed server */
	p = peer_start("echo", "server", "sleep", path);
	REQUIRE(host_open(&h, XK_DPDK_CLIENT, path, PATIENCE_MS, true));
	CHECK_EQ(ping_many(&h, 100), 100);
	host_close(&h);
	CHECK_EQ(peer_end(&p, SIGTERM), 0);
	xk_dpdk_stop(h.platform);
}

TEST(virtio_client_without_server_gives_up_with_a_message)
{
	char path[128];
	struct host h;

	REQUIRE(host_start(&h) == 0);
	CHECK(!host_open(&h, XK_DPDK_CLIENT, socket_for(path, "none"), 50, true));
	CHECK(strstr(h.why, path) != NULL && strstr(h.why, "no server") != NULL);
	xk_dpdk_stop(h.platform);
}

static void
break_loop(evutil_socket_t fd, short what, void *argument)
{
	event_base_loopbreak(argument);
}

TEST(virtio_client_waiting_for_its_server_can_be_interrupted)
{
	char path[128];
	struct event *event;
	struct host h;

	REQUIRE(host_start(&h) == 0);
	event = evsignal_new(xk_dpdk_event_base(h.platform), SIGUSR1, break_loop, xk_dpdk_event_base(h.platform));
	event_add(event, NULL);
	raise(SIGUSR1);
	CHECK(!host_open(&h, XK_DPDK_CLIENT, socket_for(path, "interrupted"), 3600000, true));
	CHECK_HAS(h.why, "interrupted");
	event_free(event);
	xk_dpdk_stop(h.platform);
}

TEST(virtio_refuses_a_second_server_and_a_second_client)
{
	char path[128];
	struct host h, second;
	struct peer p;

	REQUIRE(host_start(&h) == 0 && host_start(&second) == 0);
	p = peer_start("echo", "server", "sleep", socket_for(path, "second"));
	REQUIRE(host_open(&h, XK_DPDK_CLIENT, path, PATIENCE_MS, true));
	CHECK(!host_open(&second, XK_DPDK_SERVER, path, 0, true));
	CHECK_HAS(second.why, "another server");
	CHECK(!host_open(&second, XK_DPDK_CLIENT, path, 50, true));
	CHECK_HAS(second.why, "another client");
	CHECK_EQ(ping_many(&h, 100), 100);
	host_close(&h);
	CHECK_EQ(peer_end(&p, SIGTERM), 0);
	xk_dpdk_stop(h.platform);
	xk_dpdk_stop(second.platform);
}

TEST(virtio_refuses_a_path_that_is_no_socket_and_keeps_it)
{
	char path[128];
	struct host h;
	int fd = open(socket_for(path, "file"), O_CREAT | O_WRONLY, 0600);

	REQUIRE(fd >= 0 && write(fd, "precious", 8) == 8);
	close(fd);
	REQUIRE(host_start(&h) == 0);
	CHECK(!host_open(&h, XK_DPDK_SERVER, path, 0, true));
	CHECK_HAS(h.why, path);
	CHECK_EQ(access(path, F_OK), 0);
	CHECK(!host_open(&h, XK_DPDK_SERVER, "/nonexistent/directory/x.sock", 0, true));
	CHECK_HAS(h.why, "/nonexistent/directory");
	unlink(path);
	xk_dpdk_stop(h.platform);
}

TEST(socket_names_are_plain_names_or_paths)
{
	char path[108], why[XK_DPDK_WHY], *old = getenv("XDG_RUNTIME_DIR"), *saved = old != NULL ? strdup(old) : NULL;
	char expected[64], longest[300];

	CHECK_EQ(xk_dpdk_socket_path("./here.sock", path, sizeof(path), why, sizeof(why)), 0);
	CHECK_STR(path, "./here.sock");
	setenv("XDG_RUNTIME_DIR", "/nonexistent", 1);
	CHECK_EQ(xk_dpdk_socket_path("word", path, sizeof(path), why, sizeof(why)), 0);
	snprintf(expected, sizeof(expected), "/tmp/xk-%u/xk-word.sock", (unsigned)geteuid());
	CHECK_STR(path, expected);
	unsetenv("XDG_RUNTIME_DIR");
	CHECK_EQ(xk_dpdk_socket_path("word", path, sizeof(path), why, sizeof(why)), 0);
	CHECK_STR(path, expected);
	CHECK_EQ(xk_dpdk_socket_path("", path, sizeof(path), why, sizeof(why)), -EINVAL);
	CHECK_EQ(xk_dpdk_socket_path("a,client=1", path, sizeof(path), why, sizeof(why)), -EINVAL);
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	CHECK_EQ(xk_dpdk_socket_path(longest, path, sizeof(path), why, sizeof(why)), -ENAMETOOLONG);
	if (saved != NULL)
		setenv("XDG_RUNTIME_DIR", saved, 1);
	free(saved);
}
