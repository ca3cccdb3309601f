/*
 * net_capture.h - a capture of a simulated network: a pcapng file with an interface for each device and each tap
 * (protocol vtap) of each host. Main thread only.
 */
#ifndef NET_CAPTURE_H
#define NET_CAPTURE_H

#include "tools/net/net.h"

/*
 * Creates or empties the file, for a net that is open and has not run yet; net_close
 * closes it. path stays the caller's. Returns 0, or OPTIONS_FAILURE after a message.
 */
int net_capture_open(struct net *net, const char *path);

/* Writes a record's frame, if it has one; for xk_sim_watch. */
void net_capture_see(struct net_capture *capture, const struct xk_sim_record *record);

/* ---- for net_close; NULL is ignored ---- */

/* Ends the capture of taps, before the hosts end. */
void net_capture_stop(struct net_capture *capture);

/* Closes the file after the last host. Returns OPTIONS_FAILURE after a message if not everything was written. */
int net_capture_close(struct net_capture *capture);

#endif
