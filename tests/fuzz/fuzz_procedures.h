/*
 * fuzz_procedures.h - the protocol above SELECT in fuzz_hosts: serves two procedures, and has users that call those of
 * a peer, which may never answer.
 */
#ifndef FUZZ_PROCEDURES_H
#define FUZZ_PROCEDURES_H

#include "xkernel/kernel.h"

extern const struct xk_protocol_type fuzz_procedures_type;

/* Starts the users, if the kernel has the protocol. The kernel must be running. */
void fuzz_procedures_start(struct xk_kernel *kernel);

/* Ends the process unless all users, and so all calls, have ended. */
void fuzz_procedures_check(struct xk_kernel *kernel);

#endif
