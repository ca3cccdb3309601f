/* stats_server.c - see stats_server.h. One request and one answer per connection, in bounded memory and time. */
#define _GNU_SOURCE
#include "tools/stats/stats_server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/clock.h"
#include "platform/private.h"
#include "tools/stats/stats_client.h"
#include "tools/stats/stats_metrics.h"
#include "tools/stats/stats_print.h"

enum {
	SERVER_CLIENTS = 16,
	SERVER_BACKLOG = 256,      /* accepted at a time */
	SERVER_GRAPH = 32,         /* bytes of the graph's name in the host's */
	SERVER_PATIENCE_MS = 2000, /* for a request to arrive, and for an answer to be read */
	SERVER_MORE_S = 2,         /* time that edges are counted beyond a period */
	SERVER_NAP_MS = 100,       /* pause if accept fails because no descriptor is left */
};

#define SERVER_SECOND UINT64_C(1000000000)
#define SERVER_MS UINT64_C(1000000)
#define SERVER_NEW ".new"

static_assert(sizeof(SERVER_NEW) <= sizeof(STATS_SUFFIX), "the temporary name fits where the other does");

/* Forms of answers (stats_client.h). */
struct server_form {
	const char *name;
	bool (*print)(const struct host *host, const struct stats_about *about, FILE *out);
	unsigned max;  /* the largest number after the name */
	bool is_timed; /* the number is a period in milliseconds; otherwise the seconds to count for */
	bool samples_twice;
};

static const struct server_form server_forms[] = {
	{ "stats", stats_print_document, STATS_SECONDS_MAX, false, false },
	{ "json", stats_print_document, STATS_PERIOD_MAX, true, false },
	{ "text", stats_print_tables, STATS_PERIOD_MAX, true, true },
	{ "line", stats_print_line, STATS_PERIOD_MAX, true, false },
	{ "metrics", stats_print_metrics, STATS_PERIOD_MAX, true, false },
};

struct server_client {
	int fd;            /* -1: none */
	uint64_t number;   /* the connection's */
	uint64_t until_ns; /* time at which the server gives up */
	uint64_t due_ns;   /* time of the answer */
	char request[STATS_REQUEST];
	size_t asked;                   /* bytes of the request */
	const struct server_form *form; /* NULL: no request yet */
	struct stats_before before;
	char *answer; /* NULL: none yet */
	size_t len, sent;
};

struct stats_server {
	struct host *host;
	pthread_t thread;
	int listen_fd, wake_fd;
	char name[STATS_NAME];
	struct sockaddr_un address;
	_Atomic bool ends;
	_Atomic uint64_t count_until_ns; /* edges are counted up to then */
	pthread_mutex_t counting;        /* protects the next two */
	uint64_t counting_since_ns;      /* 0: not counting */
	uint64_t counted_ns;             /* time counted before that */
	uint64_t accepted;               /* number of connections */
	struct server_client clients[SERVER_CLIENTS];
};

/* ---- counting ---- */

void
stats_server_count(struct stats_server *server, unsigned seconds)
{
	uint64_t until_ns = clock_system_ns() + seconds * SERVER_SECOND, before_ns;

	if (server == NULL || seconds == 0)
		return;
	before_ns = atomic_load(&server->count_until_ns);
	while (before_ns < until_ns)
		if (atomic_compare_exchange_weak(&server->count_until_ns, &before_ns, until_ns))
			break;
	eventfd_write(server->wake_fd, 1);
}

/* Starts or stops counting. Sets the edges' marks each time, because others may have changed them meanwhile. */
static void
server_follow_counting(struct stats_server *server, uint64_t now_ns)
{
	bool wanted = now_ns < atomic_load(&server->count_until_ns);

	if (!wanted && server->counting_since_ns == 0)
		return;
	xk_kernel_count_edges(server->host->kernel, wanted);
	pthread_mutex_lock(&server->counting);
	if (wanted && server->counting_since_ns == 0)
		server->counting_since_ns = now_ns;
	if (!wanted) {
		server->counted_ns += now_ns - server->counting_since_ns;
		server->counting_since_ns = 0;
	}
	pthread_mutex_unlock(&server->counting);
}

void
stats_server_about(struct stats_server *server, struct stats_about *about)
{
	about->name = server->name;
	about->now_ns = clock_system_ns();
	pthread_mutex_lock(&server->counting);
	about->counted_ns = server->counted_ns;
	if (server->counting_since_ns != 0 && server->counting_since_ns < about->now_ns)
		about->counted_ns += about->now_ns - server->counting_since_ns;
	pthread_mutex_unlock(&server->counting);
}

/* ---- a client ---- */

static void
server_drop(struct server_client *client)
{
	close(client->fd);
	free(client->answer);
	free(client->before.counts);
	*client = (struct server_client){ .fd = -1 };
}

/* Prepares the answer; the first of two samples keeps only client->before. Returns false without memory. */
static bool
server_answer(struct stats_server *server, struct server_client *client)
{
	struct stats_about about = { .before = &client->before, .is_one_of_many = true };
	bool is_first = client->form->samples_twice && client->before.at_ns == 0, printed;
	FILE *out = open_memstream(&client->answer, &client->len);

	if (out == NULL)
		return false;
	stats_server_about(server, &about);
	printed = client->form->print(server->host, &about, out);
	if (client->form->is_timed)
		putc('\0', out);
	if (fclose(out) != 0 || !printed || client->len > STATS_DOCUMENT)
		return false;
	if (is_first) {
		free(client->answer);
		client->answer = NULL;
	}
	return true;
}

/* Reads the request, "FORM N\n". Returns false if the client has gone, or the request is unknown. */
static bool
server_read_request(struct stats_server *server, struct server_client *client, uint64_t now_ns)
{
	size_t room = sizeof(client->request) - 1 - client->asked;
	ssize_t got = recv(client->fd, client->request + client->asked, room, 0);
	unsigned number, period_ms;
	char name[STATS_REQUEST];
	int end = 0;

	if (got <= 0)
		return got < 0 && (errno == EAGAIN || errno == EINTR);
	client->asked += (size_t)got;
	if (memchr(client->request, '\n', client->asked) == NULL)
		return client->asked < sizeof(client->request) - 1;
	if (sscanf(client->request, "%31s %5u\n%n", name, &number, &end) != 2 || end == 0 ||
	    client->request[end] != '\0' || client->request[end - 1] != '\n')
		return false;
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(server_forms); i++)
		if (strcmp(name, server_forms[i].name) == 0 && number <= server_forms[i].max)
			client->form = &server_forms[i];
	if (client->form == NULL)
		return false;
	period_ms = client->form->is_timed ? number : 0;
	client->due_ns = now_ns + period_ms * SERVER_MS;
	client->until_ns = client->due_ns + SERVER_PATIENCE_MS * SERVER_MS;
	if (!client->form->is_timed)
		stats_server_count(server, number);
	else if (period_ms != 0)
		stats_server_count(server, (period_ms + 999) / 1000 + SERVER_MORE_S);
	server_follow_counting(server, now_ns);
	return !client->form->samples_twice || server_answer(server, client);
}

static void
server_serve(struct stats_server *server, struct server_client *client, uint64_t now_ns)
{
	bool stays = now_ns < client->until_ns;

	if (stays && client->form == NULL)
		stays = server_read_request(server, client, now_ns);
	if (stays && client->form != NULL && client->answer == NULL && now_ns >= client->due_ns)
		stays = server_answer(server, client);
	if (stays && client->answer != NULL) {
		ssize_t sent =
			send(client->fd, client->answer + client->sent, client->len - client->sent, MSG_NOSIGNAL);

		client->sent += sent < 0 ? 0 : (size_t)sent;
		stays = sent < 0 ? errno == EAGAIN || errno == EINTR : client->sent < client->len;
	}
	if (!stays)
		server_drop(client);
}

/* Returns true if a is replaced before b: free places first, then clients without a request, then the oldest. */
static bool
server_is_replaced_first(const struct server_client *a, const struct server_client *b)
{
	if ((a->fd < 0) != (b->fd < 0))
		return a->fd < 0;
	if ((a->form == NULL) != (b->form == NULL))
		return a->form == NULL;
	return a->number < b->number;
}

/* Returns a free place, if needed by disconnecting a client: silent clients must not keep others waiting. */
static struct server_client *
server_make_room(struct stats_server *server)
{
	struct server_client *place = &server->clients[0];

	for (unsigned i = 1; i < SERVER_CLIENTS; i++)
		if (server_is_replaced_first(&server->clients[i], place))
			place = &server->clients[i];
	if (place->fd >= 0)
		server_drop(place);
	return place;
}

/* Accepts all waiting clients, and serves each at once: its request has usually arrived. */
static void
server_accept(struct stats_server *server, uint64_t now_ns)
{
	for (unsigned i = 0; i < SERVER_BACKLOG; i++) {
		struct server_client *client;
		int fd = accept4(server->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0) {
			poll(NULL, 0, errno == EAGAIN ? 0 : SERVER_NAP_MS);
			return;
		}
		client = server_make_room(server);
		client->fd = fd;
		client->number = server->accepted++;
		client->until_ns = now_ns + SERVER_PATIENCE_MS * SERVER_MS;
		server_serve(server, client, now_ns);
	}
}

/* ---- the thread ---- */

/* Returns the time at which a client must be served next, whatever it does. */
static uint64_t
server_next_ns(const struct server_client *client)
{
	return client->form != NULL && client->answer == NULL ? client->due_ns : client->until_ns;
}

static void
server_poll(struct stats_server *server)
{
	struct pollfd polls[2 + SERVER_CLIENTS];
	uint64_t now_ns = clock_system_ns(), until_ns = UINT64_MAX, woken;
	int wait_ms = -1;

	if (server->counting_since_ns != 0)
		until_ns = atomic_load(&server->count_until_ns);
	polls[0] = (struct pollfd){ .fd = server->wake_fd, .events = POLLIN };
	polls[1] = (struct pollfd){ .fd = server->listen_fd, .events = POLLIN };
	for (unsigned i = 0; i < SERVER_CLIENTS; i++) {
		const struct server_client *client = &server->clients[i];

		/* a client that waits for its answer may only hang up */
		polls[2 + i] = (struct pollfd){ .fd = client->fd,
						.events = client->form == NULL     ? POLLIN
							  : client->answer != NULL ? POLLOUT
										   : 0 };
		if (client->fd >= 0 && server_next_ns(client) < until_ns)
			until_ns = server_next_ns(client);
	}
	if (until_ns != UINT64_MAX)
		wait_ms = until_ns <= now_ns ? 0 : (int)((until_ns - now_ns) / SERVER_MS + 1);
	if (poll(polls, XK_ARRAY_LENGTH(polls), wait_ms) < 0)
		return;
	now_ns = clock_system_ns();
	if (polls[0].revents != 0 && read(server->wake_fd, &woken, sizeof(woken)) < 0)
		return;
	for (unsigned i = 0; i < SERVER_CLIENTS; i++) {
		struct server_client *client = &server->clients[i];

		if (client->form != NULL && (polls[2 + i].revents & (POLLHUP | POLLERR)) != 0)
			server_drop(client);
		else if (client->fd >= 0 && (polls[2 + i].revents != 0 || now_ns >= server_next_ns(client)))
			server_serve(server, client, now_ns);
	}
	if (polls[1].revents != 0)
		server_accept(server, now_ns);
	server_follow_counting(server, now_ns);
}

static void *
server_main(void *argument)
{
	struct stats_server *server = argument;

	while (!atomic_load(&server->ends))
		server_poll(server);
	return NULL;
}

/* ---- start and stop ---- */

/* Sets the host's name: "udptest-4711". */
static void
server_make_name(struct stats_server *server)
{
	const char *graph = server->host->options.graph, *slash = strrchr(graph, '/');
	char text[SERVER_GRAPH], *dot;

	snprintf(text, sizeof(text), "%s", slash == NULL ? graph : slash + 1);
	dot = strrchr(text, '.');
	if (dot != NULL && dot != text)
		*dot = '\0';
	for (char *p = text; *p != '\0'; p++)
		if (!stats_is_name((const char[]){ *p, '\0' }))
			*p = '_';
	snprintf(server->name, sizeof(server->name), "%s-%ld", text[0] == '\0' ? "graph" : text, (long)getpid());
}

/* Creates the socket, to which only this user may connect. It gets its name once it accepts connections. */
static int
server_listen(struct stats_server *server)
{
	struct sockaddr_un address = server->address;
	int err;

	memcpy(strrchr(address.sun_path, '.'), SERVER_NEW, sizeof(SERVER_NEW));
	server->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (server->listen_fd < 0)
		return -errno;
	unlink(address.sun_path);
	if (bind(server->listen_fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
		return -errno;
	if (chmod(address.sun_path, 0600) == 0 && listen(server->listen_fd, SERVER_BACKLOG) == 0 &&
	    rename(address.sun_path, server->address.sun_path) == 0)
		return 0;
	err = -errno;
	unlink(address.sun_path);
	return err;
}

static void
server_free(struct stats_server *server)
{
	if (server->listen_fd >= 0)
		close(server->listen_fd);
	if (server->wake_fd >= 0)
		close(server->wake_fd);
	pthread_mutex_destroy(&server->counting);
	free(server);
}

int
stats_server_start(struct host *host, struct stats_server **result, char *why, size_t size)
{
	struct stats_server *server = calloc(1, sizeof(*server));
	struct stats_hosts others;
	sigset_t all, before;
	int err;

	*result = NULL;
	snprintf(why, size, "no memory or thread for them");
	if (server == NULL)
		return -ENOMEM;
	server->host = host;
	pthread_mutex_init(&server->counting, NULL);
	server->listen_fd = -1;
	server->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	for (unsigned i = 0; i < SERVER_CLIENTS; i++)
		server->clients[i].fd = -1;
	server_make_name(server);
	err = server->wake_fd < 0 ? -errno : stats_address(server->name, true, &server->address, why, size);
	if (err == 0)
		err = stats_list(&others, why, size); /* removes sockets of killed hosts */
	if (err == 0) {
		err = server_listen(server);
		if (err != 0)
			snprintf(why, size, "the socket %s cannot be created: %s", server->address.sun_path,
				 xk_error(err));
	}
	if (err == 0) {
		sigfillset(&all); /* signals are for other threads */
		pthread_sigmask(SIG_SETMASK, &all, &before);
		err = -pthread_create(&server->thread, NULL, server_main, server);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		if (err != 0)
			unlink(server->address.sun_path);
	}
	if (err == 0)
		*result = server;
	else
		server_free(server);
	return err;
}

void
stats_server_stop(struct stats_server *server)
{
	if (server == NULL)
		return;
	atomic_store(&server->ends, true);
	eventfd_write(server->wake_fd, 1);
	pthread_join(server->thread, NULL);
	unlink(server->address.sun_path);
	for (unsigned i = 0; i < SERVER_CLIENTS; i++)
		if (server->clients[i].fd >= 0)
			server_drop(&server->clients[i]);
	xk_kernel_count_edges(server->host->kernel, false);
	server_free(server);
}
