/*
 * answer.c - the server's end inside Linux's kernel, as BPF programs for frames of LLP's type. Each decrements the
 * count in a message of sockets.c and sends it back. `xdp` runs in the driver's receive function or, if generic, just
 * after it; `tc` runs in the softirq that would carry the frame up.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#define IN_SECTION(name) __attribute__((section(name), used))

enum { ANSWER_ETH = 14, ANSWER_COUNT = ANSWER_ETH + 4, ANSWER_END = ANSWER_ETH + 24 };

static long (*const answer_redirect)(__u32 ifindex, __u64 flags) = (void *)BPF_FUNC_redirect;

/* Turns the frame into its answer. Returns 0 for other types, short frames and a count of 0. */
static inline __attribute__((always_inline)) int
answer(unsigned char *p, const unsigned char *end)
{
	__u32 count;

	if (p + ANSWER_END > end || p[12] != 0x60 || p[13] != 0x08)
		return 0;
	count = (__u32)p[ANSWER_COUNT] << 24 | (__u32)p[ANSWER_COUNT + 1] << 16 | (__u32)p[ANSWER_COUNT + 2] << 8 |
		p[ANSWER_COUNT + 3];
	if (count == 0)
		return 0;
	count--;
	p[ANSWER_COUNT] = count >> 24;
	p[ANSWER_COUNT + 1] = count >> 16;
	p[ANSWER_COUNT + 2] = count >> 8;
	p[ANSWER_COUNT + 3] = count;
	/* The first frame is a broadcast, so every answer has a fixed source address. */
	for (int i = 0; i < 6; i++) {
		p[i] = p[6 + i];
		p[6 + i] = i == 0 ? 0x02 : i;
	}
	return 1;
}

IN_SECTION("xdp") int answer_xdp(struct xdp_md *frame)
{
	return answer((unsigned char *)(long)frame->data, (unsigned char *)(long)frame->data_end) ? XDP_TX : XDP_PASS;
}

IN_SECTION("tc") int answer_tc(struct __sk_buff *frame)
{
	if (!answer((unsigned char *)(long)frame->data, (unsigned char *)(long)frame->data_end))
		return TC_ACT_OK;
	return answer_redirect(frame->ifindex, 0);
}

IN_SECTION("license") char answer_license[] = "Dual BSD/GPL";

/* For the client's interface: a veth sends frames of XDP_TX only if its peer has a program, too. */
IN_SECTION("pass") int answer_pass(struct xdp_md *frame)
{
	(void)frame;
	return XDP_PASS;
}
