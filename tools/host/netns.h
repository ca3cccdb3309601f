/*
 * netns.h - a network that is this process's and its children's alone: a network namespace, and the interfaces in it
 * that join two hosts. It goes with the last process that is in it, however that ends.
 *
 * The functions give 0, or -errno and in `why` a sentence. Main thread, before there are others.
 */
#ifndef NETNS_H
#define NETNS_H

#include <stddef.h>

enum { NETNS_WHY = 400, NETNS_NAME = 16 };

/*
 * Enters a fresh, empty network, without IPv6. Who is not root makes a user namespace for it as well, and keeps there,
 * for its children too, what is needed to make interfaces and to open them.
 */
int netns_enter(char *why, size_t size);

/* Two Ethernet interfaces, joined by cable `number`; up, and nothing is left to offloads. */
int netns_veth(const char *const names[2], unsigned number, char *why, size_t size);

/* Two taps, joined by a bridge of this name; the same. */
int netns_taps(const char *const names[2], const char *bridge, char *why, size_t size);

#endif
