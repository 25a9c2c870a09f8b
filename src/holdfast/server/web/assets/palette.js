// The command palette and the map of keys, loaded when one is opened.
import { h, baseName, icon, dot, put, kbd } from './dom.js';
import { state, get, signOut, stateOf } from './data.js';
import { route, switchTheme } from './app.js';

function modal(label, ...content) {
	const dialog = h('dialog.palette', { 'aria-label': label, onclose: () => dialog.remove() }, content);
	dialog.addEventListener('click', (event) => event.target === dialog && dialog.close());
	document.body.append(dialog);
	dialog.showModal();
	return dialog;
}

function commands() {
	const { parts } = route();
	const general = [['Go to Needs you', 'inbox', '#/inbox'], ['Go to Sessions', 'list', '#/'], ['Go to System', 'server', '#/system'],
		['New session', 'plus', '#/new'], ['Light or dark', 'sun', switchTheme], ['Keys', 'question', keyMap], ['Print', 'file', () => print()]];
	if (document.documentElement.dataset.auth === 'required') general.push(['Sign out', 'leave', signOut]);
	if (parts[0] !== 's') return general;
	const tabs = ['Context', 'Cache', 'Timeline', 'Cost', 'Changes', 'Events'];
	return [...tabs.map((tab) => [`${tab} of this session`, 'layers', `#/s/${parts[1]}/${tab.toLowerCase()}`]), ...general];
}

export function palette() {
	let at = 0;
	let found = [];
	let sessions = [...state.overview.values()];
	const list = h('ul', { role: 'listbox', id: 'palette', 'aria-label': 'Results' });
	const input = h('input', {
		placeholder: 'Session, command or page', role: 'combobox', 'aria-controls': 'palette', 'aria-expanded': 'true', 'aria-label': 'Search or jump to',
	});
	const dialog = modal('Search or jump to', h('label', icon('search'), input), list);
	const choose = (entry) => {
		dialog.close();
		if (typeof entry.to === 'function') entry.to();
		else location.hash = entry.to;
	};
	const draw = () => {
		const wanted = input.value.toLowerCase().trim();
		const all = [
			...sessions.map((shown) => ({
				text: shown.session.title || 'Untitled', note: baseName(shown.session.location.directory), mark: dot(stateOf(shown)), to: `#/s/${shown.session.id}`,
			})),
			...commands().map(([text, name, to]) => ({ text, note: 'command', mark: icon(name), to })),
		];
		found = all.filter((entry) => !wanted || `${entry.text} ${entry.note}`.toLowerCase().includes(wanted)).slice(0, 9);
		at = Math.max(0, Math.min(at, found.length - 1));
		put(list, found.map((entry, i) => h('li', {
			role: 'option', id: `palette${i}`, 'aria-selected': String(i === at), onclick: () => choose(entry),
		}, entry.mark, h('span', entry.text), h('span.dim', entry.note))), found.length ? null : h('li.none', 'Nothing found'));
		input.setAttribute('aria-activedescendant', found.length ? `palette${at}` : '');
	};
	const search = async () => {
		const { data } = await get('/api/overview', { limit: 20, search: input.value.trim() }).catch(() => ({ data: [] }));
		const ids = new Set(data.map((shown) => shown.session.id));
		sessions = [...data, ...[...state.overview.values()].filter((shown) => !ids.has(shown.session.id))];
		draw();
	};
	let timer = 0;
	input.addEventListener('input', () => {
		at = 0;
		draw();
		clearTimeout(timer);
		timer = setTimeout(search, 150);
	});
	dialog.addEventListener('keydown', (event) => {
		if (event.key === 'Enter' && found[at]) choose(found[at]);
		else if (event.key === 'ArrowDown' && found.length) at = (at + 1) % found.length;
		else if (event.key === 'ArrowUp' && found.length) at = (at + found.length - 1) % found.length;
		else return;
		event.preventDefault();
		draw();
	});
	draw();
	search();
}

const KEYS = [
	['⌘K or Ctrl K', 'Search, jump, act'], ['g s', 'Sessions'], ['g n', 'Needs you'], ['g y', 'System'], ['n', 'Next thing that needs you'],
	['a', 'Allow once (on a card)'], ['A', 'Always (on a card)'], ['d', 'Deny (on a card)'], ['c', 'New session'], ['/', 'Search'],
	['j', 'Next message'], ['k', 'Previous message'], ['G', 'Newest message, and follow'], ['i', 'Inspector'], ['1 2 3 4 5 6', 'Tabs of the inspector'],
	['[ ]', 'Less detail, more detail'], ['e', 'To the composer'], ['Enter', 'Send'], ['Shift Enter', 'New line'], ['Alt Enter', 'Queue'],
	['Esc Esc', 'Interrupt'], ['?', 'This list'],
];

export function keyMap() {
	const rows = KEYS.map(([keys, what]) => [h('dt', h('span.sr', keys), kbd(...keys.split(' '))), h('dd', what)]);
	const close = h('button.btn', { type: 'button', onclick: () => dialog.close() }, 'Close');
	const dialog = modal('Keys', h('div.keymap', h('h2', 'Keys'), h('dl', rows), close));
}
