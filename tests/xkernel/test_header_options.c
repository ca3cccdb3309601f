/*
 * test_header_options.c - code and data derived from a list of options (xkernel/options.h): lengths, load and store, the check,
 * and what is printed.
 */
#include "tests/random.h"
#include "tests/test.h"
#include "xkernel/protocol.h"

enum { ODD_BAD_OPTIONS = 40, ODD_ROUTED = 41 };

#define ODD_HEADER(F)                                                                                                  \
	F(8, first)                                                                                                    \
	F(2, high)                                                                                                     \
	F(4, words)                                                                                                    \
	F(2, low)                                                                                                      \
	F(48, rest)
XK_HEADER(odd, ODD_HEADER);
XK_FIELDS(odd, ODD_HEADER);

#define ODD_NUMBER(F) F(24, number, .print = XK_PRINT_HEX)
#define ODD_PARTS(F) F(4, left) F(12, right) F(32, clock)
#define ODD_POINTER(F) F(8, pointer)
#define ODD_HOP(F) F(32, hop, .print = XK_PRINT_HOST) F(8, cost)
#define ODD_RANGE(F) F(16, begin) F(16, end)
#define ODD_OPTIONS(O, R)                                                                                              \
	O(9, number, ODD_NUMBER)                                                                                       \
	O(200, parts, ODD_PARTS, .is_usual = true)                                                                     \
	O(2, flag, XK_NO_FIELDS)                                                                                       \
	R(7, route, ODD_POINTER, ODD_HOP)                                                                              \
	R(255, range, XK_NO_FIELDS, ODD_RANGE, .least = 2)                                                             \
	O(131, routed, XK_NO_FIELDS, .drop = ODD_ROUTED)
XK_OPTIONS(odd, ODD_OPTIONS, words, 4, ODD_BAD_OPTIONS);
XK_OPTION_VALUES(odd, ODD_OPTIONS);

static const struct xk_protocol_type odd_type = {
	.name = "odd",
	.header = XK_HEADER_LEN(odd),
	.fields = odd_fields,
	.options = &odd_option_list,
};

/* Load and check a list in memory of its own length, so that sanitizers detect reads beyond it. They must agree. */
static bool
load(struct odd_options *values, const uint8_t *list, size_t len)
{
	uint8_t *copy = malloc(len > 0 ? len : 1);
	bool is_good;
	unsigned why;

	REQUIRE(copy != NULL);
	memcpy(copy, list, len);
	is_good = odd_options_load(values, copy, len);
	why = xk_options_check(&odd_option_list, copy, len);
	CHECK(why == (is_good ? values->has_routed ? ODD_ROUTED : 0 : ODD_BAD_OPTIONS) ||
	      (why == ODD_ROUTED && values->has_routed)); /* the check ends there */
	free(copy);
	return is_good;
}

TEST(the_length_is_that_of_its_field)
{
	uint8_t p[XK_HEADER_LEN(odd)] = { 0xff, 0, 0xff };

	for (unsigned words = 0; words < 16; words++)
		for (unsigned others = 0; others < 16; others += 5)
			for (size_t room = 0; room < 64; room++) {
				size_t want = words < 2 || 4 * words - 8 > room ? SIZE_MAX : 4 * words - 8;

				p[1] = (uint8_t)((others & 3) << 6 | words << 2 | others >> 2);
				CHECK_EQ(xk_options_len(&odd_option_list, p, room), want);
			}
}

/* Returns whether an option of this kind may have this length. */
static bool
is_length_of(unsigned kind, unsigned len)
{
	switch (kind) {
	case 9:
		return len == 5;
	case 200:
		return len == 8;
	case 2:
	case 131:
		return len == 2;
	case 7:
		return len >= 3 && (len - 3) % 5 == 0;
	case 255:
		return len >= 10 && (len - 2) % 4 == 0;
	default:
		return len >= 2;
	}
}

TEST(each_wrong_length_is_refused)
{
	struct odd_options values;

	for (unsigned kind = 0; kind < 256; kind++)
		for (unsigned len = 0; len < 256; len++)
			for (unsigned room = 1; room <= XK_OPTIONS_MAX; room++) {
				uint8_t list[XK_OPTIONS_MAX] = { (uint8_t)kind, (uint8_t)len };
				bool is_good = kind <= XK_OPTION_NONE || (len <= room && is_length_of(kind, len));

				if (room == 1 && kind > XK_OPTION_NONE)
					is_good = false;
				if (kind == XK_OPTION_NONE)
					list[1] = 0;
				CHECK_EQ(load(&values, list, room), is_good);
			}
}

/* Draws values for all options that fit together. */
static struct odd_options
draw(uint64_t *random)
{
	struct odd_options values;

	memset(&values, 0, sizeof(values));
	if ((values.has_number = next_random(random) % 2))
		values.number = (uint32_t)next_random(random) & 0xffffff;
	if ((values.has_parts = next_random(random) % 2)) {
		values.left = next_random(random) & 0xf;
		values.right = next_random(random) & 0xfff;
		values.clock = (uint32_t)next_random(random);
	}
	values.has_flag = next_random(random) % 2;
	values.has_routed = next_random(random) % 4 == 0;
	if (next_random(random) % 2) {
		values.pointer = (uint8_t)next_random(random);
		values.route_count = 1;
		values.routes[0].hop = (uint32_t)next_random(random);
		values.routes[0].cost = (uint8_t)next_random(random);
	} else if (next_random(random) % 2) {
		values.range_count = 2;
		for (unsigned i = 0; i < values.range_count; i++) {
			values.ranges[i].begin = (uint16_t)next_random(random);
			values.ranges[i].end = (uint16_t)next_random(random);
		}
	}
	return values;
}

TEST(stored_values_are_loaded_as_they_were)
{
	uint64_t random = test_seed("stored_values_are_loaded_as_they_were");

	for (unsigned i = 0; i < 20000; i++) {
		struct odd_options values = draw(&random), again;
		uint8_t list[XK_OPTIONS_MAX];
		size_t len;

		memset(&again, 0xff, sizeof(again));
		len = odd_options_store(list, &values);
		CHECK(len <= sizeof(list) && len % 4 == 0);
		CHECK(load(&again, list, len));
		CHECK(memcmp(&values, &again, sizeof(values)) == 0);
	}
}

TEST(fields_end_on_whole_words)
{
	static const uint8_t want[] = { 1, 1, 1, 9, 5, 0x12, 0x34, 0x56, 200, 8, 0xa1, 0x23, 0, 0, 0, 7, 2, 2, 1, 1 };
	struct odd_options values = { .has_number = true, .number = 0x123456, .has_parts = true, .left = 10 };
	uint8_t list[XK_OPTIONS_MAX];

	values.right = 0x123;
	values.clock = 7;
	values.has_flag = true;
	CHECK_EQ(odd_options_store(list, &values), sizeof(want));
	CHECK(memcmp(list, want, sizeof(want)) == 0);
}

/* The usual list is compared as a whole, others byte by byte. */
TEST(the_usual_option_is_loaded_from_any_list)
{
	static const uint8_t option[] = { 200, 8, 0x71, 0x23, 1, 2, 3, 4 };
	uint8_t list[XK_OPTIONS_MAX];
	struct odd_options values;

	for (size_t len = sizeof(option); len <= sizeof(list); len++)
		for (size_t at = 0; at + sizeof(option) <= len; at++) {
			memset(list, XK_OPTION_NONE, sizeof(list));
			memcpy(list + at, option, sizeof(option));
			CHECK(load(&values, list, len));
			CHECK(values.has_parts && values.left == 7 && values.right == 0x123);
			CHECK(values.clock == 0x01020304 && !values.has_number);
		}
}

TEST(of_repeated_options_the_last_one_counts)
{
	uint8_t list[XK_OPTIONS_MAX] = { 9, 5, 0, 0, 1, 9, 5, 0, 0, 2, 0, 9, 5, 0, 0, 3 }, ranges[160] = { 0 };
	struct odd_options values;

	CHECK(load(&values, list, sizeof(list)));
	CHECK_EQ(values.number, 2); /* nothing behind the end */
	for (unsigned i = 0; i < 16; i++) {
		memcpy(ranges + 10 * i, (const uint8_t[]){ 255, 10, 0, 0, 0, 1, 0, 2, 0, 3 }, 10);
		ranges[10 * i + 3] = (uint8_t)i;
	}
	CHECK(load(&values, ranges, sizeof(ranges)));
	CHECK_EQ(values.range_count, XK_ARRAY_LENGTH(values.ranges));
	CHECK_EQ(values.ranges[0].begin, 0);
	CHECK_EQ(values.ranges[2].begin, 1);
	CHECK_EQ(values.ranges[3].begin, 2);
	CHECK_EQ(values.ranges[3].end, 3);
}

TEST(random_lists_are_loaded_or_refused)
{
	static const uint8_t kinds[] = { 0, 1, 2, 7, 9, 131, 200, 255, 77 };
	uint64_t random = test_seed("random_lists_are_loaded_or_refused");
	unsigned good = 0;

	for (unsigned i = 0; i < 100000; i++) {
		uint8_t list[XK_OPTIONS_MAX];
		struct odd_options values;

		for (size_t at = 0; at < sizeof(list); at++)
			list[at] = next_random(&random) % 2 ? kinds[next_random(&random) % sizeof(kinds)]
							    : (uint8_t)(next_random(&random) % 12);
		good += load(&values, list, next_random(&random) % (sizeof(list) + 1));
		CHECK(values.range_count <= XK_ARRAY_LENGTH(values.ranges));
		CHECK(values.route_count <= XK_ARRAY_LENGTH(values.routes));
	}
	CHECK(good > 1000 && good < 99000);
}

/* ---- printing ---- */

/* Returns what is printed of a header that has these bytes behind it, of which it claims `claimed`. */
static const char *
printed(size_t claimed, const uint8_t *list, size_t len)
{
	static char text[300];
	uint8_t p[XK_HEADER_LEN(odd) + XK_OPTIONS_MAX] = { 0 };

	XK_PUT(odd, words, p, (XK_HEADER_LEN(odd) + claimed) / 4);
	memcpy(p + XK_HEADER_LEN(odd), list, len);
	xk_header_print(&odd_type, p, XK_HEADER_LEN(odd) + len, text, sizeof(text));
	return strstr(text, ", rest 0") + strlen(", rest 0");
}

TEST(options_are_printed_behind_the_fields)
{
	static const uint8_t all[] = { 1, 1,  1,  9, 5, 0, 0x12, 0x34, 200, 8, 0xa1, 0x23, 0, 0, 0, 7, 2, 2, 7, 13,
				       4, 10, 77, 0, 1, 3, 10,   77,   0,   2, 9,    77,   3, 5, 0, 0, 0, 0, 0, 0 };
	static const uint8_t short_one[] = { 1, 2, 2, 200, 7, 0, 0, 0 };

	CHECK_STR(printed(sizeof(all), all, sizeof(all)),
		  ", number 001234, parts (left 10, right 291, clock 7), flag, "
		  "route (pointer 4, hop 10.77.0.1, cost 3, hop 10.77.0.2, cost 9), option 77");
	CHECK_STR(printed(0, all, sizeof(all)), "");
	CHECK_STR(printed(8, all, 8), ", number 001234");
	CHECK_STR(printed(8, all, 7), "");
	CHECK_STR(printed(8, short_one, 8), ", flag, option 200 (malformed)");
	CHECK_STR(printed(4, short_one, 8), ", flag, option 200 (malformed)");
}
