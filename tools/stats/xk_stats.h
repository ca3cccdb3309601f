/* xk_stats.h - the command `stats` of xk. */
#ifndef XK_STATS_H
#define XK_STATS_H

int xk_stats_main(int argc, char **argv);

#endif
