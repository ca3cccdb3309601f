/* Keeps the compiler busy for ever and makes it take all memory. */
#define TEN(x) x, x, x, x, x, x, x, x, x, x
#define THOUSAND(x) TEN(TEN(TEN(x)))
#define MILLION(x) THOUSAND(THOUSAND(x))
static const char huge[] = { MILLION(MILLION(1)) };

ATTACK
{
	(void)huge;
}
