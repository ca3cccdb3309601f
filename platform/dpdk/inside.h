/* inside.h - what the files of the DPDK platform share. Not for others. */
#ifndef XK_PLATFORM_DPDK_INSIDE_H
#define XK_PLATFORM_DPDK_INSIDE_H

#include <errno.h>
#include <event2/event.h>
#include <rte_mbuf.h>

#include "platform/clock.h"
#include "platform/dpdk/dpdk.h"

/* ---- eal.c ---- */

/* Starts DPDK once; later calls only give the same clock. 0 or -errno and why. */
int dpdk_eal_start(const struct xk_dpdk_config *config, struct clock *clock, bool *hugepages, char *why, size_t size);

/* What DPDK has logged since the last reset, errors only, in one line. */
void dpdk_eal_log_reset(void);
const char *dpdk_eal_log_text(char *text, size_t size);

/* ---- dpdk.c ---- */

struct dpdk_platform {
	struct xk_platform base;
	struct clock clock;
	struct rte_mempool *pool;
	struct event_base *events;
	struct event *wake_event, *timer_event;
	uint64_t timer_ns; /* the timer has been or will be heard of at this time; UINT64_MAX: it is not set */
	int wake_fd, timer_fd;
	bool hugepages;
};

uint64_t dpdk_now_ns(struct xk_platform *platform);
void dpdk_wake(struct xk_platform *platform);

/* ---- buffer.c ---- */

/* An mbuf's private area: the segment that views it. */
enum { DPDK_BUFFER_PRIVATE = 128, DPDK_BUFFER_ROOM = XK_MSG_HEADROOM + XK_MSG_SEGMENT };

static_assert(sizeof(struct xk_msg) <= DPDK_BUFFER_PRIVATE, "the segment lies in the mbuf's private area");
static_assert(RTE_PKTMBUF_HEADROOM == XK_MSG_HEADROOM, "drivers leave the headroom that messages rely on");
static_assert(sizeof(((struct rte_mbuf *)NULL)->refcnt) == sizeof(_Atomic uint16_t) &&
		      _Alignof(_Atomic uint16_t) <= 2 && offsetof(struct rte_mbuf, refcnt) % 2 == 0,
	      "xk_msg.references points at an mbuf's own count");

static inline struct rte_mbuf *
dpdk_buffer_of(const struct xk_msg *segment)
{
	return (struct rte_mbuf *)((uintptr_t)segment - sizeof(struct rte_mbuf));
}

/* The mbuf that owns the bytes m shows. */
static inline struct rte_mbuf *
dpdk_buffer_owner(struct rte_mbuf *m)
{
	return RTE_MBUF_CLONED(m) ? rte_mbuf_from_indirect(m) : m;
}

/* Makes m's private area the segment that shows len bytes of it from data. */
static inline struct xk_msg *
dpdk_buffer_show(struct xk_platform *platform, struct rte_mbuf *m, uint8_t *data, uint32_t len)
{
	struct xk_msg *segment = rte_mbuf_to_priv(m);

	segment->data = data;
	segment->len = len;
	segment->total = 0;
	segment->next = NULL;
	segment->tail = segment;
	segment->references = (_Atomic uint16_t *)(uintptr_t)&dpdk_buffer_owner(m)->refcnt;
	segment->floor = m->buf_addr;
	segment->ceiling = segment->floor + m->buf_len;
	segment->platform = platform;
	segment->link = NULL;
	segment->id = 0;
	segment->flags = 0;
	return segment;
}

/* A pool for `count` buffers. NULL and why: no memory. */
struct rte_mempool *dpdk_buffer_pool_new(unsigned count, char *why, size_t size);
struct xk_msg *dpdk_buffer_new(struct xk_platform *platform);
struct xk_msg *dpdk_buffer_view(struct xk_platform *platform, const struct xk_msg *segment);
void dpdk_buffer_free(struct xk_platform *platform, struct xk_msg *segment);
unsigned dpdk_buffers_out(struct xk_platform *platform);

/* ---- port.c ---- */

enum { DPDK_PORT_RING = 256, DPDK_PORT_MTU = 1500, DPDK_PORT_HEADERS = 18 };

struct dpdk_port {
	struct xk_port base;
	uint16_t id;                /* DPDK's number; UINT16_MAX: there is no device yet */
	bool is_started, can_chain; /* the device sends chains of mbufs */
	char name[32];              /* of the port */
	char device[64];            /* DPDK's name for the device */
	struct event *event;        /* of the queue's descriptor; NULL: cannot sleep */
	_Atomic bool up;            /* somebody is at the other end */
	_Atomic bool is_arming;     /* the driver is asking the device for interrupts, or for none */
	_Atomic uint64_t no_peer, too_long, malformed;

	/* the link's; either may be NULL */
	int (*configured)(struct dpdk_port *port); /* the device is configured, not yet started. 0 or -errno */
	void (*closed)(struct dpdk_port *port);    /* the device is gone */
	void *link;
};

/* A port without a device. `address` 0: made from `device`. NULL and why: name or device is too long, or no memory. */
struct dpdk_port *dpdk_port_new(struct xk_platform *platform, const char *name, const char *device, uint64_t address,
				char *why, size_t size);

/* Configures and starts the device, which exists. On failure the caller closes the port. 0 or -errno and why. */
int dpdk_port_start(struct dpdk_port *port, char *why, size_t size);

/* A number that differs for different texts. */
uint64_t dpdk_port_hash(const char *text);

/* Somebody has come or gone. Any thread. */
void dpdk_port_set_up(struct dpdk_port *port, bool up);

/* Stops and removes the device, calls port->closed, frees port. Also for a port that did not start. */
void dpdk_port_close(struct xk_port *port);

#endif
