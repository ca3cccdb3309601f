/*
 * net_capture.h - a capture of a simulated network: one pcapng file with an interface for each device of each host, and
 * one for each of the hosts' taps (protocol vtap). Everything is for the main thread.
 */
#ifndef NET_CAPTURE_H
#define NET_CAPTURE_H

#include "tools/net/net.h"

/*
 * Creates the file, or empties it, for a net that is open and has not run yet; net_close closes it. path stays the
 * caller's. 0, or OPTIONS_FAILURE and a sentence.
 */
int net_capture_open(struct net *net, const char *path);

/* For xk_sim_watch: writes what has a frame. */
void net_capture_see(struct net_capture *capture, const struct xk_sim_record *record);

/* ---- for net_close; of a capture that is NULL nothing is done ---- */

/* Nothing more is written: the hosts are about to end. */
void net_capture_stop(struct net_capture *capture);

/* When no host is up any more. 0, or OPTIONS_FAILURE and a sentence: not all could be written. */
int net_capture_close(struct net_capture *capture);

#endif
