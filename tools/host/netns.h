/*
 * netns.h - a network namespace for this process and its children, with interfaces that join two hosts. The kernel
 * removes it with its last process. Functions return 0, or -errno with the reason in why. Call them before creating
 * threads.
 */
#ifndef NETNS_H
#define NETNS_H

#include <stddef.h>

enum { NETNS_WHY = 400, NETNS_NAME = 16 };

/*
 * Enters a new network namespace without IPv6. Users other than root also get a user namespace, in which this process
 * and its children keep the capabilities to create and open interfaces.
 */
int netns_enter(char *why, size_t size);

/* Creates the two ends of cable `number`: up, without offloads. */
int netns_veth(const char *const names[2], unsigned number, char *why, size_t size);

/* Creates two taps joined by a bridge: up, without offloads. */
int netns_taps(const char *const names[2], const char *bridge, char *why, size_t size);

#endif
