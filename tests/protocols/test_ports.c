/*
 * test_ports.c - chosen local numbers (xkernel/support/ports.h), for each protocol that chooses some: none is in use,
 * each is chosen in turn, and if all are taken, the open fails with -EADDRINUSE.
 */
#include "tests/protocols/gm_rig.h"
#include "xkernel/support/ports.h"

enum { BROADCAST = 0x0a4d00ff, COUNT = XK_PORTS_LAST - XK_PORTS_FIRST + 1 };

struct chooser {
	const char *name, *graph; /* NULL: GM's own rig */
	uint64_t host, other;
	bool is_random;  /* chooses the first number for a host at random */
	bool is_endless; /* many sessions may share one number */
};

#define ON_IP "port:; eth: port; arp: eth; vnet: eth arp; vnet.address=10.77.0.1/24; ip: vnet; "

static const struct chooser choosers[] = {
	{ "udp", ON_IP "udp: ip; user: udp", BROADCAST, UINT32_MAX, true, false },
	{ "llp", "wire:; llp: wire; user: llp", PARTNER, STRANGER, false, false },
	{ "bip", "wire:; bip: wire; user: bip", PARTNER, STRANGER, false, false },
	{ "gm", NULL, PARTNER, STRANGER, true, false },
	{ "stopwait", "wire:; stopwait: wire; user: stopwait", PARTNER, STRANGER, true, true },
};

static struct rig *
chooser_rig(const struct chooser *c)
{
	return c->graph == NULL ? gm_rig("gm.sessions=65536") : rig_new_graph(c->graph);
}

/* Opens a session to a host without a local number. Returns the number chosen, or 0. */
static uint64_t
choose_to(struct rig *r, uint64_t host, struct xk_session **session)
{
	struct xk_participants to = { .remote = { 2, { host, FAR } } }, participants = { .local.depth = 0 };

	*session = rig_open(r, to);
	if (*session == NULL)
		return 0;
	REQUIRE(xk_get_participants(*session, &participants) == 0);
	return xk_participant_pop(&participants.local);
}

static uint64_t
choose(struct rig *r, const struct chooser *c, struct xk_session **session)
{
	return choose_to(r, c->host, session);
}

/* Opens a session with each number except an enabled one. */
static void
try_all(const struct chooser *c)
{
	struct rig *r = chooser_rig(c);
	struct xk_session *s, *one = NULL;
	uint64_t first = choose(r, c, &s), enabled, last, number = first, one_number = 0;
	unsigned opened = 1;

	CHECK(first >= XK_PORTS_FIRST && first <= XK_PORTS_LAST);
	enabled = first + 100 <= XK_PORTS_LAST ? first + 100 : first + 100 - COUNT;
	CHECK_EQ(rig_open_enable(r, at_port(enabled)), 0);
	for (unsigned i = 1; i < COUNT - 1; i++) {
		last = number;
		number = choose(r, c, &s);
		opened += number != 0;
		CHECK(number != enabled && number != first);
		if (last != XK_PORTS_LAST && last + 1 != enabled && number != 0)
			CHECK_EQ(number, last + 1);
		if (i == 1000) {
			one = s;
			one_number = number;
		}
	}
	CHECK_EQ(opened, COUNT - 1);
	if (!c->is_endless) {
		CHECK_EQ(choose(r, c, &s), 0);
		CHECK_EQ(rig_error(r), -EADDRINUSE);
		rig_close(r, one);
	}
	CHECK_EQ(choose(r, c, &s), c->is_endless ? first : one_number);
	CHECK_EQ(rig_open_disable(r, at_port(enabled)), 0);
	CHECK(c->is_endless || choose(r, c, &s) == enabled);
	rig_free(r);
}

TEST(every_free_number_is_chosen)
{
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(choosers); i++) {
		printf("%s ", choosers[i].name);
		fflush(stdout);
		try_all(&choosers[i]);
	}
}

TEST(first_number_is_random_if_strangers_might_guess_it)
{
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(choosers); i++) {
		uint64_t numbers[8];
		bool differ = false;

		for (unsigned j = 0; j < XK_ARRAY_LENGTH(numbers); j++) {
			struct rig *r = chooser_rig(&choosers[i]);
			struct xk_session *s;

			numbers[j] = choose(r, &choosers[i], &s);
			differ |= numbers[j] != numbers[0];
			rig_free(r);
		}
		CHECK_EQ(differ, choosers[i].is_random);
	}
}

/* A host that has seen one number cannot derive the next one for another host. */
TEST(numbers_for_a_host_do_not_reveal_anothers)
{
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(choosers); i++) {
		const struct chooser *c = &choosers[i];
		unsigned following = 0;

		printf("%s ", c->name);
		fflush(stdout);
		for (unsigned j = 0; j < 4; j++) {
			struct rig *r = chooser_rig(c);
			struct xk_session *s;
			uint64_t seen = choose(r, c, &s), next;

			if (c->graph == NULL)
				meet(r, STRANGER, BOOT_A);
			next = choose_to(r, c->other, &s);
			CHECK(seen != 0 && next != 0);
			following += next == (seen == XK_PORTS_LAST ? XK_PORTS_FIRST : seen + 1);
			rig_free(r);
		}
		CHECK_EQ(following == 4, !c->is_random);
	}
}

/* A number that another upper has enabled is refused even if it is named. */
TEST(number_of_another_upper_is_refused)
{
	static const char *const graphs[] = {
		ON_IP "udp: ip; user: udp; user2: udp",
		"wire:; llp: wire; user: llp; user2: llp",
		"wire:; bip: wire; user: bip; user2: bip",
		"wire:; stopwait: wire; user: stopwait; user2: stopwait",
		NULL, /* GM */
	};

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(graphs); i++) {
		struct rig *r = graphs[i] == NULL ? gm_rig("user2: gm") : rig_new_graph(graphs[i]);
		uint64_t host = graphs[i] == NULL ? PARTNER : BROADCAST;

		rig_user(r, "user2");
		CHECK_EQ(rig_open_enable(r, at_port(PORT)), 0);
		rig_user(r, "user");
		rig_expect_open_fails(r, rig_to2(host, FAR, PORT), -EADDRINUSE);
		rig_user(r, "user2");
		CHECK(rig_open(r, rig_to2(host, FAR, PORT)) != NULL);
		rig_free(r);
	}
}
