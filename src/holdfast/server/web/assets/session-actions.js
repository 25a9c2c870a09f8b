// What a person does with the followed Session, and where the page then goes.
import { h, toast, ask } from './dom.js';
import { state, post, del, sessionPath, ApiError } from './data.js';
import { route } from './app.js';

export const shownSession = () => state.status?.session;
/** Whether a request was made by a Session or one below it. */
export const concerns = (request, id) => request.sessionID === id || request.ancestors?.includes(id) || request.waiting?.includes(id);

/** Moves to the past, or with null back to now. */
export function goTo(seq) {
	const { parts } = route();
	location.hash = `#/${parts.join('/')}${seq == null ? '' : `?at=${seq}`}`;
}

/** Awaits a call and says if it failed. Resolves with its body or true, or with null. */
export async function act(what, promise, done) {
	try {
		const result = await promise;
		if (done) toast(done);
		return result ?? true;
	} catch (error) {
		if (!(error instanceof ApiError)) throw error;
		toast(`${what}: ${error.message}`, true);
		return null;
	}
}

export async function rename(id, session) {
	const field = h('input.field', { value: session.title, maxlength: 200, required: true, 'aria-label': 'Title' });
	const title = await ask('Rename the session', field, { confirm: 'Rename', read: () => field.value.trim() });
	if (title) act('Not renamed', post(sessionPath(id, '/rename'), { title }));
}

export async function fork(id, boundary) {
	const made = await act('Not forked', post(sessionPath(id, '/fork'), { boundary }), 'Forked');
	if (made) location.hash = `#/s/${made.data.id}`;
}

export async function archive(id, archived) {
	const done = await act('Not archived', post(sessionPath(id, '/archive'), { archived }), archived ? 'Archived' : 'Taken out of the archive');
	if (done && archived) location.hash = '#/';
}

export async function remove(id, session) {
	const what = `“${session.title || 'Untitled'}” with its conversation, its log and its subagents.`;
	const text = h('p', what, ' This cannot be undone. Files in the directory stay.');
	const sure = await ask('Delete this session?', text, { confirm: 'Delete', danger: true });
	if (sure && await act('Not deleted', del(sessionPath(id)), 'Deleted')) location.hash = '#/';
}
