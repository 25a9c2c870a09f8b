// The durable log as it is stored, and the Session as it was at any of its events.
import { h, ib, icon, put, num, bytes, clockS, moment, spinner, toast } from './dom.js';
import { get, state } from './data.js';
import { RowList } from './inspector-rows.js';
import { FAMILIES, LogPages, familyOf, shortType } from './inspector-log.js';
import { failure } from './inspector-parts.js';
import { Scrubber } from './inspector-scrubber.js';

const LONGEST = 100_000;
const WAIT = 250;
const PACE = 1000;
const phone = matchMedia('(max-width: 640px)');
/** The filter stays when another view is looked at. */
const filter = { family: null, search: '' };

/** @type {import('./inspector.js').View} */
export const eventsView = { mount: (panel) => new EventsView(panel) };

class EventsView {
	constructor(panel) {
		Object.assign(this, { panel, chosen: null, timer: 0 });
		this.log = Object.assign(new LogPages(panel.session), filter);
		this.scrubber = new Scrubber(panel, () => this.log.entries.at(-1)?.seq ?? 0);
		this.list = new RowList({
			label: 'Events',
			height: () => (phone.matches ? 34 : 26),
			render: (entry) => this.row(entry),
			pick: (entry) => this.pick(entry),
			reach: (edge) => this.reach(edge),
		});
		this.count = h('span.dim.num', { role: 'status' });
		this.chips = h('div.chips.small', { role: 'group', 'aria-label': 'Kind of events' });
		this.detail = h('div.evdetail', { 'aria-label': 'Event', role: 'region', 'aria-live': 'polite' });
		this.place = h('div.evplace', this.list.element);
		const search = h('input', {
			type: 'search',
			placeholder: 'Type or text',
			'aria-label': 'Search events',
			value: filter.search,
			oninput: (event) => this.search(event.target.value),
		});
		this.element = h(
			'div.v-events',
			this.scrubber.element,
			h('div.evtools', h('label.search', icon('search'), search), this.count),
			this.chips,
			this.place,
			this.detail,
		);
		this.drawChips();
		this.open();
	}

	close() {
		clearTimeout(this.timer);
		clearTimeout(this.typing);
		this.scrubber.close();
	}

	changed(topic) {
		if (topic === 'at') {
			this.scrubber.draw();
			this.follow();
		}
		if ((topic === 'entries' || topic === 'status') && !this.timer) this.timer = setTimeout(() => this.catchUp(), PACE);
	}

	/** Loads what was written since, if the end of the log is loaded. */
	async catchUp() {
		this.timer = 0;
		if (!this.panel.visible || this.log.newer) return;
		const added = this.log.entries.length ? await this.log.loadNewer().catch(() => 0) : await this.log.open().catch(() => 0);
		if (added) this.show();
		this.scrubber.draw();
	}

	async open() {
		put(this.count, spinner());
		try {
			if (!(await this.log.open(state.at))) return;
			put(this.place, this.list.element);
			this.list.active = null;
			this.list.pinned = state.at == null;
			this.show();
			this.scrubber.draw();
			if (state.at != null) this.follow();
			this.pick(null);
		} catch (error) {
			put(this.count);
			put(
				this.place,
				failure(error, () => this.open()),
			);
		}
	}

	/** Brings the event that is shown as the past into sight. */
	async follow() {
		const { entries } = this.log;
		const seq = state.at;
		if (seq != null && entries.length && (seq < entries[0].seq || seq > entries.at(-1).seq) && (this.log.older || this.log.newer))
			return this.open();
		if (seq == null) this.list.update();
		else this.list.show(entries.findLastIndex((entry) => entry.seq <= seq));
	}

	show(added = 0) {
		const { entries, older, newer } = this.log;
		if (added && this.list.active != null) this.list.active += added;
		this.list.set(entries, added);
		put(this.count, `${num(entries.length)}${older || newer ? '+' : ''} ${entries.length === 1 ? 'event' : 'events'}`);
		if (!entries.length)
			put(
				this.place,
				h('div.empty', icon('search'), h('b', filter.search || filter.family ? 'No event matches' : 'Nothing was recorded yet')),
			);
		else if (!this.list.element.isConnected) put(this.place, this.list.element);
	}

	async reach(edge) {
		const load = edge === 'start' ? this.log.loadOlder() : this.log.newer ? this.log.loadNewer() : Promise.resolve(0);
		const added = await load.catch(() => 0); // scrolling on asks again
		if (added) this.show(edge === 'start' ? added : 0);
	}

	search(text) {
		clearTimeout(this.typing);
		this.typing = setTimeout(() => {
			filter.search = this.log.search = text.trim();
			this.open();
		}, WAIT);
	}

	drawChips() {
		const chip = ([key, label]) =>
			h(
				'button.chip',
				{
					type: 'button',
					'aria-pressed': String(filter.family === key),
					onclick: () => {
						filter.family = this.log.family = key;
						this.drawChips();
						this.open();
					},
				},
				key ? h('i', { class: `e-${key}` }) : null,
				label,
			);
		const at = [...this.chips.children].indexOf(document.activeElement);
		put(this.chips, [[null, 'All'], ...FAMILIES].map(chip));
		this.chips.children[at]?.focus();
	}

	row(entry) {
		const { at } = state;
		const classes = [
			`e-${familyOf(entry.type)}`,
			entry === this.chosen && 'sel',
			at != null && entry.seq > at && 'later',
			at === entry.seq && 'here',
		].filter(Boolean);
		return h(
			'div.evrow',
			{ class: classes.join(' '), 'data-seq': entry.seq },
			h('span.num.seq', `#${entry.seq}`),
			h('span.num.dim', { title: moment(entry.time) }, clockS(entry.time)),
			h('code.ty', shortType(entry.type)),
			h('span.br', entry.public ? null : icon('lock', 'private'), brief(entry)),
		);
	}

	async pick(entry) {
		this.chosen = entry;
		if (!entry) return put(this.detail);
		this.drawDetail(entry);
		if (entry.data !== undefined) return;
		try {
			const { data } = await get(`/api/session/${this.panel.session}/log/${entry.seq}`);
			if (this.chosen === entry) this.drawDetail(entry, data.data);
		} catch (error) {
			if (this.chosen === entry) this.detail.append(failure(error, () => this.pick(entry)));
		}
	}

	drawDetail(entry, data = entry.data) {
		const text = data === undefined ? null : JSON.stringify(data, null, 2);
		const close = () => this.list.choose(this.list.active);
		const copy = () =>
			navigator.clipboard.writeText(text).then(
				() => toast('Copied'),
				() => toast('The browser does not allow copying', true),
			);
		put(
			this.detail,
			h(
				'header',
				h('code', entry.type),
				h('span.dim.num', `#${entry.seq} · ${bytes(entry.size)}`),
				entry.public ? null : h('span.tag', 'private'),
				h('span.grow'),
				h('button.btn.small', { type: 'button', onclick: () => this.panel.ctx.go(entry.seq) }, 'Session as of here'),
				text ? ib('copy', 'Copy', copy) : null,
				ib('x', 'Close', close),
			),
			h('p.dim.evwhen', moment(entry.time), ' · ', h('code', entry.id)),
			text == null ? h('p.dim.evwhen', spinner(), ' Loading…') : jsonBlock(text),
		);
	}
}

function jsonBlock(text) {
	if (text.length <= LONGEST) return h('pre', text);
	const el = h('div', h('pre', text.slice(0, LONGEST)));
	el.append(h('button.btn.small', { type: 'button', onclick: () => put(el, h('pre', text)) }, `Show all ${bytes(text.length)}`));
	return el;
}

const TELLING = [
	'text',
	'title',
	'tool',
	'name',
	'command',
	'description',
	'reason',
	'message',
	'error',
	'action',
	'agent',
	'finish',
	'path',
	'summary',
	'callID',
	'messageID',
];

/** The first field of an event that tells something, in one line. */
export function brief({ data }) {
	if (data == null) return 'larger than 64 KiB';
	const found = [];
	for (const name of TELLING) {
		const value = data[name] ?? data.prompt?.[name] ?? data.info?.[name];
		const text = typeof value === 'string' ? value : (value?.message ?? value?.id);
		if (typeof text === 'string' && text) found.push(text);
		if (found.length === 2) break;
	}
	if (data.cost) found.push(`$${data.cost.toFixed(4)}`);
	return found.join(' · ').slice(0, 200).replace(/\s+/g, ' ');
}
