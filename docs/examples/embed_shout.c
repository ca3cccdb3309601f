/*
 * embed_shout.c - a program's own protocol at the top of the graph: it returns every datagram for a UDP port in
 * capitals. The host runs on its own threads and passes its answer to the main thread.
 *
 *     cc embed_shout.c -o embed_shout $(pkg-config --cflags --libs xkernel)
 */
#include <ctype.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "xkernel/kernel.h"

/* ---- the protocol ---- */

struct shout {
	struct xk_protocol protocol;
	uint64_t port;
};

/* Enables this protocol on the one below, for messages from any host. */
static int
shout_init(struct xk_protocol *self)
{
	struct xk_participants participants = { .remote.depth = 0 };

	xk_participant_push(&participants.local, ((struct shout *)self)->port);
	return xk_open_enable(self, self, xk_lower(self, 0), &participants);
}

/* Answers m, which came up session lls, down the same session. */
static void
shout_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct xk_msg *answer = xk_msg_new(m->platform, xk_msg_len(m));

	if (answer == NULL || answer->next != NULL || !xk_msg_copy_out(m, 0, answer->data, answer->len)) {
		xk_msg_free(answer);
		xk_drop(self, m, XK_DROP_NO_BUFFER);
		return;
	}
	xk_msg_free(m);
	for (uint32_t i = 0; i < answer->len; i++)
		answer->data[i] = (uint8_t)toupper(answer->data[i]);
	xk_push(lls, answer);
}

static const struct xk_protocol_ops shout_ops = { .init = shout_init, .demux = shout_demux };

static const struct xk_setting shout_settings[] = {
	XK_SETTING(UINT, struct shout, port, "port", "the port that is served", .initial = "7", .min = 1, .max = 65535),
	{ .name = NULL },
};

static const struct xk_protocol_type shout_type = { .name = "shout",
						    .help = "Answers each datagram in capitals.",
						    .ops = &shout_ops,
						    .size = sizeof(struct shout),
						    .lowers = XK_ROLES({ "transport", XK_ASYNC, NULL,
									 "carries datagrams to ports" }),
						    .settings = shout_settings };

/* ---- the program ---- */

static const char graph[] = "digraph shouts { shout -> udp; udp -> ip; ip -> vnet; vnet -> eth; vnet -> arp;"
			    "arp -> eth; eth -> port; }";

/* From 10.0.0.1, UDP port 4000, to port 2007 at 10.0.0.2. */
static const uint8_t hello[] = "\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\0"
			       "\x45\0\0\x21\0\0\0\0\x40\x11\x66\xca\x0a\0\0\x01\x0a\0\0\x02"
			       "\x0f\xa0\x07\xd7\0\x0d\0\0hello";

enum { HEADERS = 14 + 20 + 8, ANSWER_MAX = 64 };

struct answer {
	sem_t came;
	char text[ANSWER_MAX];
};

/* Called on the host's thread: copies the answer and does not wait. */
static void
sent(void *context, const uint8_t *bytes, size_t len)
{
	struct answer *answer = context;

	if (len <= HEADERS || len - HEADERS >= ANSWER_MAX)
		return;
	memcpy(answer->text, bytes + HEADERS, len - HEADERS);
	sem_post(&answer->came);
}

int
main(void)
{
	static const struct xk_protocol_type *const types[] = { &shout_type, NULL };
	static const char *const sets[] = { "vnet.address=10.0.0.2/24", "shout.port=2007", NULL };
	struct xk_platform *platform = xk_memory_platform_new(XK_MEMORY_REAL);
	struct xk_port *port = xk_memory_port_new(platform, "port", 0x020000000002, 1500);
	struct xk_kernel_config config = {
		.platform = platform, .mode = XK_IPP, .driver = XK_DRIVER_INTERRUPT, .core = -1
	};
	struct xk_kernel *kernel = xk_kernel_new(&config);
	struct xk_graph_source source = { .text = graph, .sets = sets, .types = types };
	struct answer answer = { .text = "" };

	sem_init(&answer.came, 0, 0);
	xk_memory_on_sent(port, sent, &answer);
	xk_kernel_add_port(kernel, port);
	if (xk_graph_compose(&source, kernel, stderr) != 0 || xk_kernel_start(kernel) != 0)
		return 1;
	xk_memory_inject_bytes(port, hello, sizeof(hello) - 1);
	sem_wait(&answer.came);
	xk_kernel_free(kernel); /* stops it, and closes the port */
	printf("%s\n", answer.text);
	xk_memory_platform_free(platform);
	return 0;
}
