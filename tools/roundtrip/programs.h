/* programs.h - the mains of the programs udptest, chantest, tcptest, icmptest and logp. */
#ifndef PROGRAMS_H
#define PROGRAMS_H

int udptest_main(int argc, char **argv);
int chantest_main(int argc, char **argv);
int tcptest_main(int argc, char **argv);
int icmptest_main(int argc, char **argv);
int logp_main(int argc, char **argv);

#endif
