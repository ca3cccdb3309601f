/* test_declared.c - the check of protocols' declarations: each mistake is refused with a message that names it. */
#include <unistd.h>

#include "tests/test.h"
#include "xkernel/protocol.h"

struct toy {
	struct xk_protocol protocol; /* first */
	uint64_t number;
	const char *text;
};

static int
toy_push(struct xk_session *s, struct xk_msg *m)
{
	return 0;
}

static void
toy_pop(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	(void)s;
	(void)lls;
	(void)m;
	(void)hdr;
}

static int
toy_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	 struct xk_participants *participants, struct xk_session **session)
{
	return -1;
}

static int
toy_passive_key(struct xk_protocol *self, struct xk_protocol *hlp_type, struct xk_participants *participants,
		struct xk_key *key)
{
	return -1;
}

static struct xk_key
toy_passive_key_of(const struct xk_session *s)
{
	return (struct xk_key){ 0, 0 };
}

static unsigned
toy_validate(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_key *passive)
{
	return 0;
}

static const struct xk_protocol_ops toy_ops = { .open = toy_open };
static const struct xk_session_ops toy_session_ops = { .push = toy_push, .pop = toy_pop };
static const struct xk_field toy_fields[] = { { .name = "kind", .bits = 8 }, { .name = NULL } };
static const struct xk_setting toy_settings[] = {
	{ .name = "number", .type = XK_SETTING_UINT, .offset = offsetof(struct toy, number), .initial = "7" },
	{ .name = "text", .type = XK_SETTING_STRING, .offset = offsetof(struct toy, text), .initial = "none" },
	{ .name = NULL },
};
static const struct xk_protocol_type sound = {
	.name = "toy",
	.ops = &toy_ops,
	.session_ops = &toy_session_ops,
	.header = 1,
	.fields = toy_fields,
	.size = sizeof(struct toy),
	.offers = XK_ASYNC,
	.settings = toy_settings,
};

struct xk_protocol_type xk_type_toy; /* the only one; each test changes it */

const struct xk_protocol_type *const xk_protocol_types[] = { &xk_type_toy, NULL };

/* Checks xk_type_toy and returns the report without its newline; "": the type is sound. */
static const char *
declaration_error(void)
{
	static char text[512];
	FILE *file = tmpfile();
	int before = dup(STDERR_FILENO);
	bool good;

	REQUIRE(file != NULL && before >= 0);
	fflush(stderr);
	dup2(fileno(file), STDERR_FILENO);
	good = xk_protocol_types_check("test");
	fflush(stderr);
	dup2(before, STDERR_FILENO);
	close(before);
	rewind(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	text[strcspn(text, "\n")] = '\0';
	CHECK_EQ(good, text[0] == '\0');
	return text;
}

TEST(sound_declarations_pass)
{
	xk_type_toy = sound;
	CHECK_STR(declaration_error(), "");
	xk_type_toy.session_ops = NULL;
	CHECK_STR(declaration_error(), "");
}

TEST(type_name_must_match_its_object)
{
	xk_type_toy = sound;
	xk_type_toy.name = "boy";
	CHECK_STR(declaration_error(),
		  "test: the protocol that xk_type_toy declares has another name, boy: its file, its name and the "
		  "object xk_type_NAME must have the same name");
	xk_type_toy.name = NULL;
	CHECK_STR(declaration_error(),
		  "test: the protocol that xk_type_toy declares has no name: its file, its name and the object "
		  "xk_type_NAME must have the same name");
}

TEST(sizes_must_hold_the_framework_structs)
{
	struct xk_session_ops ops = toy_session_ops;

	xk_type_toy = sound;
	xk_type_toy.size = 0;
	CHECK_HAS(declaration_error(), "protocol \"toy\": its `size` is 0, less than a struct xk_protocol");
	xk_type_toy = sound;
	xk_type_toy.session_ops = &ops;
	ops.size = sizeof(void *);
	CHECK_HAS(declaration_error(), "the `size` of its sessions is 8, less than a struct xk_session");
}

TEST(required_operations_must_exist)
{
	struct xk_session_ops ops = { .push = toy_push };

	xk_type_toy = sound;
	xk_type_toy.ops = NULL;
	CHECK_STR(declaration_error(), "test: protocol \"toy\": it has no `ops`");
	xk_type_toy = sound;
	xk_type_toy.session_ops = &ops;
	CHECK_STR(declaration_error(),
		  "test: protocol \"toy\": it offers XK_ASYNC, but its `session_ops` have no `pop`");
	ops = (struct xk_session_ops){ .pop = toy_pop };
	CHECK_STR(declaration_error(),
		  "test: protocol \"toy\": it offers XK_ASYNC, but its `session_ops` have no `push`");
}

TEST(fields_must_cover_the_header)
{
	xk_type_toy = sound;
	xk_type_toy.header = 2;
	CHECK_STR(declaration_error(),
		  "test: protocol \"toy\": its `fields` have 8 bits, but its `header` has 2 bytes, 16 bits");
	xk_type_toy.header = 0;
	CHECK_STR(declaration_error(),
		  "test: protocol \"toy\": its `fields` have 8 bits, but its `header` has 0 bytes, 0 bits");
}

TEST(options_must_be_distinct_and_fit)
{
	static const struct xk_field bits[] = { { .name = "bits", .bits = 4 }, { .name = NULL } };
	static const struct xk_field bytes[] = { { .name = "bytes", .bits = 64 }, { .name = NULL } };
	struct xk_option options[] = { { .name = "one", .kind = 2, .once = 8, .fields = bytes },
				       { .name = "two", .kind = 3, .each = 8, .fields = bytes },
				       { .name = NULL } };
	struct xk_option_list list = { .header = 1, .bits = 4, .unit = 1, .options = options };

	xk_type_toy = sound;
	xk_type_toy.options = &list;
	CHECK_STR(declaration_error(), "");
	options[0].fields = bits;
	CHECK_STR(declaration_error(), "test: protocol \"toy\": the fields of its option one have 4 bits, not its 64");
	options[0].fields = bytes;
	options[1].kind = 2;
	CHECK_STR(declaration_error(), "test: protocol \"toy\": the kind 2 of its option two is not its own");
	options[1].kind = 1;
	CHECK_STR(declaration_error(), "test: protocol \"toy\": the kind 1 of its option two is not its own");
	options[1].kind = 3;
	options[1].least = 2;
	CHECK_STR(declaration_error(), "test: protocol \"toy\": its option two, of 18 bytes, is longer than a header "
				       "of at most 15 bytes has room for");
	options[1].least = 0;
	list.header = 2;
	CHECK_STR(declaration_error(), "test: protocol \"toy\": its `options` are not behind its header");
}

TEST(settings_must_lie_in_the_instance)
{
	struct xk_setting settings[] = { toy_settings[0], toy_settings[2] };

	xk_type_toy = sound;
	xk_type_toy.settings = settings;
	settings[0].offset = 0;
	CHECK_HAS(declaration_error(), "protocol \"toy\": the `offset` of its setting number is outside");
	settings[0].offset = sizeof(struct toy) - 4;
	CHECK_HAS(declaration_error(), "protocol \"toy\": the `offset` of its setting number is outside");
	settings[0] = toy_settings[0];
	settings[0].initial = "seven";
	CHECK_STR(declaration_error(),
		  "test: protocol \"toy\": the `initial` of its setting number is \"seven\": it expects a number such "
		  "as 64, 0x40 or 16k");
	settings[0] = toy_settings[0];
	settings[0].type = XK_SETTING_CHOICE;
	CHECK_STR(declaration_error(), "test: protocol \"toy\": its setting number has no `choices`");
}

/*
 * The framework cannot receive with these: too many bytes, a 3-byte length, three runs of names, a number and a checksum
 * of 4 bytes, an odd checksum.
 */
TEST(unusable_receive_fields_are_refused)
{
	static const struct xk_field far[] = { { .name = "text", .bits = 64 },
					       { .name = "more", .bits = 64 },
					       { .name = "still", .bits = 64 },
					       { .name = "end", .bits = 16 },
					       { .name = NULL } };
	static const struct xk_field length[] = { { .name = "length", .bits = 24, .kind = XK_LENGTH },
						  { .name = "rest", .bits = 8 },
						  { .name = NULL } };
	static const struct xk_field names[] = {
		{ .name = "a", .bits = 8, .kind = XK_NAMES_SESSION }, { .name = "b", .bits = 56 },
		{ .name = "c", .bits = 8, .kind = XK_NAMES_SESSION }, { .name = "d", .bits = 56 },
		{ .name = "e", .bits = 8, .kind = XK_NAMES_SESSION }, { .name = NULL }
	};
	static const struct xk_field number[] = { { .name = "number", .bits = 32, .step = 1 }, { .name = NULL } };
	static const struct xk_field long_sum[] = {
		{ .name = "sum", .bits = 32, .kind = XK_CHECKSUM, .covers = XK_COVERS_HEADER }, { .name = NULL }
	};
	static const struct xk_field sum[] = {
		{ .name = "kind", .bits = 8 },
		{ .name = "sum", .bits = 16, .kind = XK_CHECKSUM, .covers = XK_COVERS_HEADER },
		{ .name = "rest", .bits = 8 },
		{ .name = NULL }
	};
	static const struct xk_field whole[] = {
		{ .name = "sum", .bits = 16, .kind = XK_CHECKSUM, .covers = XK_COVERS_MESSAGE }, { .name = NULL }
	};
	static const struct xk_field pseudo[] = {
		{ .name = "sum", .bits = 16, .kind = XK_CHECKSUM, .covers = XK_COVERS_PSEUDO }, { .name = NULL }
	};
	static const struct {
		const struct xk_field *fields;
		uint32_t header;
		const char *why;
	} bad[] = { { far, 26, "the framework cannot receive and send by its `fields`" },
		    { length, 4, "the framework cannot receive and send by its `fields`" },
		    { names, 17, "the framework cannot receive and send by its `fields`" },
		    { number, 4, "the framework cannot receive and send by its `fields`" },
		    { long_sum, 4, "the framework cannot receive and send by its `fields`" },
		    { sum, 4, "its checksum, length or number is not on an even byte" },
		    { whole, 2, "the framework cannot compute its checksum" },
		    { pseudo, 2, "its checksum is XK_COVERS_PSEUDO, but has no `pseudo`" } };

	xk_type_toy = sound;
	xk_type_toy.flags = XK_BY_FIELDS;
	CHECK_STR(declaration_error(), "");
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(bad); i++) {
		xk_type_toy.fields = bad[i].fields;
		xk_type_toy.header = bad[i].header;
		CHECK_HAS(declaration_error(), bad[i].why);
	}
}

TEST(fields_must_name_each_end_once)
{
	struct xk_field fields[] = { { .name = "from", .bits = 16, .end = XK_END_REMOTE },
				     { .name = "to", .bits = 16, .end = XK_END_LOCAL },
				     { .name = NULL } };

	xk_type_toy = sound;
	xk_type_toy.fields = fields;
	xk_type_toy.header = 4;
	CHECK_STR(declaration_error(), "");
	fields[1].end = XK_END_REMOTE;
	CHECK_STR(declaration_error(), "test: protocol \"toy\": its fields from and to both are XK_END_REMOTE");
	fields[1].end = XK_END_NONE;
	CHECK_STR(declaration_error(),
		  "test: protocol \"toy\": its field from is XK_END_REMOTE, but no field is the other end");
	fields[0].end = fields[1].end = XK_END_LOCAL;
	CHECK_STR(declaration_error(), "test: protocol \"toy\": its fields from and to both are XK_END_LOCAL");
	fields[0].end = XK_END_NONE;
	CHECK_STR(declaration_error(),
		  "test: protocol \"toy\": its field to is XK_END_LOCAL, but no field is the other end");
}

TEST(ends_must_be_whole_bytes_of_one_length)
{
	struct xk_field fields[] = { { .name = "from", .bits = 16, .end = XK_END_REMOTE },
				     { .name = "to", .bits = 8, .end = XK_END_LOCAL },
				     { .name = NULL } };

	xk_type_toy = sound;
	xk_type_toy.fields = fields;
	xk_type_toy.header = 3;
	CHECK_STR(declaration_error(),
		  "test: protocol \"toy\": its fields from and to, the two ends, differ in length");
	fields[0].bits = fields[1].bits = 12;
	CHECK_STR(declaration_error(), "test: protocol \"toy\": its field from is an end, but not of whole bytes");
}

TEST(ports_must_have_passive_keys)
{
	struct xk_field fields[] = { { .name = "from", .bits = 16, .kind = XK_NAMES_SESSION, .end = XK_END_REMOTE },
				     { .name = "to", .bits = 16, .kind = XK_NAMES_SESSION, .end = XK_END_LOCAL },
				     { .name = "upper", .bits = 8 },
				     { .name = NULL } };
	struct xk_protocol_ops ops = toy_ops;

	xk_type_toy = sound;
	xk_type_toy.flags = XK_BY_FIELDS;
	xk_type_toy.fields = fields;
	xk_type_toy.header = 5;
	xk_type_toy.ops = &ops;
	CHECK_STR(declaration_error(),
		  "test: protocol \"toy\": its header names ports, but its `ops` have no `passive_key`: ports are "
		  "what uppers enable");
	ops.validate = toy_validate;
	CHECK_STR(declaration_error(), "");
	ops.validate = NULL;
	fields[2].is_upper = true;
	CHECK_STR(declaration_error(), "");
	fields[2].is_upper = false;
	ops.passive_key = toy_passive_key;
	CHECK_HAS(declaration_error(), "its `ops` have no `passive_key_of`: ports are what uppers enable");
	ops.passive_key_of = toy_passive_key_of;
	CHECK_STR(declaration_error(), "");
}
