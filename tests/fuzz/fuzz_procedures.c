/* fuzz_procedures.c - see fuzz_procedures.h. */
#include "tests/fuzz/fuzz_procedures.h"

#include <errno.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_rpc.h"

enum { PROCEDURES_USERS = 3, PROCEDURES_CALLS = 4, PROCEDURES_DELAY_US = 5000 };

struct procedures {
	struct xk_protocol protocol;
	unsigned users; /* users that have not ended */
};

/* Both procedures return the request; the second waits first. */
static int
procedures_call_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_msg **reply)
{
	struct xk_participants who;

	FUZZ_CHECK(xk_get_participants(lls, &who) == 0);
	if (xk_participant_pop(&who.local) != FUZZ_PROCEDURE)
		xk_delay(self, PROCEDURES_DELAY_US);
	*reply = m;
	return 0;
}

static void
procedures_live(void *argument)
{
	struct procedures *p = argument;
	struct xk_protocol *self = &p->protocol;

	for (unsigned i = 0; i < PROCEDURES_CALLS; i++) {
		struct xk_participants to = { .remote = { 2, { FUZZ_PEER_HOST, FUZZ_PROCEDURE + i % 3 } } };
		struct xk_msg *m, *reply;
		struct xk_session *s;

		if (xk_open(self, self, xk_lower(self, 0), &to, &s) != 0)
			continue;
		m = xk_msg_new(xk_platform_of(self), i % 2 == 0 ? 8 : 3000);
		if (m != NULL && xk_call(s, m, &reply) == 0)
			xk_msg_free(reply);
		xk_close(s);
	}
	p->users--;
}

static int
procedures_init(struct xk_protocol *self)
{
	int err = 0;

	for (unsigned i = 0; i < FUZZ_PROCEDURES && err == 0; i++) {
		struct xk_participants procedure = { .local = { 1, { FUZZ_PROCEDURE + i } } };

		err = xk_open_enable(self, self, xk_lower(self, 0), &procedure);
	}
	return err;
}

static const struct xk_role procedures_lowers[] = {
	{ "calls", XK_RPC, NULL, "carries calls by number" },
	{ NULL, 0, NULL, NULL },
};

static const struct xk_protocol_ops procedures_ops = { .init = procedures_init, .call_demux = procedures_call_demux };

const struct xk_protocol_type fuzz_procedures_type = {
	.name = "procedures",
	.help = "Serves procedures, and calls those of a peer.",
	.ops = &procedures_ops,
	.size = sizeof(struct procedures),
	.lowers = procedures_lowers,
};

void
fuzz_procedures_start(struct xk_kernel *kernel)
{
	struct procedures *p = (struct procedures *)xk_kernel_find(kernel, "procedures");

	for (; p != NULL && p->users < PROCEDURES_USERS; p->users++)
		FUZZ_CHECK(xk_thread_start(kernel, "procedures", procedures_live, p) == 0);
}

void
fuzz_procedures_check(struct xk_kernel *kernel)
{
	struct procedures *p = (struct procedures *)xk_kernel_find(kernel, "procedures");

	FUZZ_CHECK(p == NULL || p->users == 0);
}
