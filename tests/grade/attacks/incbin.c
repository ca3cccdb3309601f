/* Assembles a forbidden file into the program. */
__asm__(".data\nstolen: .incbin \"/etc/passwd\"\n");

ATTACK
{
}
