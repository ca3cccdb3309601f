/*
 * rig.h - a protocol (or a few) between a fake user and a fake wire, on a virtual clock: bytes in; bytes, counters out.
 *
 *	RIG_TEST(asp_drops_what_is_cut_off, rig_new("asp"))
 *	{
 *		rig_inject(r, "0001 0002 0007");
 *		CHECK_EQ(rig_counter(r, "bad_length"), 1);
 *	}
 *
 * The kernel is a real one, in IPP mode, and the test's own thread is its driver: rig functions act as shepherds in it
 * and run it until nothing is left to do at the current time. Time passes in rig_advance_ms alone.
 *
 * Graphs: rig_new(TYPE) is `user -> TYPE -> wire`, with one wire per role (wire, wire2, ...). rig_new_graph takes
 * statements separated by ';', lowers first:
 *	name: lower lower ...	an instance; its type has the same name, or that without digits at its end
 *	name.setting=value	one of its settings, or sessions, implicit, trace
 * `user`, `user2`... are fake users, `wire`, `wire2`... fake wires; user/ip is one whose type is called "ip" (which
 * matters where numbers are looked up), port, port2... the real port protocol over a port of the rig's own, whose link
 * address is 02:00:00:00:00:01, :02... and whose mtu is 1500. lower#N is an edge with number=N; a user's edges
 * have a number of its own choice if none is given (0x3000 and on, or 253 and down where numbers are small).
 *
 * Bytes are written in hexadecimal, blanks where you like; '|' in what is injected or pushed begins a new segment;
 * ".." in what is expected matches any byte, "*" at the end any rest.
 * A wire accepts every open and open_enable. What is injected comes up its newest session; if it has none but was
 * enabled, a session is opened passively first (from peer 0x99).
 */
#ifndef RIG_H
#define RIG_H

#include "tests/test.h"
#include "xkernel/kernel.h"

/* The rig itself allocates: a test in which memory is short lets it. Volatile: compilers know that malloc reads no variable. */
extern volatile bool rig_allocates;

struct rig;

/* setting=value words may follow the type: "arp entries=4". Ends the test on failure. */
struct rig *rig_new(const char *type);
struct rig *rig_new_graph(const char *graph);

/* As rig_new_graph; prepare(r) is called before any protocol's init, for rig_answer. */
struct rig *rig_new_prepared(const char *graph, void (*prepare)(struct rig *r));

/* As rig_new_graph, for graphs that must be refused: what xk_kernel_init returned (0: it was not refused). */
int rig_refusal(const char *graph);

/*
 * Closes what users hold and what was opened passively, then checks that no message, no session on a wire or port, and
 * no undelivered or unsent surprise is left (drop them with rig_forget), and frees everything.
 */
void rig_free(struct rig *r);

/* A test of the rig that `made` makes, which is freed after it. */
#define RIG_TEST(name, made) TEST_WITH(name, struct rig *r, made, rig_free)

/* The same with the session s that `opened` opens; `end` ends the rig. */
#define SESSION_TEST(name, made, opened, end)                                                                          \
	static void name##_on(struct rig *r, struct xk_session *s);                                                    \
	TEST_WITH(name, struct rig *r, made, end)                                                                      \
	{                                                                                                              \
		name##_on(r, opened);                                                                                  \
	}                                                                                                              \
	static void name##_on(struct rig *r, struct xk_session *s)
#define RIG_SESSION_TEST(name, made, opened) SESSION_TEST(name, made, opened, rig_free)

/* ---- the user's side: `user`, or the one named by rig_user before ---- */

/* Which user the functions below stand for, from now on. */
void rig_user(struct rig *r, const char *name);

/*
 * Opens actively. NULL: rig_error says why; -EINPROGRESS: it waits, and rig_opened_session will return the session when it has
 * come to be. The rig closes it in rig_free unless the test does.
 */
struct xk_session *rig_open(struct rig *r, struct xk_participants participants);
/* As rig_open, of what must open at once: otherwise prints the error and ends the test. */
struct xk_session *rig_must_open(struct rig *r, struct xk_participants participants);
struct xk_session *rig_opened_session(struct rig *r);
/* No session is opened, with this error. */
#define rig_expect_open_fails(r, participants, error)                                                                  \
	do {                                                                                                           \
		CHECK(rig_open((r), (participants)) == NULL);                                                          \
		CHECK_EQ(rig_error((r)), (error));                                                                     \
	} while (0)
int rig_error(struct rig *r);

/* Participants with one address or two on the remote stack (pushed in this order), none or one on the local. */
struct xk_participants rig_to(uint64_t remote);
struct xk_participants rig_to2(uint64_t remote_lower, uint64_t remote_upper, uint64_t local);

int rig_open_enable(struct rig *r, struct xk_participants participants);
int rig_open_disable(struct rig *r, struct xk_participants participants);
void rig_close(struct rig *r, struct xk_session *s);

/* Pushes bytes on s. What xk_push returned. */
int rig_push(struct rig *r, struct xk_session *s, const char *hex);
int rig_push_bytes(struct rig *r, struct xk_session *s, const void *bytes, size_t len);
/* Pushes len bytes of which byte i is i % 251. */
int rig_push_pattern(struct rig *r, struct xk_session *s, size_t len);

/*
 * How many sessions open_done has announced to all users, the newest of them (not kept), and whether users keep them.
 */
unsigned rig_open_done_count(struct rig *r);
struct xk_session *rig_announced_session(struct rig *r);
void rig_keep_sessions(struct rig *r, bool keep);
/* What users' open_done returns from now on. */
void rig_refuse_sessions(struct rig *r, int status);

/* What came up to any user, oldest first; each is looked at once. False (and a failed check): another or none. */
#define rig_expect_delivered(r, hex) CHECK(rig_delivered_is((r), (hex)))
#define rig_expect_nothing_delivered(r) CHECK_EQ(rig_delivered((r)), 0)
bool rig_delivered_is(struct rig *r, const char *hex);
/* Takes the oldest; its length, or -1 where there is none. Bytes past max are not copied. */
long rig_take_delivered(struct rig *r, void *bytes, size_t max);
unsigned rig_delivered(struct rig *r);
/* The session that the last message that was looked at came up. */
struct xk_session *rig_delivered_session(struct rig *r);

/* ---- the wire's side: `wire` or `port`, or the one named by rig_wire before ---- */

void rig_wire(struct rig *r, const char *name);
void rig_inject(struct rig *r, const char *hex);
void rig_inject_bytes(struct rig *r, const void *bytes, size_t len);
/* Up a wire's session s instead of its newest one. */
void rig_inject_on(struct rig *r, struct xk_session *s, const char *hex);
/* Injects the bytes once for each of their first `bits` bits, with that one flipped. */
void rig_inject_flips(struct rig *r, const void *bytes, size_t len, size_t bits);
/* Injects each proper prefix of the bytes, the empty one included. */
void rig_inject_prefixes(struct rig *r, const char *hex);

/* What was sent through any wire or port, oldest first, as above. */
#define rig_expect_sent(r, hex) CHECK(rig_sent_is((r), (hex)))
#define rig_expect_nothing_sent(r) CHECK_EQ(rig_sent((r)), 0)
bool rig_sent_is(struct rig *r, const char *hex);
long rig_take_sent(struct rig *r, void *bytes, size_t max);
unsigned rig_sent(struct rig *r);
/* So many were sent, whatever they are. Forgets them, and what was delivered. */
#define rig_expect_sent_count(r, count)                                                                                \
	do {                                                                                                           \
		CHECK_EQ(rig_sent((r)), (count));                                                                      \
		rig_forget((r));                                                                                       \
	} while (0)

/* What is injected is delivered as, or answered with; what is pushed on s is sent as. */
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

/* Through which wire or port the last one that was looked at went. */
const char *rig_sent_through(struct rig *r);
/* From now on pushes fail with status (0: no more) on wires; on ports transmit takes nothing. */
void rig_fail_sending(struct rig *r, int status);

/*
 * Of a fake wire: sessions open, enables in force, the last open's remote and local top, and its newest session. These
 * and the two after them end the test if there is no fake wire, or a port is chosen.
 */
unsigned rig_wire_session_count(struct rig *r);
unsigned rig_wire_enable_count(struct rig *r);
uint64_t rig_wire_remote(struct rig *r);
uint64_t rig_wire_local(struct rig *r);
struct xk_session *rig_wire_newest_session(struct rig *r);
/* What opens on the fake wire return from now on (0: a session). */
void rig_wire_refuse(struct rig *r, int status);
/* What the next passive session's peer is. Forgets the newest session, so that the next injection opens one. */
void rig_wire_peer(struct rig *r, uint64_t peer);

/*
 * What every fake wire answers to a control operation (on protocol or sessions): len bytes, or (bytes NULL) -ENOTSUP.
 * At first: XK_GET_MAX_PACKET and XK_GET_OPT_PACKET 1500, XK_GET_OFFLOADS 0, XK_GET_LINK_ADDRESS 02:00:00:00:00:01, and
 * XK_GET_PEER_LINK and XK_GET_PEER_HOST what the session was opened to. For answers that init needs: rig_new_prepared.
 */
void rig_answer_control(struct rig *r, int op, const void *bytes, size_t len);

/* Returns how often sessions of fake wires were told that their peer does not answer (xk_unanswered). */
unsigned rig_unanswered_count(const struct rig *r);

/* ---- calls (rig_call.c): fake wires carry them, fake users make and serve them ---- */

/*
 * A user calls bytes on s, waiting or (async) not. The number of the call, from 0 in each rig; rig_call_status: what came of it,
 * -EINPROGRESS as long as nothing did. Its reply is then among what was delivered.
 */
unsigned rig_call(struct rig *r, struct xk_session *s, const char *hex);
unsigned rig_call_async(struct rig *r, struct xk_session *s, const char *hex);
int rig_call_status(struct rig *r, unsigned number);

/* A call on s is sent as; and number ends well by what comes, with a reply that is delivered as. */
#define rig_expect_call_sent(r, s, called, sent)                                                                       \
	do {                                                                                                           \
		rig_call((r), (s), called);                                                                            \
		rig_expect_sent((r), sent);                                                                            \
	} while (0)
#define rig_expect_reply(r, number, came, delivered)                                                                   \
	do {                                                                                                           \
		rig_end_call((r), 0, came);                                                                            \
		CHECK_EQ(rig_call_status((r), (number)), 0);                                                           \
		rig_expect_delivered((r), delivered);                                                                  \
	} while (0)

/* What was called through wires is sent, and waits until it is ended, the oldest first: by a reply (status 0) or an error. */
unsigned rig_calls_waiting(struct rig *r);
void rig_end_call(struct rig *r, int status, const char *hex);

/*
 * Somebody calls bytes up a wire's session (NULL: as rig_inject). What xk_call_demux returned; its reply is sent through
 * "reply". Users, whom the call is delivered to, return what rig_serve says, status 0 with that reply (NULL: none).
 */
int rig_inject_call(struct rig *r, struct xk_session *s, const char *hex);
void rig_serve(struct rig *r, int status, const char *hex);

/* The peer has closed a wire's session s; how often users were told so. */
void rig_close_done(struct rig *r, struct xk_session *s);
unsigned rig_close_done_count(struct rig *r);

/* ---- time, counters, anything else ---- */

/* Lets ms pass on the virtual clock, and whatever is due then happen. */
void rig_advance_ms(struct rig *r, uint64_t ms);
/* The same several times, one after another. */
void rig_advance_repeatedly_ms(struct rig *r, unsigned times, uint64_t ms);
/* As rig_advance_ms, and nothing must be sent meanwhile, nor be left of what was sent before. */
#define rig_expect_silence_ms(r, ms)                                                                                   \
	do {                                                                                                           \
		rig_advance_ms((r), (ms));                                                                             \
		CHECK_EQ(rig_sent((r)), 0);                                                                            \
	} while (0)

/*
 * A drop reason or counter of the topmost real protocol, by name; rig_counter_of: of any instance. -1: no such name.
 */
long rig_counter(struct rig *r, const char *name);
long rig_counter_of(struct rig *r, const char *instance, const char *name);
/* Checks several: "short=2 eth.bad_length=1", where eth is an instance. Says of each that differs what it is. */
#define rig_expect_counts(r, figures) rig_check_counts((r), (figures), __FILE__, __LINE__)
void rig_check_counts(struct rig *r, const char *figures, const char *file, int line);
/* All drops of all protocols. */
long rig_drop_count(struct rig *r);

struct xk_protocol *rig_protocol(struct rig *r, const char *instance);
struct xk_kernel *rig_kernel(struct rig *r);

/* Runs fn(argument) as a shepherd in the driver. False: it waits for something. */
bool rig_do(struct rig *r, void (*fn)(void *argument), void *argument);

/* From now on only so many more buffers can be had; UINT_MAX: as many as you like. */
void rig_limit_buffers(struct rig *r, unsigned more);
struct xk_platform *rig_platform(struct rig *r);

/* Forgets what was sent and delivered. */
void rig_forget(struct rig *r);

#endif
