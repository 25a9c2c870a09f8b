// The conversation of a Session as rows of a windowed list: which rows its entries make, how each is drawn, and the text that is being
// written. It has no knowledge of events: an entry that changed arrives whole.
import { h, ib, icon, put, dur, tok, usd, pct, moment, clockS, since, plural, spinner, skeleton, toast, visible, TOOL_ICON } from './dom.js';
import { state, live, get, isBroken, sessionPath, stateOf } from './data.js';
import { modelName } from './home.js';

/**
 * @typedef {{id: string, rev: string, kind: string, entry: object, part?: object, calls?: object[], turn?: number, first?: boolean, depth: number}} Row
 * @typedef {{id: string, redraw: () => void, select: (turn: number) => void, fork: (id: string) => void, revert: (id: string) => void}} Context
 */
const opened = new Set(); // what the reader unfolded; survives windowing and reconnects
const unfold = (key, all) => ({ open: all || opened.has(key), ontoggle: (event) => (event.target.open ? opened.add(key) : opened.delete(key)) });
export const isOpen = (key) => opened.has(key);
export const setOpen = (key, open) => (open ? opened.add(key) : opened.delete(key));

// ---- which rows
const ESTIMATE = { user: 92, text: 84, reasoning: 28, tools: 40, task: 40, shell: 90, compaction: 46, mark: 28, summary: 32, turn: 34, edge: 40 };
/** The height of a row before it was in the document. */
export function estimate(row) {
	if (row.kind === 'tools') return 8 + row.calls.length * 31;
	if (row.kind === 'text') return 30 + Math.min(2000, (row.part.html?.length ?? 0) / 4);
	return ESTIMATE[row.kind] || 40;
}

/** Rows by entry: an entry that did not change gives the same objects, which the list then leaves alone. */
const made = new WeakMap();

/** The failed answer after which nothing came. */
let retryable = null;

/** All rows, oldest first. @returns {Row[]} */
export function rowsOf(entries, children) {
	const rows = [];
	const shown = state.at == null ? state.status?.session : null;
	retryable = shown && stateOf(shown) === 'failed' ? entries.findLast((entry) => entry.type !== 'mark') : null;
	const work = { turns: 0, start: 0, cost: 0, files: 0, additions: 0, deletions: 0 };
	for (const entry of entries) {
		rows.push(...rowsOfEntry(entry, children, 0));
		if (entry.type === 'user') Object.assign(work, { turns: 0, start: 0, cost: 0, files: 0, additions: 0, deletions: 0 });
		if (entry.type === 'assistant') addWork(work, entry);
		if (entry.type === 'assistant' && state.turn != null && entry.turn === state.turn) rows.push(selectedRow(entry));
		if (ended(entry) && work.turns) rows.push(summaryRow(entry, work));
	}
	return rows;
}

const ended = (entry) => entry.type === 'assistant' && !entry.open && !entry.error && entry.finish && !/^tool/.test(entry.finish);
const row = (kind, entry, id, rev, more) => ({ kind, entry, id, rev, depth: 0, turn: entry.turn, ...more });

function selectedRow(entry) {
	return row('turn', entry, `turn/${entry.id}`, `${entry.time.completed}`);
}

function addWork(work, entry) {
	work.turns += 1;
	work.start ||= entry.time.created;
	work.end = entry.time.completed ?? entry.time.created;
	work.cost += entry.cost || 0;
	for (const part of entry.parts) {
		if (part.type !== 'tool' || part.additions == null) continue;
		work.files += 1;
		work.additions += part.additions;
		work.deletions += part.deletions || 0;
	}
}
const summaries = new WeakMap();
function summaryRow(entry, work) {
	const rev = JSON.stringify(work);
	const known = summaries.get(entry);
	if (known?.rev === rev) return known;
	const fresh = row('summary', entry, `summary/${entry.id}`, rev, { work: { ...work } });
	summaries.set(entry, fresh);
	return fresh;
}

function rowsOfEntry(entry, children, depth) {
	const shape = `${state.detail}${depth}${isBroken(entry)}${entry === retryable}${entry.type === 'assistant' ? childKey(entry, children) : ''}`;
	const known = made.get(entry);
	if (known?.shape === shape) return known.rows;
	const rows = entry.type === 'assistant' ? assistantRows(entry, children, depth) : [plainRow(entry)];
	for (const each of rows) each.depth ||= depth;
	made.set(entry, { shape, rows });
	return rows;
}

/** Which subagents of an entry are unfolded, and in which state. */
const childKey = (entry, children) => entry.parts.filter((part) => part.childID && opened.has(part.id))
	.map((part) => `${part.id}${children.get(part.childID)?.revision ?? 0}`).join();

// Revisions are short, or the very string that is shown: texts must not be in memory twice.
const plainRow = (entry) => row(entry.type, entry, entry.id, [entry.open && isBroken(entry), entry.open, entry.html?.length, entry.title, entry.error, entry.exit].join('|'));
const textRevision = (part, broken) => (part.open ? `open ${part.html?.length ?? 0} ${broken} ${part.partial?.length}` : part.html ?? '');
const callRevision = (call, broken) => [call.time.completed ? '' : broken, call.id, call.status, call.title, call.outcome, call.additions, call.deletions, call.peek, call.body].join('|');

function assistantRows(entry, children, depth) {
	const rows = [];
	let group = null;
	const outline = state.detail === 'outline';
	const broken = isBroken(entry);
	for (const part of entry.parts) {
		const id = `${entry.id}/${part.id}`;
		if (part.type === 'tool' && part.childID) {
			group = null;
			rows.push(row('task', entry, id, callRevision(part, broken) + opened.has(part.id), { part }));
			if (opened.has(part.id)) rows.push(...childRows(part, children, depth + 1));
		} else if (part.type === 'tool') {
			if (outline) continue;
			if (!group) rows.push((group = row('tools', entry, id, '', { calls: [] })));
			group.calls.push(part);
			group.rev += callRevision(part, broken);
		} else {
			if (part.type === 'reasoning' && outline) continue;
			if (part.type === 'text' && !part.html && !part.open && !part.brokenOff) continue;
			group = null;
			rows.push(row(part.type, entry, id, textRevision(part, broken), { part }));
		}
	}
	if (entry.error) rows.push(row('failure', entry, `${entry.id}/failure`, `${entry.error}${entry === retryable}`));
	if (entry.open && !entry.parts.length) rows.push(row('opening', entry, `${entry.id}/opening`, `${broken}`));
	if (rows.length) rows[0].first = true;
	return rows;
}

/** Subagents unfold in place: their rows join the same list, one level in. */
function childRows(part, children, depth) {
	const child = children.get(part.childID);
	const rest = row('childend', { id: part.childID }, `${part.id}/end`, `${child?.state}`, { part, depth, child });
	const rows = (child?.entries || []).filter((entry) => entry.type === 'assistant').flatMap((entry) => rowsOfEntry(entry, children, depth));
	return [...rows.map((each) => ({ ...each, first: false, turn: undefined, depth })), rest];
}

// ---- how a row is drawn
const LABEL = { user: 'You', shell: 'Command', compaction: 'Compaction', mark: 'Mark', edge: 'Beginning', summary: 'Summary' };

/** @param {Row} item @param {Context} context */
export function drawRow(item, context) {
	const label = LABEL[item.kind] || (item.turn ? `Turn ${item.turn}` : 'Answer');
	const el = h('article.it', { class: `k-${item.kind}`, 'data-turn': item.turn, tabindex: -1, 'aria-label': label }, DRAW[item.kind](item, context));
	if (item.depth) {
		el.style.setProperty('--depth', item.depth);
		el.classList.add('child');
	}
	if (item.first && item.turn) el.prepend(turnButton(item.turn));
	if (context.isReverted(item.entry)) el.classList.add('ghost');
	markSelected(el);
	return el;
}

export const markSelected = (el) => el.classList.toggle('sel', state.turn != null && el.dataset.turn === String(state.turn));
const turnButton = (turn) => h('button.tn', {
	type: 'button', 'data-turn-no': turn, title: `Turn ${turn}: show it in the inspector`, 'aria-label': `Turn ${turn}`,
}, String(turn));

const DRAW = {
	user: drawUser, text: drawText, reasoning: drawReasoning, tools: (item) => h('div.list.tools', item.calls.map((part) => drawCall(item.entry, part))),
	task: drawTask, childend: drawChildEnd, shell: drawShell, compaction: drawCompaction, mark: drawMark, summary: drawSummary, turn: drawTurn,
	failure: drawFailure, opening: drawOpening, edge: (item) => item.draw(),
};

function drawUser({ entry }, context) {
	const waited = entry.admitted ? entry.time.created - entry.admitted : 0;
	const joined = waited > 1000
		? h('span.tag', { title: 'Admitted while a turn ran; joined at the next safe boundary' }, `${entry.delivery || 'steer'} · joined after ${dur(waited)}`)
		: null;
	const past = state.at != null;
	return h('div.user',
		h('header', h('b', 'You'), entry.command ? h('span.tag', `/${entry.command}`) : null, joined, h('time.dim', moment(entry.time.created)), h('span.grow'),
			h('span.acts', past ? null : ib('branch', 'Fork from before this', () => context.fork(entry.id), { 'data-needs': 'prompt' }),
				past ? null : ib('revert', 'Revert to before this', () => context.revert(entry.id), { 'data-needs': 'prompt' }),
				ib('copy', 'Copy', () => copy(entry.text)))),
		h('div.md', { html: entry.html }), entry.files?.length ? h('div.files', entry.files.map(drawFile)) : null);
}

export const copy = (text) => navigator.clipboard?.writeText(text).then(() => toast('Copied'), () => toast('The browser does not allow to copy.', true));

const SHOWN_IMAGE = /^data:image\/(png|jpeg|gif|webp);base64,/;
function drawFile({ name, mime, uri }) {
	const chip = h('span.filechip', icon('clip'), name, h('span.dim', mime));
	if (!uri || !SHOWN_IMAGE.test(uri)) return chip;
	const bytes = Uint8Array.from(atob(uri.slice(uri.indexOf(',') + 1)), (character) => character.charCodeAt(0));
	const url = URL.createObjectURL(new Blob([bytes], { type: mime }));
	return h('figure.image', h('img', { src: url, alt: name, onload: () => URL.revokeObjectURL(url) }), chip);
}

function drawOpening({ entry }) {
	return isBroken(entry) ? brokenOff('It broke off before an answer') : h('p.opening.dim', spinner(), 'Waiting for the model');
}

/** Said at the end of what a process left, in place of a cursor, a spinner or a clock. */
const brokenOff = (text = 'It broke off here') => h('p.broken.dim', icon('alert'), state.at == null ? text : 'Not complete at this moment');

function drawText({ part, id, entry }) {
	const broken = part.open && isBroken(entry);
	const el = h('div.md', { html: part.html, class: part.open && !broken ? 'streaming' : '' });
	if (part.open) paint(el, id, broken, part.partial);
	return broken || part.brokenOff ? h('div', el, brokenOff()) : el;
}

function drawReasoning({ part, id, entry }) {
	const writes = part.open && !isBroken(entry);
	const took = part.time?.completed ? `Thought for ${dur(part.time.completed - part.time.created)}` : 'Thought';
	const body = h('div.md', { html: part.html });
	if (part.open) paint(body, id, !writes, part.partial);
	return h('details.think', unfold(id, state.detail === 'full'),
		h('summary', icon('think'), writes ? 'Thinking' : part.open ? 'Thought, until it broke off' : took, writes ? spinner() : null, icon('right')), body);
}

const CALL_CLASS = { error: 'bad', waiting: 'asking' };
function drawCall(entry, part) {
	const key = `${entry.id}/${part.id}`;
	const body = h('div.call-body');
	const begun = part.status === 'running' || part.status === 'pending';
	const right = begun && isBroken(entry) ? h('span.warnt', state.at != null ? 'was running' : part.status === 'pending' ? 'never ran' : 'outcome unknown') : begun ? [h('span.sr', part.status === 'pending' ? 'is being written' : 'is running'), spinner(), since(part.time.ran ?? part.time.created)]
		: part.status === 'waiting' ? h('span.warnt', 'waits for you')
			: [h('span.out', part.outcome || (part.status === 'error' ? 'failed' : '')), changes(part), took(part)];
	const sum = h('summary', { class: `is-${part.status}` }, icon(TOOL_ICON[part.name] || (part.name.includes('_') ? 'plug' : 'bolt')), h('b', part.name),
		h('code', part.title), h('span.grow'), right);
	const toggled = () => {
		setOpen(key, el.open);
		if (el.open) fillCall(body, entry, part);
	};
	const open = state.detail === 'full' || opened.has(key);
	const el = h('details.call', { class: CALL_CLASS[part.status] || '', open, ontoggle: toggled }, sum, body);
	if (el.open) fillCall(body, entry, part);
	const writing = part.status === 'pending' && live.get(key)?.tail;
	const peek = part.peek && !el.open ? h('pre.peek', part.peek.trim()) : null;
	return h('div.callbox', { 'data-call': key }, el, peek, writing ? h('pre.peek.writing', writing) : null);
}
const changes = (part) => (part.additions == null ? null
	: h('span.delta', h('span.add', `+${part.additions}`), part.deletions ? h('span.rem', `−${part.deletions}`) : null));
const took = (part) => (part.time.completed ? h('span.d.num', dur(part.time.completed - (part.time.ran ?? part.time.created))) : null);

/** The body of a call is asked for when it is unfolded. */
async function fillCall(body, entry, part) {
	if (body.filled) return;
	body.filled = true;
	if (part.status === 'waiting') put(body, h('p.dim.note', 'Nothing has run yet. The answer is asked for below.'));
	if (!part.body && part.status !== 'waiting') put(body, h('p.dim.note', part.status === 'completed' ? 'No output.' : 'Nothing to show yet.'));
	if (!part.body) return;
	put(body, h('div.note', skeleton(3)));
	try {
		const { data } = await get(sessionPath(entry.sessionID || state.session, `/rendered/${entry.id}/${encodeURIComponent(part.id)}`));
		const region = { tabindex: 0, role: 'region', 'aria-label': `${part.name} ${part.title}` };
		put(body, h('div.tbl', { html: data.html, ...region }), data.cut ? h('p.dim.note', 'A part was left out because of its size.') : null,
			data.paths?.length ? h('p.dim.note', 'The whole output: ', data.paths.map((path) => h('code', path))) : null);
	} catch (error) {
		body.filled = false;
		const again = h('button.btn.small', { type: 'button', onclick: () => fillCall(body, entry, part) }, 'Try again');
		put(body, h('p.dim.note', `This cannot be shown: ${error.message} `, again));
	}
}

function drawTask({ part, entry }, context) {
	const open = opened.has(part.id);
	const toggle = () => {
		setOpen(part.id, !open);
		context.unfoldChild(part.childID, !open);
	};
	const begun = part.status === 'running' || part.status === 'pending';
	const broken = begun && isBroken(entry);
	const button = h('button.call.taskbtn', { type: 'button', 'aria-expanded': String(open), class: CALL_CLASS[part.status] || '', onclick: toggle },
		icon('branch'), h('b', part.name), h('span.t-arg', part.title), h('span.grow'),
		broken ? h('span.warnt', state.at == null ? 'broke off' : 'was running') : begun ? [spinner(), since(part.time.ran ?? part.time.created)] : h('span.out', part.outcome || ''), took(part), icon(open ? 'down' : 'right'));
	return h('div.list.tools.task', h('div.callbox', button, part.peek ? h('pre.peek', part.peek) : null));
}

function drawChildEnd({ part, child }) {
	if (!child || child.state === 'loading') return h('div.note', skeleton(2));
	if (child.state === 'failed') return h('p.dim.note', 'The subagent’s conversation cannot be read.');
	return h('a.childend', { href: `#/s/${part.childID}` }, 'Open this subagent’s session', icon('right'));
}

function drawShell({ entry, id }) {
	const out = h('pre.term', { html: entry.html, tabindex: 0, role: 'region', 'aria-label': `Output of ${entry.command}` });
	const broken = entry.open && isBroken(entry);
	if (entry.open) paint(out, `${id}/${id}`, broken);
	return h('div.list.tools', h('details.call', { open: true, class: entry.exit ? 'bad' : '' },
		h('summary', icon('terminal'), h('b', 'You ran'), h('code', entry.command), h('span.grow'),
			broken ? h('span.warnt', 'outcome unknown') : entry.open ? spinner() : h('span.out', entry.exit == null ? '' : `exit ${entry.exit}`)), out));
}

function drawCompaction({ entry, id }) {
	const body = h('div.md', { html: entry.html });
	const broken = entry.open && isBroken(entry);
	if (entry.open) paint(body, `${id}/${id}`, broken);
	const label = broken ? [icon('alert'), h('b', 'Compaction'), h('span.dim', state.at == null ? 'broke off' : 'was under way')] : entry.open ? [spinner(), h('b', 'Compacting'), h('span.dim', 'a summary of older history is written')]
		: entry.error ? [icon('alert'), h('b', 'Compaction failed'), h('span', entry.error)] : [icon('fold'), h('b', 'Compacted'), h('span.dim', entry.reason)];
	return h('details.mark.cmp', unfold(id), h('summary', h('span.mark-l', label, icon('right'))),
		h('div.cmp-body', h('p.dim', 'From here on the model reads this instead of what is above. You still see everything.'), body));
}

const MARK_ICON = {
	context: 'layers', agent: 'bolt', model: 'bolt', synthetic: 'plug', retry: 'clock', crash: 'alert', suspended: 'stop', abandoned: 'x',
	interrupted: 'stop', moved: 'file',
};
function drawMark({ entry, id }) {
	const label = [icon(MARK_ICON[entry.kind] || 'dots'), h('b', entry.title), h('time.dim', clockS(entry.time.created))];
	if (!entry.html) return h('div.mark', { class: entry.kind }, h('span.mark-l', label));
	return h('details.mark', { class: entry.kind, ...unfold(id, state.detail === 'full') }, h('summary', h('span.mark-l', label, icon('right'))),
		h('div.cmp-body', h('div.md.told', { html: entry.html })));
}

/** What one prompt came to. */
function drawSummary({ work }, context) {
	const changed = work.files ? h('a', { href: `#/s/${context.id}/changes` }, `${plural(work.files, 'change')} `, h('span.add', `+${work.additions}`), ' ',
		h('span.rem', `−${work.deletions}`)) : null;
	const cost = work.cost ? h('span.num', usd(work.cost)) : null;
	return h('div.sum', h('span', plural(work.turns, 'turn')), h('span.num', dur(work.end - work.start)), cost, changed);
}

function drawTurn({ entry, turn }, context) {
	const to = (tab, text) => h('a', { href: `#/s/${context.id}/${tab}` }, text);
	const { tokens } = entry;
	const sent = tokens ? tokens.input + tokens.cache.read + tokens.cache.write : 0;
	return h('div.turninfo', h('b', `Turn ${turn}`), h('span', [entry.agent, modelName(entry.model)].filter(Boolean).join(' · ')),
		entry.time.completed ? to('timeline', dur(entry.time.completed - entry.time.created)) : h('span', 'not ended'),
		sent ? to('cache', `${tok(sent / 1000)} sent, ${pct(tokens.cache.read / sent)} cached`) : null,
		tokens ? to('cost', `${tok(tokens.output / 1000)} out${entry.cost == null ? '' : ` · ${usd(entry.cost)}`}`) : null, to('events', `from #${entry.seq}`),
		h('span.grow'), ib('x', 'Clear the selection', () => context.select(turn)));
}

function drawFailure({ entry }, context) {
	if (entry.error.startsWith('Suspended')) return h('div.mark', h('span.mark-l', icon('stop'), h('b', 'The server was stopped here'), h('span', 'The next one goes on.')));
	if (/interrupted/i.test(entry.error)) return h('div.mark', h('span.mark-l', icon('stop'), h('b', 'Interrupted'), h('span', entry.error)));
	return h('div.turnfail', { role: 'note' }, icon('alert'), h('div', h('b', 'The turn failed'), h('p', entry.error),
		h('div.row', entry === retryable ? h('button.btn.small', { type: 'button', 'data-needs': 'prompt', onclick: () => context.retry() }, 'Try again') : null,
			h('button.btn.small', { type: 'button', onclick: () => copy(entry.error) }, 'Copy details'))));
}

// ---- text that is being written
const MOST_OPEN = 20_000; // characters of an open block that are shown

/** Draws what came since the last time: finished blocks once, then the open one as text. Of a broken text nothing more comes.
 * `partial` is what the server keeps of it, for as long as no live text has come. */
export function paint(box, name, broken = false, partial = '') {
	const text = live.get(name) ?? (partial ? { kind: 'text', blocks: [], index: 0, tail: partial } : null);
	if (!text) return;
	if (box.text !== text) {
		box.replaceChildren();
		Object.assign(box, { text, done: 0, tail: null });
		box.classList.toggle('streaming', !broken);
	}
	for (; text.blocks[box.done] != null; box.done++) {
		box.tail?.remove();
		box.tail = null;
		box.append(h('div.blk', { html: text.blocks[box.done] }));
	}
	if (!text.tail) return;
	if (!box.tail) box.append((box.tail = h(text.kind === 'text' || text.kind === 'reasoning' ? 'p.tail' : 'pre.tail.term')));
	box.tail.textContent = visible(text.tail.slice(-MOST_OPEN));
}

/** Draws text into the row that shows it, if it is in the document. */
export function paintRow(list, name) {
	const [message, part] = name.split('/');
	const el = list.live.get(message === part ? message : name);
	const box = el?.querySelector('.md, .call > .term');
	if (box && !el.querySelector('[data-call]')) paint(box, name);
	else paintInput(name);
}

/** The input of a call, below its line. */
function paintInput(name) {
	const call = document.querySelector(`[data-call="${CSS.escape(name)}"]`);
	const text = live.get(name);
	if (!call || !text) return;
	let tail = call.querySelector('.writing');
	if (!tail) call.append((tail = h('pre.peek.writing')));
	tail.textContent = visible(text.tail.slice(-2000));
}
