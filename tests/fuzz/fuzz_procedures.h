/*
 * fuzz_procedures.h - what stands above SELECT in fuzz_hosts: two procedures that are served, and users that call those of a
 * peer, which may never answer.
 */
#ifndef FUZZ_PROCEDURES_H
#define FUZZ_PROCEDURES_H

#include "xkernel/kernel.h"

extern const struct xk_protocol_type fuzz_procedures_type;

/* Starts the users of kernel, which runs, if it has procedures. */
void fuzz_procedures_start(struct xk_kernel *kernel);

/* Ends the process unless every call of those users has ended. */
void fuzz_procedures_check(struct xk_kernel *kernel);

#endif
