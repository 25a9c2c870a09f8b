// A unified patch as a table, and long content that is drawn a page at a time.
import { h } from './dom.js';

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)$/;
const LONGEST = 2000;

/**
 * The lines of a patch. What stands before the first hunk names the files, and is left out.
 * @returns {{kind: 'same'|'add'|'rem'|'hunk'|'note', old?: number, now?: number, text: string}[]}
 */
export function patchLines(patch) {
	const lines = [];
	let before = null;
	let after = null;
	for (const line of patch.split('\n')) {
		const hunk = HUNK.exec(line);
		if (hunk) {
			[before, after] = [Number(hunk[1]), Number(hunk[2])];
			lines.push({ kind: 'hunk', text: hunk[3] });
		} else if (before != null) {
			const text = line.slice(1);
			if (line[0] === '+') lines.push({ kind: 'add', now: after++, text });
			else if (line[0] === '-') lines.push({ kind: 'rem', old: before++, text });
			else if (line[0] === ' ') lines.push({ kind: 'same', old: before++, now: after++, text });
			else if (line[0] === '\\') lines.push({ kind: 'note', text });
		} else if (line.startsWith('Binary files') || line.startsWith('GIT binary'))
			lines.push({ kind: 'note', text: 'A file that is not text.' });
	}
	return lines;
}

const SIGN = { add: 'added', rem: 'removed' };

/** Draws the first items into an element, and the next ones on demand. Returns the button for that, or null if all are drawn. */
export function pages(el, items, draw, { most = LONGEST, noun = 'lines' } = {}) {
	let drawn = 0;
	const step = () => {
		el.append(...items.slice(drawn, drawn + most).map(draw));
		drawn = Math.min(items.length, drawn + most);
		if (drawn === items.length) more.remove();
		else more.textContent = `Show ${items.length - drawn} more ${noun}`;
	};
	const more = h('button.btn.small.more', { type: 'button', onclick: step });
	step();
	return drawn < items.length ? more : null;
}

/** A table with the numbers of lines before and after. `text` makes hidden characters visible where a person decides. */
export function diffTable(patch, label, { most = LONGEST, text = (line) => line } = {}) {
	const lines = patchLines(patch);
	if (!lines.length) return h('p.dim.note', 'There are no lines to show.');
	const body = h('tbody');
	const more = pages(body, lines, (line) => row(line, text), { most });
	const table = h('div.tbl', { tabindex: 0, role: 'region', 'aria-label': label }, h('table.diff', body));
	return more ? h('div', table, more) : table;
}

function row(line, text) {
	if (line.kind === 'hunk' || line.kind === 'note') return h(`tr.${line.kind}`, h('td', { colspan: 3 }, text(line.text) || '⋯'));
	return h(
		'tr',
		{ class: line.kind === 'same' ? '' : line.kind },
		h('td.ln', String(line.old ?? '')),
		h('td.ln', String(line.now ?? ''), SIGN[line.kind] ? h('span.sr', SIGN[line.kind]) : null),
		h('td.cd', text(line.text)),
	);
}
