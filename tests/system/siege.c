/*
 * siege.c - siege DEVICE ATTACK: attacks the host at 10.77.0.1 (link address 02:00:00:00:00:01) as its confirmed
 * neighbour 10.77.0.10, through a network interface whose address is 02:00:00:00:00:a0, until SIGTERM. Sends no faster
 * than the host receives. `siege` alone prints the names of the attacks (siege_enemy.h).
 *
 * Prints `confirmed` once it is and, at the end, the number of frames. Exit status 1: the host does not confirm it.
 */
#include <signal.h>
#include <time.h>

#include "platform/dpdk/dpdk.h"
#include "tests/protocols/siege_enemy.h"

enum {
	BURST = 64, /* frames between queries that the host must answer */
	PAUSE_US = 50,
	PATIENCE_MS = 60000,
	AGAIN_MS = 200,
};

static bool is_answered;
static volatile sig_atomic_t is_ended;

unsigned cunit_cross_failures; /* of tests/cross/CUnit: this is no test program, and a failed REQUIRE ends it */

static uint64_t
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void
pause_us(unsigned us)
{
	struct timespec pause = { .tv_nsec = (long)us * 1000 };

	nanosleep(&pause, NULL);
}

static void
end(int signal)
{
	is_ended = 1;
}

static void
receive(struct siege *s, const struct siege_frame *f)
{
	is_answered |= siege_is_arp_answer(f);
	enemy_learn((struct siege_enemy *)(uintptr_t)s->data[0], f);
}

/* Returns true if the host has confirmed the enemy. */
static bool
introduce(struct siege_enemy *e)
{
	uint64_t begun_ms = now_ms(), next_ms = begun_ms;

	while (e->peer->server_boot == 0 && now_ms() - begun_ms < PATIENCE_MS) {
		if (now_ms() >= next_ms) {
			siege_introduce(e->s, e->peer);
			next_ms = now_ms() + AGAIN_MS;
		}
		siege_listen(e->s, 0);
		pause_us(PAUSE_US);
	}
	return e->peer->server_boot != 0;
}

static void
attack(struct siege_enemy *e, const struct enemy_attack *attack)
{
	while (!is_ended) {
		uint64_t asked_ms = now_ms();

		for (unsigned i = 0; i < BURST; i++)
			enemy_send(e, attack);
		is_answered = false;
		siege_ask_arp(e->s, 0, SIEGE_ENEMY);
		while (!is_answered && now_ms() - asked_ms < AGAIN_MS) {
			pause_us(PAUSE_US);
			siege_listen(e->s, 0);
		}
	}
}

static const struct enemy_attack *
attack_named(const char *name)
{
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(enemy_attacks); i++)
		if (strcmp(enemy_attacks[i].name, name) == 0)
			return &enemy_attacks[i];
	return strcmp(enemy_all_attacks.name, name) == 0 ? &enemy_all_attacks : NULL;
}

int
main(int argc, char **argv)
{
	struct xk_dpdk_config config = { .core = -1 };
	struct xk_dpdk_port_config link = { .link = "af_packet", .name = "siege", .device = argv[1] };
	const struct enemy_attack *chosen = argc == 3 ? attack_named(argv[2]) : NULL;
	struct siege *s = calloc(1, sizeof(*s));
	struct siege_enemy e = { .s = s };
	struct xk_platform *platform = NULL;
	char why[XK_DPDK_WHY];
	int status = 1;

	for (unsigned i = 0; argc == 1 && i < XK_ARRAY_LENGTH(enemy_attacks); i++)
		puts(enemy_attacks[i].name);
	if (argc == 1)
		puts(enemy_all_attacks.name);
	if (s == NULL || chosen == NULL) {
		free(s);
		return argc == 1 ? 0 : 2;
	}
	signal(SIGTERM, end);
	s->data[0] = (uint64_t)(uintptr_t)&e;
	s->receive = receive;
	if (xk_dpdk_start(&config, &platform, why, sizeof(why)) == 0)
		s->ports[0] = xk_dpdk_open(platform, &link, why, sizeof(why));
	if (s->ports[0] == NULL) {
		fprintf(stderr, "siege: %s\n", why);
		return 1;
	}
	e.peer = siege_play(s, SIEGE_ENEMY, 0, 0xe000 | now_ms() << 16);
	if (introduce(&e)) {
		fprintf(stderr, "confirmed\n");
		attack(&e, chosen);
		printf("%llu\n", (unsigned long long)e.n);
		status = 0;
	} else {
		fprintf(stderr, "siege: the host does not confirm its neighbour\n");
	}
	s->ports[0]->ops->close(s->ports[0]);
	xk_dpdk_stop(platform);
	free(s);
	return status;
}
