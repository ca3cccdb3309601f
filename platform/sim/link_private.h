/* link_private.h - what the link model needs from its settings. */
#ifndef XK_SIM_LINK_PRIVATE_H
#define XK_SIM_LINK_PRIVATE_H

#include "platform/sim/link.h"

/* The faults of a frame that arrives, and their names, by the sum of their bits. */
enum link_fault_bits { LINK_CORRUPT = 1 << 0, LINK_REORDER = 1 << 1, LINK_DUPLICATE = 1 << 2 };

extern const char *const link_fault_names[];

/* Returns the time that `bytes` bytes take. */
uint64_t link_bytes_ns(const struct sim_link_config *config, uint64_t bytes);

/*
 * Returns the time for which a frame occupies its sender's wire. The wire may wait for cells that the processor has yet
 * to write.
 */
uint64_t link_sent_ns(const struct sim_link_config *config, size_t len);

/* Returns ns plus kb_ns for each 1000 of len bytes. */
static inline uint64_t
link_linear_ns(uint64_t ns, uint64_t kb_ns, size_t len)
{
	return ns + kb_ns * len / 1000;
}

#endif
