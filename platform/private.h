/* private.h - directories where only this user can make files: for the sockets that hosts meet and are asked at. */
#ifndef XK_PRIVATE_H
#define XK_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Finds the user's run-time directory: the one that $XDG_RUNTIME_DIR names or, where that is missing or not private,
 * /tmp/xk-UID, which is made on demand. 0 or -errno and why.
 */
int private_directory(char *path, size_t size, bool make, char *why, size_t why_size);

/*
 * Finds the directory that all processes of this user share, whatever their environment: /run/xk for root, whose name
 * nobody else can take, /tmp/xk-UID for others. Where that cannot be had, falls back to private_directory. 0 or -errno
 * and why.
 */
int private_fixed_directory(char *path, size_t size, char *why, size_t why_size);

#endif
