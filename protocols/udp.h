/*
 * udp.h - UDP's header.
 *
 * Participants: the top of each stack is a port, 1 to 65535
 */
#ifndef XK_UDP_H
#define XK_UDP_H

enum { XK_UDP_HEADER_LEN = 8, XK_UDP_NUMBER = 17 /* on IP, and so in the pseudo-header */ };

#define UDP_HEADER(F)                                                                                                  \
	F(16, source, .kind = XK_NAMES_SESSION, .end = XK_END_REMOTE, .help = "port")                                  \
	F(16, destination, .kind = XK_NAMES_SESSION, .end = XK_END_LOCAL, .help = "port")                              \
	F(16, length, .kind = XK_LENGTH, .covers = XK_COVERS_MESSAGE)                                                  \
	F(16, checksum, .kind = XK_CHECKSUM, .print = XK_PRINT_HEX, .covers = XK_COVERS_PSEUDO,                        \
	  .pseudo = XK_UDP_NUMBER, .may_lack = true, .help = "0: none")

#endif
