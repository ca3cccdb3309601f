/*
 * fuzz_procedures.h - the protocol above SELECT in fuzz_hosts: it serves two procedures, and has users that call those
 * of a peer, which may never answer.
 */
#ifndef FUZZ_PROCEDURES_H
#define FUZZ_PROCEDURES_H

#include "xkernel/kernel.h"

extern const struct xk_protocol_type fuzz_procedures_type;

/* Starts the users, if the kernel has the protocol. The kernel must run. */
void fuzz_procedures_start(struct xk_kernel *kernel);

/* Ends the process unless all users have ended, and so all calls. */
void fuzz_procedures_check(struct xk_kernel *kernel);

#endif
