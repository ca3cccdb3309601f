/*
 * embed_lend.c - a program's own protocol, which answers each datagram with one of the program's pages, without copying
 * it.
 *
 *     cc embed_lend.c -o embed_lend $(pkg-config --cflags --libs xkernel)
 */
#include <stdio.h>
#include <string.h>

#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "xkernel/kernel.h"

/* ---- the page ---- */

static char page[3000];
static bool is_lent;

static void
page_given_back(void *context)
{
	(void)context;
	is_lent = false;
	printf("the page is the program's again\n");
}

/* ---- the protocol ---- */

static int
pager_init(struct xk_protocol *self)
{
	struct xk_participants participants = { .remote.depth = 0 };

	xk_participant_push(&participants.local, 2007);
	return xk_open_enable(self, self, xk_lower(self, 0), &participants);
}

/* Answers m with the page, unless that is still lent. */
static void
pager_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct xk_msg *answer = NULL;

	if (!is_lent)
		answer = xk_msg_lend(m->platform, page, sizeof(page), page_given_back, NULL);
	if (answer == NULL) {
		xk_drop(self, m, XK_DROP_NO_BUFFER);
		return;
	}
	xk_msg_free(m);
	is_lent = true;
	xk_push(lls, answer);
}

static const struct xk_protocol_ops pager_ops = { .init = pager_init, .demux = pager_demux };

static const struct xk_protocol_type pager_type = { .name = "pager",
						    .help = "Answers each datagram with a page.",
						    .ops = &pager_ops,
						    .size = sizeof(struct xk_protocol),
						    .lowers = XK_ROLES({ "transport", XK_ASYNC, NULL,
									 "carries datagrams to ports" }) };

/* ---- the program ---- */

static const char graph[] = "digraph pages { pager -> udp; udp -> ip; ip -> vnet; vnet -> eth; vnet -> arp;"
			    "arp -> eth; eth -> port; vnet [address=\"10.0.0.2/24\"]; }";

/* From 10.0.0.1, UDP port 4000, to port 2007 at 10.0.0.2. */
static const uint8_t hello[] = "\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\0"
			       "\x45\0\0\x21\0\0\0\0\x40\x11\x66\xca\x0a\0\0\x01\x0a\0\0\x02"
			       "\x0f\xa0\x07\xd7\0\x0d\0\0hello";

static void
sent(void *context, const uint8_t *bytes, size_t len)
{
	(void)context;
	printf("%zu bytes came out, the last is %c\n", len, bytes[len - 1]);
}

int
main(void)
{
	static const struct xk_protocol_type *const types[] = { &pager_type, NULL };
	struct xk_platform *platform = xk_memory_platform_new(XK_MEMORY_REAL);
	struct xk_port *port = xk_memory_port_new(platform, "port", 0x020000000002, 1500);
	struct xk_kernel_config config = { .name = "pages", .platform = platform, .mode = XK_IPP, .core = -1 };
	struct xk_kernel *kernel = xk_kernel_new(&config);
	struct xk_graph_source source = { .text = graph, .types = types };

	memset(page, 'p', sizeof(page));
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
