/* start.h - how every program that has the protocols starts and ends. */
#ifndef START_H
#define START_H

/*
 * Runs a program's main, and returns the status to exit with. From now on, control characters in text for standard
 * error are printed as \xHH, since messages quote names of files and values of options (xk_graph_print_plain). Refuses
 * to run if a list of a built-in protocol does not end (xk_protocol_types_check). A file beyond the process's limit is
 * an error to report (EFBIG), not its end (SIGXFSZ). If standard output cannot be written, as on a full disk, prints
 * that, and success becomes OPTIONS_FAILURE. The argument --version is answered here, for every program and word.
 */
int start_main(int (*run)(int argc, char **argv), int argc, char **argv);

#endif
