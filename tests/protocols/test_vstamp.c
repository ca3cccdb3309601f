/* test_vstamp.c - messages cross a vstamp unchanged, and its file records each with its time and direction. */
#include <errno.h>
#include <unistd.h>

#include "tests/protocols/threads.h"
#include "tests/rig.h"
#include "xkernel/capture.h"
#include "xkernel/engine/engine.h"

enum { LINES_MAX = 64 };

/* A file of stamps: its path, and its contents after the graph was freed. */
static struct {
	char path[64];
	unsigned long long kept, count, measured;
	unsigned lines;
	struct {
		unsigned long long ns;
		char what[16];
	} line[LINES_MAX];
} stamps;

/* Returns a rig with one vstamp; %s in the graph is its file. */
static struct rig *
stamped_rig(const char *graph)
{
	char text[256];
	int fd;

	memset(&stamps, 0, sizeof(stamps));
	snprintf(stamps.path, sizeof(stamps.path), "/tmp/test_vstamp.XXXXXX");
	fd = mkstemp(stamps.path);
	REQUIRE(fd >= 0);
	close(fd);
	snprintf(text, sizeof(text), graph, stamps.path);
	return rig_new_graph(text);
}

/* Frees the rig and reads the file. */
static void
read_stamps(struct rig *r)
{
	unsigned long long cost;
	char name[32];
	FILE *file;

	rig_free(r);
	file = fopen(stamps.path, "r");
	REQUIRE(file != NULL);
	REQUIRE(fscanf(file, "%31[^:]: %llu of %llu stamps; %llu cost %llu ns\n", name, &stamps.kept, &stamps.count,
		       &stamps.measured, &cost) == 5);
	CHECK_STR(name, "vstamp");
	CHECK_EQ(cost, 0); /* time is virtual */
	while (stamps.lines < LINES_MAX &&
	       fscanf(file, "%llu %15s\n", &stamps.line[stamps.lines].ns, stamps.line[stamps.lines].what) == 2)
		stamps.lines++;
	CHECK(feof(file));
	fclose(file);
	unlink(stamps.path);
	CHECK_EQ(stamps.lines, stamps.kept);
}

/* Returns the stamps in order: "up down". */
static const char *
words(char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < stamps.lines && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s", i == 0 ? "" : " ", stamps.line[i].what);
	return text;
}

static void
expect_words(const char *wanted)
{
	char text[LINES_MAX * 10];

	CHECK_STR(words(text, sizeof(text)), wanted);
}

/* Returns the number of stamps of this kind. */
static unsigned
count_of(const char *what)
{
	unsigned count = 0;

	for (unsigned i = 0; i < stamps.lines; i++)
		count += strcmp(stamps.line[i].what, what) == 0;
	return count;
}

/* ---- messages ---- */

RIG_SESSION_TEST(vstamp_without_a_file_counts_messages, rig_new("vstamp"), rig_open(r, rig_to(5)))
{
	rig_expect_down(r, s, "0102", "0102");
	rig_expect_up(r, "03", "03");
	CHECK_EQ(rig_counter(r, "stamps"), 2);
}

TEST(vstamp_writes_each_messages_time_and_direction)
{
	struct rig *r = stamped_rig("wire:; vstamp: wire; vstamp.file=%s; user: vstamp");
	struct xk_session *s = rig_open(r, rig_to(5));

	CHECK_EQ(rig_push(r, s, "0102"), 0);
	rig_advance_ms(r, 3);
	rig_inject(r, "03");
	rig_advance_ms(r, 4);
	rig_fail_sending(r, -ENOBUFS);
	CHECK_EQ(rig_push(r, s, "04"), -ENOBUFS);
	rig_expect_sent(r, "0102");
	rig_expect_delivered(r, "03");
	CHECK_EQ(rig_counter(r, "stamps"), 3);
	read_stamps(r);
	expect_words("down up down");
	CHECK_EQ(stamps.count, 3);
	CHECK_EQ(stamps.measured, 65536);
	CHECK_EQ(stamps.line[1].ns - stamps.line[0].ns, 3000000);
	CHECK_EQ(stamps.line[2].ns - stamps.line[1].ns, 4000000);
}

TEST(vstamp_keeps_the_latest_stamps)
{
	struct rig *r = stamped_rig("wire:; vstamp: wire; vstamp.records=3; vstamp.file=%s; user: vstamp");
	struct xk_session *s = rig_open(r, rig_to(5));

	for (unsigned i = 0; i < 3; i++)
		CHECK_EQ(rig_push(r, s, "01"), 0);
	rig_inject(r, "02");
	rig_advance_ms(r, 1);
	CHECK_EQ(rig_push(r, s, "03"), 0);
	rig_forget(r);
	read_stamps(r);
	expect_words("down down up down"); /* three become four */
	CHECK_EQ(stamps.count, 5);
	CHECK_EQ(stamps.measured, 4);
	CHECK_EQ(stamps.line[3].ns - stamps.line[2].ns, 1000000);
}

TEST(vstamp_without_stamps_reports_so)
{
	read_stamps(stamped_rig("wire:; vstamp: wire; vstamp.file=%s; user: vstamp"));
	expect_words("");
	CHECK_EQ(stamps.count, 0);
}

/* ---- calls ---- */

TEST(vstamp_stamps_calls_and_their_replies)
{
	struct rig *r = stamped_rig("wire:; vstamp: wire; vstamp.file=%s; user: vstamp");
	struct xk_session *s = rig_open(r, rig_to(5));
	unsigned number = rig_call(r, s, "0102");

	CHECK_EQ(rig_call_status(r, number), -EINPROGRESS);
	rig_advance_ms(r, 2);
	rig_end_call(r, 0, "03");
	CHECK_EQ(rig_call_status(r, number), 0);
	rig_expect_sent(r, "0102");
	rig_expect_delivered(r, "03");
	number = rig_call(r, s, "04");
	rig_end_call(r, -ETIMEDOUT, NULL);
	CHECK_EQ(rig_call_status(r, number), -ETIMEDOUT);
	rig_expect_sent(r, "04");
	read_stamps(r);
	expect_words("down up down up");
	CHECK_EQ(stamps.line[1].ns - stamps.line[0].ns, 2000000);
}

TEST(vstamp_stamps_asynchronous_calls_downward)
{
	struct rig *r = stamped_rig("wire:; vstamp: wire; vstamp.file=%s; user: vstamp");
	struct xk_session *s = rig_open(r, rig_to(5));
	unsigned number = rig_call_async(r, s, "0102");

	rig_end_call(r, 0, "03");
	CHECK_EQ(rig_call_status(r, number), 0);
	rig_expect_sent(r, "0102");
	rig_expect_delivered(r, "03");
	read_stamps(r);
	expect_words("down");
}

TEST(vstamp_stamps_calls_upward)
{
	struct rig *r = stamped_rig("wire:; vstamp: wire; vstamp.file=%s; user: vstamp");

	CHECK_EQ(rig_open_enable(r, rig_to(5)), 0);
	rig_serve(r, 0, "0304");
	CHECK_EQ(rig_inject_call(r, NULL, "01"), 0);
	rig_expect_delivered(r, "01");
	rig_expect_sent(r, "0304");
	rig_serve(r, -EIO, NULL);
	CHECK_EQ(rig_inject_call(r, NULL, "02"), -EIO);
	rig_expect_delivered(r, "02");
	CHECK_EQ(rig_open_done_count(r), 1);
	read_stamps(r);
	expect_words("up down up down");
}

static void
close_session(void *session)
{
	xk_close(session);
}

/* The upper session is closed, the lower is not: another is opened if somebody has enabled it. */
RIG_TEST(vstamp_reopens_for_a_call_if_enabled, rig_new("vstamp"))
{
	struct xk_session *lls;

	CHECK_EQ(rig_open_enable(r, rig_to(5)), 0);
	rig_serve(r, 0, "0304");
	CHECK_EQ(rig_inject_call(r, NULL, "01"), 0);
	lls = rig_wire_newest_session(r);
	REQUIRE(lls != NULL && xk_duplicate(lls));
	CHECK_EQ(rig_open_disable(r, rig_to(5)), 0);
	CHECK_EQ(rig_inject_call(r, lls, "02"), -ENOENT);
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	CHECK_EQ(rig_open_enable(r, rig_to(5)), 0);
	CHECK_EQ(rig_inject_call(r, lls, "03"), 0);
	CHECK_EQ(rig_open_done_count(r), 2);
	rig_expect_delivered(r, "01");
	rig_expect_delivered(r, "03");
	rig_expect_sent(r, "0304");
	rig_expect_sent(r, "0304");
	REQUIRE(rig_do(r, close_session, lls));
}

/* ---- a port ---- */

TEST(vstamp_on_a_port_stamps_its_drivers_work)
{
	struct rig *r = stamped_rig("port:; vstamp: port; vstamp.file=%s; user: vstamp");
	struct xk_session *s = rig_open(r, rig_to(5));
	unsigned long long slept_ns = 0;

	rig_expect_up(r, "0102", "0102");
	rig_advance_ms(r, 5);
	rig_expect_down(r, s, "03", "03");
	read_stamps(r);
	CHECK_EQ(count_of("receive"), 1);
	CHECK_EQ(count_of("received"), 1);
	CHECK_EQ(count_of("transmit"), 1);
	CHECK_EQ(count_of("sent"), 1);
	CHECK_EQ(count_of("up"), 1);
	CHECK_EQ(count_of("down"), 1);
	CHECK(count_of("sleep") > 0);
	for (unsigned i = 1; i < stamps.lines; i++)
		if (strcmp(stamps.line[i].what, "wake") == 0) {
			CHECK_STR(stamps.line[i - 1].what, "sleep");
			slept_ns += stamps.line[i].ns - stamps.line[i - 1].ns;
		}
	CHECK(slept_ns >= 5000000);
}

TEST(vstamp_on_a_port_stamps_in_order)
{
	struct rig *r = stamped_rig("port:; vstamp: port; vstamp.file=%s; user: vstamp");
	char text[LINES_MAX * 10];

	REQUIRE(rig_open(r, rig_to(5)) != NULL);
	rig_expect_up(r, "0102", "0102");
	rig_expect_down(r, rig_delivered_session(r), "03", "03");
	read_stamps(r);
	words(text, sizeof(text));
	CHECK_HAS(text, "receive received up");
	CHECK_HAS(text, "down transmit sent");
}

/* The rig's ports share its platform, so one vstamp records the sleep. */
TEST(vstamps_on_two_ports_work_side_by_side)
{
	struct rig *r = stamped_rig("port:; port2:; vstamp: port; vstamp2: port2; vstamp.file=%s; "
				    "vstamp2.file=/dev/null; user: vstamp; user2: vstamp2");
	struct xk_session *s = rig_open(r, rig_to(5));

	CHECK_EQ(rig_push(r, s, "01"), 0);
	rig_user(r, "user2");
	s = rig_open(r, rig_to(6));
	rig_expect_down(r, s, "02", "01");
	rig_expect_sent(r, "02");
	CHECK_STR(rig_sent_through(r), "port2");
	CHECK_EQ(rig_counter_of(r, "vstamp2", "stamps"), 3); /* down transmit sent */
	read_stamps(r);
	CHECK_EQ(count_of("down"), 1);
	CHECK_EQ(count_of("transmit"), 1);
	CHECK(count_of("sleep") > 0);
}

TEST(vstamp_above_another_stamps_only_messages)
{
	struct rig *r = stamped_rig("port:; vstamp2: port; vstamp: vstamp2; vstamp.file=%s; user: vstamp");
	struct xk_session *s = rig_open(r, rig_to(5));

	rig_expect_down(r, s, "01", "01");
	read_stamps(r);
	expect_words("down");
}

static struct xk_capture capture;

static void
prepare_capture(struct rig *r)
{
	rig_kernel(r)->config.capture = &capture;
}

RIG_SESSION_TEST(vstamp_leaves_a_port_to_the_capture,
		 rig_new_prepared("port:; vstamp: port; vstamp.file=/dev/null; user: vstamp", prepare_capture),
		 rig_open(r, rig_to(5)))
{
	rig_expect_down(r, s, "01", "01");
	CHECK_EQ(rig_counter(r, "stamps"), 1);
}

/* ---- refusals ---- */

TEST(vstamp_refuses_calls_on_a_lower_without_calls)
{
	CHECK_EQ(rig_refusal("port:; vstamp: port; select: vstamp; user: select"), -EINVAL);
	CHECK_EQ(rig_refusal("port:; vstamp: port; vstamp2: vstamp; select: vstamp2; user: select"), -EINVAL);
	CHECK_EQ(rig_refusal("wire:; vstamp: wire; vstamp2: vstamp; select: vstamp2; user: select"), 0);
}

TEST(vstamp_refuses_a_file_that_cannot_be_written)
{
	CHECK_EQ(rig_refusal("wire:; vstamp: wire; vstamp.file=/nonexistent/file; user: vstamp"), -ENOENT);
}

/* A graph that another protocol refuses leaves nothing behind. */
TEST(vstamp_frees_everything_if_the_graph_is_refused)
{
	CHECK_EQ(rig_refusal(
			 "port:; vstamp: port; vstamp.file=/dev/null; vtap: vstamp; vtap.linktype=token; user: vtap"),
		 -EINVAL);
}

/* Errors of a full disk are reported at the end. */
RIG_SESSION_TEST(vstamp_survives_a_full_disk, rig_new("vstamp file=/dev/full"), rig_open(r, rig_to(5)))
{
	rig_expect_down(r, s, "01", "01");
	CHECK_EQ(rig_counter(r, "stamps"), 1);
}

/* ---- threads ---- */

enum { FRAMES = 3000, AHEAD = 500 };

static void
inject(struct threads *t, unsigned i)
{
	static const uint8_t frame[] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0, 'm' };

	CHECK(xk_memory_inject(t->port, xk_msg_from(t->platform, frame, sizeof(frame))));
}

/* Returns true once each delivered message has crossed the upper vstamp twice. */
static bool
is_done(struct threads *t)
{
	return atomic_load(&t->echo->delivered) == FRAMES && t->taken == FRAMES;
}

static uint64_t
stamps_of(const struct xk_protocol *vstamp)
{
	return xk_counter(vstamp, 0);
}

/* The driver and threads stamp at once, on a ring that wraps often. */
static void
check_threads(enum xk_mode mode)
{
	struct threads t = { .frames = FRAMES, .ahead = AHEAD, .inject = inject, .is_done = is_done };
	struct xk_protocol *lower, *upper;

	threads_begin(&t, mode);
	lower = threads_add_type(&t, "vstamp", "port", NULL);
	threads_set(lower, "file", "/dev/null");
	threads_set(lower, "records", "16");
	threads_add_type(&t, "eth", "vstamp", NULL);
	upper = threads_add(&t, "upper", lower->type, "eth", NULL);
	threads_add_echo(&t, "upper");
	threads_start(&t, upper);
	threads_feed(&t);
	xk_kernel_stop(t.kernel);
	CHECK_EQ(stamps_of(upper), 2 * FRAMES);
	CHECK(stamps_of(lower) > 2 * FRAMES);
	threads_take(&t);
	threads_end(&t);
}

TEST_OF(vstamp_counts_each_stamp_of_many_threads_in_regular_mode, check_threads(XK_REGULAR));
TEST_OF(vstamp_counts_each_stamp_of_many_threads_in_ipp_mode, check_threads(XK_IPP));
