/* paths.c - see paths.h. */
#include "protocols/paths.h"

#include "protocols/bid/bid_private.h"
#include "protocols/blast/blast_private.h"
#include "protocols/eth.h"
#include "protocols/ip/ip_private.h"
#include "protocols/tcp/tcp_private.h"
#include "protocols/udp.h"

XK_HEADER(eth, ETH_HEADER);
XK_HEADER(udp, UDP_HEADER);
XK_FORMAT(eth, ETH_HEADER);
XK_FORMAT(ip, IP_HEADER);
XK_FORMAT(udp, UDP_HEADER);
XK_FORMAT(tcp, TCP_HEADER);
XK_FORMAT(blast, BLAST_HEADER);
XK_FORMAT(bid, BID_HEADER);

extern const struct xk_protocol_type xk_type_eth, xk_type_ip, xk_type_udp, xk_type_tcp, xk_type_blast, xk_type_bid;

XK_PATH_INLINE struct xk_path_layout
udp_layout(void)
{
	const struct xk_format eth = eth_format(), ip = ip_format(), udp = udp_format();
	struct xk_path_layout layout = { 0 };

	xk_path_add(&layout, &eth, XK_PATH_PASSES);
	xk_path_add(&layout, &ip, XK_PATH_PASSES);
	xk_path_add(&layout, &udp, XK_PATH_PASSES);
	return layout;
}
XK_PATH(udp, &xk_type_eth, &xk_type_ip, &xk_type_udp);

XK_PATH_INLINE struct xk_path_layout
tcp_layout(void)
{
	const struct xk_format eth = eth_format(), ip = ip_format(), tcp = tcp_format();
	struct xk_path_layout layout = { 0 };

	xk_path_add(&layout, &eth, XK_PATH_PASSES);
	xk_path_add(&layout, &ip, XK_PATH_PASSES);
	xk_path_add(&layout, &tcp, XK_PATH_POPS);
	return layout;
}
XK_PATH_TO_POP(tcp, &xk_type_eth, &xk_type_ip, &xk_type_tcp);

XK_PATH_INLINE struct xk_path_layout
bid_layout(void)
{
	const struct xk_format eth = eth_format(), blast = blast_format(), bid = bid_format();
	struct xk_path_layout layout = { 0 };

	xk_path_add(&layout, &eth, XK_PATH_PASSES);
	xk_path_add(&layout, &blast, XK_PATH_PASSES);
	xk_path_add(&layout, &bid, XK_PATH_OWN);
	return layout;
}
XK_PATH_TO_OWN(bid, bid_path_pop, bid_path_push, &xk_type_eth, &xk_type_blast, &xk_type_bid);
