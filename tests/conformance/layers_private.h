/*
 * layers_private.h - what the headers of layers.c and layers_rpc.c have in common; see packet.h.
 */
#ifndef CONFORMANCE_LAYERS_PRIVATE_H
#define CONFORMANCE_LAYERS_PRIVATE_H

#include "tests/conformance/packet.h"

bool layer_is_said(const struct packet *packet, unsigned at, int field);

/* Gives a field that is not said its value, in the header, too. */
void layer_compute(struct packet *packet, unsigned at, int field, uint64_t number, uint8_t *header);

/* A checksum: the right one, or (if that was said) one that is wrong. */
void layer_compute_sum(struct packet *packet, unsigned at, int field, uint16_t right, uint8_t *header);

/* NULL: none, what follows is payload. */
const struct layer_type *layer_above(const struct packet *packet, unsigned at);

/* By which the layer `at` names what is above it. */
uint64_t layer_number(const struct packet *packet, unsigned at);

#endif
