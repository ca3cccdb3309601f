/* test_msg_random.c - all operations of the Message tool at random, against flat arrays. */
#include "tests/random.h"
#include "tests/xkernel/msg_chains.h"

enum { MODEL_MESSAGES = 6, MODEL_MAX = 12000, MODEL_STEPS = 20000 };

struct model {
	struct xk_platform *platform;
	uint64_t random;
	struct xk_msg *m[MODEL_MESSAGES]; /* NULL: none */
	uint8_t *bytes[MODEL_MESSAGES];   /* m's contents; MODEL_MAX bytes allocated */
	size_t len[MODEL_MESSAGES];
	uint32_t id[MODEL_MESSAGES];
	bool starved; /* operations may fail for want of buffers */
	const char *operation;
};

static uint32_t
model_random(struct model *self, uint32_t below)
{
	self->random = self->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((self->random >> 33) % below);
}

/* Returns a random length: mostly a header's, sometimes about a segment's, sometimes any. */
static size_t
model_len(struct model *self, size_t max)
{
	size_t len;

	switch (model_random(self, 4)) {
	case 0:
		len = model_random(self, 5000);
		break;
	case 1:
		len = SEGMENT_ROOM - 2 + model_random(self, 5);
		break;
	default:
		len = model_random(self, 40);
		break;
	}
	return len <= max ? len : max;
}

static void
model_new(struct model *self, unsigned i)
{
	size_t len = model_len(self, MODEL_MAX);

	self->operation = "from";
	for (size_t k = 0; k < len; k++)
		self->bytes[i][k] = (uint8_t)model_random(self, 256);
	self->len[i] = len;
	if (model_random(self, 2) == 0) {
		self->m[i] = xk_msg_from(self->platform, self->bytes[i], len);
	} else {
		self->m[i] = xk_memory_frame(self->platform, len);
		if (self->m[i] != NULL)
			memcpy(self->m[i]->data, self->bytes[i], len);
	}
	CHECK(self->m[i] != NULL || self->starved);
	self->id[i] = model_random(self, 1000);
	if (self->m[i] != NULL)
		self->m[i]->id = self->id[i];
}

static void
model_push(struct model *self, unsigned i)
{
	size_t len = model_random(self, XK_MSG_HEADROOM + 1);
	uint8_t *p;

	self->operation = "push";
	if (self->len[i] + len > MODEL_MAX)
		return;
	p = xk_msg_push(&self->m[i], len);
	CHECK(p != NULL || self->starved);
	if (p == NULL)
		return;
	memmove(self->bytes[i] + len, self->bytes[i], self->len[i]);
	for (size_t k = 0; k < len; k++)
		p[k] = self->bytes[i][k] = (uint8_t)model_random(self, 256);
	self->len[i] += len;
}

static void
model_pop(struct model *self, unsigned i)
{
	size_t len = model_len(self, SEGMENT_ROOM);
	bool pops = model_random(self, 2) == 0;
	const uint8_t *p;

	self->operation = pops ? "pop" : "peek";
	p = pops ? xk_msg_pop(&self->m[i], len) : xk_msg_peek(&self->m[i], len);
	CHECK((p != NULL) == (len <= self->len[i]) || (p == NULL && self->starved));
	if (p == NULL)
		return;
	CHECK(memcmp(p, self->bytes[i], len) == 0);
	if (!pops)
		return;
	memmove(self->bytes[i], self->bytes[i] + len, self->len[i] - len);
	self->len[i] -= len;
}

static void
model_truncate(struct model *self, unsigned i)
{
	size_t len = model_len(self, MODEL_MAX);

	self->operation = "truncate";
	xk_msg_truncate(self->m[i], len);
	if (len < self->len[i])
		self->len[i] = len;
}

static void
model_reference(struct model *self, unsigned i, unsigned empty)
{
	self->operation = "reference";
	self->m[empty] = xk_msg_reference(self->m[i]);
	CHECK(self->m[empty] != NULL || self->starved);
	memcpy(self->bytes[empty], self->bytes[i], self->len[i]);
	self->len[empty] = self->len[i];
	self->id[empty] = self->id[i];
}

/* Splits message i; the front becomes message `empty`. */
static void
model_split(struct model *self, unsigned i, unsigned empty)
{
	size_t len = model_len(self, self->len[i]);

	self->operation = "split";
	self->m[empty] = xk_msg_split(&self->m[i], len);
	CHECK(self->m[empty] != NULL || self->starved);
	if (self->m[empty] == NULL)
		return;
	memcpy(self->bytes[empty], self->bytes[i], len);
	memmove(self->bytes[i], self->bytes[i] + len, self->len[i] - len);
	self->len[empty] = len;
	self->len[i] -= len;
	self->id[empty] = self->id[i];
}

static void
model_join(struct model *self, unsigned i, unsigned other)
{
	self->operation = "join";
	if (self->len[i] + self->len[other] > MODEL_MAX)
		return;
	xk_msg_join(self->m[i], self->m[other]);
	self->m[other] = NULL;
	memcpy(self->bytes[i] + self->len[i], self->bytes[other], self->len[other]);
	self->len[i] += self->len[other];
}

static void
model_read(struct model *self, unsigned i)
{
	static uint8_t bytes[MODEL_MAX];
	size_t offset = model_random(self, (uint32_t)self->len[i] + 1), len = model_len(self, MODEL_MAX);

	self->operation = "copy_out or sum";
	CHECK_EQ(message_checksum(self->m[i]), naive_checksum(self->bytes[i], self->len[i]));
	CHECK_EQ(xk_msg_copy_out(self->m[i], offset, bytes, len), len <= self->len[i] - offset);
	if (len <= self->len[i] - offset)
		CHECK(memcmp(bytes, self->bytes[i] + offset, len) == 0);
}

static void
model_step_on(struct model *self, unsigned i, unsigned other)
{
	switch (model_random(self, 9)) {
	case 0:
	case 1:
		model_push(self, i);
		return;
	case 2:
	case 3:
		model_pop(self, i);
		return;
	case 4:
		model_truncate(self, i);
		return;
	case 5:
	case 6:
		if (self->m[other] != NULL)
			model_join(self, i, other);
		else
			model_split(self, i, other);
		return;
	case 7:
		if (self->m[other] == NULL)
			model_reference(self, i, other);
		return;
	default:
		model_read(self, i);
		return;
	}
}

static void
model_step(struct model *self)
{
	unsigned i = model_random(self, MODEL_MESSAGES);
	unsigned other = (i + 1 + model_random(self, MODEL_MESSAGES - 1)) % MODEL_MESSAGES;

	self->starved = model_random(self, 4) == 0;
	if (self->starved)
		allow(self->platform, model_random(self, 3));
	if (self->m[i] == NULL) {
		model_new(self, i);
	} else if (model_random(self, 12) == 0) {
		self->operation = "free";
		xk_msg_free(self->m[i]);
		self->m[i] = NULL;
	} else {
		model_step_on(self, i, other);
	}
	allow_all(self->platform);
}

/* Returns true if every message equals its array and no buffer is leaked. */
static bool
model_agrees(struct model *self)
{
	unsigned count = 0;

	for (unsigned i = 0; i < MODEL_MESSAGES; i++) {
		if (self->m[i] == NULL)
			continue;
		if (!holds(self->m[i], self->bytes[i], self->len[i]) || self->m[i]->id != self->id[i])
			return false;
		count += segments(self->m[i]);
	}
	return count == out(self->platform);
}

TEST(random_operations_agree_with_flat_arrays)
{
	unsigned seed = test_seed("operations");
	struct model self = { .platform = platform_new(), .random = seed };
	unsigned step, failures = CU_get_number_of_failures();
	bool agrees = true;

	for (unsigned i = 0; i < MODEL_MESSAGES; i++)
		self.bytes[i] = malloc(MODEL_MAX);
	for (step = 0; step < MODEL_STEPS && agrees; step++) {
		model_step(&self);
		agrees = model_agrees(&self) && CU_get_number_of_failures() == failures;
	}
	if (!agrees)
		fprintf(stderr, "\nseed %u, step %u, %s\n", seed, step, self.operation);
	CHECK(agrees);
	for (unsigned i = 0; i < MODEL_MESSAGES; i++) {
		xk_msg_free(self.m[i]);
		free(self.bytes[i]);
	}
	platform_end(self.platform);
}
