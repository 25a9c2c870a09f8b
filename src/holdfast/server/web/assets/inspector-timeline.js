// Where the time of a Session went: sums, lanes, and why a chosen span is there.
import { h, icon, dur, clockS, moment } from './dom.js';
import { get, state } from './data.js';
import { stack } from './charts.js';
import { keyOfSpan, timeline } from './charts-timeline.js';
import { attempt, checkbox, figure, keyOf, nothing, selectedNote } from './inspector-parts.js';

const SUMS = [
	['provider', 'Provider', 't-prov'],
	['tool', 'Tools', 't-tool'],
	['person', 'Waiting for you', 't-you'],
	['inbox', 'In the inbox', 't-inbox'],
	['compaction', 'Compaction', 't-cmp'],
	['retry', 'Waiting to retry', 't-bad'],
	['shell', 'Shell', 't-tool'],
	['owner', 'No owner', 't-bad'],
];
const MOMENTS = {
	prompt: 'Prompt',
	context: 'Context changed',
	prefix: 'Prefix broken',
	crash: 'Process ended',
	recovered: 'Recovered',
	suspended: 'Suspended',
	interrupted: 'Interrupted',
	revert: 'Taken back',
	agent: 'Agent',
	model: 'Model',
};
const MANY_MOMENTS = 30;
const LARGE = 300;
const options = { folds: true, every: false, range: null, chosen: null };

/** @type {import('./inspector.js').View} */
export const timelineView = {
	load: async (panel, known) => {
		const { data } = await get(`/api/session/${panel.session}/timeline`);
		return known?.older ? join(known.older, data) : data;
	},
	draw,
	pace: (data) => (data?.spans.length > LARGE ? 5000 : 1000),
	// The clock alone does not make the view new while someone has the focus in it.
	same: (data) => (document.activeElement?.closest?.('.timeline') ? { ...data, end: 0 } : data),
};

/** Older spans that were asked for stay, before those that are loaded again. */
function join(older, data) {
	const from = data.spans[0]?.seq ?? Infinity;
	const pick = (name) => [
		...older[name].filter((one) => one.seq < from),
		...data[name].filter((one) => one.seq >= from || !older[name].some((two) => two.seq === one.seq)),
	];
	return { ...data, start: older.start, more: older.more, spans: pick('spans'), moments: pick('moments'), older };
}

function draw(panel, data) {
	if (!data.spans.length) return nothing('clock', 'Nothing has happened yet', 'Requests, tools and waits appear here with their reasons.');
	return h(
		'div.v-time',
		selectedNote(panel),
		sumsSection(data),
		lanesSection(panel, data),
		chosenSection(panel, data),
		momentsSection(panel, data),
	);
}

const lasted = (span, end) => (span.end ?? end) - span.start;

function sumsSection({ spans, start, end }) {
	const parts = SUMS.map(([lane, name, cls]) => {
		const value = spans.reduce((sum, span) => sum + (span.lane === lane ? lasted(span, end) : 0), 0);
		return { lane, name, cls, value, text: dur(value) };
	}).filter((part) => part.value > 0);
	return h(
		'section',
		{ 'aria-label': 'Where the time went' },
		h('h3', 'Where the time went', figure('time-total', end - start, dur(end - start), 'span.h-val.num')),
		stack(parts, {
			max: parts.reduce((sum, part) => sum + part.value, 0),
			label: parts.map((part) => `${part.name} ${part.text}`).join(', '),
		}),
		h(
			'dl.legend',
			parts.map((part) => [h('dt', h('i', { class: part.cls }), part.name), figure(`time-${part.lane}`, part.value, part.text, 'dd.num')]),
		),
	);
}

function lanesSection(panel, data) {
	const change = (name) => (value) => {
		options[name] = value;
		panel.draw();
	};
	const [from, to] = rangeOf(data);
	const pick = (span) => {
		options.chosen = keyOfSpan(span);
		if (span.turn && span.turn !== state.turn) panel.ctx.select(span.turn, true);
		else panel.draw();
	};
	return h(
		'section',
		{ 'aria-label': 'Lanes' },
		h(
			'h3',
			'Lanes',
			h('span.grow'),
			checkbox('Fold waits', options.folds, change('folds')),
			checkbox('Every tool', options.every, change('every')),
		),
		zoomButtons(panel, data),
		timeline(data.spans, {
			from,
			to,
			end: data.end,
			moments: data.moments,
			selected: state.turn,
			chosen: options.chosen,
			folds: options.folds,
			every: options.every,
			pick,
		}),
		h(
			'div.key',
			keyOf('t-prov', 'answering'),
			keyOf('t-ttfb', 'before the answer began'),
			keyOf('t-tool', 'tool'),
			keyOf('t-you', 'a person'),
			keyOf('t-bad', 'failed'),
			h('span', h('i.crashkey'), 'process ended'),
		),
		data.more
			? h('p.say', h('button.btn.small', { type: 'button', onclick: attempt(() => older(panel, data)) }, 'Load older spans'))
			: null,
	);
}

/** What is shown: the chosen range, or everything. */
function rangeOf({ start, end }) {
	if (!options.range) return [start, Math.max(end, start + 1)];
	const [from, to] = options.range;
	return to <= start || from >= end ? [start, Math.max(end, start + 1)] : [Math.max(start, from), Math.min(end, to)];
}

function zoomButtons(panel, data) {
	const [from, to] = rangeOf(data);
	const middle = middleOf(data) ?? (from + to) / 2;
	const set = (a, b) => () => {
		const whole = a <= data.start && b >= data.end;
		options.range = whole ? null : [Math.max(data.start, a), Math.min(data.end, b)];
		panel.draw();
	};
	const size = to - from;
	const button = (label, disabled, onclick) => h('button.btn.small.quiet', { type: 'button', disabled, onclick, 'data-key': label }, label);
	return h(
		'div.row.zoom',
		{ role: 'group', 'aria-label': 'Zoom' },
		button('Zoom in', size < 1000, set(middle - size / 4, middle + size / 4)),
		button('Zoom out', !options.range, set(from - size / 2, to + size / 2)),
		button('Earlier', from <= data.start, set(from - size / 2, to - size / 2)),
		button('Later', to >= data.end, set(from + size / 2, to + size / 2)),
		button('Everything', !options.range, set(-Infinity, Infinity)),
	);
}

/** The middle of what was chosen, so that zooming in keeps it in sight. */
function middleOf({ spans, end }) {
	const chosen = chosenSpan(spans);
	return chosen ? (chosen.start + (chosen.end ?? end)) / 2 : null;
}

const chosenSpan = (spans) =>
	spans.find((span) => keyOfSpan(span) === options.chosen) ?? spans.find((span) => state.turn && span.turn === state.turn);

async function older(panel, data) {
	const page = (await get(`/api/session/${panel.session}/timeline`, { before: data.spans[0].seq })).data;
	const known = {
		...page,
		spans: [...page.spans, ...data.spans],
		moments: [...page.moments, ...data.moments.filter((one) => !page.moments.some((two) => two.seq === one.seq))],
	};
	panel.data = { ...join(known, data), end: data.end };
	panel.draw();
}

function chosenSection(panel, { spans, end }) {
	const span = chosenSpan(spans);
	if (!span) return h('section.picked', h('h3', 'Chosen'), h('p.dim', 'Choose a bar to see why it is there.'));
	const fact = (name, ...value) => [h('dt', name), h('dd.num', value)];
	return h(
		'section.picked',
		{ 'aria-label': 'Chosen span', 'aria-live': 'polite' },
		h('h3', 'Chosen', span.turn ? h('span.h-val', `turn ${span.turn}`) : null),
		h('h4', span.failed ? icon('alert', 'Failed') : null, span.name.slice(0, 500)),
		h(
			'dl.facts',
			fact('When', `${clockS(span.start)} – ${span.end == null ? 'now' : clockS(span.end)}`),
			fact('Took', dur(lasted(span, end))),
			span.first ? fact('Waited', dur(span.first - span.start), ' before the answer began') : null,
			h('dt', 'Why'),
			h('dd', span.why),
		),
		h(
			'div.row',
			span.turn ? h('button.btn.small', { type: 'button', onclick: () => panel.ctx.show(span.turn) }, 'Show in conversation') : null,
			h('button.btn.small', { type: 'button', onclick: () => panel.ctx.go(span.seq) }, `Session as of #${span.seq}`),
		),
	);
}

function momentsSection(panel, { moments }) {
	if (!moments.length) return null;
	const rows = moments.slice(-MANY_MOMENTS).reverse();
	return h(
		'section',
		{ 'aria-label': 'Moments' },
		h('h3', 'Moments', h('span.h-val', rows.length < moments.length ? `newest ${rows.length} of ${moments.length}` : 'newest first')),
		h(
			'ol.moments',
			rows.map((one) =>
				h(
					'li',
					{ class: one.kind },
					h('span.num.dim', { title: moment(one.time) }, clockS(one.time)),
					h('b', MOMENTS[one.kind] ?? one.kind),
					h('span.what', one.what),
					h(
						'button.link.num',
						{
							type: 'button',
							'data-key': `moment-${one.seq}`,
							'aria-label': `Session as of ${one.seq}`,
							onclick: () => panel.ctx.go(one.seq),
						},
						`#${one.seq}`,
					),
				),
			),
		),
	);
}
