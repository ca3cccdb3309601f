/*
 * rig.h - protocols between a fake user and a fake wire, on a virtual clock: bytes in; bytes and counters out.
 *
 *	RIG_TEST(asp_drops_what_is_cut_off, rig_new("asp"))
 *	{
 *		rig_inject(r, "0001 0002 0007");
 *		CHECK_EQ(rig_counter(r, "bad_length"), 1);
 *	}
 *
 * The kernel is a real one, in IPP mode, and the test's thread is its driver: rig functions act as shepherds and run
 * the kernel until nothing is left to do at the current time. Time passes only in rig_advance_ms and its variants.
 *
 * Graphs: rig_new(TYPE) is `user -> TYPE -> wire`, with one wire per role (wire, wire2, ...). rig_new_graph takes
 * statements separated by ';', lowers first:
 *	name: lower lower ...	an instance; its type has the same name, with or without the digits at the end
 *	name.setting=value	one of its settings, or sessions, implicit, trace
 * `user`, `user2`... are fake users; user/ip is one whose type is called "ip", which matters where numbers are looked
 * up. `wire`, `wire2`... are fake wires. `port`, `port2`... are the real port protocol over a port of the rig, with
 * link address 02:00:00:00:00:01, :02... and mtu 1500. lower#N is an edge with number=N; edges of a user without a
 * number get one (0x3000 upward, or 253 downward if the lower's numbers are small).
 *
 * Bytes are written in hexadecimal, with blanks anywhere between them. In injected or pushed bytes, '|' begins a new
 * segment; in expected bytes, ".." matches any byte and "*" at the end any rest.
 * A wire accepts every open and open_enable. Injected bytes arrive on its newest session; if it has none but is
 * enabled, it first opens one passively (from peer 0x99).
 */
#ifndef RIG_H
#define RIG_H

#include "tests/test.h"
#include "xkernel/kernel.h"

/*
 * True while the rig allocates, for tests in which malloc fails. Volatile: compilers assume malloc reads no variable.
 */
extern volatile bool rig_allocates;

struct rig;

/* Settings may follow the type: "arp entries=4". Ends the test on failure. */
struct rig *rig_new(const char *type);
struct rig *rig_new_graph(const char *graph);

/* As rig_new_graph; calls prepare(r) before any protocol's init, for rig_answer_control. */
struct rig *rig_new_prepared(const char *graph, void (*prepare)(struct rig *r));

/* Builds a graph that must be refused. Returns the error of a setting or of xk_kernel_init; 0: not refused. */
int rig_refusal(const char *graph);

/*
 * Closes the users' and passive sessions, checks that no message and no session on a wire or port is leaked and that
 * the test has taken everything sent and delivered (rig_forget discards it), and frees the rig.
 */
void rig_free(struct rig *r);

/* A test on the rig `made`, which is freed afterwards. */
#define RIG_TEST(name, made) TEST_WITH(name, struct rig *r, made, rig_free)

/* The same, with a session s from `opened`; `end` frees the rig. */
#define SESSION_TEST(name, made, opened, end)                                                                          \
	static void name##_on(struct rig *r, struct xk_session *s);                                                    \
	TEST_WITH(name, struct rig *r, made, end)                                                                      \
	{                                                                                                              \
		name##_on(r, opened);                                                                                  \
	}                                                                                                              \
	static void name##_on(struct rig *r, struct xk_session *s)
#define RIG_SESSION_TEST(name, made, opened) SESSION_TEST(name, made, opened, rig_free)

/* ---- the user's side: `user`, or the one chosen by rig_user ---- */

/* Chooses the user for which the functions below act. */
void rig_user(struct rig *r, const char *name);

/*
 * Opens actively. NULL: rig_error returns the error; -EINPROGRESS: the open waits, and rig_opened_session returns the
 * session once it exists. rig_free closes the session unless the test does.
 */
struct xk_session *rig_open(struct rig *r, struct xk_participants participants);
/* As rig_open, but prints the error and ends the test if the session does not open at once. */
struct xk_session *rig_must_open(struct rig *r, struct xk_participants participants);
struct xk_session *rig_opened_session(struct rig *r);
/* Checks that the open fails with this error. */
#define rig_expect_open_fails(r, participants, error)                                                                  \
	do {                                                                                                           \
		CHECK(rig_open((r), (participants)) == NULL);                                                          \
		CHECK_EQ(rig_error((r)), (error));                                                                     \
	} while (0)
int rig_error(struct rig *r);

/* Return participants with one or two remote addresses (pushed in this order) and none or one local address. */
struct xk_participants rig_to(uint64_t remote);
struct xk_participants rig_to2(uint64_t remote_lower, uint64_t remote_upper, uint64_t local);

int rig_open_enable(struct rig *r, struct xk_participants participants);
int rig_open_disable(struct rig *r, struct xk_participants participants);
void rig_close(struct rig *r, struct xk_session *s);

/* Pushes bytes on s. Returns xk_push's result. */
int rig_push(struct rig *r, struct xk_session *s, const char *hex);
int rig_push_bytes(struct rig *r, struct xk_session *s, const void *bytes, size_t len);
/* Pushes len bytes; byte i is i % 251. */
int rig_push_pattern(struct rig *r, struct xk_session *s, size_t len);

/* Returns the number of sessions that open_done has announced to all users. */
unsigned rig_open_done_count(struct rig *r);
/* Returns the last of them, without a reference. */
struct xk_session *rig_announced_session(struct rig *r);
/* Sets whether users keep references on announced sessions. */
void rig_keep_sessions(struct rig *r, bool keep);
/* Sets the result of users' open_done. */
void rig_refuse_sessions(struct rig *r, int status);

/* Messages delivered to any user, oldest first; each check takes one. False: other bytes or none. */
#define rig_expect_delivered(r, hex) CHECK(rig_delivered_is((r), (hex)))
#define rig_expect_nothing_delivered(r) CHECK_EQ(rig_delivered((r)), 0)
bool rig_delivered_is(struct rig *r, const char *hex);
/* Takes the oldest message and copies at most max bytes. Returns its length; -1: none. */
long rig_take_delivered(struct rig *r, void *bytes, size_t max);
unsigned rig_delivered(struct rig *r);
/* Returns the session on which the last taken message arrived. */
struct xk_session *rig_delivered_session(struct rig *r);

/* ---- the wire's side: `wire` or `port`, or the one chosen by rig_wire ---- */

/* Chooses the wire or port for which the functions below act. */
void rig_wire(struct rig *r, const char *name);
void rig_inject(struct rig *r, const char *hex);
void rig_inject_bytes(struct rig *r, const void *bytes, size_t len);
/* Injects on a wire's session s instead of its newest. */
void rig_inject_on(struct rig *r, struct xk_session *s, const char *hex);
/* Injects the bytes once for each of their first `bits` bits, with that bit flipped. */
void rig_inject_flips(struct rig *r, const void *bytes, size_t len, size_t bits);
/* Injects each proper prefix of the bytes, including the empty one. */
void rig_inject_prefixes(struct rig *r, const char *hex);

/* Messages sent through any wire or port, oldest first, as above. */
#define rig_expect_sent(r, hex) CHECK(rig_sent_is((r), (hex)))
#define rig_expect_nothing_sent(r) CHECK_EQ(rig_sent((r)), 0)
bool rig_sent_is(struct rig *r, const char *hex);
long rig_take_sent(struct rig *r, void *bytes, size_t max);
unsigned rig_sent(struct rig *r);
/* Checks the number of sent messages. Discards them and the delivered ones. */
#define rig_expect_sent_count(r, count)                                                                                \
	do {                                                                                                           \
		CHECK_EQ(rig_sent((r)), (count));                                                                      \
		rig_forget((r));                                                                                       \
	} while (0)

/* Check that injected bytes are delivered or answered as given, and pushed bytes sent as given. */
#define rig_expect_up(r, injected, delivered)                                                                          \
	do {                                                                                                           \
		rig_inject((r), injected);                                                                             \
		rig_expect_delivered((r), delivered);                                                                  \
	} while (0)
#define rig_expect_answer(r, injected, sent)                                                                           \
	do {                                                                                                           \
		rig_inject((r), injected);                                                                             \
		rig_expect_sent((r), sent);                                                                            \
	} while (0)
#define rig_expect_down(r, s, pushed, sent)                                                                            \
	do {                                                                                                           \
		CHECK_EQ(rig_push((r), (s), pushed), 0);                                                               \
		rig_expect_sent((r), sent);                                                                            \
	} while (0)

/* Returns the name of the wire or port through which the last taken message was sent. */
const char *rig_sent_through(struct rig *r);
/* Makes pushes on wires fail with status, and ports' transmit accept nothing. 0: back to normal. */
void rig_fail_sending(struct rig *r, int status);
/* Calls act once, in the next push on a wire, before its message counts as sent: as if another shepherd came first. */
void rig_before_sending(struct rig *r, void (*act)(struct rig *r));

/*
 * Return a fake wire's number of open sessions and of enables in force, the top remote and local address of its last
 * open, and its newest session. These and the next two end the test if no fake wire is chosen.
 */
unsigned rig_wire_session_count(struct rig *r);
unsigned rig_wire_enable_count(struct rig *r);
uint64_t rig_wire_remote(struct rig *r);
uint64_t rig_wire_local(struct rig *r);
struct xk_session *rig_wire_newest_session(struct rig *r);
/* Makes opens and enables on the fake wire fail with status; 0: back to normal. */
void rig_wire_refuse(struct rig *r, int status);
/* Sets the next passive session's peer. Forgets the newest session, so the next injection opens one. */
void rig_wire_peer(struct rig *r, uint64_t peer);

/*
 * Sets every fake wire's answer to a control operation (on protocol or sessions): len bytes, or -ENOTSUP (bytes NULL).
 * Defaults: XK_GET_MAX_PACKET and XK_GET_OPT_PACKET 1500, XK_GET_OFFLOADS 0, XK_GET_LINK_ADDRESS 02:00:00:00:00:01, and
 * for XK_GET_PEER_LINK and XK_GET_PEER_HOST the session's remote address. rig_new_prepared sets answers for init.
 */
void rig_answer_control(struct rig *r, int op, const void *bytes, size_t len);

/* Returns the number of xk_unanswered calls on sessions of fake wires. */
unsigned rig_unanswered_count(const struct rig *r);

/* ---- calls (rig_call.c): fake wires carry them, fake users make and serve them ---- */

/*
 * Call bytes on s, waiting or (async) not. Return the call's number, from 0 in each rig. rig_call_status returns its
 * result, -EINPROGRESS before its end; its reply is delivered like a message.
 */
unsigned rig_call(struct rig *r, struct xk_session *s, const char *hex);
unsigned rig_call_async(struct rig *r, struct xk_session *s, const char *hex);
int rig_call_status(struct rig *r, unsigned number);

/* Checks that a call on s is sent as given. */
#define rig_expect_call_sent(r, s, called, sent)                                                                       \
	do {                                                                                                           \
		rig_call((r), (s), called);                                                                            \
		rig_expect_sent((r), sent);                                                                            \
	} while (0)
/* Ends the oldest call on a wire with the reply `came`; checks that call `number` succeeds and delivers its reply. */
#define rig_expect_reply(r, number, came, delivered)                                                                   \
	do {                                                                                                           \
		rig_end_call((r), 0, came);                                                                            \
		CHECK_EQ(rig_call_status((r), (number)), 0);                                                           \
		rig_expect_delivered((r), delivered);                                                                  \
	} while (0)

/* Calls through wires are sent and wait for rig_end_call, which ends the oldest with a reply (status 0) or an error. */
unsigned rig_calls_waiting(struct rig *r);
void rig_end_call(struct rig *r, int status, const char *hex);

/*
 * Injects a call on a wire's session (NULL: as rig_inject). Returns xk_call_demux's result; the reply is sent through
 * "reply". The call is delivered to users, which return the status and (0) reply set by rig_serve; hex NULL: no reply.
 */
int rig_inject_call(struct rig *r, struct xk_session *s, const char *hex);
void rig_serve(struct rig *r, int status, const char *hex);

/* Reports that the peer closed a wire's session s. rig_close_done_count: the number of users' close_done calls. */
void rig_close_done(struct rig *r, struct xk_session *s);
unsigned rig_close_done_count(struct rig *r);

/* ---- time, counters, anything else ---- */

/* Advances the virtual clock by ms and runs everything due by then. */
void rig_advance_ms(struct rig *r, uint64_t ms);
/* Does the same several times in a row. */
void rig_advance_repeatedly_ms(struct rig *r, unsigned times, uint64_t ms);
/* Advances the clock and checks that nothing is sent meanwhile and nothing sent earlier is left to take. */
#define rig_expect_silence_ms(r, ms)                                                                                   \
	do {                                                                                                           \
		rig_advance_ms((r), (ms));                                                                             \
		CHECK_EQ(rig_sent((r)), 0);                                                                            \
	} while (0)

/* Return a counter or drop count by name, of the topmost real protocol or of any instance. -1: no such name. */
long rig_counter(struct rig *r, const char *name);
long rig_counter_of(struct rig *r, const char *instance, const char *name);
/* Checks several: "short=2 eth.bad_length=1", where eth is an instance. Prints each one that differs. */
#define rig_expect_counts(r, figures) rig_check_counts((r), (figures), __FILE__, __LINE__)
void rig_check_counts(struct rig *r, const char *figures, const char *file, int line);
/* Returns the number of drops of all protocols. */
long rig_drop_count(struct rig *r);

struct xk_protocol *rig_protocol(struct rig *r, const char *instance);
struct xk_kernel *rig_kernel(struct rig *r);

/* Runs fn(argument) as a shepherd in the driver. Returns false if it is waiting. */
bool rig_do(struct rig *r, void (*fn)(void *argument), void *argument);

/* Allows only `more` further buffers; UINT_MAX: no limit. */
void rig_limit_buffers(struct rig *r, unsigned more);
struct xk_platform *rig_platform(struct rig *r);

/*
 * Promises (upi.h) are checked after each of the first 256 injections and advances, and when the rig is freed. This
 * test breaks one, by what it injects into a protocol that checks others: it must be broken when the rig is freed.
 */
void rig_expect_broken(struct rig *r);

/* Discards all sent and delivered messages. */
void rig_forget(struct rig *r);

#endif
