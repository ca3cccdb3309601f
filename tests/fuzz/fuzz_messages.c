/* fuzz_messages.c - see fuzz_messages.h. */
#include "tests/fuzz/fuzz_messages.h"

#include <string.h>

#include "xkernel/bytes.h"

/* Returns mostly `right`, sometimes `wrong`. */
static uint64_t
mostly(uint64_t *random, uint64_t right, uint64_t wrong)
{
	return fuzz_draw(random, 10) == 0 ? wrong : right;
}

/* ---- GM ---- */

enum { GM_PORTS = 0, GM_KIND = 4, GM_LENGTH = 6, GM_TOTAL = 8, GM_OFFSET = 12, GM_BEGIN = 16, GM_NUMBER = 24 };
enum { GM_PREVIOUS = 32, GM_LEN = 40, GM_PAYLOAD = 24 };
enum { GM_IS_DATA = 1, GM_IS_DEPOSIT, GM_IS_DATAGRAM, GM_IS_ACK, GM_IS_RESET, GM_IS_CREDIT, GM_KINDS };

void
fuzz_gm_remember(struct fuzz_messages_memory *memory, const uint8_t *p, size_t len)
{
	if (len < GM_LEN || xk_get16(p + GM_KIND) > GM_IS_DATAGRAM)
		return;
	memory->gm_ports = xk_get32(p + GM_PORTS);
	memory->gm_begin = xk_get64(p + GM_BEGIN);
	memory->gm_number = xk_get64(p + GM_NUMBER);
}

void
fuzz_gm_recall(const struct fuzz_messages_memory *memory, uint8_t *p, size_t len)
{
	if (len < GM_LEN)
		return;
	fuzz_recall32(p + GM_PORTS, memory->gm_ports << 16 | memory->gm_ports >> 16);
	fuzz_recall64(p + GM_BEGIN, memory->gm_begin);
	fuzz_recall64(p + GM_NUMBER, memory->gm_number);
}

size_t
fuzz_gm_make(uint8_t *p, uint64_t *random)
{
	static const uint8_t often[] = { GM_IS_DATA, GM_IS_DATA, GM_IS_DATAGRAM };
	unsigned kind = fuzz_draw(random, 2) == 0 ? often[fuzz_draw(random, sizeof(often))]
						  : 1 + fuzz_draw(random, GM_KINDS),
		 len = 0;
	uint64_t number = (kind == GM_IS_DATAGRAM ? 0 : 100) + fuzz_draw(random, 12);

	if (kind <= GM_IS_DATAGRAM)
		len = fuzz_draw(random, GM_PAYLOAD);
	memset(p, 0, GM_LEN + len);
	xk_put32(p + GM_PORTS,
		 fuzz_draw(random, 6) == 0 ? UINT32_MAX : (uint32_t)mostly(random, 7, 8) << 16 | FUZZ_PORT);
	xk_put16(p + GM_KIND, (uint16_t)kind);
	xk_put16(p + GM_LENGTH, (uint16_t)mostly(random, len, fuzz_draw(random, 5000)));
	xk_put32(p + GM_TOTAL, fuzz_draw(random, 3) != 0   ? len
			       : fuzz_draw(random, 8) != 0 ? fuzz_draw(random, 72)
							   : fuzz_draw(random, 70000));
	xk_put32(p + GM_OFFSET, fuzz_draw(random, 3) != 0 ? 0 : fuzz_draw(random, 48));
	xk_put64(p + GM_BEGIN, kind > GM_IS_DATAGRAM ? mostly(random, UINT64_MAX, 90) : mostly(random, 90, 91));
	xk_put64(p + GM_NUMBER, kind > GM_IS_DATAGRAM ? mostly(random, UINT64_MAX, number) : number);
	if (fuzz_draw(random, 3) == 0)
		xk_put64(p + GM_PREVIOUS, mostly(random, number - 1, fuzz_draw(random, 120)));
	return GM_LEN + len;
}

/* ---- Active Messages ---- */

enum {
	AM_KIND = 0,
	AM_WORDS = 1,
	AM_HANDLER = 2,
	AM_SEQUENCE = 4,
	AM_OLDEST = 8,
	AM_LENGTH = 12,
	AM_TO = 16,
	AM_FROM = 24
};
enum { AM_LEN = 32, AM_PAYLOAD = 32 };
enum { AM_IS_CALL = 1, AM_IS_COOKIE, AM_IS_WELCOME, AM_IS_REQUEST, AM_IS_STORE, AM_IS_REPLY, AM_KINDS = 11 };

void
fuzz_am_remember(struct fuzz_messages_memory *memory, const uint8_t *p, size_t len)
{
	if (len < AM_LEN)
		return;
	memory->am_session = xk_get64(p + AM_FROM);
	memory->am_sequence = xk_get32(p + AM_SEQUENCE);
}

void
fuzz_am_recall(const struct fuzz_messages_memory *memory, uint8_t *p, size_t len)
{
	if (len < AM_LEN)
		return;
	fuzz_recall64(p + AM_TO, memory->am_session);
	fuzz_recall32(p + AM_SEQUENCE, memory->am_sequence);
}

size_t
fuzz_am_make(uint8_t *p, uint64_t *random)
{
	static const uint8_t kinds[] = {
		AM_IS_CALL, AM_IS_CALL, AM_IS_CALL, AM_IS_REQUEST, AM_IS_REQUEST, AM_IS_REQUEST
	};
	unsigned kind = fuzz_draw(random, 2) == 0 ? kinds[fuzz_draw(random, sizeof(kinds))]
						  : 1 + fuzz_draw(random, AM_KINDS),
		 len = 0;
	unsigned words = fuzz_draw(random, 4), handler = 0;

	if (kind == AM_IS_CALL)
		len = 12;
	else if (kind >= AM_IS_REQUEST && kind <= AM_IS_REPLY)
		len = fuzz_draw(random, AM_PAYLOAD);
	if (kind == AM_IS_CALL)
		handler = FUZZ_PORT;
	else if (kind == AM_IS_REQUEST || kind == AM_IS_STORE)
		handler = fuzz_draw(random, 3) != 0 ? 0xffff : fuzz_draw(random, 4);
	else if (kind >= AM_IS_WELCOME)
		handler = fuzz_draw(random, 6);
	memset(p, 0, AM_LEN + len);
	p[AM_KIND] = (uint8_t)kind;
	p[AM_WORDS] = (uint8_t)(4 * words <= len && len != 12 ? words : 0);
	xk_put16(p + AM_HANDLER, (uint16_t)handler);
	xk_put32(p + AM_SEQUENCE, kind >= AM_IS_REQUEST && kind <= AM_IS_STORE ? fuzz_draw(random, 6) : UINT32_MAX);
	xk_put32(p + AM_OLDEST, fuzz_draw(random, 3));
	xk_put32(p + AM_LENGTH, (uint32_t)mostly(random, len, fuzz_draw(random, 64)));
	xk_put64(p + AM_TO, kind == AM_IS_CALL && fuzz_draw(random, 2) == 0 ? 0 : mostly(random, UINT64_MAX, 5));
	xk_put64(p + AM_FROM, 0x2000 + fuzz_draw(random, 3));
	if (kind == AM_IS_CALL) { /* endpoint, credits */
		xk_put16(p + AM_LEN, (uint16_t)fuzz_draw(random, 3));
		xk_put16(p + AM_LEN + 2,
			 (uint16_t)mostly(random, 1 + fuzz_draw(random, 4), fuzz_draw(random, 0x10000)));
	}
	return AM_LEN + len;
}
