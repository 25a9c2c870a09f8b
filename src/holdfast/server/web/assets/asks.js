// Cards of what needs a person: permissions, questions, forms, budgets, and work that broke off. Each is answered where it stands.
import { h, baseName, ib, icon, lacks, exact, plain, since, put, announce, toast, kbd, moment, popover, skeleton, $ } from './dom.js';
import { state, get, post, at, sessionPath, dropRequest, ApiError } from './data.js';
import { guard, press, settled, ignoreHeldEnter } from './gate.js';
import { requestView, wish, patternName } from './request.js';
import { budgetBody } from './budget-card.js';

const ICON = { permission: 'lock', question: 'question', form: 'pencil', recovery: 'alert', budget: 'coin' };
const SHOWN_SECONDS = { here: 2, elsewhere: 6 }; // how long an answered card says so at least
const hovers = matchMedia('(hover: hover)');

function headline(request) {
	const who = h('b', plain(request.agent || 'The agent'));
	if (request.kind === 'permission') return [who, ` ${wish(request.permission)}`];
	if (request.kind === 'question') return [who, ' asks'];
	if (request.kind === 'form') return [h('b', plain(request.form.title))];
	if (request.kind === 'budget') return 'A budget is used up';
	return request.activity.suspended ? 'The server was stopped in the middle of a turn' : 'A turn broke off with its process';
}

function subject(request) {
	if (request.kind === 'permission') return request.permission.metadata?.command ?? request.permission.resources.join(', ');
	if (request.kind === 'question') return request.question.questions.map((question) => question.question).join(' ');
	if (request.kind === 'budget') return request.what;
	return request.kind === 'form' ? request.form.title : request.activity.what;
}

function whereabouts(request, docked) {
	const titles = (request.titles || []).map(plain);
	if (docked && titles.length < 2) return null;
	const trail = titles.slice(1).map((title) => [icon('right'), h('span', title)]);
	const root = request.ancestors?.[0] || request.sessionID;
	const link = request.sessionID === 'global' ? null : h('a', { href: `#/s/${root}` }, titles[0] || 'Session');
	return h('div.ask-where', docked ? null : link, h('span.trail', trail), docked ? null : h('span.dim', ` · ${baseName(request.directory)}`));
}

/** Shown in the inbox, on the sessions page and docked in its Session; always answerable where it stands. */
export function askCard(request, { docked = false } = {}) {
	const name = plain(`${h('span', headline(request)).textContent}: ${subject(request)}`.slice(0, 300));
	const problem = h('p.err', { role: 'alert', hidden: true });
	const card = h('article.ask', { class: request.kind, tabindex: 0, 'aria-label': name },
		h('header.ask-head', icon(ICON[request.kind]), h('span.ask-what', headline(request)), since(request.since, 'ask-age'),
			request.kind === 'permission' ? ib('share', 'Make a link for a phone', (event) => shareLink(event.currentTarget, request), { 'data-needs': 'approve' }) : null),
		whereabouts(request, docked));
	card.request = request;
	const answer = (said, path, body, event, send) => reply(card, problem, { said, path, body, byKey: isKey(event), send });
	card.append(BODIES[request.kind](request, answer, card), problem);
	ignoreHeldEnter(card);
	card.addEventListener('keydown', (event) => keyed(card, event));
	return card;
}

const isKey = (event) => event?.type === 'keydown' || event?.detail === 0;

/** Letters answer the card that has the focus, or whose content has it. */
function keyed(card, event) {
	const onView = event.target.matches('.ask-view') && event.key !== 'Enter';
	if ((event.target !== card && !onView) || event.metaKey || event.ctrlKey) return;
	const wanted = { a: 'once', Enter: 'once', A: 'always', d: 'deny' }[event.key];
	const button = wanted && $(`[data-do=${wanted}]`, card);
	if (!button?.checkVisibility()) return;
	event.preventDefault();
	event.stopPropagation();
	if (event.repeat) return;
	if (button.hasAttribute('aria-disabled')) press(button, event);
	else button.click();
}

async function reply(card, problem, { said, path, body, byKey, send = post }) {
	const { request } = card;
	if (card.busy || card.answered) return;
	card.busy = true;
	card.classList.add('busy');
	problem.hidden = true;
	try {
		await send(sessionPath(request.sessionID, path), body, { query: request.sessionID === 'global' ? at(request.directory) : null });
		settle(card, said, { byKey, seconds: SHOWN_SECONDS.here });
		dropRequest(request.id);
	} catch (error) {
		if (!(error instanceof ApiError)) throw error;
		if (error.status === 404 || error.name === 'FormAlreadySettledError') return answeredElsewhere(card);
		problem.hidden = false;
		put(problem, icon('alert'), error.status === 0 ? 'The server does not answer. Nothing was sent.' : error.message);
	} finally {
		card.busy = false;
		card.classList.remove('busy');
	}
}

export function answeredElsewhere(card) {
	if (card.answered || card.busy) return;
	settle(card, card.request.kind === 'recovery' ? 'Decided elsewhere' : 'Answered elsewhere', { seconds: SHOWN_SECONDS.elsewhere });
}

/** The card says what became of its request, in the space that it had: nothing moves under the pointer. */
function settle(card, said, { byKey = false, seconds }) {
	card.answered = true;
	settled();
	const focused = card.contains(document.activeElement);
	card.style.setProperty('min-height', `${card.getBoundingClientRect().height}px`);
	card.classList.add('gone');
	put(card, h('header.ask-head', icon('check'), h('span.ask-what', said)), h('p.ask-was', plain(subject(card.request).slice(0, 300))));
	announce(said);
	if (focused) nextTo(card).focus({ preventScroll: !byKey });
	leaveLater(card, seconds * 1000);
}

function nextTo(card) {
	const open = (el) => el && !el.classList.contains('gone');
	for (let el = card.nextElementSibling; el; el = el.nextElementSibling) if (open(el)) return el;
	for (let el = card.previousElementSibling; el; el = el.previousElementSibling) if (open(el)) return el;
	return card.closest('[tabindex="-1"]') || card;
}

function leaveLater(card, wait) {
	setTimeout(() => {
		const list = card.closest('.ask-list');
		if (!card.isConnected) return;
		if (hovers.matches && list?.matches(':hover')) return leaveLater(card, 250);
		card.remove();
		list?.dispatchEvent(new Event('left'));
	}, wait);
}

const BODIES = { permission, recovery, question: later, form: later, budget: budgetBody };

/** Questions and forms need more code, which is loaded when there is one. */
function later(request, answer, card) {
	const body = h('div.ask-body', skeleton(2));
	import('./answers.js').then(({ questionBody, formBody }) => {
		if (!card.classList.contains('gone')) body.replaceWith((request.kind === 'form' ? formBody : questionBody)(request, answer));
	});
	return body;
}

function permission(request, answer) {
	const { action, resources, save, id } = request.permission;
	const path = `/permission/${id}/reply`;
	const view = requestView(request.permission, async () => (await get(sessionPath(request.sessionID, `/permission/${id}/preview`))).data);
	const once = h('button.btn.primary', { type: 'button', 'data-do': 'once' }, 'Allow once', kbd('a'));
	guard(once, (event) => answer('Allowed once', path, { reply: 'once' }, event), view.blocked);
	const acts = h('div.ask-acts', { 'data-needs': 'approve' }, once,
		h('button.btn', { type: 'button', 'data-do': 'always', onclick: () => unfold(patterns) }, 'Always…', kbd('A')),
		h('button.btn', { type: 'button', 'data-do': 'deny', onclick: () => unfold(denial) }, 'Deny…', kbd('d')));
	const more = h('div.ask-more', { hidden: true });
	const unfold = (make) => {
		acts.hidden = true;
		more.hidden = false;
		put(more, make(fold));
		(more.querySelector('textarea') || more.querySelector('button'))?.focus();
	};
	const fold = () => {
		acts.hidden = false;
		more.hidden = true;
		acts.querySelector('button').focus();
	};
	const always = (chosen, event) => answer('Allowed, and saved', path, { reply: 'always', save: chosen }, event);
	const patterns = () => alwaysPanel(action, save?.length ? save : resources, fold, always, view.blocked);
	const denial = () => denyPanel(fold, (message, event) => answer('Denied', path, { reply: 'reject', ...(message ? { message } : {}) }, event));
	return h('div.ask-body', view.el, acts, more, lacks('approve', 'Answering'));
}

function alwaysPanel(action, offered, fold, save, blocked) {
	// Patterns without a wildcard are chosen at first: the narrowest approval, as the server would choose it.
	const narrow = offered.filter((pattern) => !pattern.includes('*'));
	const boxes = offered.map((pattern) => h('input', { type: 'checkbox', value: pattern, checked: !narrow.length || narrow.includes(pattern) }));
	const chosen = () => boxes.filter((box) => box.checked).map((box) => box.value);
	const button = h('button.btn.primary', { type: 'button' }, 'Always allow');
	guard(button, (event) => save(chosen(), event), () => blocked() ?? (chosen().length ? null : 'Nothing is chosen.'));
	return [
		h('p.ask-hint', 'From now on, in this project, without being asked:'),
		boxes.map((box) => h('label.check', box, h('code', exact(`${action}  ${patternName(box.value)}`)))),
		h('div.row', button, h('button.btn', { type: 'button', onclick: fold }, 'Back')),
	];
}

function denyPanel(fold, deny) {
	const why = h('textarea', { rows: 2, placeholder: 'Reason, optional. The model reads it and goes on.', 'aria-label': 'Reason' });
	const button = h('button.btn.danger', { type: 'button' }, 'Deny');
	guard(button, (event) => deny(why.value.trim(), event));
	why.addEventListener('keydown', (event) => event.key === 'Enter' && (event.metaKey || event.ctrlKey) && press(button, event));
	return [why, h('div.row', button, h('button.btn', { type: 'button', onclick: fold }, 'Back'), h('span.ask-hint', 'Without a reason the turn ends'))];
}

async function shareLink(anchor, request) {
	try {
		const { data } = await post(sessionPath(request.sessionID, `/permission/${request.id}/link`), {});
		const url = new URL(data.path.replace(/^\//, ''), location.href.replace(/#.*/, '')).href;
		const field = h('input.field', { value: url, readonly: true, 'aria-label': 'Link', onfocus: (event) => event.target.select() });
		const copy = h('button.btn.small', { type: 'button', onclick: () => navigator.clipboard?.writeText(url).then(() => toast('Copied')) }, icon('copy'), 'Copy');
		popover(anchor, h('div.menu.share', h('p', 'Whoever has this link can answer this request once, without signing in.'), field,
			h('div.row', copy, h('span.dim', `until ${moment(data.expires)}`))), { align: 'end', width: 340, label: 'Link for a phone' });
	} catch (error) {
		toast(`No link was made: ${error.message}`, true);
	}
}

function recovery(request, answer) {
	const { what, safe, calls = [] } = request.activity;
	const go = h('button.btn.primary', { type: 'button', 'data-do': 'once' }, 'Continue');
	guard(go, (event) => answer('It continues', '/recover', { decision: 'continue' }, event));
	const end = h('button.btn', { type: 'button', 'data-do': 'deny' }, 'Abandon the turn');
	guard(end, (event) => answer('The turn is abandoned', '/recover', { decision: 'abandon' }, event));
	const unknown = calls.length ? [
		h('p.ask-text', calls.length === 1 ? 'Nobody knows whether this ran to its end:' : 'Nobody knows whether these ran to their end:'),
		calls.map((call) => h('pre.ask-code', h('code', exact(callName(call))))),
	] : null;
	return h('div.ask-body', h('p.ask-text', exact(what)), unknown,
		safe ? null : h('p.ask-hint', 'Continuing tells the model that the outcome is unknown. Nothing is repeated by itself.'),
		h('div.ask-acts', { 'data-needs': 'prompt' }, go, end), lacks('prompt', 'Deciding'));
}

const callName = ({ tool, command }) => [tool, command].filter(Boolean).join('  ');
