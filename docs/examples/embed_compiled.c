/*
 * embed_compiled.c - embed.c with its graph compiled in: it reads no file.
 *
 *     xk compile graphs/udptest.dot -o graph.o
 *     cc embed_compiled.c graph.o -o embed_compiled $(pkg-config --cflags --libs xkernel)
 */
#include <stdio.h>

#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "xkernel/kernel.h"

/* From 10.0.0.1, UDP port 4000, to udptest at 10.0.0.2, which returns every message for port 2001. */
static const uint8_t hello[] = "\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\0"
			       "\x45\0\0\x21\0\0\0\0\x40\x11\x66\xca\x0a\0\0\x01\x0a\0\0\x02"
			       "\x0f\xa0\x07\xd1\0\x0d\0\0hello";

enum { HEADERS = 14 + 20 + 8 };

static void
sent(void *context, const uint8_t *bytes, size_t len)
{
	(void)context;
	printf("%zu bytes came out: %.*s\n", len, len > HEADERS ? (int)len - HEADERS : 0,
	       (const char *)bytes + HEADERS);
}

int
main(void)
{
	struct xk_platform *platform = xk_memory_platform_new(XK_MEMORY_REAL);
	struct xk_port *port = xk_memory_port_new(platform, "port", 0x020000000002, 1500);
	struct xk_kernel_config config = { .name = "echo", .platform = platform, .mode = XK_IPP, .core = -1 };
	struct xk_kernel *kernel = xk_kernel_new(&config);
	const char *const sets[] = { "vnet.address=10.0.0.2/24", NULL };
	struct xk_graph_source source = *xk_program_graph;

	source.sets = sets;
	xk_memory_on_sent(port, sent, NULL);
	xk_kernel_add_port(kernel, port);
	if (xk_graph_compose(&source, kernel, stderr) != 0)
		return 1;
	xk_memory_inject_bytes(port, hello, sizeof(hello) - 1);
	while (xk_kernel_turn(kernel) == 0)
		continue;
	xk_kernel_free(kernel);
	xk_memory_platform_free(platform);
	return 0;
}
