// What a permission request would allow, whole: the exact command and its directory, every change, or the whole input of a call.
// Whoever may say yes has had its beginning and its end on the screen.
import { h, exact, icon, num, put, skeleton, $$ } from './dom.js';
import { diffTable, pages } from './diff.js';

const PIECE = 4000; // characters that are drawn at once
const PIECES = 5;
const ROWS = 1000;
export const VERBS = {
	bash: 'run a command', edit: 'change files', read: 'read a file', glob: 'look for files', grep: 'search in files',
	webfetch: 'read a web page', websearch: 'search the web', subagent: 'start a subagent', skill: 'use a skill',
	external_directory: 'use a directory outside the project', sandbox_escape: 'run a command outside the sandbox',
};
/** What a request asks for, in words. */
export const wish = ({ action }) => `wants to ${VERBS[action] || `use ${action}`}`;

/**
 * @param {object} permission  The request.
 * @param {() => Promise<object>} load  Reads its preview (`PermissionPreview` in schema/rendered.py).
 * @returns {{el: HTMLElement, blocked: () => string|null}}  `blocked` says why a person cannot have seen all of it.
 */
export function requestView(permission, load) {
	const start = h('i.seen-mark', { 'aria-hidden': 'true' });
	const end = h('i.seen-mark', { 'aria-hidden': 'true' });
	const body = h('div.ask-view', { tabindex: 0, role: 'region', 'aria-label': 'What it asks for' });
	const place = h('p.ask-place');
	const why = h('p.ask-gate', { hidden: true });
	const el = h('div', body, place, about(permission), why);
	const seen = new Set();
	let missing = 'What it would do is being read.';
	const say = () => {
		missing = seen.size === 2 ? null : 'Read it to its end to allow it.';
		why.hidden = missing == null;
		put(why, h('span', missing), why.hidden ? null : h('button.btn.small', { type: 'button', onclick: () => readOn(body) }, 'Read on', icon('down')));
	};
	const watch = new IntersectionObserver((entries) => {
		for (const { target, isIntersecting } of entries) {
			if (!isIntersecting) continue;
			watch.unobserve(target);
			if (target === start || target === end) seen.add(target);
			else target.click(); // the end of what is drawn is in sight: the next page
		}
		say();
	});
	/** The end is there once nothing is left to draw. */
	const watchRest = () => {
		const rest = $$('.more', body);
		for (const more of rest) watch.observe(more);
		if (rest.length || end.isConnected) return;
		body.append(end);
		watch.observe(end);
	};
	body.addEventListener('click', (event) => event.target.matches('.more') && watchRest());
	const fill = async () => {
		put(body, skeleton(2));
		try {
			const preview = await load();
			put(body, start, contentOf(permission, preview));
			put(place, 'in ', h('code', exact(preview.directory)));
			watch.observe(start);
			watchRest();
			say();
		} catch (error) {
			missing = 'What it would do cannot be read, so it cannot be allowed here.';
			const again = h('button.btn.small', { type: 'button', onclick: fill }, 'Try again');
			put(body, h('p.err', { role: 'alert' }, icon('alert'), `${missing} ${error.message} `, again));
		}
	};
	fill();
	return { el, blocked: () => missing };
}

/** One screen further down, in whatever scrolls. */
function readOn(body) {
	if (body.scrollTop + body.clientHeight < body.scrollHeight - 2) body.scrollBy({ top: body.clientHeight * 0.9 });
	else body.lastElementChild.scrollIntoView({ block: 'nearest' });
	body.focus({ preventScroll: true });
}

function contentOf({ resources, action }, { command, files = [], input, note }) {
	if (command != null) return text(command, 'The command');
	const parts = files.map((file) => changed(file));
	const named = files.length && files.every((file) => resources.includes(file.path)) && resources.length <= files.length;
	return [
		named ? null : text(resources.join('\n'), action),
		note ? h('div.note', text(note, 'Note')) : null,
		parts,
		input ? Object.entries(input).map(([name, value]) => [h('p.note', h('b', exact(name))), text(readable(value), name)]) : null,
	];
}

const readable = (value) => (typeof value === 'string' ? value : JSON.stringify(value, null, 2));
const STATUS = { added: 'new file', deleted: 'deleted' };

function changed({ path, status, additions, deletions, patch }) {
	const counts = h('span.delta', h('span.add', `+${num(additions)}`), deletions ? h('span.rem', `−${num(deletions)}`) : null);
	const head = h('p.note.ask-file', h('b', exact(path)), h('span.dim', STATUS[status] || ''), counts);
	if (patch == null) return [head, h('p.note', 'The file as it is, or as it would be, is not text or is too large to compare.')];
	const table = diffTable(patch, `Changes of ${path}`, { most: ROWS, text: exact });
	return [head, table];
}

/** Text as it was written, in pieces: laying out a long one at once would stop the page. */
function text(whole, label) {
	const pieces = whole.match(new RegExp(`[\\s\\S]{1,${PIECE}}`, 'gu')) || [''];
	const code = h('code');
	const more = pages(code, pieces, exact, { most: PIECES, noun: 'parts' });
	return [h('pre.ask-code', { 'aria-label': label }, code), more];
}

/** What explains a command, and never stands for it: its description, warnings, and the parts that the rules looked at. */
function about({ metadata, resources, action }) {
	const { description, warnings = [] } = metadata || {};
	const isCommand = action === 'bash' && metadata?.command != null;
	const parts = isCommand && !(resources.length === 1 && resources[0] === metadata.command) ? resources : [];
	return [
		typeof description === 'string' && description ? h('p.ask-text.dim', exact(description)) : null,
		Array.isArray(warnings) ? warnings.map((warning) => h('p.ask-text.warnt', exact(String(warning)))) : null,
		parts.length ? h('details.ask-parts', h('summary', h('span.dim', 'What the rules were asked about'), icon('right')),
			h('ul', parts.map((part) => h('li', h('code', exact(patternName(part))))))) : null,
	];
}

/** A command that cannot be taken apart has a hash as its pattern: it stands for exactly this text. */
export const patternName = (pattern) => (pattern.startsWith('opaque:') ? 'exactly this command (it could not be taken apart)' : pattern);
