/* Keeps the preprocessor busy endlessly. */
#if __INCLUDE_LEVEL__ < 190
/* clang-format off */
#include "mark.c"
#include "mark.c"
/* clang-format on */
#endif

ATTACK
{
}
