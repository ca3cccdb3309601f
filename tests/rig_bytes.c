/* rig_bytes.c - lists of recorded messages, and bytes in hexadecimal; see rig_private.h. */
#include <ctype.h>

#include "tests/rig_private.h"

/* ---- lists of bytes ---- */

void
rig_list_init(struct rig_list *list)
{
	list->first = NULL;
	list->last = &list->first;
	list->count = 0;
}

volatile bool rig_allocates;

void
rig_list_add(struct rig_list *list, struct xk_msg *m, const char *through, struct xk_session *session)
{
	size_t len = xk_msg_len(m);
	struct rig_bytes *b = rig_alloc(sizeof(*b) + len);

	b->through = through;
	b->session = session;
	b->len = len;
	CHECK(xk_msg_copy_out(m, 0, b->bytes, len));
	xk_msg_free(m);
	*list->last = b;
	list->last = &b->next;
	list->count++;
}

/* Takes the oldest, which the caller frees; NULL: none. */
static struct rig_bytes *
rig_list_take(struct rig_list *list)
{
	struct rig_bytes *b = list->first;

	if (b == NULL)
		return NULL;
	list->first = b->next;
	if (list->first == NULL)
		list->last = &list->first;
	list->count--;
	return b;
}

void
rig_list_empty(struct rig_list *list)
{
	struct rig_bytes *b;

	while ((b = rig_list_take(list)) != NULL)
		free(b);
}

/* As rig_list_take; also remembers the place it passed. */
static struct rig_bytes *
rig_list_next(struct rig_list *list)
{
	struct rig_bytes *b = rig_list_take(list);

	list->through = b == NULL ? "" : b->through;
	list->session = b == NULL ? NULL : b->session;
	return b;
}

long
rig_list_copy(struct rig_list *list, void *bytes, size_t max)
{
	struct rig_bytes *b = rig_list_next(list);
	size_t len = b == NULL ? 0 : b->len;

	if (b == NULL)
		return -1;
	memcpy(bytes, b->bytes, len < max ? len : max);
	free(b);
	return (long)len;
}

/* ---- hexadecimal ---- */

static unsigned
rig_nibble(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	if (tolower((unsigned char)c) < 'a' || tolower((unsigned char)c) > 'f') {
		fprintf(stderr, "rig: '%c' is not a hexadecimal digit\n", c);
		abort();
	}
	return (unsigned)(tolower((unsigned char)c) - 'a' + 10);
}

struct rig_hex *
rig_hex_parse(const char *text)
{
	struct rig_hex *hex = rig_alloc(sizeof(*hex));

	for (; *text != '\0'; text++) {
		if (isspace((unsigned char)*text))
			continue;
		if (*text == '|') {
			hex->cuts[hex->cut_count++] = hex->len;
			continue;
		}
		hex->bytes[hex->len++] = (uint8_t)(rig_nibble(text[0]) << 4 | rig_nibble(text[1]));
		text++;
	}
	return hex;
}

/* Returns the offset of the first byte that differs from text; -1: none. */
static long
rig_difference(const struct rig_bytes *b, const char *text)
{
	size_t at = 0;

	for (; *text != '\0'; text++) {
		if (isspace((unsigned char)*text))
			continue;
		if (*text == '*')
			return -1;
		if (at == b->len || (*text != '.' && b->bytes[at] != (rig_nibble(text[0]) << 4 | rig_nibble(text[1]))))
			return (long)at;
		at++;
		text++;
	}
	return at == b->len ? -1 : (long)at;
}

bool
rig_list_is(struct rig_list *list, const char *what, const char *text)
{
	enum { SHOWN = 64 };
	struct rig_bytes *b = rig_list_next(list);
	long at = b == NULL ? 0 : rig_difference(b, text);

	if (b == NULL) {
		fprintf(stderr, "\nnothing was %s, expected %.160s\n", what, text);
	} else if (at >= 0) {
		size_t from = b->len <= SHOWN || at < SHOWN / 2 ? 0 : (size_t)at - SHOWN / 2;

		fprintf(stderr, "\n%s %zu bytes, different at byte %ld; from byte %zu: ", what, b->len, at, from);
		for (size_t i = from; i < b->len && i < from + SHOWN; i++)
			fprintf(stderr, "%02x", b->bytes[i]);
		fprintf(stderr, "; expected: %.160s\n", text);
	}
	free(b);
	return at < 0;
}

struct xk_msg *
rig_frame(struct rig *r, const void *prefix, size_t prefix_len, const void *bytes, size_t len)
{
	struct xk_msg *m = xk_memory_frame(r->platform, prefix_len + len);

	if (m == NULL)
		abort();
	if (prefix_len > 0)
		memcpy(m->data, prefix, prefix_len);
	if (len > 0)
		memcpy(m->data + prefix_len, bytes, len);
	return m;
}

struct xk_msg *
rig_message(struct rig *r, const void *prefix, size_t prefix_len, const struct rig_hex *hex)
{
	size_t end = hex->cut_count > 0 ? hex->cuts[0] : hex->len;
	struct xk_msg *m = rig_frame(r, prefix, prefix_len, hex->bytes, end);

	for (unsigned i = 0; i < hex->cut_count; i++) {
		size_t start = hex->cuts[i];

		end = i + 1 < hex->cut_count ? hex->cuts[i + 1] : hex->len;
		xk_msg_join(m, rig_frame(r, NULL, 0, hex->bytes + start, end - start));
	}
	return m;
}
