/* http_respond.c - makes responses, and hands them down. The worker's: it may read files, and take its time. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "protocols/http/http_private.h"
#include "protocols/tcp/tcp.h"

enum {
	RESPOND_MESSAGE = 16 * 1024, /* bytes of a message */
	RESPOND_TURN = 4,            /* messages, before others have their turn */
};

/* What a text may do in a browser: nothing; a file may use the folder's others. */
#define RESPOND_POLICY "default-src 'none'; frame-ancestors 'none'"
#define RESPOND_FILE_POLICY "default-src 'self'; frame-ancestors 'none'"

static const struct {
	unsigned status;
	const char *reason;
} respond_refusals[HTTP_REFUSALS] = {
	[HTTP_BAD_LINE] = { 400, "Bad Request" },
	[HTTP_BAD_END] = { 400, "Bad Request" },
	[HTTP_BAD_FIELD] = { 400, "Bad Request" },
	[HTTP_BAD_LENGTH] = { 400, "Bad Request" },
	[HTTP_BAD_HOST] = { 400, "Bad Request" },
	[HTTP_BAD_TARGET] = { 400, "Bad Request" },
	[HTTP_BAD_PATH] = { 400, "Bad Request" },
	[HTTP_FOREIGN_HOST] = { 421, "Misdirected Request" },
	[HTTP_BODY] = { 413, "Content Too Large" },
	[HTTP_BAD_METHOD] = { 405, "Method Not Allowed" },
	[HTTP_BAD_VERSION] = { 505, "HTTP Version Not Supported" },
	[HTTP_LONG_LINE] = { 414, "URI Too Long" },
	[HTTP_LONG_HEAD] = { 431, "Request Header Fields Too Large" },
	[HTTP_MANY_FIELDS] = { 431, "Request Header Fields Too Large" },
	[HTTP_SLOW] = { 408, "Request Timeout" },
	[HTTP_NOT_FOUND] = { 404, "Not Found" },
	[HTTP_LARGE_FILE] = { 403, "Forbidden" },
	[HTTP_BUSY] = { 503, "Service Unavailable" },
};

/* ---- making ---- */

void
http_response_free(struct http_connection *c)
{
	struct http_response *response = c->response;

	if (response == NULL)
		return;
	if (response->file >= 0)
		close(response->file);
	if (response->bytes != NULL)
		atomic_fetch_sub_explicit(&c->http->page_bytes, response->kept, memory_order_relaxed);
	free(response->bytes);
	free(response);
	c->response = NULL;
}

static struct http_response *
respond_new(struct http_connection *c)
{
	c->response = calloc(1, sizeof(*c->response));
	if (c->response != NULL)
		c->response->file = -1;
	return c->response;
}

/*
 * Writes the head. There is no date: a host has no clock of the day. No text is stored by others: each is of its moment.
 */
static void
respond_head(struct http_response *response, unsigned status, const char *reason, const char *type, const char *policy,
	     const char *more)
{
	int len = snprintf(response->head, sizeof(response->head),
			   "HTTP/1.1 %u %s\r\n"
			   "Content-Type: %s\r\n"
			   "Content-Length: %llu\r\n"
			   "Cache-Control: no-store\r\n"
			   "X-Content-Type-Options: nosniff\r\n"
			   "Content-Security-Policy: %s\r\n"
			   "Cross-Origin-Resource-Policy: same-origin\r\n"
			   "Referrer-Policy: no-referrer\r\n"
			   "%s%s\r\n",
			   status, reason, type, (unsigned long long)response->len,
			   policy == NULL ? RESPOND_POLICY : policy, more,
			   response->stays ? "" : "Connection: close\r\n");

	xk_assert(len > 0 && (size_t)len < sizeof(response->head));
	response->head_len = (size_t)len;
}

bool
http_refuse(struct http_connection *c, unsigned why, bool is_head, bool stays)
{
	struct xk_protocol *self = &c->http->protocol;
	struct http_response *response = respond_new(c);
	char body[64];
	size_t room;

	xk_count(self, why);
	if (response == NULL)
		return false;
	response->stays = stays;
	response->len = (uint64_t)snprintf(body, sizeof(body), "%u %s: %s\n", respond_refusals[why].status,
					   respond_refusals[why].reason, http_counters[why]);
	respond_head(response, respond_refusals[why].status, respond_refusals[why].reason, "text/plain; charset=utf-8",
		     NULL,
		     why == HTTP_BAD_METHOD ? "Allow: GET, HEAD\r\n"
		     : why == HTTP_BUSY     ? "Retry-After: 1\r\n"
					    : "");
	room = sizeof(response->head) - response->head_len;
	xk_assert(response->len < room);
	if (!is_head) /* the body is in the head's place, too */
		memcpy(response->head + response->head_len, body, response->len);
	response->head_len += is_head ? 0 : response->len;
	response->len = 0;
	return true;
}

/* Makes the page of the program, if it has one of this name. Returns HTTP_REFUSALS, or why it is refused. */
static unsigned
respond_page(struct http_connection *c, const char *path, const char **type, const char **policy)
{
	struct http *http = c->http;
	struct xk_pages *pages = xk_pages_of(&http->protocol);
	struct xk_page page = { .bytes = NULL };
	int err = pages == NULL ? -ENOENT : pages->ops->make(pages, path, &page);
	uint64_t before;

	if (err != 0)
		return err == -ENOENT ? HTTP_NOT_FOUND : HTTP_BUSY;
	before = atomic_fetch_add_explicit(&http->page_bytes, page.len, memory_order_relaxed);
	c->response->bytes = page.bytes;
	c->response->kept = c->response->len = page.len;
	*type = page.type;
	*policy = page.policy;
	return before + page.len > http->page_bytes_max ? HTTP_BUSY : HTTP_REFUSALS;
}

/* Returns the type of a file's contents, by its name. */
static const char *
respond_type(const char *path)
{
	static const char *const types[][2] = {
		{ ".html", "text/html; charset=utf-8" },
		{ ".css", "text/css; charset=utf-8" },
		{ ".txt", "text/plain; charset=utf-8" },
		{ ".js", "text/javascript; charset=utf-8" },
		{ ".json", "application/json" },
		{ ".svg", "image/svg+xml" },
		{ ".png", "image/png" },
		{ ".jpg", "image/jpeg" },
		{ ".webp", "image/webp" },
		{ ".pdf", "application/pdf" },
	};
	const char *dot = strrchr(path, '.');

	for (size_t i = 0; i < XK_ARRAY_LENGTH(types); i++)
		if (dot != NULL && strcmp(dot, types[i][0]) == 0)
			return types[i][1];
	return "application/octet-stream";
}

bool
http_respond(struct http_connection *c, const struct http_request *request)
{
	struct http *http = c->http;
	struct http_response *response = respond_new(c);
	const char *type = respond_type(request->path), *policy = NULL;
	unsigned why;

	if (response == NULL)
		return false;
	why = respond_page(c, request->path, &type, &policy);
	if (why == HTTP_NOT_FOUND && http->folder >= 0)
		why = http_file_open(http->folder, request->path, http->file_max, &response->file, &response->len);
	if (why != HTTP_REFUSALS) {
		http_response_free(c);
		return http_refuse(c, why, request->is_head, request->stays);
	}
	response->stays = request->stays;
	respond_head(response, 200, "OK", type, response->file >= 0 ? RESPOND_FILE_POLICY : policy, "");
	if (request->is_head)
		response->len = 0;
	return true;
}

/* ---- handing down ---- */

/* Stores len bytes of the response, from offset on. Returns false if the file has fewer. */
static bool
respond_read(const struct http_response *response, uint64_t offset, uint8_t *bytes, size_t len)
{
	size_t first = 0;

	if (offset < response->head_len) {
		first = response->head_len - (size_t)offset < len ? response->head_len - (size_t)offset : len;
		memcpy(bytes, response->head + offset, first);
	}
	bytes += first;
	offset = offset + first - response->head_len;
	len -= first;
	if (len == 0)
		return true;
	if (response->bytes != NULL) {
		memcpy(bytes, response->bytes + offset, len);
		return true;
	}
	return pread(response->file, bytes, len, (off_t)offset) == (ssize_t)len;
}

/* Returns the next message of the response, or NULL with -errno in *err. */
static struct xk_msg *
respond_message(struct http_connection *c, size_t len, int *err)
{
	struct xk_msg *m = xk_msg_new(xk_platform_of(&c->http->protocol), len);
	uint64_t offset = c->response->sent;

	*err = m == NULL ? -ENOBUFS : 0;
	for (struct xk_msg *segment = m; segment != NULL && *err == 0; segment = segment->next) {
		if (!respond_read(c->response, offset, segment->data, segment->len)) {
			xk_count(&c->http->protocol, HTTP_CHANGED);
			*err = -EIO;
		}
		offset += segment->len;
	}
	if (*err == 0)
		return m;
	xk_msg_free(m);
	return NULL;
}

int
http_send(struct http_connection *c)
{
	struct http_response *response = c->response;
	uint64_t whole = response->head_len + response->len;
	int err = 0;

	for (unsigned turn = 0; turn < RESPOND_TURN && err == 0 && response->sent < whole; turn++) {
		uint64_t left = whole - response->sent;
		size_t len = left < RESPOND_MESSAGE ? (size_t)left : RESPOND_MESSAGE;
		struct xk_msg *m = respond_message(c, len, &err);

		if (m != NULL)
			err = xk_push(c->session, m);
		if (err == 0)
			response->sent += len;
	}
	return err != 0 ? err : response->sent == whole;
}
