/* path.c - see path.h. */
#include "xkernel/path.h"

#include <stdlib.h>
#include <string.h>

#include "xkernel/bytes.h"
#include "xkernel/engine/engine.h"
#include "xkernel/protocol.h"
#include "xkernel/receive.h"

enum {
	PATH_BYTES = 96, /* of the longest headers, in pieces of 16; the last two may overlap */
	PATH_PIECE = 16,
	PATH_FEW = 48,  /* enough for most headers; the bytes beyond lie in lines of their own */
	PATH_WORDS = 4, /* of 8 bytes, that hold what names sessions */
	PATH_LENGTHS = 2,
	PATH_LAYERS = 8,
	PATH_SUMMED = 20,     /* bytes of the header that has a checksum of its own */
	PATH_SUM = 8,         /* ... and of the one whose checksum covers the payload */
	PATH_SHAPES = 8,      /* of a port */
	PATH_DRY = 32,        /* messages without a path in a row, ... */
	PATH_LOOK = 8,        /* ... from when on only one of so many is looked at, ... */
	PATH_LOOK_MAX = 1024, /* ... or, where that never makes one, of up to so many */
	PATH_MAX = 1 << 17,   /* paths of a port */
	PATH_MANY = 64,       /* ... more than the first cache holds */
	/* marks of an edge that no path crosses */
	PATH_BLOCKS = XK_WATCH_ANY & ~(XK_WATCH_OWNER | XK_WATCH_SINK),
};

typedef uint64_t path_piece __attribute__((vector_size(PATH_PIECE)));

/* Where the lengths, the counter and the checksums of the headers are. */
struct path_layout {
	uint8_t len; /* of all headers */
	uint8_t lengths;
	struct {
		uint8_t at, base; /* where it is, and where what it covers begins */
	} length[PATH_LENGTHS];
	/* the checksum of one header: summed_len bytes from summed_from on, 0: none */
	uint8_t summed_from, summed_len, summed_at;
	bool summed_length[PATH_LENGTHS], summed_counter; /* whether these lie in it */
	/* the checksum over the innermost header and what follows; sum_at 0: none */
	uint8_t sum_from, sum_at;
	uint8_t sum_lengths;              /* how often the length counts: in the pseudo-header, and in the header */
	uint8_t counter_at, counter_step; /* 0: none */
	bool has_whole;                   /* a layer limits whole messages (path->whole) */
	uint8_t own_at;                   /* the top's header, if it has path_pop and path_push; 0: it has not */
};

/*
 * Layouts for which the compiler makes code of its own, a third less than for any: that of UDP in IP without options in
 * Ethernet, and that of BID in BLAST in Ethernet, below calls.
 */
enum path_kind { PATH_ANY, PATH_OF_UDP, PATH_OF_CALLS };

static const struct path_layout path_usual = {
	.len = 42,
	.lengths = 2,
	.length = { { 16, 14 }, { 38, 34 } },
	.summed_from = 14,
	.summed_len = PATH_SUMMED,
	.summed_at = 24,
	.summed_length = { true, false },
	.summed_counter = true,
	.sum_from = 34,
	.sum_at = 40,
	.sum_lengths = 2,
	.counter_at = 18,
	.counter_step = 2,
	.has_whole = true,
};

static const struct path_layout path_calls = {
	.len = 62,
	.lengths = 1,
	.length = { { 24, 38 } },
	.own_at = 38,
};

/* What the paths through the same protocols have in common. Does not change once it is there, but for the version. */
struct path_shape {
	_Alignas(64) uint8_t mask[PATH_BYTES]; /* piece by piece */
	uint64_t gate_mask, gate;              /* of the 8 bytes at gate_at: what other messages differ in */
	_Atomic uint32_t version;
	uint8_t gate_at;
	uint8_t words;
	struct {
		uint64_t mask, factor;
		size_t at;
	} word[PATH_WORDS];
	struct path_layout layout;
	struct xk_protocol *sum_protocol;
	struct xk_protocol *top; /* the protocol */
};

/*
 * A path. The first two lines of the cache are for the way up, the next two for the way down. The last two exist only if
 * the headers are longer than PATH_FEW, or if the top has path_pop and path_push.
 */
struct path {
	_Alignas(64) struct xk_path path;
	struct xk_session *top;
	const _Atomic bool *unusual_up;

	_Atomic uint32_t version;
	uint8_t kind; /* enum path_kind, if nothing offloads a checksum; otherwise PATH_ANY */
	uint64_t pop_sum;
	uint8_t value[PATH_FEW]; /* as the shape's mask; the rest of it is in value_more */

	uint8_t header[PATH_FEW]; /* the end of what is sent; the rest of it is in header_more */
	const struct path_shape *shape;
	_Atomic uint16_t *counter;

	const _Atomic uint32_t *whole; /* the payload's limit at its layer; NULL: none */
	uint32_t whole_less;           /* ... and the bytes that headers above take of it */
	uint32_t longest;
	uint64_t summed_sum, push_sum; /* of what is the same in each message */
	bool sums, offloads;
	struct xk_session *below; /* the port's session */
	const _Atomic uint32_t *valid;
	const _Atomic bool *unusual;

	uint8_t value_more[PATH_BYTES - PATH_FEW];
	bool (*pop)(struct xk_session *s, struct xk_msg *m, const uint8_t *p, uint64_t state);
	uint64_t state;

	uint8_t header_more[PATH_BYTES - PATH_FEW];
	bool (*push)(struct xk_session *s, struct xk_msg *m, uint8_t *p);
};

static_assert(offsetof(struct path, version) == 64 && offsetof(struct path, header) == 128 &&
		      offsetof(struct path, whole) == 192 && offsetof(struct path, value_more) == 256 &&
		      offsetof(struct path, header_more) == 320,
	      "lines of the cache");

struct xk_paths {
	struct xk_map map; /* by hash and shape */
	struct path_shape *_Atomic shape[PATH_SHAPES + 1];
	_Atomic uint32_t misses;             /* messages without a path in a row */
	_Atomic uint32_t look;               /* one of so many, a power of two, without a shape is looked at */
	_Atomic uint64_t layered;            /* frames that went the layers' way */
	const struct xk_map_table *expected; /* in which the places of this burst are */
	struct xk_kernel *kernel;
};

static const _Atomic bool path_never;

/* What is inlined is compiled for path_usual, for path_calls, and for any other layout. */
#define PATH_INLINE __attribute__((always_inline)) inline

/* ---- up ---- */

/* Loads 8 bytes in the machine's order. */
static inline uint64_t
path_load(const uint8_t *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return word;
}

/* Multilinear hashing: Lemire and Kaser, "Strongly universal string hashing is fast" (2014). */
static inline uint64_t
path_hash(const struct path_shape *shape, const uint8_t *p)
{
	uint64_t hash = 0;

#pragma GCC unroll 4
	for (unsigned i = 0; i < PATH_WORDS; i++)
		hash += (path_load(p + shape->word[i].at) & shape->word[i].mask) * shape->word[i].factor;
	return hash;
}

static inline struct xk_key
path_key(const struct path_shape *shape, const uint8_t *p)
{
	return (struct xk_key){ path_hash(shape, p), (uintptr_t)shape };
}

/* Returns the longest shape of m among those that are valid in this version, or NULL. */
static inline const struct path_shape *
path_shape_of(struct xk_paths *paths, const struct xk_msg *m, uint32_t version)
{
	const struct path_shape *shape;

	for (unsigned i = 0; (shape = atomic_load_explicit(&paths->shape[i], memory_order_acquire)) != NULL; i++)
		if (m->len >= shape->layout.len &&
		    (path_load(m->data + shape->gate_at) & shape->gate_mask) == shape->gate &&
		    atomic_load_explicit(&shape->version, memory_order_relaxed) == version)
			return shape;
	return NULL;
}

static inline unsigned
path_pieces(const struct path_layout *layout)
{
	return (layout->len + PATH_PIECE - 1u) / PATH_PIECE;
}

/* Where a piece of the headers begins: the last ends with them. */
static inline unsigned
path_piece_at(const struct path_layout *layout, unsigned piece)
{
	unsigned at = piece * PATH_PIECE, last = layout->len - PATH_PIECE;

	return at < last ? at : last;
}

/* Returns where the masked bytes of a piece of the headers are. */
static inline const uint8_t *
path_value(const struct path *path, unsigned piece)
{
	unsigned at = piece * PATH_PIECE;

	return at < PATH_FEW ? path->value + at : path->value_more + (at - PATH_FEW);
}

/* Returns where a piece of the headers that are sent is, counted from the last. */
static inline const uint8_t *
path_header(const struct path *path, unsigned piece)
{
	unsigned at = piece * PATH_PIECE;

	return at < PATH_FEW ? path->header + (PATH_FEW - PATH_PIECE - at)
			     : path->header_more + (PATH_BYTES - PATH_PIECE - at);
}

/* Returns whether m's headers are those of path. */
static PATH_INLINE bool
path_matches_as(const struct path_layout *layout, const struct path *path, const struct xk_msg *m)
{
	path_piece differs = { 0 }, bytes, mask, value;

	if (xk_unlikely(m->len < layout->len))
		return false;
#pragma GCC unroll 4
	for (unsigned i = 0; i < path_pieces(layout); i++) {
		memcpy(&bytes, m->data + path_piece_at(layout, i), PATH_PIECE);
		memcpy(&mask, path->shape->mask + i * PATH_PIECE, PATH_PIECE);
		memcpy(&value, path_value(path, i), PATH_PIECE);
		differs |= (bytes & mask) ^ value;
	}
	return (differs[0] | differs[1]) == 0;
}

/* Returns the sum of a header of len bytes, a multiple of 4. */
static inline uint64_t
path_sum_header(const uint8_t *p, size_t len)
{
	uint64_t sum = 0;

#pragma GCC unroll 5
	for (size_t i = 0; i < len; i += 4)
		sum += xk_sum_load32(p + i);
	return sum;
}

/*
 * Returns the length of m by its headers, if all lengths and the checksum of the header are right;
 * 0: they are not, or only the layers can tell.
 */
static PATH_INLINE size_t
path_check(const struct path_layout *layout, const struct xk_msg *m)
{
	const uint8_t *p = m->data;
	size_t total = xk_msg_len(m), end = total;

	if (xk_likely(layout->lengths > 0)) {
		end = xk_get16(p + layout->length[0].at) + (size_t)layout->length[0].base;
		if (xk_unlikely(end != total) && (end > total || end < layout->len || m->next != NULL))
			return 0;
		if (layout->lengths > 1 && xk_get16(p + layout->length[1].at) + (size_t)layout->length[1].base != end)
			return 0;
	}
	if (layout->summed_len != 0 && (m->flags & XK_MSG_NETWORK_SUM_GOOD) == 0 &&
	    !xk_sum_is_intact(path_sum_header(p + layout->summed_from, PATH_SUMMED)))
		return 0;
	if (layout->sum_at != 0 && (m->flags & XK_MSG_TRANSPORT_SUM_GOOD) == 0 &&
	    xk_get16(p + layout->sum_at) == 0) /* there is none */
		return 0;
	if (layout->own_at != 0 && end == layout->len)
		return 0;
	return end;
}

/* Delivers m the layers' way. Takes m. */
static inline void
path_layered_here(struct xk_port *port, struct xk_msg *m)
{
	struct xk_paths *paths = port->paths;

	if (xk_likely(atomic_load_explicit(&paths->kernel->mode, memory_order_relaxed) == XK_IPP))
		xk_bump(&paths->layered, 1); /* the driver alone */
	else
		xk_tally(&paths->layered);
	xk_demux(port->receiver, m);
}

XK_APART static void
path_layered(struct xk_port *port, struct xk_msg *m)
{
	path_layered_here(port, m);
}

/* Drops m, whose headers are at p and whose checksum is wrong or was left to a device. Takes m. */
XK_APART static void
path_drop_summed(const struct path_layout *layout, const struct path *path, struct xk_msg *m, const uint8_t *p,
		 size_t end)
{
	bool is_left =
		xk_sum_is_left(path->pop_sum + xk_sum_of16((uint16_t)(end - layout->sum_from)), p + layout->sum_at);

	xk_drop(path->shape->sum_protocol, m, is_left ? XK_DROP_UNSUMMED : XK_DROP_BAD_CHECKSUM);
}

/* Delivers m, whose headers are those of path, unless it is unusual: then it goes the layers' way. Takes m. */
static PATH_INLINE void
path_up_as(const struct path_layout *layout, struct xk_port *port, struct xk_msg *m, const struct path *path)
{
	const uint8_t *p = m->data;
	size_t end = 0;

	/* only path_pop tells whether the sessions that messages came up still stand, one of which has unusual_up */
	if ((layout->own_at == 0 || xk_likely(path->pop(path->top, m, p + layout->own_at, path->state))) &&
	    xk_likely(!atomic_load_explicit(path->unusual_up, memory_order_relaxed)))
		end = path_check(layout, m);
	if (xk_unlikely(end == 0)) {
		path_layered(port, m);
		return;
	}
	if (xk_unlikely(end != xk_msg_len(m)))
		xk_msg_cut_in_place(m, end);
	xk_msg_pop_in_place(m, layout->len);
	if (layout->sum_at != 0 && (m->flags & XK_MSG_TRANSPORT_SUM_GOOD) == 0) {
		uint64_t sum = path->pop_sum + path_sum_header(p + layout->sum_from, PATH_SUM) +
			       xk_sum_of16((uint16_t)(end - layout->sum_from));

		if (xk_unlikely(!xk_sum_is_intact(sum + xk_msg_sum(m)))) {
			path_drop_summed(layout, path, m, p, end);
			return;
		}
	}
	xk_pop_on(path->top, m);
}

/* Handles a message whose headers are not those of the path. Takes m. */
typedef void path_otherwise(struct xk_port *port, struct xk_msg *m);

/* Delivers m by path, if its headers are those of path. Takes m. */
static PATH_INLINE void
path_take_as(const struct path_layout *layout, struct xk_port *port, struct xk_msg *m, const struct path *path,
	     path_otherwise *otherwise)
{
	if (xk_likely(path_matches_as(layout, path, m)))
		path_up_as(layout, port, m, path);
	else
		otherwise(port, m);
}

XK_APART static void
path_take_udp(struct xk_port *port, struct xk_msg *m, const struct path *path, path_otherwise *otherwise)
{
	path_take_as(&path_usual, port, m, path, otherwise);
}

XK_APART static void
path_take_calls(struct xk_port *port, struct xk_msg *m, const struct path *path, path_otherwise *otherwise)
{
	path_take_as(&path_calls, port, m, path, otherwise);
}

XK_APART static void
path_take_any(struct xk_port *port, struct xk_msg *m, const struct path *path, path_otherwise *otherwise)
{
	path_take_as(&path->shape->layout, port, m, path, otherwise);
}

/* As path_take_as. Only tail calls, so no registers are saved. */
static inline void
path_take(struct xk_port *port, struct xk_msg *m, const struct path *path, path_otherwise *otherwise)
{
	if (xk_likely(path->kind == PATH_OF_UDP))
		path_take_udp(port, m, path, otherwise);
	else if (path->kind == PATH_OF_CALLS)
		path_take_calls(port, m, path, otherwise);
	else
		path_take_any(port, m, path, otherwise);
}

static bool path_make(struct xk_port *port, const struct xk_msg *m);

/*
 * Delivers m by its path. If it has none, makes one, but of messages without a shape (fragments, ARP's) tries only some.
 * Takes m.
 */
XK_APART static void
path_search(struct xk_port *port, struct xk_msg *m)
{
	struct xk_paths *paths = port->paths;
	uint32_t version = atomic_load_explicit(&paths->kernel->path_version, memory_order_relaxed);
	uint32_t misses = atomic_load_explicit(&paths->misses, memory_order_relaxed);
	uint32_t look = atomic_load_explicit(&paths->look, memory_order_relaxed);
	const struct path_shape *shape;
	const struct path *path;

	shape = path_shape_of(paths, m, version);
	path = shape == NULL ? NULL : xk_map_resolve(&paths->map, path_key(shape, m->data));
	if (xk_unlikely(path == NULL || atomic_load_explicit(&path->version, memory_order_relaxed) != version)) {
		atomic_store_explicit(&paths->misses, misses + 1, memory_order_relaxed);
		if (shape != NULL || misses >= PATH_DRY ||
		    (atomic_load_explicit(&paths->layered, memory_order_relaxed) & (look - 1)) == 1) {
			if (path_make(port, m))
				look = PATH_LOOK;
			else if (shape == NULL && look < PATH_LOOK_MAX)
				look *= 2;
			atomic_store_explicit(&paths->look, look, memory_order_relaxed);
		}
		path_layered(port, m);
		return;
	}
	if (misses != 0)
		atomic_store_explicit(&paths->misses, 0, memory_order_relaxed);
	path_take(port, m, path, path_layered);
}

/* Delivers m, whose path is not the one that was taken last: the layers' way at once if many had none. Takes m. */
XK_APART static void
path_other(struct xk_port *port, struct xk_msg *m)
{
	struct xk_paths *paths = port->paths;
	uint32_t misses = atomic_load_explicit(&paths->misses, memory_order_relaxed);

	if (misses >= PATH_DRY && (misses & (atomic_load_explicit(&paths->look, memory_order_relaxed) - 1)) != 0) {
		atomic_store_explicit(&paths->misses, misses + 1, memory_order_relaxed);
		path_layered_here(port, m);
	} else {
		path_search(port, m);
	}
}

/* Returns the path at a place, or NULL. */
static inline const struct path *
path_at(struct xk_map_place place)
{
	if (place.slot == NULL)
		return NULL;
	return xk_map_slot_binding(atomic_load_explicit(place.slot, memory_order_acquire))->object;
}

bool
xk_path_expect(struct xk_port *port, struct xk_msg *const burst[], unsigned count, struct xk_map_place places[])
{
	struct xk_paths *paths = port->paths;
	uint32_t version = atomic_load_explicit(&paths->kernel->path_version, memory_order_relaxed);

	if (xk_map_count(&paths->map) < PATH_MANY ||
	    atomic_load_explicit(&paths->misses, memory_order_relaxed) >= PATH_DRY)
		return false;
	paths->expected = atomic_load_explicit(&paths->map.table, memory_order_acquire);
	for (unsigned i = 0; i < count; i++) {
		const struct path_shape *shape = path_shape_of(paths, burst[i], version);

		places[i].slot = NULL;
		if (shape != NULL)
			places[i] = xk_map_expect(&paths->map, path_key(shape, burst[i]->data));
	}
	for (unsigned i = 0; i < count; i++) {
		const struct xk_binding *binding; /* at the beginning of a path, or a marker */

		if (places[i].slot == NULL)
			continue;
		places[i].slot = xk_map_near(&places[i]);
		binding = xk_map_slot_binding(atomic_load_explicit(places[i].slot, memory_order_acquire));
		for (unsigned line = 0; line < offsetof(struct path, value_more); line += 64)
			__builtin_prefetch((const char *)binding + line);
	}
	for (unsigned i = 0; i < count; i++) {
		const struct path *path = path_at(places[i]);

		if (path == NULL)
			continue;
		__builtin_prefetch(path->top);
		__builtin_prefetch((const void *)path->unusual_up);
		__builtin_prefetch((const void *)path->unusual);
		__builtin_prefetch((const void *)path->counter);
		__builtin_prefetch((const void *)path->whole);
	}
	return true;
}

void
xk_path_deliver_expected(struct xk_port *port, struct xk_msg *m, struct xk_map_place place)
{
	struct xk_paths *paths = port->paths;
	uint32_t version = atomic_load_explicit(&paths->kernel->path_version, memory_order_relaxed);
	const struct path *path = NULL;

	if (paths->expected == atomic_load_explicit(&paths->map.table, memory_order_relaxed))
		path = path_at(place);
	if (xk_unlikely(path == NULL || atomic_load_explicit(&path->version, memory_order_relaxed) != version)) {
		xk_path_deliver(port, m);
		return;
	}
	/* The path near a place may be another conversation's: only a stranger's miss tells that conversations are many. */
	if (atomic_load_explicit(&paths->misses, memory_order_relaxed) != 0 &&
	    atomic_load_explicit(place.slot, memory_order_relaxed) >> (64 - XK_MAP_TAG) == place.tag)
		atomic_store_explicit(&paths->misses, 0, memory_order_relaxed);
	path_take(port, m, path, xk_path_deliver);
}

void
xk_path_deliver(struct xk_port *port, struct xk_msg *m)
{
	struct xk_paths *paths = port->paths;
	uint32_t version = atomic_load_explicit(&paths->kernel->path_version, memory_order_relaxed);
	const struct path *path = xk_map_peek(&paths->map);

	if (xk_unlikely(path == NULL || atomic_load_explicit(&path->version, memory_order_relaxed) != version))
		path_other(port, m);
	else
		path_take(port, m, path, path_other);
}

/* ---- down ---- */

/* Shows m, which s pushes with all its headers, to those who watch the edge above the port. */
XK_APART static void
path_show(struct xk_session *s, struct xk_msg *m, const struct path *path)
{
	unsigned watch = xk_edge_watched(path->below->up, XK_WATCH_OWNER | XK_WATCH_SINK);

	if (watch & XK_WATCH_SINK)
		xk_trace_crossing(path->below, m, XK_DOWN);
	if ((watch & XK_WATCH_OWNER) || XK_IS_DEBUG)
		xk_msg_cross(m, s->protocol, path->below->protocol, XK_DOWN);
}

static PATH_INLINE int
path_push_as(const struct path_layout *layout, struct xk_session *s, struct xk_msg *m, const struct path *path)
{
	bool sums = layout == &path_usual || (layout->sum_at != 0 && path->sums);
	size_t len = xk_msg_len(m), total;
	uint16_t number = 0, checksum;
	uint8_t *end, *p;
	uint64_t sum;

	if (xk_unlikely(atomic_load_explicit(&path->version, memory_order_relaxed) !=
				atomic_load_explicit(path->valid, memory_order_relaxed) ||
			atomic_load_explicit(path->unusual, memory_order_relaxed) || len > path->longest ||
			(layout->has_whole &&
			 len + path->whole_less > atomic_load_explicit(path->whole, memory_order_relaxed)) ||
			!xk_msg_has_room(m, path_pieces(layout) * PATH_PIECE)))
		return s->protocol->type->session_ops->push(s, m);
	sum = sums ? xk_msg_sum(m) : 0;
	end = m->data;
	p = end - layout->len;
#pragma GCC unroll 4
	for (unsigned i = path_pieces(layout); i > 0; i--)
		memcpy(end - i * PATH_PIECE, path_header(path, i - 1), PATH_PIECE);
	if (layout->own_at != 0 && xk_unlikely(!path->push(s, m, p + layout->own_at)))
		return s->protocol->type->session_ops->push(s, m);
	xk_msg_push_in_place(m, layout->len);
	total = len + layout->len;
#pragma GCC unroll 2
	for (unsigned i = 0; i < PATH_LENGTHS; i++)
		if (i < layout->lengths)
			xk_put16(p + layout->length[i].at, (uint16_t)(total - layout->length[i].base));
	if (layout->counter_at != 0) {
		number = atomic_load_explicit(path->counter, memory_order_relaxed);
		atomic_store_explicit(path->counter, (uint16_t)(number + layout->counter_step), memory_order_relaxed);
		xk_put16(p + layout->counter_at, number);
	}
	if (layout->summed_len != 0) {
		uint64_t summed = path->summed_sum;

#pragma GCC unroll 2
		for (unsigned i = 0; i < PATH_LENGTHS; i++)
			if (layout->summed_length[i])
				summed += xk_sum_of16((uint16_t)(total - layout->length[i].base));
		if (layout->summed_counter)
			summed += xk_sum_of16(number);
		xk_checksum_store(p + layout->summed_at, xk_checksum_finish(summed));
	}
	if (sums || (layout->sum_at != 0 && path->offloads)) {
		uint64_t covered = xk_sum_of16((uint16_t)(total - layout->sum_from));

		if (!sums) {
			checksum = xk_sum_fold(path->push_sum + covered);
		} else {
			checksum = xk_checksum_finish(sum + path->push_sum + covered * layout->sum_lengths);
			if (checksum == 0) /* which would say that there is none */
				checksum = 0xffff;
		}
		xk_checksum_store(p + layout->sum_at, checksum);
	}
	if (xk_unlikely(xk_edge_watched(path->below->up, XK_WATCH_OWNER | XK_WATCH_SINK)) || XK_IS_DEBUG)
		path_show(s, m, path);
	return path->below->ops->push(path->below, m);
}

XK_APART static int
path_push_udp(struct xk_session *s, struct xk_msg *m, const struct path *path)
{
	return path_push_as(&path_usual, s, m, path);
}

XK_APART static int
path_push_any(struct xk_session *s, struct xk_msg *m, const struct path *path)
{
	return path_push_as(&path->shape->layout, s, m, path);
}

XK_APART static int
path_push_calls(struct xk_session *s, struct xk_msg *m, const struct path *path)
{
	return path_push_as(&path_calls, s, m, path);
}

static int
path_push(struct xk_session *s, struct xk_msg *m)
{
	const struct path *path = (const struct path *)atomic_load_explicit(&s->paths, memory_order_acquire);

	if (xk_likely(path->kind == PATH_OF_UDP))
		return path_push_udp(s, m, path);
	return path->kind == PATH_OF_CALLS ? path_push_calls(s, m, path) : path_push_any(s, m, path);
}

/* ---- composing ---- */

/* A path while it is composed. */
struct path_draft {
	struct path_shape shape;
	struct path path;
	uint8_t fixed[PATH_BYTES], names[PATH_BYTES]; /* masks of the headers */
	uint8_t header[PATH_BYTES];                   /* as sent */
	unsigned gate_end;                            /* bytes up to the number of the topmost protocol */
	unsigned whole_from;                          /* bytes of the headers below what `whole` limits */
	unsigned headers;                             /* of layers that have one */
	uint64_t longest; /* the least that a layer may push, with all headers up to its own */
};

/* Adds those bits of a field that begins at bit `at` to a mask. */
static void
path_mask(uint8_t *mask, size_t at, const struct xk_field *field, uint64_t bits)
{
	for (unsigned i = 0; i < field->bits; i++)
		if (bits >> (field->bits - 1 - i) & 1)
			mask[(at + i) / 8] |= (uint8_t)(0x80 >> (at + i) % 8);
}

/* Adds self's checksum at byte `at`. Returns false if paths cannot have it. */
static bool
path_add_checksum(struct path_draft *d, struct xk_session *s, const struct xk_field *field, unsigned at)
{
	struct xk_protocol *self = s->protocol;
	struct path_layout *layout = &d->shape.layout;

	if (field->covers == XK_COVERS_HEADER && layout->summed_len == 0 && self->type->header == PATH_SUMMED) {
		layout->summed_from = layout->len;
		layout->summed_len = PATH_SUMMED;
		layout->summed_at = (uint8_t)at;
		return true;
	}
	if (field->covers != XK_COVERS_PSEUDO || layout->sum_at != 0 || self->type->header != PATH_SUM)
		return false;
	layout->sum_from = layout->len;
	layout->sum_at = (uint8_t)at;
	d->shape.sum_protocol = self;
	d->path.pop_sum = s->sends.pop_sum;
	d->path.push_sum = s->sends.push_sum;
	d->path.sums = s->sends.sums;
	d->path.offloads = s->sends.offloads;
	return true;
}

/* Adds a field of s, which begins at bit `bit` of the header at p. Returns false if paths cannot have it. */
static bool
path_add_field(struct path_draft *d, struct xk_session *s, const struct xk_field *field, const uint8_t *p, size_t bit)
{
	struct xk_protocol *self = s->protocol;
	struct path_shape *shape = &d->shape;
	struct path_layout *layout = &shape->layout;
	size_t at = 8 * (size_t)layout->len + bit;
	uint64_t value = xk_field_load(field, p, bit);
	bool is_word = field->bits == 16 && at % 8 == 0, is_double = field->bits == 32 && at % 8 == 0;

	switch (field->kind) {
	case XK_VARIES:
		path_mask(d->fixed, at, field, field->rare);
		return ((value ^ field->usual) & field->rare) == 0;
	case XK_FIXED:
		if (field->is_own)
			return s->ops->path_pop != NULL;
		path_mask(d->fixed, at, field, UINT64_MAX);
		return field->usual == 0 || value == field->usual;
	case XK_NAMES_SESSION:
		path_mask(field->is_upper ? d->fixed : d->names, at, field, UINT64_MAX);
		if (field->is_upper)
			d->gate_end = (unsigned)(at + field->bits) / 8;
		return true;
	case XK_LENGTH:
		if (!(is_word || is_double) || value > UINT16_MAX || layout->lengths == PATH_LENGTHS)
			return false;
		if (is_double) { /* whose upper half is 0 in all frames */
			path_mask(d->fixed, at, field, ~(uint64_t)UINT16_MAX);
			at += 16;
		}
		layout->length[layout->lengths].at = (uint8_t)(at / 8);
		layout->length[layout->lengths].base =
			(uint8_t)(layout->len + (field->covers == XK_COVERS_PAYLOAD ? self->type->header : 0));
		layout->lengths++;
		return true;
	case XK_CHECKSUM:
		return is_word && path_add_checksum(d, s, field, (unsigned)at / 8);
	}
	return false;
}

/* Makes *unusual, which is a path's, the mark of s if s has one. Returns false if it is another's already. */
static bool
path_add_unusual(const _Atomic bool **unusual, struct xk_session *s)
{
	bool has_mark = (s->protocol->type->flags & XK_VIRTUAL) != 0, fits = !has_mark || *unusual == &path_never;

	if (has_mark)
		*unusual = &s->binding.marked;
	return fits;
}

/*
 * Adds the layer of s, whose header is at p in a message that came up `from`. `heard` is the session whose state says
 * whether messages may come up here. Returns false if paths cannot have it.
 */
static bool
path_add_layer(struct path_draft *d, struct xk_session *s, const struct xk_session *from, struct xk_session *heard,
	       const uint8_t *p)
{
	const struct xk_protocol_type *type = s->protocol->type;
	const struct xk_format *format = &s->protocol->format;
	struct xk_sends *sends = &s->sends;
	struct path_shape *shape = &d->shape;
	struct path_layout *layout = &shape->layout;
	struct path *path = &d->path;
	bool fits = true;
	uint32_t longest = atomic_load_explicit(&sends->whole, memory_order_relaxed);
	size_t bit = 0;

	if (layout->len + type->header > PATH_BYTES || (format->number_step != 0 && path->counter != NULL) ||
	    !path_add_unusual(&path->unusual, s) || !path_add_unusual(&path->unusual_up, heard) ||
	    (sends->adapts && d->whole_from != 0))
		return false;
	for (const struct xk_field *field = type->fields; fits && field != NULL && field->name != NULL; field++) {
		fits = path_add_field(d, s, field, p, bit);
		bit += field->bits;
	}
	if (format->number_step != 0) {
		path->counter = &sends->number;
		layout->counter_at = (uint8_t)(layout->len + format->number_at);
		layout->counter_step = format->number_step;
	}
	if (s->ops->path_pop != NULL) {
		layout->own_at = layout->len;
		path->pop = s->ops->path_pop;
		path->push = s->ops->path_push;
		path->state = s->ops->path_state == NULL ? 0 : s->ops->path_state(s, from);
	}
	if (type->header != 0) {
		memcpy(d->header + layout->len, sends->header, type->header);
		d->headers++;
	}
	layout->len = (uint8_t)(layout->len + type->header);
	if (sends->adapts) {
		layout->has_whole = true;
		path->whole = &sends->whole;
		d->whole_from = layout->len;
	} else if (longest != 0 && longest + (uint64_t)layout->len < d->longest) {
		d->longest = longest + (uint64_t)layout->len;
	}
	path->top = s;
	shape->top = s->protocol;
	return fits;
}

/* Chooses the words of 8 bytes that hold all bits of d->names. Returns false if there are too many. */
static bool
path_choose_words(struct path_draft *d)
{
	struct path_shape *shape = &d->shape;
	struct path_layout *layout = &shape->layout;

	for (unsigned at = 0; at < layout->len; at++) {
		unsigned from = at <= layout->len - 8u ? at : layout->len - 8u;

		if (d->names[at] == 0)
			continue;
		if (shape->words == PATH_WORDS)
			return false;
		shape->word[shape->words].at = from;
		shape->word[shape->words++].mask = path_load(d->names + from);
		memset(d->names + from, 0, 8);
	}
	return true;
}

/* Completes d, all of whose layers are there, for messages like the one whose headers are at p. */
static bool
path_complete(struct path_draft *d, const uint8_t *p)
{
	struct path_shape *shape = &d->shape;
	struct path_layout *layout = &shape->layout;
	struct path *path = &d->path;
	uint8_t mask[PATH_BYTES], value[PATH_BYTES] = { 0 }, sent[PATH_BYTES] = { 0 };

	if (d->headers < 2 || d->gate_end < 8)
		return false;
	for (unsigned i = 0; i < PATH_BYTES; i++)
		mask[i] = d->fixed[i] | d->names[i];
	for (unsigned i = 0; i < path_pieces(layout); i++) {
		unsigned from = path_piece_at(layout, i);

		for (unsigned j = 0; j < PATH_PIECE; j++) {
			shape->mask[i * PATH_PIECE + j] = mask[from + j];
			value[i * PATH_PIECE + j] = mask[from + j] & p[from + j];
		}
	}
	shape->gate_at = (uint8_t)(d->gate_end - 8);
	shape->gate_mask = path_load(d->fixed + shape->gate_at);
	shape->gate = path_load(p + shape->gate_at) & shape->gate_mask;
	for (unsigned i = 0; i < layout->lengths; i++)
		layout->summed_length[i] = layout->length[i].at >= layout->summed_from &&
					   layout->length[i].at < layout->summed_from + layout->summed_len;
	layout->summed_counter = layout->counter_at >= layout->summed_from &&
				 layout->counter_at < layout->summed_from + layout->summed_len;
	layout->sum_lengths = layout->sum_at != 0;
	for (unsigned i = 0; i < layout->lengths && layout->sum_at != 0; i++)
		layout->sum_lengths += layout->length[i].at >= layout->sum_from;
	path->summed_sum = path_sum_header(d->header + layout->summed_from, layout->summed_len);
	if (path->sums)
		path->push_sum += path_sum_header(d->header + layout->sum_from, layout->len - layout->sum_from);
	memcpy(sent + PATH_BYTES - layout->len, d->header, layout->len);
	memcpy(path->value, value, PATH_FEW);
	memcpy(path->value_more, value + PATH_FEW, PATH_BYTES - PATH_FEW);
	memcpy(path->header_more, sent, PATH_BYTES - PATH_FEW);
	memcpy(path->header, sent + PATH_BYTES - PATH_FEW, PATH_FEW);
	if (d->longest <= layout->len)
		return false;
	path->longest = (uint32_t)(d->longest - layout->len);
	path->whole_less = layout->len - d->whole_from;
	return path_choose_words(d);
}

/*
 * Finds the sessions that m, which arrived on port, would come up, in the order of their layers, as far as paths can go.
 * Returns how many; 0: there is no path for m.
 */
static unsigned
path_climb(struct xk_port *port, const struct xk_msg *m, struct xk_session *found[PATH_LAYERS])
{
	struct xk_session *s = port->receiver, *next;
	unsigned count = 0, len = 0;

	for (;; s = next) {
		struct xk_protocol *self = xk_hlp_receive(s);
		bool by_fields = (self->type->flags & XK_BY_FIELDS) != 0;

		if ((self->ops->find == NULL && !by_fields) || xk_edge_watched(s->up, PATH_BLOCKS))
			break;
		if (len + self->type->header > m->len || count == PATH_LAYERS)
			return 0;
		if (by_fields && !xk_format_is_usual(&self->format, &self->format, m->data + len))
			break;
		next = by_fields ? xk_receive_find(self, s, m->data + len) : self->ops->find(self, s, m->data + len);
		if (next == NULL)
			return 0;
		if ((next->binding.pops & XK_POPS_IN_ORDER) != 0 || !next->sends.is_path)
			break;
		found[count++] = next;
		len += self->type->header;
		if (next->ops->path_pop != NULL)
			break;
	}
	return len < PATH_PIECE ? 0 : count;
}

/*
 * Stores the sessions below s, which belong to the protocols of the `count` sessions found, in `chain`. Returns the port's
 * session, which they stand on; NULL: they stand on something else, or paths cannot have them.
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
 * Composes the path of m, which arrived on port and would come up these sessions. Returns false if it has none. Messages
 * may come up other sessions than those that the top stands on (a host that was opened is heard from wherever it
 * sends). What pushes need, and what must last as long as the top, is asked of the latter. A top with path_pop keeps the
 * session that it hears messages from, with those below, while it accepts them.
 */
static bool
path_compose_of(struct path_draft *d, struct xk_port *port, const struct xk_msg *m, struct xk_session *const found[],
		unsigned count)
{
	struct xk_session *below[PATH_LAYERS], *heard[PATH_LAYERS], *top = found[count - 1];
	bool is_own = count > 1 && top->ops->path_pop != NULL;

	memset(d, 0, sizeof(*d));
	d->path.unusual_up = d->path.unusual = &path_never;
	d->longest = UINT32_MAX;
	d->path.below = path_follow(top, found, count, below);
	memcpy(heard, below, sizeof(heard));
	if (d->path.below == NULL || d->path.below->protocol != port->receiver->protocol ||
	    (is_own && path_follow(found[count - 2], found, count - 1, heard) == NULL))
		return false;
	for (unsigned i = 0; i < count; i++)
		if (!path_add_layer(d, below[i], i == 0 ? port->receiver : found[i - 1], heard[i],
				    m->data + d->shape.layout.len))
			return false;
	return path_complete(d, m->data);
}

/* Composes the path of m up to the highest layer that fits. Returns false if it has none. */
static bool
path_compose(struct path_draft *d, struct xk_port *port, const struct xk_msg *m)
{
	struct xk_session *found[PATH_LAYERS];
	unsigned count = path_climb(port, m, found);

	while (count > 0 && !path_compose_of(d, port, m, found, count))
		count--;
	return count > 0;
}

/* ---- making paths ---- */

/* Returns the shape of paths that is like that of d, made if need be. NULL: there are too many, or no memory. Locked. */
static struct path_shape *
path_find_shape(struct xk_paths *paths, const struct path_draft *d)
{
	const struct path_shape *wanted = &d->shape;
	struct path_shape *shape;
	unsigned i;

	for (i = 0; (shape = atomic_load_explicit(&paths->shape[i], memory_order_relaxed)) != NULL; i++)
		if (shape->top == wanted->top && shape->layout.len == wanted->layout.len &&
		    shape->gate_at == wanted->gate_at && shape->gate == wanted->gate &&
		    memcmp(shape->mask, wanted->mask, PATH_BYTES) == 0)
			return shape;
	if (i == PATH_SHAPES || (shape = aligned_alloc(64, sizeof(*shape))) == NULL)
		return NULL;
	*shape = *wanted;
	for (unsigned j = 0; j < shape->words; j++)
		shape->word[j].factor = xk_kernel_random(NULL) | 1;
	for (; i > 0 && paths->shape[i - 1]->layout.len < shape->layout.len; i--) /* the longest first; none is lost */
		atomic_store_explicit(&paths->shape[i], paths->shape[i - 1], memory_order_release);
	atomic_store_explicit(&paths->shape[i], shape, memory_order_release);
	return shape;
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
static struct path *
path_find(const struct xk_paths *paths, const struct xk_session *top)
{
	struct xk_path *path = atomic_load_explicit(&top->paths, memory_order_relaxed);

	while (path != NULL && path->map != &paths->map)
		path = path->next;
	return (struct path *)path;
}

/* Returns a new path as d says, in no table yet; NULL: no memory. Locked. */
static struct path *
path_new(struct xk_paths *paths, const struct path_draft *d, const struct path_shape *shape)
{
	struct xk_session *top = d->path.top;
	const struct xk_session_ops *ops = path_ops(top->protocol);
	bool is_long = shape->layout.len > PATH_FEW || shape->layout.own_at != 0;
	size_t size = is_long ? sizeof(struct path) : offsetof(struct path, value_more);
	struct path *path = ops == NULL ? NULL : aligned_alloc(64, size);

	if (path == NULL)
		return NULL;
	memcpy(path, &d->path, size);
	path->path.map = &paths->map;
	path->shape = shape;
	if (path->sums && memcmp(&shape->layout, &path_usual, sizeof(path_usual)) == 0)
		path->kind = PATH_OF_UDP;
	else if (!path->offloads && memcmp(&shape->layout, &path_calls, sizeof(path_calls)) == 0)
		path->kind = PATH_OF_CALLS;
	path->valid = &paths->kernel->path_version;
	path->path.next = atomic_load_explicit(&top->paths, memory_order_relaxed);
	atomic_store_explicit(&top->paths, &path->path, memory_order_release);
	top->ops = ops;
	return path;
}

/*
 * Makes the path of m, which arrived on port, or validates it, if its sessions stand. Returns whether m has one: it has
 * none if messages to the same session come another way, since each port has one path to a session.
 */
static bool
path_make(struct xk_port *port, const struct xk_msg *m)
{
	struct xk_paths *paths = port->paths;
	struct xk_kernel *kernel = paths->kernel;
	uint32_t version = atomic_load_explicit(&kernel->path_version, memory_order_acquire);
	struct path_draft d;
	struct path_shape *shape;
	struct path *path = NULL;
	struct xk_key key = { 0, 0 };

	if (!path_compose(&d, port, m) || !xk_duplicate(d.path.top))
		return false;
	xk_spin_lock(&kernel->path_lock);
	shape = path_find_shape(paths, &d);
	if (shape != NULL && xk_map_count(&paths->map) < PATH_MAX) {
		key = path_key(shape, m->data);
		path = path_find(paths, d.path.top);
		if (path == NULL)
			path = path_new(paths, &d, shape);
		else if (path->path.binding.bound &&
			 (path->path.binding.key.a != key.a || path->path.binding.key.b != key.b))
			path = NULL;
	}
	if (path != NULL) {
		atomic_store_explicit(&shape->version, version, memory_order_relaxed);
		for (struct xk_path *p = d.path.top->paths; p != NULL; p = p->next) /* all have the same layers */
			atomic_store_explicit(&((struct path *)p)->version, version, memory_order_relaxed);
		if (!path->path.binding.bound)
			xk_map_bind(&paths->map, &path->path.binding, key, path);
	}
	xk_spin_unlock(&kernel->path_lock);
	xk_session_release(d.path.top);
	return path != NULL;
}

/* ---- voiding and removing ---- */

void
xk_edge_watch(struct xk_edge *edge, uint32_t which, uint32_t watch)
{
	atomic_fetch_or_explicit(&edge->watch, which & watch, memory_order_relaxed);
	atomic_fetch_and_explicit(&edge->watch, ~(which & ~watch), memory_order_relaxed);
	atomic_fetch_add_explicit(&edge->upper->kernel->path_version, 1, memory_order_release);
}

uint64_t
xk_paths_taken(const struct xk_port *port)
{
	uint64_t layered = atomic_load_explicit(&port->paths->layered, memory_order_relaxed);
	uint64_t all = atomic_load_explicit(&port->frames_in, memory_order_relaxed);

	return all > layered ? all - layered : 0;
}

int
xk_paths_init(struct xk_port *port, struct xk_kernel *kernel)
{
	struct xk_paths *paths = calloc(1, sizeof(*paths));
	const uint64_t seed[2] = { xk_kernel_random(NULL),
				   xk_kernel_random(NULL) }; /* tables of sessions keep theirs */

	if (paths == NULL || xk_map_make(&paths->map, 0, seed, &kernel->epochs, true) != 0) {
		free(paths);
		return -ENOMEM;
	}
	paths->kernel = kernel;
	paths->look = PATH_LOOK;
	port->paths = paths;
	return 0;
}

void
xk_paths_fini(struct xk_port *port)
{
	if (port->paths == NULL)
		return;
	for (unsigned i = 0; i < PATH_SHAPES; i++)
		free(port->paths->shape[i]);
	xk_map_fini(&port->paths->map);
	free(port->paths);
}
