/* Is a file without end. */
#include "/dev/zero"

ATTACK
{
}
