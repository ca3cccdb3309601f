/*
 * arp_own.c - this host's own address: probed if a setting says so, announced, and defended (RFC 5227). arp.c has the
 * protocol.
 */
#include <errno.h>
#include <string.h>

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

static const char *const arp_conflict_policies[] = {
	[ARP_DEFEND] = "defend", [ARP_ONCE] = "once", [ARP_LEAVE] = "leave"
};

int
arp_own_init(struct arp *arp, xk_event_handler *tick)
{
	unsigned policy = 0;

	xk_event_init(&arp->own, arp->protocol.kernel, tick, arp);
	while (policy < XK_ARRAY_LENGTH(arp_conflict_policies) &&
	       strcmp(arp->conflict_text, arp_conflict_policies[policy]) != 0)
		policy++;
	if (policy == XK_ARRAY_LENGTH(arp_conflict_policies)) {
		xk_trace(&arp->protocol, XK_TRACE_NONE, "conflict \"%.40s\" is none of defend, once, leave",
			 arp->conflict_text);
		return -EINVAL;
	}
	arp->policy = policy;
	return 0;
}

static void
arp_own_schedule(struct arp *arp, uint64_t delay_ns)
{
	xk_event_schedule(&arp->own, delay_ns / 1000);
}

/* Starts or stops using the address. */
static void
arp_own_use(struct arp *arp, bool is_used, struct arp_todo *todo)
{
	arp->network = arp->wanted;
	if (!is_used)
		arp->network.host = 0;
	arp->phase = is_used ? ARP_USED : ARP_PROBING;
	arp->said = 0;
	todo->is_used = is_used;
	todo->is_unused = !is_used;
}

void
arp_own_set(struct arp *arp, const struct xk_network *network, struct arp_todo *todo)
{
	arp->wanted = *network;
	arp_own_use(arp, !arp->probe, todo);
	if (arp->probe)
		arp_own_schedule(arp, xk_random(&arp->protocol) % ARP_PROBE_WAIT_NS);
	else if (arp->announcements > 0)
		arp_own_schedule(arp, 0);
}

void
arp_own_announce(struct arp *arp)
{
	if (arp->phase != ARP_USED || arp->announcements == 0)
		return;
	arp->said = 0;
	arp_own_schedule(arp, 0);
}

void
arp_own_tick(struct arp *arp, struct arp_todo *todo)
{
	bool was_probed = arp->phase == ARP_PROBING;

	if (was_probed && arp->said < ARP_PROBES) {
		todo->says = ARP_SAYS_PROBE;
		arp_own_schedule(arp, ++arp->said == ARP_PROBES
					      ? ARP_ANNOUNCE_WAIT_NS
					      : ARP_PROBE_MIN_NS + xk_random(&arp->protocol) % ARP_PROBE_SPREAD_NS);
		return;
	}
	if (was_probed)
		arp_own_use(arp, true, todo);
	if (arp->phase == ARP_USED && arp->said < arp->announcements) {
		/* Hosts that do not answer an announcement of their address, such as Linux, answer a probe. */
		todo->probes = arp->said == 0 && !was_probed;
		todo->says = ARP_SAYS_ANNOUNCEMENT;
		if (++arp->said < arp->announcements)
			arp_own_schedule(arp, ARP_ANNOUNCE_NS);
	}
}

bool
arp_own_is_claimed(const struct arp *arp, uint32_t sender, uint32_t target, bool is_request)
{
	uint32_t own = arp->wanted.host;

	if (arp->phase == ARP_PROBING) /* another host's probe is a conflict, too: neither takes the address */
		return own != 0 && (sender == own || (sender == 0 && target == own && is_request));
	return own != 0 && sender == own;
}

void
arp_own_conflict(struct arp *arp, uint64_t link, struct arp_todo *todo)
{
	uint64_t now_ns = xk_now_ns(&arp->protocol);
	bool is_recent = arp->defend_ns > now_ns, was_used = arp->phase == ARP_USED;
	bool leaves = arp->policy == ARP_LEAVE || !was_used;

	if (leaves || (is_recent && arp->policy == ARP_ONCE)) {
		arp_own_use(arp, false, todo);
		arp_own_schedule(arp, ARP_LEFT_NS);
		leaves = true;
	} else if (!is_recent) {
		arp->defend_ns = now_ns + ARP_DEFEND_NS;
		todo->says = ARP_SAYS_DEFENCE;
	}
	if (now_ns < arp->warn_ns && !(leaves && was_used))
		return;
	arp->warn_gap_ns = arp->warn_gap_ns == 0 ? ARP_DEFEND_NS : arp->warn_gap_ns * 2;
	if (arp->warn_gap_ns > ARP_WARN_MAX_NS)
		arp->warn_gap_ns = ARP_WARN_MAX_NS;
	arp->warn_ns = now_ns + arp->warn_gap_ns;
	todo->claimant = link;
	todo->leaves = leaves;
}

void
arp_own_warn(struct arp *arp, const struct arp_todo *todo)
{
	uint64_t l = todo->claimant;
	char host[16];

	xk_trace(&arp->protocol, XK_TRACE_NONE,
		 "address conflict: %s is also used by the station %02x:%02x:%02x:%02x:%02x:%02x; %s: "
		 "give one of the two another address (here: vnet.address)",
		 xk_host_print(arp->wanted.host, host), (unsigned)(l >> 40), (unsigned)(l >> 32 & 0xff),
		 (unsigned)(l >> 24 & 0xff), (unsigned)(l >> 16 & 0xff), (unsigned)(l >> 8 & 0xff),
		 (unsigned)(l & 0xff),
		 todo->leaves ? "this host does not use it, and probes it again in a minute" : "this host keeps it");
}
