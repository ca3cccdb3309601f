/* start.h - start and end of every program with the protocols. */
#ifndef START_H
#define START_H

/*
 * Runs a program's main, and returns the exit status. From now on, control characters in text for standard error are
 * printed as \xHH, because messages quote names of files and values of options (xk_graph_print_plain). Refuses to run
 * if a list of a built-in protocol is not terminated (xk_protocol_types_check). A file that exceeds the process's limit
 * is reported as an error (EFBIG) instead of ending the process (SIGXFSZ). If standard output cannot be written, as on
 * a full disk, prints that, and turns success into OPTIONS_FAILURE. Handles the argument --version, for every program
 * and command.
 */
int start_main(int (*run)(int argc, char **argv), int argc, char **argv);

#endif
