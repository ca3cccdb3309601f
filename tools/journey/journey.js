"use strict";
/*
 * journey.js - steps through a run, which journey.c has written into the page as JSON:
 *
 * hosts   by number: name, nodes ({name, type, virtual, port}), edges ([upper, lower, "handoff", "budget", "control" or ""])
 * types   by name: header (bytes), fields (name, bits, kind, print, mask, rare, values), help, options (at, shift, bits,
 *         unit: the place of the header's length; list: name, kind, once, each (bytes of fields, and of repeated ones), fields)
 * places, links   names
 * steps   from 1 on:
 *   t  time in ns            h  host               k  kind: up, down (m crosses from node a to node b), handoff, drop,
 *   m  message               w  place (carrier)       say, sent, arrived, lost (a frame), booted, crashed
 *   c  the previous step of this message, from which its content comes; because: the step that led to it
 *   n  length in bytes       x  first bytes        segments  their lengths (a last 0: there are more)
 *   s  session, made: its first crossing           again  the step that first sent the same payload
 *   timer  a timer began it  reply  of a call      path  nodes that were passed by path
 *   frame, link, reason, text
 */
const data = JSON.parse(document.getElementById("journey").textContent);
const steps = data.steps, count = steps.length;
const step = number => steps[number - 1];
const isCrossing = s => s.k === "up" || s.k === "down";
const node = (s, index) => data.hosts[s.h].nodes[index];
const name = (s, index) => index === undefined ? "the kernel" : node(s, index).name;
const typeOf = (s, index) => data.types[node(s, index).type];
const place = s => s.w === undefined ? "" : data.places[s.w];
const carrier = s => place(s).startsWith("driver") ? "driver" : "thread";
const byMessage = new Map(), byFrame = new Map(), rows = [];
let current = 0, message = 0, picked = -1, playing = 0;

steps.forEach((s, i) => {
	s.i = i + 1;
	if (s.m) {
		if (!byMessage.has(s.m))
			byMessage.set(s.m, []);
		byMessage.get(s.m).push(s.i);
	}
	if (s.frame) {
		if (!byFrame.has(s.frame))
			byFrame.set(s.frame, []);
		byFrame.get(s.frame).push(s);
	}
	if (s.frame || s.timer || s.again || ["booted", "crashed", "handoff", "drop"].includes(s.k)) {
		s.row = rows.length;
		rows.push(s);
	}
});

/* ---- elements ---- */

const byId = id => document.getElementById(id);

function fill(element, attributes, children) {
	for (const [key, value] of Object.entries(attributes || {}))
		if (key === "on")
			element.addEventListener("click", value);
		else if (value !== undefined && value !== false)
			element.setAttribute(key, value);
	element.append(...children.filter(child => child !== undefined && child !== ""));
	return element;
}

const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
	fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const link = (number, text) => el("a", { href: `#step=${number}` }, text);

function seconds(ns) {
	const text = String(ns).padStart(10, "0");
	return `${text.slice(0, -9)}.${text.slice(-9)} s`;
}

const plural = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

/* ---- headers ---- */

/* Returns the value of a field as traces print it. */
function fieldText(field, value) {
	const named = (field.values || []).find(v => BigInt(v[0]) === value);
	if (field.mask) {
		const names = [];
		for (const [bits, bitName] of field.values || [])
			if (value & BigInt(bits)) {
				names.push(bitName);
				value &= ~BigInt(bits);
			}
		if (value || !names.length)
			names.push("0x" + value.toString(16));
		return names.join("|");
	}
	if (named)
		return named[1];
	if (field.print === "host")
		return [24n, 16n, 8n, 0n].map(shift => value >> shift & 255n).join(".");
	if (field.print === "link")
		return value.toString(16).padStart(12, "0").replace(/..(?=.)/g, "$&:");
	if (field.print === "hex")
		return value.toString(16).padStart(Math.ceil(field.bits / 4), "0");
	return value.toString();
}

const byteAt = (hex, at) => parseInt(hex.substr(2 * at, 2), 16);

/* Returns the length of a header with its options, at the start of n bytes. */
function headerSize(type, hex, n) {
	const o = type.options, claimed = o ? (byteAt(hex, o.at) >> o.shift & (1 << o.bits) - 1) * o.unit : 0;
	return claimed > type.header && claimed <= n ? claimed : Math.min(type.header, n);
}

/* Returns the field at bit `at`: name, text, bytes, kind, and whether the value has a name. */
function decodeField(field, hex, at) {
	const value = BigInt("0x" + hex) >> BigInt(hex.length * 4 - at - field.bits) & (1n << BigInt(field.bits)) - 1n;
	return {
		name: field.name, text: fieldText(field, value), kind: field.kind, help: field.help,
		bytes: at % 8 === 0 && field.bits % 8 === 0 ? hex.substr(at / 4, field.bits / 4) : plural(field.bits, "bit"),
		isNamed: !field.mask && (field.values || []).some(v => BigInt(v[0]) === value),
	};
}

/* Returns the options behind a header as fields; those without a field of their own have only bytes. */
function decodeOptions(type, hex) {
	const size = hex.length / 2, fields = [];
	for (let at = type.header, len; at < size && byteAt(hex, at) !== 0; at += len) {
		const kind = byteAt(hex, at), option = type.options.list.find(o => o.kind === kind);
		len = kind === 1 ? 1 : at + 1 < size ? byteAt(hex, at + 1) : 0;
		if (kind === 1)
			continue;
		const isWhole = len >= 2 && at + len <= size, bytes = hex.substr(2 * at, isWhole ? 2 * len : undefined);
		const label = option ? option.name : `option ${kind}`;
		if (!isWhole || !option || option.fields.length === 0) {
			fields.push({ name: label, text: isWhole ? "" : "malformed", kind: "varies", bytes });
			if (!isWhole)
				break;
			continue;
		}
		for (let bit = 16, i = 0; bit < 8 * len && i < option.fields.length;) {
			const field = option.fields[i++];
			if (bit + field.bits > 8 * len)
				break;
			const decoded = decodeField(field, bytes, bit);
			decoded.name = field.name === label ? label : `${label}: ${field.name}`;
			fields.push(decoded);
			bit += field.bits;
			if (i === option.fields.length && option.each > 0) {
				let left = 8 * option.each;
				while (left > 0)
					left -= option.fields[--i].bits;
			}
		}
	}
	return fields;
}

/* Returns the fields of a header, and of its options. */
function decode(type, hex) {
	const fields = [];
	let at = 0;
	for (const field of type.fields) {
		if (at + field.bits > hex.length * 4)
			break;
		fields.push(decodeField(field, hex, at));
		at += field.bits;
	}
	return type.options ? fields.concat(decodeOptions(type, hex)) : fields;
}

const header = (s, index, hex, n) => ({ kind: "header", name: name(s, index), type: typeOf(s, index), hex, n });
const payload = (n, hex) => ({ kind: "payload", name: plural(n, "byte"), n, hex });

/* Returns the parts of a message that crosses downward: headers from the outermost, payload last. */
function layersDown(s) {
	const blocks = [];
	while (s) {
		const before = s.c ? step(s.c) : undefined;
		const inner = before && before.k === "down" && before.m === s.m ? before : undefined;
		let size = typeOf(s, s.a).header;
		if (s.path) { /* several headers at once: a's and those of the passed nodes, innermost first */
			let at = 0;
			for (const index of [s.a, ...s.path.slice().reverse()]) {
				const len = headerSize(typeOf(s, index), s.x.slice(2 * at), s.n - at);
				if (len > 0)
					blocks.push(header(s, index, s.x.slice(2 * at, 2 * (at + len)), len));
				at += len;
			}
			size = at;
		} else if (size > 0 && size <= s.n) {
			size = headerSize(typeOf(s, s.a), s.x, s.n);
			blocks.push(header(s, s.a, s.x.slice(0, 2 * size), size));
		} else {
			size = 0;
		}
		if (!inner || inner.n !== s.n - size) {
			if (inner)
				blocks.push({ kind: "part", name: `${s.n - size} of ${inner.n} bytes`, n: s.n - size, of: inner });
			else if (s.n > size)
				blocks.push(payload(s.n - size, s.x.slice(2 * size)));
			break;
		}
		s = inner;
	}
	return blocks;
}

/* Returns the frame in which an upward message arrived. */
function arrivalOf(s) {
	while (s && s.k !== "arrived")
		s = s.c ? step(s.c) : undefined;
	return s;
}

/* Returns the parts of a step's message; `gone` marks the removed headers, `now` the relevant ones. */
function layers(s) {
	let blocks = [];
	if (s.k === "handoff" || s.k === "drop")
		return s.c ? layers(step(s.c)) : blocks;
	if (s.k === "down") {
		blocks = layersDown(s);
		for (let i = 0; i <= (s.path || []).length && blocks[i] && blocks[i].kind === "header"; i++)
			blocks[i].now = s.path !== undefined || typeOf(s, s.a).header > 0;
	} else if (s.frame) {
		const sent = byFrame.get(s.frame)[0], crossing = sent && sent.c ? step(sent.c) : undefined;
		blocks = crossing ? layersDown(crossing) : [payload(s.n, s.x || "")];
	} else if (s.k === "up") {
		const arrived = arrivalOf(s), type = typeOf(s, s.b), own = headerSize(type, s.x, s.n);
		let all = arrived ? layers(arrived) : [];
		const last = all[all.length - 1];
		if (last && last.kind === "part" && s.n > last.n) /* it was reassembled */
			all = all.slice(0, -1).concat(layersDown(last.of));
		let at = all.findIndex(block => block.type === type);
		if (at < 0 || own === 0)
			at = all.findIndex(block => block.kind !== "header");
		if (own === 0 && at >= 0 && node(s, s.b).virtual) { /* without a header of its own: the others' are still there */
			let left = 0;
			at = all.length;
			while (at > 0 && left < s.n)
				left += all[--at].n;
		}
		blocks = (at < 0 ? all : all.slice(0, at)).filter(block => block.kind === "header");
		blocks.forEach(block => block.gone = true);
		if (own > 0) {
			const front = header(s, s.b, s.x.slice(0, 2 * own), own);
			front.now = true;
			blocks.push(front);
			if (at >= 0 && all[at].type === type)
				blocks.push(...all.slice(at + 1));
			else if (s.n > own)
				blocks.push(payload(s.n - own, s.x.slice(2 * own)));
		} else if (at >= 0 && all.slice(at).reduce((sum, block) => sum + block.n, 0) === s.n) {
			blocks.push(...all.slice(at));
		} else if (s.n > 0) {
			blocks.push(payload(s.n, s.x));
		}
	}
	return blocks;
}

/* Describes a frame briefly: its innermost header, and a named value in it. */
function frameLabel(s) {
	const headers = layers(s).filter(block => block.kind === "header"), inner = headers[headers.length - 1];
	const isPart = layers(s).some(block => block.kind === "part");
	const named = inner && decode(inner.type, inner.hex).find(field => field.isNamed);
	return `${inner ? inner.name : "frame"}${named ? " " + named.text : ""}${isPart ? ", a part" : ""}`;
}

/* ---- the hosts' graphs ---- */

const nodeHeight = 28, rowHeight = 56, wireHeight = 34;

/* Places the nodes of a graph in rows, lowers below uppers, and routes edges around nodes. */
function layout(host) {
	const ranks = host.nodes.map(() => 0), rowsOf = [];
	const items = host.nodes.map((n, i) => ({ node: i, width: 22 + 8 * n.name.length, near: [] }));
	const lines = [];
	host.edges.slice().sort((a, b) => a[0] - b[0]).forEach(([upper, lower]) => {
		ranks[upper] = Math.max(ranks[upper], ranks[lower] + 1);
	});
	items.forEach((item, i) => item.rank = ranks[i]);
	for (const [upper, lower, mark] of host.edges) {
		const points = [items[upper]];
		for (let rank = ranks[upper] - 1; rank > ranks[lower]; rank--) {
			const bend = { node: -1, width: 16, near: [], rank };
			items.push(bend);
			points.push(bend);
		}
		points.push(items[lower]);
		for (let i = 1; i < points.length; i++) {
			points[i].near.push(points[i - 1]);
			points[i - 1].near.push(points[i]);
		}
		lines.push({ upper, lower, mark, points });
	}
	for (const item of items)
		(rowsOf[item.rank] = rowsOf[item.rank] || []).push(item);
	for (const row of rowsOf)
		row.forEach((item, i) => item.x = 70 * i);
	for (let round = 0; round < 30; round++)
		for (const row of round % 2 ? rowsOf.slice().reverse() : rowsOf) {
			for (const item of row)
				item.wish = item.near.length
					? item.near.reduce((sum, other) => sum + other.x, 0) / item.near.length : item.x;
			row.sort((a, b) => a.wish - b.wish || b.width - a.width);
			let shift = 0;
			row.forEach((item, i) => {
				const before = row[i - 1];
				item.x = before ? Math.max(item.wish, before.x + (before.width + item.width) / 2 + 14) : item.wish;
				shift += (item.x - item.wish) / row.length;
			});
			row.forEach(item => item.x -= shift);
		}
	const left = Math.min(...items.map(item => item.x - item.width / 2));
	const right = Math.max(...items.map(item => item.x + item.width / 2));
	for (const item of items) {
		item.x += 12 - left;
		item.y = 8 + (rowsOf.length - 1 - item.rank) * rowHeight + nodeHeight / 2;
	}
	return { items, lines, width: Math.max(right - left + 24, 150), height: (rowsOf.length - 1) * rowHeight + nodeHeight + 16 + wireHeight };
}

const bottom = item => item.y + (item.node < 0 ? 0 : nodeHeight / 2);
const top_ = item => item.y - (item.node < 0 ? 0 : nodeHeight / 2);

function edgePath(points) {
	let path = `M${points[0].x} ${bottom(points[0])}`;
	for (let i = 1; i < points.length; i++) {
		const from = points[i - 1], to = points[i], middle = (bottom(from) + top_(to)) / 2;
		path += ` C${from.x} ${middle} ${to.x} ${middle} ${to.x} ${top_(to)}`;
	}
	return path;
}

const views = data.hosts.map(host => {
	const plan = layout(host);
	const picture = svg("svg", { viewBox: `0 0 ${plan.width} ${plan.height}`, role: "img", "aria-label": `graph of ${host.name}` });
	const view = { plan, picture, nodes: [], edges: [], extras: svg("g") };
	for (const line of plan.lines) {
		const kind = line.mark === "control" ? " control" : line.mark === "handoff" ? " marked" : "";
		const element = svg("path", { class: "edge" + kind, d: edgePath(line.points) });
		view.edges.push({ line, element, usual: "edge" + kind });
		picture.append(element);
	}
	host.nodes.forEach((n, i) => {
		const item = plan.items[i], usual = "node" + (n.virtual ? " virtual" : "");
		const element = svg("g", { class: usual },
			svg("title", {}, `${n.name === n.type ? "" : n.type + ": "}${data.types[n.type].help}`),
			svg("rect", { x: item.x - item.width / 2, y: item.y - nodeHeight / 2, width: item.width, height: nodeHeight,
				rx: n.port ? 0 : 6 }),
			svg("text", { x: item.x, y: item.y + 5 }, n.name));
		view.nodes.push({ item, element, usual });
		picture.append(element);
	});
	for (const port of view.nodes.filter((n, i) => host.nodes[i].port))
		picture.append(svg("path", { class: "wire", d: `M${port.item.x} ${port.item.y + nodeHeight / 2} V${plan.height - 3} m-40 0 h80` }));
	picture.append(view.extras);
	picture.style.maxWidth = `${1.15 * plan.width}px`;
	view.carrier = el("span", {});
	view.box = el("div", { class: "host" },
		el("div", { class: "name" }, el("b", {}, host.name), view.carrier), picture);
	view.changes = steps.filter(s => data.hosts[s.h] === host && (s.k === "booted" || s.k === "crashed"));
	byId("hosts").append(view.box);
	return view;
});

/* Returns the edges between two neighbours; one may have lent the other its own lower's sessions. */
function route(view, upper, lower, depth = 0) {
	for (const edge of view.edges) {
		if (edge.line.upper !== upper)
			continue;
		if (edge.line.lower === lower)
			return [edge];
		const rest = depth < 3 ? route(view, edge.line.lower, lower, depth + 1) : [];
		if (rest.length > 0)
			return [edge, ...rest];
	}
	return [];
}

/* Edges that a program has marked itself (--handoff) are known from their handoffs. */
for (const s of steps)
	if (s.k === "handoff" && s.reason === "explicit" && s.a !== undefined)
		route(views[s.h], s.b, s.a).forEach(edge => edge.usual = "edge marked");

function light(view, index, kind) {
	if (index !== undefined)
		view.nodes[index].element.setAttribute("class", `${view.nodes[index].element.getAttribute("class")} ${kind}`);
}

function badge(view, x, y, text, kind) {
	const width = 14 + 7.5 * text.length;
	view.extras.append(svg("g", { class: kind },
		svg("rect", { x: x - width / 2, y: y - 9, width, height: 18, rx: 9 }), svg("text", { x, y: y + 4 }, text)));
}

function showHost(view, s) {
	const isHere = views[s.h] === view;
	const change = view.changes.filter(c => c.i <= s.i).pop();
	for (const n of view.nodes)
		n.element.setAttribute("class", n.usual);
	for (const edge of view.edges)
		edge.element.setAttribute("class", edge.usual);
	view.extras.replaceChildren();
	view.carrier.replaceChildren();
	view.carrier.className = "";
	view.box.className = "host" + (isHere ? " active" : "") + (change && change.k === "crashed" ? " down" : "");
	if (change && change.k === "crashed")
		view.carrier.append("down");
	if (!isHere)
		return;
	if (s.w !== undefined) {
		view.carrier.append(s.k === "handoff" ? `⇄ ${place(s)}` : place(s));
		view.carrier.className = "carrier " + (s.k === "handoff" ? "handoff" : carrier(s));
	}
	for (let before = s.c ? step(s.c) : undefined; before && before.h === s.h; before = before.c ? step(before.c) : undefined)
		if (isCrossing(before)) {
			light(view, before.a, "trail");
			light(view, before.b, "trail");
		}
	if (s.frame) {
		view.nodes.forEach((n, i) => {
			if (!data.hosts[s.h].nodes[i].port)
				return;
			const x = n.item.x, y = n.item.y + nodeHeight / 2;
			light(view, i, s.k === "lost" ? "drop" : "trail");
			if (s.k !== "lost")
				view.extras.append(svg("path", { class: "arrow frame",
					d: s.k === "sent" ? `M${x} ${y + wireHeight - 8} l-8 -12 h16 z` : `M${x} ${y} l-8 12 h16 z` }));
			badge(view, x + 42, y + 13, s.k === "lost" ? `✕ ${s.reason}` : `#${s.m || "?"}`, "badge");
		});
		return;
	}
	if (s.k === "drop" || s.k === "say") {
		light(view, s.a, s.k === "drop" ? "drop" : carrier(s));
		if (s.k === "drop") {
			const item = view.nodes[s.a].item;
			badge(view, item.x, item.y + nodeHeight / 2 + 11, "✕ " + s.reason, "badge");
		}
		return;
	}
	if (s.a === undefined)
		return;
	const isUp = s.k === "up" || s.k === "handoff";
	const kind = s.k === "handoff" ? "handoff" : carrier(s);
	const passed = s.path || [], all = s.k === "up" ? [...passed, s.a] : [...passed, s.a];
	passed.forEach(index => light(view, index, "passed"));
	for (let i = 1; i < all.length; i++)
		route(view, isUp ? all[i] : all[i - 1], isUp ? all[i - 1] : all[i])
			.forEach(edge => edge.element.setAttribute("class", `${edge.usual} passed`));
	light(view, s.a, s.k === "handoff" ? "handoff" : "trail");
	light(view, s.b, `${kind} to`);
	const edges = route(view, isUp ? s.b : s.a, isUp ? s.a : s.b);
	edges.forEach(edge => edge.element.setAttribute("class", `${edge.usual} ${kind}`));
	const from = view.nodes[s.a].item, to = view.nodes[s.b].item, x = (from.x + to.x) / 2, y = (from.y + to.y) / 2;
	if (s.k === "handoff") {
		const width = 80;
		view.extras.append(svg("g", { class: "handed" },
			svg("rect", { x: x - width / 2, y: y - 10, width, height: 20, rx: 4 }),
			svg("text", { x, y: y + 4 }, `⇄ ${s.reason}`)));
		return;
	}
	const tip = s.k === "up" ? to.y + nodeHeight / 2 : to.y - nodeHeight / 2, length = s.k === "up" ? 12 : -12;
	view.extras.append(svg("path", { class: `arrow ${kind}`, d: `M${to.x} ${tip} l-8 ${length} h16 z` }));
	if (s.m)
		badge(view, x + 16, y, `#${s.m}`, "badge");
}

/* ---- frames, as a sequence diagram ---- */

const rowGap = 24, rowsShown = 300;
const heads = svg("svg", { class: "heads" }), sequence = svg("svg", {});
byId("frames").append(heads, sequence);

function rowOf(number) { /* returns the last row up to this step */
	let low = -1, high = rows.length - 1;
	while (low < high) {
		const middle = Math.ceil((low + high) / 2);
		if (rows[middle].i <= number)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

function showSequence(s) {
	const now = Math.max(rowOf(s.i), 0);
	const first = rows.length <= rowsShown ? 0 : Math.max(0, Math.min(now - 50, rows.length - 100));
	const end = rows.length <= rowsShown ? rows.length : Math.min(rows.length, first + 100);
	const hostCount = data.hosts.length, width = Math.max(byId("frames").clientWidth - 26, 110 + 65 * hostCount);
	const x = host => hostCount === 1 ? 200 : 104 + host * (width - 124) / (hostCount - 1);
	const y = row => 22 + (row - first) * rowGap;
	const height = y(end) + 6;

	sequence.setAttribute("viewBox", `0 0 ${width} ${height}`);
	sequence.setAttribute("width", width);
	sequence.setAttribute("height", height);
	sequence.replaceChildren();
	heads.setAttribute("width", width);
	heads.setAttribute("height", 24);
	heads.replaceChildren();
	const events = svg("g"), flights = svg("g"), labels = svg("g", { "pointer-events": "none" });
	sequence.append(events, flights, labels);
	data.hosts.forEach((host, i) => {
		const anchor = i === 0 ? "middle" : i === hostCount - 1 ? "end" : "middle";
		heads.append(svg("text", { x: x(i) + (anchor === "end" ? 18 : 0), y: 16, "text-anchor": anchor }, host.name));
		let from = 0, alive = true;
		for (const change of [...views[i].changes.filter(c => c.row >= first && c.row < end), undefined]) {
			const to = change ? y(change.row) : height;
			flights.append(svg("line", { class: alive ? "life" : "life dead", x1: x(i), y1: from, x2: x(i), y2: to }));
			from = to;
			alive = change && change.k !== "crashed";
		}
	});
	for (let row = first; row < end; row++) {
		const e = rows[row], own = e.m !== undefined && e.m === message ? " own" : "";
		const isRight = e.h === hostCount - 1 && hostCount > 1;
		const anchor = isRight ? "end" : "start", side = isRight ? -9 : 9;
		const group = svg("g", { class: `event${own}` });
		let text = "", kind = "", at = x(e.h) + side, align = anchor;
		if (row === first || rows[row - 1].t !== e.t)
			group.append(svg("text", { class: "faint", x: 0, y: y(row) + 4 }, seconds(e.t).slice(0, -2)));
		if (e.k === "sent") {
			const ends = byFrame.get(e.frame).slice(1);
			ends.forEach(other => {
				const isLost = other.k === "lost";
				const part = isLost ? 0.6 : 1, toX = x(e.h) + (x(other.h) - x(e.h)) * part, toY = y(other.row);
				flights.append(svg("path", { class: `flight${own}${isLost ? " lost" : ""}`, d: `M${x(e.h)} ${y(row)} L${toX} ${toY}` }));
				if (isLost) {
					flights.append(svg("path", { class: "mark lost", d: `M${toX - 5} ${toY - 5} l10 10 m0 -10 l-10 10` }));
				} else {
					const back = x(other.h) > x(e.h) ? -9 : 9;
					flights.append(svg("path", { class: `tip${own}`, d: `M${toX} ${toY} l${back} -5 v10 z` }));
				}
			});
			const isLeft = ends.length > 0 ? x(ends[0].h) < x(e.h) : isRight;
			text = `#${e.m || "?"} ${frameLabel(e)}`;
			align = isLeft ? "end" : "start";
			at = x(e.h) + (isLeft ? -9 : 9);
		} else if (e.k === "lost") {
			text = e.reason;
			kind = "lost";
			const sent = byFrame.get(e.frame)[0];
			at = x(sent.h) + (x(e.h) - x(sent.h)) * 0.6 + (x(e.h) > x(sent.h) ? 12 : -12);
			align = x(e.h) > x(sent.h) ? "start" : "end";
		} else if (e.k === "arrived") {
			text = e.reason ? `(${e.reason})` : "";
			kind = "lost";
		} else if (e.k === "handoff") {
			text = `⇄ handoff: ${e.reason}`;
			kind = "handoff";
		} else if (e.k === "drop") {
			text = `✕ ${name(e, e.a)}: ${e.reason}`;
			kind = "lost";
		} else if (e.k === "crashed" || e.k === "booted") {
			text = e.k === "crashed" ? "✕ crashes" : "boots";
			kind = e.k === "crashed" ? "lost" : "";
		} else {
			text = `${e.timer ? "◷ timer: " : ""}${name(e, e.a)}${e.again ? " retransmits" : ""}`;
		}
		if (text !== "")
			group.append(svg("text", { class: kind, x: at, y: y(row) + (e.k === "sent" ? -3 : 4), "text-anchor": align }, text));
		events.append(svg("rect", { class: `hit${row === now ? " now" : ""}`, x: 0, y: y(row) - rowGap / 2, width, height: rowGap, on: () => go(e.i) }));
		labels.append(group);
	}
	const view = byId("frames"), place_ = y(now) - view.clientHeight / 2;
	if (y(now) < view.scrollTop + 60 || y(now) > view.scrollTop + view.clientHeight - 60)
		view.scrollTop = place_;
}

/* ---- describing a step ---- */

const reasons = { explicit: "this edge is marked", implicit: "it would have to wait", time: "its time budget is spent" };

/* Describes a step in a line. */
function shortly(s) {
	const host = data.hosts[s.h].name;
	if (isCrossing(s))
		return `${host} ${s.k === "up" ? "↑" : "↓"} ${s.path ? "by path: " : ""}${name(s, s.a)} → ${name(s, s.b)}, ${plural(s.n, "byte")}`;
	if (s.frame)
		return s.k === "sent" ? `${host} sends frame ${s.frame}` : s.k === "arrived" ? `${host}: frame ${s.frame} arrives` : `frame ${s.frame} to ${host} is lost: ${s.reason}`;
	if (s.k === "handoff")
		return `${host} ⇄ handoff: ${s.reason}`;
	if (s.k === "drop")
		return `${host} ✕ ${name(s, s.a)} drops it: ${s.reason}`;
	return s.k === "say" ? `${host} ${name(s, s.a)}: ${s.text}` : `${host} ${s.k === "booted" ? "boots" : "crashes"}`;
}

/* Describes a step in a sentence. */
function sentence(s) {
	const b = text => el("b", {}, text), host = b(data.hosts[s.h].name);
	if (s.k === "down") {
		const size = typeOf(s, s.a).header, from = b(name(s, s.a)), to = b(name(s, s.b));
		if (s.reply)
			return [host, ": the call ends. ", from, " returns its reply to ", to, "."];
		const begin = s.timer ? [host, ": a timer fires, and "] : [host, ": "];
		if (s.path)
			return [...begin, "by path, all headers are put in front at once: directly from ", b(name(s, step(s.c).a)), " to ", to, "."];
		const again = s.again ? [" the same message again"] : s.c ? [] : [" a new message"];
		if (size === 0)
			return [...begin, from, ` pushes${again[0] || " the message on"} to `, to, node(s, s.a).virtual ? ". It adds no header." : "."];
		return [...begin, from, ` puts its header of ${plural(size, "byte")} in front, and pushes${again[0] || " the message"} to `, to, "."];
	}
	if (s.k === "up") {
		const size = typeOf(s, s.b).header, from = b(name(s, s.a)), to = b(name(s, s.b));
		if (s.reply)
			return [host, ": the reply. The call of ", to, " returns from ", from, " with it."];
		const begin = s.timer ? [host, ": a timer fires, and "] : [host, ": "];
		if (s.path)
			return [...begin, "by path: one comparison finds the session of ", from, ", and the message goes to ", to, " at once."];
		return [...begin, from, " hands the message up to ", to, size > 0 ? ", whose header is now in front: it checks and removes it." :
			node(s, s.b).virtual ? ", which has no header of its own." : "."];
	}
	if (s.k === "sent")
		return [host, ` sends frame ${s.frame} on `, b(data.links[s.link]), `: ${plural(s.n, "byte")}.`];
	if (s.k === "arrived")
		return [host, `: frame ${s.frame} arrives at the device${s.reason ? ` (${s.reason})` : ""}, and waits for the driver.`];
	if (s.k === "lost")
		return [`Frame ${s.frame} to `, host, ` is lost: ${s.reason}.`];
	if (s.k === "handoff")
		return [host, `: handoff (${s.reason}), because ${reasons[s.reason]}. The stack with all its calls leaves the driver, which continues with other work; the stack continues on `, b(place(s)), "."];
	if (s.k === "drop")
		return [host, ": ", b(name(s, s.a)), " drops the message: ", b(s.reason), "."];
	if (s.k === "say")
		return [host, ": ", b(name(s, s.a)), `: ${s.text}.`];
	return s.k === "booted" ? [host, " has booted."] : [host, " crashes: its sessions, messages and timers are gone."];
}

function facts(s) {
	const list = [], add = (term, ...what) => list.push(el("dt", {}, term), el("dd", {}, ...what));
	if (s.w !== undefined)
		add("carried by", el("span", { class: `carrier ${s.k === "handoff" ? "handoff" : carrier(s)}` }, place(s)),
			s.timer ? " for a timer" : "");
	if (isCrossing(s)) {
		add("route", s.path ? `by path, bypassing ${s.path.map(index => name(s, index)).join(", ")}` : "by layers");
		if (s.s)
			add("session", `${s.s} of ${name(s, s.k === "up" ? s.a : s.b)}, ${s.made ? "just made" : "found"}`);
		add("length", `${plural(s.n, "byte")}${s.segments ? ", in segments of " + s.segments.map(n => n || "…").join(" + ") : ", in one segment"}`);
	}
	if (s.again)
		add("retransmits", link(s.again, `step ${s.again}`), `, ${seconds(s.t - step(s.again).t)} earlier`);
	if (s.because)
		add("because of", link(s.because, `step ${s.because}: ${shortly(step(s.because))}`));
	if (s.frame) {
		const others = byFrame.get(s.frame).filter(other => other !== s);
		others.forEach(other => add(other.k, link(other.i, `step ${other.i}`), `, ${data.hosts[other.h].name}, ${seconds(other.t)}`));
	}
	return el("dl", {}, ...list);
}

function showDetails(s) {
	const blocks = layers(s), details = byId("details");
	let shown = picked >= 0 ? picked : blocks.findIndex(block => block.now);
	if (shown < 0)
		shown = blocks.reduce((last, block, i) => block.kind === "header" ? i : last, -1);
	details.replaceChildren(el("p", { class: "say", id: "say" }, ...sentence(s)));
	if (blocks.length > 0) {
		details.append(el("h3", {}, s.m ? `message ${s.m}` : "message"), el("div", { class: "strip" }, ...blocks.map((block, i) =>
			el("div", {
				class: `block ${block.kind}${block.now ? " now" : ""}${block.gone ? " gone" : ""}`,
				title: block.gone ? "already removed" : block.kind === "header" ? "click: its fields" : "",
				on: block.kind === "header" ? () => { picked = i; showDetails(s); } : () => undefined,
			}, block.name, el("small", {}, block.kind === "header" ? plural(block.n, "byte") : block.kind === "part" ? "a fragment" : "payload")))));
	}
	const block = blocks[shown];
	if (block && block.kind === "header") {
		details.append(el("h3", {}, `header of ${block.name}`), el("table", {}, ...decode(block.type, block.hex).map(field =>
			el("tr", {}, el("td", {}, field.name), el("td", { class: field.text.length > 24 ? "value long" : "value" }, field.text), el("td", { class: "bytes" }, field.bytes),
				el("td", { class: "help" }, [field.help, field.kind === "varies" ? "" : field.kind].filter(Boolean).join("; "))))));
	}
	const rest = blocks.find(other => other.kind === "payload" && !other.gone);
	if (rest && rest.hex)
		details.append(el("h3", {}, "payload"), el("div", { class: "bytes" },
			(rest.hex.match(/.{1,8}/g) || []).join(" ") + (rest.hex.length < 2 * rest.n ? " …" : "")));
	details.append(facts(s), el("h3", {}, "steps around"));
	const near = el("ul", { id: "near" });
	for (let i = Math.max(1, s.i - 4); i <= Math.min(count, s.i + 5); i++)
		near.append(el("li", { class: `${i === s.i ? "now" : ""}${step(i).m && step(i).m === message ? " own" : ""}`, on: () => go(i) },
			el("span", {}, i), el("span", {}, shortly(step(i)))));
	details.append(near);
}

/* ---- navigation ---- */

function aboutMessage() {
	const list = byMessage.get(message);
	if (!list)
		return "";
	const first = step(list[0]), by = isCrossing(first) ? `${name(first, first.a)} of ${data.hosts[first.h].name}` : data.hosts[first.h].name;
	const because = first.because && step(first.because).m ? `, because of message ${step(first.because).m}` : "";
	return `from ${by}${because}: ${plural(list.length, "step")}`;
}

/* Shows a step, and selects its message unless `keeps`. */
function go(number, keeps) {
	if (count === 0)
		return;
	current = Math.max(1, Math.min(count, Math.round(number) || 1));
	picked = -1;
	const s = step(current);
	if (!keeps && s.m)
		message = s.m;
	byId("slider").value = current;
	byId("clock").textContent = `step ${current} of ${count}, ${seconds(s.t)}`;
	if (document.activeElement !== byId("message"))
		byId("message").value = message || "";
	byId("about").textContent = aboutMessage();
	views.forEach(view => showHost(view, s));
	showSequence(s);
	showDetails(s);
	document.body.dataset.step = current;
	document.body.dataset.message = message;
	history.replaceState(null, "", `#step=${current}${message ? `&message=${message}` : ""}`);
}

/* Goes to the next (1) or previous (-1) step of the selected message. */
function along(direction) {
	const list = byMessage.get(message) || [];
	const number = direction > 0 ? list.find(i => i > current) : list.filter(i => i < current).pop();
	if (number !== undefined)
		go(number, true);
}

function play() {
	if (playing !== 0) {
		clearInterval(playing);
		playing = 0;
	} else {
		playing = setInterval(() => current < count ? go(current + 1) : play(), 700);
	}
	byId("play").textContent = playing !== 0 ? "pause" : "play";
}

const firsts = {
	retransmission: s => s.again, handoff: s => s.k === "handoff", loss: s => s.k === "lost", drop: s => s.k === "drop",
	crash: s => s.k === "crashed", path: s => s.path, timer: s => s.timer,
};

/* #step=12, #message=7, #step=12&message=7, #first=handoff */
function follow() {
	const wanted = new URLSearchParams(location.hash.slice(1));
	const first = firsts[wanted.get("first")], found = first && steps.find(first);
	const chosen = byMessage.has(Number(wanted.get("message"))) ? Number(wanted.get("message")) : 0;
	if (found) {
		go(found.i);
		return;
	}
	if (chosen)
		message = chosen;
	if (wanted.get("step"))
		go(Number(wanted.get("step")), chosen !== 0);
	else
		go(chosen ? byMessage.get(chosen)[0] : 1);
}

const keys = {
	ArrowRight: () => go(current + 1), ArrowLeft: () => go(current - 1), Home: () => go(1), End: () => go(count),
	n: () => along(1), p: () => along(-1), " ": play,
};

document.title = `${data.title}: a journey`;
byId("title").textContent = `${data.title}, seed ${data.seed}`;
byId("slider").max = Math.max(count, 1);
if (data.hosts.length > 2)
	document.body.classList.add("many");
byId("slider").addEventListener("input", () => go(Number(byId("slider").value)));
byId("message").max = byMessage.size;
byId("message").addEventListener("input", () => {
	if (byMessage.has(Number(byId("message").value))) {
		message = Number(byId("message").value);
		go(byMessage.get(message)[0], true);
	}
});
for (const [id, act] of Object.entries({ home: keys.Home, back: keys.ArrowLeft, forward: keys.ArrowRight, end: keys.End, next: keys.n, play }))
	byId(id).addEventListener("click", act);
for (const [what, test] of Object.entries(firsts)) {
	const all = steps.filter(test);
	if (all.length > 0)
		byId("links").append(el("a", { href: `#first=${what}` }, `first ${what}${all.length > 1 ? ` (${all.length})` : ""}`));
}
if (data.leftOut > 0)
	byId("links").append(el("span", { class: "cut" }, `only the first ${count} steps: ${data.leftOut} are left out`));
document.addEventListener("keydown", event => {
	if (event.ctrlKey || event.altKey || event.metaKey || (event.target.id === "message" && !["n", "p"].includes(event.key)) ||
		!keys[event.key])
		return;
	event.preventDefault();
	keys[event.key]();
});
window.addEventListener("hashchange", follow);
window.addEventListener("resize", () => go(current, true));
follow();
