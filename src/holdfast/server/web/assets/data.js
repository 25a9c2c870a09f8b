// The page's data: calls of the API, the sign-in key, the stream, and the state that views read and are told about.
import { clockOffset } from './dom.js';

/**
 * @typedef {{id: string, seq: number, type: 'user'|'assistant'|'shell'|'compaction'|'mark', time: {created: number, completed?: number}}} Entry
 *   A message or a mark, as `GET …/rendered` gives it. See schema/rendered.py for the fields of each type.
 * @typedef {{session: object, rootID: string, state: string, waits?: object[], pending?: number, requests?: number, line?: string,
 *   context?: {used: number, limit?: number}}} OverviewSession
 * @typedef {{id: string, kind: 'permission'|'question'|'form'|'recovery'|'budget', sessionID: string, ancestors?: string[], titles?: string[],
 *   directory?: string, agent?: string, since: number, permission?: object, question?: object, form?: object, activity?: object, waiting?: string[]}}
 *   OpenRequest  `budget` requests are made here; `waiting` are the Sessions that wait for the budget.
 * @typedef {{kind: string, blocks: string[], index: number, tail: string}} LiveText
 *   Text that is being written: finished Markdown blocks as HTML, and the open one, number `index`, as text.
 */

// ---- calls
/** An answer that is no success. Status 0: the server did not answer. */
export class ApiError extends Error {
	constructor(status, name, message, retryAfter = 0) {
		super(message);
		Object.assign(this, { status, name, retryAfter });
	}
}

const KEY = 'holdfast.key';
const READ_SECONDS = 60;
let key = localStorage.getItem(KEY);

export function setKey(value) {
	key = value;
	if (value) localStorage.setItem(KEY, value);
	else localStorage.removeItem(KEY);
}
// Another tab signed in or out.
addEventListener('storage', (event) => {
	if (event.key !== KEY) return;
	key = event.newValue;
	if (!key) return;
	state.signedIn = true;
	restart();
	emit('conn');
});

function address(path, query) {
	const url = new URL(path.replace(/^\//, ''), document.baseURI);
	for (const [name, value] of Object.entries(query || {})) if (value != null && value !== '') url.searchParams.set(name, value);
	return url;
}

async function send(method, path, { query, body, signal } = {}) {
	const headers = { accept: 'application/json' };
	if (key) headers['x-holdfast-key'] = key;
	if (body !== undefined) headers['content-type'] = 'application/json';
	const options = { method, headers, signal, credentials: 'same-origin', body: body === undefined ? undefined : JSON.stringify(body) };
	let response;
	try {
		response = await fetch(address(path, query), options);
	} catch (error) {
		if (error.name === 'AbortError') throw error;
		throw new ApiError(0, 'Unreachable', 'The server does not answer.');
	}
	if (!response.ok) throw await failure(response);
	return response;
}

async function failure(response) {
	const text = await response.text().catch(() => '');
	let told = {};
	try {
		told = JSON.parse(text) ?? {};
	} catch {
		// A proxy's page, or nothing.
	}
	const error = new ApiError(response.status, told._tag || `Status${response.status}`, told.message || `The server answered ${response.status}.`,
		Number(response.headers.get('retry-after')) || 0);
	if (response.status === 401 && !response.url.includes('/web/sign-in')) signedOut();
	return error;
}

const parsed = async (response) => (response.status === 204 ? null : response.json());

/** Calls return the body whole, such as `{data, cursor}`, and raise ApiError. */
export const get = async (path, query) => parsed(await send('GET', path, { query, signal: AbortSignal.timeout(READ_SECONDS * 1000) }));
export const post = async (path, body = {}, { query, signal } = {}) => parsed(await send('POST', path, { query, body, signal }));
export const put = async (path, body = {}) => parsed(await send('PUT', path, { body }));
export const del = async (path, query) => parsed(await send('DELETE', path, { query }));

/** The query that selects a directory. */
export const at = (directory) => (directory ? { 'location[directory]': directory } : {});
export const sessionPath = (id, rest = '') => `/api/session/${encodeURIComponent(id)}${rest}`;

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
let stamped = 0n;
/** An id that the server accepts: the time, and fourteen random characters (API-008). */
export function newID(prefix) {
	const stamp = BigInt(Date.now() + clockOffset.ms) * 4096n;
	stamped = stamp > stamped ? stamp : stamped + 1n;
	const random = crypto.getRandomValues(new Uint8Array(14));
	const hex = (stamped & 0xffffffffffffn).toString(16).padStart(12, '0');
	return `${prefix}_${hex}${[...random].map((n) => DIGITS[n % 62]).join('')}`;
}

// ---- state, and who is told when it changes
const listeners = new Set();
/** Topics: overview requests entries status conn turn at block detail. Returns what ends it. */
export function on(listener) {
	listeners.add(listener);
	return () => listeners.delete(listener);
}
/** Listens as long as an element is in the document. */
export function listen(el, listener) {
	const off = on((topic, data) => (el.isConnected ? listener(topic, data) : off()));
}
export function emit(topic, data) {
	for (const listener of [...listeners]) listener(topic, data);
}

const html = document.documentElement.dataset;
export const state = {
	/** connecting, live, polling, reconnecting, offline, stopped or paused */
	conn: 'connecting',
	attempt: 0,
	/** When the connection was lost, and when the next attempt is. */
	lost: 0,
	next: 0,
	/** How many events came after the last loss. */
	missed: 0,
	/** The version of a server that is newer than this page. */
	outdated: null,
	signedIn: html.auth === 'none' || (html.signedIn === 'true' && Boolean(key)),
	skew: 0,
	/** @type {Map<string, OverviewSession>} open work */
	overview: new Map(),
	/** @type {OpenRequest[]} */
	requests: [],
	/** Those that the server lists, and the ids of those that were answered here and may still be listed. */
	asked: [],
	dropped: new Map(),
	/** Whether `overview` and `requests` were received. */
	known: false,
	/** The followed Session. @type {string|null} */
	session: null,
	/** The `status` frame of the followed Session. */
	status: null,
	/** @type {Map<string, Entry>} */
	entries: new Map(),
	head: 0,
	/** While the Session's work has broken off with its process: up to which sequence. */
	brokenAt: null,
	/** loading, ready, failed or gone */
	load: 'loading',
	error: null,
	/** For the next older page; null: all is loaded. */
	cursor: null,
	turn: null,
	at: null,
	detail: localStorage.getItem('holdfast.detail') || 'normal',
	drafts: {},
};
/** Text that is being written, by `messageID/partID`. @type {Map<string, LiveText>} */
export const live = new Map();

const draftKey = (id) => `holdfast.draft.${id}`;
export function draft(id) {
	return (state.drafts[id] ??= localStorage.getItem(draftKey(id)) || '');
}
export function saveDraft(id, text) {
	state.drafts[id] = text;
	if (text) localStorage.setItem(draftKey(id), text);
	else localStorage.removeItem(draftKey(id));
}

/** What a Session does, in the words of the page: a key of STATE in dom.js. */
export function stateOf(session) {
	const retrying = session.status === 'running' && (session.waits || []).some((wait) => wait.kind === 'retry');
	return retrying ? 'retrying' : session.status;
}

const ORDER = ['waiting', 'paused', 'interrupted', 'blocked', 'retrying', 'running', 'resuming', 'pending'];
/** What needs somebody comes first; among what is at rest only time counts. */
export const rankOf = (session) => (ORDER.indexOf(stateOf(session)) + ORDER.length + 1) % (ORDER.length + 1);
const AT_REST = new Set(['new', 'finished', 'failed', 'stopped', 'pending', 'blocked']);
/** Whether nothing is under way in a Session, and nothing will be by itself. */
export const isAtRest = (session) => AT_REST.has(stateOf(session));
/** Whether a process works on it, or begins to with the next answer of a person. */
export const isUnderWay = (session) => ['running', 'retrying', 'waiting'].includes(stateOf(session));
/** Whether an entry that has no end is not worked on: its process ended, or it is looked at in the past. */
export function isBroken(entry) {
	if (state.at != null) return true;
	if (entry.sessionID) return state.overview.get(entry.sessionID)?.state === 'unfinished';
	return state.brokenAt != null && entry.seq <= state.brokenAt;
}

/** Budgets that stop work, as requests: one for each budget, whichever Sessions wait for it. */
function budgetRequests() {
	const found = new Map();
	for (const shown of state.overview.values()) {
		for (const { kind, id, since, what } of shown.waits || []) {
			if (kind !== 'budget' || !what.includes(' used')) continue; // otherwise it has something left again
			const owner = state.overview.get(id) ?? shown;
			const request = found.get(id) ?? {
				id: `budget ${id}`, kind: 'budget', sessionID: id, since, what, titles: [owner.session.title], directory: owner.session.location.directory,
				ancestors: [owner.rootID], waiting: [],
			};
			request.since = Math.min(request.since, since);
			request.waiting.push(shown.session.id, shown.rootID);
			found.set(id, request);
		}
	}
	return [...found.values()];
}

// ---- the followed Session
const PAGE = 50;
let changed = null; // ids that the stream changed while a page is on its way: what the stream sent is newer

let following = false;
/** Follows a Session, or with null only the open work. */
export function follow(id) {
	if (following && state.session === id && state.load !== 'failed') return;
	following = true;
	live.clear();
	Object.assign(state, {
		session: id, status: null, entries: new Map(), head: 0, brokenAt: null, load: 'loading', error: null, cursor: null, turn: null, missed: 0,
	});
	restart();
}

const rendered = (query) => get(sessionPath(state.session, '/rendered'), query);

/** Reads the newest page. What it shows to be gone leaves; older pages stay only if they join it. */
async function loadNewest({ keepOlder = false } = {}) {
	const id = state.session;
	const since = (changed = new Set());
	try {
		const page = await rendered({ limit: PAGE });
		if (state.session !== id || since !== changed) return;
		const oldest = Math.min(...page.data.map((entry) => entry.seq));
		const joins = keepOlder && page.data.some((entry) => state.entries.has(entry.id));
		const stays = ([id, entry]) => since.has(id) || (joins && entry.seq < oldest);
		state.entries = new Map([...state.entries].filter(stays));
		add(page.data, since);
		if (!joins) state.cursor = page.cursor?.next ?? null;
		Object.assign(state, { load: 'ready', error: null });
	} catch (error) {
		if (state.session !== id || error.name === 'AbortError') return;
		Object.assign(state, error.status === 404 ? { load: 'gone' } : { load: state.entries.size ? 'ready' : 'failed', error });
	} finally {
		if (changed === since) changed = null;
	}
	emit('entries', { all: true });
	emit('status');
}

let older = null;
/** Loads the next older page. Resolves with whether there was one. */
export function loadOlder(limit = PAGE) {
	if (!state.cursor || state.load !== 'ready') return Promise.resolve(false);
	older ??= readOlder(limit).finally(() => (older = null));
	return older;
}
async function readOlder(limit) {
	const { session: id, cursor } = state;
	const since = (changed ??= new Set());
	let page;
	try {
		page = await rendered({ limit, cursor });
		if (state.session !== id || state.cursor !== cursor) return false;
		add(page.data, since);
	} finally {
		if (changed === since) changed = null;
	}
	state.cursor = page.data.length ? (page.cursor?.next ?? null) : null;
	emit('entries', { older: true });
	return true;
}
function add(entries, newer) {
	for (const entry of entries) if (!newer.has(entry.id)) state.entries.set(entry.id, entry);
}

// ---- frames of the stream
/** What is older than the oldest loaded page comes with its page. */
function beforeLoaded(entry) {
	if (!state.cursor || state.entries.has(entry.id)) return false;
	for (const first of state.entries.values()) if (first.seq <= entry.seq) return false;
	return true;
}

function settle(entry) {
	if (entry.type !== 'assistant') {
		if (!entry.open) live.delete(`${entry.id}/${entry.id}`);
		return;
	}
	for (const part of entry.parts) {
		const written = part.type === 'tool' ? part.status !== 'pending' : !part.open;
		if (written) live.delete(`${entry.id}/${part.id}`);
	}
}

const MOST_TAIL = 200_000; // characters of a block without an end that are kept
function addText(frame) {
	const name = `${frame.messageID}/${frame.partID ?? frame.messageID}`;
	let text = live.get(name);
	if (!text || text.stale) live.set(name, (text = { kind: frame.kind, blocks: [], index: 0, tail: '' }));
	if (frame.html != null) {
		text.blocks[frame.index] = frame.html;
		if (frame.index >= text.index) Object.assign(text, { index: frame.index + 1, tail: '' });
	} else {
		if (frame.index !== text.index) Object.assign(text, { index: frame.index, tail: '' });
		text.tail = (frame.text ?? text.tail + (frame.add ?? '')).slice(-MOST_TAIL);
	}
	emit('block', name);
}

const FRAMES = {
	hello(frame) {
		state.skew = clockOffset.ms = frame.now - Date.now();
		if (frame.version !== html.version) state.outdated = frame.version;
		html.role = frame.role ?? 'admin'; // what it may not do is hidden by app.css
		// The server sends anew what is being written. What nobody writes any more stays in view.
		for (const text of live.values()) text.stale = true;
		if (state.session && !state.head) {
			state.head = frame.head ?? 0;
			loadNewest({ keepOlder: true });
		}
		if (!resuming) connected();
	},
	entries(frame) {
		for (const entry of frame.entries) {
			settle(entry);
			if (!changed && beforeLoaded(entry)) continue;
			changed?.add(entry.id);
			state.entries.set(entry.id, entry);
		}
		state.head = Math.max(state.head, frame.seq);
		emit('entries', { changed: frame.entries });
	},
	caught(frame) {
		const before = state.head;
		state.head = Math.max(state.head, frame.seq);
		connected(Math.max(0, frame.seq - (lostAt ?? before)));
	},
	reset() {
		live.clear();
		loadNewest();
	},
	gone() {
		state.load = 'gone';
		emit('status');
	},
	block: addText,
	status(frame) {
		const broken = frame.session.state === 'unfinished';
		state.brokenAt = broken ? (state.brokenAt ?? state.head) : null;
		state.status = frame;
		emit('status');
	},
	overview(frame) {
		state.overview = new Map(frame.sessions.map((session) => [session.session.id, session]));
		if (state.known) setRequests(state.asked);
		emit('overview');
	},
	requests(frame) {
		setRequests(frame.requests);
	},
	bye(frame) {
		if (frame.reason === 'signed-out') signedOut();
		else state.stopping = true;
	},
};

/** A request that was answered here leaves before the server says so. */
export function dropRequest(id) {
	state.dropped.set(id, Date.now() + DROPPED);
	setRequests(state.asked);
	setTimeout(() => setRequests(state.asked), DROPPED); // the same request may be open again
}
const DROPPED = 3000;

/** What the server lists and the budgets that stop work, without what was answered here a moment ago. */
function setRequests(asked) {
	const before = state.known ? new Set(state.requests.map((request) => request.id)) : null;
	state.asked = asked;
	for (const [id, until] of state.dropped) if (until <= Date.now()) state.dropped.delete(id);
	const requests = [...asked, ...budgetRequests()].filter((request) => !state.dropped.has(request.id));
	if (before && JSON.stringify(requests) === JSON.stringify(state.requests)) return;
	state.requests = requests;
	state.known = true;
	emit('requests', { added: before ? requests.filter((request) => !before.has(request.id)) : [] });
}

// ---- the connection
const SLOTS = 4;
const POLL = 2_000;
const SILENCE = 40_000; // the server sends a line every 15 s
const HIDDEN_AFTER = 10_000;
const HIDDEN_POLL = 20_000;
const OFFLINE_AFTER = 30_000;
let current = new AbortController();
let lostAt = null; // the head when the connection was lost
let resuming = false;

function connected(missed = 0) {
	Object.assign(state, { conn: 'live', attempt: 0, lost: 0, missed: lostAt == null ? 0 : missed, stopping: false });
	lostAt = null;
	emit('conn');
}

function lost(wait) {
	state.lost ||= Date.now();
	lostAt ??= state.head;
	const long = Date.now() - state.lost > OFFLINE_AFTER || !navigator.onLine;
	Object.assign(state, { conn: state.stopping ? 'stopped' : long ? 'offline' : 'reconnecting', next: Date.now() + wait });
	state.attempt += 1;
	emit('conn');
}

/** Ends the sign-in of this browser. */
export async function signOut() {
	await post('/web/sign-out').catch(() => {});
	signedOut();
}

export function signedOut() {
	setKey(null);
	state.signedIn = false;
	current.abort();
	emit('conn');
}

/** Connects anew at once. */
export function restart() {
	current.abort();
	current = new AbortController();
	if (state.signedIn) keepConnected(current.signal);
}

async function keepConnected(signal) {
	while (!signal.aborted) {
		let release = null;
		let polled = false;
		try {
			release = await takeSlot();
			if (signal.aborted) return;
			if (release) await readStream(signal);
			else polled = await poll(signal);
		} catch (error) {
			if (signal.aborted || error.status === 401) return;
			if (error.status === 404 && state.session) Object.assign(state, { load: 'gone' }), emit('status');
		} finally {
			release?.();
		}
		if (signal.aborted) return;
		if (polled) {
			await pause(POLL, signal);
			continue;
		}
		const wait = Math.min(10_000, 500 * 2 ** Math.min(state.attempt, 5)) * (0.8 + Math.random() * 0.4);
		lost(wait);
		await pause(wait, signal);
	}
}

function pause(ms, signal) {
	return new Promise((resolve) => {
		const timer = setTimeout(resolve, ms);
		signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
	});
}

/** One of the streams that the tabs of this browser may hold together: resolves with what gives it back, or null. */
async function takeSlot() {
	if (!navigator.locks) return () => {};
	for (let n = 0; n < SLOTS; n++) {
		const release = await new Promise((resolve) => {
			navigator.locks.request(`holdfast-stream-${n}`, { ifAvailable: true }, (lock) =>
				lock ? new Promise((free) => resolve(free)) : void resolve(null));
		});
		if (release) return release;
	}
	return null;
}

async function readStream(signal) {
	const silence = new AbortController();
	let timer = setTimeout(() => silence.abort(), SILENCE);
	const query = { session: state.load === 'gone' ? null : state.session, after: state.session && state.head ? state.head : null };
	resuming = query.after != null;
	try {
		const response = await send('GET', '/web/stream', { query, signal: AbortSignal.any([signal, silence.signal]) });
		const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
		let rest = '';
		for (;;) {
			const { done, value } = await reader.read();
			if (done) return;
			clearTimeout(timer);
			timer = setTimeout(() => silence.abort(), SILENCE);
			const frames = (rest + value).split('\n\n');
			rest = frames.pop();
			for (const text of frames) if (!signal.aborted) receiveSafely(text);
		}
	} finally {
		clearTimeout(timer);
	}
}

/** A view that cannot draw something does not end the stream: the next frame may be fine, and a new stream would bring the same. */
function receiveSafely(text) {
	try {
		receive(text);
	} catch (error) {
		reportError(error);
	}
}

function receive(text) {
	const data = text.split('\n').filter((line) => line.startsWith('data:')).map((line) => line.slice(5)).join('\n');
	if (!data) return;
	const frame = JSON.parse(data);
	FRAMES[frame.type]?.(frame);
}

/** What the stream would send, asked for: all slots are taken by other tabs. */
async function poll(signal) {
	const id = state.session;
	const [open, requests] = await Promise.all([get('/api/overview', { open: true, limit: 500 }), get('/api/request')]);
	if (signal.aborted) return false;
	FRAMES.overview({ sessions: open.data });
	setRequests(requests.data);
	if (id) {
		await loadNewest({ keepOlder: true });
		const paths = ['/api/overview', sessionPath(id, '/pending'), sessionPath(id, '/todo')];
		const [shown, pending, todos] = await Promise.all(paths.map((path, i) => get(path, i ? null : { ids: id }).then((body) => body.data)));
		if (signal.aborted) return false;
		FRAMES.status({ session: shown[0], pending, todos, tree: { sessions: 1, cost: shown[0].session.cost } });
	}
	Object.assign(state, { conn: 'polling', attempt: 0, lost: 0, stopping: false });
	lostAt = null;
	emit('conn');
	return true;
}

let hiddenTimer = 0;
/** A hidden tab gives its stream up and asks from time to time what waits for a person. */
function hide() {
	current.abort();
	state.conn = 'paused';
	emit('conn');
	const ask = async () => {
		const { data } = await get('/api/request').catch(() => ({}));
		if (data && document.hidden) setRequests(data);
	};
	hiddenTimer = setInterval(ask, HIDDEN_POLL);
}
document.addEventListener('visibilitychange', () => {
	clearTimeout(hiddenTimer);
	clearInterval(hiddenTimer);
	if (!state.signedIn) return;
	if (document.hidden) hiddenTimer = setTimeout(hide, HIDDEN_AFTER);
	else if (current.signal.aborted || state.conn !== 'live') restart();
});
addEventListener('online', () => state.signedIn && state.conn !== 'live' && !document.hidden && restart());
