/* xk_bench.h - the word `bench` of xk. */
#ifndef XK_BENCH_H
#define XK_BENCH_H

/* argv[0] is the word itself. The exit status. */
int xk_bench_main(int argc, char **argv);

/* Of what is named second (xk_bench_call.c, xk_bench_handoff.c, xk_bench_sim.c). */
int xk_bench_call_main(int argc, char **argv);
int xk_bench_handoff_main(int argc, char **argv);
int xk_bench_sim_main(int argc, char **argv);

#endif
