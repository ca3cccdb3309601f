/* program.h - the mains that a program made by `xk compile` has as words (program.c). */
#ifndef PROGRAM_H
#define PROGRAM_H

int udptest_main(int argc, char **argv);
int chantest_main(int argc, char **argv);
int icmptest_main(int argc, char **argv);
int logp_main(int argc, char **argv);

#endif
