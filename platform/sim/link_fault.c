/*
 * link_fault.c - what happens to a frame on its way, by chance. The draws for one frame and receiver, in this order:
 * loss, its burst; corrupt, where and what; duplicate; reorder, how late; how late the second one is. What is never or
 * always so is not drawn.
 */
#include "platform/sim/link_private.h"

enum link_happens { LINK_CORRUPT = 1 << 0, LINK_REORDER = 1 << 1, LINK_DUPLICATE = 1 << 2 };

static const char *const link_happened[] = {
	[0] = NULL,
	[LINK_CORRUPT] = "corrupt",
	[LINK_REORDER] = "reorder",
	[LINK_CORRUPT | LINK_REORDER] = "corrupt+reorder",
	[LINK_DUPLICATE] = "duplicate",
	[LINK_CORRUPT | LINK_DUPLICATE] = "corrupt+duplicate",
};

void
link_lose(const struct link_frame *frame, unsigned to, uint64_t at_ns, const char *fault, uint64_t *count)
{
	struct sim_arrival arrival = { .station = to, .at_ns = at_ns, .fault = fault, .lost = true };

	++*count;
	frame->arrive(frame->context, &arrival);
}

static void
link_deliver(const struct link_frame *frame, struct sim_arrival *arrival, unsigned happened)
{
	arrival->fault = link_happened[happened];
	frame->link->counts.delivered++;
	frame->arrive(frame->context, arrival);
}

static bool
link_loses(struct sim_link *link, struct link_station *to)
{
	if (to->burst > 0) {
		to->burst--;
		return true;
	}
	if (!sim_random_hits(&link->random, link->config.loss))
		return false;
	if (link->config.burst > 1)
		to->burst = (uint32_t)sim_random_below(&link->random, link->config.burst);
	return true;
}

/*
 * Flips the first and the last bit of a span and some between. A span of 16 bits could turn a word of zeros to ones,
 * which are the same to the Internet checksum; by a shorter one, wherever it lies, the sum of the words changes, and by
 * less than 65535.
 */
static void
link_corrupt(struct sim_link *link, size_t len, struct sim_arrival *arrival)
{
	unsigned first, bits, longest, span;

	arrival->offset = (size_t)sim_random_below(&link->random, len);
	first = (unsigned)sim_random_below(&link->random, 8);
	longest = (arrival->offset + 1 == len ? 8 : 16) - first;
	bits = 1 + (unsigned)sim_random_below(&link->random, longest < 15 ? longest : 15);
	span = (unsigned)sim_random_below(&link->random, UINT64_C(1) << bits) | 1u << (bits - 1) | 1;
	span <<= 16 - first - bits;
	arrival->flip[0] = (uint8_t)(span >> 8);
	arrival->flip[1] = (uint8_t)span;
}

static uint64_t
link_late(struct sim_link *link, uint64_t at_ns)
{
	if (link->config.reorder_ns == 0)
		return at_ns;
	return link_after(at_ns, 1 + sim_random_below(&link->random, link->config.reorder_ns));
}

/* Some fault is possible, and the frame is not lost. */
static void
link_injure(const struct link_frame *frame, struct sim_arrival *arrival)
{
	struct sim_link *link = frame->link;
	uint64_t at_ns = arrival->at_ns;
	unsigned happened = 0;
	bool duplicate;

	if (sim_random_hits(&link->random, link->config.corrupt)) {
		link->counts.corrupt++;
		happened |= LINK_CORRUPT;
		link_corrupt(link, frame->len, arrival);
	}
	duplicate = sim_random_hits(&link->random, link->config.duplicate);
	if (sim_random_hits(&link->random, link->config.reorder)) {
		link->counts.reorder++;
		arrival->at_ns = link_late(link, at_ns);
		link_deliver(frame, arrival, happened | LINK_REORDER);
	} else {
		link_deliver(frame, arrival, happened);
	}
	if (!duplicate)
		return;
	link->counts.duplicate++;
	arrival->at_ns = link_late(link, at_ns);
	link_deliver(frame, arrival, happened | LINK_DUPLICATE);
}

void
link_fault(const struct link_frame *frame, unsigned to, uint64_t at_ns)
{
	struct sim_link *link = frame->link;
	struct sim_arrival arrival = { .station = to, .at_ns = at_ns };

	if (xk_likely(!link->faulty))
		link_deliver(frame, &arrival, 0);
	else if (link_loses(link, &link->stations[to]))
		link_lose(frame, to, at_ns, "loss", &link->counts.loss);
	else
		link_injure(frame, &arrival);
}
