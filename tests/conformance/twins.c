/* twins.c - see twins.h. */
#include "tests/conformance/twins.h"

#include "tests/test.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"

enum { ETH_LEN = 14, IP_LEN = 20, UDP_LEN = 8, IP_NUMBER = 0x0800, UDP_NUMBER = 17 };

void
twins_begin(struct twins *twins, const char *name, const struct host_plan *plan)
{
	char why[512] = "";

	twins->name = name;
	for (unsigned i = 0; i < TWINS; i++) {
		struct host_plan one = *plan;

		one.no_paths = i == BY_LAYERS;
		twins->hosts[i] = host_new(&one, why, sizeof(why));
		if (twins->hosts[i] == NULL)
			printf("%s: %s\n", name, why);
		REQUIRE(twins->hosts[i] != NULL);
	}
}

void
twins_end(struct twins *twins)
{
	for (unsigned i = 0; i < TWINS; i++)
		CHECK(host_free(twins->hosts[i]));
}

/* Takes the frames that the hosts have sent and compares them. */
static bool
twins_compare_sent(const struct twins *twins)
{
	for (;;) {
		const struct sent *a = host_first_sent(twins->hosts[BY_LAYERS]);
		const struct sent *b = host_first_sent(twins->hosts[BY_PATHS]);

		if (a == NULL && b == NULL)
			return true;
		if (a == NULL || b == NULL || a->at_ns != b->at_ns || a->port != b->port || a->len != b->len ||
		    memcmp(a->bytes, b->bytes, a->len) != 0) {
			printf("%s: layers sent %zu bytes at %" PRIu64 " ns, paths %zu at %" PRIu64 "\n", twins->name,
			       a == NULL ? 0 : a->len, a == NULL ? 0 : a->at_ns, b == NULL ? 0 : b->len,
			       b == NULL ? 0 : b->at_ns);
			return false;
		}
		host_drop_sent(twins->hosts[BY_LAYERS]);
		host_drop_sent(twins->hosts[BY_PATHS]);
	}
}

bool
twins_wait(const struct twins *twins, uint64_t until_ns)
{
	for (unsigned i = 0; i < TWINS; i++)
		if (until_ns > host_now_ns(twins->hosts[i]))
			host_run_until(twins->hosts[i], until_ns, false);
	return twins_compare_sent(twins);
}

bool
twins_inject(const struct twins *twins, unsigned port, const uint8_t *bytes, size_t len, size_t split, unsigned flags)
{
	for (unsigned i = 0; i < TWINS; i++)
		host_inject_parts(twins->hosts[i], port, bytes, len, split, flags);
	return twins_compare_sent(twins);
}

void
twins_queue(const struct twins *twins, unsigned port, const uint8_t *bytes, size_t len)
{
	for (unsigned i = 0; i < TWINS; i++)
		host_queue(twins->hosts[i], port, bytes, len, 0, 0);
}

bool
twins_deliver(const struct twins *twins)
{
	for (unsigned i = 0; i < TWINS; i++)
		host_run_until(twins->hosts[i], host_now_ns(twins->hosts[i]), false);
	return twins_compare_sent(twins);
}

bool
twins_compare(const struct twins *twins)
{
	char why[256];

	if (!host_is_like(twins->hosts[BY_LAYERS], twins->hosts[BY_PATHS], why, sizeof(why)))
		printf("%s: by layers and by paths, %s\n", twins->name, why);
	else if (host_crossings(twins->hosts[BY_LAYERS]) != host_crossings(twins->hosts[BY_PATHS]))
		printf("%s: paths count different crossings\n", twins->name);
	else
		return true;
	return false;
}

void
frame_correct_sums(uint8_t *bytes, size_t len, bool with_udp)
{
	uint8_t *ip = bytes + ETH_LEN, *udp;
	size_t header, datagram;
	uint16_t checksum;

	if (len < ETH_LEN + IP_LEN || xk_get16(bytes + ETH_LEN - 2) != IP_NUMBER)
		return;
	header = (size_t)(ip[0] & 15) * 4;
	if (header < IP_LEN || len < ETH_LEN + header)
		return;
	xk_put16(ip + 10, 0);
	xk_checksum_store(ip + 10, xk_checksum_finish(xk_sum(0, ip, header)));
	if (!with_udp || ip[9] != UDP_NUMBER || len < ETH_LEN + header + UDP_LEN)
		return;
	udp = ip + header;
	datagram = xk_get16(udp + 4);
	if (datagram < UDP_LEN || datagram > len - ETH_LEN - header || xk_get16(udp + 6) == 0)
		return;
	xk_put16(udp + 6, 0);
	checksum = xk_checksum_finish(xk_sum(0, ip + 12, 8) + xk_sum_of16(UDP_NUMBER) +
				      xk_sum_of16((uint16_t)datagram) + xk_sum(0, udp, datagram));
	xk_checksum_store(udp + 6, checksum == 0 ? 0xffff : checksum);
}
