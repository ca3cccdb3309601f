/*
 * host_options.h - the options that every program with hosts has, as a table that they share, and what stands for those
 * that are not given.
 */
#ifndef HOST_OPTIONS_H
#define HOST_OPTIONS_H

#include "tools/host/host.h"

enum { HOST_DRIVER_ABSENT = 3, HOST_MODE_ABSENT = 2, HOST_THREADS_MAX = 256, HOST_CORES_MAX = 1023 };

struct host_common {
	const char *link, *json, *pcap, *watchdog;
	char pcap_descriptor[24]; /* what --pcap - becomes */
	struct options_texts sets;
	unsigned driver;  /* enum xk_driver_policy; HOST_DRIVER_ABSENT: not given */
	uint64_t drivers; /* of each host */
	bool trace;
	uint64_t watchdog_ns; /* `watchdog`, parsed; 0: none */
};

#define HOST_COMMON_INITIAL                                                                                            \
	{                                                                                                              \
		.link = "virtio", .driver = HOST_DRIVER_ABSENT, .drivers = 1, .watchdog = "5s",                        \
	}

/* For a struct host_common: --driver, --drivers, --set, --link, --trace, --json, --pcap, --watchdog. */
extern const struct options_option host_common_options[];

/* Of a program that makes one host, in its own process. */
struct host_single {
	unsigned mode;                /* enum xk_mode; HOST_MODE_ABSENT: not given */
	uint64_t threads;             /* 0: not given */
	struct options_numbers cores; /* none: any; once complete, one for each driver */
};

#define HOST_SINGLE_INITIAL                                                                                            \
	{                                                                                                              \
		.mode = HOST_MODE_ABSENT                                                                               \
	}

/* For a struct host_single: --mode, --threads, --cores. */
extern const struct options_option host_single_options[];

extern const char *const host_modes[];   /* by enum xk_mode; NULL ends them */
extern const char *const host_drivers[]; /* by enum xk_driver_policy; NULL ends them */

/*
 * Checks what was given, finds the link, and chooses a driver where none was. `alone`: the other end of the link is not
 * in this process. 0 and the link, or OPTIONS_MISUSE and a sentence.
 */
int host_common_complete(const struct options_program *program, struct host_common *common, bool alone,
			 const struct host_link **link);

/*
 * With --pcap -, gives standard output to the capture: from now on, other output goes to standard error. Returns 0, or
 * the status to exit with, having printed a sentence.
 */
int host_common_take_output(const struct options_program *program, struct host_common *common);

/* Parses --watchdog. Returns 0, or OPTIONS_MISUSE with a sentence printed. */
int host_common_watchdog(const struct options_program *program, struct host_common *common);

/* Whether any of these was given. */
bool host_single_is_given(const struct host_single *single);

/*
 * Checks what was given and fills in what was not: ipp, one thread. `drivers` are the host's. 0, or OPTIONS_MISUSE and a
 * sentence.
 */
int host_single_complete(const struct options_program *program, struct host_single *single, uint64_t drivers);

/* Whether this process may run on a core that --cores names; if not, says so. */
bool host_has_core(const struct options_program *program, uint64_t core);

/* --json FILE: *out becomes the stream to write to, NULL without the option. 0, or OPTIONS_FAILURE and a sentence. */
int host_open_json(const char *program, const char *file, FILE **out);

/* Closes what host_open_json has opened; all but standard output and NULL. */
void host_close_json(FILE *out);

#endif
