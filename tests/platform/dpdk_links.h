/*
 * dpdk_links.h - for tests of the links between two processes: a network namespace of the test program with interfaces,
 * and a second process (dpdk_peer.h). If no namespace can be made or no XDP program loaded, the tests that need one
 * print SKIPPED and pass.
 */
#ifndef TESTS_DPDK_LINKS_H
#define TESTS_DPDK_LINKS_H

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/platform/dpdk_peer.h"
#include "tests/platform/lent.h"
#include "tools/host/netns.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"

enum { ROUNDS = 1000, IP_LEN = 20, PIECE = 800 };

/* ---- ports ---- */

static inline bool
link_open(struct host *h, const char *link, const char *device, enum xk_dpdk_end end, bool sleeps)
{
	struct xk_dpdk_port_config config = {
		.link = link, .name = "port", .device = device, .end = end, .wait_ms = 8000
	};

	h->why[0] = '\0';
	h->sleeps = sleeps;
	h->began = h->platform->ops->buffers_out(h->platform);
	h->port = xk_dpdk_open(h->platform, &config, h->why, sizeof(h->why));
	return h->port != NULL;
}

/* Closes the port and checks that all its buffers are back. */
static inline void
link_close(struct host *h)
{
	host_close(h);
	CHECK_EQ(h->platform->ops->buffers_out(h->platform), h->began);
	xk_dpdk_stop(h->platform);
}

/* ---- frames that a bridge forwards ---- */

#define FRAME_TO UINT64_C(0x02000000000b)
#define FRAME_FROM UINT64_C(0x02000000000a)
#define FRAME_TYPE 0x88b5

static inline void
frame_write_header(uint8_t *at)
{
	xk_put48(at, FRAME_TO);
	xk_put48(at + 6, FRAME_FROM);
	xk_put16(at + 12, FRAME_TYPE);
}

/* Makes a frame of len bytes in segments of at most `piece`. */
static inline struct xk_msg *
frame_new(struct host *h, unsigned seed, size_t len, size_t piece)
{
	struct xk_msg *m = msg_new(h->platform, seed, len, piece);

	frame_write_header(m->data);
	return m;
}

static inline bool
frame_is(struct xk_msg *m, unsigned seed, size_t len)
{
	if (m == NULL || m->len < HEADER)
		return false;
	for (size_t i = 0; i < HEADER; i++)
		m->data[i] = byte_at(seed, i);
	return msg_is(m, seed, len);
}

/* Receives one of our frames; discards those of the kernel's bridge. */
static inline struct xk_msg *
frame_receive(struct host *h)
{
	struct xk_msg *m = host_receive(h);

	while (m != NULL && (m->len < HEADER || xk_get48(m->data) != FRAME_TO)) {
		msg_free(m);
		m = host_receive(h);
	}
	return m;
}

static inline bool
ping(struct host *h, unsigned seed, size_t len, size_t piece)
{
	struct xk_msg *m = frame_new(h, seed, len, piece);
	bool good;

	if (!host_send(h, m)) {
		msg_free(m);
		return false;
	}
	m = frame_receive(h);
	good = frame_is(m, seed, len);
	msg_free(m);
	return good;
}

static inline unsigned
ping_many(struct host *h, unsigned rounds)
{
	unsigned good = 0;

	for (unsigned i = 0; i < rounds; i++)
		good += ping(h, i, 60 + i * 13 % (FRAME_MAX - 59), i % 3 == 0 ? 100 : FRAME_MAX);
	return good;
}

/* Pings with lent payload. `ended` counts ended loans: all of them once the port is closed. */
static inline unsigned
ping_lent(struct host *h, unsigned rounds, _Atomic unsigned *ended)
{
	enum { LEN = 1000 };
	static uint8_t bytes[LEN - HEADER];
	unsigned good = 0;

	for (unsigned i = 0; i < rounds; i++) {
		struct xk_msg *m = frame_new(h, 5, LEN, LEN);

		if (i == 0)
			xk_msg_copy_out(m, HEADER, bytes, sizeof(bytes));
		xk_msg_truncate(m, HEADER);
		xk_msg_join(m, xk_msg_lend(h->platform, bytes, sizeof(bytes), lent_ended, ended));
		if (!host_send(h, m)) {
			msg_free(m);
			break;
		}
		m = frame_receive(h);
		good += frame_is(m, 5, LEN);
		msg_free(m);
	}
	return good;
}

/* Returns true once a frame goes there and back; the first may be lost before a bridge has seen both ends come up. */
static inline bool
echo_begins(struct host *h)
{
	for (unsigned i = 0; i < 5; i++)
		if (link_is_up(h, true) && ping(h, i, 100, 100))
			return true;
	return false;
}

/* ---- the other process ---- */

static inline struct peer
peer_start(const char *what, const char *link, const char *device, const char *end, const char *how)
{
	char role[256];

	snprintf(role, sizeof(role), "%s %s %s %s %s", what, link, device, end, how);
	return peer_begin(role);
}

/* Sends and receives until it is killed. */
static inline int
role_flood(struct host *h)
{
	if (!link_is_up(h, true) || !role_is_ready())
		return 3;
	for (unsigned i = 0;; i++) {
		struct xk_msg *m = frame_new(h, i, 1000, FRAME_MAX);

		if (h->port->ops->transmit(h->port, &m, 1) == 0)
			msg_free(m);
		if (h->port->ops->receive(h->port, &m, 1) == 1)
			msg_free(m);
	}
}

/* Checks that an unprivileged user cannot open the link and that the error contains word. */
static inline int
role_open_unprivileged(const char *link, const char *device, const char *word)
{
	static struct host h; /* static: reachable at exit, so not reported as a leak */

	if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0 || host_start(&h) != 0)
		return 6;
	if (link_open(&h, link, device, XK_DPDK_SERVER, false))
		return 7;
	return strstr(h.why, word) != NULL ? 0 : 8;
}

static inline int
role_run(const char *what, const char *link, const char *device, const char *end, const char *how)
{
	static struct host h; /* static: reachable at exit, so not reported as a leak */

	if (strcmp(what, "unprivileged") == 0)
		return role_open_unprivileged(link, device, how);
	if (host_start(&h) != 0 ||
	    !link_open(&h, link, device, strcmp(end, "server") == 0 ? XK_DPDK_SERVER : XK_DPDK_CLIENT,
		       strcmp(how, "sleep") == 0))
		return 7;
	return strcmp(what, "flood") == 0 ? role_flood(&h) : role_echo(&h, strcmp(link, "memif") != 0);
}

static char why_no_network[NETNS_WHY]; /* "": the namespace exists */

/* Runs before main, which would run the tests, and before any thread exists. */
__attribute__((constructor)) static void
role_choose(void)
{
	const char *role = getenv(peer_variable);
	char what[16], link[16], device[128], end[16], how[32];

	if (role != NULL && sscanf(role, "%15s %15s %127s %15s %31s", what, link, device, end, how) == 5)
		exit(role_run(what, link, device, end, how));
	netns_enter(why_no_network, sizeof(why_no_network));
}

/* ---- the network ---- */

static inline bool
skipped(const char *why)
{
	if (why[0] != '\0')
		fprintf(stderr, "SKIPPED: %s\n", why);
	return why[0] != '\0';
}

/* Each test's own pair of joined interfaces: "ethN" and "farN", or the taps "tapN" and "nearN". */
struct cable {
	char names[2][NETNS_NAME];
};

static inline bool
cable_new(struct cable *c, unsigned number)
{
	const char *const names[2] = { c->names[0], c->names[1] };
	char why[NETNS_WHY] = "";

	snprintf(c->names[0], NETNS_NAME, "eth%u", number);
	snprintf(c->names[1], NETNS_NAME, "far%u", number);
	netns_veth(names, number, why, sizeof(why));
	return !skipped(why_no_network) && !skipped(why);
}

static inline bool
cable_new_taps(struct cable *c, unsigned number)
{
	const char *const names[2] = { c->names[0], c->names[1] };
	char why[NETNS_WHY] = "", bridge[NETNS_NAME];

	snprintf(c->names[0], NETNS_NAME, "tap%u", number);
	snprintf(c->names[1], NETNS_NAME, "near%u", number);
	snprintf(bridge, sizeof(bridge), "bridge%u", number);
	netns_taps(names, bridge, why, sizeof(why));
	return !skipped(why_no_network) && !skipped(why);
}

static inline bool
interface_ask(const char *name, unsigned long request, struct ifreq *r)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), error;

	snprintf(r->ifr_name, sizeof(r->ifr_name), "%s", name);
	error = ioctl(fd, request, r);
	close(fd);
	return error == 0;
}

static inline bool
interface_switch(const char *name, bool on)
{
	struct ifreq r = { .ifr_flags = (short)(on ? IFF_UP : 0) };

	return interface_ask(name, SIOCSIFFLAGS, &r);
}

static inline uint64_t
interface_address(const char *name)
{
	struct ifreq r = { .ifr_flags = 0 };

	if (!interface_ask(name, SIOCGIFHWADDR, &r))
		return 0;
	return xk_get48((const uint8_t *)r.ifr_hwaddr.sa_data);
}

/* ---- an echo ---- */

/* Pings from this process to a child that echoes. */
static inline void
check_echo(const char *link, const char *mine, const char *theirs, enum xk_dpdk_end end, bool sleeps, const char *how)
{
	struct peer p = peer_start("echo", link, theirs, end == XK_DPDK_SERVER ? "client" : "server", how);
	_Atomic unsigned ended = 0;
	unsigned lent = 0;
	struct host h;

	REQUIRE(host_start(&h) == 0);
	if (link_open(&h, link, mine, end, sleeps)) {
		CHECK(peer_is_ready(&p));
		CHECK(echo_begins(&h));
		CHECK_EQ(h.port->can_sleep, strcmp(link, "memif") != 0);
		CHECK_EQ(ping_many(&h, ROUNDS), ROUNDS);
		lent = 50;
		CHECK_EQ(ping_lent(&h, lent, &ended), lent);
	} else {
		CHECK_STR(h.why, "");
	}
	CHECK_EQ(peer_end(&p, SIGTERM), 0);
	link_close(&h);
	CHECK_EQ(ended, lent);
}

static inline const char *
socket_for(char *path, const char *name)
{
	sprintf(path, "/tmp/xk-test-links-%d-%s.sock", (int)getpid(), name);
	return path;
}

/* Returns true if this machine allows XDP sockets; otherwise prints the reason. */
static inline bool
xdp_is_possible(const struct cable *c)
{
	struct host h;
	bool possible;

	REQUIRE(host_start(&h) == 0);
	possible = link_open(&h, "af_xdp", c->names[0], XK_DPDK_CLIENT, false);
	if (!possible)
		skipped(h.why);
	link_close(&h);
	return possible;
}

#endif
