/*
 * protocol.h - a protocol's declaration: roles of its lowers, its numbers on them, settings, names of drop reasons and
 * counters. `xk protocols NAME` prints it; the graph checker enforces it.
 */
#ifndef XK_PROTOCOL_H
#define XK_PROTOCOL_H

#include "xkernel/header.h"
#include "xkernel/options.h"
#include "xkernel/table.h"
#include "xkernel/upi.h"

enum xk_realm {
	XK_ASYNC = 1 << 0,   /* push, pop, demux */
	XK_RPC = 1 << 1,     /* call, call_pop, call_demux */
	XK_CONTROL = 1 << 2, /* answers control operations; carries no messages for others (ARP, BIDCTL) */
};

/* A protocol that is needed below. */
struct xk_role {
	const char *name; /* NULL ends the list */
	unsigned needs;   /* enum xk_realm: what the lower must offer */
	const char *type; /* the lower must be of this type; NULL: any */
	const char *help;
};

/* The list of a type's roles: XK_ROLES({ "port", XK_ASYNC, NULL, "carries frames" }). At file scope. */
#define XK_ROLES(...) ((const struct xk_role[]){ __VA_ARGS__, { .name = NULL } })

/* This protocol's number on lowers of a type. `number=N` at the edge overrides it. */
struct xk_number_on {
	const char *lower; /* NULL ends the list */
	uint32_t number;
};

/* The list of a type's numbers: XK_NUMBERS({ "eth", 0x0800 }). At file scope. */
#define XK_NUMBERS(...) ((const struct xk_number_on[]){ __VA_ARGS__, { .lower = NULL } })

enum xk_setting_type {
	XK_SETTING_UINT,        /* uint64_t: decimal, 0x..., with k, m for 1024s */
	XK_SETTING_BOOL,        /* bool: yes, no, true, false, 0, 1 */
	XK_SETTING_TIME,        /* uint64_t, nanoseconds: "20us", "3ms", "2s" */
	XK_SETTING_STRING,      /* const char *, owned by the kernel */
	XK_SETTING_HOST,        /* uint32_t: "10.77.0.1" */
	XK_SETTING_NETWORK,     /* struct xk_network: "10.77.0.1/24" */
	XK_SETTING_ADDRESS,     /* struct xk_network: the same, of a host in that network (xk_host_refusal) */
	XK_SETTING_LINK,        /* uint64_t, 48 bits: "02:00:00:00:00:01" */
	XK_SETTING_RATE,        /* uint64_t, bits per second: "10Mb/s", "1.28Gb/s", "622kb/s", "9600b/s", "0" */
	XK_SETTING_PROBABILITY, /* uint64_t, parts of 2^32, rounded: "0.01", "1%", "0", "1" (2^32) */
	XK_SETTING_CHOICE,      /* unsigned, or an enum: the position of the keyword among `choices` */
};

/* An address, and the number of its leading bits that name the network. */
struct xk_network {
	uint32_t host;
	uint32_t bits;
};

/* A setting of an instance: `--set node.name=value`, or an attribute of the node in the graph file. */
struct xk_setting {
	const char *name; /* NULL ends the list */
	enum xk_setting_type type;
	size_t offset;       /* of the value in the instance's struct */
	const char *initial; /* as text; NULL: the zero value */
	const char *help;
	uint64_t min, max;          /* of XK_SETTING_UINT, XK_SETTING_TIME and XK_SETTING_RATE; both 0: no limit */
	const char *const *choices; /* of XK_SETTING_CHOICE; NULL ends the list */
};

/*
 * Initializes a setting whose value is `member` of `struct_`; .initial, .min, .max and .choices may follow. Example:
 * XK_SETTING(TIME, struct asp, timeout_ns, "timeout", "longest silence", .initial = "2s", .min = 1000)
 */
#define XK_SETTING(type_, struct_, member, name_, help_, ...)                                                          \
	{                                                                                                              \
		.name = name_, .type = XK_SETTING_##type_, .offset = offsetof(struct_, member), .help = help_,         \
		__VA_ARGS__                                                                                            \
	}

enum xk_protocol_flags {
	XK_VIRTUAL = 1 << 0,   /* has no header: its uppers' numbers apply to its lowers */
	XK_PORT = 1 << 1,      /* a leaf that is a port */
	XK_REPEATS = 1 << 2,   /* the whole group of roles may occur several times */
	XK_ONE_UPPER = 1 << 3, /* at most one protocol may be on it */
	/* Virtual: lends its uppers its lowers' sessions. Messages bypass it: marks on edges below it mean nothing. */
	XK_LENDS = 1 << 4,
	XK_TABLE = 1 << 5, /* has a table (table.h) although its sessions are of several kinds */
	/* Usual messages are received and sent by its fields (receive.h). Its push does no more, so paths skip it. */
	XK_BY_FIELDS = 1 << 6,
};

struct xk_path_code;

struct xk_protocol_type {
	const char *name;
	const char *help; /* a sentence or two, for `xk protocols` */
	const struct xk_protocol_ops *ops;
	/* Operations of all its sessions; NULL: several kinds, or no sessions. */
	const struct xk_session_ops *session_ops;
	uint32_t header, gather;              /* bytes (header.h); 0: no header, nothing more to gather */
	const struct xk_field *fields;        /* of the header; NULL: none */
	const struct xk_option_list *options; /* behind the fields; NULL: none */
	size_t size;                          /* of an instance; its struct begins with struct xk_protocol */
	unsigned offers;                      /* enum xk_realm */
	unsigned flags;                       /* enum xk_protocol_flags */
	const struct xk_role *lowers;         /* NULL: none */
	const struct xk_number_on *numbers;   /* its own, on its lowers; NULL: none */
	uint32_t number_max; /* largest of the unique numbers that uppers need here; 0: they need none */
	const struct xk_setting *settings;
	const char *const *drops;    /* names from XK_DROP_OWN on; NULL ends the list */
	const char *const *counters; /* names; NULL ends the list */
	unsigned session_max;        /* default of the setting `sessions`; 0: keeps no passive sessions */
	/* A struct of functions, declared by the type's header, for uppers that know the type; NULL: none. */
	const void *neighbour_ops;
	/* Code of the paths that end here, through the stack of headers that it names (path.h); NULL: none end here. */
	const struct xk_path_code *path_code;
};

/* Returns the number of bytes that a type needs in one piece. */
static inline uint32_t
xk_header_gathers(const struct xk_protocol_type *type)
{
	return type->gather > type->header ? type->gather : type->header;
}

/* Gather the header of self in a call's reply; return as xk_call. For xk_call and xk_call_done only. */
int xk_reply_gather_slow(struct xk_protocol *self, struct xk_msg **reply);

static inline int
xk_reply_gather(struct xk_protocol *self, int result, struct xk_msg **reply)
{
	if (result != 0 || (*reply != NULL && xk_likely((*reply)->len >= xk_header_gathers(self->type))))
		return result;
	return xk_reply_gather_slow(self, reply);
}

/* All built-in protocols, sorted by name; NULL ends the list. Generated from protocols/meson.build. */
extern const struct xk_protocol_type *const xk_protocol_types[];

/*
 * Returns whether the declaration of each built-in protocol is sound: names, ends of lists, sizes, operations, bits of
 * fields, settings. Reports each fault on standard error, after `program`. Lengths of lists and names of types' objects
 * come from the symbol table: a stripped program passes these checks. Main thread.
 */
bool xk_protocol_types_check(const char *program);

/* Returns the type called name, or NULL. */
const struct xk_protocol_type *xk_protocol_type_find(const char *name);

/* Stores the number that upper declares on lower. Returns false if there is none. Any context. */
bool xk_number_find(const struct xk_protocol_type *upper, const struct xk_protocol_type *lower, uint32_t *number);

/*
 * Parses text as a setting's value into the instance at `instance`, which then owns copies of strings. Returns 0;
 * -EINVAL or -ENOMEM with a sentence in why; the setting is then unchanged. Main thread.
 */
int xk_setting_parse(const struct xk_setting *setting, const char *text, void *instance, char *why, size_t why_len);

enum { XK_SETTING_TEXT = 32 /* bytes that xk_setting_print needs */ };

/* Prints the strings of a NULL-terminated list, with commas, and `last` before the last one (" or "). Returns text. */
char *xk_choices_print(const char *const *choices, const char *last, char *text, size_t room);

/* Returns the size of a value of this type. Any context. */
size_t xk_setting_size(enum xk_setting_type type);

/* Prints a number, time, rate or probability in the coarsest exact unit, as xk_setting_parse reads it. Returns text. */
char *xk_setting_print(enum xk_setting_type type, uint64_t value, char *text);

/*
 * Parse a time ("20us", "3ms", "2s", "500ns"), an IPv4 address ("10.77.0.1"), or one with the number of its network's
 * bits ("10.77.0.1/24"). Return false if it is none; *network may have changed then.
 */
bool xk_time_parse(const char *text, uint64_t *ns);
bool xk_host_parse(const char *text, uint32_t *host);
bool xk_network_parse(const char *text, struct xk_network *network);
/*
 * Returns why no host in a network of `bits` leading bits (32: not known) can have the address, such as "the network's
 * own address"; NULL: a host can. Any context.
 */
const char *xk_host_refusal(uint32_t host, uint32_t bits);
/* Prints an IPv4 address into text (at least 16 bytes). Returns text. */
char *xk_host_print(uint32_t host, char *text);

#endif
