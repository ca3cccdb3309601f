/*
 * bidctl.h - boot-id agreement: which boot of a host is there now. Questions to BIDCTL, and what it tells; bidctl.c has
 * the protocol.
 *
 * A boot id is 64 bits, never 0, and never the same for two boots of any host. A host tells each other host a different
 * id, from which the other ids cannot be derived. An id in a message is a hint; only an answer to BIDCTL's own question
 * confirms one.
 */
#ifndef XK_BIDCTL_H
#define XK_BIDCTL_H

#include "xkernel/protocol.h"

enum xk_bidctl_control {
	XK_BIDCTL_GET_OWN = 700, /* struct xk_bidctl_peer: host in, boot out */
	XK_BIDCTL_CONFIRM,       /* struct xk_bidctl_peer; may wait */
	XK_BIDCTL_HEARD,         /* struct xk_bidctl_heard; boot 0: any, and it is set to the confirmed one */
	XK_BIDCTL_USE,           /* uint32_t: a host */
	XK_BIDCTL_UNUSE,         /* uint32_t: a host */
	XK_BIDCTL_WATCH,         /* struct xk_bidctl_watcher * */
};

struct xk_bidctl_peer {
	uint32_t host;
	uint64_t boot; /* 0: none is known */
};

/* A message that was heard: the boot that it names, and the session that brought it. */
struct xk_bidctl_heard {
	struct xk_bidctl_peer peer; /* the host and boot that it names */
	struct xk_session *lls;     /* the session that brought it; NULL: do not check where it came from */
};

enum xk_bidctl_change {
	/*
	 * The first boot id of the host that is confirmed here, or the first since it was lost: then it may be the same one
	 * again, or another. Who remembers anything of the host from before compares.
	 */
	XK_BIDCTL_FIRST_CONTACT,
	XK_BIDCTL_REBOOTED, /* another one than before: what was agreed on with that host is void */
	/*
	 * The host has not answered for long, or nobody has used it for long, and is forgotten; it may be alive. The peer's
	 * boot is 0.
	 */
	XK_BIDCTL_LOST,
};

/*
 * A protocol that is told. Whoever watches later is told first: uppers before lowers, so that BID lets a new
 * incarnation's messages up after everybody above it has been told. Changes of one host are told one after the other; of
 * several that come meanwhile only the last one. changed runs as a shepherd and must not wait. The watcher is the
 * protocol's own; it watches until the kernel ends.
 */
struct xk_bidctl_watcher {
	struct xk_protocol *protocol;
	void (*changed)(const struct xk_bidctl_watcher *watcher, enum xk_bidctl_change change,
			const struct xk_bidctl_peer *peer);
	struct xk_bidctl_watcher *next; /* BIDCTL's */
};

/* Returns the id of this boot that host is told. Host 0 is nobody: its id is public. Any context. */
static inline uint64_t
xk_bidctl_own(struct xk_protocol *bidctl, uint32_t host)
{
	struct xk_bidctl_peer peer = { host, 0 };

	xk_control_protocol(bidctl, XK_BIDCTL_GET_OWN, &peer, sizeof(peer));
	return peer.boot;
}

/* watcher is told of every change from now on. init only. */
static inline void
xk_bidctl_watch(struct xk_protocol *bidctl, struct xk_bidctl_watcher *watcher)
{
	xk_control_protocol(bidctl, XK_BIDCTL_WATCH, &watcher, sizeof(watcher));
}

/*
 * The boot id of host: known, or asked for and waited for. A shepherd, holding no lock. 0; -EHOSTUNREACH: nobody answered;
 * -ENOBUFS: too many hosts are known; or as xk_semaphore_wait where the shepherd could not wait.
 */
static inline int
xk_bidctl_confirm(struct xk_protocol *bidctl, uint32_t host, uint64_t *boot)
{
	struct xk_bidctl_peer peer = { host, 0 };
	int status = xk_control_protocol(bidctl, XK_BIDCTL_CONFIRM, &peer, sizeof(peer));

	*boot = peer.boot;
	return status < 0 ? status : 0;
}

/*
 * Reports a message from host that bears the boot id and that lls has brought (NULL: do not check where it came from).
 * Returns
 *	0		it is the confirmed boot, all watchers have been told, and host answered last from there
 *	-EREMCHG	it is the confirmed boot, but the message comes from elsewhere
 *	-EINPROGRESS	it is not the confirmed boot
 *	-EINVAL		host is no single host
 * After -EREMCHG and -EINPROGRESS a question is under way, or was suppressed by a rate limit. A host costs no memory
 * before its first answer. Any shepherd; never waits.
 */
static inline int
xk_bidctl_heard(struct xk_protocol *bidctl, uint32_t host, uint64_t boot, struct xk_session *lls)
{
	struct xk_bidctl_heard heard = { { host, boot }, lls };
	int status = xk_control_protocol(bidctl, XK_BIDCTL_HEARD, &heard, sizeof(heard));

	return status < 0 ? status : 0;
}

/* The boot id of host, if it is confirmed and all watchers have been told; otherwise as xk_bidctl_heard. */
static inline int
xk_bidctl_known(struct xk_protocol *bidctl, uint32_t host, uint64_t *boot)
{
	struct xk_bidctl_heard heard = { { host, 0 }, NULL };
	int status = xk_control_protocol(bidctl, XK_BIDCTL_HEARD, &heard, sizeof(heard));

	*boot = heard.peer.boot;
	return status < 0 ? status : 0;
}

/*
 * While somebody uses host it is asked now and then whether it is still there, and is not forgotten. 0: to be taken back
 * by xk_bidctl_unuse; -ENOBUFS: too many hosts are known. Any shepherd; never waits.
 */
static inline int
xk_bidctl_use(struct xk_protocol *bidctl, uint32_t host)
{
	int status = xk_control_protocol(bidctl, XK_BIDCTL_USE, &host, sizeof(host));

	return status < 0 ? status : 0;
}

static inline void
xk_bidctl_unuse(struct xk_protocol *bidctl, uint32_t host)
{
	xk_control_protocol(bidctl, XK_BIDCTL_UNUSE, &host, sizeof(host));
}

#endif
