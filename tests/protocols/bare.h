/*
 * bare.h - one protocol between two that do nothing, in a kernel that does not run: for resources that must be freed at
 * the end although nobody closed them. The sanitizer reports leaks.
 */
#ifndef TESTS_BARE_H
#define TESTS_BARE_H

#include <errno.h>

#include "platform/sim/memory.h"
#include "tests/test.h"
#include "xkernel/kernel.h"

struct bare {
	struct xk_platform *platform;
	struct xk_kernel *kernel;
	struct xk_protocol *below, *tested, *above;
};

static inline int
bare_push(struct xk_session *s, struct xk_msg *m)
{
	xk_msg_free(m);
	return 0;
}

static inline int
bare_control(struct xk_session *s, int op, void *argument)
{
	if (op != XK_GET_MAX_PACKET)
		return -ENOTSUP;
	*(uint32_t *)argument = 1500;
	return 0;
}

static const struct xk_session_ops bare_session_ops = {
	.push = bare_push,
	.pop = xk_pop_through,
	.control = bare_control,
};

static inline int
bare_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	  struct xk_participants *participants, struct xk_session **session)
{
	*session = xk_session_new(self, &bare_session_ops, hlp_receive, hlp_type, NULL);
	return *session != NULL ? 0 : -ENOMEM;
}

static inline int
bare_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		 struct xk_participants *participants)
{
	return 0;
}

static inline void
bare_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	xk_msg_free(m);
}

static const struct xk_protocol_ops bare_ops = {
	.open = bare_open,
	.open_enable = bare_open_enable,
	.demux = bare_demux,
};

static const struct xk_protocol_type bare_type = {
	.name = "bare",
	.help = "A fake.",
	.ops = &bare_ops,
	.size = sizeof(struct xk_protocol),
	.offers = XK_ASYNC,
};

static inline void
bare_set(struct xk_protocol *p)
{
	for (const struct xk_setting *s = p->type->settings; s != NULL && s->name != NULL; s++)
		if (s->initial != NULL)
			REQUIRE(xk_setting_parse(s, s->initial, p, NULL, 0) == 0);
}

/* Returns a protocol of this type with its default settings. */
static inline struct bare
bare_new(const char *type)
{
	struct bare b = { .platform = xk_memory_platform_new(XK_MEMORY_VIRTUAL) };
	struct xk_kernel_config config = { .platform = b.platform, .mode = XK_IPP, .core = -1 };
	struct xk_protocol *failed;

	b.kernel = xk_kernel_new(&config);
	REQUIRE(b.kernel != NULL);
	b.below = xk_kernel_add_protocol(b.kernel, &bare_type, "below");
	b.tested = xk_kernel_add_protocol(b.kernel, xk_protocol_type_find(type), type);
	b.above = xk_kernel_add_protocol(b.kernel, &bare_type, "above");
	REQUIRE(b.below != NULL && b.tested != NULL && b.above != NULL);
	bare_set(b.tested);
	REQUIRE(xk_kernel_add_edge(b.kernel, b.tested, b.below, "") != NULL);
	REQUIRE(xk_kernel_add_edge(b.kernel, b.above, b.tested, "") != NULL);
	REQUIRE(xk_kernel_init(b.kernel, &failed) == 0);
	return b;
}

/* Opens a session for the protocol above. */
static inline struct xk_session *
bare_session(const struct bare *b)
{
	struct xk_participants anybody = { .remote.depth = 0 };
	struct xk_session *s;

	REQUIRE(xk_open(b->above, b->above, b->tested, &anybody, &s) == 0);
	return s;
}

static inline void
bare_free(struct bare *b)
{
	xk_kernel_free(b->kernel);
	CHECK_EQ(b->platform->ops->buffers_out(b->platform), 0);
	xk_memory_platform_free(b->platform);
}

#endif
