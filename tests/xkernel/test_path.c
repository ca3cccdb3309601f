/* test_path.c - the layout of a path's headers (xkernel/path.h). The rest: tests/conformance/test_paths_exhaustive.c. */
#include "tests/test.h"
#include "xkernel/path.h"

static const struct xk_format plain = { .len = 14 }, summed = { .len = 8, .sum_covers = XK_COVERS_PSEUDO },
			      sized = { .len = 20, .length_len = 2 }, numbered = { .len = 20, .number_step = 1 };

TEST(layouts_end_before_they_are_too_long)
{
	const struct xk_format rest = { .len = XK_PATH_BYTES - 14 }, more = { .len = 1 };
	struct xk_path_layout layout = { 0 };

	CHECK(xk_path_add(&layout, &plain, false));
	CHECK(xk_path_add(&layout, &rest, false));
	CHECK_EQ(layout.len, XK_PATH_BYTES);
	CHECK(!xk_path_add(&layout, &more, false));
}

TEST(layouts_end_with_a_top_that_has_work_of_its_own)
{
	struct xk_path_layout layout = { 0 };

	CHECK(xk_path_add(&layout, &plain, false));
	CHECK_EQ(layout.own_at, 0);
	CHECK(xk_path_add(&layout, &plain, true));
	CHECK_EQ(layout.own_at, plain.len);
	CHECK(!xk_path_add(&layout, &plain, false));
}

TEST(layouts_end_with_a_checksum_over_what_follows)
{
	struct xk_path_layout layout = { 0 };

	CHECK(xk_path_add(&layout, &summed, false));
	CHECK(!xk_path_add(&layout, &plain, false));
}

TEST(layouts_fill_in_a_few_headers)
{
	struct xk_path_layout layout = { 0 };

	CHECK(xk_path_add(&layout, &plain, false));
	CHECK_EQ(layout.fills, 0);
	CHECK(xk_path_add(&layout, &sized, false));
	CHECK(xk_path_add(&layout, &numbered, false));
	CHECK_EQ(layout.fills, XK_PATH_FILLS);
	CHECK_EQ(layout.fill_at[1], plain.len + sized.len);
	CHECK(!xk_path_add(&layout, &summed, false));
	CHECK(xk_path_add(&layout, &plain, false));
}
