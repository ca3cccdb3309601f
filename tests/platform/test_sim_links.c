/* test_sim_links.c - watching frames between simulated hosts, and links that change in use. */
#include "tests/platform/stage.h"

/* ---- watching ---- */

static const char *const seen_names[] = {
	[XK_SIM_SENT] = "sent",     [XK_SIM_ARRIVED] = "arrived", [XK_SIM_LOST] = "lost",
	[XK_SIM_BOOTED] = "booted", [XK_SIM_CRASHED] = "crashed",
};

/* "arrived-b-corrupt@2000 " */
static void
stage_see(void *context, const struct xk_sim_record *record)
{
	struct stage *stage = context;
	char what[64];

	CHECK_EQ(record->at_ns, xk_sim_now_ns(stage->sim));
	CHECK((record->link == stage->link) == (record->event <= XK_SIM_LOST));
	CHECK((record->frame != NULL) == (record->event <= XK_SIM_LOST));
	CHECK(record->frame == NULL || record->len == FRAME);
	snprintf(what, sizeof(what), "%s-%s%s%s", seen_names[record->event], xk_sim_host_name(record->host),
		 record->why == NULL ? "" : "-", record->why == NULL ? "" : record->why);
	stage_note(stage, what, record->at_ns);
}

static void
check_seen(void (*change)(struct sim_link_config *config), const char *seen)
{
	struct sim_link_config config = stage_wire;
	struct stage stage;

	change(&config);
	stage_open(&stage, &config);
	for (unsigned i = 0; i < 2; i++)
		CHECK_EQ(xk_sim_boot(stage_add(&stage, XK_IPP, &stage_free, 0, do_nothing)->host), 0);
	xk_sim_watch(stage.sim, stage_see, &stage);
	stage_send(&stage);
	xk_sim_run(stage.sim, MS);
	CHECK_EQ(xk_sim_crash(stage.men[1].host), 0);
	CHECK_EQ(xk_sim_boot(stage.men[1].host), 0);
	xk_sim_watch(stage.sim, NULL, NULL);
	CHECK_STR(stage.notes, seen);
	stage_close(&stage);
}

static void
change_nothing(struct sim_link_config *config)
{
	(void)config;
}

static void
change_loss(struct sim_link_config *config)
{
	config->loss = SIM_ALWAYS;
}

static void
change_corrupt(struct sim_link_config *config)
{
	config->corrupt = SIM_ALWAYS;
}

static void
change_duplicate(struct sim_link_config *config)
{
	config->duplicate = SIM_ALWAYS;
}

TEST(watcher_sees_the_fate_of_each_frame)
{
	check_seen(change_nothing, "sent-a@0 arrived-b@1000 crashed-b@1000000 booted-b@1000000 ");
	check_seen(change_loss, "sent-a@0 lost-b-loss@0 crashed-b@1000000 booted-b@1000000 ");
	check_seen(change_corrupt, "sent-a@0 arrived-b-corrupt@1000 crashed-b@1000000 booted-b@1000000 ");
	check_seen(change_duplicate,
		   "sent-a@0 arrived-b@1000 arrived-b-duplicate@1000 crashed-b@1000000 booted-b@1000000 ");
}

TEST(watching_changes_nothing)
{
	uint64_t hashes[2];

	for (unsigned i = 0; i < 2; i++) {
		struct stage stage;
		struct man *man = stage_two(&stage, XK_IPP, &stage_free, do_nothing);

		CHECK_EQ(xk_sim_boot(man->host), 0);
		if (i == 1)
			xk_sim_watch(stage.sim, stage_see, &stage);
		stage_send(&stage);
		xk_sim_run(stage.sim, MS);
		hashes[i] = xk_sim_hash(stage.sim);
		xk_sim_watch(stage.sim, NULL, NULL);
		stage_close(&stage);
	}
	CHECK(hashes[0] == hashes[1]);
}

/* ---- links ---- */

MAN_TEST(device_can_be_cut_off_and_rejoined, stage_two(stage, XK_IPP, &stage_free, do_note))
{
	struct sim_link_counts counts;

	CHECK_EQ(xk_sim_boot(man->host), 0);
	for (unsigned i = 0; i < 4; i++) {
		xk_sim_cut(stage->men[0].host, 0, i == 0, i == 1);
		xk_sim_cut(man->host, 0, i == 1, i == 2);
		stage_send(stage);
		xk_sim_run(stage->sim, (i + 1) * MS);
	}
	/* Cutting the sender's receive direction or the receiver's send direction has no effect. */
	CHECK_STR(stage->notes, "come@1001000 come@3001000 ");
	xk_sim_link_counts(stage->link, &counts);
	CHECK_EQ(counts.cut, 2);
	CHECK_EQ(counts.delivered, 2);
}

MAN_TEST(link_can_be_changed_while_in_use, stage_two(stage, XK_IPP, &stage_free, do_note))
{
	struct sim_link_config config = stage_wire;

	CHECK_EQ(xk_sim_boot(man->host), 0);
	config.loss = SIM_ALWAYS;
	xk_sim_link_change(stage->link, &config);
	CHECK(xk_sim_link_config(stage->link)->loss == SIM_ALWAYS);
	stage_send(stage);
	config.loss = 0;
	config.latency_ns = 40 * US;
	xk_sim_link_change(stage->link, &config);
	stage_send(stage);
	config.latency_ns = 0;
	xk_sim_link_change(stage->link, &config);
	stage_send(stage);
	xk_sim_run(stage->sim, SECOND);
	/* The third does not overtake frames in flight. */
	CHECK_STR(stage->notes, "come@80000 come@80000 ");
}

/* Two hosts answer each other at once and nothing takes time: only go_on ends it. */
static void
do_answer(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	((struct man *)top->argument)->times++;
	CHECK_EQ(xk_push(lls, m), 0);
}

static bool
is_not_tired(void *context)
{
	return ((struct man *)context)->times < 1000;
}

TEST(endless_instant_can_be_stopped)
{
	struct sim_link_config ideal = sim_link_preset_find("ideal")->config;
	struct stage stage;

	stage_open(&stage, &ideal);
	for (unsigned i = 0; i < 2; i++)
		CHECK_EQ(xk_sim_boot(stage_add(&stage, i == 0 ? XK_IPP : XK_REGULAR, &stage_free, 0, do_answer)->host),
			 0);
	stage_send(&stage);
	CHECK(xk_sim_run_while(stage.sim, SECOND, is_not_tired, &stage.men[1]));
	CHECK_EQ(xk_sim_now_ns(stage.sim), 0);
	CHECK_EQ(stage.men[1].times, 1000);
	stage_close(&stage);
}

static struct xk_kernel *
boot_nothing(void *context, struct xk_sim_host *host)
{
	struct xk_port **ports = context;

	for (unsigned n = 0; n < 6; n++)
		ports[n] = xk_sim_port_new(host, n);
	return NULL;
}

TEST(host_has_up_to_four_devices_with_ports)
{
	struct sim_link_config wire = stage_wire;
	struct xk_sim *sim = xk_sim_new(1);
	struct xk_port *ports[6];
	struct xk_sim_host *host = xk_sim_host_new(
		sim, &(struct xk_sim_host_config){ .name = "host", .boot = boot_nothing, .context = ports });
	struct xk_sim_host *other = xk_sim_host_new(sim, &(struct xk_sim_host_config){ .name = "other" });
	struct xk_sim_link *link;
	char name[8];

	wire.kind = SIM_LINK_WIRE;
	CHECK_EQ(xk_sim_attach(host, "bad", xk_sim_link_new(sim, "bad", &wire), 0x010000000001), -EINVAL);
	for (unsigned n = 0; n < 4; n++) {
		snprintf(name, sizeof(name), "port%u", n);
		wire.mtu = 1000 + n;
		link = xk_sim_link_new(sim, name, &wire);
		CHECK_EQ(xk_sim_attach(host, name, link, 0x020000000001), 0);
		CHECK_EQ(xk_sim_attach(other, name, link, 0x020000000001), -EEXIST);
		CHECK_EQ(xk_sim_attach(other, name, link, 0x020000000002), 0);
		CHECK_EQ(xk_sim_attach(other, name, link, 0x020000000003), -ENOSPC); /* a wire has two ends */
	}
	CHECK_EQ(xk_sim_attach(host, "fifth", xk_sim_link_new(sim, "fifth", &wire), 0x020000000001), -ENOSPC);
	CHECK_EQ(xk_sim_boot(host), -EIO);
	for (unsigned n = 0; n < 4; n++) {
		snprintf(name, sizeof(name), "port%u", n);
		REQUIRE(ports[n] != NULL);
		CHECK_STR(ports[n]->name, name);
		CHECK_EQ(ports[n]->mtu, 1000 + n);
		CHECK(xk_sim_port_new(host, n) == NULL); /* already made */
		ports[n]->ops->close(ports[n]);
	}
	CHECK(ports[4] == NULL && ports[5] == NULL);
	CHECK(xk_sim_first_host(sim) == host && xk_sim_next_host(host) == other && xk_sim_next_host(other) == NULL);
	CHECK_EQ(xk_sim_host_number(other), 1);
	CHECK_STR(xk_sim_link_name(xk_sim_first_link(sim)), "bad");
	CHECK_EQ(xk_sim_free(sim), 0);
}

TEST(seeds_depend_on_their_purpose)
{
	struct xk_sim *a = xk_sim_new(1), *b = xk_sim_new(1), *c = xk_sim_new(2);

	CHECK(xk_sim_seed(a, "x") == xk_sim_seed(b, "x"));
	CHECK(xk_sim_seed(a, "x") != xk_sim_seed(a, "y"));
	CHECK(xk_sim_seed(a, "x") != xk_sim_seed(c, "x"));
	xk_sim_free(a);
	xk_sim_free(b);
	xk_sim_free(c);
}
