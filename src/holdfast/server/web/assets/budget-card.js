// The card of a reached budget: whose it is, what was used of which limit, and raising it.
import { h, exact, lacks, num, put, skeleton, usd, dur } from './dom.js';
import { get, put as replace, sessionPath, ApiError } from './data.js';
import { guard } from './gate.js';

const UNITS = {
	money: { label: 'Dollars', shown: usd, step: 'any' },
	tokens: { label: 'Tokens', shown: num, step: 1 },
	turns: { label: 'Requests to models', shown: num, step: 1 },
	time: { label: 'Seconds of work', shown: (seconds) => dur(seconds * 1000), step: 'any' },
};

export function budgetBody(request, answer) {
	const body = h('div.ask-body', skeleton(2));
	const fill = async () => {
		try {
			const { data } = await get(sessionPath(request.sessionID, '/budget'));
			put(body, raise(request, data.find((info) => info.sessionID === request.sessionID), answer));
		} catch (error) {
			if (!(error instanceof ApiError)) throw error;
			const again = h('button.btn.small', { type: 'button', onclick: fill }, 'Try again');
			put(body, h('p.ask-text', `The budget cannot be read: ${error.message} `, again));
		}
	};
	fill();
	return body;
}

function raise(request, info, answer) {
	if (!info?.reached.length) return h('p.ask-text', 'It has something left again: the work goes on by itself.');
	const whose = h('p.ask-text', 'The budget of ', h('b', exact(request.titles.at(-1) || request.sessionID)), ' and everything below it:');
	const inputs = new Map();
	const rows = info.reached.map((name) => {
		const { label, shown, step } = UNITS[name];
		const input = h('input.field', { type: 'number', min: 0, step, required: true, value: proposal(name, info) });
		inputs.set(name, input);
		return h('label.stackd', h('span', `${shown(info.used[name])} of ${shown(info.limit[name])} used. New limit, ${label.toLowerCase()}:`), input);
	});
	const limits = () => ({ ...info.limit, ...Object.fromEntries([...inputs].map(([name, input]) => [name, Number(input.value)])) });
	const missing = () => ([...inputs].every(([name, input]) => Number(input.value) > info.used[name]) ? null : 'The limit is not above what was used.');
	const button = h('button.btn.primary', { type: 'button', 'data-do': 'once' }, 'Raise the budget');
	guard(button, (event) => answer('The budget is raised', '/budget', { budget: limits() }, event, replace), missing);
	return [whose, rows, h('div.ask-acts', { 'data-needs': 'admin' }, button, h('span.ask-hint', 'The same work goes on')), lacks('admin', 'Raising a budget')];
}

/** Twice the limit, or what was used if that is more. */
function proposal(name, { limit, used }) {
	const most = 2 * Math.max(limit[name], used[name]);
	return name === 'money' ? Number(most.toPrecision(3)) : Math.ceil(most) || 1;
}
