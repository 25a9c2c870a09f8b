// Pages for those who are not signed in: the password, a one-time code, and a link that answers one request.
import { h, icon, put, skeleton, spinner, moment, now, plain } from './dom.js';
import { state, post, setKey, restart, ApiError } from './data.js';

const frame = (...content) => h('main.login', { id: 'main', tabindex: -1 }, content);
const brand = () => h('div.brand', icon('holdfast'), h('b', 'Holdfast'), h('span.dim', location.host));

async function signIn(body) {
	const { key } = await post('/web/sign-in', body);
	setKey(key);
	state.signedIn = true;
	restart();
}

function refusal(error) {
	if (error.status === 401) return 'That is not the password of this server.';
	if (error.status === 429) return `Too many attempts. Try again in ${error.retryAfter || 60} s.`;
	return error.message;
}

/** `done` shows the page that was asked for. */
export function signInPage(done) {
	const problem = h('p.err', { id: 'refused', role: 'alert', hidden: true });
	const password = h('input.field', {
		type: 'password', name: 'password', autocomplete: 'current-password', required: true, autofocus: true, 'aria-describedby': 'where',
	});
	const button = h('button.btn.primary', 'Sign in');
	const submit = async (event) => {
		event.preventDefault();
		button.disabled = true;
		try {
			await signIn({ password: password.value });
			done();
		} catch (error) {
			if (!(error instanceof ApiError)) throw error;
			problem.hidden = false;
			put(problem, icon('alert'), refusal(error));
			password.setAttribute('aria-invalid', 'true');
			password.setAttribute('aria-describedby', 'refused where');
			password.select();
			password.focus();
		} finally {
			button.disabled = false;
		}
	};
	return frame(h('form', { onsubmit: submit }, brand(), h('h1.sr', 'Sign in'),
		h('input', { type: 'text', name: 'username', value: 'holdfast', autocomplete: 'username', hidden: true, 'aria-hidden': 'true', tabindex: -1 }),
		h('label', 'Password', password), problem, button,
		h('p.dim', { id: 'where' }, 'The one that ', h('code', 'holdfast serve'), ' was started with, or that it named when it started. On the same computer, ',
			h('code', 'holdfast web'), ' signs in by itself.')));
}

/** A code of `holdfast web`. It leaves the address before it is used. */
export function codePage(code, done) {
	history.replaceState(null, '', '#/');
	const box = h('div.card', brand(), h('p', spinner(), ' Signing in…'));
	signIn({ code }).then(done, (error) => {
		const again = h('button.btn', { type: 'button', onclick: done }, 'Sign in with the password');
		const why = error.status === 401 ? 'This code was used before, or has expired. Run holdfast web again.' : error.message;
		put(box, brand(), h('p.err', { role: 'alert' }, icon('alert'), why), again);
	});
	return frame(box);
}

/** Answers one request with the token behind `#/approve/`. Nobody signs in. */
export function approvalPage(token) {
	const box = h('div.card.approval', brand(), skeleton(4));
	const load = async () => {
		try {
			const [shown, parts] = await Promise.all([post('/web/approval', { token }), Promise.all([import('./request.js'), import('./gate.js')])]);
			put(box, brand(), approval(shown, token, box, ...parts));
		} catch (error) {
			if (!(error instanceof ApiError)) throw error;
			if (error.status === 404) return put(box, brand(), unusable());
			put(box, brand(), h('p.err', { role: 'alert' }, icon('alert'), error.message), h('button.btn', { type: 'button', onclick: load }, 'Try again'));
		}
	};
	load();
	return frame(box);
}

const unusable = () => [h('h1', 'This link cannot be used'), h('p', 'It was used, it has expired, or the request was answered elsewhere.')];

/** The same view and the same rules as on a card: what is asked for once, whole, and the buttons below it. */
function approval({ request, preview }, token, box, { requestView, wish }, { guard }) {
	const { permission } = request;
	const why = h('textarea', { rows: 2, placeholder: 'Reason, optional. The model reads it.', 'aria-label': 'Reason' });
	const problem = h('p.err', { role: 'alert', hidden: true });
	const reply = (how, said) => async () => {
		try {
			const message = how === 'reject' && why.value.trim() ? { message: why.value.trim() } : {};
			await post('/web/approval/reply', { token, reply: how, ...message });
			history.replaceState(null, '', '#/');
			put(box, brand(), h('h1', { tabindex: -1 }, said), h('p', 'You can close this page. The link cannot be used again.'));
			box.querySelector('h1').focus();
		} catch (error) {
			if (error.status === 404) return put(box, brand(), unusable());
			problem.hidden = false;
			put(problem, icon('alert'), error.message);
		}
	};
	const view = requestView(permission, async () => preview);
	const once = guard(h('button.btn.primary', { type: 'button' }, 'Allow once'), reply('once', 'Allowed once'), view.blocked);
	const deny = guard(h('button.btn.danger', { type: 'button' }, 'Deny'), reply('reject', 'Denied'));
	return [
		h('h1', `${plain(request.agent || 'The agent')} ${wish(permission)}`),
		h('p.dim', plain((request.titles || []).join(' › ')), ` · since ${moment(Math.min(request.since, now()))}`),
		view.el, h('div.ask-acts', once, deny), why, problem,
	];
}
