// What a Session cost: in all, by request, over time, for what, and what is left of budgets.
import { h, usd, dur, num, plural } from './dom.js';
import { get, state } from './data.js';
import { costBars, cumulative, KINDS } from './charts-cost.js';
import { account, ledgerRows, loadLedger, olderRequests } from './inspector-ledger.js';
import { figure, keyOf, minibar, money, nothing, pageOf, segmented, selectedNote, stat, tokens } from './inspector-parts.js';

const PAGE = 60;
const MANY_CHILDREN = 20;
const PURPOSES = [
	['turn', 'Turns', 'request'],
	['compaction', 'Compaction', 'summary request'],
	['title', 'Title', 'call'],
	['generate', 'Generated texts', 'call'],
	['sampling', 'MCP servers', 'request'],
];
const options = { unit: 'cost' };

/** @type {import('./inspector.js').View} */
export const costView = { load, draw, pace: () => 2000 };

async function load({ session }, known) {
	const path = `/api/session/${session}`;
	const [ledger, usage, tree, budgets] = await Promise.all([
		loadLedger(session, known?.ledger ?? null),
		get(`${path}/usage`),
		get(`${path}/tree`, { limit: 100 }),
		get(`${path}/budget`),
	]);
	return { ledger, usage: usage.data, tree: tree.data, budgets: budgets.data };
}

function draw(panel, data) {
	const { ledger, usage } = data;
	if (!ledger.entries.length && !usage.tree.cost)
		return nothing('layers', 'Nothing was spent yet', 'Each request to a model appears here with its cost.');
	const rows = ledgerRows(ledger.entries);
	const sums = account(rows);
	return h(
		'div.v-cost',
		selectedNote(panel),
		stats(usage, sums),
		budgetSection(panel, data.budgets),
		barsSection(panel, data, rows),
		sumSection(rows, sums),
		purposesSection(usage, sums),
		childrenSection(data.tree),
		tokensSection(usage),
	);
}

function stats(usage, { purposes, extra }) {
	const turns = purposes.get('turn') ?? { cost: 0, priced: 0 };
	const each = turns.cost / (turns.priced || 1);
	return h(
		'div.stats',
		stat(
			'cost-total',
			usage.tree.cost,
			money(usage.tree.cost),
			usage.tree.sessions > 1 ? 'this Session and its subagents' : 'this Session',
		),
		stat('cost-per-turn', each, usd(each), 'per request of a turn, on average'),
		stat('cost-extra', extra, money(extra), 'of it for sending things again', extra > 0.3 ? 'warn' : ''),
	);
}

function barsSection(panel, data, rows) {
	const redraw = () => panel.draw();
	const older = olderRequests(panel, data.ledger, (ledger) => ({ ...data, ledger }));
	const page = pageOf(panel.place, rows, PAGE, redraw, older);
	const { unit } = options;
	const keys =
		unit === 'tokens'
			? KINDS.map(([cls, name]) => keyOf(cls, name))
			: [keyOf('f-new', 'turn'), keyOf('f-out', 'other request'), keyOf('f-rewp', 'for sending again')];
	return h(
		'section',
		{ 'aria-label': 'Per request' },
		h(
			'h3',
			'Per request',
			h('span.grow'),
			segmented(
				'Measure',
				[
					['cost', 'Cost'],
					['tokens', 'Tokens'],
				],
				unit,
				(key) => {
					options.unit = key;
					redraw();
				},
			),
		),
		h('div.key', keys, h('span', h('i.brkkey'), 'prefix broken')),
		rows.length
			? costBars(page.rows, { unit, selected: state.turn, pick: (row) => row.turn != null && panel.ctx.select(row.turn, true) })
			: null,
		page.buttons,
	);
}

const sumSection = (rows, { paid }) =>
	rows.length < 2
		? null
		: h(
				'section',
				{ 'aria-label': 'Cumulative' },
				h('h3', 'Cumulative', figure('cost-listed', paid, money(paid), 'span.h-val.num')),
				cumulative(rows),
			);

function purposesSection(usage, { purposes, paid }) {
	const { own, tree } = usage;
	const rows = PURPOSES.filter(([key]) => purposes.has(key)).map(([key, name, noun]) => [
		key,
		name,
		plural(purposes.get(key).count, noun),
		purposes.get(key).cost,
	]);
	if (own.cost - paid > 1e-9) rows.push(['earlier', 'Earlier requests', 'not listed here', own.cost - paid]);
	if (tree.sessions > 1) rows.push(['subagents', 'Subagents', plural(tree.sessions - 1, 'Session'), tree.cost - own.cost]);
	return h(
		'section',
		{ 'aria-label': 'For what' },
		h('h3', 'For what'),
		h(
			'table.t',
			h(
				'tbody',
				rows.map(([key, name, note, cost]) =>
					h(
						'tr',
						h('td', name),
						h('td.dim', note),
						h('td.w', minibar(cost / (tree.cost || 1))),
						h('td.r', figure(`cost-${key}`, cost, usd(cost))),
					),
				),
			),
		),
	);
}

function childrenSection({ nodes, count }) {
	const children = nodes.filter((node) => node.depth === 1).sort((a, b) => b.total.cost - a.total.cost);
	if (!children.length) return null;
	return h(
		'section',
		{ 'aria-label': 'Subagents' },
		h('h3', 'Subagents', h('span.h-val.num', plural(count - 1, 'Session'))),
		h(
			'table.t',
			h(
				'tbody',
				children
					.slice(0, MANY_CHILDREN)
					.map((node) =>
						h(
							'tr',
							h('td', h('a.under', { href: `#/s/${node.id}` }, node.title)),
							h('td.dim', node.agent ?? ''),
							h('td.r', figure(`cost-child-${node.id}`, node.total.cost, usd(node.total.cost))),
						),
					),
			),
		),
		children.length > MANY_CHILDREN ? h('p.say.dim', `And ${children.length - MANY_CHILDREN} that cost less.`) : null,
	);
}

function tokensSection({ own, tree }) {
	const rows = KINDS.map(([cls, name, of]) => [name, of(own.tokens), of(tree.tokens), cls]);
	const head = tree.sessions > 1 ? ['', 'This Session', 'With subagents'] : ['', 'This Session'];
	return h(
		'section',
		{ 'aria-label': 'Tokens' },
		h('h3', 'Tokens', h('span.h-val.num', `${plural(own.turns, 'request')} · ${dur(own.time * 1000)} of work`)),
		h(
			'table.t',
			h(
				'thead',
				h(
					'tr',
					head.map((name, i) => h('th', { class: i ? 'r' : '', scope: 'col' }, name)),
				),
			),
			h(
				'tbody',
				rows.map(([name, mine, all, cls]) =>
					h(
						'tr',
						h('td', h('i.sw', { class: cls }), name),
						h('td.r', figure(`tokens-${name.replace(' ', '-')}`, mine, num(mine))),
						head.length > 2 ? h('td.r.num', num(all)) : null,
					),
				),
			),
		),
	);
}

const LIMITS = [
	['money', 'Money', money],
	['tokens', 'Tokens', tokens],
	['turns', 'Requests', num],
	['time', 'Time of work', (seconds) => dur(seconds * 1000)],
];

function budgetSection(panel, budgets) {
	if (!budgets.length) return null;
	return h(
		'section',
		{ 'aria-label': 'Budgets' },
		h('h3', 'Budgets'),
		budgets.map((budget) =>
			h(
				'div.budget',
				budget.sessionID === panel.session
					? null
					: h('p.say.dim', 'Of a Session above this one: ', h('a.under', { href: `#/s/${budget.sessionID}` }, budget.sessionID)),
				h(
					'table.t',
					h(
						'tbody',
						LIMITS.filter(([name]) => budget.limit[name] != null).map(([name, label, show]) => limitRow(budget, name, label, show)),
					),
				),
			),
		),
	);
}

function limitRow(budget, name, label, show) {
	const [limit, used, reserved] = [budget.limit[name], budget.used[name], budget.reserved[name]];
	const reached = (budget.reached ?? []).includes(name);
	return h(
		'tr',
		{ class: reached ? 'reached' : '' },
		h('td', label, reached ? h('span.tag.warn', 'reached') : null),
		h('td.w', minibar(limit ? (used + reserved) / limit : 1)),
		h(
			'td.r.num',
			figure(`budget-${name}-used`, used, show(used)),
			' of ',
			figure(`budget-${name}-limit`, limit, show(limit)),
			reserved ? h('p.dim', `+ ${show(reserved)} reserved`) : null,
		),
	);
}
