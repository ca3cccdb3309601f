/*
 * attack.h - the whole UDP graph over a real port, and frames for it that no honest host sends. Included by one file of
 * a test program.
 */
#ifndef TESTS_FUZZ_ATTACK_H
#define TESTS_FUZZ_ATTACK_H

#include "protocols/ip/ip_private.h"
#include "protocols/test/udptest.h"
#include "tests/rig.h"

enum {
	HOST = 0x0a4d0002,
	PEER = 0x0a4d0110,
	OTHER = 0x0a4d0220,
	LONGEST = 65515,
	DATAGRAMS = 16, /* graph()'s settings */
	FRAGMENTS = 64, /* as whole buffers */
	SOURCE_DATAGRAMS = 4,
	SOURCE_FRAGMENTS = 46,
};

static struct rig *
graph(void)
{
	return rig_new_graph("port:; eth: port; arp: eth; vnet: eth arp; vnet.address=10.77.0.2/16; ip: vnet;"
			     "ip.reassembly_datagrams=16; ip.reassembly_bytes=139264; ip.reassembly_source_datagrams=4;"
			     "ip.reassembly_source_bytes=100096;"
			     "ip.reassembly_timeout=2s; ip.sessions=4; udp: ip; udp.sessions=4; udptest: udp");
}

/* A fragment or, with offset 0 and more false, a whole datagram. */
struct piece {
	uint32_t source;
	uint16_t id;
	size_t offset, len;
	bool more;
	uint8_t protocol;    /* 0: UDP */
	uint16_t fragment;   /* further bits to set */
	size_t claimed;      /* header length of IP to claim; 0: the right one */
	const uint8_t *data; /* the datagram's bytes; NULL: zeros */
};

static inline void
attack(struct rig *r, struct piece piece)
{
	static uint8_t frame[14 + 20 + LONGEST];
	uint8_t *p = frame + 14;

	xk_put48(frame, UINT64_C(0x020000000001));
	xk_put48(frame + 6, UINT64_C(0x020000000000) | piece.source);
	xk_put16(frame + 12, 0x0800);
	ip_store(p, &(struct ip_header){ .version = 4,
					 .header_length = IP_HEADER_LEN / 4,
					 .length = (uint16_t)(piece.claimed != 0 ? piece.claimed : 20 + piece.len),
					 .identification = piece.id,
					 .ttl = 64,
					 .protocol = piece.protocol == 0 ? 17 : piece.protocol,
					 .source = piece.source,
					 .destination = HOST });
	xk_put16(p + IP_FRAGMENT, (uint16_t)(piece.offset / 8 | (piece.more ? IP_MORE : 0) | piece.fragment));
	xk_checksum_store(p + XK_OFFSET(ip, checksum), xk_checksum_finish(xk_header_sum(p, IP_HEADER_LEN)));
	if (piece.data != NULL)
		memcpy(p + 20, piece.data + piece.offset, piece.len);
	else
		memset(p + 20, 0, piece.len);
	rig_inject_bytes(r, frame, 14 + 20 + piece.len);
}

static inline void
zeros(struct rig *r, uint32_t source, uint16_t id, size_t offset, size_t len, bool more)
{
	attack(r, (struct piece){ .source = source, .id = id, .offset = offset, .len = len, .more = more });
}

/* Makes a UDP datagram of len bytes in total for the server. */
static inline void
make_udp(uint8_t *p, uint32_t source, size_t len, uint8_t fill)
{
	uint8_t pseudo[12] = { [9] = 17 };

	memset(p, fill, len);
	xk_put16(p, 7);
	xk_put16(p + 2, XK_UDPTEST_PORT);
	xk_put16(p + 4, (uint16_t)len);
	xk_put16(p + 6, 0);
	xk_put32(pseudo, source);
	xk_put32(pseudo + 4, HOST);
	xk_put16(pseudo + 10, (uint16_t)len);
	xk_checksum_store(p + 6, xk_checksum_finish(xk_sum(xk_sum(0, pseudo, sizeof(pseudo)), p, len)));
}

static inline const struct ip_reassembly *
table(struct rig *r)
{
	return &((struct ip *)rig_protocol(r, "ip"))->reassembly;
}

/* Returns true if an honest host's datagram, in `count` fragments, is echoed. */
static inline bool
is_served(struct rig *r, uint32_t source, uint16_t id, unsigned count)
{
	uint8_t datagram[2000];
	unsigned before = rig_sent(r);
	size_t piece = 1600 / count & ~7u, at = 0;

	make_udp(datagram, source, count == 1 ? 100 : 1600, 's');
	if (count == 1)
		attack(r, (struct piece){ .source = source, .id = id, .len = 100, .data = datagram });
	for (unsigned i = 0; i < count && count > 1; i++, at += piece) {
		bool more = i < count - 1;
		size_t len = more ? piece : 1600 - at;

		attack(r, (struct piece){ source, id, at, len, more, .data = datagram });
	}
	return rig_sent(r) == before + (count == 1 ? 1u : 2u);
}

/* Checks that nothing was reassembled and that other hosts are served, also in fragments. */
static inline void
end(struct rig *r)
{
	rig_expect_nothing_sent(r);
	CHECK(is_served(r, OTHER, 4711, 1));
	CHECK(is_served(r, OTHER, 4712, 3));
	rig_forget(r);
	rig_advance_ms(r, 5000);
	CHECK_EQ(table(r)->datagrams, 0);
	CHECK_EQ(rig_platform(r)->ops->buffers_out(rig_platform(r)), 0);
	rig_free(r);
}

#define ATTACK_TEST(name, made) TEST_WITH(name, struct rig *r, made, end)

#endif
