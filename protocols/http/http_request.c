/*
 * http_request.c - parses the heads of requests (RFC 9112, 2 to 5). It accepts less than it might: every line ends with
 * CR LF, and what two readers could understand in two ways is refused.
 */
#include <ctype.h>
#include <string.h>

#include "protocols/http/http_private.h"

/* A part of the head, which has no NUL at its end. */
struct http_text {
	const char *p;
	size_t len;
};

/* What the fields of a head say. */
struct http_fields {
	struct http_text host;
	unsigned hosts;
	bool has_length, has_body, closes, keeps;
};

static bool
request_is(struct http_text text, const char *word)
{
	return text.len == strlen(word) && strncasecmp(text.p, word, text.len) == 0;
}

/* Returns whether text is a token (RFC 9110, 5.6.2). */
static bool
request_is_token(struct http_text text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!isalnum((unsigned char)text.p[i]) &&
		    (text.p[i] == '\0' || strchr("!#$%&'*+-.^_`|~", text.p[i]) == NULL))
			return false;
	return text.len > 0;
}

/* Takes the text up to c off the front of *rest; all of it, if c does not occur. Returns it. */
static struct http_text
request_split(struct http_text *rest, char c)
{
	const char *at = rest->len == 0 ? NULL : memchr(rest->p, c, rest->len);
	struct http_text first = { rest->p, at == NULL ? rest->len : (size_t)(at - rest->p) };
	size_t taken = first.len + (at != NULL);

	rest->p += taken;
	rest->len -= taken;
	return first;
}

static struct http_text
request_trim(struct http_text text)
{
	for (; text.len > 0 && (*text.p == ' ' || *text.p == '\t'); text.len--)
		text.p++;
	while (text.len > 0 && (text.p[text.len - 1] == ' ' || text.p[text.len - 1] == '\t'))
		text.len--;
	return text;
}

/* ---- fields ---- */

/* Parses a length: digits alone. Returns false if it is none, or if another one came before. */
static bool
request_length(struct http_fields *fields, struct http_text value)
{
	uint64_t len = 0;

	if (fields->has_length || value.len == 0 || value.len > 18)
		return false;
	for (size_t i = 0; i < value.len; i++) {
		if (!isdigit((unsigned char)value.p[i]))
			return false;
		len = 10 * len + (uint64_t)(value.p[i] - '0');
	}
	fields->has_length = true;
	fields->has_body |= len > 0;
	return true;
}

static unsigned
request_field(struct http_fields *fields, struct http_text line)
{
	struct http_text name = request_split(&line, ':'), value = request_trim(line);

	if (line.p == name.p + name.len || !request_is_token(name)) /* no colon; a continued line; a blank before it */
		return HTTP_BAD_FIELD;
	for (size_t i = 0; i < value.len; i++)
		if (((unsigned char)value.p[i] < ' ' && value.p[i] != '\t') || value.p[i] == 0x7f)
			return HTTP_BAD_FIELD;
	if (request_is(name, "Host")) {
		fields->host = value;
		fields->hosts++;
	} else if (request_is(name, "Content-Length")) {
		return request_length(fields, value) ? HTTP_REFUSALS : HTTP_BAD_LENGTH;
	} else if (request_is(name, "Transfer-Encoding")) {
		fields->has_body = true;
	} else if (request_is(name, "Connection")) {
		while (value.len > 0) {
			struct http_text option = request_trim(request_split(&value, ','));

			fields->closes |= request_is(option, "close");
			fields->keeps |= request_is(option, "keep-alive");
		}
	}
	return HTTP_REFUSALS;
}

/* ---- host ---- */

/* Returns whether the host is this one: otherwise a page elsewhere could have its name lead here (DNS rebinding). */
static bool
request_is_own(struct http_text host, const struct http_names *names)
{
	struct http_text rest = { names->names, names->names == NULL ? 0 : strlen(names->names) };
	char text[16];

	if (request_is(host, "localhost") || request_is(host, xk_host_print(names->host, text)))
		return true;
	while (rest.len > 0) {
		struct http_text name = request_trim(request_split(&rest, ','));

		if (name.len == host.len && strncasecmp(name.p, host.p, host.len) == 0)
			return true;
	}
	return false;
}

static unsigned
request_host(struct http_text host, const struct http_names *names)
{
	struct http_text port = host, name = request_split(&port, ':');
	bool has_port = port.p != name.p + name.len;

	for (size_t i = 0; i < port.len; i++)
		if (!isdigit((unsigned char)port.p[i]))
			return HTTP_BAD_HOST;
	for (size_t i = 0; i < name.len; i++)
		if (!isalnum((unsigned char)name.p[i]) && strchr("-._", name.p[i]) == NULL)
			return HTTP_BAD_HOST;
	if (name.len == 0 || (has_port && (port.len == 0 || port.len > 5)))
		return HTTP_BAD_HOST;
	return request_is_own(name, names) ? HTTP_REFUSALS : HTTP_FOREIGN_HOST;
}

/* ---- target ---- */

static int
request_hex(char c)
{
	return isdigit((unsigned char)c)    ? c - '0'
	       : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10
					    : -1;
}

/* Decodes a path. A part that begins with '.' is "..", or a file that is not meant for others. */
static unsigned
request_path(struct http_request *request, struct http_text text)
{
	size_t to = 0;

	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.p[i];
		bool is_encoded = c == '%';

		if (is_encoded) {
			int high = i + 2 < text.len ? request_hex(text.p[i + 1]) : -1;
			int low = high < 0 ? -1 : request_hex(text.p[i + 2]);

			if (low < 0)
				return HTTP_BAD_TARGET;
			c = (unsigned char)(high << 4 | low);
			i += 2;
		}
		if (c < ' ' || c == 0x7f || (is_encoded && (c == '/' || c == '\\')))
			return HTTP_BAD_PATH;
		if (to > 0 && request->path[to - 1] == '/' && (c == '/' || c == '.'))
			return HTTP_BAD_PATH;
		if (to == HTTP_PATH_MAX - 1)
			return HTTP_BAD_TARGET;
		request->path[to++] = (char)c;
	}
	request->path[to] = '\0';
	return HTTP_REFUSALS;
}

/* Parses a target (RFC 9112, 3.2): a path, or a URL, whose host then counts instead of the field's. */
static unsigned
request_target(struct http_request *request, struct http_text target, struct http_fields *fields)
{
	static const char scheme[] = "http://";
	size_t scheme_len = sizeof(scheme) - 1;

	for (size_t i = 0; i < target.len; i++)
		if (target.p[i] <= ' ' || target.p[i] >= 0x7f || target.p[i] == '#')
			return HTTP_BAD_TARGET;
	if (target.len > scheme_len && strncasecmp(target.p, scheme, scheme_len) == 0) {
		struct http_text rest = { target.p + scheme_len, target.len - scheme_len };
		const char *slash = memchr(rest.p, '/', rest.len);

		fields->host = (struct http_text){ rest.p, slash == NULL ? rest.len : (size_t)(slash - rest.p) };
		target = slash == NULL ? (struct http_text){ "/", 1 }
				       : (struct http_text){ slash, rest.len - fields->host.len };
	}
	if (target.len == 0 || target.p[0] != '/')
		return HTTP_BAD_TARGET;
	return request_path(request, request_split(&target, '?'));
}

/* ---- the whole ---- */

/* Takes a line off the front of *rest, without its end. Returns false if that is not CR LF. */
static bool
request_line(struct http_text *rest, struct http_text *line)
{
	*line = request_split(rest, '\n');
	if (line->len == 0 || line->p[line->len - 1] != '\r')
		return false;
	line->len--;
	return line->len == 0 || memchr(line->p, '\r', line->len) == NULL;
}

unsigned
http_parse(struct http_request *request, const char *head, size_t len, const struct http_names *names)
{
	struct http_text rest = { head, len }, line, method, target;
	struct http_fields fields = { .hosts = 0 };
	unsigned count = 0, why;
	bool is_old;

	*request = (struct http_request){ .stays = false };
	if (!request_line(&rest, &line))
		return HTTP_BAD_END;
	method = request_split(&line, ' ');
	target = request_split(&line, ' ');
	request->is_head = method.len == 4 && memcmp(method.p, "HEAD", 4) == 0;
	if (!request_is_token(method) || target.len == 0 || line.len < 8 || memcmp(line.p, "HTTP/", 5) != 0)
		return HTTP_BAD_LINE;
	is_old = line.len == 8 && memcmp(line.p, "HTTP/1.0", 8) == 0;
	if (!is_old && (line.len != 8 || memcmp(line.p, "HTTP/1.1", 8) != 0))
		return HTTP_BAD_VERSION;
	for (;; count++) {
		if (!request_line(&rest, &line))
			return HTTP_BAD_END;
		if (line.len == 0)
			break;
		if (count == HTTP_FIELDS_MAX)
			return HTTP_MANY_FIELDS;
		why = request_field(&fields, line);
		if (why != HTTP_REFUSALS)
			return why;
	}
	if (fields.hosts != 1)
		return HTTP_BAD_HOST;
	why = request_target(request, target, &fields);
	if (why == HTTP_REFUSALS)
		why = request_host(fields.host, names);
	if (why != HTTP_REFUSALS)
		return why;
	if (fields.has_body)
		return HTTP_BODY;
	if (!request->is_head && (method.len != 3 || memcmp(method.p, "GET", 3) != 0))
		return HTTP_BAD_METHOD;
	request->stays = is_old ? fields.keeps && !fields.closes : !fields.closes;
	return HTTP_REFUSALS;
}
