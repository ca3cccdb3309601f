/* net_settings.c - the settings of hosts and links in network files; see net_settings.h. */
#include "tools/net/net_settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "graphs/attributes.h"

enum {
	NET_THREADS_MAX = 64,
	NET_STACKS_MAX = 4096,
	NET_BUFFERS_MAX = 1 << 24,
};

/* The latest time of a crash or boot: sums of such times stay far below 2^64. */
#define NET_TIME_MAX (1000000 * UINT64_C(1000000000))

#define NET_SETTING(type, ...) XK_SETTING(type, struct net_host_settings, __VA_ARGS__)
#define NET_COST(name, help) NET_SETTING(TIME, costs.name##_ns, #name, help, .max = XK_SIM_COST_MAX),

static const char *const net_modes[] = { [XK_REGULAR] = "regular", [XK_IPP] = "ipp", NULL };

const struct xk_setting net_host_settings[] = {
	NET_SETTING(CHOICE, mode, "mode", "carrier of arriving messages: regular or ipp (default)",
		    .choices = net_modes),
	NET_SETTING(UINT, threads, "threads", "input threads (regular), pool (ipp); 1", .min = 1,
		    .max = NET_THREADS_MAX),
	NET_SETTING(UINT, stacks, "stacks", "detachable stacks, one of them in reserve; 64", .min = 2,
		    .max = NET_STACKS_MAX),
	NET_SETTING(UINT, buffers, "buffers", "maximum of segments in use; 65536", .min = 1, .max = NET_BUFFERS_MAX),
	NET_SETTING(STRING, costs_name, "costs",
		    "costs of operations on this host: none (default), decstation, modern"),
	/* clang-format off */
	XK_SIM_COSTS(NET_COST)
	/* clang-format on */
	NET_SETTING(TIME, start_ns, "start", "time of the first boot; 0s", .max = NET_TIME_MAX),
	NET_SETTING(TIME, stagger_ns, "stagger", "delay of the first boot for each host before this one; 0s",
		    .max = NET_TIME_MAX / XK_TOPOLOGY_HOSTS_MAX),
	NET_SETTING(STRING, crash_text, "crash", "times of crashes, separated by commas: \"1s,5s\""),
	NET_SETTING(STRING, boot_text, "boot", "times of reboots: one for each crash, or for all but the last"),
	{ .name = NULL },
};

const struct xk_topology_types net_types = {
	.link_settings = sim_link_settings,
	.host_settings = net_host_settings,
	.presets = sim_link_preset_names,
	.protocols = xk_protocol_types,
};

/* Refuses the value of setting `name` of the host or link `of`. */
static void
net_refuse(const struct xk_topology *net, struct xk_graph_errors *errors, const struct xk_graph_attributes *settings,
	   const char *name, const char *of, const char *what)
{
	const struct xk_graph_attribute *a = xk_graph_attribute_find(settings, name);

	xk_topology_refuse(net, errors, a->line, "%s of %s is \"%.80s\": %s", name, of, a->value, what);
}

/* ---- hosts ---- */

/* State of a check of a host's settings. */
struct net_host_check {
	const struct xk_topology *net;
	const struct xk_topology_host *host;
	struct net_host_settings *settings;
	struct xk_graph_errors *errors;
	bool wrong;
};

/* Refuses the value of setting `name` of the host. */
__attribute__((format(printf, 3, 4))) static void
net_host_refuse(struct net_host_check *check, const char *name, const char *format, ...)
{
	va_list arguments;
	char *what;

	va_start(arguments, format);
	what = xk_graph_format(format, arguments);
	va_end(arguments);
	net_refuse(check->net, check->errors, check->host->settings, name, check->host->name, what);
	check->wrong = true;
	free(what);
}

/* Parses a list of times: "1s,5s". */
static void
net_host_times(struct net_host_check *check, const char *name, const char *text, uint64_t *times, unsigned *count)
{
	char time[32];

	*count = 0;
	for (const char *p = text; text[0] != '\0'; p++) {
		size_t len = strcspn(p, ",");

		if (*count == NET_CRASHES_MAX) {
			net_host_refuse(check, name, "more than %d times", NET_CRASHES_MAX);
			return;
		}
		snprintf(time, sizeof(time), "%.*s", (int)len, p);
		if (len >= sizeof(time) || !xk_time_parse(time, &times[*count]) || times[*count] > NET_TIME_MAX) {
			net_host_refuse(check, name, "expected times with commas, like \"1s,1500ms\", up to 1000000s");
			return;
		}
		++*count;
		p += len;
		if (*p == '\0')
			return;
	}
}

static void
net_host_crashes(struct net_host_check *check)
{
	struct net_host_settings *s = check->settings;
	uint64_t last = s->start_ns += s->stagger_ns * check->host->number;

	net_host_times(check, "crash", s->crash_text, s->crash_ns, &s->crash_count);
	net_host_times(check, "boot", s->boot_text, s->boot_ns, &s->boot_count);
	if (check->wrong)
		return;
	for (unsigned i = 0; i < s->crash_count && !check->wrong; i++) {
		if (s->crash_ns[i] <= last)
			net_host_refuse(check, "crash", "crash number %u is not after the host was booted", i + 1);
		else if (i < s->boot_count && s->boot_ns[i] <= s->crash_ns[i])
			net_host_refuse(check, "boot", "boot number %u is not after crash number %u", i + 1, i + 1);
		else if (i >= s->boot_count && i + 1 < s->crash_count)
			net_host_refuse(check, "crash", "crash number %u needs a reboot before it", i + 2);
		last = i < s->boot_count ? s->boot_ns[i] : last;
	}
	if (s->boot_count > s->crash_count)
		net_host_refuse(check, "boot", "boot number %u needs a crash before it", s->crash_count + 1);
}

/* Stores a setting in the struct, as a string or parsed. */
static void
net_host_set(struct net_host_check *check, const struct xk_graph_attribute *a)
{
	const struct xk_setting *setting = attributes_find_setting(net_host_settings, a->name);
	char why[160] = "another value";
	const char *text = a->value;

	if (setting->type == XK_SETTING_STRING)
		memcpy((char *)check->settings + setting->offset, &text, sizeof(text));
	else if (xk_setting_parse(setting, text, check->settings, why, sizeof(why)) != 0)
		net_host_refuse(check, a->name, "%s", why);
}

int
net_host_settings_of(const struct xk_topology *net, const struct xk_topology_host *host,
		     struct net_host_settings *settings, struct xk_graph_errors *errors)
{
	struct net_host_check check = { net, host, settings, errors, false };
	char why[XK_SIM_COSTS_WHY];

	*settings =
		(struct net_host_settings){ .mode = XK_IPP, .costs_name = "none", .crash_text = "", .boot_text = "" };
	for (unsigned i = 0; i < host->settings->count; i++)
		net_host_set(&check, &host->settings->list[i]);
	/* The host's own costs override those of the preset. */
	if (xk_sim_costs_parse(settings->costs_name, &settings->costs, why, sizeof(why)) != 0)
		net_host_refuse(&check, "costs", "%s", why);
	for (unsigned i = 0; i < host->settings->count && !check.wrong; i++)
		net_host_set(&check, &host->settings->list[i]);
	net_host_crashes(&check);
	return check.wrong ? -EINVAL : 0;
}

/* ---- links ---- */

int
net_link_config_of(const struct xk_topology *net, const struct xk_topology_link *link, struct sim_link_config *config,
		   struct xk_graph_errors *errors)
{
	const struct sim_link_preset *preset = sim_link_preset_find(link->preset);
	const char *wrong;
	char why[160] = "another value";
	int result = 0;

	xk_assert(preset != NULL);
	*config = preset->config;
	for (unsigned i = 0; i < link->settings.count; i++) {
		const struct xk_graph_attribute *a = &link->settings.list[i];

		if (sim_link_set(config, a->name, a->value, why, sizeof(why)) == 0)
			continue;
		net_refuse(net, errors, &link->settings, a->name, link->name, why);
		result = -EINVAL;
	}
	if (result != 0)
		return result;
	wrong = sim_link_check(config);
	if (wrong != NULL)
		xk_topology_refuse(net, errors, link->line, "link %s: %s", link->name, wrong);
	else if (config->kind == SIM_LINK_WIRE && link->device_count != 2)
		xk_topology_refuse(net, errors, link->line, "link %s is a wire: it joins two hosts, not %u", link->name,
				   link->device_count);
	else
		return 0;
	return -EINVAL;
}

/* ---- all settings ---- */

int
net_check(const struct xk_topology *net, struct xk_graph_errors *errors)
{
	struct net_host_settings settings;
	struct sim_link_config config;
	bool link_wrong = false, wrong = false;

	/* Report each mistake once: hosts of one `count` share their settings, and links of one edge its line. */
	for (unsigned i = 0; i < net->host_count; i++)
		if (i == 0 || net->hosts[i - 1].settings != net->hosts[i].settings)
			wrong |= net_host_settings_of(net, &net->hosts[i], &settings, errors) != 0;
	for (unsigned i = 0; i < net->link_count; i++) {
		const struct xk_topology_link *link = &net->links[i];

		if (link_wrong && link->is_edge && link[-1].is_edge && link->written == link[-1].written)
			continue;
		link_wrong = net_link_config_of(net, link, &config, errors) != 0;
		wrong |= link_wrong;
	}
	return wrong ? -EINVAL : 0;
}

struct xk_topology *
net_load(const char *file, const char *const *sets, unsigned set_count, struct xk_graph_errors *errors)
{
	struct xk_topology *net = xk_topology_load(file, sets, set_count, &net_types, errors);

	if (net == NULL || net_check(net, errors) == 0)
		return net;
	xk_topology_free(net);
	return NULL;
}
