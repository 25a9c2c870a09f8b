// Below a conversation: the plan, open requests, pending inputs, and the composer.
import { h, ib, icon, lacks, put, announce, plural, toast, reconcile } from './dom.js';
import { state, post, del, isAtRest, isUnderWay, sessionPath } from './data.js';
import { askList } from './home.js';
import { composer } from './composer.js';
import { isOpen, setOpen } from './conversation.js';
import { sendInput, outgoing, sendAgain, discard } from './outbox.js';
import { act, concerns, goTo, shownSession } from './session-actions.js';

/** `sent` is called when something was sent. */
export function sessionDock(id, sent) {
	const plan = h('div.plan-box');
	const pending = h('div.pendings');
	const asks = h('div.docked', askList((request) => concerns(request, id), { docked: true }));
	const writer = composer({
		id,
		directory: () => shownSession()?.session.location.directory,
		current: () => {
			const shown = shownSession();
			const { agent, model } = shown?.session ?? {};
			return { agent, model: model ?? lastModel(), used: shown?.context?.used, running: shown && isUnderWay(shown) };
		},
		chooseAgent: (agent) => act('The agent was not switched', post(sessionPath(id, '/agent'), { agent }), `${agent} answers from the next turn on`),
		chooseModel: (model) => act('The model was not switched', post(sessionPath(id, '/model'), { model }), `${model.id} answers from the next turn on`),
		submit: (draft) => {
			send(id, draft);
			sent();
		},
	});
	const past = h('div.composer.off', { hidden: true }, h('p', 'You are looking at the past. Nothing can be sent from here.'),
		h('button.btn.small', { type: 'button', onclick: () => goTo(null) }, 'Back to now'));
	writer.dataset.needs = 'prompt';
	const look = lacks('prompt', 'Sending');
	// Reading back, the cards are one line: an answer needs the whole card.
	const open = () => {
		el.classList.replace('slim', 'unslim');
		asks.querySelector('.ask')?.focus();
	};
	const slim = h('button.btn.slim-asks', { type: 'button', onclick: open });
	const el = h('footer.dock', plan, slim, asks, pending, writer, look, past);
	const update = () => {
		const own = state.requests.filter((request) => concerns(request, id));
		slim.hidden = !own.length;
		put(slim, icon('alert'), `${plural(own.length, 'request')} ${own.length === 1 ? 'needs' : 'need'} you`, h('span.dim', 'Show'));

		const before = state.at != null;
		if (before) slim.hidden = true;
		for (const part of [plan, asks, pending, writer, look]) part.hidden = before || state.load === 'gone';
		past.hidden = !before;
		drawPlan(plan, state.status?.todos || []);
		drawPending(pending, id, writer);
		writer.update();
	};
	return { el, update };
}

/** The model of the newest answer: what a Session without a choice of its own uses. */
function lastModel() {
	let last = null;
	for (const entry of state.entries.values()) if (entry.type === 'assistant' && entry.model && !(last?.seq > entry.seq)) last = entry;
	return last?.model;
}

/** Sends a prompt, or the command or skill that it calls. */
export function send(id, { text, files, delivery, command, skill, rest }) {
	const about = { text: text || files.map((file) => file.name).join(', '), draft: text, delivery };
	const attached = files.length ? { files } : {};
	if (skill) return sendInput(id, '/skill', { skill }, about);
	if (command) return sendInput(id, '/command', { command, arguments: rest, delivery, ...attached }, about);
	return sendInput(id, '/prompt', { text, delivery, ...attached, ...(/(^|\s)@\S/.test(text) ? { resolve: true } : {}) }, about);
}

const DONE = new Set(['completed', 'cancelled']);
function drawPlan(box, todos) {
	const rev = JSON.stringify(todos);
	if (box.rev === rev) return;
	box.rev = rev;
	const current = todos.find((todo) => todo.status === 'in_progress') || todos.find((todo) => !DONE.has(todo.status));
	const done = todos.filter((todo) => DONE.has(todo.status)).length;
	const toggle = (event) => setOpen('plan', event.target.open);
	const state = (todo) => (DONE.has(todo.status) ? 'done' : todo === current ? 'now' : '');
	put(box, todos.length ? h('details.plan', { open: isOpen('plan'), ontoggle: toggle },
		h('summary', icon('todo'), h('span.num', `${done}/${todos.length}`), h('span.plan-now', current?.content || 'Done'), icon('right')),
		h('ol', todos.map((todo) => h('li', { class: state(todo) }, todo.content)))) : null);
}

function drawPending(box, id, writer) {
	const admitted = state.status?.pending || [];
	const known = new Set(admitted.map((input) => input.id));
	const own = outgoing(id).filter((item) => !known.has(item.id) && !state.entries.has(item.id));
	const all = new Map([...admitted.map((input) => [input.id, input]), ...own.map((item) => [item.id, item])]);
	const rests = Boolean(shownSession() && isAtRest(shownSession()));
	const key = (input) => `${input.id} ${input.status || ''} ${input.delivery} ${rests}`;
	const byKey = new Map([...all.values()].map((input) => [key(input), input]));
	const make = (name) => {
		const input = byKey.get(name);
		return input.status ? outgoingRow(input, writer) : pendingRow(id, input, writer, rests);
	};
	for (const el of reconcile(box, [...byKey.keys()], make)) el.remove();
}

function pendingRow(id, input, writer, rests) {
	const queued = input.delivery === 'queue';
	const text = input.prompt.description || input.prompt.text || (input.prompt.files || []).map((file) => file.name).join(', ');
	const path = sessionPath(id, `/inbox/${input.id}/${queued ? 'steer' : 'queue'}`);
	const other = queued ? 'Steer instead' : 'Queue instead';
	const change = h('button.btn.small.quiet', { type: 'button', 'data-needs': 'prompt', onclick: () => act('Its delivery was not changed', post(path)) }, other);
	const withdraw = async () => {
		try {
			await del(sessionPath(id, `/pending/${input.id}`));
			if (writer.isEmpty()) writer.restore(input.prompt.text || '', input.prompt.files);
			announce('Withdrawn');
		} catch (error) {
			toast(error.status === 409 ? 'Too late: the model has already read it.' : `Not withdrawn: ${error.message}`, true);
		}
	};
	return h('div.pending', h('span.tag', queued ? 'Queued' : 'Steer'), h('span.pending-text', { title: text }, text),
		h('span.dim.num', rests ? 'waits: nothing runs' : queued ? 'when it would go idle' : 'at the next boundary', ` · #${input.admittedSeq}`),
		rests ? h('button.btn.small', { type: 'button', 'data-needs': 'prompt', onclick: () => act('Not started', post(sessionPath(id, '/run'))) }, 'Run it now') : change,
		ib('x', 'Withdraw', withdraw, { 'data-needs': 'prompt' }));
}

function outgoingRow(item, writer) {
	const label = { sending: 'Sending', admitted: 'Sent', waiting: 'Not sent', refused: 'Refused' }[item.status];
	const edit = () => {
		discard(item.id);
		writer.restore(item.draft, item.body.files);
	};
	const idle = item.status === 'waiting' || item.status === 'refused';
	return h('div.pending', { class: idle ? 'late' : '' }, h('span.tag', { class: idle ? 'warn' : '' }, label), h('span.pending-text', item.text),
		item.why ? h('span.warnt', item.why) : null,
		item.status === 'waiting' ? h('button.btn.small', { type: 'button', onclick: () => sendAgain(item.id) }, 'Send now') : null,
		idle ? [h('button.btn.small', { type: 'button', onclick: edit }, 'Edit'), ib('x', 'Discard', () => discard(item.id))] : null);
}
