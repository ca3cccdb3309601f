/* Includes an endless file. */
#include "/dev/zero"

ATTACK
{
}
