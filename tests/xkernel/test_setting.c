/* test_setting.c - settings from text: every type, its limits and its refusals. */
#include <errno.h>

#include "tests/test.h"
#include "xkernel/protocol.h"

static const struct xk_protocol_type alpha = { .name = "alpha" }, beta = { .name = "beta" };

const struct xk_protocol_type *const xk_protocol_types[] = { &alpha, &beta, NULL };

struct instance {
	uint64_t number, time, link, rate, probability;
	bool truth;
	uint32_t host;
	struct xk_network network;
	const char *string;
	unsigned choice;
	char after;
};

#define SETTING(field_, type_)                                                                                         \
	{                                                                                                              \
		.name = #field_, .type = type_, .offset = offsetof(struct instance, field_)                            \
	}

static const struct xk_setting number = SETTING(number, XK_SETTING_UINT), time_ = SETTING(time, XK_SETTING_TIME),
			       link_ = SETTING(link, XK_SETTING_LINK), truth = SETTING(truth, XK_SETTING_BOOL),
			       host = SETTING(host, XK_SETTING_HOST), network = SETTING(network, XK_SETTING_NETWORK),
			       string = SETTING(string, XK_SETTING_STRING), rate = SETTING(rate, XK_SETTING_RATE),
			       probability = SETTING(probability, XK_SETTING_PROBABILITY);

static char why[80];

static int
parse(const struct xk_setting *setting, const char *text, struct instance *instance)
{
	why[0] = '\0';
	return xk_setting_parse(setting, text, instance, why, sizeof(why));
}

/* Checks that each text is refused with this sentence and changes nothing. */
static void
check_refused(const struct xk_setting *setting, const char *const *texts, unsigned count, const char *sentence)
{
	struct instance instance, before;

	memset(&instance, 0x5a, sizeof(instance));
	before = instance;
	for (unsigned i = 0; i < count; i++) {
		int result = parse(setting, texts[i], &instance);

		if (result != -EINVAL)
			fprintf(stderr, "\n%s: \"%s\" is not refused\n", setting->name, texts[i]);
		CHECK_EQ(result, -EINVAL);
		CHECK_STR(why, sentence);
		CHECK(memcmp(&instance, &before, sizeof(instance)) == 0);
	}
}

#define CHECK_REFUSED(setting, sentence, ...)                                                                          \
	do {                                                                                                           \
		static const char *const texts[] = { __VA_ARGS__ };                                                    \
		check_refused(setting, texts, XK_ARRAY_LENGTH(texts), sentence);                                       \
	} while (0)

TEST(numbers_are_decimal_or_hexadecimal_and_take_k_and_m)
{
	struct instance instance;
	static const struct {
		const char *text;
		uint64_t value;
	} cases[] = { { "0", 0 },
		      { "007", 7 },
		      { "64", 64 },
		      { "0x40", 64 },
		      { "0xfF", 255 },
		      { "16k", 16384 },
		      { "0x10k", 16384 },
		      { "2m", 2097152 },
		      { "18446744073709551615", UINT64_MAX },
		      { "0xffffffffffffffff", UINT64_MAX },
		      { "18014398509481983k", UINT64_MAX - 1023 } };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(cases); i++) {
		CHECK_EQ(parse(&number, cases[i].text, &instance), 0);
		CHECK_EQ(instance.number, cases[i].value);
	}
}

TEST(non_numbers_are_refused)
{
	CHECK_REFUSED(&number, "expects a number such as 64, 0x40 or 16k", "", " ", " 1", "1 ", "-1", "+1", "k", "0x",
		      "0xg", "x10", "1.5", "1kk", "1km", "1K", "12a", "1k ", "18446744073709551616",
		      "0x10000000000000000", "18014398509481984k", "99999999999999999999999999999999", "\xff");
}

TEST(host_addresses_must_be_usable)
{
	static const struct xk_setting address = SETTING(network, XK_SETTING_ADDRESS);
	static const struct {
		const char *text, *refusal; /* NULL: accepted */
	} cases[] = {
		{ "10.77.0.1/24", NULL },
		{ "10.77.0.0/16", "the network's own address" },
		{ "10.77.1.0/16", NULL },
		{ "10.77.0.0/31", NULL },
		{ "10.77.0.255/32", NULL },
		{ "1.0.0.1/1", NULL },
		{ "223.255.255.254/24", NULL },
		{ "10.77.0.0/24", "the network's own address" },
		{ "10.77.0.255/24", "the network's broadcast address" },
		{ "10.77.0.3/30", "the network's broadcast address" },
		{ "127.255.255.255/32", "a loopback address" },
		{ "224.0.0.0/32", "a group's address" },
		{ "239.255.255.255/24", "a group's address" },
		{ "240.0.0.0/32", "a reserved address" },
		{ "255.255.255.254/31", "a reserved address" },
		{ "255.255.255.255/32", "the broadcast address of every network" },
		{ "0.0.0.0/0", "an address of no host" },
		{ "0.255.255.255/32", "an address of no host" },
		{ "10.77.0.1/0", "an address with 0 bits" },
	};
	struct instance instance;
	char text[200];

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(cases); i++) {
		int result = xk_setting_parse(&address, cases[i].text, &instance, text, sizeof(text));

		CHECK_EQ(result, cases[i].refusal == NULL ? 0 : -EINVAL);
		if (cases[i].refusal != NULL)
			CHECK_HAS(text, cases[i].refusal);
	}
	CHECK_REFUSED(&address, "expects an address with the bits of its network, such as 10.77.0.1/24", "10.77.0.1",
		      "");
}

TEST(numbers_stay_within_their_limits)
{
	struct xk_setting limited = number;
	struct instance instance;

	limited.min = 2;
	limited.max = 1024;
	CHECK_EQ(parse(&limited, "2", &instance), 0);
	CHECK_EQ(parse(&limited, "1k", &instance), 0);
	CHECK_EQ(instance.number, 1024);
	CHECK_REFUSED(&limited, "expects a number from 2 to 1024", "1", "0", "1025", "2k", "", "x");
}

TEST(times_have_a_unit)
{
	struct instance instance;
	uint64_t ns;

	CHECK(xk_time_parse("20us", &ns) && ns == 20000);
	CHECK(xk_time_parse("3ms", &ns) && ns == 3000000);
	CHECK(xk_time_parse("2s", &ns) && ns == 2000000000);
	CHECK(xk_time_parse("500ns", &ns) && ns == 500);
	CHECK(xk_time_parse("18446744073709551615ns", &ns) && ns == UINT64_MAX);
	CHECK_EQ(parse(&time_, "0s", &instance), 0);
	CHECK_EQ(instance.time, 0);
	CHECK_REFUSED(&time_, "expects a time such as 20us, 3ms or 2s", "", "20", "us", "-1us", "1.5ms", "20 us",
		      "20us ", "20uss", "20m", "20h", "0x10us", "18446744073709551616ns", "18446744073710s",
		      "99999999999999999999s");
}

TEST(times_stay_within_their_limits)
{
	struct xk_setting limited = time_;
	struct instance instance;

	limited.min = 1500;
	limited.max = 2000000000;
	CHECK_EQ(parse(&limited, "2s", &instance), 0);
	CHECK_REFUSED(&limited, "expects a time from 1500ns to 2s, such as 20us, 3ms or 2s", "1us", "3s", "1");
	limited.min = 0;
	CHECK_REFUSED(&limited, "expects a time from 0s to 2s, such as 20us, 3ms or 2s", "2001ms");
}

TEST(rates_are_whole_bits_with_a_unit)
{
	struct instance instance;
	static const struct {
		const char *text;
		uint64_t value;
		const char *printed;
	} cases[] = { { "0", 0, "0" },
		      { "0Mb/s", 0, "0" },
		      { "10Mb/s", 10000000, "10Mb/s" },
		      { "1.28Gb/s", 1280000000, "1280Mb/s" },
		      { "622kb/s", 622000, "622kb/s" },
		      { "155.52Mb/s", 155520000, "155520kb/s" },
		      { "9600b/s", 9600, "9600b/s" },
		      { "1.0b/s", 1, "1b/s" },
		      { "0.001kb/s", 1, "1b/s" },
		      { "1.000000001Gb/s", 1000000001, "1000000001b/s" },
		      { "007Tb/s", UINT64_C(7000000000000), "7Tb/s" },
		      { "18446744Tb/s", UINT64_C(18446744000000000000), "18446744Tb/s" },
		      { "18446744073709551615b/s", UINT64_MAX, "18446744073709551615b/s" } };
	char text[XK_SETTING_TEXT];

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(cases); i++) {
		CHECK_EQ(parse(&rate, cases[i].text, &instance), 0);
		CHECK_EQ(instance.rate, cases[i].value);
		CHECK_STR(xk_setting_print(XK_SETTING_RATE, instance.rate, text), cases[i].printed);
	}
	CHECK_REFUSED(&rate, "expects a rate such as 10Mb/s, 1.28Gb/s or 0", "", "10", "Mb/s", "10 Mb/s", "10Mb/s ",
		      "10Mb", "10M", "10mb/s", "10MB/s", "-1Mb/s", ".5Mb/s", "1.Mb/s", "1.5.0Mb/s", "1,5Mb/s", "0.5b/s",
		      "0.0001kb/s", "1.0000000001Gb/s", "0x10Mb/s", "1e6b/s", "00", "0.0", "18446745Tb/s",
		      "18446744073709551616b/s", "1.00000000000000000000000000Mb/s", "99999999999999999999999Gb/s");
}

TEST(rates_stay_within_their_limits)
{
	struct xk_setting limited = rate;
	struct instance instance;

	limited.min = 1000;
	limited.max = UINT64_C(1280000000);
	CHECK_EQ(parse(&limited, "1.28Gb/s", &instance), 0);
	CHECK_EQ(parse(&limited, "1kb/s", &instance), 0);
	CHECK_REFUSED(&limited, "expects a rate from 1kb/s to 1280Mb/s, such as 10Mb/s or 1.28Gb/s", "0", "999b/s",
		      "1280000001b/s", "1.29Gb/s", "x");
}

TEST(probabilities_are_fractions_or_percentages)
{
	struct instance instance;
	static const struct {
		const char *text;
		uint64_t value;
		const char *printed;
	} cases[] = {
		{ "0", 0, "0" },
		{ "0%", 0, "0" },
		{ "0.0", 0, "0" },
		{ "1", UINT64_C(1) << 32, "1" },
		{ "1.000000000", UINT64_C(1) << 32, "1" },
		{ "100%", UINT64_C(1) << 32, "1" },
		{ "100.00%", UINT64_C(1) << 32, "1" },
		{ "0.5", UINT64_C(1) << 31, "0.5" },
		{ "50%", UINT64_C(1) << 31, "0.5" },
		{ "25.0%", UINT64_C(1) << 30, "0.25" },
		/* 42949672.96, 21474836.48, 4294.967296 and 4.294967296: the nearest */
		{ "0.01", 42949673, "0.01" },
		{ "1%", 42949673, "0.01" },
		{ "0.5%", 21474836, "0.005" },
		{ "0.000001", 4295, "0.000001" },
		{ "0.0001%", 4295, "0.000001" },
		{ "0.000000001", 4, "0.000000001" },
		{ "0.0000001%", 4, "0.000000001" },
		{ "0.999999999", 4294967292, "0.999999999" },
		{ "0.123456789", 530242871, "0.123456789" },
		{ "00.10", 429496730, "0.1" },
	};
	char text[XK_SETTING_TEXT];

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(cases); i++) {
		CHECK_EQ(parse(&probability, cases[i].text, &instance), 0);
		CHECK_EQ(instance.probability, cases[i].value);
		CHECK_STR(xk_setting_print(XK_SETTING_PROBABILITY, instance.probability, text), cases[i].printed);
	}
	CHECK_REFUSED(&probability, "expects a probability such as 0.01 or 1%", "", "%", "1.1", "2", "1.000000001",
		      "100.0000001%", "101%", "-1", "-0", "+1", ".5", "1.", "1.%", "0.5 %", "1%%", "1% ", " 1%", "0,5",
		      "1e-3", "0x1", "0.0000000001", "0.00000001%", "1/2", "99999999999999999999", "10000000000000%",
		      "18446744073709551616");
}

TEST(numbers_and_times_are_printed_as_they_are_read)
{
	char text[XK_SETTING_TEXT];

	CHECK_STR(xk_setting_print(XK_SETTING_UINT, UINT64_MAX, text), "18446744073709551615");
	CHECK_STR(xk_setting_print(XK_SETTING_TIME, 0, text), "0s");
	CHECK_STR(xk_setting_print(XK_SETTING_TIME, 1500, text), "1500ns");
	CHECK_STR(xk_setting_print(XK_SETTING_TIME, 20000, text), "20us");
	CHECK_STR(xk_setting_print(XK_SETTING_TIME, UINT64_MAX, text), "18446744073709551615ns");
	CHECK_STR(xk_setting_print(XK_SETTING_PROBABILITY, UINT64_MAX, text), "1");
}

TEST(a_choice_is_one_of_its_keywords)
{
	static const char *const colours[] = { "red", "green", "blue", NULL }, *const one[] = { "red", NULL };
	const struct xk_setting colour = { .type = XK_SETTING_CHOICE,
					   .offset = offsetof(struct instance, choice),
					   .choices = colours },
				only = { .type = XK_SETTING_CHOICE, .choices = one };
	struct instance instance = { .after = 'a' };
	char text[16];

	for (unsigned i = 0; colours[i] != NULL; i++) {
		CHECK_EQ(parse(&colour, colours[i], &instance), 0);
		CHECK_EQ(instance.choice, i);
	}
	CHECK_EQ(instance.after, 'a');
	CHECK_REFUSED(&colour, "expects red, green or blue", "", "Red", "red ", "re", "reds", "0", "red,green");
	CHECK_REFUSED(&only, "expects red", "green");
	CHECK_STR(xk_choices_print(colours, ", ", text, sizeof(text)), "red, green, blu");
}

TEST(booleans_have_six_keywords)
{
	struct instance instance;
	static const char *const words[] = { "no", "yes", "false", "true", "0", "1" };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(words); i++) {
		CHECK_EQ(parse(&truth, words[i], &instance), 0);
		CHECK_EQ(instance.truth, i % 2);
	}
	CHECK_REFUSED(&truth, "expects yes, no, true, false, 0 or 1", "", "y", "YES", "2", "on", "yes ", "10");
}

TEST(addresses_are_four_numbers)
{
	struct instance instance;
	char text[16];

	CHECK_EQ(parse(&host, "10.77.0.1", &instance), 0);
	CHECK_EQ(instance.host, 0x0a4d0001);
	CHECK_EQ(parse(&host, "255.255.255.255", &instance), 0);
	CHECK_STR(xk_host_print(instance.host, text), "255.255.255.255");
	CHECK_STR(xk_host_print(0x0a4d0002, text), "10.77.0.2");
	CHECK_EQ(parse(&host, "0.0.0.0", &instance), 0);
	CHECK_EQ(instance.host, 0);
	CHECK_REFUSED(&host, "expects an address such as 10.77.0.1", "", "10", "10.77.0", "10.77.0.", "10.77.0.1.2",
		      "10.77.0.256", "10.77.0.-1", "010.77.0.1", "10.77.00.1", "10..0.1", ".10.77.0.1", "10.77.0.1 ",
		      " 10.77.0.1", "10.77.0.0x1", "10.77.0.1/24", "4294967297.0.0.1", "10.77.0.18446744073709551617");
}

TEST(networks_are_an_address_and_bits)
{
	struct instance instance;

	CHECK_EQ(parse(&network, "10.77.0.2/24", &instance), 0);
	CHECK_EQ(instance.network.host, 0x0a4d0002);
	CHECK_EQ(instance.network.bits, 24);
	CHECK_EQ(parse(&network, "10.77.0.2/0", &instance), 0);
	CHECK_EQ(parse(&network, "10.77.0.2/32", &instance), 0);
	CHECK_EQ(instance.network.bits, 32);
	CHECK_REFUSED(&network, "expects an address with the bits of its network, such as 10.77.0.1/24", "",
		      "10.77.0.2", "10.77.0.2/", "10.77.0.2/33", "10.77.0.2/-1", "10.77.0.2/024", "10.77.0.2/24 ",
		      "10.77.0/24", "/24", "10.77.0.2//24");
}

TEST(link_addresses_are_six_pairs_of_digits)
{
	struct instance instance;

	CHECK_EQ(parse(&link_, "02:00:00:00:00:01", &instance), 0);
	CHECK_EQ(instance.link, 0x020000000001);
	CHECK_EQ(parse(&link_, "fF:Ee:dd:cc:bb:aa", &instance), 0);
	CHECK_EQ(instance.link, 0xffeeddccbbaa);
	CHECK_REFUSED(&link_, "expects a link address such as 02:00:00:00:00:01", "", "02", "02:00:00:00:00",
		      "02:00:00:00:00:", "02:00:00:00:00:1", "02:00:00:00:00:01:02", "2:0:0:0:0:1", "020000000001",
		      "02-00-00-00-00-01", "0g:00:00:00:00:01", "02:00:00:00:00:011", "02:00:00:00:00:01 ");
}

TEST(texts_are_copied_and_replaced)
{
	struct instance instance = { .string = NULL };
	char text[] = "net_memif";

	CHECK_EQ(parse(&string, text, &instance), 0);
	text[0] = 'x';
	CHECK_STR(instance.string, "net_memif");
	CHECK_EQ(parse(&string, "", &instance), 0);
	CHECK_STR(instance.string, "");
	CHECK_EQ(parse(&string, instance.string, &instance), 0);
	free((char *)(uintptr_t)instance.string);
}

TEST(a_short_buffer_for_the_reason_is_not_overrun)
{
	struct instance instance;
	char small[8];

	CHECK_EQ(xk_setting_parse(&number, "x", &instance, small, sizeof(small)), -EINVAL);
	CHECK_STR(small, "expects");
	CHECK_EQ(xk_setting_parse(&number, "x", &instance, NULL, 0), -EINVAL);
}

TEST(protocol_types_are_found_by_name)
{
	CHECK(xk_protocol_type_find("alpha") == &alpha);
	CHECK(xk_protocol_type_find("beta") == &beta);
	CHECK(xk_protocol_type_find("bet") == NULL);
	CHECK(xk_protocol_type_find("") == NULL);
}
