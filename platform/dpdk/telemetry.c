/*
 * telemetry.c - a kernel's counts for DPDK's telemetry clients (dpdk-telemetry.py), as /xkernel/... DPDK calls from its
 * own thread and passes no context to the handlers, so the kernel that they report on is global.
 */
#include <ctype.h>
#include <pthread.h>
#include <rte_eal.h>
#include <rte_telemetry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "platform/dpdk/dpdk_private.h"
#include "xkernel/kernel.h"
#include "xkernel/trace.h"

enum {
	TELEMETRY_NAME = 128,
	TELEMETRY_EDGES = 64, /* per answer, which DPDK limits to 16 KB */
};

static struct {
	pthread_mutex_t lock;
	struct xk_kernel *kernel; /* NULL: none */
	void (*before_answer)(void *context);
	void *context;
	bool is_registered;
} telemetry = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- answers ---- */

/* Joins two strings into a key, with `_` for characters that DPDK does not allow. */
static const char *
telemetry_key(char key[TELEMETRY_NAME], const char *first, const char *second)
{
	snprintf(key, TELEMETRY_NAME, "%s%s", first, second);
	for (char *p = key; *p != '\0'; p++)
		if (!isalnum((unsigned char)*p) && *p != '_' && *p != '/')
			*p = '_';
	return key;
}

static uint64_t
telemetry_load(_Atomic uint64_t *count)
{
	return atomic_load_explicit(count, memory_order_relaxed);
}

static int
telemetry_protocols(struct xk_kernel *kernel, const char *params, struct rte_tel_data *answer)
{
	(void)params;
	rte_tel_data_start_array(answer, RTE_TEL_STRING_VAL);
	for (struct xk_protocol *p = xk_kernel_first(kernel); p != NULL; p = p->next)
		rte_tel_data_add_array_string(answer, p->name);
	return 0;
}

static int
telemetry_protocol(struct xk_kernel *kernel, const char *params, struct rte_tel_data *answer)
{
	struct xk_protocol *p = params == NULL ? NULL : xk_kernel_find(kernel, params);
	char key[TELEMETRY_NAME];

	if (p == NULL)
		return -EINVAL;
	rte_tel_data_start_dict(answer);
	rte_tel_data_add_dict_string(answer, "name", p->name);
	rte_tel_data_add_dict_string(answer, "protocol", p->type->name);
	for (unsigned i = 1; i < xk_drop_count(p->type); i++)
		rte_tel_data_add_dict_u64(answer, telemetry_key(key, "drops/", xk_drop_name(p->type, i)),
					  telemetry_load(&p->drops[i]));
	for (unsigned i = 0; p->type->counters != NULL && p->type->counters[i] != NULL; i++)
		rte_tel_data_add_dict_u64(answer, telemetry_key(key, "counters/", p->type->counters[i]),
					  xk_counter(p, i));
	return 0;
}

static void
telemetry_add_edge(struct rte_tel_data *answer, struct xk_edge *edge)
{
	struct rte_tel_data *counts = rte_tel_data_alloc();
	char key[TELEMETRY_NAME], name[TELEMETRY_NAME];

	if (counts == NULL)
		return;
	rte_tel_data_start_dict(counts);
	for (unsigned i = 0; i < XK_DIRECTIONS; i++) {
		struct xk_edge_count *count = &edge->counts[i];

		rte_tel_data_add_dict_u64(counts, xk_direction_names[i], telemetry_load(&count->messages));
		rte_tel_data_add_dict_u64(counts, telemetry_key(key, xk_direction_names[i], "_timed"),
					  telemetry_load(&count->timed));
		rte_tel_data_add_dict_u64(counts, telemetry_key(key, xk_direction_names[i], "_ns"),
					  telemetry_load(&count->ns));
	}
	for (unsigned i = 0; i < XK_HANDOFF_REASONS; i++)
		rte_tel_data_add_dict_u64(counts, telemetry_key(key, "handoffs_", xk_handoff_names[i]),
					  telemetry_load(&edge->handoffs[i]));
	snprintf(name, sizeof(name), "%.40s/%.40s/%.40s", edge->upper->name, edge->lower->name, edge->role);
	telemetry_key(key, name, "");
	if (rte_tel_data_add_dict_container(answer, key, counts, 0) != 0)
		rte_tel_data_free(counts);
}

static int
telemetry_edges(struct xk_kernel *kernel, const char *params, struct rte_tel_data *answer)
{
	unsigned long from = params == NULL ? 0 : strtoul(params, NULL, 10), index = 0;

	rte_tel_data_start_dict(answer);
	for (struct xk_protocol *p = xk_kernel_first(kernel); p != NULL; p = p->next)
		for (unsigned i = 0; i < p->lower_count; i++, index++)
			if (index >= from && index - from < TELEMETRY_EDGES)
				telemetry_add_edge(answer, p->lowers[i]);
	return 0;
}

static void
telemetry_add_driver(struct rte_tel_data *answer, struct xk_kernel *kernel, unsigned index)
{
	struct rte_tel_data *counts = rte_tel_data_alloc();
	struct xk_kernel_stats stats;
	char key[16];

	if (counts == NULL)
		return;
	xk_kernel_driver_stats(kernel, index, &stats);
	rte_tel_data_start_dict(counts);
	for (const struct xk_kernel_count *count = xk_kernel_counts; count->name != NULL; count++)
		rte_tel_data_add_dict_u64(counts, count->name,
					  *(const uint64_t *)((const char *)&stats + count->offset));
	snprintf(key, sizeof(key), "%u", index);
	if (rte_tel_data_add_dict_container(answer, key, counts, 0) != 0)
		rte_tel_data_free(counts);
}

static int
telemetry_drivers(struct xk_kernel *kernel, const char *params, struct rte_tel_data *answer)
{
	(void)params;
	rte_tel_data_start_dict(answer);
	for (unsigned i = 0; i < xk_kernel_drivers(kernel); i++)
		telemetry_add_driver(answer, kernel, i);
	return 0;
}

/* ---- handlers for DPDK ---- */

static const struct telemetry_command {
	const char *name;
	int (*answer)(struct xk_kernel *kernel, const char *params, struct rte_tel_data *answer);
	const char *help;
} telemetry_commands[] = {
	{ "/xkernel/protocols", telemetry_protocols, "The names of the graph's protocols. No parameters" },
	{ "/xkernel/protocol", telemetry_protocol, "Drops and counters of a protocol. Parameter: its name" },
	{ "/xkernel/edges", telemetry_edges,
	  "Handoffs of each edge, and messages while they are counted. Parameter: number of the first edge (0)" },
	{ "/xkernel/drivers", telemetry_drivers, "Counts of each driver. No parameters" },
};

/* Answers with the lock held, so that the kernel is not freed meanwhile. */
static int
telemetry_answer(const char *name, const char *params, struct rte_tel_data *answer)
{
	int status = -ENODEV;

	pthread_mutex_lock(&telemetry.lock);
	for (size_t i = 0; telemetry.kernel != NULL && i < XK_ARRAY_LENGTH(telemetry_commands); i++)
		if (strcmp(telemetry_commands[i].name, name) == 0) {
			telemetry.before_answer(telemetry.context);
			status = telemetry_commands[i].answer(telemetry.kernel, params, answer);
			break;
		}
	pthread_mutex_unlock(&telemetry.lock);
	return status;
}

int
xk_dpdk_telemetry_begin(struct xk_kernel *kernel, void (*before_answer)(void *context), void *context)
{
	int error;

	pthread_mutex_lock(&telemetry.lock);
	error = telemetry.kernel != NULL ? -EBUSY : 0;
	for (size_t i = 0; i < XK_ARRAY_LENGTH(telemetry_commands) && error == 0 && !telemetry.is_registered; i++)
		error = rte_telemetry_register_cmd(telemetry_commands[i].name, telemetry_answer,
						   telemetry_commands[i].help);
	if (error == 0) {
		telemetry.is_registered = true;
		telemetry.kernel = kernel;
		telemetry.before_answer = before_answer;
		telemetry.context = context;
	}
	pthread_mutex_unlock(&telemetry.lock);
	return error;
}

void
xk_dpdk_telemetry_end(struct xk_kernel *kernel)
{
	pthread_mutex_lock(&telemetry.lock);
	if (telemetry.kernel == kernel)
		telemetry.kernel = NULL;
	pthread_mutex_unlock(&telemetry.lock);
}
