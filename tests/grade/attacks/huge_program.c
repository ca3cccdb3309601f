/* Lets the compiler write without end. */
static char huge[1u << 31] = { 1 };

ATTACK
{
	huge[1]++;
}
