/*
 * test_chan_crowd.c - a machine with thousands of confirmed addresses that all call, beside a new client: CHAN over BID
 * and BIDCTL, on fake wires.
 */
#include "tests/protocols/chan_rig.h"

enum {
	ADDRESSES = 4200,
	CROWD = 0x0a640001,
	BID_LEN = 24,
	BIDCTL_LEN = 40,
	QUERY = 1,
	RESPONSE = 2,
	ON_BID = 102,
};

/* Only the user is fake: BIDCTL is real. */
static void
crowd_prepare(struct rig *r)
{
	struct xk_kernel *kernel = rig_kernel(r);
	struct xk_protocol *user = xk_kernel_add_protocol(kernel, &caller_type, "caller");
	struct xk_edge *edge;

	REQUIRE(user != NULL);
	edge = xk_kernel_add_edge(kernel, user, rig_protocol(r, "chan"), "");
	REQUIRE(edge != NULL);
	edge->has_number = true;
	edge->number = NUMBER;
}

static struct rig *
crowd_rig(void)
{
	struct rig *r = rig_new_prepared("wire:; wire2:; bidctl: wire2; bidctl.broadcast=no; bidctl.keepalive=0s;"
					 "bidctl.stranger_rate=1000000; bid: wire bidctl; chan: bid bidctl",
					 crowd_prepare);
	uint64_t host = SERVER;

	rig_answer_control(r, XK_GET_MY_HOST, &host, sizeof(host));
	CHECK_EQ(serve(r, true), 0);
	return r;
}

static void
inject_bidctl(struct rig *r, uint32_t host, unsigned flags, uint64_t to, uint64_t request, uint64_t reply)
{
	uint8_t bytes[BIDCTL_LEN] = { 0 };

	xk_put16(bytes, (uint16_t)flags);
	xk_put32(bytes + 4, host);
	xk_put64(bytes + 8, BOOT);
	xk_put64(bytes + 16, to);
	xk_put64(bytes + 24, request);
	xk_put64(bytes + 32, reply);
	xk_checksum_store(bytes + 2, xk_checksum_finish(xk_sum(0, bytes, sizeof(bytes))));
	rig_inject_bytes(r, bytes, sizeof(bytes));
}

/* Confirms host: it sends a query, receives one, and answers. Returns the boot id that it is shown. */
static uint64_t
meet(struct rig *r, uint32_t host)
{
	uint8_t bytes[BIDCTL_LEN] = { 0 };
	uint64_t own, tag;

	rig_wire(r, "wire2");
	rig_wire_peer(r, host);
	inject_bidctl(r, host, QUERY, 0, 7, 0);
	CHECK_EQ(rig_take_sent(r, bytes, sizeof(bytes)), BIDCTL_LEN);
	own = xk_get64(bytes + 8);
	tag = xk_get64(bytes + 24);
	CHECK(tag != 0);
	inject_bidctl(r, host, RESPONSE, own, 0, tag);
	rig_wire(r, "wire");
	rig_wire_peer(r, host);
	return own;
}

static void
inject_chan(struct rig *r, uint32_t host, uint64_t own, unsigned flags, uint32_t sequence)
{
	struct chan_header h = { CHANNEL, NUMBER, sequence, (uint16_t)(flags | CHAN_FROM_CLIENT), 0 };
	uint8_t bytes[BID_LEN + CHAN_HEADER_LEN + 1];
	size_t len = frame_bytes(bytes + BID_LEN, h, "x", flags & CHAN_USER_MSG ? 1 : 0);

	xk_put32(bytes, ON_BID);
	xk_put32(bytes + 4, host);
	xk_put64(bytes + 8, BOOT);
	xk_put64(bytes + 16, own);
	rig_inject_bytes(r, bytes, BID_LEN + len);
}

/* Makes a call as host and acknowledges the reply. Returns the flags of the answer; 0xffff: none. */
static unsigned
call_by(struct rig *r, uint64_t station, uint32_t host)
{
	uint8_t bytes[BID_LEN + CHAN_HEADER_LEN + 1] = { 0 };
	uint64_t own;
	long len;

	rig_answer_control(r, XK_GET_PEER_LINK, &station, sizeof(station));
	own = meet(r, host);
	inject_chan(r, host, own, CHAN_USER_MSG, 1);
	len = rig_take_sent(r, bytes, sizeof(bytes));
	rig_forget(r);
	if (len < BID_LEN + CHAN_HEADER_LEN || xk_get32(bytes) != ON_BID)
		return 0xffff;
	inject_chan(r, host, own, 0, 2);
	return xk_get16(bytes + BID_LEN + 4);
}

CHAN_TEST(chan_client_is_served_beside_thousands_of_addresses, crowd_rig())
{
	unsigned refused = 0;

	for (uint32_t i = 0; i < ADDRESSES; i++) {
		unsigned flags = call_by(r, 0xa77ac4, CROWD + i);

		CHECK(flags == CHAN_USER_MSG || flags == CHAN_ERROR);
		refused += flags != CHAN_USER_MSG;
	}
	for (uint32_t i = 0; i < 100; i++)
		CHECK_EQ(call_by(r, 0xbeef + i, 0x0a500001 + (i << 8)), CHAN_USER_MSG);
	CHECK_EQ(rig_counter_of(r, "bidctl", "full"), 0);
	CHECK(refused < ADDRESSES);
}
