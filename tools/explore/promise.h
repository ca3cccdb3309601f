/*
 * promise.h - a network's own promises, which must hold when it has come to rest, by the names of its counters:
 *
 *	graph [promise="server.traffic.received <= client.traffic.sent or client.boots > 1; server.udp.bad_checksum == 0"];
 *
 * All promises between semicolons must hold. Each is a comparison of sums (==, !=, <, <=, >, >=), or several, of which
 * one must hold, joined by `or`. A sum adds and subtracts numbers, HOST.PROTOCOL.COUNTER (or a reason to drop), since
 * the host's boot, and HOST.boots.
 */
#ifndef EXPLORE_PROMISE_H
#define EXPLORE_PROMISE_H

#include "tools/net/net.h"

enum { PROMISE_WHY = NET_PROMISE };

/*
 * Checks the network's promises: that they can be read and, if the world is there, that they hold. Returns NULL, or what
 * is wrong, written to why.
 */
const char *promise_check(const struct net *net, char why[PROMISE_WHY]);

#endif
