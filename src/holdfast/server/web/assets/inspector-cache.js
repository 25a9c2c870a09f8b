// How much of each prompt came from the provider's cache, what broke the common prefix, and what that cost.
import { h, pct, usd, plural } from './dom.js';
import { state } from './data.js';
import { cacheMap } from './charts-cache.js';
import { account, ledgerRows, loadLedger, olderRequests } from './inspector-ledger.js';
import { figure, keyOf, money, nothing, pageOf, segmented, selectedNote, stat, tokens, turnButton } from './inspector-parts.js';

const PAGE = 100;
const MANY_BREAKS = 50;
const options = { unit: 'tokens' };

/** @type {import('./inspector.js').View} */
export const cacheView = { load: ({ session }, known) => loadLedger(session, known), draw, pace: () => 2000 };

function draw(panel, ledger) {
	if (!ledger.entries.length)
		return nothing('layers', 'No request was made yet', 'Each request to a model appears here, with what of it was cached.');
	const rows = ledgerRows(ledger.entries);
	const sums = account(rows);
	return h('div.v-cache', selectedNote(panel), stats(sums), mapSection(panel, ledger, rows), breaksSection(panel, sums));
}

function stats({ sent, cached, breaks, expired, extra }) {
	const told = expired.length ? `breaks of the prefix; ${expired.length} more expired at the provider` : 'breaks of the prefix';
	return h(
		'div.stats',
		stat('cache-share', sent ? cached / sent : 0, pct(sent ? cached / sent : 0), 'of all prompt tokens came from the cache'),
		stat('cache-breaks', breaks.length, String(breaks.length), told),
		stat('cache-extra', extra, money(extra), 'paid for sending things again', extra > 0.3 ? 'warn' : ''),
	);
}

function mapSection(panel, ledger, rows) {
	const { unit } = options;
	const redraw = () => panel.draw();
	const older = olderRequests(panel, ledger, (all) => all);
	const page = pageOf(panel.place, rows, PAGE, redraw, older);
	const words = unit === 'bytes' ? ['same as before', 'changed', 'new'] : ['cached', 'sent again', 'new'];
	return h(
		'section',
		{ 'aria-label': 'Prompt of every request' },
		h(
			'h3',
			'Prompt of every request',
			h('span.grow'),
			segmented(
				'Unit',
				[
					['tokens', 'Tokens'],
					['bytes', 'Bytes'],
				],
				unit,
				(key) => {
					options.unit = key;
					redraw();
				},
			),
		),
		h(
			'div.key',
			['f-cached', 'f-rewp', 'f-new'].map((cls, i) => keyOf(cls, words[i])),
			h('span', h('i.tickkey'), 'end of tools and agent, of baseline'),
		),
		cacheMap(page.rows, { unit, selected: state.turn, pick: (row) => row.turn != null && panel.ctx.select(row.turn, true) }),
		page.buttons,
	);
}

function breaksSection(panel, { breaks, expired, paid, extra }) {
	const all = [...breaks, ...expired].sort((a, b) => b.seq - a.seq);
	const note = h(
		'p.say.dim',
		'Paid ',
		figure('cache-paid', paid, money(paid)),
		`; ${money(Math.max(0, paid - extra))} if nothing had been sent again.`,
	);
	if (!all.length)
		return h('section', h('h3', 'What broke it'), h('p.say', 'Nothing. Every request began with the bytes of the one before it.'), note);
	const head = h(
		'thead',
		h(
			'tr',
			['Turn', 'Cause', 'Again', 'Extra'].map((name, i) => h('th', { class: i > 1 ? 'r' : '', scope: 'col' }, name)),
		),
	);
	return h(
		'section',
		{ 'aria-label': 'What broke it' },
		h('h3', 'What broke it', h('span.h-val', 'newest first')),
		h(
			'table.t.breaks',
			head,
			h(
				'tbody',
				all.slice(0, MANY_BREAKS).map((row) => breakRow(panel, row)),
			),
		),
		all.length > MANY_BREAKS ? h('p.say.dim', `And ${plural(all.length - MANY_BREAKS, 'older one')}.`) : null,
		note,
	);
}

function breakRow(panel, row) {
	return h(
		'tr',
		{ class: row.turn === state.turn ? 'sel' : '', 'data-seq': row.seq },
		h('td', row.turn == null ? '–' : turnButton(panel, row.turn)),
		h(
			'td',
			h('b', row.expired ? 'Expired at the provider' : row.causes.join(' + ')),
			row.expired ? h('span.tag', 'prefix intact') : null,
			row.plugins.map((plugin) => h('span.tag', plugin)),
			h('p.dim', row.why),
		),
		h(
			'td.r.num',
			{ title: 'Estimated: tokens of the request before it that were not read from the cache' },
			row.tokens ? tokens(row.tokens.again) : '–',
		),
		h('td.r.num', row.extra == null ? '–' : figure(`extra-${row.seq}`, row.extra, usd(row.extra))),
	);
}
