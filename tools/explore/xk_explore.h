/* xk_explore.h - the command `explore` of xk. */
#ifndef XK_EXPLORE_H
#define XK_EXPLORE_H

int xk_explore_main(int argc, char **argv);

#endif
