/*
 * layers_private.h - shared by layers.c, layers_rpc.c and layers_tcp.c; see packet.h.
 */
#ifndef CONFORMANCE_LAYERS_PRIVATE_H
#define CONFORMANCE_LAYERS_PRIVATE_H

#include "tests/conformance/packet.h"

bool layer_is_given(const struct packet *packet, unsigned at, int field);

/* Sets a field that the packet leaves out, in the header too. */
void layer_compute(struct packet *packet, unsigned at, int field, uint64_t number, uint8_t *header);

/* Sets a checksum: the right one, or a wrong one if the packet asks for it. */
void layer_compute_sum(struct packet *packet, unsigned at, int field, uint16_t right, uint8_t *header);

/* Returns true if the layer is in an ICMP error's quote, which may be cut off anywhere and is another host's. */
bool layer_is_quoted(const struct packet *packet, unsigned at);

/* Returns the sum of the pseudo-header in IP, of a layer to be built, or of a header that is behind one without options. */
uint32_t layer_pseudo_sum(const struct packet *packet, unsigned at, uint8_t protocol, uint64_t length);
uint32_t layer_pseudo_sum_of(const uint8_t *header, uint8_t protocol, uint64_t length);

/* Loads a field of a TCP option. */
uint64_t layer_load_option(const struct field *field, const uint8_t *header);

/* Returns the layer above `at`; NULL: payload. */
const struct layer_type *layer_above(const struct packet *packet, unsigned at);

/* Returns the number by which layer `at` names its upper layer. */
uint64_t layer_number(const struct packet *packet, unsigned at);

#endif
