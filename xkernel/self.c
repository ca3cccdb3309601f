/*
 * self.c - who runs here. The only file that reads a thread-local: the code of a shepherd may go on on another thread
 * after any switch, and compilers keep addresses of thread-locals in registers, so these functions stand apart and
 * are never inlined.
 */
#include "xkernel/engine.h"

static _Thread_local struct xk_shepherd *self_running __attribute__((tls_model("initial-exec")));

__attribute__((noinline)) struct xk_shepherd *
xk_self(void)
{
	return self_running;
}

__attribute__((noinline)) void
xk_self_set(struct xk_shepherd *shepherd)
{
	self_running = shepherd;
}
