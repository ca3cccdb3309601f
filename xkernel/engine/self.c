/*
 * self.c - the shepherd that runs on the calling thread. The only file that names a thread-local: a shepherd's code may
 * continue on another thread after any switch, and compilers keep addresses of thread-locals in registers. These
 * functions are therefore compiled separately and never inlined. process.h reads the thread-local in assembly, which
 * compilers leave alone.
 */
#include "xkernel/engine/engine.h"

#if !defined(__x86_64__) /* there, the thread-local is in switch_x86_64.S */

static _Thread_local struct xk_shepherd *xk_self_running __attribute__((tls_model("initial-exec")));

__attribute__((noinline)) struct xk_shepherd *
xk_self(void)
{
	return xk_self_running;
}

#endif

#ifdef XK_DEBUG
__attribute__((noinline)) void
xk_count_atomic(void)
{
	const struct xk_shepherd *self = xk_self();

	if (self != NULL)
		xk_bump(&self->runner->atomics, 1);
}
#endif

__attribute__((noinline)) void
xk_self_set(struct xk_shepherd *shepherd)
{
	xk_self_running = shepherd;
}
