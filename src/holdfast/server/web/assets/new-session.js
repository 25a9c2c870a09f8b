// The page that starts a Session: where, by whom, with which model, and the first prompt.
import { h, baseName, lacks, put, toast } from './dom.js';
import { state, get, post, newID, saveDraft, ApiError } from './data.js';
import { composer, noProvider } from './composer.js';
import { usableModels, isOffline } from './completion.js';
import { send } from './dock.js';

const LAST = 'holdfast.directory';

/** Directories of Sessions, most recently used first. */
async function recentDirectories() {
	const { data } = await get('/api/overview', { limit: 100 });
	const open = [...state.overview.values()];
	return [...new Set([...open, ...data].map((shown) => shown.session.location.directory))];
}

export function newSessionPage(query) {
	const chosen = { agent: undefined, model: undefined };
	const suggestions = h('datalist', { id: 'directories' });
	const directory = h('input.field.mono', {
		list: 'directories', required: true, spellcheck: 'false', autocomplete: 'off', 'aria-describedby': 'directory-hint',
		value: query.get('directory') || localStorage.getItem(LAST) || '',
	});
	const recent = h('div.chips.small', { role: 'group', 'aria-label': 'Recent directories' });
	const note = h('div.note');
	const writer = composer({
		id: 'new',
		delivery: false,
		directory: () => directory.value.trim(),
		current: () => chosen,
		chooseAgent: (agent) => { chosen.agent = agent; writer.update(); },
		chooseModel: (model) => { chosen.model = model; writer.update(); },
		submit: (draft) => create(directory.value.trim(), chosen, draft, writer),
	});
	writer.dataset.needs = 'prompt';
	const checkModels = async () => {
		const models = await usableModels(directory.value.trim()).catch(() => []);
		const none = models.length > 0 && models.every(isOffline);
		if (none) chosen.model = { id: models[0].id, providerID: models[0].providerID };
		else if (isOffline(chosen.model)) chosen.model = undefined;
		put(note, none ? noProvider() : null);
		writer.update();
	};
	const use = (path) => {
		directory.value = path;
		checkModels();
	};
	// What arrives late is not written into a field that somebody is in, or was.
	let given = Boolean(directory.value);
	const propose = (path) => (given || document.activeElement === directory ? checkModels() : use(path));
	directory.addEventListener('input', () => { given = true; });
	directory.addEventListener('change', checkModels);
	recentDirectories().then((paths) => {
		put(suggestions, paths.map((path) => h('option', { value: path })));
		put(recent, paths.slice(0, 6).map((path) => h('button.chip', { type: 'button', title: path, onclick: () => use(path) }, baseName(path))));
		return given ? checkModels() : (paths.length ? Promise.resolve(paths[0]) : serverDirectory()).then(propose);
	}).catch(() => checkModels());
	return h('section.page.narrow.newp', { 'aria-labelledby': 'h1' }, h('header.page-head', h('h1', { id: 'h1' }, 'New session')),
		h('label.stackd', 'Directory on the server', directory), suggestions, recent,
		h('p.dim', { id: 'directory-hint' }, 'The agent reads and changes files there. Outside of it, it asks.'), note,
		lacks('prompt', 'A new session'), writer);
}

const serverDirectory = () => get('/api/location').then((found) => (found.data ?? found).directory ?? '', () => '');

let id = null; // kept until a Session was created, so that a second try creates it once
async function create(directory, { agent, model }, draft, writer) {
	id ??= newID('ses').replace(/_.{12}/, (stamp) => `_${complement(stamp.slice(1))}`);
	try {
		const body = { id, ...(directory ? { location: { directory } } : {}), ...(agent ? { agent } : {}), ...(model ? { model } : {}) };
		const { data } = await post('/api/session', body);
		id = null;
		if (directory) localStorage.setItem(LAST, directory);
		send(data.id, draft);
		location.hash = `#/s/${data.id}`;
	} catch (error) {
		if (!(error instanceof ApiError)) throw error;
		writer.setText(draft.text);
		saveDraft('new', draft.text);
		toast(`No session was created: ${error.message}`, true);
	}
}

/** Ids of Sessions count down, so that newer ones sort first (API-008). */
const complement = (hex) => (0xffffffffffffn - BigInt(`0x${hex}`)).toString(16).padStart(12, '0');
