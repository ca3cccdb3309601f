/* xk_bench.h - the word `bench` of xk. */
#ifndef XK_BENCH_H
#define XK_BENCH_H

/* argv[0] is the word itself; the value is the exit status. */
int xk_bench_main(int argc, char **argv);

/* The benchmarks, each in a file of its own but for `echo`. */
int xk_bench_call_main(int argc, char **argv);
int xk_bench_handoff_main(int argc, char **argv);
int xk_bench_sim_main(int argc, char **argv);

#endif
