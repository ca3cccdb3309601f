/* Compiles what it must not see into the program. */
#include INSTRUCTOR "/key"

ATTACK
{
}
