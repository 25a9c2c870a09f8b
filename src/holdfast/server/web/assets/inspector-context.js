// What the model is told: how a request fills the window, the newest compaction, the baseline and what changed since.
import { h, put, bytes, moment, since, toast, plural } from './dom.js';
import { get, post, state } from './data.js';
import { stack } from './charts.js';
import { figure, fold, minibar, nothing, selectedNote, tokens } from './inspector-parts.js';

const PARTS = {
	agent: ['Agent', 'w-agent'],
	tools: ['Tools', 'w-tools'],
	baseline: ['Baseline', 'w-base'],
	checkpoint: ['Checkpoint', 'w-ck'],
	messages: ['Messages', 'w-msgs'],
};
const SOURCES = {
	'core/environment': 'Environment',
	'core/date': 'Date',
	'core/model': 'Selected model',
	'core/instructions': 'Instructions',
	'core/instructions-configured': 'Configured instructions',
	'core/instructions-remote': 'Remote instructions',
	'core/plan-mode': 'Plan mode',
	'core/agent-guidance': 'Agents',
	'core/skill-guidance': 'Skills',
	'core/reference-guidance': 'References',
	'core/mcp-guidance': 'MCP servers',
	'core/builtins': 'Built-in instructions',
	'core/isolated-copy': 'Isolated copy',
};
const LONGEST = 20_000;

/** @type {import('./inspector.js').View} */
export const contextView = { load, draw, reload: ['turn', 'at'], pace: () => 2000 };

async function load(panel) {
	const path = `/api/session/${panel.session}`;
	const seq = await sequence(panel, path);
	const [window, context, checkpoint] = await Promise.all([
		get(`${path}/window`, seq == null ? undefined : { seq }),
		get(`${path}/request-context`),
		get(`${path}/checkpoint`),
	]);
	return { window: window.data, context: context.data, checkpoint: checkpoint.data };
}

/** Of the request that is looked at: that of the selected turn, or the newest up to the moment that is shown. */
async function sequence({ sequences }, path) {
	const { turn, at } = state;
	if (!turn) return at;
	if (!sequences.has(turn)) {
		const { data } = await get(`${path}/ledger`, { limit: 1000 });
		for (const entry of data) if (entry.turn && entry.status !== 'open') sequences.set(entry.turn, entry.seq);
		return sequences.get(turn) ?? data.findLast((entry) => entry.turn === turn)?.seq ?? at;
	}
	return sequences.get(turn);
}

function draw(panel, { window, context, checkpoint }) {
	if (!window && context.status !== 'initialized')
		return nothing('layers', 'No request was made yet', 'The baseline is rendered when the first prompt joins the conversation.');
	return h(
		'div.v-context',
		selectedNote(panel),
		window ? windowSection(window) : null,
		checkpoint ? checkpointSection(panel, checkpoint) : null,
		context.status === 'initialized' ? [baselineSection(panel, context), changesSection(panel, context)] : null,
	);
}

function windowSection(window) {
	const { used, limit, reserve = 0 } = window;
	const parts = window.parts.map((part) => {
		const [name, cls] = PARTS[part.name] ?? [part.name, 'w-msgs'];
		return { key: part.name, name, cls, value: part.tokens, text: tokens(part.tokens) };
	});
	const start = limit == null ? null : limit - reserve;
	if (start != null) {
		parts.push({ key: 'free', name: 'Free', cls: 'w-free', value: Math.max(0, start - used), text: tokens(Math.max(0, start - used)) });
		if (reserve) parts.push({ key: 'reserve', name: 'Kept for the answer', cls: 'w-res', value: reserve, text: tokens(reserve) });
	}
	const whole = `${window.estimated ? 'about ' : ''}${tokens(used)}${limit == null ? ' tokens' : ` of ${tokens(limit)}`}`;
	const max = Math.max(
		limit ?? 0,
		parts.reduce((sum, part) => sum + part.value, 0),
	);
	return h(
		'section',
		{ 'aria-label': 'Window' },
		h('h3', `Window in turn ${window.turn}`, figure('window-used', used, whole, 'span.h-val.num')),
		stack(parts, {
			max,
			label: `${whole} tokens are used`,
			limit: start != null && reserve ? { value: start, name: 'Compaction begins here' } : null,
		}),
		limit == null ? h('p.say.dim', 'How much this model takes is not known.') : axis(start, limit, max, reserve),
		h(
			'dl.legend',
			parts.map((part) => [h('dt', h('i', { class: part.cls }), part.name), figure(`window-${part.key}`, part.value, part.text, 'dd.num')]),
		),
		h(
			'p.say.dim',
			`${window.model.providerID}/${window.model.id} · request #${window.seq}`,
			window.estimated ? ' · estimated until the provider has counted' : ' · parts are estimated from their bytes',
		),
	);
}

function axis(start, limit, max, reserve) {
	const mark = reserve ? h('span.lim', { css: { left: `${(start / max) * 100}%` } }, `compaction at ${tokens(start)}`) : null;
	return h('div.stack-ax', h('span', '0'), mark, h('span', tokens(limit)));
}

function checkpointSection(panel, checkpoint) {
	const undo = async (event) => {
		event.target.disabled = true;
		try {
			await post(`/api/session/${panel.session}/checkpoint/undo`);
			toast('The compaction is undone');
			panel.load();
		} catch (error) {
			toast(error.message, true);
			event.target.disabled = false;
		}
	};
	const text = (label, value) =>
		value ? [h('h4', label), h('pre', value.length > LONGEST ? `${value.slice(0, LONGEST)}\n…` : value)] : null;
	return h(
		'section',
		{ 'aria-label': 'Compaction boundary' },
		h('h3', 'Compaction boundary', h('span.h-val', checkpoint.reason)),
		h(
			'p.say',
			'In place of ',
			figure('checkpoint-replaced', checkpoint.replaced.length, plural(checkpoint.replaced.length, 'message'), 'b.num'),
			' the model reads a summary: ',
			figure('checkpoint-before', checkpoint.tokensBefore, tokens(checkpoint.tokensBefore)),
			' → ',
			figure('checkpoint-after', checkpoint.tokensAfter, tokens(checkpoint.tokensAfter)),
			' tokens.',
		),
		fold(
			panel,
			'checkpoint',
			'What it reads',
			() => h('div.src-body', text('Summary', checkpoint.summary), text('Recent', checkpoint.recent)),
			{ class: 'plain' },
		),
		h('div.row', h('button.btn.small', { type: 'button', 'data-needs': 'prompt', onclick: undo, title: 'Possible while nothing followed it' }, 'Undo')),
	);
}

function baselineSection(panel, context) {
	const { sources } = context;
	const most = Math.max(1, ...sources.map((source) => source.bytes));
	const sum = new TextEncoder().encode(context.baseline).length;
	return h(
		'section',
		{ 'aria-label': 'Baseline' },
		h(
			'h3',
			'Baseline',
			figure('baseline-sources', sources.length, `${plural(sources.length, 'source')} · ${bytes(sum)}`, 'span.h-val.num'),
		),
		h('p.say.dim', `The same bytes in every request since #${context.baselineSeq}, so that the provider can keep them.`),
		h(
			'ul.list.sources',
			{ role: 'list' },
			sources.map((source) => h('li', sourceRow(panel, source, most))),
		),
		fold(panel, 'baseline', 'The whole text', () => h('div.src-body', textBlock(context.baseline)), { class: 'plain' }),
	);
}

function sourceRow(panel, source, most) {
	const { type } = source.state;
	const label = SOURCES[source.key] ?? source.key.split('/').at(-1).replaceAll('-', ' ');
	const tag = { unavailable: ['warn', 'unavailable'], removed: ['', 'gone'] }[type];
	return fold(
		panel,
		`source-${source.key}`,
		[
			h('span.src-name', label, h('code', source.key)),
			tag ? h('span.tag', { class: tag[0] }, `${tag[1]} `, source.state.since ? since(source.state.since, 'num', 'age') : null) : null,
			minibar(source.bytes / most),
			figure(`source-${source.key}`, source.bytes, bytes(source.bytes), 'span.num.src-b'),
		],
		() => sourceBody(source, type),
		{ class: type },
	);
}

function sourceBody(source, type) {
	const told = source.value === undefined ? null : typeof source.value === 'string' ? source.value : JSON.stringify(source.value, null, 2);
	return h(
		'div.src-body',
		type === 'unavailable'
			? h('p.dim', `It cannot be read since ${moment(source.state.since)}. The model keeps what it was told last.`)
			: null,
		type === 'removed' ? h('p.dim', `It is gone since ${moment(source.state.since)}, and the model was told so.`) : null,
		told == null ? h('p.dim', 'The model was told nothing.') : textBlock(told),
	);
}

function textBlock(text) {
	if (text.length <= LONGEST) return h('pre', text);
	const el = h('div', h('pre', text.slice(0, LONGEST)));
	el.append(h('button.btn.small', { type: 'button', onclick: () => put(el, h('pre', text)) }, `Show all ${bytes(text.length)}`));
	return el;
}

function changesSection(panel, { changes, baselineSeq }) {
	const since = changes.filter((change) => change.seq > baselineSeq).length;
	const count = since ? `${since} since the baseline` : 'none since the baseline';
	return h(
		'section',
		{ 'aria-label': 'Changes of the context' },
		h('h3', 'Changes', figure('context-changes', since, count, 'span.h-val.num')),
		changes.length
			? h(
					'ol.changes',
					changes.toReversed().map((change) => changeRow(panel, change, baselineSeq)),
				)
			: null,
		h('p.say.dim', 'A change is told in a message behind the conversation, so that the prefix stays as it is.'),
	);
}

function changeRow({ ctx }, { seq, keys }, baselineSeq) {
	return h(
		'li.row',
		h('span.num.dim', `#${seq}`),
		h('b', keys.join(', ')),
		seq > baselineSeq ? null : h('span.tag', 'in the baseline now'),
		h('span.grow'),
		h('button.link', { type: 'button', 'data-key': `change-${seq}`, onclick: () => ctx.go(seq) }, 'Session as of then'),
	);
}
