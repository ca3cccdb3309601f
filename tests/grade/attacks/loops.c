/* Computes for ever. */
ATTACK
{
	for (volatile unsigned n = 0;; n++)
		continue;
}
