/*
 * fuzz.h - shared by the fuzzers.
 *
 * Each fuzzer (fuzz_frames.c, fuzz_graph.c, ...) defines LLVMFuzzerTestOneInput, for libFuzzer (run.sh) and for a CUnit
 * program that calls it with inputs of its own (test_fuzz.c, test_fuzz_graph.c, ...). A violated property ends the
 * process with a message.
 *
 * An input of fuzz_frames and fuzz_hosts is a script: one byte of choices (the lowest bits are the graph's policies,
 * enum fuzz_policy), then records. A record's first byte names what happens (enum fuzz_record); its upper four bits are
 * an argument.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

/* Prints the violated property and ends the process. */
__attribute__((noreturn)) void fuzz_failed(const char *what, const char *file, int line);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : fuzz_failed(#condition, __FILE__, __LINE__))

/* splitmix64 (Steele, Lea, Flood 2014): good numbers from any seed, even zero and one. */
static inline uint64_t
fuzz_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* Returns a random number below `below`. */
static inline unsigned
fuzz_draw(uint64_t *state, unsigned below)
{
	return (unsigned)(fuzz_random(state) % below);
}

/* The rest of an input. */
struct fuzz_input {
	const uint8_t *at;
	size_t left;
};

/* Returns the next byte, or two bytes, lowest first; zeros at the end. */
static inline unsigned
fuzz_u8(struct fuzz_input *input)
{
	if (input->left == 0)
		return 0;
	input->left--;
	return *input->at++;
}

static inline unsigned
fuzz_u16(struct fuzz_input *input)
{
	unsigned low = fuzz_u8(input);

	return low | fuzz_u8(input) << 8;
}

/* Copies len bytes, or fewer at the end. Returns their number. */
static inline size_t
fuzz_bytes(struct fuzz_input *input, uint8_t *bytes, size_t len)
{
	if (len > input->left)
		len = input->left;
	memcpy(bytes, input->at, len);
	input->at += len;
	input->left -= len;
	return len;
}

/*
 * Runs run(argument) on a thread of its own and waits. A starting driver looks up the bounds of its stack, which is
 * slow on the main thread (libc reads /proc), and fuzzers start drivers often.
 */
static inline void
fuzz_on_thread(void *(*run)(void *argument), void *argument)
{
	pthread_t thread;

	FUZZ_CHECK(pthread_create(&thread, NULL, run, argument) == 0);
	FUZZ_CHECK(pthread_join(thread, NULL) == 0);
}

/* ---- scripts ---- */

enum fuzz_policy {
	FUZZ_EXPLICIT = 1 << 0, /* every edge hands off */
	FUZZ_ORDERED = 1 << 1,  /* order=session */
	FUZZ_NO_WAIT = 1 << 2,  /* implicit=fail */
	FUZZ_POLICIES = 8,
};

enum fuzz_record {
	/* 0 to 7: a frame: 16 bits of length, lowest first, and the bytes; these three are bits */
	FUZZ_FIX_IP = 1,  /* corrects the IP header's checksum */
	FUZZ_FIX_UDP = 2, /* ... the UDP checksum, and the IP header's */
	FUZZ_SPLIT = 4,   /* in two segments, split at argument; without: argument - 1 buffers are left */
	FUZZ_TIME = 8,    /* lets 2^argument ms pass */
	FUZZ_OPEN,        /* opens a session to a peer; argument: slot; a byte: the peer */
	FUZZ_LAZY,        /* the same, lazily */
	FUZZ_CLOSE,       /* closes; argument: slot */
	FUZZ_PUSH,        /* pushes; argument: slot; 16 bits: bytes */
	FUZZ_SERVE,       /* argument odd: enables the server for strangers; even: disables it */
	FUZZ_FIRST_FREE,
};

enum {
	FUZZ_HOST = 0x0a4d0002, /* 10.77.0.2 in a network of 24 bits */
	FUZZ_PORT = 2001,       /* the server's */
	FUZZ_MTU = 600,
	FUZZ_PEERS = 6, /* hosts from 10.77.0.16 on, link addresses from 02:00:00:00:00:10 on */
	FUZZ_SLOTS = 4,
	FUZZ_FRAME_MAX = 2047,
	FUZZ_SCRIPT_MAX = 1 << 16,
	FUZZ_CALLS_GRAPH = 14, /* fuzz_hosts' first of two graphs of calls */
	FUZZ_GM_GRAPH = 16,
	FUZZ_AM_GRAPH = 17,
	FUZZ_TCP_GRAPH = 18,
	FUZZ_SELECT_GRAPH = 31, /* the graph of calls by number */
	FUZZ_HEADERS_IP = 2,    /* fuzz_headers' loaders of headers with options */
	FUZZ_HEADERS_TCP = 13,
};

#define FUZZ_LINK UINT64_C(0x020000000001)
#define FUZZ_PEER_LINK UINT64_C(0x020000000010)
#define FUZZ_PEER_HOST UINT32_C(0x0a4d0010)
#define FUZZ_BEHIND UINT32_C(0x0a4e0010) /* hosts of the other network, if a graph has two */

/*
 * Corrects the checksums of a frame that holds a whole datagram of a protocol with a checksum (whole false: only the IP
 * header's).
 */
void fuzz_fix_checksums(uint8_t *frame, size_t len, bool whole);

/* Returns the sum of a UDP datagram of len bytes at p and its pseudo-header; ip: the IP header. */
uint64_t fuzz_udp_sum(const uint8_t *ip, const uint8_t *p, size_t len);

/* Writes a script of at most max bytes: peers' traffic, with faults. Returns its length. */
size_t fuzz_traffic_make(uint8_t *script, size_t max, uint64_t seed);

/* The same for graphs of calls: peers' calls. The first byte chooses such a graph of fuzz_hosts. */
size_t fuzz_traffic_make_calls(uint8_t *script, size_t max, uint64_t seed);

/* The same for the graphs of GM and of Active Messages. */
size_t fuzz_traffic_make_messages(uint8_t *script, size_t max, uint64_t seed);

/* The same of segments, for fuzz_hosts and its graph of TCP. */
size_t fuzz_traffic_make_segments(uint8_t *script, size_t max, uint64_t seed);

/* Changes a script in place: records, fields of frames. Returns its length. */
size_t fuzz_traffic_mutate(uint8_t *script, size_t len, size_t max, uint64_t seed);

/* ---- runs of a CUnit program ---- */

/*
 * Calls LLVMFuzzerTestOneInput with the inputs that make writes (at most max bytes) from `runs` seeds, in a child, and
 * prints the seed of a failure. XK_FUZZ_SEED=N in the environment: with seed N alone, in this process. XK_TEST_LONG=1:
 * 16 times as many. Returns false after a failure.
 */
bool fuzz_runs(unsigned runs, size_t max, size_t (*make)(uint8_t *input, size_t max, uint64_t seed));

/*
 * Calls LLVMFuzzerTestOneInput with every file of tests/fuzz/corpus/NAME, in a child, and prints the file of a failure,
 * or that there is none. XK_FUZZ_INPUT=FILE in the environment: with that file alone, in this process. Returns false
 * after a failure.
 */
bool fuzz_corpus(const char *name);

/* A `make` for fuzz_runs: writes a file of that corpus with some bytes changed or removed. Returns its length. */
size_t fuzz_corpus_damaged(const char *name, uint8_t *input, size_t max, uint64_t seed);

#endif
