/*
 * device.c - hosts' devices and links: frames pass through the link's model, arrive at their time, and wait for the
 * driver. Frames in flight are plain bytes, so hosts share nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "platform/sim/link_private.h"
#include "platform/sim/sim_private.h"

struct device_port {
	struct xk_port port;
	struct sim_device *device;
};

static struct sim_device *
device_of(struct xk_port *port)
{
	return xk_container_of(port, struct device_port, port)->device;
}

static void
device_record(struct sim_device *device, enum xk_sim_event event, uint64_t number, const uint8_t *bytes, size_t len,
	      const char *why)
{
	struct xk_sim *sim = device->host->sim;

	sim_record(sim, &(struct xk_sim_record){ .event = event,
						 .at_ns = sim->now_ns,
						 .host = device->host,
						 .link = device->link,
						 .device = device->number,
						 .frame = bytes,
						 .len = len,
						 .why = why,
						 .number = number });
}

/* ---- frames in flight ---- */

/* Returns a frame with room for len bytes, recycled if it is short, or NULL without memory. */
static struct sim_frame *
frame_alloc(struct xk_sim *sim, size_t len)
{
	struct sim_frame *frame = sim->kept_frames;

	if (!SIM_RECYCLES || len > SIM_FRAME_KEPT)
		return malloc(sizeof(*frame) + len);
	if (frame == NULL)
		return malloc(sizeof(*frame) + SIM_FRAME_KEPT);
	sim->kept_frames = frame->next;
	sim->kept_frame_count--;
	return frame;
}

static void
frame_free(struct xk_sim *sim, struct sim_frame *frame)
{
	if (!SIM_RECYCLES || frame->len > SIM_FRAME_KEPT || sim->kept_frame_count == SIM_FRAMES_KEPT) {
		free(frame);
		return;
	}
	sim->kept_frame_count++;
	frame->next = sim->kept_frames;
	sim->kept_frames = frame;
}

void
sim_frames_fini(struct xk_sim *sim)
{
	while (sim->kept_frames != NULL) {
		struct sim_frame *frame = sim->kept_frames;

		sim->kept_frames = frame->next;
		free(frame);
	}
}

/* ---- in ---- */

static void
device_lose(struct sim_device *device, struct sim_frame *frame, uint64_t *counter, const char *why)
{
	*counter += 1;
	device_record(device, XK_SIM_LOST, frame->number, frame->bytes, frame->len, why);
	frame_free(device->host->sim, frame);
}

/*
 * Returns the time at which the device's card, which handles one frame at a time, finishes work_ns of work on a frame
 * available at now_ns.
 */
static uint64_t
device_card_done_ns(struct sim_device *device, uint64_t now_ns, uint64_t work_ns)
{
	if (device->card_free_ns < now_ns)
		device->card_free_ns = now_ns;
	device->card_free_ns += work_ns;
	return device->card_free_ns;
}

/* Hands an arrived frame to the driver. */
static void
device_deliver(struct sim_timer *timer)
{
	struct sim_frame *frame = xk_container_of(timer, struct sim_frame, timer);
	struct sim_device *device = frame->device;
	struct xk_sim_host *host = device->host;

	if (device->port == NULL) {
		device_lose(device, frame, &host->counts.unheard, "down");
		return;
	}
	if (device->count == SIM_DEVICE_QUEUE) {
		device_lose(device, frame, &host->counts.full, "full");
		return;
	}
	device_record(device, XK_SIM_ARRIVED, frame->number, frame->bytes, frame->len, frame->fault);
	frame->next = NULL;
	*device->last = frame;
	device->last = &frame->next;
	device->count++;
	if (device->armed)
		sim_platform_wake(&host->memory.platform);
}

/* Lets the next event of the frame's receiver precede its arrival. */
static void
device_delay(struct sim_frame *frame)
{
	struct xk_sim_host *host = frame->device->host;

	frame->is_late = false;
	frame->next = NULL;
	*host->delayed_last = frame;
	host->delayed_last = &frame->next;
}

void
sim_frames_arrive(struct xk_sim *sim, struct sim_frame *frames)
{
	for (struct sim_frame *frame = frames, *next; frame != NULL; frame = next) {
		next = frame->next;
		xk_assert(sim_timer_set(sim, &frame->timer, sim->now_ns) == 0);
	}
}

static void
device_fire(struct sim_timer *timer)
{
	struct sim_frame *frame = xk_container_of(timer, struct sim_frame, timer);
	struct sim_device *device = frame->device;
	struct xk_sim *sim = device->host->sim;
	uint64_t work_ns = sim_link_card_ns(&device->link->config, frame->len, false);

	if (frame->is_late) {
		device_delay(frame);
		return;
	}
	if (work_ns == 0) {
		device_deliver(timer);
		return;
	}
	timer->fire = device_deliver;
	xk_assert(sim_timer_set(sim, timer, device_card_done_ns(device, sim->now_ns, work_ns)) == 0);
}

static struct sim_frame *
device_next(struct sim_device *device)
{
	struct sim_frame *frame = device->first;

	if (frame == NULL)
		return NULL;
	device->first = frame->next;
	if (device->first == NULL)
		device->last = &device->first;
	device->count--;
	return frame;
}

/*
 * Returns true if the host starts a stack for each frame: in IPP mode. A host that is still booting has no kernel yet,
 * but its port may have a receiver.
 */
static bool
device_starts_stacks(const struct xk_port *port, const struct xk_sim_host *host)
{
	const struct xk_kernel *kernel = host->kernel;

	if (kernel == NULL && port->receiver != NULL)
		kernel = port->receiver->protocol->kernel;
	return kernel != NULL && xk_kernel_mode(kernel) == XK_IPP;
}

static unsigned
device_receive(struct xk_port *port, struct xk_msg **frames, unsigned max)
{
	struct sim_device *device = device_of(port);
	struct xk_sim_host *host = device->host;
	const struct xk_sim_costs *costs = &host->config.costs;
	uint64_t each_ns, read_ns = 0;
	unsigned count = 0;

	if (device->first == NULL)
		return 0;
	while (count < max && device->first != NULL) {
		struct sim_frame *frame = device_next(device);
		struct xk_msg *m = xk_memory_frame(port->platform, frame->len);

		if (m == NULL) {
			device_lose(device, frame, &host->counts.no_buffer, "no_buffer");
			xk_port_starved(port, 1);
			continue;
		}
		memcpy(m->data, frame->bytes, frame->len);
		read_ns += sim_link_read_ns(&device->link->config, frame->len);
		frames[count++] = m;
		frame_free(host->sim, frame);
	}
	host->counts.frames_in += count;
	each_ns = costs->frame_in_ns + (device_starts_stacks(port, host) ? costs->stack_start_ns : 0);
	sim_processor_charge(host, count * each_ns + read_ns);
	return count;
}

/* ---- out ---- */

/* A frame being sent, as context for the link's model. */
struct device_sending {
	struct sim_device *from;
	const uint8_t *bytes;
	size_t len;
	uint64_t number;
};

/* Returns a copy of the frame being sent, for `device`, with a timer that fires at at_ns. */
static struct sim_frame *
device_schedule(struct sim_device *device, void (*fire)(struct sim_timer *timer), uint64_t at_ns,
		const struct device_sending *sending)
{
	struct sim_frame *frame = frame_alloc(device->host->sim, sending->len);

	xk_assert(frame != NULL);
	*frame = (struct sim_frame){ .timer = { .fire = fire, .host = device->host },
				     .device = device,
				     .number = sending->number,
				     .len = sending->len };
	memcpy(frame->bytes, sending->bytes, sending->len);
	xk_assert(sim_timer_set(device->host->sim, &frame->timer, at_ns) == 0);
	return frame;
}

/* What happens to a frame at a receiver. */
struct device_fate {
	bool is_lost, is_behind, is_doubled; /* is_behind: the receiver's next event */
	uint64_t late_ns, second_ns;         /* second_ns: how much later the second copy arrives */
	size_t offset;
	uint8_t flip[2];
	unsigned happened; /* enum link_fault_bits */
};

/* Stores what the link's own faults do to a frame, as options of the choice. Returns how many there are. */
static unsigned
device_drawn(const struct sim_arrival *arrival, uint64_t drawn[XK_SIM_FATES_MAX])
{
	uint16_t bits = (uint16_t)(arrival->flip[0] << 8 | arrival->flip[1]);
	unsigned count = 0;

	if (arrival->lost)
		drawn[count++] = XK_SIM_LOSE;
	else if (arrival->is_second) /* its bytes are those of the first */
		drawn[count++] = xk_sim_fate_by(XK_SIM_DOUBLE, arrival->late_ns);
	else if (bits != 0)
		drawn[count++] = xk_sim_fate_by(XK_SIM_DAMAGE, xk_sim_damage(arrival->offset, bits));
	if (!arrival->is_second && arrival->late_ns != 0)
		drawn[count++] = xk_sim_fate_by(XK_SIM_DELAY, arrival->late_ns);
	return count;
}

/* Adds an option of the choice to the frame's fate. */
static void
device_add_fate(struct device_fate *fate, uint64_t option, size_t len)
{
	uint64_t amount = option >> 8;

	switch ((enum xk_sim_fate)(option & 0xff)) {
	case XK_SIM_LOSE:
		fate->is_lost = true;
		break;
	case XK_SIM_DOUBLE:
		fate->is_doubled = true;
		fate->second_ns = amount;
		break;
	case XK_SIM_DELAY:
		fate->happened |= LINK_REORDER;
		fate->is_behind = amount == 0;
		fate->late_ns = amount;
		break;
	case XK_SIM_DAMAGE:
		fate->happened |= LINK_CORRUPT;
		fate->offset = amount == 0 ? len - 1 : (size_t)(amount >> 16);
		fate->flip[0] = amount == 0 ? 1 : (uint8_t)(amount >> 8);
		fate->flip[1] = (uint8_t)amount;
		break;
	default:
		break;
	}
}

/*
 * Asks for the fates of a frame. Those that the link has drawn happen anyway: a loss and a second copy are only told of,
 * and get no others.
 */
static void
device_choose(struct sim_device *to, const struct device_sending *sending, const struct sim_arrival *arrival,
	      struct device_fate *fate)
{
	struct xk_sim *sim = to->host->sim;
	struct xk_sim_choice choice = { .kind = XK_SIM_FRAME, .number = sending->number, .host = to->host };
	uint64_t drawn[XK_SIM_FATES_MAX] = { 0 }, option;
	unsigned count = device_drawn(arrival, drawn);

	for (; choice.place < XK_SIM_FATES_MAX; choice.place++) {
		choice.drawn = drawn[choice.place];
		option = sim_choose(sim, &choice);
		if (option != 0 && !arrival->lost && !arrival->is_second)
			device_add_fate(fate, option, sending->len);
		else if (choice.place >= count)
			break;
	}
}

/* Schedules a copy of the frame for its receiver. */
static struct sim_frame *
device_copy(struct sim_device *to, const struct device_sending *sending, const struct sim_arrival *arrival,
	    const struct device_fate *fate, uint64_t late_ns)
{
	uint64_t at_ns = late_ns > UINT64_MAX - arrival->at_ns ? UINT64_MAX : arrival->at_ns + late_ns;
	struct sim_frame *frame = device_schedule(to, device_fire, at_ns, sending);

	for (size_t i = 0; i < 2; i++) {
		if (arrival->offset + i < frame->len)
			frame->bytes[arrival->offset + i] ^= arrival->flip[i];
		if (fate->offset < frame->len && fate->offset + i < frame->len)
			frame->bytes[fate->offset + i] ^= fate->flip[i];
	}
	return frame;
}

static void
device_arrive(void *context, const struct sim_arrival *arrival)
{
	const struct device_sending *sending = context;
	struct sim_device *to = sending->from->link->devices[arrival->station];
	struct device_fate fate = { .is_lost = false };
	struct sim_frame *frame;

	if (xk_unlikely(to->host->sim->choose != NULL) && (!arrival->lost || strcmp(arrival->fault, "loss") == 0))
		device_choose(to, sending, arrival, &fate);
	if (arrival->lost || fate.is_lost) {
		device_record(to, XK_SIM_LOST, sending->number, sending->bytes, sending->len,
			      arrival->lost ? arrival->fault : "loss");
		return;
	}
	frame = device_copy(to, sending, arrival, &fate, fate.late_ns);
	frame->is_late = fate.is_behind;
	frame->fault = fate.happened == 0 ? arrival->fault : link_fault_names[fate.happened];
	if (fate.is_doubled)
		device_copy(to, sending, arrival, &fate, fate.second_ns)->fault =
			link_fault_names[(fate.happened & LINK_CORRUPT) | LINK_DUPLICATE];
}

/* Sends a frame that was waiting for the link, unless its host has gone down. */
static void
device_begin(struct sim_timer *timer)
{
	struct sim_frame *frame = xk_container_of(timer, struct sim_frame, timer);
	struct sim_device *device = frame->device;
	struct device_sending sending = {
		.from = device, .bytes = frame->bytes, .len = frame->len, .number = frame->number
	};

	if (device->port != NULL && device->host->boots == frame->boot)
		sim_link_begin(device->link->model, device->station, frame->bytes, frame->len,
			       device->host->sim->now_ns, device_arrive, &sending);
	else
		sim_link_withdraw(device->link->model, device->station);
	frame_free(device->host->sim, frame);
}

static void
device_send(struct sim_device *device, const uint8_t *bytes, size_t len, uint64_t now_ns)
{
	struct device_sending sending = {
		.from = device, .bytes = bytes, .len = len, .number = ++device->host->sim->frames
	};
	struct sim_frame *frame;
	uint64_t begins_ns;

	device_record(device, XK_SIM_SENT, sending.number, sending.bytes, sending.len, NULL);
	device->host->counts.frames_out++;
	begins_ns = sim_link_send(device->link->model, device->station, sending.bytes, sending.len, now_ns,
				  device_arrive, &sending);
	if (begins_ns <= now_ns)
		return;
	frame = device_schedule(device, device_begin, begins_ns, &sending);
	frame->boot = device->host->boots;
}

/* Sends a frame that the card has processed, unless its host has gone down. */
static void
device_card_done(struct sim_timer *timer)
{
	struct sim_frame *frame = xk_container_of(timer, struct sim_frame, timer);
	struct sim_device *device = frame->device;
	struct xk_sim *sim = device->host->sim;

	device->card_count--;
	if (device->link->last_ns < sim->now_ns)
		device->link->last_ns = sim->now_ns;
	if (device->port != NULL && device->host->boots == frame->boot)
		device_send(device, frame->bytes, frame->len, device->link->last_ns);
	frame_free(sim, frame);
}

bool
sim_frame_discard(struct xk_sim *sim, struct sim_timer *timer)
{
	if (timer->fire != device_fire && timer->fire != device_deliver && timer->fire != device_begin &&
	    timer->fire != device_card_done)
		return false;
	frame_free(sim, xk_container_of(timer, struct sim_frame, timer));
	return true;
}

/* Sends the frame after the card has processed it; with `waits`, the processor waits for that. */
static void
device_send_by_card(struct sim_device *device, const uint8_t *bytes, size_t len, uint64_t now_ns, uint64_t work_ns)
{
	const struct device_sending sending = { .bytes = bytes, .len = len };
	const struct sim_link_config *config = &device->link->config;
	uint64_t at_ns = device_card_done_ns(device, now_ns, work_ns);
	struct sim_frame *frame = device_schedule(device, device_card_done, at_ns, &sending);

	frame->boot = device->host->boots;
	device->card_count++;
	if (config->waits)
		sim_processor_charge(device->host, at_ns - now_ns + sim_link_frame_ns(config, len));
}

/* Writes m into the controller and sends it, unless the host crashes meanwhile. */
static void
device_write(struct sim_device *device, const struct xk_msg *m)
{
	struct xk_sim_host *host = device->host;
	const struct sim_link_config *config = &device->link->config;
	size_t len = xk_msg_len(m);
	struct sim_link_writing writing = sim_link_write(config, len);
	uint64_t card_ns = sim_link_card_ns(config, len, true), now_ns;
	const uint8_t *bytes = m->data;

	sim_processor_charge(host, writing.before_ns);
	if (host->processor.frozen)
		return;
	now_ns = sim_platform_now_ns(&host->memory.platform);
	if (m->next != NULL) {
		xk_msg_copy_out(m, 0, host->sim->scratch, len);
		bytes = host->sim->scratch;
	}
	if (card_ns > 0) {
		device_send_by_card(device, bytes, len, now_ns, card_ns);
	} else {
		/*
		 * A thread's clock includes the time it owes, and may be ahead of others'; the model's must not go
		 * back.
		 */
		if (device->link->last_ns < now_ns)
			device->link->last_ns = now_ns;
		device_send(device, bytes, len, device->link->last_ns);
	}
	sim_processor_charge(host, writing.after_ns + host->config.costs.frame_out_ns);
}

static unsigned
device_transmit(struct xk_port *port, struct xk_msg **frames, unsigned count)
{
	struct sim_device *device = device_of(port);
	struct xk_sim_host *host = device->host;
	unsigned sent;

	for (sent = 0; sent < count; sent++) {
		if (!host->processor.frozen) {
			if (sim_link_room(device->link->model, device->station) <= device->card_count)
				break;
			device_write(device, frames[sent]);
		}
		xk_msg_free(frames[sent]);
	}
	return sent;
}

/* ---- ports ---- */

static int
device_arm(struct xk_port *port)
{
	struct sim_device *device = device_of(port);

	device->armed = true;
	if (device->first != NULL)
		sim_platform_wake(port->platform);
	return 0;
}

static void
device_disarm(struct xk_port *port)
{
	device_of(port)->armed = false;
}

static void
device_close(struct xk_port *port)
{
	struct sim_device *device = device_of(port);
	struct sim_frame *frame;

	while ((frame = device_next(device)) != NULL)
		frame_free(device->host->sim, frame);
	device->armed = false;
	device->port = NULL;
	free(xk_container_of(port, struct device_port, port));
}

static const struct xk_port_ops device_ops = {
	.receive = device_receive,
	.transmit = device_transmit,
	.arm = device_arm,
	.disarm = device_disarm,
	.close = device_close,
};

struct xk_port *
xk_sim_port_new(struct xk_sim_host *host, unsigned n)
{
	struct sim_device *device = n < host->device_count ? &host->devices[n] : NULL;
	struct device_port *self = device == NULL || device->port != NULL ? NULL : calloc(1, sizeof(*self));

	if (self == NULL)
		return NULL;
	self->device = device;
	self->port = (struct xk_port){ .ops = &device_ops,
				       .platform = &host->memory.platform,
				       .name = device->name,
				       .address = device->address,
				       .mtu = (uint32_t)device->link->config.mtu,
				       .can_sleep = true };
	device->port = &self->port;
	return &self->port;
}

/* ---- links ---- */

struct xk_sim_link *
xk_sim_link_new(struct xk_sim *sim, const char *name, const struct sim_link_config *config)
{
	struct xk_sim_link *link = calloc(1, sizeof(*link));

	if (link == NULL)
		return NULL;
	link->config = *config;
	link->name = strdup(name);
	if (link->name != NULL)
		link->model = sim_link_new(&link->config, xk_sim_seed(sim, name));
	if (link->model == NULL) {
		free(link->name);
		free(link);
		return NULL;
	}
	*sim->links_last = link;
	sim->links_last = &link->next;
	return link;
}

static int
link_join(struct xk_sim_link *link, struct sim_device *device)
{
	struct sim_device **devices = realloc(link->devices, (link->device_count + 1) * sizeof(struct sim_device *));
	int station;

	if (devices == NULL)
		return -ENOMEM;
	link->devices = devices;
	station = sim_link_join(link->model, device->address);
	if (station < 0)
		return station;
	xk_assert((unsigned)station == link->device_count);
	devices[link->device_count++] = device;
	device->link = link;
	device->station = (unsigned)station;
	return 0;
}

int
xk_sim_attach(struct xk_sim_host *host, const char *name, struct xk_sim_link *link, uint64_t address)
{
	struct sim_device *device;
	int error;

	xk_assert(host->kernel == NULL);
	if (host->device_count == SIM_DEVICES_MAX)
		return -ENOSPC;
	device = &host->devices[host->device_count];
	*device = (struct sim_device){ .host = host, .address = address, .number = host->device_count };
	device->last = &device->first;
	device->name = strdup(name);
	error = device->name == NULL ? -ENOMEM : link_join(link, device);
	if (error == 0)
		host->device_count++;
	else
		free(device->name);
	return error;
}

void
xk_sim_link_change(struct xk_sim_link *link, const struct sim_link_config *config)
{
	link->config = *config;
	sim_link_configure(link->model, &link->config);
}

const struct sim_link_config *
xk_sim_link_config(const struct xk_sim_link *link)
{
	return &link->config;
}

void
xk_sim_cut(struct xk_sim_host *host, unsigned n, bool sends, bool receives)
{
	xk_assert(n < host->device_count);
	sim_link_cut(host->devices[n].link->model, host->devices[n].station, sends, receives);
}

void
xk_sim_link_counts(const struct xk_sim_link *link, struct sim_link_counts *counts)
{
	*counts = *sim_link_counts_of(link->model);
}

const char *
xk_sim_link_name(const struct xk_sim_link *link)
{
	return link->name;
}

struct xk_sim_link *
xk_sim_first_link(struct xk_sim *sim)
{
	return sim->links;
}

struct xk_sim_link *
xk_sim_next_link(struct xk_sim_link *link)
{
	return link->next;
}

void
sim_links_free(struct xk_sim *sim)
{
	while (sim->links != NULL) {
		struct xk_sim_link *link = sim->links;

		sim->links = link->next;
		sim_link_free(link->model);
		free(link->devices);
		free(link->name);
		free(link);
	}
}
