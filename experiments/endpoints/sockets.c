/*
 * sockets.c - pingpong's round trips (protocols/test/pingpong.c) between two programs on Linux's own protocols, over
 * blocking sockets: TCP, UDP, and raw Ethernet frames of LLP's type. Each end decrements the count in the message; the
 * client reads its clock when the count is full and when it is 0. With --stamps it also reads the kernel's stamps of
 * each message sent and each answer received: the time between them is spent away from the client, on the link and at
 * the server. A stream's run is one-way messages over TCP, the last of which is answered. Its average is the time
 * between two messages.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <linux/if_packet.h>
#include <linux/net_tstamp.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "tools/json.h"
#include "tools/options.h"
#include "xkernel/base.h"
#include "xkernel/bytes.h"

enum {
	SOCKETS_TYPE = 0x6008,
	SOCKETS_PORT = 2009,
	SOCKETS_MIN = 24, /* count and clock, as pingpong's header */
	SOCKETS_MAX = 1500,
	SOCKETS_LONGEST = 1400,     /* bytes of a message, except a stream's */
	SOCKETS_STREAM_MAX = 65536, /* bytes of a stream's message */
	SOCKETS_REPEATS = 1000,
	SOCKETS_TRIES = 100,     /* attempts to connect, a twentieth of a second each */
	SOCKETS_UNSTAMPED = 500, /* round trips to wait for the first stamps, one per 10 ms */
};

enum sockets_kind { SOCKETS_TCP, SOCKETS_UDP, SOCKETS_PACKET, SOCKETS_STREAM };
static const char *const sockets_kinds[] = { "tcp", "udp", "packet", "stream", NULL };

struct sockets_options {
	unsigned kind;
	const char *client, *dev;
	uint64_t size, rounds, repeats;
	bool stamps, json;
};

static const struct options_option sockets_options[] = {
	OPTION(CHOICE, struct sockets_options, kind, "kind", "KIND", "tcp, udp, packet or stream (tcp)",
	       .choices = sockets_kinds),
	OPTION(TEXT, struct sockets_options, client, "client", "ADDRESS",
	       "be a client of this server's address (packet: any address)"),
	OPTION(TEXT, struct sockets_options, dev, "dev", "NAME", "interface for packet sockets"),
	OPTION(NUMBER, struct sockets_options, size, "size", "N",
	       "bytes of a message, at most 1400 unless it is a stream's (32)", .min = SOCKETS_MIN,
	       .max = SOCKETS_STREAM_MAX),
	OPTION(NUMBER, struct sockets_options, rounds, "rounds", "N",
	       "round trips of a run, or messages of a stream's, the same at both ends (1500)", .min = 1,
	       .max = 1000000),
	OPTION(NUMBER, struct sockets_options, repeats, "repeats", "N", "runs; SIGINT ends them (5)", .min = 1,
	       .max = SOCKETS_REPEATS),
	OPTION(FLAG, struct sockets_options, stamps, "stamps", NULL,
	       "also measure the time away from the client (udp, packet)"),
	OPTION(FLAG, struct sockets_options, json, "json", NULL, "JSON on standard output"),
	{ .name = NULL },
};

static const struct options_program sockets_program = {
	.name = "sockets",
	.usage = "[OPTION]...",
	.about = "Round trips between two programs over blocking sockets. Without --client, a server for one client.",
	.options = sockets_options,
};

static volatile sig_atomic_t sockets_end;

static void
sockets_interrupt(int number)
{
	(void)number;
	sockets_end = 1;
}

/* ---- an end of the conversation ---- */

struct sockets {
	enum sockets_kind kind;
	int fd;
	size_t size;
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_ll link;
	} peer;
	socklen_t peer_len;
	uint64_t *away_ns; /* time away, by round trip of a run; NULL: not measured */
};

static int
sockets_fail(const char *what)
{
	fprintf(stderr, "sockets: %s: %s\n", what, xk_error(errno));
	return -1;
}

/* Reads a whole message. Returns false on failure, or if a signal ends the program. */
static bool
sockets_receive(struct sockets *s, uint8_t *bytes)
{
	size_t got = 0;
	ssize_t n;

	if (s->kind != SOCKETS_TCP) {
		do {
			s->peer_len = sizeof(s->peer);
			n = recvfrom(s->fd, bytes, SOCKETS_MAX, 0, &s->peer.any, &s->peer_len);
		} while (n >= 0 && (size_t)n < s->size && !sockets_end);
		return n >= (ssize_t)s->size;
	}
	while (got < s->size) {
		n = recv(s->fd, bytes + got, s->size - got, 0);
		if (n <= 0)
			return false;
		got += (size_t)n;
	}
	return true;
}

static bool
sockets_send(const struct sockets *s, const uint8_t *bytes)
{
	if (s->kind == SOCKETS_TCP || s->kind == SOCKETS_STREAM)
		return send(s->fd, bytes, s->size, MSG_NOSIGNAL) == (ssize_t)s->size;
	return sendto(s->fd, bytes, s->size, 0, &s->peer.any, s->peer_len) == (ssize_t)s->size;
}

static uint64_t
sockets_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- time away from the client ---- */

/*
 * Reads a message from the socket or its queue of stamps. Stores the kernel's stamp (0: none). Returns the length, or
 * -1.
 */
static ssize_t
sockets_read_stamped(struct sockets *s, uint8_t *bytes, int flags, uint64_t *stamp_ns)
{
	union {
		struct cmsghdr first;
		uint8_t room[256];
	} control;
	struct iovec all = { bytes, SOCKETS_MAX };
	struct msghdr m = {
		.msg_iov = &all, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
	};
	struct scm_timestamping stamps;
	ssize_t n;

	*stamp_ns = 0;
	if (flags == 0) {
		m.msg_name = &s->peer;
		m.msg_namelen = sizeof(s->peer);
	}
	n = recvmsg(s->fd, &m, flags);
	if (n >= 0 && flags == 0)
		s->peer_len = m.msg_namelen;
	for (struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&m); c != NULL; c = CMSG_NXTHDR(&m, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPING) {
			memcpy(&stamps, CMSG_DATA(c), sizeof(stamps));
			*stamp_ns = (uint64_t)stamps.ts[0].tv_sec * 1000000000 + (uint64_t)stamps.ts[0].tv_nsec;
		}
	return n;
}

/*
 * Like sockets_receive, for UDP and packet sockets. Also stores the time since the previous message left, if both are
 * stamped.
 */
static bool
sockets_receive_stamped(struct sockets *s, uint8_t *bytes, unsigned *count)
{
	uint8_t none[SOCKETS_MAX];
	uint64_t left_ns = 0, arrived_ns, later_ns;
	ssize_t n;

	do {
		n = sockets_read_stamped(s, bytes, 0, &arrived_ns);
	} while (n >= 0 && (size_t)n < s->size && !sockets_end);
	/* A server inside the kernel sends the same frame back, which is stamped again. */
	while (sockets_read_stamped(s, none, MSG_ERRQUEUE | MSG_DONTWAIT, &later_ns) >= 0)
		if (left_ns == 0)
			left_ns = later_ns;
	if (left_ns != 0 && arrived_ns > left_ns)
		s->away_ns[(*count)++] = arrived_ns - left_ns;
	return n >= (ssize_t)s->size;
}

static int
sockets_compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Makes the kernel stamp sent and received messages. */
static int
sockets_enable_stamps(struct sockets *s, uint64_t rounds)
{
	int kinds = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE |
		    SOF_TIMESTAMPING_OPT_TSONLY;

	s->away_ns = malloc(rounds * sizeof(*s->away_ns));
	if (s->away_ns == NULL || setsockopt(s->fd, SOL_SOCKET, SO_TIMESTAMPING, &kinds, sizeof(kinds)) != 0)
		return sockets_fail("--stamps");
	return 0;
}

/* ---- opening ---- */

/* Notifies the parent that the server is ready. */
static void
sockets_announce(void)
{
	puts("serving");
	fflush(stdout);
}

/* The first frame is a broadcast; later ones go to the sender of its answer. */
static int
sockets_open_packet(struct sockets *s, const char *dev)
{
	s->peer.link = (struct sockaddr_ll){ .sll_family = AF_PACKET,
					     .sll_protocol = htons(SOCKETS_TYPE),
					     .sll_ifindex = (int)if_nametoindex(dev == NULL ? "" : dev),
					     .sll_halen = ETH_ALEN };
	memset(s->peer.link.sll_addr, 0xff, ETH_ALEN);
	s->peer_len = sizeof(s->peer.link);
	s->fd = socket(AF_PACKET, SOCK_DGRAM, htons(SOCKETS_TYPE));
	if (s->fd < 0 || bind(s->fd, &s->peer.any, s->peer_len) != 0)
		return sockets_fail("a packet socket on the interface --dev (needs root)");
	return 0;
}

static int
sockets_connect(struct sockets *s)
{
	int one = 1;

	for (unsigned i = 0; i < SOCKETS_TRIES && !sockets_end; i++) {
		s->fd = socket(AF_INET, SOCK_STREAM, 0);
		if (s->fd >= 0 && connect(s->fd, &s->peer.any, s->peer_len) == 0)
			return setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		if (s->fd >= 0)
			close(s->fd);
		usleep(50000);
	}
	return sockets_fail("no server at --client; start this program there first, without --client");
}

static int
sockets_accept(struct sockets *s, const struct sockaddr_in *here)
{
	int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);

	if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
	    bind(listener, (const struct sockaddr *)here, sizeof(*here)) != 0 || listen(listener, 1) != 0)
		return sockets_fail("a server's socket; only one server can run at a time");
	sockets_announce();
	s->fd = accept(listener, NULL, NULL);
	close(listener);
	if (s->fd < 0)
		return sockets_end ? -1 : sockets_fail("accept");
	return setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static int
sockets_open(struct sockets *s, const struct sockets_options *o)
{
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons(SOCKETS_PORT) };

	if (s->kind == SOCKETS_PACKET)
		return sockets_open_packet(s, o->dev);
	s->peer.in = here;
	s->peer_len = sizeof(s->peer.in);
	if (o->client != NULL && inet_pton(AF_INET, o->client, &s->peer.in.sin_addr) != 1) {
		errno = EINVAL;
		return sockets_fail("--client takes an IPv4 address");
	}
	if (s->kind == SOCKETS_TCP || s->kind == SOCKETS_STREAM)
		return o->client != NULL ? sockets_connect(s) : sockets_accept(s, &here);
	s->fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (s->fd < 0 || (o->client == NULL && bind(s->fd, (const struct sockaddr *)&here, sizeof(here)) != 0))
		return sockets_fail("a UDP socket");
	return 0;
}

/* ---- server and client ---- */

static void
sockets_serve(struct sockets *s)
{
	uint8_t bytes[SOCKETS_MAX];

	while (!sockets_end && sockets_receive(s, bytes)) {
		uint32_t count = xk_get32(bytes + 4);

		if (count == 0)
			continue;
		xk_put32(bytes + 4, count - 1);
		if (!sockets_send(s, bytes))
			return;
	}
}

/* Reads the client's stream and answers each run. */
static void
sockets_serve_stream(struct sockets *s, uint64_t rounds)
{
	static uint8_t bytes[SOCKETS_STREAM_MAX];
	uint64_t left = rounds * s->size;
	ssize_t n;

	while (!sockets_end && (n = recv(s->fd, bytes, left < sizeof(bytes) ? left : sizeof(bytes), 0)) > 0) {
		left -= (uint64_t)n;
		if (left > 0)
			continue;
		left = rounds * s->size;
		if (send(s->fd, bytes, 1, MSG_NOSIGNAL) != 1)
			return;
	}
}

/* Returns the average time between a run's messages in nanoseconds, or 0 if the run was cut short. */
static uint64_t
sockets_stream(struct sockets *s, uint64_t rounds)
{
	static uint8_t bytes[SOCKETS_STREAM_MAX];
	uint64_t begun_ns = sockets_now_ns();
	int no = 0, yes = 1;

	setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &no, sizeof(no)); /* Linux may coalesce short messages */
	for (uint64_t i = 0; i < rounds; i++)
		if (sockets_end || !sockets_send(s, bytes))
			return 0;
	setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)); /* sends the rest */
	return recv(s->fd, bytes, 1, 0) == 1 ? (sockets_now_ns() - begun_ns) / rounds : 0;
}

/*
 * Returns a run's average round trip in nanoseconds, or 0 if it was cut short. Stores the median time away (0: none).
 */
static uint64_t
sockets_run(struct sockets *s, uint64_t rounds, uint64_t *away_ns)
{
	uint8_t bytes[SOCKETS_MAX] = { 0 };
	uint64_t begun_ns = sockets_now_ns();
	unsigned count = 0;

	xk_put32(bytes + 4, (uint32_t)(2 * rounds));
	xk_put64(bytes + 8, begun_ns);
	while (xk_get32(bytes + 4) > 0) {
		if (sockets_end || !sockets_send(s, bytes) ||
		    !(s->away_ns == NULL ? sockets_receive(s, bytes) : sockets_receive_stamped(s, bytes, &count)))
			return 0;
		xk_put32(bytes + 4, xk_get32(bytes + 4) - 1);
	}
	begun_ns = xk_get64(bytes + 8);
	if (count > 0)
		qsort(s->away_ns, count, sizeof(*s->away_ns), sockets_compare);
	*away_ns = count == 0 ? 0 : s->away_ns[count / 2];
	return (sockets_now_ns() - begun_ns) / rounds;
}

/* Waits for the first stamps: the kernel enables them asynchronously, which takes a while on a busy machine. */
static int
sockets_await_stamps(struct sockets *s)
{
	const struct timespec pause = { .tv_nsec = 10000000 };
	uint64_t away_ns;

	for (unsigned i = 0; i < SOCKETS_UNSTAMPED && sockets_run(s, 1, &away_ns) != 0; i++) {
		if (away_ns != 0)
			return 0;
		nanosleep(&pause, NULL);
	}
	return sockets_fail("no message was stamped; measure without --stamps");
}

static void
sockets_print(const struct sockets_options *o, const uint64_t *averages_ns, const uint64_t *aways_ns, unsigned count)
{
	struct json json;

	for (unsigned i = 0; i < count && !o->json; i++)
		printf(o->stamps ? "%llu ns, %llu of them away\n" : "%llu ns\n", (unsigned long long)averages_ns[i],
		       (unsigned long long)aways_ns[i]);
	if (!o->json)
		return;
	json_begin(&json, stdout);
	json_object(&json, NULL);
	json_string(&json, "kind", sockets_kinds[o->kind]);
	json_uint(&json, "size", o->size);
	json_uint(&json, "rounds", o->rounds);
	json_array(&json, "averages_ns");
	for (unsigned i = 0; i < count; i++)
		json_uint(&json, NULL, averages_ns[i]);
	json_close(&json);
	if (o->stamps) {
		json_array(&json, "aways_ns");
		for (unsigned i = 0; i < count; i++)
			json_uint(&json, NULL, aways_ns[i]);
		json_close(&json);
	}
	json_close(&json);
	json_end(&json);
}

int
main(int argc, char **argv)
{
	struct sockets_options o = { .size = 32, .rounds = 1500, .repeats = 5 };
	struct sigaction interrupt = { .sa_handler = sockets_interrupt }; /* interrupts a blocking call */
	struct timeval patience = { .tv_sec = 5 };
	uint64_t averages_ns[SOCKETS_REPEATS], aways_ns[SOCKETS_REPEATS];
	struct options_texts operands;
	unsigned count = 0;
	struct sockets s;
	int status = options_parse(&sockets_program, argc, argv, &o, &operands);

	if (status != OPTIONS_GO)
		return status;
	if (o.kind != SOCKETS_STREAM && o.size > SOCKETS_LONGEST) {
		fprintf(stderr, "sockets: --size: at most %d bytes, unless it is a stream's\n", SOCKETS_LONGEST);
		return OPTIONS_MISUSE;
	}
	s = (struct sockets){ .kind = (enum sockets_kind)o.kind, .size = o.size };
	sigaction(SIGINT, &interrupt, NULL);
	sigaction(SIGTERM, &interrupt, NULL);
	if (sockets_open(&s, &o) != 0)
		return OPTIONS_FAILURE;
	if (o.client == NULL) {
		if (s.kind == SOCKETS_UDP || s.kind == SOCKETS_PACKET)
			sockets_announce();
		if (s.kind == SOCKETS_STREAM)
			sockets_serve_stream(&s, o.rounds);
		else
			sockets_serve(&s);
		return OPTIONS_SUCCESS;
	}
	setsockopt(s.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)); /* ends the wait for a lost message */
	o.stamps = o.stamps && (s.kind == SOCKETS_UDP || s.kind == SOCKETS_PACKET);
	if (o.stamps && (sockets_enable_stamps(&s, o.rounds) != 0 || sockets_await_stamps(&s) != 0))
		return OPTIONS_FAILURE;
	while (count < o.repeats &&
	       (averages_ns[count] = s.kind == SOCKETS_STREAM ? sockets_stream(&s, o.rounds)
							      : sockets_run(&s, o.rounds, &aways_ns[count])) != 0)
		count++;
	sockets_print(&o, averages_ns, aways_ns, count);
	if (count == 0 && !sockets_end)
		sockets_fail(errno == EAGAIN ? "a message was lost; is the server still running?" : "the first run");
	return count > 0 ? OPTIONS_SUCCESS : OPTIONS_FAILURE;
}
