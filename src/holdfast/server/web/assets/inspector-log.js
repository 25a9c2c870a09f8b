// A stretch of the durable log that grows at both ends: pages before and after are loaded when they are needed.
import { get } from './data.js';

const PAGE = 200;
const MOST = 4000;

/** Families of events, with the beginnings of their types. */
export const FAMILIES = [
	['prompt', 'Prompts', ['prompted', 'prompt.', 'input.', 'synthetic', 'attachment.']],
	['turn', 'Turns', ['turn.', 'step.', 'retried', 'usage.', 'activity.']],
	['text', 'Text', ['text.', 'reasoning.']],
	['tool', 'Tools', ['tool.', 'task.', 'shell.', 'snapshot.', 'todos.']],
	['you', 'Asked', ['permission.', 'question.', 'form.', 'request.']],
	[
		'context',
		'Context',
		['context.', 'compaction.', 'instruction.', 'agent.', 'model.', 'revert.', 'budget.', 'moved', 'forked', 'lineage.'],
	],
];
const PREFIX = 'session.next.';

/** The type as it is shown: without what all have in common, and without its version. */
export const shortType = (type) => type.replace(PREFIX, '').replace(/\.\d+$/, '');

export function familyOf(type) {
	const short = shortType(type);
	return FAMILIES.find(([, , starts]) => starts.some((start) => short.startsWith(start)))?.[0] ?? 'context';
}

export class LogPages {
	constructor(session) {
		Object.assign(this, { session, entries: [], older: false, newer: false, family: null, search: '', generation: 0, busy: false });
	}

	async ask(query) {
		const family = FAMILIES.find(([key]) => key === this.family);
		const types = family?.[2].map((start) => PREFIX + start).join(',');
		const { data, hasMore } = await get(`/api/session/${this.session}/log`, {
			limit: PAGE,
			...query,
			...(types && { types }),
			...(this.search && { search: this.search }),
		});
		return { data, more: !!hasMore };
	}

	/** Starts anew: with the newest events, or with those around a sequence. */
	async open(around = null) {
		const generation = ++this.generation;
		this.busy = false;
		const before = await this.ask(around == null ? {} : { before: around + 1 });
		const after = around == null ? { data: [], more: false } : await this.ask({ after: around });
		if (generation !== this.generation) return false;
		Object.assign(this, { entries: [...before.data, ...after.data], older: before.more, newer: after.more });
		return true;
	}

	/** @returns {Promise<number>} how many events were added at the start */
	async loadOlder() {
		if (!this.older) return 0;
		const page = await this.once({ before: this.entries[0].seq });
		if (!page) return 0;
		this.entries = [...page.data, ...this.entries];
		this.older = page.more;
		if (this.entries.length > MOST) {
			this.entries = this.entries.slice(0, MOST);
			this.newer = true;
		}
		return page.data.length;
	}

	/** Also what was written since the last load. @returns {Promise<number>} how many events were added at the end */
	async loadNewer() {
		const page = await this.once({ after: this.entries.at(-1)?.seq });
		if (!page) return 0;
		this.entries = [...this.entries, ...page.data];
		this.newer = page.more;
		return page.data.length;
	}

	/** One page at a time. Null if another is on its way, or if the log was opened anew in the meantime. */
	async once(query) {
		if (this.busy) return null;
		const { generation } = this;
		this.busy = true;
		try {
			const page = await this.ask(query);
			return generation === this.generation ? page : null;
		} finally {
			if (generation === this.generation) this.busy = false;
		}
	}
}
