/* capture_file.c - see capture_file.h. */
#define _GNU_SOURCE
#include "tools/capture/capture_file.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "tools/capture/pcapng.h"
#include "tools/options.h"
#include "xkernel/msg.h"

enum {
	CAPTURE_PAUSE_MS = 50, /* between two rounds of the writer */
	CAPTURE_HELD_MS = 5,   /* age at which a frame is written: no older one can arrive any more */
	CAPTURE_BATCH = 64,    /* frames given to a device at a time */
	CAPTURE_TAPS = 64,
	CAPTURE_SPINS = 64,
};

static_assert(CAPTURE_PAUSE_MS + CAPTURE_HELD_MS < CAPTURE_LATE_MS, "capture_file.h promises CAPTURE_LATE_MS");

/* A frame's description, followed by at most PCAPNG_FRAME_MAX of its bytes. */
struct capture_record {
	uint64_t at_ns;
	const char *comment; /* NULL: none */
	uint32_t size;       /* in the ring */
	uint32_t len;        /* of the frame */
	enum pcapng_direction direction;
	bool is_filler; /* unused bytes before the ring's end */
};

static_assert(CAPTURE_RING % sizeof(struct capture_record) == 0, "a filler fits before the end");

/* Copies of frames for the writer: one thread puts, another takes, neither waits. Positions count all bytes so far. */
struct capture_ring {
	struct capture_ring *next;
	char *name; /* of its interface */
	unsigned interface;
	_Atomic uint32_t lock; /* for a tap, into which several threads put */
	/* for the putting side: */
	size_t begun;                   /* end of the records, of which those after head may be withdrawn */
	size_t free_from;               /* tail, as last read */
	_Atomic uint64_t kept, dropped; /* frames published, and frames that found no room */
	_Atomic size_t head;            /* end of the published records */
	/* for the taking side: */
	_Alignas(64) _Atomic size_t tail; /* end of the records taken */
	size_t seen;                      /* head, as last read */
	_Alignas(64) uint8_t bytes[CAPTURE_RING];
};

/* A captured port, whose `ops` point here. */
struct capture_port {
	struct xk_port_ops ops;
	const struct xk_port_ops *inner;
	struct capture *capture;
	struct xk_port *port; /* NULL: closed */
	struct capture_ring *in, *out;
	struct capture_port *next;
};

struct capture {
	struct xk_capture sink;
	const char *program, *host;
	struct xk_platform *platform;
	uint64_t epoch_ns;  /* time at which the platform's clock was zero */
	uint64_t latest_ns; /* time of the latest frame written; under the lock */
	bool has_thread;
	pthread_t thread;
	int wake; /* wakes the writer */
	_Atomic bool woken, ends;
	pthread_mutex_t lock; /* protects the file and the taking side of the rings */
	struct pcapng *file;
	unsigned interface_count;
	struct capture_ring *rings, **rings_last;
	struct capture_ring *taps[CAPTURE_TAPS];
	unsigned tap_count;
	struct capture_port *ports;
	char path[];
};

static uint64_t
capture_now_ns(const struct capture *capture)
{
	return capture->epoch_ns + capture->platform->ops->now_ns(capture->platform);
}

static int
capture_fail(const struct capture *capture, const char *what, int err)
{
	fprintf(stderr, "%s: --pcap %s %s: %s\n", capture->program, capture->path, what, xk_error(err));
	return OPTIONS_FAILURE;
}

/* ---- rings ---- */

/* Returns true if at most `limit` bytes wait in a ring that is filled up to `end`. For the putting side. */
static bool
capture_ring_fits(struct capture_ring *ring, size_t end, size_t limit)
{
	if (end - ring->free_from > limit)
		ring->free_from = atomic_load_explicit(&ring->tail, memory_order_acquire);
	return end - ring->free_from <= limit;
}

/*
 * Puts a copy of m, which capture_ring_publish then shows to the other side. Until that call, setting ring->begun back
 * to an earlier value withdraws the copies after it. Returns false if the ring is full.
 */
static bool
capture_ring_put(struct capture_ring *ring, const struct xk_msg *m, uint64_t at_ns, enum pcapng_direction direction,
		 const char *comment)
{
	const size_t unit = sizeof(struct capture_record);
	size_t len = xk_msg_len(m), kept = len < PCAPNG_FRAME_MAX ? len : PCAPNG_FRAME_MAX;
	size_t size = (unit + kept + unit - 1) / unit * unit;
	size_t offset = ring->begun % CAPTURE_RING, left = CAPTURE_RING - offset;
	size_t end = ring->begun + (left < size ? left + size : size);
	struct capture_record *record = (struct capture_record *)(ring->bytes + offset);

	if (!capture_ring_fits(ring, end, CAPTURE_RING))
		return false;
	if (left < size) { /* a record must be contiguous */
		*record = (struct capture_record){ .size = (uint32_t)left, .is_filler = true };
		record = (struct capture_record *)ring->bytes;
	}
	ring->begun = end;
	*record = (struct capture_record){
		.at_ns = at_ns, .comment = comment, .size = (uint32_t)size, .len = (uint32_t)len, .direction = direction
	};
	xk_msg_copy_first(m, record + 1, kept);
	return true;
}

static void
capture_ring_count(_Atomic uint64_t *counter, uint64_t by)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by, memory_order_relaxed);
}

/* Publishes the copies up to `end` and withdraws the others. Counts `kept` frames, and `dropped` ones without room. */
static void
capture_ring_publish(struct capture_ring *ring, size_t end, uint64_t kept, uint64_t dropped)
{
	ring->begun = end;
	capture_ring_count(&ring->kept, kept);
	capture_ring_count(&ring->dropped, dropped);
	atomic_store_explicit(&ring->head, end, memory_order_release);
}

static void
capture_ring_done(struct capture_ring *ring, const struct capture_record *record)
{
	size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed) + record->size;

	atomic_store_explicit(&ring->tail, tail, memory_order_release);
}

/* Returns the next record up to `seen`, the same one until capture_ring_done, or NULL. */
static const struct capture_record *
capture_ring_next(struct capture_ring *ring)
{
	for (;;) {
		size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
		const struct capture_record *record =
			(const struct capture_record *)(ring->bytes + tail % CAPTURE_RING);

		if (tail == ring->seen)
			return NULL;
		if (!record->is_filler)
			return record;
		capture_ring_done(ring, record);
	}
}

/* ---- writing ---- */

/* Writes the frames before until_ns from all rings, oldest first. */
static void
capture_drain(struct capture *capture, uint64_t until_ns)
{
	struct capture_ring *oldest;

	pthread_mutex_lock(&capture->lock);
	for (struct capture_ring *ring = capture->rings; ring != NULL; ring = ring->next)
		ring->seen = atomic_load_explicit(&ring->head, memory_order_acquire);
	do {
		const struct capture_record *record = NULL;

		oldest = NULL;
		for (struct capture_ring *ring = capture->rings; ring != NULL; ring = ring->next) {
			const struct capture_record *next = capture_ring_next(ring);

			if (next != NULL && next->at_ns < until_ns && (oldest == NULL || next->at_ns < record->at_ns)) {
				oldest = ring;
				record = next;
			}
		}
		if (oldest != NULL) {
			pcapng_frame(capture->file, oldest->interface, record->at_ns, record->direction, record + 1,
				     record->len, record->comment);
			if (record->at_ns > capture->latest_ns)
				capture->latest_ns = record->at_ns;
			capture_ring_done(oldest, record);
		}
	} while (oldest != NULL);
	if (capture->has_thread)
		pcapng_flush(capture->file); /* capture_close reports errors */
	pthread_mutex_unlock(&capture->lock);
}

static void *
capture_write(void *argument)
{
	struct capture *capture = argument;
	struct pollfd wake = { .fd = capture->wake, .events = POLLIN };
	uint64_t value;

	while (!atomic_load_explicit(&capture->ends, memory_order_acquire)) {
		if (poll(&wake, 1, CAPTURE_PAUSE_MS) > 0 && read(capture->wake, &value, sizeof(value)) > 0)
			atomic_store_explicit(&capture->woken, false, memory_order_relaxed);
		capture_drain(capture, capture_now_ns(capture) - CAPTURE_HELD_MS * UINT64_C(1000000));
	}
	return NULL;
}

/* Makes the writer write the records that the caller has published in ring. */
static void
capture_notify(struct capture *capture, struct capture_ring *ring)
{
	if (!capture->has_thread)
		capture_drain(capture, UINT64_MAX);
	else if (!capture_ring_fits(ring, ring->begun, CAPTURE_RING / 4) &&
		 !atomic_exchange_explicit(&capture->woken, true, memory_order_relaxed))
		eventfd_write(capture->wake, 1);
}

/* Returns a new ring for the interface of this name, new or existing, or NULL without memory. */
static struct capture_ring *
capture_ring(struct capture *capture, const char *name, const char *description, unsigned link_type)
{
	struct capture_ring *ring = aligned_alloc(64, sizeof(*ring)), *same = capture->rings;

	if (ring == NULL)
		return NULL;
	memset(ring, 0, offsetof(struct capture_ring, bytes));
	if (asprintf(&ring->name, "%s.%s", capture->host, name) < 0) {
		free(ring);
		return NULL;
	}
	pthread_mutex_lock(&capture->lock);
	while (same != NULL && strcmp(same->name, ring->name) != 0)
		same = same->next;
	if (same == NULL)
		capture->interface_count++;
	ring->interface =
		same != NULL ? same->interface : pcapng_interface_of(capture->file, ring->name, description, link_type);
	*capture->rings_last = ring;
	capture->rings_last = &ring->next;
	pthread_mutex_unlock(&capture->lock);
	return ring;
}

/* ---- ports ---- */

static unsigned
capture_port_receive(struct xk_port *port, struct xk_msg **frames, unsigned max)
{
	struct capture_port *self = xk_container_of(port->ops, struct capture_port, ops);
	unsigned count = self->inner->receive(port, frames, max), kept = 0;
	const char *comment = port->receiver == NULL ? "no_session" : NULL;
	uint64_t now_ns;

	if (count == 0)
		return 0;
	now_ns = capture_now_ns(self->capture);
	for (unsigned i = 0; i < count; i++)
		kept += capture_ring_put(self->in, frames[i], now_ns, PCAPNG_IN, comment);
	capture_ring_publish(self->in, self->in->begun, kept, count - kept);
	capture_notify(self->capture, self->in);
	return count;
}

/* Copies each batch first, because frames that the device takes are gone, and withdraws the copies of the others. */
static unsigned
capture_port_transmit(struct xk_port *port, struct xk_msg **frames, unsigned count)
{
	struct capture_port *self = xk_container_of(port->ops, struct capture_port, ops);
	unsigned sent = 0, batch, taken;

	do {
		uint64_t now_ns = capture_now_ns(self->capture);
		size_t ends[CAPTURE_BATCH + 1] = { self->out->begun };
		unsigned kept[CAPTURE_BATCH + 1] = { 0 };

		batch = count - sent < CAPTURE_BATCH ? count - sent : CAPTURE_BATCH;
		for (unsigned i = 0; i < batch; i++) {
			kept[i + 1] = kept[i] + capture_ring_put(self->out, frames[sent + i], now_ns, PCAPNG_OUT, NULL);
			ends[i + 1] = self->out->begun;
		}
		taken = self->inner->transmit(port, frames + sent, batch);
		capture_ring_publish(self->out, ends[taken], kept[taken], taken - kept[taken]);
		if (taken > 0)
			capture_notify(self->capture, self->out);
		sent += taken;
	} while (taken == batch && sent < count);
	return sent;
}

static void
capture_port_close(struct xk_port *port)
{
	struct capture_port *self = xk_container_of(port->ops, struct capture_port, ops);

	self->port = NULL;
	port->ops = self->inner;
	port->ops->close(port);
}

int
capture_port(struct capture *capture, struct xk_port *port, const char *name)
{
	struct capture_port *self;

	if (capture == NULL)
		return 0;
	self = calloc(1, sizeof(*self));
	if (self == NULL)
		return capture_fail(capture, name, ENOMEM);
	self->capture = capture;
	self->inner = port->ops;
	self->ops = *port->ops;
	self->ops.receive = capture_port_receive;
	self->ops.transmit = capture_port_transmit;
	self->ops.close = capture_port_close;
	self->in = capture_ring(capture, name, port->name, XK_CAPTURE_ETHERNET);
	self->out = capture_ring(capture, name, port->name, XK_CAPTURE_ETHERNET);
	if (self->in == NULL || self->out == NULL) {
		free(self);
		return capture_fail(capture, name, ENOMEM);
	}
	self->port = port;
	self->next = capture->ports;
	capture->ports = self;
	port->ops = &self->ops;
	return 0;
}

/* ---- taps ---- */

static int
capture_tap_add(struct xk_capture *sink, const char *name, enum xk_capture_link link)
{
	struct capture *capture = xk_container_of(sink, struct capture, sink);
	struct capture_ring *ring;

	if (capture->tap_count == CAPTURE_TAPS)
		return -ENOSPC;
	ring = capture_ring(capture, name, NULL, link);
	if (ring == NULL)
		return -ENOMEM;
	capture->taps[capture->tap_count] = ring;
	return (int)capture->tap_count++;
}

static void
capture_tap_see(struct xk_capture *sink, unsigned place, enum xk_direction direction, const struct xk_msg *m)
{
	struct capture *capture = xk_container_of(sink, struct capture, sink);
	struct capture_ring *ring = capture->taps[place];
	bool kept;

	/* The lock's holder only copies a message; waiters yield, because it may need their core. */
	for (unsigned tries = 1; atomic_exchange_explicit(&ring->lock, 1, memory_order_acquire) != 0; tries++)
		if (tries % CAPTURE_SPINS == 0)
			sched_yield();
	kept = capture_ring_put(ring, m, capture_now_ns(capture), direction == XK_UP ? PCAPNG_IN : PCAPNG_OUT, NULL);
	capture_ring_publish(ring, ring->begun, kept, !kept);
	capture_notify(capture, ring);
	atomic_store_explicit(&ring->lock, 0, memory_order_release);
}

static const struct xk_capture_ops capture_sink_ops = { .add = capture_tap_add, .see = capture_tap_see };

struct xk_capture *
capture_sink(struct capture *capture)
{
	return capture == NULL ? NULL : &capture->sink;
}

/* ---- opening and closing ---- */

struct capture *
capture_open(const char *program, const char *path, const char *host)
{
	struct capture *capture = calloc(1, sizeof(*capture) + strlen(path) + 1);

	if (capture == NULL)
		return NULL;
	capture->sink.ops = &capture_sink_ops;
	capture->program = program;
	capture->host = host;
	capture->wake = -1;
	capture->rings_last = &capture->rings;
	memcpy(capture->path, path, strlen(path) + 1);
	capture->file = pcapng_open(path, program);
	if (capture->file == NULL) {
		capture_fail(capture, "cannot be written", errno);
		free(capture);
		return NULL;
	}
	pthread_mutex_init(&capture->lock, NULL);
	return capture;
}

int
capture_start(struct capture *capture, struct xk_platform *platform)
{
	struct timespec now;
	sigset_t all, before;
	int err;

	if (capture == NULL)
		return 0;
	capture->platform = platform;
	if (platform->virtual_time)
		return 0;
	clock_gettime(CLOCK_REALTIME, &now);
	capture->epoch_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	capture->epoch_ns -= platform->ops->now_ns(platform);
	capture->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (capture->wake < 0)
		return capture_fail(capture, "cannot be written", errno);
	sigfillset(&all); /* signals are for other threads */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	capture->has_thread = true;
	err = pthread_create(&capture->thread, NULL, capture_write, capture);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err == 0)
		return 0;
	capture->has_thread = false;
	return capture_fail(capture, "cannot be written", err);
}

/* Writes each interface's statistics to the file, and the number of lost frames to standard error. */
static void
capture_report_counts(struct capture *capture)
{
	uint64_t all_kept = 0, all_dropped = 0;

	for (unsigned i = 0; i < capture->interface_count; i++) {
		uint64_t kept = 0, dropped = 0;

		for (struct capture_ring *ring = capture->rings; ring != NULL; ring = ring->next)
			if (ring->interface == i) {
				kept += atomic_load_explicit(&ring->kept, memory_order_relaxed);
				dropped += atomic_load_explicit(&ring->dropped, memory_order_relaxed);
			}
		pcapng_statistics(capture->file, i, capture->latest_ns, kept + dropped, dropped);
		all_kept += kept;
		all_dropped += dropped;
	}
	if (all_dropped > 0)
		fprintf(stderr,
			"%s: --pcap %s: %" PRIu64 " of %" PRIu64
			" frames are missing: they arrived faster than they were written\n",
			capture->program, capture->path, all_dropped, all_kept + all_dropped);
}

int
capture_close(struct capture *capture)
{
	struct capture_ring *ring;
	struct capture_port *port;
	int err, status;

	if (capture == NULL)
		return 0;
	if (capture->has_thread) {
		atomic_store_explicit(&capture->ends, true, memory_order_release);
		eventfd_write(capture->wake, 1);
		pthread_join(capture->thread, NULL);
	}
	if (capture->wake >= 0)
		close(capture->wake);
	capture_drain(capture, UINT64_MAX);
	capture_report_counts(capture);
	err = pcapng_close(capture->file);
	status = err == 0 ? 0 : capture_fail(capture, "cannot be written", -err);
	while ((port = capture->ports) != NULL) {
		capture->ports = port->next;
		if (port->port != NULL)
			port->port->ops = port->inner;
		free(port);
	}
	while ((ring = capture->rings) != NULL) {
		capture->rings = ring->next;
		free(ring->name);
		free(ring);
	}
	pthread_mutex_destroy(&capture->lock);
	free(capture);
	return status;
}
