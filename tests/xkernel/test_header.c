/*
 * test_header.c - code derived from a header's list (xkernel/header.h): load and store, bit by bit, and the format,
 * which the compiler and the kernel must derive alike.
 */

#include "tests/random.h"
#include "tests/test.h"
#include "tests/xkernel/naive_checksum.h"
#include "xkernel/protocol.h"
#include "xkernel/receive.h"

#define ODD_HEADER(F)                                                                                                  \
	F(4, version, .kind = XK_FIXED, .usual = 4)                                                                    \
	F(4, words, .usual = 5, .rare = 0xf)                                                                           \
	F(8, service)                                                                                                  \
	F(3, flags, .rare = 5)                                                                                         \
	F(13, offset, .rare = 0x1fff)                                                                                  \
	F(24, three)                                                                                                   \
	F(40, five)                                                                                                    \
	F(1, bit)                                                                                                      \
	F(63, rest)                                                                                                    \
	F(56, seven)                                                                                                   \
	F(48, link)                                                                                                    \
	F(64, eight)                                                                                                   \
	F(32, four)
XK_HEADER(odd, ODD_HEADER);
XK_FIELDS(odd, ODD_HEADER);

TEST(loads_and_stores_match_their_bits)
{
	uint64_t random = test_seed("values");

	for (unsigned i = 0; i < 2000; i++) {
		uint8_t p[XK_HEADER_LEN(odd)], q[XK_HEADER_LEN(odd)];
		struct odd_header h;
		size_t at = 0;

		for (size_t j = 0; j < sizeof(p); j++) {
			p[j] = (uint8_t)(next_random(&random) & 0xff);
			q[j] = (uint8_t)(next_random(&random) & 0xff);
		}
		h = odd_load(p);
		CHECK_EQ(h.flags, p[2] >> 5);
		CHECK_EQ(h.offset, (p[2] & 0x1f) << 8 | p[3]);
		CHECK_EQ(XK_GET(odd, offset, p), h.offset);
		CHECK_EQ(h.three, (uint32_t)p[4] << 16 | p[5] << 8 | p[6]);
		CHECK_EQ(h.bit, p[12] >> 7);
		odd_store(q, &h);
		CHECK(memcmp(p, q, sizeof(p)) == 0);
		for (const struct xk_field *f = odd_fields; f->name != NULL; at += f->bits, f++) {
			uint64_t value = xk_field_load(f, p, at);

			CHECK_EQ(xk_bits_load(p, at, f->bits), value);
			xk_bits_store(q, at, f->bits, ~value);
			CHECK_EQ(xk_field_load(f, q, at), ~value & UINT64_MAX >> (64 - f->bits));
			xk_bits_store(q, at, f->bits, value);
			CHECK(memcmp(p, q, sizeof(p)) == 0);
		}
		XK_PUT(odd, flags, q, 7);
		CHECK_EQ(XK_GET(odd, flags, q), 7);
		CHECK_EQ(XK_GET(odd, offset, q), h.offset);
		CHECK_EQ(XK_GET_SPAN(odd, three, five, p), (uint64_t)h.three << 40 | h.five);
		XK_PUT_SPAN(odd, version, words, q, 0xab);
		CHECK(q[0] == 0xab && q[1] == p[1]);
	}
	CHECK_EQ(XK_OFFSET(odd, three), 4);
}

/* Fields of any width at any offset, up to nine bytes. */
TEST(bit_fields_may_lie_anywhere)
{
	uint64_t random = test_seed("bits");

	for (unsigned i = 0; i < 20000; i++) {
		size_t at = next_random(&random) % 64;
		struct xk_field f = { .bits = 1 + (unsigned)next_random(&random) % 64 };
		uint8_t p[16], q[16];
		uint64_t value;

		for (size_t j = 0; j < sizeof(p); j++)
			p[j] = q[j] = (uint8_t)(next_random(&random) & 0xff);
		value = xk_field_load(&f, p, at);
		CHECK_EQ(xk_bits_load(p, at, f.bits), value);
		xk_bits_store(q, at, f.bits, ~value);
		CHECK_EQ(xk_field_load(&f, q, at), ~value & UINT64_MAX >> (64 - f.bits));
		xk_bits_store(q, at, f.bits, value);
		CHECK(memcmp(p, q, sizeof(p)) == 0);
	}
}

/* ---- formats ---- */

#define LINK_HEADER(F)                                                                                                 \
	F(48, destination, .kind = XK_FIXED, .is_mine = true)                                                          \
	F(48, source, .kind = XK_NAMES_SESSION, .rare = UINT64_C(1) << 40)                                             \
	F(16, type, .kind = XK_NAMES_SESSION, .is_upper = true)
#define NETWORK_HEADER(F)                                                                                              \
	F(4, version, .kind = XK_FIXED, .usual = 4)                                                                    \
	F(4, words, .usual = 5, .rare = 0xf)                                                                           \
	F(8, service)                                                                                                  \
	F(16, length, .kind = XK_LENGTH, .covers = XK_COVERS_MESSAGE)                                                  \
	F(16, identification, .step = 2)                                                                               \
	F(3, flags, .rare = 5)                                                                                         \
	F(13, offset, .rare = 0x1fff)                                                                                  \
	F(8, ttl)                                                                                                      \
	F(8, protocol, .kind = XK_NAMES_SESSION, .is_upper = true)                                                     \
	F(16, checksum, .kind = XK_CHECKSUM, .covers = XK_COVERS_HEADER)                                               \
	F(32, source, .kind = XK_NAMES_SESSION, .end = XK_END_REMOTE)                                                  \
	F(32, destination, .kind = XK_NAMES_SESSION, .end = XK_END_LOCAL)
#define PORTS_HEADER(F)                                                                                                \
	F(16, source, .kind = XK_NAMES_SESSION, .end = XK_END_REMOTE)                                                  \
	F(16, destination, .kind = XK_NAMES_SESSION, .end = XK_END_LOCAL)                                              \
	F(16, length, .kind = XK_LENGTH, .covers = XK_COVERS_MESSAGE)                                                  \
	F(16, checksum, .kind = XK_CHECKSUM, .covers = XK_COVERS_PSEUDO, .pseudo = 17)
#define PARTS_HEADER(F)                                                                                                \
	F(32, protocol, .kind = XK_NAMES_SESSION, .is_upper = true)                                                    \
	F(32, sequence, .rare = UINT32_MAX)                                                                            \
	F(32, length, .kind = XK_LENGTH, .covers = XK_COVERS_PAYLOAD)                                                  \
	F(16, count, .rare = UINT16_MAX)                                                                               \
	F(8, op, .usual = 1, .rare = 0xff)                                                                             \
	F(8, width, .kind = XK_FIXED, .usual = 64)                                                                     \
	F(64, mask, .rare = UINT64_MAX)
#define SHORT_HEADER(F)                                                                                                \
	F(16, source, .kind = XK_NAMES_SESSION)                                                                        \
	F(16, kind, .kind = XK_NAMES_SESSION)                                                                          \
	F(8, number, .kind = XK_NAMES_SESSION)
XK_HEADER(link, LINK_HEADER);
XK_FORMAT(link, LINK_HEADER);
XK_FIELDS(link, LINK_HEADER);
XK_HEADER(network, NETWORK_HEADER);
XK_FORMAT(network, NETWORK_HEADER);
XK_FIELDS(network, NETWORK_HEADER);
XK_HEADER(ports, PORTS_HEADER);
XK_FORMAT(ports, PORTS_HEADER);
XK_FIELDS(ports, PORTS_HEADER);
XK_HEADER(parts, PARTS_HEADER);
XK_FORMAT(parts, PARTS_HEADER);
XK_FIELDS(parts, PARTS_HEADER);
XK_HEADER(shorts, SHORT_HEADER);
XK_FORMAT(shorts, SHORT_HEADER);
XK_FIELDS(shorts, SHORT_HEADER);

/* Returns true if the windows cover the fields selected by `of` and nothing else, each bit once. */
static bool
covers(const struct xk_window w[], unsigned count, const struct xk_field *fields, size_t len,
       uint64_t (*of)(const struct xk_field *))
{
	uint8_t wanted[64] = { 0 }, got[64] = { 0 };
	size_t at = 0;

	for (const struct xk_field *f = fields; f->name != NULL; at += f->bits, f++)
		for (unsigned i = 0; i < f->bits; i++)
			if (of(f) >> (f->bits - 1 - i) & 1)
				wanted[(at + i) / 8] |= (uint8_t)(0x80 >> (at + i) % 8);
	for (unsigned i = 0; i < count; i++)
		for (unsigned j = 0; j < w[i].len; j++) {
			CHECK((size_t)w[i].at + w[i].len <= len);
			CHECK((got[w[i].at + j] & (uint8_t)(w[i].mask >> 8 * j)) == 0);
			got[w[i].at + j] |= (uint8_t)(w[i].mask >> 8 * j);
		}
	return memcmp(wanted, got, sizeof(wanted)) == 0;
}

static uint64_t
usual_of(const struct xk_field *f)
{
	return xk_field_usual(f);
}

static uint64_t
names_of(const struct xk_field *f)
{
	return xk_field_names(f);
}

static void
check_format(const struct xk_format *compiled, const struct xk_field *fields)
{
	struct xk_protocol_type type = { .header = compiled->len, .fields = fields };
	struct xk_format worked_out;

	xk_format_init(&worked_out, &type);
	CHECK(worked_out.fits);
	CHECK(covers(compiled->usual, XK_USUAL, fields, compiled->len, usual_of));
	CHECK(covers(compiled->names, XK_NAMES, fields, compiled->len, names_of));
	for (unsigned i = 0; i < XK_USUAL; i++) {
		CHECK_EQ(compiled->usual[i].mask, worked_out.usual[i].mask);
		CHECK_EQ(compiled->usual[i].value, worked_out.usual[i].value);
		CHECK(compiled->usual[i].at == worked_out.usual[i].at &&
		      compiled->usual[i].len == worked_out.usual[i].len);
	}
	for (unsigned i = 0; i < XK_NAMES; i++) {
		CHECK_EQ(compiled->names[i].mask, worked_out.names[i].mask);
		CHECK(compiled->names[i].at == worked_out.names[i].at &&
		      compiled->names[i].len == worked_out.names[i].len);
	}
	CHECK(memcmp(&compiled->len, &worked_out.len,
		     offsetof(struct xk_format, fits) + 1 - offsetof(struct xk_format, len)) == 0);
}

TEST(compiler_and_kernel_derive_the_same_formats)
{
	struct xk_format format = link_format();

	check_format(&format, link_fields);
	CHECK(format.usual[0].at == 0 && format.usual[0].len == 8 && format.usual[1].len == 0);
	CHECK(format.names[0].at == 6 && format.names[0].len == 8 && format.names[1].len == 0);
	format = network_format();
	check_format(&format, network_fields);
	CHECK(format.names[0].at == 12 && format.names[1].at == 9 && format.names[1].len == 1);
	CHECK(format.length_at == 2 && format.number_at == 4 && format.number_step == 2 && format.sum_at == 10);
	format = ports_format();
	check_format(&format, ports_fields);
	CHECK(format.remote_at == 0 && format.local_at == 2 && format.sum_pseudo == 17);
	format = parts_format();
	check_format(&format, parts_fields);
	CHECK(format.usual[2].len == 4 && format.length_base == 24);
	format = shorts_format();
	check_format(&format, shorts_fields);
	CHECK(format.names[0].len == 4 && format.names[0].at == 1 && format.names[1].len == 1);
}

/* Only the fixed and rare fields' bits make a message unusual. */
TEST(header_fields_mark_unusual_messages)
{
	static const struct {
		size_t byte;
		uint8_t bits;
	} rare[] = { { 0, 0xff }, { 6, 0xbf }, { 7, 0xff } };
	struct xk_format format = network_format();
	uint8_t p[20] = { 0x45 };

	CHECK(xk_format_is_usual(&format, &format, p));
	for (size_t byte = 0; byte < sizeof(p); byte++)
		for (unsigned bit = 0; bit < 8; bit++) {
			bool is_rare = false;

			for (unsigned i = 0; i < XK_ARRAY_LENGTH(rare); i++)
				is_rare |= rare[i].byte == byte && (rare[i].bits >> bit & 1);
			p[byte] ^= (uint8_t)(1u << bit);
			CHECK_EQ(xk_format_is_usual(&format, &format, p), !is_rare);
			p[byte] ^= (uint8_t)(1u << bit);
		}
}

/* A host's address is known only at run time. */
TEST(usual_value_may_be_the_hosts_own_address)
{
	struct xk_protocol_type type = { .header = sizeof(struct link_bits) / 8, .fields = link_fields };
	struct xk_protocol protocol = { .type = &type };
	struct link_header h = { UINT64_C(0x020000000001), UINT64_C(0x020000000099), 0x0800 };
	struct xk_format compiled = link_format();
	uint8_t p[14];

	xk_format_init(&protocol.format, &type);
	xk_header_usual(&protocol, "destination", h.destination);
	link_store(p, &h);
	CHECK(xk_format_is_usual(&compiled, &protocol.format, p));
	for (unsigned bit = 0; bit < 48; bit++) {
		p[bit / 8] ^= (uint8_t)(1u << bit % 8);
		CHECK(!xk_format_is_usual(&compiled, &protocol.format, p));
		p[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	p[6] |= 1; /* a multicast source */
	CHECK(!xk_format_is_usual(&compiled, &protocol.format, p));
}

/* ---- filling in ---- */

#define CROOKED_HEADER(F)                                                                                              \
	F(8, kind)                                                                                                     \
	F(16, length, .kind = XK_LENGTH, .covers = XK_COVERS_PAYLOAD)                                                  \
	F(16, number, .step = 3)                                                                                       \
	F(8, rest)                                                                                                     \
	F(16, checksum, .kind = XK_CHECKSUM, .covers = XK_COVERS_HEADER)
#define LONG_HEADER(F)                                                                                                 \
	F(24, kind)                                                                                                    \
	F(32, length, .kind = XK_LENGTH, .covers = XK_COVERS_MESSAGE)                                                  \
	F(8, rest)                                                                                                     \
	F(16, checksum, .kind = XK_CHECKSUM, .covers = XK_COVERS_PSEUDO, .pseudo = 99)                                 \
	F(16, number, .step = 1)
XK_HEADER(crooked, CROOKED_HEADER);
XK_FORMAT(crooked, CROOKED_HEADER);
XK_HEADER(longer, LONG_HEADER);
XK_FORMAT(longer, LONG_HEADER);

/* The checksum covers the length and the number wherever they lie. */
TEST(filled_in_fields_are_checksummed)
{
	const struct xk_format crooked = crooked_format(), longer = longer_format();
	uint64_t random = test_seed("filling in");

	for (unsigned i = 0; i < 1000; i++) {
		uint8_t m[256];
		size_t payload = next_random(&random) % 200, len;
		uint64_t pseudo = next_random(&random) % (1 << 30), fixed;
		_Atomic uint16_t next;
		uint16_t first;

		for (size_t j = 0; j < sizeof(m); j++)
			m[j] = (uint8_t)next_random(&random);
		first = (uint16_t)next_random(&random);
		atomic_init(&next, first);
		len = XK_HEADER_LEN(crooked) + payload;
		XK_PUT(crooked, length, m, 0);
		XK_PUT(crooked, number, m, 0);
		XK_PUT(crooked, checksum, m, 0);
		fixed = xk_sum(0, m, XK_HEADER_LEN(crooked));
		xk_send_fill(&crooked, m, len, &next, fixed, false, 0, false);
		CHECK_EQ(XK_GET(crooked, length, m), payload);
		CHECK_EQ(XK_GET(crooked, number, m), first);
		CHECK_EQ(atomic_load(&next), (uint16_t)(first + 3));
		CHECK_EQ(naive_checksum(m, XK_HEADER_LEN(crooked)), 0);

		len = XK_HEADER_LEN(longer) + payload;
		XK_PUT(longer, length, m, 0);
		XK_PUT(longer, number, m, 0);
		XK_PUT(longer, checksum, m, 0);
		fixed = pseudo + xk_sum(0, m, XK_HEADER_LEN(longer));
		xk_send_fill(&longer, m, len, &next, fixed, true, xk_sum(0, m + XK_HEADER_LEN(longer), payload), false);
		CHECK_EQ(XK_GET(longer, length, m), len);
		CHECK(xk_sum_is_intact(xk_sum(pseudo + xk_sum_of16((uint16_t)len), m, len)));

		XK_PUT(longer, checksum, m, 0);
		xk_send_fill(&longer, m, len, &next, pseudo, false, 0, true);
		CHECK(xk_sum_is_left(pseudo + xk_sum_of16((uint16_t)len), m + XK_OFFSET(longer, checksum)));
	}
}

/* ---- names ---- */

#define TOY_DROPS(D) D(TOY_FIRST, "first") D(TOY_SECOND, "second")
#define TOY_COUNTERS(C) C(TOY_SEEN, "seen")
XK_DROPS(toy, TOY_DROPS);
XK_COUNTERS(toy, TOY_COUNTERS);

TEST(names_and_constants_come_from_one_list)
{
	CHECK_EQ(TOY_FIRST, XK_DROP_OWN);
	CHECK_EQ(TOY_SECOND, XK_DROP_OWN + 1);
	CHECK_STR(toy_drops[1], "second");
	CHECK(toy_drops[2] == NULL);
	CHECK_EQ(TOY_SEEN, 0);
	CHECK_STR(toy_counters[TOY_SEEN], "seen");
	CHECK(toy_counters[1] == NULL);
}
