/*
 * reached.c - the names of a kernel's counts, and which of its counters were reached: `TYPE.NAME` or `kernel.NAME` a line,
 * for tests/counters.py, which wants every counter reached by some test.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "xkernel/engine/engine.h"
#include "xkernel/protocol.h"

#define REACHED_COUNT(name)                                                                                            \
	{                                                                                                              \
#name, offsetof(struct xk_kernel_stats, name)                                                          \
	}
#define REACHED_HANDOFF(name, reason)                                                                                  \
	{                                                                                                              \
		name, offsetof(struct xk_kernel_stats, handoffs) + (reason) * sizeof(uint64_t)                         \
	}

const struct xk_kernel_count xk_kernel_counts[] = {
	REACHED_COUNT(turns),
	REACHED_COUNT(frames),
	REACHED_COUNT(clock_reads),
	REACHED_COUNT(stack_switches),
	REACHED_COUNT(sleeps),
	REACHED_COUNT(locks),
	REACHED_HANDOFF("handoffs_explicit", XK_HANDOFF_EXPLICIT),
	REACHED_HANDOFF("handoffs_implicit", XK_HANDOFF_IMPLICIT),
	REACHED_HANDOFF("handoffs_time", XK_HANDOFF_TIME),
	REACHED_COUNT(handoffs_event),
	REACHED_COUNT(fallbacks),
	REACHED_COUNT(no_stack),
	REACHED_COUNT(parks),
	REACHED_COUNT(resumes_thread),
	REACHED_COUNT(resumes_driver),
	REACHED_COUNT(overruns),
	REACHED_COUNT(overtaken),
	REACHED_COUNT(stalled),
	REACHED_COUNT(foreign_waits),
	REACHED_COUNT(driver_switches),
	REACHED_COUNT(thread_switches),
	{ NULL, 0 },
};

#if defined(XK_DEBUG)

static void
reached_print(FILE *stream, const char *type, const char *name, uint64_t count)
{
	if (count != 0)
		fprintf(stream, "%s.%s\n", type, name);
}

static void
reached_print_kernel(FILE *stream, struct xk_kernel *kernel)
{
	struct xk_kernel_stats stats;

	xk_kernel_stats(kernel, &stats);
	for (const struct xk_kernel_count *count = xk_kernel_counts; count->name != NULL; count++)
		reached_print(stream, "kernel", count->name, *(uint64_t *)((char *)&stats + count->offset));
}

static void
reached_print_protocol(FILE *stream, const struct xk_protocol *protocol)
{
	const struct xk_protocol_type *type = protocol->type;

	/* a test's fake may have the name of what it stands for */
	if (xk_protocol_type_find(type->name) != type)
		return;
	for (unsigned i = XK_DROP_NONE + 1; i < xk_drop_count(type); i++)
		reached_print(stream, type->name, xk_drop_name(type, i), protocol->drops[i]);
	for (unsigned i = 0; type->counters != NULL && type->counters[i] != NULL; i++)
		reached_print(stream, type->name, type->counters[i], xk_counter(protocol, i));
}

static void
reached_append(const char *path, const char *text, size_t len)
{
	int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	ssize_t written = file < 0 ? -1 : write(file, text, len);

	if (written != (ssize_t)len)
		perror(path);
	if (file >= 0)
		close(file);
}

void
xk_reached_note(struct xk_kernel *kernel)
{
	const char *path = getenv("XK_COUNTERS_FILE");
	char *text = NULL;
	size_t len = 0;
	FILE *stream = path == NULL ? NULL : open_memstream(&text, &len);

	if (stream == NULL)
		return;
	reached_print_kernel(stream, kernel);
	for (const struct xk_protocol *p = kernel->protocols; p != NULL; p = p->next)
		reached_print_protocol(stream, p);
	fclose(stream);
	reached_append(path, text, len);
	free(text);
}

#endif
