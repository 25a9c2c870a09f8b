// The cards of questions and forms: fields, what makes them count, and the answer that is sent.
import { h, lacks, plain, toast } from './dom.js';
import { get, post, at, ApiError } from './data.js';

let made = 0;
const radioName = () => `choice${(made += 1)}`;

const optionText = ({ label, description }) => h('span', h('b', plain(label)), description ? h('span.dim', plain(description)) : null);

// ---- questions
/** Several questions, each with options to choose from, and free text unless it is ruled out. */
export function questionBody(request, answer) {
	const parts = request.question.questions.map(question);
	const send = h('button.btn.primary', { disabled: true, 'data-do': 'once' }, 'Answer');
	const check = () => (send.disabled = !parts.every((part) => part.value().length));
	const path = `/question/${request.id}`;
	const submit = (event) => {
		event.preventDefault();
		if (!send.disabled) answer('Answered', `${path}/reply`, { answers: parts.map((part) => part.value()) });
	};
	const dismiss = h('button.btn', { type: 'button', 'data-do': 'deny', onclick: () => answer('Dismissed', `${path}/reject`, {}) }, 'Dismiss');
	return h('form.ask-body', { onsubmit: submit, oninput: check, onchange: check }, parts.map((part) => part.el),
		h('div.ask-acts', { 'data-needs': 'approve' }, send, dismiss, h('span.ask-hint', 'Dismissing ends the turn')), lacks('approve', 'Answering'));
}

function question({ question: text, header, options, multiple, custom }) {
	const name = radioName();
	const type = multiple ? 'checkbox' : 'radio';
	const inputs = options.map((option) => h('input', { type, name, value: option.label }));
	const own = h('input', { type, name, value: '', 'aria-label': 'Your own answer' });
	const free = h('input.field', { placeholder: 'Something else…', 'aria-label': 'Your own answer in words', onfocus: () => (own.checked = true) });
	const value = () => {
		const chosen = inputs.filter((input) => input.checked).map((input) => input.value);
		return own.checked && free.value.trim() ? [...chosen, free.value.trim()] : own.checked && !multiple ? [] : chosen;
	};
	const rows = options.map((option, i) => h('label.opt', inputs[i], optionText(option)));
	const el = h('fieldset', h('legend', header && header !== text ? h('span.tag', plain(header)) : null, plain(text)), rows,
		custom === false ? null : h('div.opt.free', own, free));
	return { el, value };
}

// ---- forms
/** Fields of all kinds. One whose conditions do not hold is neither shown nor sent. */
export function formBody(request, answer) {
	const { fields } = request.form;
	const parts = fields.map((field) => ({ field, ...FIELDS[field.type](field, request) }));
	const values = () => {
		const given = parts.filter(({ el }) => !el.hidden).map(({ field, value }) => [field.key, value()]);
		return Object.fromEntries(given.filter(([, value]) => value !== undefined));
	};
	const refresh = () => {
		// A field may depend on one that depends on another: go on until nothing changes.
		for (let round = 0; round <= parts.length; round++) {
			const known = values();
			let changed = false;
			for (const { field, el } of parts) {
				const hidden = !(field.when || []).every((condition) => holds(condition, known[condition.key]));
				changed ||= el.hidden !== hidden;
				el.hidden = hidden;
				// A required control that nobody sees would keep the form from being sent.
				for (const control of el.querySelectorAll('input,select')) control.disabled = hidden;
			}
			if (!changed) return;
		}
	};
	const submit = (event) => {
		event.preventDefault();
		answer('Answered', `/form/${request.id}/reply`, { answer: values() });
	};
	refresh();
	return h('form.ask-body.fields', { onsubmit: submit, oninput: refresh, onchange: refresh }, asker(request.form), parts.map(({ el }) => el),
		h('div.ask-acts', { 'data-needs': 'approve' }, h('button.btn.primary', { 'data-do': 'once' }, 'Answer'),
			h('button.btn', { type: 'button', 'data-do': 'deny', onclick: () => answer('Declined', `/form/${request.id}/cancel`, { decline: true }) }, 'Decline')),
		lacks('approve', 'Answering'));
}

/** Who gets the answer, in words that no server wrote. */
function asker({ metadata }) {
	if (metadata?.kind !== 'mcp-elicitation') return null;
	return h('p.dim', `The MCP server ${plain(metadata.server)} asks this and gets the answer. Never enter passwords or keys.`);
}

function holds({ op, value }, given) {
	if (given === undefined) return false;
	const same = Array.isArray(given) ? given.includes(value) : given === value;
	return same === (op === 'eq');
}

const named = (field) => plain(field.title || field.key);
const title = (field) => [named(field), field.required ? null : h('span.dim', ' optional')];
const hint = (field) => (field.description ? h('span.dim.note', plain(field.description)) : null);
const described = (field, ...inputs) => h('label.stackd', h('span', title(field)), hint(field), inputs);
const INPUT = { email: 'email', uri: 'url', date: 'date', 'date-time': 'datetime-local' };

/** As the field for a date and a time takes it: in the zone of the browser. */
function localTime(text) {
	const time = new Date(text);
	return Number.isNaN(time.getTime()) ? '' : new Date(time - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

function text(field) {
	if (field.options) return choice(field);
	const input = h('input.field', {
		type: INPUT[field.format] || 'text', required: field.required, minlength: field.minLength, maxlength: field.maxLength, pattern: field.pattern,
		placeholder: field.placeholder, value: field.format === 'date-time' && field.default ? localTime(field.default) : field.default ?? '',
	});
	const value = () => {
		if (!input.value) return undefined;
		return field.format === 'date-time' ? new Date(input.value).toISOString() : input.value;
	};
	return { el: described(field, input), value };
}

function choice(field) {
	const other = '\u0000other';
	const free = h('input.field', { placeholder: 'Something else…', 'aria-label': `${field.title || field.key}, in your words`, hidden: true });
	const select = h('select.field', { required: field.required, onchange: () => (free.hidden = select.value !== other) },
		h('option', { value: '' }, 'Choose…'), field.options.map((option) => h('option', { value: option.value }, plain(option.label))),
		field.custom ? h('option', { value: other }, 'Something else') : null);
	if (field.default != null) select.value = field.default;
	return { el: described(field, select, free), value: () => (select.value === other ? free.value : select.value) || undefined };
}

function number(field) {
	const input = h('input.field', {
		type: 'number', required: field.required, min: field.minimum, max: field.maximum, step: field.type === 'integer' ? 1 : 'any', value: field.default ?? '',
	});
	return { el: described(field, input), value: () => (input.value === '' ? undefined : Number(input.value)) };
}

function boolean(field) {
	const input = h('input', { type: 'checkbox', checked: Boolean(field.default) });
	const text = h('span', named(field), field.description ? h('span.dim.block', plain(field.description)) : null);
	return { el: h('label.check', input, text), value: () => input.checked };
}

function multiselect(field) {
	const boxes = field.options.map((option) => h('input', { type: 'checkbox', value: option.value, checked: field.default?.includes(option.value) }));
	const free = h('input.field', { placeholder: 'Something else…', 'aria-label': `${field.title || field.key}, in your words` });
	const chosen = () => [...boxes.filter((box) => box.checked).map((box) => box.value), ...(field.custom && free.value.trim() ? [free.value.trim()] : [])];
	const el = h('fieldset', h('legend', title(field)), hint(field),
		field.options.map((option, i) => h('label.opt', boxes[i], optionText(option))),
		field.custom ? free : null);
	return { el, value: () => (chosen().length ? chosen() : undefined) };
}

/** Only addresses of the web, and paths of this server. */
function safeURL(text) {
	try {
		const url = new URL(text.startsWith('/') ? text.slice(1) : text, document.baseURI);
		return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : null;
	} catch {
		return null;
	}
}

/** Begins a sign-in and leads a new tab to it. The path of the field is for browsers with a password: a navigation carries no key. */
async function openSignIn(event, integrationID, directory) {
	event.preventDefault();
	const tab = open('', '_blank');
	const path = `/api/integration/${encodeURIComponent(integrationID)}`;
	try {
		const { data: known } = await get(path, at(directory));
		const method = known?.methods.find(({ type }) => type === 'oauth');
		if (!method) throw new ApiError(404, 'NotFoundError', `There is no sign-in to ${integrationID} here any more.`);
		const { data: attempt } = await post(`${path}/connect/oauth`, { methodID: method.id, inputs: {} }, { query: at(directory) });
		tab.opener = null;
		tab.location.replace(safeURL(attempt.url) ?? 'about:blank');
	} catch (error) {
		tab?.close();
		toast(`The sign-in did not begin: ${error.message}`, true);
	}
}

function external(field, { form, directory }) {
	const url = safeURL(field.url);
	const integrationID = field.url.startsWith('/') ? form.metadata?.integrationID : null;
	const done = h('input', { type: 'checkbox', required: field.required });
	const opened = (event) => {
		done.checked = true;
		if (integrationID) openSignIn(event, integrationID, directory);
	};
	const link = url ? h('a.btn', { href: url, target: '_blank', rel: 'noopener noreferrer', onclick: opened }, 'Open the page') : h('code', plain(field.url));
	const el = h('div.stackd', h('span', title(field)), hint(field), h('code.dim', plain(field.url)),
		h('div.row', link, h('label.check', done, 'Done')));
	return { el, value: () => done.checked || undefined };
}

const FIELDS = { string: text, number, integer: number, boolean, multiselect, external };
