/* link_settings.c - the settings of a link, their checks, transmission times, and the presets. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "platform/sim/link_private.h"

enum {
	LINK_RATE_MIN = 1000,
	LINK_BYTES_MAX = 65535, /* overhead, gap and shortest frame */
	LINK_CELL_MAX = 1024,
	LINK_MTU_MIN = 68, /* RFC 791: the minimum that every link must carry */
	LINK_MTU_MAX = 65000,
	LINK_QUEUE_MAX = 65536,
	LINK_BURST_MAX = 65536,
	LINK_TEXT = 256,
};

#define LINK_TIME_MAX (3600 * UINT64_C(1000000000))
#define LINK_RATE_MAX UINT64_C(1000000000000000)

static const char *const link_kinds[] = {
	[SIM_LINK_WIRE] = "wire",
	[SIM_LINK_SHARED] = "shared",
	[SIM_LINK_SWITCH] = "switch",
	NULL,
};

#define LINK_SETTING(type, ...) XK_SETTING(type, struct sim_link_config, __VA_ARGS__)

const struct xk_setting sim_link_settings[] = {
	LINK_SETTING(CHOICE, kind, "kind", "wire (two stations), shared (one medium for all), switch",
		     .choices = link_kinds),
	LINK_SETTING(RATE, rate, "rate", "bits per second; 0: frames take no time", .max = LINK_RATE_MAX),
	LINK_SETTING(TIME, latency_ns, "latency", "from the last bit sent until arrival; per wire if there is a switch",
		     .max = LINK_TIME_MAX),
	LINK_SETTING(TIME, latency_kb_ns, "latency_kb", "... and for each 1000 bytes of a frame, in the controllers",
		     .max = LINK_TIME_MAX),
	LINK_SETTING(TIME, write_ns, "write", "the sender's processor writes a frame into its controller",
		     .max = LINK_TIME_MAX),
	LINK_SETTING(TIME, write_kb_ns, "write_kb", "... and each 1000 bytes of it", .max = LINK_TIME_MAX),
	LINK_SETTING(TIME, read_ns, "read", "the receiver's processor reads a frame from its controller",
		     .max = LINK_TIME_MAX),
	LINK_SETTING(TIME, read_kb_ns, "read_kb", "... and each 1000 bytes of it", .max = LINK_TIME_MAX),
	LINK_SETTING(TIME, card_ns, "card", "the processor of each end's card works on a frame, one at a time",
		     .max = LINK_TIME_MAX),
	LINK_SETTING(TIME, card_kb_ns, "card_kb",
		     "... and on each 1000 bytes that it fetches from the host or stores there", .max = LINK_TIME_MAX),
	LINK_SETTING(TIME, dma_ns, "dma",
		     "... and to start fetching a frame that the host does not write; 0: it writes all",
		     .max = LINK_TIME_MAX),
	LINK_SETTING(UINT, pio, "pio", "with dma: bytes of the longest frame that the host writes",
		     .max = LINK_BYTES_MAX),
	LINK_SETTING(BOOL, waits, "waits", "the sender's processor waits until the card has sent a frame"),
	LINK_SETTING(UINT, frame_overhead, "overhead", "bytes sent with each frame: preamble, checksum",
		     .max = LINK_BYTES_MAX),
	LINK_SETTING(UINT, frame_gap, "gap", "bytes of silence after each frame", .max = LINK_BYTES_MAX),
	LINK_SETTING(UINT, frame_min, "min_frame", "bytes of the shortest frame; shorter ones are padded",
		     .max = LINK_BYTES_MAX),
	LINK_SETTING(UINT, cell_size, "cell", "bytes of a cell; 0: frames are sent whole", .max = LINK_CELL_MAX),
	LINK_SETTING(UINT, cell_payload, "cell_payload", "bytes of a frame that a cell carries", .max = LINK_CELL_MAX),
	LINK_SETTING(UINT, cell_trailer, "cell_trailer", "bytes added to a frame before it is cut into cells",
		     .max = LINK_CELL_MAX),
	LINK_SETTING(UINT, mtu, "mtu", "bytes of the longest payload, without Ethernet header", .min = LINK_MTU_MIN,
		     .max = LINK_MTU_MAX),
	LINK_SETTING(UINT, queue, "queue", "frames that may wait at a station, and in a switch for a station", .min = 1,
		     .max = LINK_QUEUE_MAX),
	LINK_SETTING(BOOL, cut_through, "cut_through", "a switch forwards a frame while it is still arriving"),
	LINK_SETTING(PROBABILITY, loss, "loss", "a frame does not arrive"),
	LINK_SETTING(UINT, burst, "burst", "a loss drops 1 to this many frames to the same station in a row",
		     .max = LINK_BURST_MAX),
	LINK_SETTING(PROBABILITY, corrupt, "corrupt", "some bits of a frame are flipped"),
	LINK_SETTING(PROBABILITY, duplicate, "duplicate", "a frame arrives twice"),
	LINK_SETTING(PROBABILITY, reorder, "reorder", "a frame is delayed, and others overtake it"),
	LINK_SETTING(TIME, reorder_ns, "reorder_delay", "longest delay of a reordered frame or a duplicate",
		     .max = LINK_TIME_MAX),
	{ .name = NULL },
};

int
sim_link_set(struct sim_link_config *config, const char *name, const char *text, char *why, size_t why_len)
{
	const struct xk_setting *setting = sim_link_settings;

	while (setting->name != NULL && strcmp(setting->name, name) != 0)
		setting++;
	if (setting->name == NULL)
		return -ENOENT;
	return xk_setting_parse(setting, text, config, why, why_len);
}

int
sim_link_parse(const char *text, struct sim_link_config *config, char *why, size_t why_len)
{
	char copy[LINK_TEXT], *rest = copy, *item, *value;
	const struct sim_link_preset *preset;
	struct sim_link_config parsed;
	const char *wrong;
	int err = 0;

	if (strlen(text) >= sizeof(copy)) {
		snprintf(why, why_len, "longer than %d characters", LINK_TEXT - 1);
		return -EINVAL;
	}
	memcpy(copy, text, strlen(text) + 1);
	item = strsep(&rest, ",");
	preset = sim_link_preset_find(item);
	if (preset == NULL) {
		snprintf(why, why_len, "there is no link \"%.40s\"; docs/links.md lists them", item);
		return -EINVAL;
	}
	parsed = preset->config;
	while (err == 0 && (item = strsep(&rest, ",")) != NULL) {
		value = strchr(item, '=');
		if (value != NULL)
			*value++ = '\0';
		err = value == NULL ? -ENOENT : sim_link_set(&parsed, item, value, why, why_len);
		if (err == -ENOENT)
			snprintf(why, why_len, "\"%.40s\": expected SETTING=VALUE, with a setting of docs/links.md",
				 item);
	}
	wrong = err == 0 ? sim_link_check(&parsed) : NULL;
	if (wrong != NULL)
		snprintf(why, why_len, "%s", wrong);
	if (err != 0 || wrong != NULL)
		return -EINVAL;
	*config = parsed;
	return 0;
}

/* ---- checking ---- */

/* Returns the first setting whose value is outside its limits, or NULL. */
static const struct xk_setting *
link_outside(const struct sim_link_config *config)
{
	for (const struct xk_setting *setting = sim_link_settings; setting->name != NULL; setting++) {
		const char *place = (const char *)config + setting->offset;
		uint64_t value, max = setting->type == XK_SETTING_PROBABILITY ? SIM_ALWAYS : setting->max;

		if (max == 0)
			continue;
		memcpy(&value, place, sizeof(value));
		if (value < setting->min || value > max)
			return setting;
	}
	return NULL;
}

const char *
sim_link_check(const struct sim_link_config *config)
{
	const struct xk_setting *outside = link_outside(config);

	if (config->kind > SIM_LINK_SWITCH)
		return "kind is not wire, shared or switch";
	if (outside != NULL)
		return outside->min == 0 ? "a value is too large" : "mtu is not 68 to 65000, or queue not 1 to 65536";
	if (config->rate != 0 && config->rate < LINK_RATE_MIN)
		return "rate is neither 0 nor at least 1kb/s";
	if (config->cell_size != 0 && (config->cell_payload == 0 || config->cell_payload > config->cell_size))
		return "cell_payload is 0, or more than the cell";
	if (config->reorder != 0 && config->reorder_ns == 0)
		return "reorder has no effect: reorder_delay is 0";
	return NULL;
}

/* ---- times ---- */

/* The limits above keep the product below 2^63, even for XK_MSG_MAX bytes in one-byte cells. */
uint64_t
link_bytes_ns(const struct sim_link_config *config, uint64_t bytes)
{
	if (config->rate == 0)
		return 0;
	return (bytes * 8 * UINT64_C(1000000000) + config->rate - 1) / config->rate;
}

/* Returns the number of cells of a frame; 1 if it is sent whole. */
static uint64_t
link_cell_count(const struct sim_link_config *config, size_t len)
{
	uint64_t bytes = len < config->frame_min ? config->frame_min : len;

	if (config->cell_size == 0)
		return 1;
	return (bytes + config->cell_trailer + config->cell_payload - 1) / config->cell_payload;
}

struct sim_link_writing
sim_link_write(const struct sim_link_config *config, size_t len)
{
	bool writes = config->dma_ns == 0 || len <= config->pio;
	uint64_t bytes_ns = writes ? config->write_kb_ns * len / 1000 : 0;
	uint64_t first_ns = bytes_ns == 0 ? 0 : bytes_ns / link_cell_count(config, len);

	return (struct sim_link_writing){ .before_ns = (writes ? config->write_ns : 0) + first_ns,
					  .after_ns = bytes_ns - first_ns };
}

uint64_t
sim_link_card_ns(const struct sim_link_config *config, size_t len, bool sends)
{
	bool moves = !sends || (config->dma_ns != 0 && len > config->pio);

	return link_linear_ns(config->card_ns + (sends && moves ? config->dma_ns : 0), moves ? config->card_kb_ns : 0,
			      len);
}

uint64_t
sim_link_read_ns(const struct sim_link_config *config, size_t len)
{
	return link_linear_ns(config->read_ns, config->read_kb_ns, len);
}

uint64_t
sim_link_frame_ns(const struct sim_link_config *config, size_t len)
{
	uint64_t bytes = len < config->frame_min ? config->frame_min : len;

	if (config->cell_size != 0)
		bytes = link_cell_count(config, len) * config->cell_size;
	return link_bytes_ns(config, bytes + config->frame_overhead);
}

uint64_t
link_sent_ns(const struct sim_link_config *config, size_t len)
{
	uint64_t frame_ns = sim_link_frame_ns(config, len), last_ns;

	if (config->cell_size == 0)
		return frame_ns;
	last_ns = sim_link_write(config, len).after_ns + link_bytes_ns(config, config->cell_size);
	return last_ns > frame_ns ? last_ns : frame_ns;
}

/* ---- presets; docs/links.md names the source of each number ---- */

enum {
	LINK_KILO = 1000,
	LINK_MEGA = 1000 * LINK_KILO,
};

#define LINK_GIGA (UINT64_C(1000) * LINK_MEGA)

/* A preamble and a checksum surround a frame, a gap follows it, and short frames are padded to 60 bytes. */
#define LINK_ETHERNET .frame_overhead = 8 + 4, .frame_gap = 12, .frame_min = 60, .mtu = 1500

const struct sim_link_preset sim_link_presets[] = {
	{ "ethernet10",
	  "10 Mb/s Ethernet, one cable for all; stations send in turn, without collisions",
	  { .kind = SIM_LINK_SHARED, .rate = 10 * LINK_MEGA, .latency_ns = 1000, LINK_ETHERNET, .queue = 86 } },
	{ "fddi",
	  "100 Mb/s FDDI, one ring for all; stations send in turn, and the token takes no time",
	  { .kind = SIM_LINK_SHARED,
	    .rate = 100 * LINK_MEGA,
	    .latency_ns = 1000,
	    .frame_overhead = 22,
	    .mtu = 4352,
	    .queue = 64 } },
	{ "atm140",
	  "140 Mb/s ATM through a switch, frames in cells of 53 bytes (AAL5)",
	  { .kind = SIM_LINK_SWITCH,
	    .rate = 140 * LINK_MEGA,
	    .latency_ns = 2000,
	    .cell_size = 53,
	    .cell_payload = 48,
	    .cell_trailer = 8,
	    .mtu = 9180,
	    .queue = 64,
	    .cut_through = true } },
	{ "myrinet",
	  "1.28 Gb/s Myrinet through a cut-through switch",
	  { .kind = SIM_LINK_SWITCH,
	    .rate = 1280 * LINK_MEGA,
	    .latency_ns = 300,
	    .frame_overhead = 2,
	    .mtu = 8192,
	    .queue = 256,
	    .cut_through = true } },
	{ "myrinet640",
	  "640 Mb/s Myrinet, the first generation, through a cut-through switch",
	  { .kind = SIM_LINK_SWITCH,
	    .rate = 640 * LINK_MEGA,
	    .latency_ns = 300,
	    .frame_overhead = 2,
	    .mtu = 8192,
	    .queue = 256,
	    .cut_through = true } },
	{ "lanai",
	  "1.28 Gb/s Myrinet between two hosts, with GM on the LANai processors of their cards",
	  { .kind = SIM_LINK_WIRE,
	    .rate = 1280 * LINK_MEGA,
	    .latency_ns = 25,
	    .card_ns = 3506,
	    .card_kb_ns = 7143,
	    .dma_ns = 1624,
	    .pio = 78,
	    .frame_overhead = 2,
	    .mtu = 8192,
	    .queue = 256 } },
	{ "hub100",
	  "100 Mb/s Ethernet through a hub; stations send in turn, without collisions",
	  { .kind = SIM_LINK_SHARED, .rate = 100 * LINK_MEGA, .latency_ns = 1000, LINK_ETHERNET, .queue = 64 } },
	{ "rack10g",
	  "10 Gb/s Ethernet through the switch of a rack",
	  { .kind = SIM_LINK_SWITCH, .rate = 10 * LINK_GIGA, .latency_ns = 250, LINK_ETHERNET, .queue = 256 } },
	{ "rack100g",
	  "100 Gb/s Ethernet through the switch of a rack",
	  { .kind = SIM_LINK_SWITCH, .rate = 100 * LINK_GIGA, .latency_ns = 250, LINK_ETHERNET, .queue = 256 } },
	{ "wide",
	  "a wide-area path between two stations: 100 Mb/s, 20 ms in each direction",
	  { .kind = SIM_LINK_WIRE,
	    .rate = 100 * LINK_MEGA,
	    .latency_ns = 20 * LINK_MEGA,
	    LINK_ETHERNET,
	    .queue = 256 } },
	{ "ideal",
	  "any number of stations; frames take no time",
	  { .kind = SIM_LINK_SHARED, .mtu = 1500, .queue = 1024 } },
	{ .name = NULL },
};

const char *const sim_link_preset_names[] = { "ethernet10", "fddi",    "atm140",   "myrinet", "myrinet640", "lanai",
					      "hub100",     "rack10g", "rack100g", "wide",    "ideal",      NULL };

const struct sim_link_preset *
sim_link_preset_find(const char *name)
{
	for (const struct sim_link_preset *preset = sim_link_presets; preset->name != NULL; preset++)
		if (strcmp(preset->name, name) == 0)
			return preset;
	return NULL;
}
