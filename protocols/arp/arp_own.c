/*
 * arp_own.c - this host's own address: probed if a setting says so, announced, and defended (RFC 5227). arp.c has the
 * protocol.
 */
#include <errno.h>

#include "protocols/arp/arp_private.h"
#include "xkernel/trace.h"

enum { ARP_PROBES = 3 };

/* RFC 5227, 1.1 */
#define ARP_S UINT64_C(1000000000)
#define ARP_PROBE_WAIT_NS ARP_S   /* longest random wait before the first probe */
#define ARP_PROBE_MIN_NS ARP_S    /* least time from probe to probe */
#define ARP_PROBE_SPREAD_NS ARP_S /* random time added to it */
#define ARP_ANNOUNCE_WAIT_NS (2 * ARP_S)
#define ARP_ANNOUNCE_NS (2 * ARP_S) /* from announcement to announcement */
#define ARP_DEFEND_NS (10 * ARP_S)  /* least time from defence to defence */
#define ARP_LEFT_NS (60 * ARP_S)    /* until an address in use elsewhere is probed again */
#define ARP_WARN_MAX_NS (3600 * ARP_S)

static void
arp_own_schedule(struct arp *arp, uint64_t delay_ns)
{
	xk_event_schedule(&arp->own, delay_ns / 1000);
}

/* Starts or stops using the address. The lock is held. */
static void
arp_own_use(struct arp *arp, bool is_used)
{
	arp->network = arp->wanted;
	if (!is_used)
		arp->network.host = 0;
	arp->sent = 0;
	if (arp->user.used != NULL)
		arp->user.used(&arp->user, is_used);
}

void
arp_own_tick(struct xk_event *event, void *argument)
{
	struct arp *arp = argument;
	bool was_used, is_used, announces;
	unsigned sent;

	xk_lock(&arp->lock);
	was_used = arp->network.host != 0;
	is_used = was_used || arp->sent == ARP_PROBES;
	if (is_used && !was_used)
		arp_own_use(arp, true);
	sent = arp->sent++;
	announces = is_used && sent < arp->announcements;
	if (!is_used)
		arp_own_schedule(arp, arp->sent == ARP_PROBES
					      ? ARP_ANNOUNCE_WAIT_NS
					      : ARP_PROBE_MIN_NS + xk_random(&arp->protocol) % ARP_PROBE_SPREAD_NS);
	else if (arp->sent < arp->announcements)
		arp_own_schedule(arp, ARP_ANNOUNCE_NS);
	xk_unlock(&arp->lock);
	/* Hosts that do not answer an announcement of their address, such as Linux, answer a probe. */
	if (!is_used || (announces && sent == 0 && was_used))
		arp_own_send(arp, 0, ARP_COUNT_PROBES);
	if (announces)
		arp_own_send(arp, arp->wanted.host, ARP_COUNT_ANNOUNCEMENTS);
}

int
arp_own_set(struct xk_protocol *self, const struct xk_network *network)
{
	struct arp *arp = (struct arp *)self;

	if (network->bits > 32 || network->host == 0)
		return -EINVAL;
	xk_lock(&arp->lock);
	arp->wanted = *network;
	arp_own_use(arp, !arp->probe);
	if (arp->probe)
		arp_own_schedule(arp, xk_random(&arp->protocol) % ARP_PROBE_WAIT_NS);
	else if (arp->announcements > 0)
		arp_own_schedule(arp, 0);
	xk_unlock(&arp->lock);
	return 0;
}

void
arp_own_announce(struct arp *arp)
{
	xk_lock(&arp->lock);
	if (arp->network.host != 0 && arp->announcements > 0) {
		arp->sent = 0;
		arp_own_schedule(arp, 0);
	}
	xk_unlock(&arp->lock);
}

static void
arp_own_warn(struct arp *arp, uint64_t l, bool leaves)
{
	char host[16];

	arp->warn_gap_ns = arp->warn_gap_ns == 0 ? ARP_DEFEND_NS : arp->warn_gap_ns * 2;
	if (arp->warn_gap_ns > ARP_WARN_MAX_NS)
		arp->warn_gap_ns = ARP_WARN_MAX_NS;
	arp->warn_ns = xk_now_ns(&arp->protocol) + arp->warn_gap_ns;
	if (leaves)
		xk_count(&arp->protocol, ARP_COUNT_LEFT);
	xk_trace(&arp->protocol, XK_TRACE_NONE,
		 "address conflict: %s is also used by the station %02x:%02x:%02x:%02x:%02x:%02x; %s: give one of the "
		 "two another address (here: vnet.address)",
		 xk_host_print(arp->wanted.host, host), (unsigned)(l >> 40), (unsigned)(l >> 32 & 0xff),
		 (unsigned)(l >> 24 & 0xff), (unsigned)(l >> 16 & 0xff), (unsigned)(l >> 8 & 0xff),
		 (unsigned)(l & 0xff),
		 leaves ? "this host does not use it, and probes it again in a minute" : "this host keeps it");
}

/* While the address is probed, another host's probe is a claim, too: neither takes the address. */
bool
arp_own_is_claimed(struct arp *arp, uint64_t link, uint32_t sender, uint32_t target, bool is_request)
{
	uint64_t now_ns = xk_now_ns(&arp->protocol);
	bool is_claimed, is_recent, was_used, leaves, defends;
	uint32_t own;

	xk_lock(&arp->lock);
	own = arp->wanted.host;
	was_used = arp->network.host != 0;
	is_recent = arp->defend_ns > now_ns;
	is_claimed = own != 0 && (sender == own || (!was_used && sender == 0 && target == own && is_request));
	leaves = is_claimed && (!was_used || arp->policy == ARP_LEAVE || (arp->policy == ARP_ONCE && is_recent));
	defends = is_claimed && !leaves && !is_recent;
	if (leaves) {
		arp_own_use(arp, false);
		/* random: the other station may have left the address at the same time */
		arp_own_schedule(arp, ARP_LEFT_NS + xk_random(&arp->protocol) % ARP_PROBE_WAIT_NS);
	}
	if (defends)
		arp->defend_ns = now_ns + ARP_DEFEND_NS;
	if (is_claimed && (now_ns >= arp->warn_ns || (leaves && was_used)))
		arp_own_warn(arp, link, leaves);
	xk_unlock(&arp->lock);
	if (defends)
		arp_own_send(arp, own, ARP_COUNT_DEFENDED);
	return is_claimed;
}
