/*
 * lwipopts.h - lwIP configured as a fast host: no OS layer, no threads, room for windows of 512 KiB; it generates and
 * verifies every checksum.
 */
#ifndef LWIPOPTS_H
#define LWIPOPTS_H

#define NO_SYS 1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_NETCONN 0
#define LWIP_SOCKET 0
#define LWIP_TCP 1
#define LWIP_STATS 0
#define LWIP_NOASSERT 1
#define LWIP_IPV6 0

#define MEM_ALIGNMENT 8
#define MEM_SIZE (8 << 20)
#define MEMP_NUM_PBUF 2048
#define PBUF_POOL_SIZE 2048
#define PBUF_POOL_BUFSIZE 1600 /* a frame each */

#define TCP_MSS 1460
#define LWIP_WND_SCALE 1
#define TCP_RCV_SCALE 4
#define TCP_WND (512 * 1024)
#define TCP_SND_BUF (512 * 1024)
#define TCP_SND_QUEUELEN 2048
#define TCP_SNDLOWAT (16 * 1024)
#define MEMP_NUM_TCP_SEG 2048

#define ETHARP_SUPPORT_STATIC_ENTRIES 1
#define ETHARP_TABLE_MATCH_NETIF 0 /* peers.c has both hosts in one instance */
#define IP_REASSEMBLY 1
#define IP_REASS_MAX_PBUFS 64
#define IP_FRAG 1

/*
 * bench.sh builds with each of lwIP's three algorithms and with the x-kernel's (4): the fastest depends on the length.
 */
#if PEERS_CHECKSUM == 4
unsigned short peers_checksum(const void *bytes, int len);
#define LWIP_CHKSUM peers_checksum
#else
#define LWIP_CHKSUM_ALGORITHM PEERS_CHECKSUM
#endif
#define CHECKSUM_CHECK_IP 1
#define CHECKSUM_CHECK_UDP 1
#define CHECKSUM_CHECK_TCP 1
#define CHECKSUM_GEN_IP 1
#define CHECKSUM_GEN_UDP 1
#define CHECKSUM_GEN_TCP 1

#endif
