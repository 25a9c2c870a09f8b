// The conversation on the page: which entries it shows, in a windowed list, now or as they were in the past.
import { h, icon, put, announce, toast, skeleton, empty } from './dom.js';
import { state, get, post, emit, follow, loadOlder, saveDraft, sessionPath, stateOf } from './data.js';
import { WindowList, OVERSCAN } from './window-list.js';
import { rowsOf, drawRow, estimate, markSelected, paintRow } from './conversation.js';
import { act, fork, shownSession } from './session-actions.js';

const NEAR_TOP = 1500; // pixels from the top at which an older page is asked for
const FAR = 300; // pixels from the end at which the dock becomes small
const PAST_ENTRIES = 200;
const MOST_PAGES = 100; // that are read in search of a turn
const MOST_PRINTED = 3000; // rows

export class Feed {
	constructor(id) {
		this.id = id;
		this.children = new Map(); // unfolded subagents: id → {state, entries, revision}
		this.past = null; // entries of the past that is shown
		this.seen = 0; // the sequence up to which the reader has seen everything
		this.dirty = new Set(); // texts that are to be painted in the next frame
		this.frame = 0;
		this.scroller = h('div.feed', { role: 'log', 'aria-label': 'Conversation', 'aria-live': 'off', tabindex: 0 });
		this.jump = h('button.jump', { type: 'button', hidden: true, onclick: () => this.list.toEnd() }, icon('down'), h('span', 'Newest'));
		this.cover = h('div.cover');
		this.dock = null;
		this.el = h('div.feed-wrap', this.scroller, this.cover, this.jump);
		const context = this.context();
		this.list = new WindowList(this.scroller, { estimate, render: (row) => drawRow(row, context), onRange: () => this.ranged() });
		this.select = this.select.bind(this);
		this.showTurn = this.showTurn.bind(this);
		this.el.addEventListener('click', (event) => this.clicked(event));
		printed = this;
		this.drawCover();
	}

	/** What rows can do and ask. */
	context() {
		const { id } = this;
		return {
			id,
			select: (turn) => this.select(turn),
			isReverted: (entry) => this.isReverted(entry),
			unfoldChild: (childID, open) => this.unfoldChild(childID, open),
			fork: (messageID) => fork(id, { type: 'before', messageID }),
			revert: (messageID) => this.revert(messageID),
			retry: () => act('Not tried again', post(sessionPath(id, '/run'))),
		};
	}

	isReverted(entry) {
		const from = state.at == null ? state.entries.get(this.revertedTo)?.seq : null;
		return from != null && entry.seq > from;
	}

	/** Stages a revert to the message before a prompt: that message stays. The first prompt has none before it and stays itself. */
	async revert(promptID) {
		const prompt = state.entries.get(promptID);
		const isBefore = (entry) => entry.id.startsWith('msg_') && entry.type !== 'mark' && entry.seq < prompt.seq;
		const before = () => [...state.entries.values()].filter(isBefore).reduce((last, entry) => (last?.seq > entry.seq ? last : entry), null);
		if (!before()) await loadOlder().catch(() => false);
		if (!before() && state.cursor) return toast('Nothing was reverted: the message before it could not be loaded.', true);
		const messageID = before()?.id ?? promptID;
		await act('Nothing was reverted', post(sessionPath(this.id, '/revert/stage'), { messageID }), 'Revert is staged');
	}

	// ---- what is shown
	draw() {
		const entries = [...(this.past || state.entries).values()].sort((a, b) => a.seq - b.seq);
		const rows = rowsOf(entries, this.children);
		this.list.setItems(rows.length ? [this.edge(), ...rows] : rows);
		const unread = this.list.pinned ? 0 : entries.filter((entry) => entry.seq > this.seen).length;
		put(this.jump, icon('down'), h('span', unread ? `${unread} new` : 'Newest'));
		this.drawCover();
	}

	/** The row at the top: that there is more, or that this is the beginning. */
	edge() {
		const text = this.past
			? (this.past.size < PAST_ENTRIES ? 'The session begins here' : 'Older messages are not shown in the past')
			: (state.cursor ? 'Loading older messages…' : 'The session begins here');
		if (this.top?.rev !== text) {
			this.top = { kind: 'edge', id: 'edge', rev: text, entry: { seq: 0 }, depth: 0, loose: true, draw: () => h('p.dim.edge', text) };
		}
		return this.top;
	}

	drawCover() {
		const covered = state.load !== 'ready' || !(this.past || state.entries).size;
		const rev = covered ? `${state.load}${state.error}` : '';
		if (this.coverRev === rev) return;
		this.coverRev = rev;
		put(this.cover, covered ? coverOf(this.id) : null);
	}

	redraw() {
		this.list.clear();
		this.draw();
	}

	ranged() {
		const { list, scroller } = this;
		if (list.pinned) this.seen = state.head;
		this.jump.hidden = list.pinned;
		const fromEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight;
		if (list.pinned) this.dock?.classList.remove('slim', 'unslim');
		else if (fromEnd > FAR && !this.dock?.classList.contains('unslim')) this.dock?.classList.add('slim');
		if (!this.past && scroller.scrollTop < NEAR_TOP && state.cursor) this.readOlder();
	}

	/** One page; the next one if the reader is still near the top. */
	async readOlder() {
		if (this.reading) return;
		this.reading = true;
		const more = await loadOlder().catch(() => false);
		this.reading = false;
		if (more) this.list.schedule();
	}

	changed(topic, data) {
		if (topic === 'block' && !this.past) {
			this.dirty.add(data);
			this.frame ||= requestAnimationFrame(() => this.paint());
		}
		if (topic === 'entries' && !this.past) {
			this.draw();
			announceEnd(data);
		}
		if (topic === 'detail') this.redraw();
		if (topic === 'overview' && this.children.size && !this.past) this.draw();
		if (topic !== 'status') return;
		this.drawCover();
		const shown = shownSession();
		const said = `${state.brokenAt} ${shown && stateOf(shown)}`;
		if (this.said !== said && !this.past) this.draw();
		this.said = said;
		const reverted = shownSession()?.session.revert?.messageID;
		if (this.revertedTo === reverted) return;
		this.revertedTo = reverted;
		this.redraw();
	}

	/** Texts that came since the last frame. */
	paint() {
		this.frame = 0;
		if (this.list.pinned) this.list.noticeReader();
		for (const name of this.dirty) paintRow(this.list, name);
		this.dirty.clear();
		if (this.list.pinned) this.scroller.scrollTop = this.scroller.scrollHeight;
	}

	// ---- where the reader goes
	clicked(event) {
		const button = event.target.closest('[data-turn-no]');
		if (!button) return;
		event.preventDefault();
		this.select(Number(button.dataset.turnNo));
	}

	/** Selects a turn, or with the selected one none. */
	select(turn, scroll) {
		state.turn = state.turn === turn ? null : turn;
		for (const row of this.list.live.values()) markSelected(row);
		emit('turn');
		this.draw();
		if (scroll && state.turn != null) this.showTurn(turn);
	}

	/** Scrolls to a turn; older pages are read until it is found. */
	async showTurn(turn) {
		for (let page = 0; page < MOST_PAGES; page++) {
			const row = this.list.items.find((item) => item.turn === turn);
			if (row) {
				this.list.show(row.id, 'center')?.classList.add('flash');
				return;
			}
			if (this.past || !(await loadOlder(200).catch(() => false))) return;
		}
	}

	/** To the next or the previous message. */
	next(step) {
		const { list } = this;
		const edge = this.scroller.getBoundingClientRect().top + 20;
		const visible = [...list.live].filter(([, row]) => row.getBoundingClientRect().bottom > edge).map(([key]) => list.index.get(key));
		const first = Math.min(...visible);
		const isStop = (at) => list.items[at].kind === 'user' || list.items[at].kind === 'text';
		const inRange = (at) => at >= 0 && at < list.items.length;
		let at = first + step;
		while (inRange(at) && !isStop(at)) at += step;
		if (inRange(at)) list.show(list.items[at].id)?.focus({ preventScroll: true });
		else if (step > 0) list.toEnd();
	}

	/** Shows the conversation as it was at a sequence, or with null as it is. */
	async setPast(seq) {
		if ((this.past?.seq ?? null) === seq) return;
		if (seq == null) this.past = null;
		else {
			const query = { at: seq, limit: PAST_ENTRIES };
			const { data } = await get(sessionPath(this.id, '/rendered'), query).catch((error) => (toast(error.message, true), { data: [] }));
			if (state.at !== seq) return;
			this.past = Object.assign(new Map(data.map((entry) => [entry.id, entry])), { seq });
		}
		this.list.pinned = true;
		this.draw();
		emit('at');
	}

	async unfoldChild(childID, open) {
		if (!open) this.children.delete(childID);
		else if (!this.children.has(childID)) await this.readChild(childID);
		this.draw();
	}

	async readChild(childID) {
		this.children.set(childID, { state: 'loading', entries: [], revision: 0 });
		this.draw();
		try {
			const { data } = await get(sessionPath(childID, '/rendered'), { limit: 100 });
			const entries = data.reverse().map((entry) => ({ ...entry, sessionID: childID }));
			this.children.set(childID, { state: 'ready', entries, revision: 1 });
		} catch {
			this.children.set(childID, { state: 'failed', entries: [], revision: 2 });
		}
	}
}

/** Paper shows all that is loaded, not only what is near the viewport. */
let printed = null; // the newest feed
const mountAll = (all) => () => {
	if (!printed?.el.isConnected || printed.list.items.length > MOST_PRINTED) return;
	printed.list.overscan = all ? Infinity : OVERSCAN;
	printed.list.update();
};
addEventListener('beforeprint', mountAll(true));
addEventListener('afterprint', mountAll(false));

/** What stands in place of a conversation that is not there. */
function coverOf(id) {
	if (state.load === 'loading') return h('div.it.loading', skeleton(7));
	if (state.load === 'gone') {
		const draft = state.drafts[id];
		const again = h('a.btn', { href: '#/new', onclick: () => saveDraft('new', draft) }, 'Start a session with the draft');
		return empty('x', 'There is no such session', h('p', 'It was deleted, or the address is wrong.'),
			draft ? [h('p', `Its draft is kept: “${draft.slice(0, 200)}”`), again] : h('a.btn', { href: '#/' }, 'All sessions'));
	}
	if (state.load === 'failed') {
		return empty('alert', 'The conversation cannot be read', h('p', state.error?.message),
			h('button.btn', { type: 'button', onclick: () => follow(id) }, 'Try again'));
	}
	return empty('holdfast', 'Nothing was said yet', h('p', 'Write what should happen. @ mentions files and agents, / calls commands.'));
}

/** Only ends are announced, never what is being written. */
function announceEnd({ changed } = {}) {
	const last = changed?.filter((entry) => entry.type === 'assistant').at(-1);
	if (last?.error) announce(`The turn failed: ${last.error}`, true);
	else if (last && !last.open && last.finish && !/^tool/.test(last.finish)) announce('The answer is complete');
}
