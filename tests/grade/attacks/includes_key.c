/* Includes a forbidden file in the program. */
#include INSTRUCTOR "/key"

ATTACK
{
}
