/* fiber.c - stacks that take turns on one thread. */
#include "xkernel/engine/fiber.h"

#include "xkernel/engine/engine.h"

int
xk_fiber_init(struct xk_fiber *fiber, size_t size, void (*body)(void *argument), void *argument)
{
	*fiber = (struct xk_fiber){ .self = NULL };
	if (xk_context_map(&fiber->stack, size) != 0)
		return -ENOMEM;
	xk_context_prepare(&fiber->stack, body, argument);
	fiber->at = &fiber->stack;
	return 0;
}

void
xk_fiber_fini(struct xk_fiber *fiber)
{
	xk_context_unmap(&fiber->stack);
}

void
xk_fiber_run(struct xk_fiber *fiber, struct xk_context *from)
{
	xk_debug_assert(xk_self() == NULL);
	fiber->to = from;
	xk_self_set(fiber->self);
	xk_context_switch(from, fiber->at);
}

void
xk_fiber_rest(struct xk_fiber *fiber)
{
	struct xk_shepherd *self = xk_self();

	fiber->at = self != NULL && self->detachable ? &self->context : &fiber->stack;
	fiber->self = self;
	xk_self_set(NULL);
	xk_context_switch(fiber->at, fiber->to);
}

void
xk_fiber_adopt(const struct xk_fiber *fiber, struct xk_context *context)
{
	*context = (struct xk_context){ .bottom = fiber->stack.bottom,
					.size = fiber->stack.size,
					.fiber = fiber->stack.fiber };
}
