// What requests cost: a bar for each, and the sum over time.
import { h, s, usd } from './dom.js';
import { chart, hatch, marks, ticks, tipRow } from './charts.js';
import { tokens } from './inspector-parts.js';

const LEFT = 44;
const TOP = 12;
const HEIGHT = 140;
/** Kinds of tokens, from the foot of a bar to its top. */
export const KINDS = [
	['f-cached', 'cache read', (used) => used.cache.read],
	['f-new', 'cache write', (used) => used.cache.write],
	['f-in', 'uncached', (used) => used.input],
	['f-out', 'output', (used) => used.output],
	['f-reason', 'reasoning', (used) => used.reasoning],
];

/** The parts of a bar. Money is not split by kinds of tokens, because the API gives one cost for a request. */
function partsOf(row, unit) {
	if (unit === 'tokens') return row.used ? KINDS.map(([cls, name, of]) => ({ cls, name, value: of(row.used) })) : [];
	const extra = Math.min(row.extra ?? 0, row.cost ?? 0);
	const cls = row.purpose === 'turn' ? 'f-new' : 'f-out';
	return [
		{ cls, name: 'cost', value: (row.cost ?? 0) - extra },
		{ cls: 'f-rewp', name: 'for sending again', value: extra },
	];
}

/**
 * @param {import('./inspector-ledger.js').Row[]} rows
 * @param {{unit: 'cost'|'tokens', selected: number|null, pick: (row) => void}} options
 */
export function costBars(rows, { unit, selected, pick }) {
	const show = unit === 'tokens' ? tokens : usd;
	return chart('costbars', (width) => {
		const bars = rows.map((row) => ({ row, parts: partsOf(row, unit).filter((part) => part.value > 0) }));
		const total = (bar) => bar.parts.reduce((sum, part) => sum + part.value, 0);
		const max = (Math.max(...bars.map(total)) || 1) * 1.05;
		const frame = { step: (width - LEFT) / rows.length, y: (value) => TOP + HEIGHT - (value / max) * HEIGHT, selected };
		const list = bars.map((bar, index) => ({
			...bar,
			el: barOf(bar, index, frame),
			key: `cost-${bar.row.key}`,
			label: `${bar.row.name}: ${total(bar) ? show(total(bar)) : 'no cost recorded'}`,
		}));
		const start = rows.find((row) => row.turn != null && row.turn === selected);
		marks(list, { start: start && `cost-${start.key}`, pick: (mark) => pick(mark.row), text: (mark) => tipOf(mark, show) });
		const lines = ticks(max, 3).map((value) =>
			gridLine(value, width, frame.y(value), value ? (unit === 'tokens' ? tokens(value) : `$${+value.toPrecision(2)}`) : '0'),
		);
		return s(
			'svg',
			{ width, height: TOP + HEIGHT + 18, role: 'group', 'aria-label': 'Cost of every request' },
			hatch(),
			lines,
			list.map((mark) => mark.el),
		);
	});
}

const gridLine = (value, width, y, label) => [
	s('line.grid', { x1: LEFT, x2: width, y1: y, y2: y }),
	s('text.ax', { x: LEFT - 6, y: y + 4, 'text-anchor': 'end' }, label),
];

function barOf({ row, parts }, index, { step, y, selected }) {
	const x = LEFT + index * step;
	const chosen = row.turn != null && row.turn === selected;
	const el = s('g.cb', { class: chosen ? 'sel' : '' }, s('rect.hit', { x, y: TOP, width: step, height: HEIGHT + 16 }));
	let base = 0;
	for (const part of parts) {
		const height = Math.max(0.8, y(base) - y(base + part.value) - 0.6);
		el.append(s(`rect.${part.cls}`, { x: x + step * 0.16, y: y(base + part.value), width: Math.min(step * 0.68, 40), height }));
		base += part.value;
	}
	if (row.causes.length || row.expired)
		el.append(s('path.brk', { d: `M${x + Math.min(step * 0.5, step * 0.16 + 20)} ${y(base) - 3}l3.5-5h-7z` }));
	const every = Math.ceil(16 / step);
	if (index % every === 0 || chosen)
		el.append(
			s(
				'text.ax',
				{ x: x + Math.min(step * 0.5, step * 0.16 + 20), y: TOP + HEIGHT + 13, 'text-anchor': 'middle', class: chosen ? 'on' : '' },
				row.label,
			),
		);
	return el;
}

function tipOf({ row, parts }, show) {
	const broken = row.expired
		? 'The cache expired at the provider; the prefix was intact.'
		: row.causes.length
			? `Prefix broken by ${row.causes.join(' and ')}.`
			: null;
	return [
		h('b', row.name),
		parts.length ? parts.map((part) => tipRow(part.name, show(part.value))) : h('p', 'Nothing was recorded.'),
		row.model ? h('p', row.model) : null,
		broken ? h('p', broken) : null,
	];
}

/** The sum of costs, request by request. @param {import('./inspector-ledger.js').Row[]} rows */
export function cumulative(rows) {
	const points = [];
	let sum = 0;
	for (const row of rows) points.push((sum += row.cost ?? 0));
	return chart('cumulative', (width) => {
		const height = 70;
		const max = (sum || 1) * 1.1;
		const y = (value) => TOP + height - (value / max) * height;
		const x = (index) => LEFT + ((index + 0.5) * (width - LEFT)) / points.length;
		const line = `M${LEFT} ${y(0)}${points.map((value, index) => `H${x(index).toFixed(1)}V${y(value).toFixed(1)}`).join('')}H${width}`;
		const lines = ticks(max, 2).map((value) => gridLine(value, width, y(value), value ? `$${+value.toPrecision(2)}` : '0'));
		const props = { width, height: TOP + height + 4, role: 'img', 'aria-label': `Cumulative cost of these requests, ${usd(sum)} in all` };
		return s('svg', props, lines, s('path.area', { d: `${line}V${y(0)}H${LEFT}z` }), s('path.line', { d: line }));
	});
}
