/* Keeps the preprocessor busy for ever. */
#if __INCLUDE_LEVEL__ < 190
/* clang-format off */
#include "mark.c"
#include "mark.c"
/* clang-format on */
#endif

ATTACK
{
}
