/*
 * generated_verbs.h - within a compiled graph (generated.h): from here on the verbs are those of the node XK_NODE.
 */
#ifndef XK_GENERATED_VERBS_H
#define XK_GENERATED_VERBS_H

#define xk_demux(s, m) XK_PASTE(xk_up_, XK_NODE)(s, m)
#define xk_push(s, m) XK_PASTE(xk_down_, XK_NODE)(s, m)
#define xk_pop(s, lls, m, hdr) XK_PASTE(xk_pop_, XK_NODE)(s, lls, m, hdr)
#define xk_pop_past(s, lls, m) XK_PASTE(xk_pop_past_, XK_NODE)(s, lls, m)
#define xk_call(s, m, reply) XK_PASTE(xk_call_, XK_NODE)(s, m, reply)
#define xk_call_async(s, m, call) XK_PASTE(xk_call_async_, XK_NODE)(s, m, call)
#define xk_call_demux(s, m, reply) XK_PASTE(xk_call_up_, XK_NODE)(s, m, reply)
#define xk_call_pop(s, lls, m, hdr, reply) XK_PASTE(xk_call_pop_, XK_NODE)(s, lls, m, hdr, reply)
#define xk_port_transmit(port, owner, m, full) xk_port_transmit_seen(port, owner, m, full)
#define xk_virtual_pass(s, m, way) ((way) == XK_WAY_DOWN ? xk_push((s)->lls, m) : (xk_demux(s, m), 0))

#endif
