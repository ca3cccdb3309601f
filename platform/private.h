/* private.h - directories in which only this user can create files, for sockets and claims; and a probe of sockets. */
#ifndef XK_PRIVATE_H
#define XK_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Finds the user's run-time directory: $XDG_RUNTIME_DIR or, if that is missing, not private or too long for the path of
 * a socket in it, /tmp/xk-UID. If `make` is set, makes /tmp/xk-UID if it is missing. Returns 0, or -errno with the
 * reason in why. Any thread.
 */
int private_directory(char *path, size_t size, bool make, char *why, size_t why_size);

/*
 * Finds the directory that all processes of this user share, whatever their environment, and makes it if it is missing:
 * /run/xk for root, since no other user can take that name, and /tmp/xk-UID for others. Falls back to private_directory
 * if that fails. Returns 0, or -errno with the reason in why. Any thread.
 */
int private_fixed_directory(char *path, size_t size, char *why, size_t why_size);

/*
 * Connects to the Unix socket at path, without waiting, and hangs up. Returns 0, or -errno: -ENOENT;
 * -ECONNREFUSED if no process has it open; -EAGAIN if its owner is too busy to accept. Any thread.
 */
int private_probe(const char *path, int type);

/* Finds the directory of DPDK's own sockets, where DPDK does. It may be missing. Any thread. */
void private_dpdk_directory(char *path, size_t size);

#endif
