/*
 * udp_session.c - how sessions of UDP come to be: what they ask below, their ports, and who has enabled which; see udp.c.
 */
#include <errno.h>

#include "protocols/ip.h"
#include "protocols/udp_private.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"
#include "xkernel/platform.h"

enum {
	UDP_NUMBER = 17, /* on IP, and so in the pseudo-header */
	UDP_LONGEST = 65535,
};

/* ---- what is asked below ---- */

/* The sum of the pseudo-header without its length. */
static uint64_t
udp_pseudo_sum(uint32_t source, uint32_t destination)
{
	uint8_t pseudo[12] = { [9] = UDP_NUMBER };

	xk_put32(pseudo, source);
	xk_put32(pseudo + 4, destination);
	return xk_sum(0, pseudo, sizeof(pseudo));
}

int
udp_ask_hosts(struct xk_session *lls, struct udp_hosts *hosts)
{
	int err = xk_control(lls, XK_GET_MY_HOST, &hosts->local, sizeof(hosts->local));

	if (err >= 0)
		err = xk_control(lls, XK_GET_PEER_HOST, &hosts->remote, sizeof(hosts->remote));
	if (err < 0)
		return err;
	if (xk_control(lls, XK_IP_GET_DESTINATION, &hosts->destination, sizeof(hosts->destination)) < 0)
		hosts->destination = hosts->local;
	return 0;
}

uint64_t
udp_pop_sum(const struct udp_hosts *hosts)
{
	return udp_pseudo_sum((uint32_t)hosts->remote, (uint32_t)hosts->destination);
}

/* How long a message of s may be. 0 or -errno. */
static int
udp_ask_lengths(struct udp_session *s, struct xk_session *lls)
{
	uint32_t max_packet, whole_max, offloads = 0;
	int err = xk_control(lls, XK_GET_MAX_PACKET, &max_packet, sizeof(max_packet));

	if (err >= 0 && max_packet < XK_UDP_HEADER_LEN)
		err = -EMSGSIZE;
	if (err < 0)
		return err;
	if (max_packet > UDP_LONGEST)
		max_packet = UDP_LONGEST;
	s->max_packet = max_packet - XK_UDP_HEADER_LEN;
	/* a port sums up what one frame holds */
	if (xk_control(lls, XK_GET_OFFLOADS, &offloads, sizeof(offloads)) < 0 || (offloads & XK_OFFLOAD_UDP_SUM) == 0 ||
	    xk_control(lls, XK_GET_OPT_PACKET, &whole_max, sizeof(whole_max)) < 0 || whole_max < XK_UDP_HEADER_LEN)
		s->offload_max = 0;
	else
		s->offload_max = whole_max - XK_UDP_HEADER_LEN;
	s->short_end = s->checksum && s->offload_max == 0 && s->max_packet >= XK_SUM_SHORT ? XK_SUM_SHORT : 0;
	return 0;
}

/* ---- sessions ---- */

void
udp_session_set_ports(struct udp_session *s, uint16_t local, uint16_t remote)
{
	s->local = local;
	s->remote = remote;
	xk_put16(s->ports, local);
	xk_put16(s->ports + 2, remote);
}

int
udp_session_new(struct udp *udp, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, struct xk_session *lls,
		struct udp_session **session)
{
	struct udp_hosts hosts;
	struct udp_session *s = (struct udp_session *)xk_session_new(
		&udp->protocol, &udp_session_ops, sizeof(struct udp_session), hlp_receive, hlp_type, lls);
	int err;

	if (s == NULL) {
		xk_close(lls);
		return -ENOMEM;
	}
	s->checksum = udp->checksum;
	err = udp_ask_hosts(lls, &hosts);
	if (err == 0)
		err = udp_ask_lengths(s, lls);
	if (err != 0) {
		xk_close(&s->session);
		return err;
	}
	s->push_sum = udp_pseudo_sum((uint32_t)hosts.local, (uint32_t)hosts.remote);
	s->pop_sum = udp_pop_sum(&hosts);
	*session = s;
	return 0;
}

/* Whether anybody but hlp_receive wants what comes to a port. */
static bool
udp_is_taken(struct udp *udp, uint16_t local, const struct xk_protocol *hlp_receive)
{
	const struct xk_enable *enable = xk_map_resolve(&udp->enables, udp_enable_key(local));

	return enable != NULL && enable->hlp_receive != hlp_receive;
}

static int
udp_bind(struct udp *udp, struct udp_session *s, uint16_t local, uint16_t remote)
{
	int err;

	if (udp_is_taken(udp, local, xk_hlp_receive(&s->session)))
		return -EADDRINUSE;
	udp_session_set_ports(s, local, remote);
	err = xk_session_bind(&s->session, &udp->sessions, udp_key(udp_ports(local, remote), s->session.lls));
	return err == -EEXIST ? -EADDRINUSE : err;
}

/* Binds s to a port that nobody uses towards this peer, and nobody has enabled. */
static int
udp_bind_anonymous(struct udp *udp, struct udp_session *s, uint16_t remote)
{
	enum { UDP_PORTS = XK_UDP_ANONYMOUS_LAST - XK_UDP_ANONYMOUS_FIRST + 1 };
	int err = -EADDRINUSE;

	for (unsigned tries = 0; err == -EADDRINUSE && tries < UDP_PORTS; tries++) {
		uint32_t next = atomic_fetch_add_explicit(&udp->next_anonymous, 1, memory_order_relaxed);
		uint16_t local = (uint16_t)(XK_UDP_ANONYMOUS_FIRST + next % UDP_PORTS);

		if (xk_map_resolve(&udp->enables, udp_enable_key(local)) == NULL)
			err = udp_bind(udp, s, local, remote);
	}
	return err;
}

static bool
udp_is_port(uint64_t port)
{
	return port > 0 && port <= UINT16_MAX;
}

int
udp_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	 struct xk_participants *participants, struct xk_session **session)
{
	struct udp *udp = (struct udp *)self;
	uint64_t remote = xk_participant_pop(&participants->remote), local = xk_participant_pop(&participants->local);
	struct xk_session *lls;
	struct udp_session *s;
	int err;

	if (!udp_is_port(remote) || (!udp_is_port(local) && local != XK_ANY))
		return -EINVAL;
	err = xk_open(self, self, xk_lower(self, 0), participants, &lls);
	if (err == 0)
		err = udp_session_new(udp, hlp_receive, hlp_type, lls, &s);
	if (err != 0)
		return err;
	if (local == XK_ANY)
		err = udp_bind_anonymous(udp, s, (uint16_t)remote);
	else
		err = udp_bind(udp, s, (uint16_t)local, (uint16_t)remote);
	if (err != 0) {
		xk_close(&s->session);
		return err;
	}
	*session = &s->session;
	return 0;
}

/* ---- enabling ---- */

/* The passive key of participants: a local port, of any host. 0 or -errno. */
static int
udp_enable_key_of(struct xk_participants *participants, struct xk_key *key)
{
	uint64_t local = xk_participant_pop(&participants->local);

	if (!udp_is_port(local))
		return -EINVAL;
	if (xk_participant_pop(&participants->local) != XK_ANY || xk_participant_pop(&participants->remote) != XK_ANY)
		return -EOPNOTSUPP;
	*key = udp_enable_key((uint16_t)local);
	return 0;
}

int
udp_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		struct xk_participants *participants)
{
	struct xk_key key;
	int err = udp_enable_key_of(participants, &key);

	return err != 0 ? err : xk_enable_add(&((struct udp *)self)->enables, key, hlp_receive, hlp_type);
}

/* Whether somebody is still willing to have session s. */
static bool
udp_is_wanted(struct xk_session *s, void *context)
{
	struct udp *udp = context;

	return xk_map_resolve(&udp->enables, udp_enable_key(((struct udp_session *)s)->local)) != NULL;
}

int
udp_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		 struct xk_participants *participants)
{
	struct udp *udp = (struct udp *)self;
	struct xk_key key;
	int err = udp_enable_key_of(participants, &key);

	if (err == 0)
		err = xk_enable_remove(&udp->enables, key, hlp_receive, hlp_type);
	if (err == 0)
		xk_session_uncache(self, udp_is_wanted, udp);
	return err;
}
