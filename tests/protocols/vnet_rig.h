/*
 * vnet_rig.h - rig for tests of vnet over real arp, eth and port, below a fake user of type ip; this host is
 * 10.77.0.2/24.
 */
#ifndef TESTS_VNET_RIG_H
#define TESTS_VNET_RIG_H

#include <errno.h>

#include "protocols/virtual/vnet.h"
#include "tests/rig.h"

#define BELOW "port:; eth: port; arp: eth; vnet: eth arp; vnet.address=10.77.0.2/24"
#define GRAPH BELOW "; user/ip: vnet"
#define TWO_LINKS                                                                                                      \
	"port:; port2:; eth: port; eth2: port2; arp: eth; arp2: eth2; vnet: eth arp eth2 arp2;"                        \
	"vnet.address=10.77.0.2/24; vnet.address2=10.78.0.2/16; user/ip: vnet"

#define ME "020000000001"
#define ME2 "020000000002"
#define PEER "0200000000aa"
#define OTHER "0200000000bb"
#define EVERYBODY "ffffffffffff"
#define NOBODY "000000000000"
#define MY_HOST "0a4d0002"
#define PEER_HOST "0a4d0003"

#define REQUEST "0806 0001 0800 06 04 0001"
#define REPLY "0806 0001 0800 06 04 0002"
#define MY_REQUEST EVERYBODY ME REQUEST ME MY_HOST NOBODY PEER_HOST
#define PEER_REPLY ME PEER REPLY PEER PEER_HOST ME MY_HOST
#define FROM_PEER ME PEER "0800"
#define TO_PEER PEER ME "0800"

enum { MY_NUMBER = 0x0a4d0002, PEER_NUMBER = 0x0a4d0003 };

static const struct xk_participants nobody;

/* Opens a session to the peer, which answers ARP. */
static inline struct xk_session *
open_to_peer(struct rig *r)
{
	rig_expect_open_fails(r, rig_to(PEER_NUMBER), -EINPROGRESS);
	rig_expect_sent(r, MY_REQUEST);
	rig_inject(r, PEER_REPLY);
	return rig_opened_session(r);
}

static inline struct xk_participants
lazily(uint64_t host)
{
	return (struct xk_participants){ .remote = { 1, { host } }, .local = { 1, { XK_VNET_LAZY } } };
}

static inline struct xk_participants
from(uint64_t local, uint64_t host)
{
	return (struct xk_participants){ .remote = { 1, { host } }, .local = { 1, { local } } };
}

#endif
