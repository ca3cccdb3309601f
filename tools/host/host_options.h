/* host_options.h - options, checks and defaults common to all programs with hosts. */
#ifndef HOST_OPTIONS_H
#define HOST_OPTIONS_H

#include "tools/host/host.h"

enum { HOST_DRIVER_ABSENT = 3, HOST_MODE_ABSENT = 2, HOST_THREADS_MAX = 256, HOST_CORES_MAX = 1023 };

struct json;

struct host_common {
	const char *link, *json, *pcap, *journey;
	char pcap_descriptor[24]; /* replaces `pcap` for --pcap - */
	struct options_texts sets;
	unsigned driver;  /* enum xk_driver_policy; HOST_DRIVER_ABSENT: not given */
	uint64_t drivers; /* per host */
	bool trace;
	unsigned no_paths;    /* index in options_yes_no */
	uint64_t watchdog_ns; /* 0: none */
	uint64_t spin_ns;     /* 0: not given */
};

#define HOST_COMMON_INITIAL                                                                                            \
	{                                                                                                              \
		.link = "virtio", .driver = HOST_DRIVER_ABSENT, .drivers = 1, .watchdog_ns = UINT64_C(5000000000),     \
	}

/* For a struct host_common. */
extern const struct options_option host_common_options[];

/* Options of a program that runs one host, in its own process. */
struct host_single {
	unsigned mode;                /* enum xk_mode; HOST_MODE_ABSENT: not given */
	uint64_t threads;             /* 0: not given */
	struct options_numbers cores; /* none: any; after host_single_complete, one per driver */
};

#define HOST_SINGLE_INITIAL                                                                                            \
	{                                                                                                              \
		.mode = HOST_MODE_ABSENT                                                                               \
	}

/* For a struct host_single. */
extern const struct options_option host_single_options[];

extern const char *const host_modes[];   /* by enum xk_mode; terminated by NULL */
extern const char *const host_drivers[]; /* by enum xk_driver_policy; terminated by NULL */

/*
 * Checks the options, finds the link, and chooses a driver if none was given. `alone`: the peer is in another process.
 * Returns 0, or the exit status after a message.
 */
int host_common_complete(const struct options_program *program, struct host_common *common, bool alone,
			 const struct host_link **link);

/* With --pcap -, gives standard output to the capture; other output goes to standard error. Returns the same. */
int host_common_take_output(const struct options_program *program, struct host_common *common);

/* Checks --journey. Returns 0, or OPTIONS_MISUSE after a message. */
int host_common_journey(const struct options_program *program, const struct host_common *common, bool simulated);

/* Returns true if any of them was given. */
bool host_single_is_given(const struct host_single *single);

/* Checks the options and fills in the defaults: ipp, one thread. Returns 0, or OPTIONS_MISUSE after a message. */
int host_single_complete(const struct options_program *program, struct host_single *single, uint64_t drivers);

/* Returns a host's options from completed ones, which it borrows; the caller sets the rest. */
struct host_options host_single_options_of(const struct host_common *common, const struct host_single *single,
					   const struct host_link *link);

/* Returns true if this process may run on `core`, of --cores; prints a message otherwise. */
bool host_has_core(const struct options_program *program, uint64_t core);

/* Opens the file of --json, or sets *out to NULL without it. Returns 0, or OPTIONS_FAILURE after a message. */
int host_open_json(const char *program, const char *file, FILE **out);

/* Closes the outermost object and the document. Returns 0, or OPTIONS_FAILURE after a message if writing failed. */
int host_end_json(const char *program, const char *file, struct json *json);

/* Closes the file of host_open_json, unless it is standard output or NULL. */
void host_close_json(FILE *out);

#endif
