/*
 * netns.h - a network namespace of this process and its children, and interfaces in
 * it that join two hosts. It goes with the last process in it, however that ends.
 *
 * Functions return 0, or -errno and the reason in why. Main thread, before there are others.
 */
#ifndef NETNS_H
#define NETNS_H

#include <stddef.h>

enum { NETNS_WHY = 400, NETNS_NAME = 16 };

/*
 * Enters a fresh, empty network, without IPv6. Other users than root get a user namespace as
 * well, in which this process and its children keep the capabilities to make and open interfaces.
 */
int netns_enter(char *why, size_t size);

/* Makes two Ethernet interfaces joined by cable `number`: up, without offloads. */
int netns_veth(const char *const names[2], unsigned number, char *why, size_t size);

/* Makes two taps joined by a bridge of this name: up, without offloads. */
int netns_taps(const char *const names[2], const char *bridge, char *why, size_t size);

#endif
