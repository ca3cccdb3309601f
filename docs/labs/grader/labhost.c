/*
 * labhost.c - the student's host of a lab: a graph with the student's protocol, on virtual time, in lockstep with the
 * grader. The grader (sandbox.py) compiles this file together with the student's, and runs it in a sandbox.
 *
 *     labhost CHANCE BOOTS [trace] [journey] [number=N] [mtu=N] [PROTOCOL.SETTING=VALUE]...
 *
 * CHANCE is the seed of xk_random, BOOTS the number of this boot; then reports, the host's number and its device's MTU.
 * With LABHOST_OVER_IP, the protocol has ports and is above IP, else above the addresses of neighbours. The grader also
 * makes hosts of its own of this file, with this project's TCP in the student's place.
 *
 * Standard input is a stream socket, the only connection to the grader. Records go in both directions: a kind (1 byte),
 * a length (4 bytes, big-endian), and that many bytes. The grader sends
 *
 *     T time              the time, 8 bytes of nanoseconds; never goes back
 *     F frame             a frame that arrives now
 *     O host port         open a session to this host, 4 bytes; the port, 2 bytes, if it is over IP
 *     L port              accept sessions to this port, 2 bytes
 *     S host payload      send a message on the session with this host
 *     E host              end the session with this host: XK_TCP_END (tcp.h)
 *     G                   go: let everything happen that is due now, and answer
 *
 * and the answer to G is any number of the following, in the order in which they happened, up to t:
 *
 *     f frame             a frame that was sent
 *     d host message      a message that was delivered to the user
 *     r result            the result of an O, L, S or E: 0 or -errno, 4 bytes
 *     e host              the session with this host has ended: its protocol has called close_done
 *     s text              with trace: lines of the kernel's trace (xkernel/trace.h)
 *     j text              with journey: lines of tools/journey/journey.h, as soon as they are written
 *     t time              the time of the next timer; UINT64_MAX: none
 *
 * The student's code controls this process as much as this file does: the grader trusts none of its records.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "protocols/tcp/tcp.h"
#include "tools/journey/journey.h"
#include "xkernel/bytes.h"
#include "xkernel/kernel.h"
#include "xkernel/support/chance.h"
#include "xkernel/trace.h"

#define LABHOST_TEXT(name) LABHOST_QUOTE(name)
#define LABHOST_QUOTE(name) #name
#define LABHOST_TYPE(name) LABHOST_PASTE(xk_type_, name)
#define LABHOST_PASTE(a, b) a##b

extern const struct xk_protocol_type LABHOST_TYPE(LABHOST_LAB);

#ifdef LABHOST_OVER_IP
#define LABHOST_BELOW " -> ip; ip -> vnet; "
enum { LABHOST_PORTS = true };
#else
#define LABHOST_BELOW " -> vnet; "
enum { LABHOST_PORTS = false };
#endif

/* Hosts 10.77.0.1 to 10.77.0.254 have the link addresses 02:00:00:00:00:01 and so on; the student's is number 2. */
#define LABHOST_NAME "student"
#define LABHOST_NETWORK UINT32_C(0x0a4d0000)
#define LABHOST_LINK UINT64_C(0x020000000000)

enum {
	LABHOST_HEAD = 5, /* bytes before a record's contents */
	LABHOST_SELF = 2,
	LABHOST_PEERS = 256,
	LABHOST_SETS = 16,
	LABHOST_MTU = 1500,
	LABHOST_BUFFERS = 4096, /* segments in use, at most */
};

struct labhost {
	struct xk_platform *platform;
	struct xk_port *port;
	struct xk_kernel *kernel;
	struct xk_protocol *user;
	struct xk_session *sessions[LABHOST_PEERS]; /* by the last byte of the host's address; NULL: none */
	struct xk_platform_ops ops;                 /* the platform's, with its own random and boots */
	struct xk_chance chance;
	uint64_t boots;
	struct journey *journey; /* NULL: none */
	uint64_t frames;         /* of the journey */
	uint8_t *input, *output;
	size_t input_size, output_size, output_len;
};

struct labhost_user {
	struct xk_protocol protocol;
	struct labhost *host;
};

/* Work requested by the grader, which may wait. */
struct labhost_job {
	struct labhost *host;
	char kind;        /* of its record */
	struct xk_msg *m; /* of S */
	unsigned peer;
	uint16_t port;
};

/* What the command line says. */
struct labhost_words {
	bool traces, journeys;
	unsigned number;
	uint16_t mtu;
	const char *sets[LABHOST_SETS + 2];
};

static void
labhost_fail(const char *what)
{
	fprintf(stderr, "labhost: %s\n", what);
	exit(1);
}

/* ---- records to the grader ---- */

static uint8_t *
labhost_grow(uint8_t *bytes, size_t *size, size_t wanted)
{
	if (wanted <= *size)
		return bytes;
	*size = wanted * 2;
	bytes = realloc(bytes, *size);
	if (bytes == NULL)
		labhost_fail("no memory");
	return bytes;
}

/* Adds a record of len bytes, and returns the address for them. */
static uint8_t *
labhost_report(struct labhost *host, char kind, size_t len)
{
	uint8_t *p;

	host->output = labhost_grow(host->output, &host->output_size, host->output_len + LABHOST_HEAD + len);
	p = host->output + host->output_len;
	p[0] = (uint8_t)kind;
	xk_put32(p + 1, (uint32_t)len);
	host->output_len += LABHOST_HEAD + len;
	return p + LABHOST_HEAD;
}

/* Adds a frame to the journey. */
static void
labhost_record_frame(struct labhost *host, enum xk_sim_event event, const uint8_t *frame, size_t len)
{
	struct journey_frame_seen seen = {
		.event = event, .host = LABHOST_NAME, .link = "link", .frame = frame, .len = len
	};

	seen.at_ns = host->platform->ops->now_ns(host->platform);
	seen.number = ++host->frames;
	journey_see_frame(host->journey, &seen);
}

static void
labhost_sent(void *context, const uint8_t *bytes, size_t len)
{
	memcpy(labhost_report(context, 'f', len), bytes, len);
	labhost_record_frame(context, XK_SIM_SENT, bytes, len);
}

static void
labhost_report_result(struct labhost *host, int result)
{
	xk_put32(labhost_report(host, 'r', 4), (uint32_t)result);
}

/* Reports a piece of the kernel's trace. */
static ssize_t
labhost_trace(void *context, const char *text, size_t len)
{
	memcpy(labhost_report(context, 's', len), text, len);
	return (ssize_t)len;
}

static void
labhost_write(const uint8_t *p, size_t len)
{
	while (len > 0) {
		ssize_t count = send(STDIN_FILENO, p, len, MSG_NOSIGNAL);

		if (count <= 0)
			labhost_fail("the grader is gone");
		p += count;
		len -= (size_t)count;
	}
}

/* Reports a piece of the journey at once, because the next step may be the last. */
static ssize_t
labhost_journey(void *context, const char *text, size_t len)
{
	uint8_t head[LABHOST_HEAD] = { 'j' };

	xk_put32(head + 1, (uint32_t)len);
	labhost_write(head, sizeof(head));
	labhost_write((const uint8_t *)text, len);
	return (ssize_t)len;
}

/* ---- the user: the protocol on top of the student's ---- */

/* Returns the number of the peer of s: the last byte of its link address. */
static unsigned
labhost_peer_of(struct xk_session *s)
{
	uint64_t link = 0;

	xk_control(s, XK_GET_PEER_LINK, &link);
	return link & (LABHOST_PEERS - 1);
}

static int
labhost_user_init(struct xk_protocol *self)
{
	struct xk_participants anybody = { .remote.depth = 0 };

	return LABHOST_PORTS ? 0 : xk_open_enable(self, self, xk_lower(self, 0), &anybody);
}

/* Keeps a session that a peer has opened, if there is none yet. */
static int
labhost_user_open_done(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *session,
		       struct xk_protocol *hlp_type)
{
	struct labhost *host = ((struct labhost_user *)self)->host;
	unsigned peer = labhost_peer_of(session);

	if (host->sessions[peer] == NULL && xk_duplicate(session))
		host->sessions[peer] = session;
	return 0;
}

static void
labhost_user_close_done(struct xk_protocol *self, struct xk_session *session)
{
	struct labhost *host = ((struct labhost_user *)self)->host;

	for (unsigned peer = 0; peer < LABHOST_PEERS; peer++) {
		if (host->sessions[peer] != session)
			continue;
		host->sessions[peer] = NULL;
		xk_put32(labhost_report(host, 'e', 4), LABHOST_NETWORK | peer);
		xk_close(session);
	}
}

static void
labhost_user_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct labhost *host = ((struct labhost_user *)self)->host;
	size_t len = xk_msg_len(m);
	uint8_t *p = labhost_report(host, 'd', 4 + len);

	xk_put32(p, LABHOST_NETWORK | labhost_peer_of(lls));
	xk_msg_copy_out(m, 0, p + 4, len);
	xk_msg_free(m);
}

static const struct xk_protocol_ops labhost_user_ops = {
	.init = labhost_user_init,
	.open_done = labhost_user_open_done,
	.close_done = labhost_user_close_done,
	.demux = labhost_user_demux,
};

static const struct xk_role labhost_user_lowers[] = {
	{ "transport", XK_ASYNC, NULL, "the student's protocol" },
	{ .name = NULL },
};

static const struct xk_protocol_type labhost_user_type = {
	.name = "user",
	.help = "Sends and receives messages for the grader.",
	.ops = &labhost_user_ops,
	.size = sizeof(struct labhost_user),
	.lowers = labhost_user_lowers,
};

/* ---- records from the grader ---- */

static void
labhost_open(struct labhost *host, unsigned peer, uint16_t port)
{
	struct xk_participants to = { .remote.depth = 0 };
	struct xk_protocol *user = host->user;
	struct xk_session *s;
	int err;

	xk_participant_push(&to.remote, LABHOST_NETWORK | peer);
	if (LABHOST_PORTS)
		xk_participant_push(&to.remote, port);
	err = xk_open(user, user, xk_lower(user, 0), &to, &s); /* may wait */
	if (err == 0 && host->sessions[peer] != NULL)
		xk_close(s);
	else if (err == 0)
		host->sessions[peer] = s;
	labhost_report_result(host, err);
}

static void
labhost_listen(struct labhost *host, uint16_t port)
{
	struct xk_participants here = { .remote.depth = 0 };

	xk_participant_push(&here.local, port);
	labhost_report_result(host, xk_open_enable(host->user, host->user, xk_lower(host->user, 0), &here));
}

/* Sends m on the session with a peer, or (NULL) ends it. */
static void
labhost_send(struct labhost *host, unsigned peer, struct xk_msg *m)
{
	struct xk_session *s = host->sessions[peer];
	int err = -ENOTCONN;

	if (s != NULL && xk_duplicate(s)) {
		err = m != NULL ? xk_push(s, m) : xk_control(s, XK_TCP_END, NULL);
		xk_session_release(s);
	} else {
		xk_msg_free(m);
	}
	labhost_report_result(host, err);
}

static void
labhost_work(void *argument)
{
	struct labhost_job job = *(struct labhost_job *)argument;

	free(argument);
	if (job.kind == 'O')
		labhost_open(job.host, job.peer, job.port);
	else if (job.kind == 'L')
		labhost_listen(job.host, job.port);
	else
		labhost_send(job.host, job.peer, job.m);
}

/* Does all due work, and returns the time of the next timer. */
static uint64_t
labhost_turn(struct labhost *host)
{
	uint64_t next_ns;

	do
		next_ns = xk_kernel_turn(host->kernel);
	while (next_ns <= host->platform->ops->now_ns(host->platform));
	return next_ns;
}

/* Starts the work of a record of len bytes at p, as a shepherd, and runs it as far as it gets now. */
static void
labhost_start(struct labhost *host, char kind, const uint8_t *p, size_t len)
{
	struct labhost_job *job = calloc(1, sizeof(*job));
	size_t least = kind == 'L' ? 2 : kind == 'O' && LABHOST_PORTS ? 6 : 4;

	if (job == NULL || len < least)
		labhost_fail("no memory, or a short record");
	*job = (struct labhost_job){ host, kind, NULL, kind == 'L' ? 0 : p[3], 0 };
	if (kind == 'L' || (kind == 'O' && LABHOST_PORTS))
		job->port = xk_get16(p + least - 2);
	if (kind == 'S')
		job->m = xk_msg_from(host->platform, p + 4, len - 4);
	if ((kind == 'S' && job->m == NULL) || xk_thread_start(host->kernel, "user", labhost_work, job) != 0) {
		xk_msg_free(job->m);
		free(job);
		labhost_report_result(host, -EAGAIN);
	}
	labhost_turn(host);
}

static void
labhost_set_time(struct labhost *host, const uint8_t *p, size_t len)
{
	uint64_t now_ns = host->platform->ops->now_ns(host->platform), wanted_ns = len == 8 ? xk_get64(p) : 0;

	if (wanted_ns > now_ns)
		xk_memory_advance(host->platform, wanted_ns - now_ns);
}

/* Returns false at the end of the stream. */
static bool
labhost_read(uint8_t *p, size_t len)
{
	while (len > 0) {
		ssize_t count = recv(STDIN_FILENO, p, len, 0);

		if (count <= 0)
			return false;
		p += count;
		len -= (size_t)count;
	}
	return true;
}

/* Handles one record. Returns false after the last one. */
static bool
labhost_handle_record(struct labhost *host)
{
	uint8_t head[LABHOST_HEAD];
	size_t len;

	if (!labhost_read(head, sizeof(head)))
		return false;
	len = xk_get32(head + 1);
	host->input = labhost_grow(host->input, &host->input_size, len);
	if (!labhost_read(host->input, len))
		return false;
	switch (head[0]) {
	case 'T':
		labhost_set_time(host, host->input, len);
		return true;
	case 'F':
		labhost_record_frame(host, XK_SIM_ARRIVED, host->input, len);
		xk_memory_inject_bytes(host->port, host->input, len);
		labhost_turn(host);
		return true;
	case 'O':
	case 'L':
	case 'S':
	case 'E':
		labhost_start(host, (char)head[0], host->input, len);
		return true;
	case 'G':
		xk_put64(labhost_report(host, 't', 8), labhost_turn(host));
		labhost_write(host->output, host->output_len);
		host->output_len = 0;
		return true;
	default:
		return false;
	}
}

/* ---- the host ---- */

static struct labhost *
labhost_of(struct xk_platform *platform)
{
	return (struct labhost *)((char *)platform->ops - offsetof(struct labhost, ops));
}

static uint64_t
labhost_random(struct xk_platform *platform)
{
	return xk_chance_next(&labhost_of(platform)->chance);
}

static uint64_t
labhost_boots(struct xk_platform *platform)
{
	return labhost_of(platform)->boots;
}

static void
labhost_boot(struct labhost *host, const struct labhost_words *words)
{
	static const cookie_io_functions_t trace = { .write = labhost_trace }, journey = { .write = labhost_journey };
	static const struct xk_protocol_type *const types[] = { &labhost_user_type, &LABHOST_TYPE(LABHOST_LAB), NULL };
	static const char graph[] = "digraph lab { user -> " LABHOST_TEXT(LABHOST_LAB) "; " LABHOST_TEXT(LABHOST_LAB)
		LABHOST_BELOW "vnet -> eth; vnet -> arp; arp -> eth; eth -> port; }";
	struct xk_kernel_config config = { .name = LABHOST_NAME, .mode = XK_IPP, .core = -1 };
	struct xk_graph_source source = { .text = graph, .sets = words->sets, .types = types };

	host->platform = xk_memory_platform_new(XK_MEMORY_VIRTUAL);
	if (host->platform == NULL)
		labhost_fail("no memory");
	host->ops = *host->platform->ops;
	host->ops.random = labhost_random;
	host->ops.boots = labhost_boots;
	host->platform->ops = &host->ops;
	xk_memory_platform_limit(host->platform, LABHOST_BUFFERS);
	host->port = xk_memory_port_new(host->platform, "port", LABHOST_LINK | words->number, words->mtu);
	config.platform = host->platform;
	config.trace = words->traces ? fopencookie(host, "w", trace) : NULL;
	if (config.trace != NULL)
		setvbuf(config.trace, NULL, _IOLBF, BUFSIZ);
	if (words->journeys) {
		FILE *lines = fopencookie(host, "w", journey);

		if (lines == NULL)
			labhost_fail("no memory");
		setvbuf(lines, NULL, _IOLBF, BUFSIZ);
		host->journey = journey_open_lines(lines);
		config.sink = journey_sink(host->journey, LABHOST_NAME);
	}
	host->kernel = xk_kernel_new(&config);
	if (host->port == NULL || host->kernel == NULL)
		labhost_fail("no memory");
	xk_memory_on_sent(host->port, labhost_sent, host);
	xk_kernel_add_port(host->kernel, host->port);
	if (xk_graph_compose(&source, host->kernel, stderr) != 0)
		labhost_fail("the graph is refused");
	for (struct xk_protocol *p = xk_kernel_first(host->kernel); p != NULL && words->traces; p = p->next)
		p->trace_level = XK_TRACE_MESSAGES;
	journey_graph(config.sink, host->kernel);
	xk_kernel_rewatch(host->kernel);
	xk_kernel_watch_owners(host->kernel);
	host->user = xk_kernel_find(host->kernel, "user");
	((struct labhost_user *)host->user)->host = host;
}

int
main(int argc, char **argv)
{
	struct labhost host = { .boots = 1 };
	struct labhost_words words = { .number = LABHOST_SELF, .mtu = LABHOST_MTU };
	unsigned sets = 1;
	char address[64];

	if (argc < 3)
		labhost_fail("usage: labhost CHANCE BOOTS [WORD]...");
	for (int i = 3; i < argc; i++) {
		words.traces |= strcmp(argv[i], "trace") == 0;
		words.journeys |= strcmp(argv[i], "journey") == 0;
		if (strncmp(argv[i], "number=", 7) == 0)
			words.number = (unsigned)strtoul(argv[i] + 7, NULL, 0) % LABHOST_PEERS;
		else if (strncmp(argv[i], "mtu=", 4) == 0)
			words.mtu = (uint16_t)strtoul(argv[i] + 4, NULL, 0);
		else if (strchr(argv[i], '.') != NULL && sets <= LABHOST_SETS)
			words.sets[sets++] = argv[i];
	}
	snprintf(address, sizeof(address), "vnet.address=10.77.0.%u/24", words.number);
	words.sets[0] = address;
	xk_chance_init(&host.chance, strtoull(argv[1], NULL, 0), 0);
	host.boots = strtoull(argv[2], NULL, 0);
	labhost_boot(&host, &words);
	while (labhost_handle_record(&host))
		continue;
	return 0;
}
