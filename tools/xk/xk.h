/* xk.h - commands of xk. argv[0] is the command itself; the functions return the exit status. */
#ifndef XK_TOOL_H
#define XK_TOOL_H

#include "tools/options.h"

struct xk_graph;
struct xk_topology;

/*
 * Reads and checks a graph file with settings or, unless `net` is NULL, a network file; sets *graph or *net, to be
 * freed, and the other one to NULL. Returns false, after messages, if the file was refused; warnings may be printed
 * otherwise.
 */
bool xk_load(const char *file, const struct options_texts *sets, struct xk_graph **graph, struct xk_topology **net);

/* Runs the command in argv[1]. */
int xk_main(int argc, char **argv);

int xk_check_main(int argc, char **argv);
int xk_compile_main(int argc, char **argv);
int xk_dissectors_main(int argc, char **argv);
int xk_draw_main(int argc, char **argv);
int xk_new_main(int argc, char **argv);
int xk_protocols_main(int argc, char **argv);
int xk_run_main(int argc, char **argv);

#endif
