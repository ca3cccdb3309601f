/* test_pcapng.c - a capture's bytes, and other programs that read it. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "tests/test.h"
#include "tests/tools/pcapng_reader.h"
#include "tools/capture/pcapng.h"

enum { CAPTURE_MAX = 1 << 20 };

static struct {
	char path[64];
	uint8_t bytes[CAPTURE_MAX];
	size_t len;
} capture;

static struct pcapng *
capture_begin(void)
{
	struct pcapng *p;
	int fd;

	snprintf(capture.path, sizeof(capture.path), "/tmp/test_pcapng.XXXXXX");
	fd = mkstemp(capture.path);
	REQUIRE(fd >= 0);
	close(fd);
	p = pcapng_open(capture.path, "a test");
	REQUIRE(p != NULL);
	return p;
}

/* Returns the contents of the file. */
static void
capture_read(void)
{
	FILE *in = fopen(capture.path, "rb");

	REQUIRE(in != NULL);
	capture.len = fread(capture.bytes, 1, sizeof(capture.bytes), in);
	fclose(in);
}

static void
capture_end(struct pcapng *p)
{
	CHECK_EQ(pcapng_close(p), 0);
	capture_read();
}

/* Checks that the capture is exactly these bytes, in hexadecimal with blanks anywhere. */
static void
capture_is(const char *hex)
{
	size_t at = 0;
	int used;

	for (unsigned byte; sscanf(hex, " %2x%n", &byte, &used) == 1; hex += used, at++) {
		if (at < capture.len && capture.bytes[at] == byte)
			continue;
		fprintf(stderr, "\nbyte %zu is %02x, not %02x\n", at, at < capture.len ? capture.bytes[at] : 0, byte);
		CU_FAIL("another byte");
		return;
	}
	CHECK_EQ(capture.len, at);
}

/* Returns true if the option at `at` is this text of `len` bytes. */
static bool
capture_has_text(size_t at, const char *text, size_t len)
{
	return capture.len >= at + 4 + len && (capture.bytes[at + 2] | capture.bytes[at + 3] << 8) == (int)len &&
	       memcmp(capture.bytes + at + 4, text, len) == 0;
}

static const uint8_t frame[] = { 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x30, 0, 'h', 'e', 'y' };

#define SECTION                                                                                                        \
	"0a0d0d0a 2c000000 4d3c2b1a 0100 0000 ffffffffffffffff"                                                        \
	"0400 0600 612074657374 0000  0000 0000  2c000000"

#define INTERFACE                                                                                                      \
	"01000000 2c000000 0100 0000 00000400 0200 0600 6c61622e6530 0000 0900 0100 09000000 0000 0000 2c000000"

TEST(small_capture_has_these_bytes)
{
	struct pcapng *p = capture_begin();

	CHECK_EQ(pcapng_interface(p, "lab.e0"), 0);
	pcapng_frame(p, 0, UINT64_C(0x123456789a), PCAPNG_OUT, frame, sizeof(frame), NULL);
	CHECK_EQ(pcapng_interface(p, "x"), 1);
	pcapng_frame(p, 1, 3, PCAPNG_IN, frame, 14, "corrupt");
	capture_end(p);
	capture_is(SECTION INTERFACE
		   "06000000 40000000 00000000 12000000 9a785634 11000000 11000000"
		   "020000000002 020000000001 3000 686579 000000"
		   "0200 0400 02000000  0000 0000  40000000"
		   "01000000 28000000 0100 0000 00000400  0200 0100 78000000  0900 0100 09000000  0000 0000  28000000"
		   "06000000 48000000 01000000 00000000 03000000 0e000000 0e000000"
		   "020000000002 020000000001 3000 0000"
		   "0200 0400 01000000  0100 0700 636f7272757074 00  0000 0000  48000000");
	unlink(capture.path);
}

TEST(empty_frames_and_texts_take_no_bytes)
{
	struct pcapng *p = capture_begin();

	pcapng_interface(p, "");
	pcapng_frame(p, 0, 0, PCAPNG_NO_DIRECTION, NULL, 0, "");
	capture_end(p);
	capture_is(SECTION "01000000 24000000 0100 0000 00000400  0200 0000  0900 0100 09000000  0000 0000  24000000"
			   "06000000 30000000 00000000 00000000 00000000 00000000 00000000"
			   "0200 0400 00000000  0100 0000  0000 0000  30000000");
	unlink(capture.path);
}

TEST(interface_of_another_kind_has_these_bytes)
{
	struct pcapng *p = capture_begin();

	CHECK_EQ(pcapng_interface_of(p, "lab.tap", "a tap", 228), 0);
	CHECK_EQ(pcapng_interface_of(p, "lab.e0", NULL, 1), 1);
	capture_end(p);
	capture_is(SECTION "01000000 38000000 e400 0000 00000400  0200 0700 6c61622e746170 00"
			   "0300 0500 6120746170 000000  0900 0100 09000000  0000 0000  38000000" INTERFACE);
	unlink(capture.path);
}

TEST(statistics_have_these_bytes)
{
	struct pcapng *p = capture_begin();

	pcapng_interface(p, "lab.e0");
	pcapng_statistics(p, 0, UINT64_C(0x123456789a), UINT64_C(0x200000003), 5);
	capture_end(p);
	capture_is(SECTION INTERFACE "05000000 34000000 00000000 12000000 9a785634"
				     "0400 0800 0300000002000000  0500 0800 0500000000000000  0000 0000  34000000");
	unlink(capture.path);
}

/* Even without a flush, the file is readable up to its last block whenever the program ends. */
TEST(file_always_ends_at_a_block)
{
	static uint8_t bytes[PCAPNG_FRAME_MAX + 1];
	struct pcapng *p = capture_begin();
	struct reader reader;
	size_t most = 0;

	pcapng_interface(p, "lab.e0");
	for (unsigned i = 0; i < 600; i++) {
		pcapng_frame(p, 0, i, PCAPNG_IN, bytes, i % 60 == 59 ? sizeof(bytes) : i * 7, "why");
		if (i % 7 != 0)
			continue;
		reader_read(&reader, capture.path);
		CHECK(reader.packet_count >= most && reader.packet_count <= i + 1);
		most = reader.packet_count;
		reader_free(&reader);
	}
	CHECK(most > 300);
	CHECK_EQ(pcapng_close(p), 0);
	reader_read(&reader, capture.path);
	CHECK_EQ(reader.packet_count, 600);
	reader_free(&reader);
	unlink(capture.path);
}

/* The tests' own reader, on a file from a machine with the other byte order. */
TEST(reader_accepts_both_byte_orders)
{
	static const uint8_t
		file[] = {
			0x0a, 0x0d, 0x0d, 0x0a, 0,    0,    0,    28,   0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0, /* section */
			0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0,    0,    0,    28,               /* */
			0,    0,    0,    1,    0,    0,    0,    32,   0,    1,    0,    0,    0, 4, 0, 0,  0,
			9,    0,    1,    9,    0,    0,    0,        /* interface */
			0,    0,    0,    0,    0,    0,    0,    32, /* */
			0,    0,    0,    6,    0,    0,    0,    36,   0,    0,    0,    0,    0, 0, 0, 1,  0,
			0,    0,    2, /* packet */
			0,    0,    0,    1,    0,    0,    0,    3,    'x',  0,    0,    0,    0, 0, 0, 36,
		};
	struct reader reader;
	uint8_t *bytes = malloc(sizeof(file));

	REQUIRE(bytes != NULL);
	memcpy(bytes, file, sizeof(file));
	reader_take(&reader, bytes, sizeof(file));
	REQUIRE(reader.packet_count == 1);
	CHECK_EQ(reader.packets[0].at_ns, UINT64_C(0x100000002));
	CHECK_EQ(reader.packets[0].kept, 1);
	CHECK_EQ(reader.packets[0].len, 3);
	CHECK_EQ(reader.packets[0].bytes[0], 'x');
	reader_free(&reader);
}

TEST(long_texts_are_cut_between_characters)
{
	char text[3 * PCAPNG_TEXT_MAX + 1];
	struct pcapng *p;

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	memcpy(text + PCAPNG_TEXT_MAX - 2, "\xe2\x82\xac", 3); /* ends one byte past the limit */
	p = capture_begin();
	pcapng_interface(p, text);
	text[PCAPNG_TEXT_MAX - 2] = '\0';
	pcapng_interface(p, text);
	capture_end(p);
	/* a block: 16 bytes, the name, the resolution, the end, the length */
	CHECK(capture_has_text(44 + 16, text, PCAPNG_TEXT_MAX - 2));
	CHECK(capture_has_text(44 + 16 + 4 + PCAPNG_TEXT_MAX + 16 + 16, text, PCAPNG_TEXT_MAX - 2));
	unlink(capture.path);
}

TEST(long_frames_are_truncated)
{
	size_t len = PCAPNG_FRAME_MAX + 5;
	uint8_t *bytes = malloc(len);
	struct pcapng *p = capture_begin();

	REQUIRE(bytes != NULL);
	memset(bytes, 0xa5, len);
	pcapng_interface(p, "");
	pcapng_frame(p, 0, 0, PCAPNG_IN, bytes, len, NULL);
	capture_end(p);
	free(bytes);
	CHECK_EQ(capture.len, 44 + 36 + 28 + PCAPNG_FRAME_MAX + 16);
	memmove(capture.bytes, capture.bytes + 44 + 36, 28);
	capture.len = 28;
	capture_is("06000000 2c000400 00000000 00000000 00000000 00000400 05000400");
	unlink(capture.path);
}

TEST(flush_writes_to_the_file)
{
	struct pcapng *p = capture_begin();

	pcapng_interface(p, "lab.e0");
	CHECK_EQ(pcapng_flush(p), 0);
	capture_read();
	capture_is(SECTION INTERFACE);
	capture_end(p);
	unlink(capture.path);
}

TEST(errors_of_the_file_are_reported)
{
	struct pcapng *p = pcapng_open("/dev/full", "a test");

	REQUIRE(p != NULL);
	pcapng_interface(p, "lab.e0");
	CHECK_EQ(pcapng_close(p), -ENOSPC);
	p = pcapng_open("/dev/full", "a test");
	REQUIRE(p != NULL);
	CHECK_EQ(pcapng_flush(p), -ENOSPC);
	CHECK_EQ(pcapng_close(p), -ENOSPC);
	errno = 0;
	CHECK(pcapng_open("/nowhere/at/all", "a test") == NULL);
	CHECK_EQ(errno, ENOENT);
	CHECK_EQ(pcapng_close(NULL), 0);
}

TEST(unwritable_descriptor_is_refused_at_once)
{
	char path[32];
	int fd;

	errno = 0;
	CHECK(pcapng_open(PCAPNG_DESCRIPTOR "1048575", "a test") == NULL);
	CHECK_EQ(errno, EBADF);
	errno = 0;
	CHECK(pcapng_open(PCAPNG_DESCRIPTOR "-1", "a test") == NULL);
	CHECK_EQ(errno, EBADF);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	REQUIRE(fd >= 0);
	snprintf(path, sizeof(path), PCAPNG_DESCRIPTOR "%d", fd);
	errno = 0;
	CHECK(pcapng_open(path, "a test") == NULL);
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(close(fd), 0);
}

TEST(temporarily_full_disk_is_still_reported)
{
	static uint8_t much[1 << 16];
	struct pcapng *p = pcapng_open("/dev/full", "a test");

	REQUIRE(p != NULL);
	pcapng_interface(p, "lab.e0");
	for (unsigned i = 0; i < 10; i++)
		pcapng_frame(p, 0, i, PCAPNG_IN, much, sizeof(much), NULL);
	CHECK_EQ(pcapng_flush(p), -ENOSPC);
	CHECK_EQ(pcapng_close(p), -ENOSPC);
}

/* Checks that tshark shows `want` for `fields`, one line per frame, without warnings. */
static void
expect_tshark(const char *fields, const char *want)
{
	char command[512], got[1024];
	FILE *in;
	size_t len;

	snprintf(command, sizeof(command), "tshark -n -r %s -T fields -E separator=, %s 2>%s.err", capture.path, fields,
		 capture.path);
	in = popen(command, "r");
	REQUIRE(in != NULL);
	len = fread(got, 1, sizeof(got) - 1, in);
	got[len] = '\0';
	CHECK_EQ(pclose(in), 0);
	CHECK_STR(got, want);
	snprintf(command, sizeof(command),
		 "! grep -v '^Running as user' %s.err >&2; exit_status=$?; rm %s.err; exit $exit_status", capture.path,
		 capture.path);
	CHECK_EQ(system(command), 0);
}

TEST(tshark_reads_a_capture)
{
	struct pcapng *p;

	if (system("command -v tshark >/dev/null 2>&1") != 0) {
		fprintf(stderr, "\nSKIPPED: tshark is not installed, so no other program has read a capture\n");
		return;
	}
	p = capture_begin();
	pcapng_interface(p, "client.port");
	pcapng_interface(p, "server.port");
	pcapng_frame(p, 0, 1, PCAPNG_OUT, frame, sizeof(frame), NULL);
	pcapng_frame(p, 1, UINT64_C(5000000002), PCAPNG_IN, frame, sizeof(frame), "duplicate, \xc3\xb6");
	capture_end(p);
	expect_tshark(
		"-e frame.interface_name -e frame.time_epoch -e frame.packet_flags_direction -e frame.len -e eth.src "
		"-e eth.type -e frame.comment",
		"client.port,0.000000001,0x00000002,17,02:00:00:00:00:01,0x3000,\n"
		"server.port,5.000000002,0x00000001,17,02:00:00:00:00:01,0x3000,duplicate, \xc3\xb6\n");
	unlink(capture.path);
}
