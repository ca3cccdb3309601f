/* link_presets.c - links that have a name. docs/links.md says where each number is from. */
#include <string.h>

#include "platform/sim/link_private.h"

enum {
	LINK_KILO = 1000,
	LINK_MEGA = 1000 * LINK_KILO,
};

#define LINK_GIGA (UINT64_C(1000) * LINK_MEGA)

/* Preamble and checksum are sent with a frame, the gap follows, and a frame is padded to 60 bytes and checksum. */
#define LINK_ETHERNET .frame_overhead = 8 + 4, .frame_gap = 12, .frame_min = 60, .mtu = 1500

const struct sim_link_preset sim_link_presets[] = {
	{ "ethernet10",
	  "10 Mb/s Ethernet, one cable for all; stations take turns as they ask, and never collide",
	  { .kind = "shared", .rate = 10 * LINK_MEGA, .latency_ns = 1000, LINK_ETHERNET, .queue = 86 } },
	{ "fddi",
	  "100 Mb/s FDDI, one ring for all; stations take turns as they ask, the token takes no time",
	  { .kind = "shared",
	    .rate = 100 * LINK_MEGA,
	    .latency_ns = 1000,
	    .frame_overhead = 22,
	    .mtu = 4352,
	    .queue = 64 } },
	{ "atm140",
	  "140 Mb/s ATM through a switch, frames in cells of 53 bytes (AAL5)",
	  { .kind = "switch",
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
	  { .kind = "switch",
	    .rate = 1280 * LINK_MEGA,
	    .latency_ns = 300,
	    .frame_overhead = 2,
	    .mtu = 8192,
	    .queue = 256,
	    .cut_through = true } },
	{ "myrinet640",
	  "640 Mb/s Myrinet, the first generation, through a cut-through switch",
	  { .kind = "switch",
	    .rate = 640 * LINK_MEGA,
	    .latency_ns = 300,
	    .frame_overhead = 2,
	    .mtu = 8192,
	    .queue = 256,
	    .cut_through = true } },
	{ "hub100",
	  "100 Mb/s Ethernet through a hub; stations take turns as they ask, and never collide",
	  { .kind = "shared", .rate = 100 * LINK_MEGA, .latency_ns = 1000, LINK_ETHERNET, .queue = 64 } },
	{ "rack10g",
	  "10 Gb/s Ethernet through the switch of a rack",
	  { .kind = "switch", .rate = 10 * LINK_GIGA, .latency_ns = 250, LINK_ETHERNET, .queue = 256 } },
	{ "rack100g",
	  "100 Gb/s Ethernet through the switch of a rack",
	  { .kind = "switch", .rate = 100 * LINK_GIGA, .latency_ns = 250, LINK_ETHERNET, .queue = 256 } },
	{ "wide",
	  "a wide-area path between two stations: 100 Mb/s, 20 ms each way",
	  { .kind = "wire", .rate = 100 * LINK_MEGA, .latency_ns = 20 * LINK_MEGA, LINK_ETHERNET, .queue = 256 } },
	{ "ideal",
	  "any number of stations; frames take no time at all",
	  { .kind = "shared", .mtu = 1500, .queue = 1024 } },
	{ .name = NULL },
};

const char *const sim_link_preset_names[] = { "ethernet10", "fddi",     "atm140", "myrinet", "myrinet640", "hub100",
					      "rack10g",    "rack100g", "wide",   "ideal",   NULL };

const struct sim_link_preset *
sim_link_preset_find(const char *name)
{
	for (const struct sim_link_preset *preset = sim_link_presets; preset->name != NULL; preset++)
		if (strcmp(preset->name, name) == 0)
			return preset;
	return NULL;
}
