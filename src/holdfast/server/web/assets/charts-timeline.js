// Spans of work and of waiting in lanes. Long stretches without work are folded, so that work stays readable.
import { h, s, dur, clockS, moment } from './dom.js';
import { chart, marks, tipRow } from './charts.js';

/**
 * @typedef {{lane: string, start: number, end?: number, seq: number, turn?: number, name: string, why: string, failed?: boolean, first?: number}} Span
 * @typedef {{kind: string, time: number, seq: number, what: string}} Moment
 */

const FOLD = 30;
const LONG = 9000;
const TOP = 34;
const LANE = 22;
const MANY_LANES = 14;
const FILE_TOOLS = new Set(['read', 'grep', 'glob', 'list', 'edit', 'multiedit', 'write', 'patch', 'apply_patch', 'todowrite', 'todoread']);
const NAMES = {
	provider: 'provider',
	person: 'waits for you',
	inbox: 'inbox',
	owner: 'no owner',
	compaction: 'compaction',
	retry: 'retry',
	shell: 'shell',
};
const CLASS = {
	provider: 't-prov',
	person: 't-you',
	inbox: 't-inbox',
	owner: 't-bad',
	compaction: 't-cmp',
	retry: 't-bad',
	tool: 't-tool',
	shell: 't-tool',
};
const LAST = ['retry', 'compaction', 'shell', 'person', 'inbox', 'owner'];
/** Lanes in which somebody works; in the others somebody waits. */
const WORK = new Set(['provider', 'tool', 'compaction', 'shell', 'retry', 'owner']);

export const keyOfSpan = (span) => `span-${span.lane}-${span.seq}-${span.start}`;

/**
 * @param {Span[]} spans
 * @param {{from: number, to: number, end: number, moments: Moment[], selected: number|null, chosen: string|null, folds: boolean,
 *   every: boolean, pick: (span: Span) => void}} options `end` is when the spans were read
 */
export function timeline(spans, options) {
	return chart('timeline', (width) => {
		const { from, to, end } = options;
		const left = width > 560 ? 160 : 84;
		const shown = spans.filter((span) => span.start <= to && (span.end ?? end) >= from);
		const axis = timeAxis(shown, options, width - left - 2);
		const lanes = lanesOf(shown, options);
		const height = lanes.reduce((sum, lane) => sum + lane.height, TOP) + 18;
		const frame = { ...options, left, width, height, x: (time) => left + axis.x(Math.max(from, Math.min(to, time))) };
		const list = lanes.flatMap((lane) =>
			lane.spans.map(({ span, row }) => ({ el: spanMark(span, lane, row, frame), key: keyOfSpan(span), span, label: say(span, end) })),
		);
		list.sort((a, b) => a.span.start - b.span.start);
		marks(list, { start: options.chosen, pick: (mark) => options.pick(mark.span), text: (mark) => tipOf(mark.span, end) });
		return s(
			'svg',
			{ width, height, role: 'group', 'aria-label': 'Timeline' },
			foldMarks(axis.folds, frame),
			lanes.map((lane) => laneLabel(lane, frame)),
			turnNumbers(shown, frame),
			list.map((mark) => mark.el),
			momentMarks(frame),
			s('text.ax', { x: left, y: height - 2 }, clockS(from)),
			s('text.ax', { x: width, y: height - 2, 'text-anchor': 'end' }, clockS(to)),
		);
	});
}

/** Places times on the axis. Stretches in which nobody works have a fixed width, if they are folded. */
function timeAxis(spans, { from, to, end, folds }, width) {
	const busy = spans.filter((span) => WORK.has(span.lane)).map((span) => [Math.max(span.start, from), Math.min(span.end ?? end, to)]);
	busy.sort((a, b) => a[0] - b[0]);
	const stretches = [];
	let at = from;
	for (const [start, stop] of [...busy, [to, to]]) {
		if (start > at) stretches.push({ start: at, stop: start, folded: folds && start - at > LONG });
		if (stop > Math.max(at, start)) stretches.push({ start: Math.max(at, start), stop, folded: false });
		at = Math.max(at, stop);
	}
	const closed = stretches.filter((stretch) => stretch.folded);
	const wide = closed.length ? Math.min(FOLD, (width * 0.5) / closed.length) : 0;
	const open = stretches.reduce((sum, stretch) => sum + (stretch.folded ? 0 : stretch.stop - stretch.start), 0);
	const scale = (width - closed.length * wide) / Math.max(1, open);
	let x = 0;
	for (const stretch of stretches) {
		stretch.x = x;
		stretch.width = stretch.folded ? wide : (stretch.stop - stretch.start) * scale;
		x += stretch.width;
	}
	const place = (time) => {
		const stretch = stretches.find((one) => time <= one.stop) ?? stretches.at(-1);
		if (!stretch) return 0;
		return stretch.x + Math.max(0, Math.min(1, (time - stretch.start) / (stretch.stop - stretch.start || 1))) * stretch.width;
	};
	return { x: place, folds: closed };
}

function laneName(span, every) {
	if (span.lane !== 'tool') return span.lane;
	const tool = span.name.split(/\s/, 1)[0];
	return !every && FILE_TOOLS.has(tool) ? 'file tools' : tool;
}

/** Lanes from top to bottom, with spans that overlap below each other. */
function lanesOf(spans, { every, end }) {
	const named = new Map();
	for (const span of spans) {
		const name = laneName(span, every);
		if (!named.has(name)) named.set(name, { name, lane: span.lane, spans: [], total: 0 });
		const lane = named.get(name);
		lane.spans.push(span);
		lane.total += (span.end ?? end) - span.start;
	}
	const tools = [...named.values()].filter((lane) => lane.lane === 'tool').sort((a, b) => b.total - a.total);
	const fixed = (names) => names.map((name) => named.get(name)).filter((lane) => lane && lane.lane !== 'tool');
	const shown = [...fixed(['provider']), ...together(tools), ...fixed(LAST)];
	let y = TOP;
	for (const lane of shown) {
		layRows(lane, end);
		lane.y = y;
		lane.height = lane.rows > 1 ? lane.rows * 9 + 8 : LANE;
		lane.bar = lane.rows > 1 ? 7 : 12;
		y += lane.height;
	}
	return shown;
}

/** The tools that took least share a lane where there are too many. */
function together(tools) {
	if (tools.length <= MANY_LANES) return tools;
	const rest = tools.slice(MANY_LANES - 1);
	const spans = rest.flatMap((lane) => lane.spans).sort((a, b) => a.start - b.start);
	return [
		...tools.slice(0, MANY_LANES - 1),
		{ name: `${rest.length} other tools`, lane: 'tool', spans, total: rest.reduce((sum, lane) => sum + lane.total, 0) },
	];
}

function layRows(lane, end) {
	const ends = [];
	lane.spans = lane.spans.map((span) => {
		let row = ends.findIndex((stop) => stop <= span.start);
		if (row < 0) row = ends.length < 4 ? ends.length : ends.indexOf(Math.min(...ends));
		ends[row] = Math.max(ends[row] ?? 0, span.end ?? end);
		return { span, row };
	});
	lane.rows = ends.length;
}

function laneLabel(lane, { left, width }) {
	const middle = lane.y + lane.height / 2 - 1;
	const most = width > 560 ? 15 : 13;
	const name = NAMES[lane.name] ?? lane.name;
	return [
		s('line.grid', { x1: left, x2: width, y1: lane.y + lane.height - 3.5, y2: lane.y + lane.height - 3.5 }),
		s('text.lbl', { x: 0, y: middle + 2 }, name.length > most ? `${name.slice(0, most - 1)}…` : name, s('title', name)),
		width > 560 ? s('text', { x: left - 10, y: middle + 2, 'text-anchor': 'end' }, dur(lane.total)) : '',
	];
}

function spanMark(span, lane, row, { x, end, selected, chosen }) {
	const start = x(span.start);
	const stop = x(span.end ?? end);
	const y = lane.y + 1 + (lane.rows > 1 ? row * 9 : 0);
	const other = selected != null && span.turn !== selected;
	const classes = `${keyOfSpan(span) === chosen || (selected != null && !other) ? 'sel' : ''}${other ? ' dimmed' : ''}${span.end == null ? ' live' : ''}`;
	const shape = { x: start, y, width: Math.max(stop - start - 0.5, 2), height: lane.bar, rx: 1.5 };
	const el = s(
		'g.sp',
		{ class: classes },
		s('rect.hit', { x: start - 2, y: y - 3, width: Math.max(stop - start + 4, 7), height: lane.bar + 6 }),
		s('rect', { ...shape, class: CLASS[span.lane] ?? 't-tool' }),
	);
	if (span.lane === 'provider') {
		const waited = Math.max(0, x(span.first ?? span.end ?? end) - start - 0.5);
		if (waited > 0.5) el.append(s('rect.t-ttfb', { ...shape, width: waited }));
	}
	if (span.failed) el.append(s('rect.t-bad', { x: Math.max(start, stop - 4), y, width: 3.5, height: lane.bar }));
	return el;
}

function turnNumbers(spans, { x, selected }) {
	const found = [];
	let last = -99;
	let turn = null;
	for (const span of spans) {
		if (span.lane !== 'provider' || span.turn == null || span.turn === turn) continue;
		const at = x(span.start);
		if (at - last < 16) continue;
		found.push(s('text.ax', { x: at, y: 27, class: span.turn === selected ? 'on' : '' }, String(span.turn)));
		[last, turn] = [at, span.turn];
	}
	return found;
}

function foldMarks(folds, { left, height }) {
	let last = -99;
	return folds.map((one) => {
		const middle = left + one.x + one.width / 2;
		const room = middle - last > 34;
		if (room) last = middle;
		return [
			s('rect.fold', { x: left + one.x + 2, y: TOP - 4, width: Math.max(1, one.width - 4), height: height - TOP - 10 }),
			room ? s('text.ax', { x: middle, y: 11, 'text-anchor': 'middle' }, shortly(one.stop - one.start)) : '',
			one.width > 12 ? s('path.foldmark', { d: `M${middle - 5} 18l3-3 4 6 3-3` }) : '',
		];
	});
}

const shortly = (ms) => dur(ms).replace(/ \d\d [sm]$/, '');

const ENDED = new Set(['crash', 'suspended', 'interrupted']);
function momentMarks({ moments, x, from, to, height }) {
	return moments
		.filter((one) => ENDED.has(one.kind) && one.time >= from && one.time <= to)
		.map((one) => {
			const at = x(one.time);
			return s(
				'g',
				{ class: `moment ${one.kind}` },
				s('title', `${one.what}, ${moment(one.time)}`),
				s('line.crash', { x1: at, x2: at, y1: TOP - 6, y2: height - 16 }),
				s('path.crashflag', { d: `M${at} ${TOP - 14}l5 4-5 4z` }),
			);
		});
}

const lasts = (span, end) => `${dur((span.end ?? end) - span.start)}${span.end == null ? ' so far' : ''}`;
const say = (span, end) => `${NAMES[span.lane] ?? span.lane}: ${span.name.slice(0, 200)}, ${lasts(span, end)}. ${span.why}`;

function tipOf(span, end) {
	const wait = span.lane === 'provider' && span.first ? tipRow('before the answer began', dur(span.first - span.start)) : null;
	return [h('b', span.name.slice(0, 120)), tipRow(clockS(span.start), lasts(span, end)), wait, h('p', span.why.slice(0, 300))];
}
