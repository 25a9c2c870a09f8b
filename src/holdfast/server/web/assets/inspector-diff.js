// A unified patch as a table.
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

/** A table with the numbers of lines before and after. At most `most` lines are drawn, the others on demand. */
export function diffTable(patch, label, most = LONGEST) {
	const lines = patchLines(patch);
	const body = h('tbody', lines.slice(0, most).map(row));
	const table = h('div.tbl', { tabindex: 0, role: 'region', 'aria-label': label }, h('table.diff', body));
	if (!lines.length) return h('p.dim.note', 'There are no lines to show.');
	if (lines.length <= most) return table;
	const more = h('button.btn.small', { type: 'button' }, `Show ${lines.length - most} more lines`);
	more.addEventListener('click', () => {
		const shown = body.childElementCount;
		body.append(...lines.slice(shown, shown + most).map(row));
		if (body.childElementCount >= lines.length) more.remove();
		else more.textContent = `Show ${lines.length - body.childElementCount} more lines`;
	});
	return h('div', table, more);
}

function row(line) {
	if (line.kind === 'hunk' || line.kind === 'note') return h(`tr.${line.kind}`, h('td', { colspan: 3 }, line.text || '⋯'));
	return h(
		'tr',
		{ class: line.kind === 'same' ? '' : line.kind },
		h('td.ln', String(line.old ?? '')),
		h('td.ln', String(line.now ?? ''), SIGN[line.kind] ? h('span.sr', SIGN[line.kind]) : null),
		h('td.cd', line.text),
	);
}
