/* Makes the compiler write a huge file. */
static char huge[1u << 31] = { 1 };

ATTACK
{
	huge[1]++;
}
