// Small parts that the views of the inspector and the System page share.
import { h, icon, toast, tok, usd, usd2 } from './dom.js';
import { state } from './data.js';

/** A count of tokens, shortened. */
export const tokens = (count) => tok(count / 1000);

/** Dollars and cents, or more digits of less than a cent. */
export const money = (value) => (value > 0 && value < 0.01 ? usd(value) : usd2(value));

/** A figure of the API: what is shown is rounded, `data-value` is not. */
export const figure = (name, value, text, spec = 'span.num') => h(spec, { 'data-figure': name, 'data-value': String(value) }, text);

export const stat = (name, value, text, label, cls = '') =>
	h('div.stat', { class: cls }, figure(name, value, text, 'b.num'), h('span', label));

/** An entry of the key of a chart. */
export const keyOf = (cls, label) => h('span', h('i', { class: cls }), label);

/** Buttons of which one is pressed. @param {[string, string][]} choices */
export function segmented(label, choices, current, pick) {
	return h(
		'div.seg',
		{ role: 'group', 'aria-label': label },
		choices.map(([key, text]) =>
			h(
				'button',
				{ type: 'button', 'aria-pressed': String(current === key), 'data-key': `${label}-${key}`, onclick: () => pick(key) },
				text,
			),
		),
	);
}

export function checkbox(label, checked, change) {
	return h(
		'label.check',
		h('input', { type: 'checkbox', checked, 'data-key': label, onchange: (event) => change(event.target.checked) }),
		label,
	);
}

export const minibar = (part) =>
	h('span.minibar', { 'aria-hidden': 'true' }, h('i', { css: { width: `${Math.min(1, Math.max(0, part || 0)) * 100}%` } }));

/** Says which turn is selected, in every view. */
export function selectedNote({ ctx }) {
	const { turn } = state;
	if (!turn) return null;
	return h(
		'div.focus-note',
		h('span', `Turn ${turn} is selected`),
		h('button.link', { type: 'button', onclick: () => ctx.show(turn) }, 'Show in conversation'),
		h('button.link', { type: 'button', onclick: () => ctx.select(turn) }, 'Clear'),
	);
}

/** A button with the number of a turn, which selects it. */
export const turnButton = ({ ctx }, turn) =>
	h(
		'button.link.num',
		{ type: 'button', 'aria-label': `Turn ${turn}`, 'data-key': `turn-${turn}`, onclick: () => ctx.select(turn, true) },
		String(turn),
	);

/**
 * A disclosure that stays open when the view is drawn anew, and whose body is built when it is first opened.
 * @param {{opened: Set<string>}} panel
 */
export function fold(panel, key, summary, body, props = {}) {
	const fill = () => el.childElementCount === 1 && el.append(body());
	const toggle = () => {
		if (el.open) {
			panel.opened.add(key);
			fill();
		} else panel.opened.delete(key);
	};
	const el = h('details', { ...props, ontoggle: toggle }, h('summary', { 'data-key': key }, summary));
	if (panel.opened.has(key)) {
		el.open = true;
		fill();
	}
	return el;
}

/** Wraps something that a click begins: if it fails, the reason is shown. */
export const attempt = (run) => async (event) => {
	try {
		await run(event);
	} catch (error) {
		toast(error.message, true);
	}
};

/** What stands in the place of a view that could not be loaded. */
export function failure(error, retry) {
	return h(
		'div.empty.failed',
		{ role: 'alert' },
		icon('alert'),
		h('b', 'This could not be loaded'),
		h('p', error.message || String(error)),
		h('button.btn', { type: 'button', onclick: retry }, 'Try again'),
	);
}

/** What stands in the place of a view that has nothing to show. */
export const nothing = (name, title, text) => h('div.empty', icon(name), h('b', title), text ? h('p', text) : null);

/**
 * A page of rows, the newest by default, with buttons to others.
 * @template T
 * @param {{end: number|null}} place where the page ends; null: at the newest
 * @param {T[]} rows
 * @returns {{rows: T[], buttons: Element|null}}
 */
export function pageOf(place, rows, size, redraw, older = null) {
	const end = Math.min(rows.length, place.end ?? rows.length);
	const start = Math.max(0, end - size);
	if (rows.length <= size && !older) return { rows, buttons: null };
	const go = (to) => () => {
		place.end = to >= rows.length ? null : Math.max(size, to);
		redraw();
	};
	const earlier = start === 0 && older ? older : go(end - size);
	const button = (label, disabled, onclick) => h('button.btn.small', { type: 'button', disabled, onclick, 'data-key': label }, label);
	const buttons = h(
		'div.row.pager',
		button('Earlier', start === 0 && !older, earlier),
		button('Later', end >= rows.length, go(end + size)),
		h('span.dim.num', `${start + 1} – ${end} of ${rows.length}${older ? ' and more' : ''}`),
	);
	return { rows: rows.slice(start, end), buttons };
}
