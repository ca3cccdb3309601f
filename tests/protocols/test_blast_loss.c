/*
 * test_blast_loss.c - BLAST's longest messages between two simulated hosts while half of the frames are lost in each
 * direction.
 */
#include "tests/simulated.h"

enum { WORLDS = 50, MESSAGES = 10, FRAGMENTS = 64, FRAGMENT = 1476 };

struct place {
	uint64_t seed;
	unsigned host;
};

static struct xk_kernel *
boot(void *context, struct xk_sim_host *host)
{
	const struct place *place = context;
	struct xk_kernel *kernel = simulated_kernel(host, (struct xk_kernel_config){ .mode = XK_IPP });
	char run[160] = "", text[1024];

	if (place->host == 0)
		snprintf(run, sizeof(run), "to=\"10.77.0.2\", count=%d, size=%d, timeout=\"8s\"", MESSAGES,
			 FRAGMENTS * FRAGMENT);
	snprintf(text, sizeof(text),
		 "digraph loss { vnet [address=\"10.77.0.%u/24\"]; blasttest [%s];"
		 "vdrop [seed=%llu, loss=\"50%%\", direction=down];"
		 "blasttest -> blast -> vdrop -> vnet; vnet -> eth; vnet -> arp -> eth; eth -> port }",
		 1 + place->host, run, (unsigned long long)(2 * place->seed + place->host));
	compose(kernel, NULL, text);
	return simulated_start(kernel);
}

struct outcome {
	long whole, again;
};

/* Runs one world. Returns the numbers of messages delivered and of fragments retransmitted. */
static struct outcome
lose_half(uint64_t seed)
{
	struct sim_link_config config = sim_link_preset_find("hub100")->config;
	struct xk_sim *sim = xk_sim_new(seed);
	struct xk_sim_link *lan = NULL;
	struct xk_sim_host *hosts[2];
	struct place places[2] = { { seed, 0 }, { seed, 1 } };
	struct outcome outcome;

	config.queue = 1000;
	config.kind = SIM_LINK_SWITCH;
	REQUIRE(sim != NULL && (lan = xk_sim_link_new(sim, "lan", &config)) != NULL);
	for (unsigned i = 0; i < 2; i++)
		hosts[i] = simulated_host(sim, lan, i == 0 ? "a" : "b", boot, &places[i]);
	for (unsigned i = 2; i-- > 0;)
		CHECK_EQ(xk_sim_boot(hosts[i]), 0);
	xk_sim_run(sim, UINT64_C(100000000000));
	outcome.whole = compose_count(xk_sim_kernel(hosts[1]), "blast", "long_in");
	outcome.again = compose_count(xk_sim_kernel(hosts[0]), "blast", "retransmitted");
	CHECK_EQ(compose_count(xk_sim_kernel(hosts[0]), "blasttest", "sent"), MESSAGES);
	CHECK_EQ(xk_sim_free(sim), 0);
	return outcome;
}

TEST(blast_delivers_64_fragments_if_half_the_frames_are_lost)
{
	struct outcome sum = { 0, 0 };

	for (uint64_t seed = 1; seed <= WORLDS; seed++) {
		struct outcome o = lose_half(seed);

		sum.whole += o.whole;
		sum.again += o.again;
	}
	printf("\n  %ld of %d delivered, %ld fragments retransmitted ", sum.whole, WORLDS * MESSAGES, sum.again);
	CHECK(sum.whole * 100 >= WORLDS * MESSAGES * 95L);
	CHECK(sum.again <= 3L * FRAGMENTS * WORLDS * MESSAGES);
}
