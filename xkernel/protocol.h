/*
 * protocol.h - how a protocol declares itself: roles of its lowers, its numbers on them, settings, names of drop reasons
 * and counters. `xk protocols NAME` prints the declaration; the graph checker obeys it.
 */
#ifndef XK_PROTOCOL_H
#define XK_PROTOCOL_H

#include "xkernel/header.h"
#include "xkernel/table.h"
#include "xkernel/upi.h"

enum xk_realm {
	XK_ASYNC = 1 << 0,   /* push, pop, demux */
	XK_RPC = 1 << 1,     /* call, call_pop, call_demux */
	XK_CONTROL = 1 << 2, /* asked by control; carries no messages for others (ARP, BIDCTL) */
};

/* What a protocol needs below it. */
struct xk_role {
	const char *name; /* NULL ends the list */
	unsigned needs;   /* enum xk_realm: what the lower must offer */
	const char *type; /* the lower must be of this type; NULL: any */
	const char *help;
};

/* This protocol's number on lowers of a type; `number=N` on the edge overrides. */
struct xk_number_on {
	const char *lower; /* NULL ends the list */
	uint32_t number;
};

enum xk_setting_type {
	XK_SETTING_UINT,        /* uint64_t: decimal, 0x..., with k, m for 1024s */
	XK_SETTING_BOOL,        /* bool: yes, no, true, false, 0, 1 */
	XK_SETTING_TIME,        /* uint64_t, nanoseconds: "20us", "3ms", "2s" */
	XK_SETTING_STRING,      /* const char *, owned by the kernel */
	XK_SETTING_HOST,        /* uint32_t: "10.77.0.1" */
	XK_SETTING_NETWORK,     /* struct xk_network: "10.77.0.1/24" */
	XK_SETTING_LINK,        /* uint64_t, 48 bits: "02:00:00:00:00:01" */
	XK_SETTING_RATE,        /* uint64_t, bits per second: "10Mb/s", "1.28Gb/s", "622kb/s", "9600b/s", "0" */
	XK_SETTING_PROBABILITY, /* uint64_t, parts of 2^32, the nearest: "0.01", "1%", "0", "1" (which is 2^32) */
};

/* An address and how many of its leading bits name the network. */
struct xk_network {
	uint32_t host;
	uint32_t bits;
};

/* A setting of an instance: `--set node.name=value`, or an attribute of the node in the graph file. */
struct xk_setting {
	const char *name; /* NULL ends the list */
	enum xk_setting_type type;
	size_t offset;       /* where the value goes in the instance's struct */
	const char *initial; /* as text; NULL: the zero value */
	const char *help;
	uint64_t min, max; /* of XK_SETTING_UINT, XK_SETTING_TIME and XK_SETTING_RATE; both 0: no limit */
};

enum xk_protocol_flags {
	XK_VIRTUAL = 1 << 0,   /* has no header: numbers are seen through it */
	XK_PORT = 1 << 1,      /* a leaf that is a port */
	XK_REPEATS = 1 << 2,   /* the whole group of roles may occur several times */
	XK_ONE_UPPER = 1 << 3, /* at most one protocol may stand on it */
	/*
	 * A virtual protocol that gives its uppers sessions of its lowers: messages pass it by. They cross the edge above it,
	 * so that marks on the edges below it would mean nothing.
	 */
	XK_LENDS = 1 << 4,
	XK_TABLE = 1 << 5, /* has a table (table.h) although its sessions are of several kinds */
};

struct xk_protocol_type {
	const char *name;
	const char *help; /* a sentence or two, for `xk protocols` */
	const struct xk_protocol_ops *ops;
	/* What all its sessions are; NULL: they are of several kinds, or there are none. */
	const struct xk_session_ops *session_ops;
	uint32_t header, gather; /* bytes, as header.h has it; 0: there is no header, and nothing is gathered besides */
	const struct xk_field *fields;      /* of the header; NULL: there is none */
	size_t size;                        /* of an instance; its struct begins with struct xk_protocol */
	unsigned offers;                    /* enum xk_realm */
	unsigned flags;                     /* enum xk_protocol_flags */
	const struct xk_role *lowers;       /* NULL: none */
	const struct xk_number_on *numbers; /* its own on its lowers; NULL: none */
	uint32_t number_max;                /* uppers need a number here, unique, at most this; 0: none */
	const struct xk_setting *settings;
	const char *const *drops;    /* names from XK_DROP_OWN on; NULL ends the list */
	const char *const *counters; /* names; NULL ends the list */
	unsigned session_max;        /* default of the setting `sessions`; 0: keeps no passive sessions */
	/* What uppers that know this type call directly, a struct that its header declares; NULL: nothing. */
	const void *neighbour_ops;
};

/* Returns how many bytes of its header a type has gathered. */
static inline uint32_t
xk_header_gathers(const struct xk_protocol_type *type)
{
	return type->gather > type->header ? type->gather : type->header;
}

/* Every protocol that was built in, sorted by name; NULL ends the list. Generated from protocols/meson.build. */
extern const struct xk_protocol_type *const xk_protocol_types[];

/* The type called name, or NULL. */
const struct xk_protocol_type *xk_protocol_type_find(const char *name);

/* Stores the number that upper declares for lowers of the type lower. False: it declares none. Any context. */
bool xk_number_find(const struct xk_protocol_type *upper, const struct xk_protocol_type *lower, uint32_t *number);

/*
 * Parses text as a setting's value into the instance (its struct begins at instance). strings are duplicated onto the
 * kernel's list. 0, or -EINVAL with a sentence in why (what was expected). Main thread.
 */
int xk_setting_parse(const struct xk_setting *setting, const char *text, void *instance, char *why, size_t why_len);

enum { XK_SETTING_TEXT = 32 };

/*
 * Prints the value of a number, time, rate or probability as xk_setting_parse would read it, in the coarsest unit that
 * is exact, into text (at least XK_SETTING_TEXT bytes), and returns text.
 */
char *xk_setting_print(enum xk_setting_type type, uint64_t value, char *text);

/* Parses "20us", "3ms", "2s", "500ns". False: it is no time. */
bool xk_time_parse(const char *text, uint64_t *ns);
/* Parses "10.77.0.1". False: it is no address. */
bool xk_host_parse(const char *text, uint32_t *host);
/* Prints an address into text (at least 16 bytes) and returns text. */
char *xk_host_print(uint32_t host, char *text);

#endif
