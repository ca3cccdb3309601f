"use strict";
/* Asks the host for its counts once per second, and writes them into the picture and the tables. Names are only ever text. */
const PERIOD_MS = 1000;
const figure = document.getElementById("picture");
const order = figure.dataset.order.split(",").map(Number); /* numbers of the picture's nodes, by position of the protocol */
const whole = new Intl.NumberFormat("en-US");

/* Returns the rows of a node or edge in the picture that wait for counts, by their first word. */
function rowsOf(group) {
	const rows = {};
	for (const text of group.querySelectorAll("text")) {
		const word = /^#(\w+) /.exec(text.textContent);
		if (word !== null) {
			rows[word[1]] = text;
			text.textContent = "";
		}
	}
	return rows;
}

/* The picture's nodes and edges by dot's names, such as "n3" and "n3->n1"; several edges may have one name. */
const parts = new Map();
for (const group of figure.querySelectorAll("g.node, g.edge")) {
	const title = group.querySelector("title"), name = title.textContent;
	if (!parts.has(name))
		parts.set(name, []);
	parts.get(name).push({ group, rows: rowsOf(group), shape: group.querySelector("path, polygon") });
	title.remove(); /* otherwise it appears under the pointer */
}
for (const title of figure.querySelectorAll("title"))
	title.remove();

function setText(row, text) {
	if (row !== undefined && row.textContent !== text)
		row.textContent = text;
}

function sum(counts) {
	return Object.values(counts).reduce((all, count) => all + count, 0);
}

/* Formats a rate: "0.4", "12", "3,456". */
function rate(perSecond) {
	return perSecond > 0 && perSecond < 10 ? perSecond.toFixed(1) : whole.format(Math.round(perSecond));
}

/* ---- the picture ---- */

/* White to a warm red, as in `xk draw`: the square root, because each of many protocols has a small share. */
function heat(share) {
	const part = Math.sqrt(Math.min(Math.max(share ?? 0, 0), 1));
	const mix = (cold, hot) => Math.round(cold + (hot - cold) * part);
	return `rgb(${mix(255, 240)}, ${mix(253, 106)}, ${mix(247, 61)})`;
}

function showNode(part, protocol) {
	const times = ["up", "down"].filter((direction) => protocol[direction].timed > 0)
		.map((direction) => `${whole.format(Math.round(protocol[direction].ns / protocol[direction].timed))} ns ${direction}`);
	const dropped = sum(protocol.drops);
	setText(part.rows.share, times.join(", "));
	setText(part.rows.drops, dropped === 0 ? "" : `${whole.format(dropped)} dropped`);
	part.shape.setAttribute("fill", heat(protocol.share));
}

function showEdge(part, edge, before, seconds) {
	const grown = (direction) => Math.max(edge[direction].messages - before[direction].messages, 0) / seconds;
	const up = grown("up"), down = grown("down"), handoffs = sum(edge.handoffs);
	setText(part.rows.messages, edge.up.messages + edge.down.messages === 0 ? "" : `\u25b2 ${rate(up)}/s  \u25bc ${rate(down)}/s`);
	setText(part.rows.handoffs, handoffs === 0 ? "" : `${whole.format(handoffs)} handed off`);
	if (part.rows.messages !== undefined)
		part.shape.setAttribute("stroke-width", (1.3 + Math.log10(1 + up + down)).toFixed(1));
}

function showPicture(stats, before, seconds) {
	const number = new Map(stats.protocols.map((protocol, i) => [protocol.name, order[i]])), met = new Map();
	stats.protocols.forEach((protocol, i) => {
		for (const part of parts.get(`n${order[i]}`) ?? [])
			showNode(part, protocol);
	});
	stats.edges.forEach((edge, i) => {
		const name = `n${number.get(edge.upper)}->n${number.get(edge.lower)}`, nth = met.get(name) ?? 0;
		const part = (parts.get(name) ?? [])[nth];
		met.set(name, nth + 1);
		if (part !== undefined)
			showEdge(part, edge, before.edges[i], seconds);
	});
}

/* ---- the tables ---- */

/* Replaces a table's rows: [name, count, count before]. Counts of zero are left out. */
function showTable(id, rows, seconds) {
	const body = document.createElement("tbody");
	for (const [name, count, was] of rows) {
		if (count === 0)
			continue;
		const row = body.insertRow(), head = document.createElement("th");
		head.scope = "row";
		head.textContent = name;
		row.append(head);
		row.insertCell().textContent = rate(Math.max(count - was, 0) / seconds);
		row.insertCell().textContent = whole.format(count);
		row.classList.toggle("grows", id === "drops" && count > was);
	}
	if (body.rows.length === 0) {
		const cell = body.insertRow().insertCell();
		cell.colSpan = 3;
		cell.className = "none";
		cell.textContent = "none";
	}
	document.querySelector(`#${id} tbody`).replaceWith(body);
}

function countsOf(stats, before, key) {
	return stats.protocols.flatMap((protocol, i) => Object.entries(protocol[key])
		.map(([name, count]) => [`${protocol.name}.${name}`, count, before.protocols[i][key][name] ?? 0])).reverse();
}

function showTables(stats, before, seconds) {
	showTable("drops", countsOf(stats, before, "drops"), seconds);
	showTable("handoffs", stats.edges.flatMap((edge, i) => Object.entries(edge.handoffs)
		.map(([reason, count]) => [`${edge.upper} \u2192 ${edge.lower}: ${reason}`, count, before.edges[i].handoffs[reason]])), seconds);
	showTable("counters", countsOf(stats, before, "counters"), seconds);
	showTable("kernel", Object.entries(stats.kernel).map(([name, count]) => [name, count, before.kernel[name]]), seconds);
}

/* ---- asking ---- */

let last = null;

function setState(text, isBad) {
	const state = document.getElementById("state");
	setText(state, text);
	state.classList.toggle("bad", isBad);
}

function show(stats) {
	const isFirst = last === null || last.pid !== stats.pid || last.protocols.length !== stats.protocols.length;
	const before = isFirst ? stats : last, seconds = isFirst ? 1 : (stats.now_ns - before.now_ns) / 1e9;
	document.title = stats.host;
	setText(document.getElementById("title"), stats.host);
	setText(document.getElementById("about"), `${stats.graph} on ${stats.link}, driver ${stats.driver}, mode ${stats.mode}`);
	showPicture(stats, before, seconds);
	showTables(stats, before, seconds);
	last = stats;
}

async function ask() {
	const answer = await fetch("/stats.json", { cache: "no-store", signal: AbortSignal.timeout(5 * PERIOD_MS) });
	if (!answer.ok)
		throw new Error(`the host answers ${answer.status}`);
	show(await answer.json());
}

async function keepAsking() {
	for (;;) {
		try {
			if (!document.hidden)
				await ask();
			setState("live", false);
		} catch (error) {
			setState(error.message.startsWith("the host") ? error.message : "the host does not answer", true);
		}
		await new Promise((done) => setTimeout(done, PERIOD_MS));
	}
}
keepAsking();
