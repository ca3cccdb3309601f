/*
 * bidctl.h - boot-id agreement: asks BIDCTL, or a protocol that stands in for it, for the current boot of a host.
 *
 * A boot id is 64 bits, never 0, and never the same for two boots. A host gives each other host a different id, from
 * which the other ids cannot be derived. An id in a message is a hint; only an answer to BIDCTL's own question confirms
 * it.
 */
#ifndef XK_BIDCTL_H
#define XK_BIDCTL_H

#include "protocols/bid/boot.h"
#include "xkernel/protocol.h"

struct xk_bidctl_peer {
	uint32_t host;
	uint64_t boot; /* 0: unknown */
};

enum xk_bidctl_change {
	XK_BIDCTL_FIRST_CONTACT, /* a boot is confirmed: the first, or the first since a loss (perhaps the same) */
	XK_BIDCTL_REBOOTED,      /* another boot than before: agreements with that host are void */
	XK_BIDCTL_LOST,          /* the host is silent, or was forgotten after long disuse; the boot is 0 */
};

/*
 * A protocol that is notified of changes. The latest watcher is notified first: uppers before lowers, so that BID
 * passes a new boot's messages up after all protocols above it have been notified. Changes of one host are reported one
 * after the other; if several come meanwhile, only the last one. `changed` runs as a shepherd and must not wait. The
 * watcher is the protocol's own, and watches until the kernel ends.
 */
struct xk_bidctl_watcher {
	struct xk_protocol *protocol;
	void (*changed)(const struct xk_bidctl_watcher *watcher, enum xk_bidctl_change change,
			const struct xk_bidctl_peer *peer);
	struct xk_bidctl_watcher *next; /* BIDCTL's */
};

/* The type's neighbour_ops, for the functions below. */
struct xk_bidctl_ops {
	uint64_t (*own)(struct xk_protocol *self, uint32_t host);
	void (*watch)(struct xk_protocol *self, struct xk_bidctl_watcher *watcher);
	int (*confirm)(struct xk_protocol *self, uint32_t host, uint64_t *boot);
	int (*check)(struct xk_protocol *self, uint32_t host, uint64_t *boot, struct xk_session *lls);
	int (*use)(struct xk_protocol *self, uint32_t host);
	void (*unuse)(struct xk_protocol *self, uint32_t host);
};

/* Returns whether host may be a single host's address. */
static inline bool
xk_bidctl_is_host(uint64_t host)
{
	return host - (UINT64_C(1) << 24) < UINT64_C(0xe0000000) - (UINT64_C(1) << 24);
}

static inline const struct xk_bidctl_ops *
xk_bidctl_ops(const struct xk_protocol *bidctl)
{
	return bidctl->type->neighbour_ops;
}

/* Returns this boot's id for host; the id for host 0 is public. Any context. */
static inline uint64_t
xk_bidctl_own(struct xk_protocol *bidctl, uint32_t host)
{
	return xk_bidctl_ops(bidctl)->own(bidctl, host);
}

/* Adds a watcher. init only. */
static inline void
xk_bidctl_watch(struct xk_protocol *bidctl, struct xk_bidctl_watcher *watcher)
{
	xk_bidctl_ops(bidctl)->watch(bidctl, watcher);
}

/*
 * Sets *boot to the boot id of host; asks and waits if it is unknown. Returns 0; -EINVAL: host is no single host;
 * -EHOSTUNREACH: no answer; -ENOBUFS: too many hosts are known; or an error of xk_semaphore_wait. A shepherd, holding
 * no lock.
 */
static inline int
xk_bidctl_confirm(struct xk_protocol *bidctl, uint32_t host, uint64_t *boot)
{
	return xk_bidctl_ops(bidctl)->confirm(bidctl, host, boot);
}

/*
 * Reports a message from host with this boot id that came up lls (NULL: do not check its origin). Returns
 *	0		the boot is confirmed, watchers were notified, and host's latest answer came from there
 *	-EREMCHG	it is the confirmed boot, but the message comes from elsewhere
 *	-EINPROGRESS	it is not the confirmed boot
 *	-EINVAL		host is no single host
 * After -EREMCHG and -EINPROGRESS a query is pending, or was suppressed by a rate limit. A host costs no memory before
 * its first answer. Any shepherd; never waits.
 */
static inline int
xk_bidctl_check(struct xk_protocol *bidctl, uint32_t host, uint64_t boot, struct xk_session *lls)
{
	return xk_bidctl_ops(bidctl)->check(bidctl, host, &boot, lls);
}

/* Sets *boot to the boot id of host if that is confirmed and watchers know it. Returns as xk_bidctl_check. */
static inline int
xk_bidctl_known(struct xk_protocol *bidctl, uint32_t host, uint64_t *boot)
{
	*boot = 0;
	return xk_bidctl_ops(bidctl)->check(bidctl, host, boot, NULL);
}

/*
 * Uses host until xk_bidctl_unuse: BIDCTL asks now and then whether it is there, and does not forget it. Returns 0, or
 * -ENOBUFS: too many hosts are known. Any shepherd; never waits.
 */
static inline int
xk_bidctl_use(struct xk_protocol *bidctl, uint32_t host)
{
	return xk_bidctl_ops(bidctl)->use(bidctl, host);
}

static inline void
xk_bidctl_unuse(struct xk_protocol *bidctl, uint32_t host)
{
	xk_bidctl_ops(bidctl)->unuse(bidctl, host);
}

#endif
