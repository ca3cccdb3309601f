/* path_make.c - composes paths from what layers declare and what their sessions send: see path.h. */
#include <stdlib.h>
#include <string.h>

#include "xkernel/engine/engine.h"
#include "xkernel/engine/paths.h"
#include "xkernel/protocol.h"

enum {
	PATH_LAYERS = 8,
	PATH_MAX = 1 << 17, /* paths of a port */
	/* marks that keep paths from crossing an edge */
	PATH_BLOCKS = XK_WATCH_ANY & ~(XK_WATCH_OWNER | XK_WATCH_SINK),
};

static const _Atomic bool path_never;

/* ---- composing ---- */

/* A path that is being composed. */
struct path_draft {
	struct xk_path_pattern pattern;
	struct xk_path path;
	const struct xk_protocol_type *types[PATH_LAYERS + 1]; /* of layers that have a header */
	uint8_t fixed[XK_PATH_BYTES], names[XK_PATH_BYTES];    /* masks of the headers */
	uint8_t header[XK_PATH_BYTES];                         /* as sent */
	unsigned headers;
	unsigned prefilter_end; /* bytes up to the number of the topmost protocol */
	uint64_t longest;       /* the smallest limit of any layer, including the headers up to its own */
};

/* Adds those bits of a field that begins at bit `at` to a mask. */
static void
path_mask(uint8_t *mask, size_t at, const struct xk_field *field, uint64_t bits)
{
	for (unsigned i = 0; i < field->bits; i++)
		if (bits >> (field->bits - 1 - i) & 1)
			mask[(at + i) / 8] |= (uint8_t)(0x80 >> (at + i) % 8);
}

/* Adds a field of s with this value, at bit `at` of the headers. Returns false if paths cannot include it. */
static bool
path_add_field(struct path_draft *d, struct xk_session *s, const struct xk_field *field, size_t at, uint64_t value)
{
	switch (field->kind) {
	case XK_VARIES:
		path_mask(d->fixed, at, field, field->rare);
		return ((value ^ field->usual) & field->rare) == 0;
	case XK_FIXED:
		if (field->is_own)
			return s->ops->path_state != NULL;
		path_mask(d->fixed, at, field, UINT64_MAX);
		return field->usual == 0 || value == field->usual;
	case XK_NAMES_SESSION:
		path_mask(field->is_upper ? d->fixed : d->names, at, field, UINT64_MAX);
		if (field->is_upper)
			d->prefilter_end = (unsigned)(at + field->bits) / 8;
		return true;
	case XK_LENGTH:
	case XK_CHECKSUM:
		return true; /* xk_path_add handles them */
	}
	return false;
}

/*
 * Points *unusual, of a path, to the mark of s, if s has one. Returns false if it points to another session's already.
 */
static bool
path_add_unusual(const _Atomic bool **unusual, struct xk_session *s)
{
	bool has_mark = (s->protocol->type->flags & XK_VIRTUAL) != 0, fits = !has_mark || *unusual == &path_never;

	if (has_mark)
		*unusual = &s->marked;
	return fits;
}

/* Adds what s sends; its header begins at `begin`. Returns false if another layer adapts already. */
static bool
path_add_sends(struct path_draft *d, struct xk_session *s, unsigned begin)
{
	const struct xk_format *format = &s->protocol->format;
	struct xk_path_layout *layout = &d->pattern.layout;
	struct xk_path *path = &d->path;
	struct xk_sends *sends = &s->sends;
	uint32_t whole = atomic_load_explicit(&sends->whole, memory_order_relaxed);

	memcpy(d->header + begin, sends->header, format->len);
	if (layout->fills > 0 && layout->fill_at[layout->fills - 1] == begin && format->len > 0) {
		path->fill[layout->fills - 1].sum = xk_send_fixed(format, sends, sends->sums);
		path->fill[layout->fills - 1].number = &sends->number;
	}
	if (format->sum_covers == XK_COVERS_PSEUDO) {
		path->sums = sends->sums;
		path->offloads = sends->offloads;
		path->pop_sum = sends->pop_sum;
	}
	if (sends->adapts) {
		if (path->whole != NULL)
			return false;
		path->whole = &sends->whole;
		path->less = layout->len; /* path_complete makes it that of the headers above */
	} else if (whole != 0 && whole + (uint64_t)layout->len < d->longest)
		d->longest = whole + (uint64_t)layout->len;
	return true;
}

/*
 * Adds the layer of s, whose header is at p in a message that came up `from`. The mark of `receiving`, a session of the
 * same protocol, shows whether messages coming up are usual. Returns false if paths cannot include it.
 */
static bool
path_add_layer(struct path_draft *d, struct xk_session *s, const struct xk_session *from, struct xk_session *receiving,
	       const uint8_t *p)
{
	const struct xk_protocol_type *type = s->protocol->type;
	struct xk_path *path = &d->path;
	unsigned begin = d->pattern.layout.len;
	size_t at = 0;

	if (!path_add_unusual(&path->unusual, s) || !path_add_unusual(&path->unusual_up, receiving) ||
	    !xk_path_add(&d->pattern.layout, &s->protocol->format,
			 type->path_code == NULL ? XK_PATH_PASSES : type->path_code->top) ||
	    !path_add_sends(d, s, begin))
		return false;
	for (const struct xk_field *field = type->fields; field != NULL && field->name != NULL; field++) {
		if (!path_add_field(d, s, field, 8 * (size_t)begin + at, xk_field_load(field, p, at)))
			return false;
		at += field->bits;
	}
	if (s->ops->path_state != NULL)
		path->state = s->ops->path_state(s, from);
	if (type->header != 0)
		d->types[d->headers++] = type;
	path->top = s;
	d->pattern.top = s->protocol;
	return true;
}

/* Chooses the words of 8 bytes that hold all bits of d->names. Returns false if there are too many. */
static bool
path_choose_words(struct path_draft *d)
{
	struct xk_path_pattern *pattern = &d->pattern;
	unsigned last = pattern->layout.len - 8u;

	for (unsigned at = 0; at < pattern->layout.len; at++) {
		unsigned from = at <= last ? at : last;

		if (d->names[at] == 0)
			continue;
		if (pattern->words == XK_PATH_WORDS)
			return false;
		pattern->word[pattern->words].at = from;
		pattern->word[pattern->words++].mask = xk_path_load(d->names + from);
		memset(d->names + from, 0, 8);
	}
	return true;
}

/* Returns whether code is for the layers of d. */
static bool
path_is_of(const struct xk_path_code *code, const struct path_draft *d)
{
	unsigned i = 0;

	while (d->types[i] != NULL && d->types[i] == code->types[i])
		i++;
	return d->types[i] == NULL && code->types[i] == NULL;
}

/* Completes d, which has all its layers, for messages like the one whose headers are at p. */
static bool
path_complete(struct path_draft *d, const uint8_t *p)
{
	struct xk_path_pattern *pattern = &d->pattern;
	struct xk_path_layout *layout = &pattern->layout;
	const struct xk_path_code *code = pattern->top->type->path_code;
	struct xk_path *path = &d->path;

	if (path->whole != NULL &&
	    d->longest < atomic_load_explicit(path->whole, memory_order_relaxed) + (uint64_t)path->less)
		return false; /* another layer's limit is lower */
	if (!path_is_of(code, d) || (code->top == XK_PATH_OWN) != (path->top->ops->path_state != NULL) ||
	    d->prefilter_end < 8 || d->longest <= layout->len)
		return false;
	for (unsigned i = 0; i < xk_path_pieces(layout) * XK_PATH_PIECE; i++) {
		unsigned at = xk_path_piece_at(layout, i / XK_PATH_PIECE) + i % XK_PATH_PIECE;

		pattern->mask[i] = d->fixed[at] | d->names[at];
		path->value[i] = pattern->mask[i] & p[at];
	}
	pattern->prefilter_at = (uint8_t)(d->prefilter_end - 8);
	pattern->prefilter_mask = xk_path_load(d->fixed + pattern->prefilter_at);
	pattern->prefilter = xk_path_load(p + pattern->prefilter_at) & pattern->prefilter_mask;
	pattern->code = *code;
	memcpy(path->header + XK_PATH_BYTES - layout->len, d->header, layout->len);
	path->longest = (uint32_t)(d->longest - layout->len);
	path->less = path->whole == NULL ? 0 : layout->len - path->less;
	return path_choose_words(d);
}

/*
 * Finds the sessions that m, which arrived on port, would come up, from the lowest to the first at which paths end.
 * Returns their number; 0: there is no path for m.
 */
static unsigned
path_climb(struct xk_port *port, const struct xk_msg *m, struct xk_session *found[PATH_LAYERS])
{
	struct xk_session *s = port->receiver;
	unsigned count = 0, len = 0;

	do {
		struct xk_protocol *self = xk_hlp_receive(s);
		const uint8_t *p = m->data + len;

		len += self->type->header;
		if (len > m->len || count == PATH_LAYERS || xk_edge_watched(s->up, PATH_BLOCKS))
			return 0;
		if (self->ops->find != NULL)
			s = self->ops->find(self, s, p);
		else if ((self->type->flags & XK_BY_FIELDS) != 0 && xk_format_is_usual(&self->format, &self->format, p))
			s = xk_receive_find(self, s, p);
		else
			return 0;
		if (s == NULL || (s->pops & XK_POPS_IN_ORDER) != 0 || !s->sends.is_path)
			return 0;
		found[count++] = s;
	} while (s->protocol->type->path_code == NULL);
	return count;
}

/*
 * Stores in `chain` the `count` sessions from s downward, which must be of the same protocols as those found. Returns
 * the session below them, the port's; NULL: a protocol differs, or paths cannot include a session.
 */
static struct xk_session *
path_follow(struct xk_session *s, struct xk_session *const found[], unsigned count, struct xk_session *chain[])
{
	while (count-- > 0) {
		if (s == NULL || s->protocol != found[count]->protocol || !s->sends.is_path)
			return NULL;
		chain[count] = s;
		s = s->lls;
	}
	return s;
}

/*
 * Composes the path of m, which arrived on port. Returns false if it has none. Messages may come up other sessions than
 * those below the top, because a host that was opened may send from anywhere. Data for pushes, and everything that must
 * last as long as the top, come from the sessions below the top. A top with path_state keeps the session that messages
 * come up, with those below it, while it accepts them.
 */
static bool
path_compose(struct path_draft *d, struct xk_port *port, const struct xk_msg *m)
{
	struct xk_session *found[PATH_LAYERS], *below[PATH_LAYERS], *receiving[PATH_LAYERS], *top;
	unsigned count = path_climb(port, m, found);

	if (count == 0)
		return false;
	top = found[count - 1];
	memset(d, 0, sizeof(*d));
	d->path.unusual_up = d->path.unusual = &path_never;
	d->longest = UINT32_MAX;
	d->path.below = path_follow(top, found, count, below);
	memcpy(receiving, below, sizeof(receiving));
	if (d->path.below == NULL || d->path.below->protocol != port->receiver->protocol ||
	    (count > 1 && top->ops->path_state != NULL &&
	     path_follow(found[count - 2], found, count - 1, receiving) == NULL))
		return false;
	for (unsigned i = 0; i < count; i++)
		if (!path_add_layer(d, below[i], i == 0 ? port->receiver : found[i - 1], receiving[i],
				    m->data + d->pattern.layout.len))
			return false;
	return path_complete(d, m->data);
}

/* ---- making ---- */

/* Returns the pattern equal to that of d, and makes it if necessary. NULL: too many patterns, or no memory. Locked. */
static struct xk_path_pattern *
path_find_pattern(struct xk_paths *paths, const struct path_draft *d)
{
	const struct xk_path_pattern *wanted = &d->pattern;
	struct xk_path_pattern *pattern;
	unsigned i;

	for (i = 0; (pattern = atomic_load_explicit(&paths->pattern[i], memory_order_relaxed)) != NULL; i++)
		if (pattern->top == wanted->top && pattern->layout.len == wanted->layout.len &&
		    pattern->prefilter_at == wanted->prefilter_at && pattern->prefilter == wanted->prefilter &&
		    memcmp(pattern->mask, wanted->mask, XK_PATH_BYTES) == 0)
			return pattern;
	if (i == XK_PATH_PATTERNS || (pattern = aligned_alloc(64, sizeof(*pattern))) == NULL)
		return NULL;
	*pattern = *wanted;
	for (unsigned j = 0; j < pattern->words; j++)
		pattern->word[j].factor = xk_kernel_random(NULL) | 1;
	for (; i > 0 && paths->pattern[i - 1]->layout.len < pattern->layout.len;
	     i--) /* longest first, without losing one */
		atomic_store_explicit(&paths->pattern[i], paths->pattern[i - 1], memory_order_release);
	atomic_store_explicit(&paths->pattern[i], pattern, memory_order_release);
	return pattern;
}

/* The push of sessions with a path, unless the path's top pops messages itself. */
static int
path_push(struct xk_session *s, struct xk_msg *m)
{
	const struct xk_path *path = atomic_load_explicit(&s->paths, memory_order_acquire);

	return path->pattern->code.push(s, m, path);
}

int
xk_path_push_below(struct xk_session *s, struct xk_msg *m)
{
	const struct xk_path *path = atomic_load_explicit(&s->paths, memory_order_acquire);

	xk_debug_unlocked("pushes a message");
	return path == NULL ? xk_push(s->lls, m) : path->pattern->code.push(s, m, path);
}

/* Returns the operations of self's sessions with a push that takes paths; NULL: no memory. Locked. */
static const struct xk_session_ops *
path_ops(struct xk_protocol *self)
{
	struct xk_session_ops *ops = self->path_ops;

	if (ops == NULL && (ops = malloc(sizeof(*ops))) != NULL) {
		*ops = *self->type->session_ops;
		ops->push = path_push;
		self->path_ops = ops;
	}
	return ops;
}

/* Returns the path to top in this table, or NULL. Locked. */
static struct xk_path *
path_find(const struct xk_paths *paths, const struct xk_session *top)
{
	struct xk_path *path = atomic_load_explicit(&top->paths, memory_order_relaxed);

	while (path != NULL && path->map != &paths->map)
		path = path->next;
	return path;
}

/* Returns a new path made from d, in no table yet; NULL: no memory. Locked. */
static struct xk_path *
path_new(struct xk_paths *paths, const struct path_draft *d, const struct xk_path_pattern *pattern)
{
	struct xk_session *top = d->path.top;
	const struct xk_session_ops *ops =
		pattern->code.top == XK_PATH_POPS ? top->protocol->type->session_ops : path_ops(top->protocol);
	struct xk_path *path = ops == NULL ? NULL : aligned_alloc(64, sizeof(*path));

	if (path == NULL)
		return NULL;
	*path = d->path;
	path->map = &paths->map;
	path->pattern = pattern;
	if (path->whole == NULL)
		path->whole = &path->longest;
	path->valid = &paths->kernel->path_version;
	path->next = atomic_load_explicit(&top->paths, memory_order_relaxed);
	atomic_store_explicit(&top->paths, path, memory_order_release);
	top->ops = ops;
	return path;
}

bool
xk_path_make(struct xk_port *port, const struct xk_msg *m)
{
	struct xk_paths *paths = port->paths;
	struct xk_kernel *kernel = paths->kernel;
	uint32_t version = atomic_load_explicit(&kernel->path_version, memory_order_acquire);
	struct path_draft d;
	struct xk_path_pattern *pattern;
	struct xk_path *path = NULL;
	struct xk_key key = { 0, 0 };

	if (!path_compose(&d, port, m) || !xk_duplicate(d.path.top))
		return false;
	xk_spin_lock(&kernel->path_lock);
	pattern = path_find_pattern(paths, &d);
	if (pattern != NULL && xk_map_count(&paths->map) < PATH_MAX) {
		key = xk_path_key(pattern, m->data);
		path = path_find(paths, d.path.top);
		if (path == NULL)
			path = path_new(paths, &d, pattern);
		else if (path->is_bound && (path->binding.key.a != key.a || path->binding.key.b != key.b))
			path = NULL;
	}
	if (path != NULL) {
		atomic_store_explicit(&pattern->version, version, memory_order_relaxed);
		for (struct xk_path *p = d.path.top->paths; p != NULL; p = p->next) /* all have the same layers */
			atomic_store_explicit(&p->version, version, memory_order_relaxed);
		if (!path->is_bound)
			path->is_bound = xk_map_bind(&paths->map, &path->binding, key, path) == 0;
	}
	xk_spin_unlock(&kernel->path_lock);
	xk_session_release(d.path.top);
	return path != NULL;
}
