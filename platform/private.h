/* private.h - directories in which only this user can create files, for sockets and claims; a probe for sockets. */
#ifndef XK_PRIVATE_H
#define XK_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Finds the user's run-time directory: $XDG_RUNTIME_DIR, or /tmp/xk-UID if that is missing, not private or too long for
 * a socket's path. Creates /tmp/xk-UID if needed and `make` is set. Returns 0, or -errno with the reason in why. Any
 * thread.
 */
int private_directory(char *path, size_t size, bool make, char *why, size_t why_size);

/*
 * Finds the directory that all processes of this user share, whatever their environment, and creates it if needed:
 * /run/xk for root, because no other user can take that name, or /tmp/xk-UID. Falls back to private_directory. Returns
 * 0, or -errno with the reason in why. Any thread.
 */
int private_fixed_directory(char *path, size_t size, char *why, size_t why_size);

/*
 * Connects to the Unix socket at path without blocking, and disconnects. Returns 0, or -errno: -ENOENT; -ECONNREFUSED
 * if no process has it open; -EAGAIN if its owner is too busy to accept. Any thread.
 */
int private_probe(const char *path, int type);

/* Writes the directory of DPDK's own sockets, by DPDK's rules. It may not exist. Any thread. */
void private_dpdk_directory(char *path, size_t size);

#endif
