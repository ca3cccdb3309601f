/* test_link_settings.c - a link's settings: parsed from text, checked together. */
#include <errno.h>

#include "tests/platform/link_bench.h"

TEST(settings_are_parsed_from_text)
{
	static const char *const texts[][2] = {
		{ "kind", "switch" },    { "rate", "155.52Mb/s" },   { "latency", "2us" },    { "overhead", "12" },
		{ "gap", "11" },         { "min_frame", "60" },      { "cell", "53" },        { "cell_payload", "48" },
		{ "cell_trailer", "8" }, { "mtu", "9180" },          { "queue", "64" },       { "cut_through", "yes" },
		{ "loss", "25%" },       { "burst", "4" },           { "corrupt", "0.5" },    { "duplicate", "1" },
		{ "reorder", "12.5%" },  { "reorder_delay", "1ms" }, { "latency_kb", "3us" }, { "write", "4us" },
		{ "write_kb", "5us" },   { "read", "6us" },          { "read_kb", "7us" },    { "card", "8us" },
		{ "card_kb", "9us" },    { "dma", "10us" },          { "pio", "11" },         { "waits", "yes" },
	};
	struct sim_link_config config = { .rate = 0 };
	char why[80];

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(texts); i++)
		CHECK_EQ(sim_link_set(&config, texts[i][0], texts[i][1], why, sizeof(why)), 0);
	CHECK(sim_link_settings[XK_ARRAY_LENGTH(texts)].name == NULL);
	CHECK(sim_link_check(&config) == NULL);
	CHECK_EQ(config.kind, SIM_LINK_SWITCH);
	CHECK_EQ(config.rate, 155520000);
	CHECK_EQ(config.latency_ns, 2000);
	CHECK_EQ(config.frame_overhead, 12);
	CHECK_EQ(config.frame_gap, 11);
	CHECK_EQ(config.frame_min, 60);
	CHECK(config.cell_size == 53 && config.cell_payload == 48 && config.cell_trailer == 8);
	CHECK(config.mtu == 9180 && config.queue == 64 && config.cut_through && config.burst == 4);
	CHECK_EQ(config.loss, SIM_ALWAYS / 4);
	CHECK_EQ(config.corrupt, SIM_ALWAYS / 2);
	CHECK_EQ(config.duplicate, SIM_ALWAYS);
	CHECK_EQ(config.reorder, SIM_ALWAYS / 8);
	CHECK_EQ(config.reorder_ns, 1000000);
	CHECK(config.latency_kb_ns == 3000 && config.write_ns == 4000 && config.write_kb_ns == 5000);
	CHECK(config.read_ns == 6000 && config.read_kb_ns == 7000);
	CHECK(config.card_ns == 8000 && config.card_kb_ns == 9000 && config.dma_ns == 10000);
	CHECK(config.pio == 11 && config.waits);
}

TEST(preset_may_be_followed_by_changes)
{
	static const char *const wrong[][2] = {
		{ "ethernet", "there is no link \"ethernet\"; docs/links.md lists them" },
		{ "", "there is no link \"\"; docs/links.md lists them" },
		{ "myrinet,speed=1", "\"speed\": expected SETTING=VALUE, with a setting of docs/links.md" },
		{ "myrinet,mtu", "\"mtu\": expected SETTING=VALUE, with a setting of docs/links.md" },
		{ "myrinet,mtu=67", "expects a number from 68 to 65000" },
		{ "myrinet,cell=53,cell_payload=54", "cell_payload is 0, or more than the cell" },
	};
	struct sim_link_config config = nano(SIM_LINK_WIRE), before = config;
	char why[160], text[300];

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(wrong); i++) {
		CHECK_EQ(sim_link_parse(wrong[i][0], &config, why, sizeof(why)), -EINVAL);
		CHECK_STR(why, wrong[i][1]);
	}
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	CHECK_EQ(sim_link_parse(text, &config, why, sizeof(why)), -EINVAL);
	CHECK_STR(why, "longer than 255 characters");
	CHECK(memcmp(&config, &before, sizeof(config)) == 0);
	CHECK_EQ(sim_link_parse("myrinet,mtu=16000,kind=wire,dma=2us", &config, why, sizeof(why)), 0);
	CHECK_EQ(config.mtu, 16000);
	CHECK_EQ(config.kind, SIM_LINK_WIRE);
	CHECK_EQ(config.dma_ns, 2000);
	CHECK_EQ(config.rate, 1280000000);
}

TEST(invalid_settings_are_refused_with_the_expected_form)
{
	struct sim_link_config config = nano(SIM_LINK_WIRE), before = config;
	char why[80];

	CHECK_EQ(sim_link_set(&config, "speed", "1", why, sizeof(why)), -ENOENT);
	CHECK_EQ(sim_link_set(&config, "", "1", why, sizeof(why)), -ENOENT);
	CHECK_EQ(sim_link_set(&config, "kind", "hub", why, sizeof(why)), -EINVAL);
	CHECK_STR(why, "expects wire, shared or switch");
	CHECK_EQ(sim_link_set(&config, "mtu", "67", why, sizeof(why)), -EINVAL);
	CHECK_STR(why, "expects a number from 68 to 65000");
	CHECK_EQ(sim_link_set(&config, "loss", "101%", why, sizeof(why)), -EINVAL);
	CHECK_STR(why, "expects a probability such as 0.01 or 1%");
	CHECK_EQ(sim_link_set(&config, "rate", "1001Tb/s", why, sizeof(why)), -EINVAL);
	CHECK_STR(why, "expects a rate from 0 to 1000Tb/s, such as 10Mb/s or 1.28Gb/s");
	CHECK_EQ(sim_link_set(&config, "latency", "3601s", why, sizeof(why)), -EINVAL);
	CHECK(memcmp(&config, &before, sizeof(config)) == 0);
}

/* Sets each field to a value that makes no valid link. */
TEST(impossible_links_are_reported)
{
#define FIELD(name) offsetof(struct sim_link_config, name)
	static const struct {
		size_t offset;
		uint64_t value;
	} cases[] = {
		{ FIELD(rate), 999 },
		{ FIELD(rate), UINT64_C(1000000000000001) },
		{ FIELD(latency_ns), UINT64_C(3600000000001) },
		{ FIELD(frame_overhead), 65536 },
		{ FIELD(frame_gap), 65536 },
		{ FIELD(frame_min), 65536 },
		{ FIELD(cell_size), 1025 },
		{ FIELD(cell_size), 47 },
		{ FIELD(cell_payload), 0 },
		{ FIELD(cell_payload), 54 },
		{ FIELD(cell_trailer), 1025 },
		{ FIELD(mtu), 67 },
		{ FIELD(mtu), 65001 },
		{ FIELD(queue), 0 },
		{ FIELD(queue), 65537 },
		{ FIELD(loss), SIM_ALWAYS + 1 },
		{ FIELD(duplicate), SIM_ALWAYS + 1 },
		{ FIELD(corrupt), UINT64_MAX },
		{ FIELD(reorder), SIM_ALWAYS + 1 },
		{ FIELD(reorder), 1 },
		{ FIELD(reorder_ns), UINT64_C(3600000000001) },
		{ FIELD(burst), 65537 },
	};
	struct sim_link_config good = sim_link_preset_find("atm140")->config, config;

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(cases); i++) {
		config = good;
		memcpy((char *)&config + cases[i].offset, &cases[i].value, sizeof(cases[i].value));
		if (sim_link_check(&config) == NULL)
			fprintf(stderr, "\ncase %u is accepted as a link\n", i);
		CHECK(sim_link_check(&config) != NULL);
	}
	config = good;
	config.kind = SIM_LINK_SWITCH + 1;
	CHECK_STR(sim_link_check(&config), "kind is not wire, shared or switch");
	config.kind = (enum sim_link_kind) - 1;
	CHECK(sim_link_check(&config) != NULL);
	CHECK(sim_link_check(&good) == NULL);
}

/* The longest frame in the smallest cells, at the slowest and the fastest rate: no product wraps. */
TEST(extreme_links_do_not_overflow_times)
{
	struct sim_link_config config = nano(SIM_LINK_WIRE);

	config.cell_size = config.cell_trailer = 1024;
	config.cell_payload = 1;
	config.frame_overhead = 65535;
	config.rate = 1000;
	REQUIRE(sim_link_check(&config) == NULL);
	/* (1048576 + 1024) * 1024 + 65535 bytes at 8 ms each */
	CHECK_EQ(sim_link_frame_ns(&config, 1 << 20), UINT64_C(1074855935) * 8000000);
	config.rate = UINT64_C(1000000000000000);
	REQUIRE(sim_link_check(&config) == NULL);
	CHECK_EQ(sim_link_frame_ns(&config, 1 << 20), 8599 /* 8598.85 */);
	config.write_kb_ns = config.read_kb_ns = config.read_ns = 3600 * UINT64_C(1000000000);
	REQUIRE(sim_link_check(&config) == NULL);
	CHECK_EQ(sim_link_read_ns(&config, 1 << 20), 3600 * UINT64_C(1000000000) + 3600 * UINT64_C(1048576000000));
	CHECK_EQ(sim_link_write(&config, 1 << 20).before_ns + sim_link_write(&config, 1 << 20).after_ns,
		 3600 * UINT64_C(1048576000000));
}
