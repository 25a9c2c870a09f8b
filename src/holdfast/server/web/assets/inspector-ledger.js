// The requests of a Session as rows of the Cache and Cost views, and their sums.
import { get } from './data.js';
import { attempt } from './inspector-parts.js';

/**
 * @typedef {{total: number, same: number, again: number, fresh: number, ends: number[]}} Size `ends`: where tools and baseline end
 * @typedef {{key: string, seq: number, turn: number|null, purpose: string, status: string, label: string, name: string, model: string,
 *   causes: string[], plugins: string[], expired: boolean, first: boolean, why: string, cost: number|null, extra: number|null,
 *   used: object|null, tokens: Size|null, bytes: Size|null}} Row
 */

const PAGE = 1000;
const NEWEST = 50;
const LETTER = { compaction: 'Σ', title: 'T', generate: 'G', sampling: 'S' };
const NAME = { compaction: 'Summary for a compaction', title: 'Title', generate: 'Generated text', sampling: 'Request of an MCP server' };

/** Why a request does not begin with the bytes of the one before it, by the cause that its dispatch recorded. */
export const CAUSES = {
	'new epoch': 'The baseline was rendered anew.',
	compaction: 'A summary took the place of older messages.',
	'agent switch': 'Another agent has another text, other tools or other settings.',
	'model switch': 'Another model has a cache of its own.',
	'tool change': 'The definitions of tools changed. They stand before everything else.',
	'last step': 'The last step that is allowed is asked for without tools.',
	pruning: 'Old outputs of tools were replaced by notes.',
	revert: 'Messages were taken back.',
	hook: 'A plugin changed the request.',
	configuration: 'Settings of the agent or the model changed.',
	'media refused': 'The provider refused media; notes stand in their place.',
	'output format': 'The form of the answer was asked for, or no longer.',
};
const EXPIRED = 'The request began with the same bytes. The provider had them no longer in its cache.';

/**
 * The newest requests, oldest first. What was loaded before is kept, and only the newest are asked for.
 * @returns {Promise<{entries: object[], more: boolean}>}
 */
export async function loadLedger(session, before = null) {
	const path = `/api/session/${session}/ledger`;
	if (!before) {
		const page = await get(path, { limit: PAGE });
		return { entries: page.data, more: !!page.hasMore };
	}
	const { data, hasMore } = await get(path, { limit: NEWEST });
	const from = data[0]?.seq ?? Infinity;
	const kept = before.entries.filter((entry) => entry.seq < from);
	const joined = hasMore && before.entries.length && !before.entries.some((entry) => entry.seq >= from);
	return joined ? loadLedger(session) : { entries: [...kept, ...data], more: before.more };
}

/** What asks for the page of requests before those that are known, and shows it; null if there is none. */
export function olderRequests(panel, ledger, keep) {
	if (!ledger.more) return null;
	return attempt(async () => {
		const page = await get(`/api/session/${panel.session}/ledger`, { limit: PAGE, before: ledger.entries[0]?.seq });
		panel.data = keep({ entries: [...page.data, ...ledger.entries], more: !!page.hasMore });
		panel.place.end = page.data.length;
		panel.draw();
	});
}

/** Tokens that a request sent: those that were read from or written to the cache and the others. */
export const promptOf = (used) => used.input + used.cache.read + used.cache.write;

/** @returns {Row[]} */
export function ledgerRows(entries) {
	const caching = new Set();
	const rows = [];
	let last = null;
	for (const entry of entries) {
		const row = rowOf(entry, last, caching);
		rows.push(row);
		const used = entry.tokens;
		if (used && used.cache.read + used.cache.write > 0) caching.add(row.model);
		if (entry.purpose === 'turn' && entry.status !== 'abandoned' && (used || entry.bytes)) last = entry;
	}
	return rows;
}

function rowOf(entry, last, caching) {
	const { purpose, turn = null, causes = [], plugins = [] } = entry;
	const model = entry.model ? `${entry.model.providerID}/${entry.model.id}` : '';
	const compared = purpose === 'turn' ? last : null;
	const known = caching.has(model);
	const sizes = { tokens: inTokens(entry, compared), bytes: inBytes(entry, compared) };
	const expired = !causes.length && known && !!sizes.tokens && missed(sizes.tokens, compared);
	if (!expired && !causes.length) for (const size of Object.values(sizes)) settle(size);
	const why = expired
		? EXPIRED
		: causes.map((cause) => CAUSES[cause] ?? '').join(' ') + (plugins.length ? ` Plugin: ${plugins.join(', ')}.` : '');
	return {
		key: String(entry.seq),
		seq: entry.seq,
		turn,
		purpose,
		status: entry.status,
		model,
		causes,
		plugins,
		expired,
		why,
		label: purpose === 'turn' ? String(turn ?? '–') : (LETTER[purpose] ?? '·'),
		name: purpose === 'turn' ? `Turn ${turn ?? 'without a number'}` : (NAME[purpose] ?? purpose),
		first: purpose === 'turn' && !last,
		cost: entry.cost ?? null,
		extra: entry.extra ?? null,
		used: entry.tokens ?? null,
		...sizes,
	};
}

function inTokens(entry, last) {
	const used = entry.tokens;
	if (!used) return null;
	const total = promptOf(used);
	const before = last?.tokens ? promptOf(last.tokens) : 0;
	const again = Math.max(0, Math.min(total, before) - used.cache.read);
	const size = entry.bytes;
	const ends = size?.total
		? [size.tools + size.system - size.baseline, size.tools + size.system].map((end) => (end / size.total) * total)
		: [];
	return { total, same: used.cache.read, again, fresh: Math.max(0, total - used.cache.read - again), ends };
}

function inBytes(entry, last) {
	const size = entry.bytes;
	if (!size) return null;
	const same = Math.min(size.same, size.total);
	const again = last?.bytes ? Math.max(0, Math.min(size.total, last.bytes.total) - same) : 0;
	return {
		total: size.total,
		same,
		again,
		fresh: size.total - same - again,
		ends: [size.tools + size.system - size.baseline, size.tools + size.system],
	};
}

/** Whether much less was read from the cache than the request before it had put there. */
function missed(size, last) {
	const before = last?.tokens ? promptOf(last.tokens) : 0;
	return before >= 1024 && size.again > Math.max(1024, Math.min(size.total, before) * 0.25);
}

/** Providers cache whole blocks, so a request whose prefix is intact sends the rest of a block again: not worth showing. */
function settle(size) {
	if (!size) return;
	size.fresh += size.again;
	size.again = 0;
}

/** Sums over rows. @param {Row[]} rows */
export function account(rows) {
	const sum = (of) => rows.reduce((total, row) => total + (of(row) || 0), 0);
	const purposes = new Map();
	for (const row of rows) {
		const entry = purposes.get(row.purpose) ?? { cost: 0, count: 0, priced: 0 };
		purposes.set(row.purpose, {
			cost: entry.cost + (row.cost ?? 0),
			count: entry.count + 1,
			priced: entry.priced + (row.cost == null ? 0 : 1),
		});
	}
	return {
		sent: sum((row) => row.tokens?.total),
		cached: sum((row) => row.tokens?.same),
		extra: sum((row) => row.extra),
		paid: sum((row) => row.cost),
		breaks: rows.filter((row) => row.causes.length),
		expired: rows.filter((row) => row.expired),
		purposes,
	};
}
