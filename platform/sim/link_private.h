/* link_private.h - what the link model needs of its settings. */
#ifndef XK_SIM_LINK_PRIVATE_H
#define XK_SIM_LINK_PRIVATE_H

#include "platform/sim/link.h"

/* Returns how long so many bytes take. */
uint64_t link_bytes_ns(const struct sim_link_config *config, uint64_t bytes);

/* Returns how long a frame occupies its sender's wire, which may have to wait until the processor has written its cells. */
uint64_t link_sent_ns(const struct sim_link_config *config, size_t len);

/* Returns a time and what comes to it for each 1000 of so many bytes. */
static inline uint64_t
link_linear_ns(uint64_t ns, uint64_t kb_ns, size_t len)
{
	return ns + kb_ns * len / 1000;
}

#endif
