// The prompt of every request as a bar: what came from the cache, what was sent again, what was new.
import { h, s, pct, usd, bytes } from './dom.js';
import { chart, marks, ticks, tipRow, hatch } from './charts.js';
import { tokens } from './inspector-parts.js';

const LEFT = 34;
const RIGHT = 52;
const BAR = 12;

/**
 * @param {import('./inspector-ledger.js').Row[]} rows
 * @param {{unit: 'tokens'|'bytes', selected: number|null, pick: (row) => void}} options
 */
export function cacheMap(rows, { unit, selected, pick }) {
	const show = unit === 'bytes' ? (value) => bytes(Math.round(value)) : tokens;
	return chart('cachemap', (width) => {
		const max = Math.max(1, ...rows.map((row) => row[unit]?.total ?? 0)) * 1.02;
		const frame = { width, unit, show, selected, x: (value) => (value / max) * (width - LEFT - RIGHT) };
		const foot = rows.reduce((y, row) => y + heightOf(row, unit) + 1, 20);
		const list = [];
		let y = 20;
		for (const row of rows) {
			list.push({ el: rowOf(row, y, frame), key: `request-${row.key}`, row, label: sayRow(row, frame) });
			y += heightOf(row, unit) + 1;
		}
		const start = rows.find((row) => row.turn != null && row.turn === selected);
		marks(list, { start: start && `request-${start.key}`, pick: (mark) => pick(mark.row), text: (mark) => tipOf(mark.row, frame) });
		const label =
			unit === 'bytes' ? 'Prompt of every request: same bytes, changed, new' : 'Prompt of every request: cached, sent again, new';
		const props = { width, height: y + 2, role: 'group', 'aria-label': label };
		return s(
			'svg',
			props,
			hatch(),
			grid(max, foot, frame),
			list.map((mark) => [mark.el, words(mark.el)]),
		);
	});
}

/** The texts of a mark, beside it: they are not its name, which a person would have to say to choose it. */
const words = (el) => s('g.words', [...el.querySelectorAll('text')]);

const noted = (row, unit) => row[unit] && (row.causes.length > 0 || row.expired || row.purpose === 'compaction');
const heightOf = (row, unit) => (noted(row, unit) ? 34 : 19);

function grid(max, foot, { width, show, x }) {
	return ticks(max, width > 700 ? 6 : 3).map((value) => [
		s('line.grid', { x1: LEFT + x(value), x2: LEFT + x(value), y1: 16, y2: foot }),
		s('text.ax', { x: LEFT + x(value), y: 10, 'text-anchor': value ? 'middle' : 'start' }, value ? show(value) : '0'),
	]);
}

function rowOf(row, y, { width, unit, show, selected, x }) {
	const classes = `${row.turn != null && row.turn === selected ? 'sel' : ''}${noted(row, unit) ? ' broke' : ''}`;
	const el = s('g.cm', { class: classes }, s('rect.hit', { x: 0, y: y - 3, width, height: heightOf(row, unit) }));
	el.append(s('text.lbl', { x: LEFT - 8, y: y + 10, 'text-anchor': 'end' }, row.label));
	const size = row[unit];
	if (!size) {
		el.append(s('text.lbl', { x: LEFT, y: y + 10 }, row.status === 'open' ? 'not answered yet' : 'not counted'));
		return el;
	}
	let at = LEFT;
	for (const [cls, value] of [
		['f-cached', size.same],
		['f-rewp', size.again],
		['f-new', size.fresh],
	]) {
		if (!(value > 0)) continue;
		el.append(s(`rect.${cls}`, { x: at, y, width: Math.max(1.5, x(value) - 1), height: BAR, rx: 1 }));
		at += x(value);
	}
	for (const value of size.ends)
		if (value < size.total) el.append(s('line.tick', { x1: LEFT + x(value), x2: LEFT + x(value), y1: y, y2: y + BAR }));
	el.append(
		s(
			'text.val',
			{ x: width, y: y + 10, 'text-anchor': 'end' },
			row.first ? 'first' : row.purpose === 'turn' ? pct(size.same / (size.total || 1)) : '',
		),
	);
	if (noted(row, unit)) el.append(...note(row, size, y, { width, show, x }));
	return el;
}

function note(row, size, y, { width, show, x }) {
	if (row.purpose === 'compaction') {
		const fact = ` · ${show(size.total)} in a request of its own${row.cost == null ? '' : `, ${usd(row.cost)}`}`;
		return [s('text.cause.own', { x: LEFT, y: y + 24 }, s('tspan.b', 'summary'), fact)];
	}
	const edge = LEFT + x(size.same);
	const cause = row.expired ? 'expired at the provider' : row.causes.join(' + ');
	const fact = ` · ${size.again ? `${show(size.again)} again` : 'the same bytes'}${row.extra ? `, +${usd(row.extra)}` : ''}`;
	const anchor = size.again ? Math.max(LEFT, Math.min(edge + 8, width - 6 * (cause.length + fact.length))) : LEFT;
	return [
		size.again ? s('path.brk', { d: `M${edge} ${y + 14}l3.5 5h-7z` }) : '',
		s('text.cause', { x: anchor, y: y + 24 }, s('tspan.b', cause), fact),
	];
}

function sayRow(row, { unit, show }) {
	const size = row[unit];
	if (!size) return `${row.name}: not counted`;
	const cause = row.expired
		? '; the cache expired at the provider, the prefix was intact'
		: row.causes.length
			? `; broken by ${row.causes.join(' and ')}`
			: '';
	const what = unit === 'bytes' ? 'the same bytes as before' : 'from the cache';
	return `${row.name}: ${show(size.total)} sent, ${pct(size.same / (size.total || 1))} ${what}${cause}`;
}

function tipOf(row, { unit, show }) {
	const size = row[unit];
	return [
		h('b', row.name),
		size
			? [
					tipRow(unit === 'bytes' ? 'same as before' : 'from the cache', show(size.same)),
					size.again ? tipRow('sent again', show(size.again)) : null,
					tipRow('new', show(size.fresh)),
				]
			: h('p', 'Nothing was counted yet.'),
		row.cost == null ? null : tipRow('cost', usd(row.cost)),
		row.why ? h('p', row.why) : null,
	];
}
