/* link_private.h - what the link model needs of its settings. */
#ifndef XK_SIM_LINK_PRIVATE_H
#define XK_SIM_LINK_PRIVATE_H

#include "platform/sim/link.h"

/* Sets *kind to the kind called name. Returns false if there is none. */
bool link_kind_find(const char *name, enum sim_link_kind *kind);

/* Returns how long so many bytes take. */
uint64_t link_bytes_ns(const struct sim_link_config *config, uint64_t bytes);

#endif
