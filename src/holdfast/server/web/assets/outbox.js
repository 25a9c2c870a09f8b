// Prompts on their way: each has its own id, so that sending it again admits it once.
import { state, on, emit, post, newID, sessionPath, ApiError } from './data.js';

const STORED = 'holdfast.outbox';
const PATIENCE = 30_000; // after this a prompt waits for a click
const ATTEMPT = 20_000;
const RESOLVE = 600_000; // a mentioned file may need a person's permission
const UNSURE = new Set([0, 408, 502, 503, 504]); // whether it was admitted is not known

/**
 * @typedef {{id: string, session: string, path: string, body: object, text: string, draft: string, delivery: string, since: number,
 *   status: 'sending'|'admitted'|'waiting'|'refused', why?: string}} Outgoing
 */
/** @type {Map<string, Outgoing>} */
const outbox = new Map();

/** Sends a prompt, a command or a skill. `path` is below the Session. */
export function sendInput(session, path, body, { text, draft, delivery }) {
	const item = { id: newID('msg'), session, path, body, text, draft, delivery, since: Date.now(), status: 'sending' };
	outbox.set(item.id, item);
	changed();
	deliver(item);
	return item.id;
}

export const outgoing = (session) => [...outbox.values()].filter((item) => item.session === session);

export function sendAgain(id) {
	const item = outbox.get(id);
	if (!item) return;
	Object.assign(item, { status: 'sending', since: Date.now() });
	changed();
	deliver(item);
}

/** Takes a prompt back that was not admitted. */
export function discard(id) {
	outbox.delete(id);
	changed();
}

async function deliver(item) {
	for (let wait = 500; item.status === 'sending' && outbox.has(item.id); wait = Math.min(4000, wait * 2)) {
		try {
			await post(sessionPath(item.session, item.path), { id: item.id, ...item.body }, { signal: AbortSignal.timeout(item.body.resolve ? RESOLVE : ATTEMPT) });
			return admitted(item.id);
		} catch (error) {
			if (error instanceof ApiError && !UNSURE.has(error.status)) return refused(item, error);
			if (Date.now() - item.since > PATIENCE) {
				item.status = 'waiting';
				return changed();
			}
			await new Promise((resolve) => setTimeout(resolve, wait));
		}
	}
}

function admitted(id) {
	// The stream shows it soon. Until then it stays visible, without a question about it.
	const item = outbox.get(id);
	if (!item) return;
	item.status = 'admitted';
	changed();
	setTimeout(() => discard(id), 3000);
}

function refused(item, error) {
	Object.assign(item, { status: 'refused', why: error.message });
	changed();
}

function changed() {
	store();
	emit('status');
}

function store() {
	const kept = [...outbox.values()].filter((item) => item.status !== 'admitted');
	try {
		sessionStorage.setItem(STORED, JSON.stringify(kept));
	} catch {
		// Attachments may be larger than the storage. They are kept in this page only.
	}
}

// What the Session already has is no longer on its way.
on((topic) => {
	if (topic !== 'status' && topic !== 'entries') return;
	const known = [...outbox.keys()].filter((id) => state.entries.has(id) || state.status?.pending?.some((pending) => pending.id === id));
	for (const id of known) outbox.delete(id);
	if (known.length) store();
});

/** After a reload nobody knows whether a prompt was admitted: it waits for a click, and sending it again is safe. */
for (const item of JSON.parse(sessionStorage.getItem(STORED) || '[]')) outbox.set(item.id, { ...item, status: 'waiting' });
