// What a directory offers to prompts, and the list that completes `@` and `/` while one is typed.
import { h, put } from './dom.js';
import { get, at } from './data.js';

const FRESH = 60_000;
const MOST = 8;
const cache = new Map();

/** `agent`, `model`, `command`, `skill` or `reference` of a directory, asked for once a minute. */
export function offers(noun, directory) {
	const key = `${noun} ${directory}`;
	const known = cache.get(key);
	if (known && Date.now() - known.time < FRESH) return known.list;
	const list = get(`/api/${noun}`, at(directory)).then((body) => body.data);
	list.catch(() => cache.delete(key));
	cache.set(key, { list, time: Date.now() });
	return list;
}

/** Needs no provider and no key. */
const OFFLINE = {
	id: 'echo', providerID: 'demo', name: 'demo/echo, the offline model', enabled: true, limit: { context: 0 }, cost: [], variants: [],
};
/** The models that can be used in a directory; the offline one comes last. */
export async function usableModels(directory) {
	const models = (await offers('model', directory)).filter((model) => model.enabled);
	return models.some((model) => model.providerID === OFFLINE.providerID) ? models : [...models, OFFLINE];
}
export const isOffline = (model) => model?.providerID === OFFLINE.providerID;

const orNone = (promise) => promise.catch(() => []);

/** Commands, and skills that may be called like them. */
export async function slashNames(directory) {
	const [commands, skills] = await Promise.all([orNone(offers('command', directory)), orNone(offers('skill', directory))]);
	const called = new Set(commands.map(({ name }) => name)); // the server lists skills among them
	return [
		...commands.map(({ name, description }) => ({ text: `/${name}`, note: description || 'command', command: name })),
		...skills.filter((skill) => skill.slash && !called.has(skill.name)).map(({ name, description }) => ({ text: `/${name}`, note: description || 'skill', skill: name })),
	];
}

async function mentions(directory, typed) {
	const [agents, references, files] = await Promise.all([
		orNone(offers('agent', directory)), orNone(offers('reference', directory)),
		orNone(get(typed ? '/api/fs/find' : '/api/fs/list', { query: typed, limit: typed ? MOST : null, ...at(directory) }).then((body) => body.data)),
	]);
	const like = ({ text }) => text.toLowerCase().includes(typed.toLowerCase());
	return [
		...agents.filter((agent) => !agent.hidden && agent.mode !== 'primary').map(({ id }) => ({ text: `@${id}`, note: 'agent' })).filter(like),
		...references.filter((reference) => !reference.hidden).map(({ name }) => ({ text: `@${name}/`, note: 'reference', open: true })).filter(like),
		...files.map(({ path, type }) => ({ text: `@${path}`, note: type, open: type === 'directory' })),
	];
}

/**
 * Completes in a textarea. `keydown` is to be asked before the textarea's own keys; it returns whether it took the key.
 * @param {HTMLTextAreaElement} area @param {() => string} directory
 */
export function completion(area, directory) {
	const list = h('ul.sug', { role: 'listbox', id: 'completions', 'aria-label': 'Completions', hidden: true });
	let found = [];
	let chosen = 0;
	let asked = 0;
	const draw = () => {
		list.hidden = !found.length;
		put(list, found.map((entry, i) => h('li', {
			role: 'option', id: `completion${i}`, 'aria-selected': String(i === chosen), onmousedown: (event) => { event.preventDefault(); take(i); },
		}, h('code', entry.text), h('span.dim', entry.note))));
		area.setAttribute('aria-activedescendant', found.length ? `completion${chosen}` : '');
		list.children[chosen]?.scrollIntoView({ block: 'nearest' });
	};
	const close = () => {
		asked += 1;
		found = [];
		draw();
	};
	const take = (i) => {
		const end = area.selectionStart;
		const { text, open } = found[i];
		const start = area.value.slice(0, end).search(/[@/][^\s@]*$/);
		area.setRangeText(open ? text : `${text} `, start, end, 'end');
		close();
		area.focus();
		area.dispatchEvent(new Event('input'));
	};
	const search = async () => {
		const typed = /(?:^|\s)(@|\/)([^\s@]*)$/.exec(area.value.slice(0, area.selectionStart));
		if (!typed || (typed[1] === '/' && typed.index !== 0)) return found.length ? close() : undefined;
		const mine = (asked += 1);
		const all = typed[1] === '@' ? await mentions(directory(), typed[2]) : (await slashNames(directory())).filter((entry) => entry.text.includes(typed[2]));
		if (mine !== asked) return;
		[found, chosen] = [all.slice(0, MOST), 0];
		draw();
	};
	let timer = 0;
	area.addEventListener('input', () => {
		clearTimeout(timer);
		timer = setTimeout(search, 80);
	});
	area.addEventListener('blur', () => setTimeout(close, 150));
	const keydown = (event) => {
		if (!found.length || event.isComposing) return false;
		if (event.key === 'ArrowDown') chosen = (chosen + 1) % found.length;
		else if (event.key === 'ArrowUp') chosen = (chosen + found.length - 1) % found.length;
		else if (event.key === 'Escape') found = [];
		else if (event.key === 'Enter' || event.key === 'Tab') take(chosen);
		else return false;
		event.preventDefault();
		event.stopPropagation();
		draw();
		return true;
	};
	return { list, keydown };
}
