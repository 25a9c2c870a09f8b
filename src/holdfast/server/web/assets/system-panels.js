// The panels of the System page.
import { h, icon, since, dur, num, now, spinner, toast, moment, plural } from './dom.js';
import { post, del, setKey } from './data.js';
import { figure, fold, minibar } from './inspector-parts.js';

/** Kinds of waits that only a person ends. */
export const PEOPLE = new Set(['permission', 'question', 'form', 'authorization', 'recovery', 'blocked', 'budget']);

const LAMP = { ok: 'Fine', error: 'Error', warning: 'Warning', gone: 'Gone', wait: 'Starting' };
const lamp = (kind) => h('span.st', { class: kind, role: 'img', 'aria-label': LAMP[kind] ?? kind });
const panel = (title, note, ...kids) =>
	h('section.panel', { 'aria-label': title }, h('header', h('h2', title), h('span.grow'), note), kids);
const link = (id, title) => (id.startsWith('ses_') ? h('a', { href: `#/s/${id}` }, title || id) : h('span.dim', title || id));
const none = (text) => h('p.dim.none', text);
const failed = (error) => h('p.problem', { role: 'note' }, icon('alert'), error.message || String(error));

/** A table; a column whose title begins with `>` stands right. On a phone each row becomes a block. */
function table(columns, rows, cls = '') {
	const title = (i) => columns[i].replace('>', '');
	const right = (i) => (columns[i].startsWith('>') ? 'r num' : '');
	return h(
		'div.tbl',
		h(
			'table.t',
			{ class: cls },
			h(
				'thead',
				h(
					'tr',
					columns.map((_, i) => h('th', { class: right(i), scope: 'col' }, title(i))),
				),
			),
			h(
				'tbody',
				rows.map((row) =>
					h(
						'tr',
						{ class: row.cls ?? '', 'data-id': row.id },
						row.cells.map((cell, i) => h('td', { class: right(i), 'data-l': title(i) || null }, cell)),
					),
				),
			),
		),
	);
}

/** A button that does something on the server, and says if it cannot. */
function action(page, key, label, run, done, props = {}) {
	const click = async (event) => {
		event.target.disabled = true;
		try {
			await run();
			if (done) toast(done);
			await page.refresh();
		} catch (error) {
			toast(error.message, true);
		}
		event.target.disabled = false;
	};
	return h('button', { type: 'button', class: 'btn small', 'data-key': key, onclick: click, ...props }, label);
}

export function waitsPanel({ info }) {
	const { waits } = info;
	if (!waits.length) return panel('Waits', null, none('Nothing waits.'));
	const rows = waits.map(({ sessionID, title, wait }) => ({
		cells: [waitCell(wait), link(sessionID, title), since(wait.since), deadline(wait)],
	}));
	return panel('Waits', h('span.dim', 'oldest first'), table(['For', 'Session', '>Age', '>Limit'], rows, 'waits'));
}

/** What is waited for; most descriptions begin with the kind, which stands before them already. */
function waitCell(wait) {
	const { kind, ends, cause, sessionID } = wait;
	const what = described(wait);
	const rest = what.startsWith(kind) ? what.slice(kind.length).replace(/^:?\s+/, '') : what;
	return [
		h('p', h('b.kind', { class: PEOPLE.has(kind) ? 'permission' : '' }, kind), kind === 'subagent' ? link(sessionID, rest) : rest),
		cause && !what.includes(cause.what) ? h('p.dim', `${cause.kind}: ${cause.what}`) : null,
		h('p.dim', 'until ', ends),
	];
}

/** A subagent is known by its agent and its task, which stand beside its id. */
function described({ kind, what, sessionID, cause }) {
	if (kind !== 'subagent') return what || kind;
	return what.replace(`${sessionID} `, '').replace(` in ${cause?.sessionID}`, '');
}

/** When a wait ends by itself: what is left of it. */
function deadline({ since: from, until }) {
	if (until == null) return h('span.dim.never', 'none');
	const text = () => (until > now() ? `${dur(until - now())} left` : 'due');
	const label = h('span', { 'data-until': until, title: moment(until) }, text());
	const bar = minibar((now() - from) / Math.max(1, until - from));
	const timer = setInterval(() => {
		if (!label.isConnected) return clearInterval(timer);
		label.textContent = text();
		bar.firstChild.style.width = `${Math.min(1, (now() - from) / Math.max(1, until - from)) * 100}%`;
	}, 1000);
	return h('span.lim', bar, label);
}

export function drainsPanel(page) {
	const { drains, processes } = page.info;
	if (!drains.length) return panel('Drains', null, none('No Session is executed.'));
	const owner = (id) => String(processes.find((process) => process.id === id)?.pid ?? id.slice(-6));
	return panel(
		'Drains',
		h('span.dim', 'Sessions that a process executes'),
		table(
			['Session', 'Now', '>Process', '>Since', '>'],
			drains.map((drain) => ({
				id: drain.sessionID,
				cells: [
					link(drain.sessionID, drain.title),
					h('span.dim', drain.waits?.map(described).join(', ') || 'works'),
					owner(drain.ownerID),
					drain.since == null ? '–' : since(drain.since),
					action(
						page,
						`interrupt-${drain.sessionID}`,
						'Interrupt',
						() => post(`/api/session/${drain.sessionID}/interrupt`),
						'Interrupted',
						{ class: 'link', 'data-needs': 'prompt', 'aria-label': `Interrupt ${drain.title}` },
					),
				],
			})),
		),
	);
}

export function processesPanel({ info }) {
	const state = { here: 'ok', alive: 'ok', gone: 'gone' };
	return panel(
		'Processes',
		h('span.dim', 'that may execute Sessions of this database'),
		table(
			['Process', 'Where', '>Leases', '>Room', '>Reported', '>Up'],
			info.processes.map((one) => ({
				cls: one.state,
				id: one.id,
				cells: [
					[
						lamp(state[one.state]),
						h('b.num', String(one.pid)),
						one.state === 'here' ? h('span.tag', 'this one') : null,
						one.serves ? null : h('span.tag', 'command'),
					],
					h('span.dim', [one.name, one.address, one.version].filter(Boolean).join(' · ')),
					num(one.sessions),
					one.room == null ? '∞' : num(one.room),
					[since(one.reported, 'reported', 'age'), ' ago'],
					one.state === 'gone' || one.started == null ? '–' : since(one.started, '', 'age'),
				],
			})),
		),
	);
}

export function measurementsPanel(page) {
	const { metrics } = page.parts;
	if (metrics.error) return panel('Measurements', null, failed(metrics.error));
	const series = Object.entries(metrics.data).flatMap(([name, sources]) =>
		Object.entries(sources).map(([source, values]) => ({ name, source, values })),
	);
	if (!series.length) return panel('Measurements', null, none('Nothing was measured since the start.'));
	const show = (value) => (value == null ? '–' : Number.isInteger(value) ? num(value) : value.toFixed(value < 1 ? 4 : 1));
	const rows = series.map(({ name, source, values }) => {
		const { count, sum = values.total, max = values.maximum } = values;
		return { cells: [h('code', name), h('span.dim', source), show(count), show(count && sum != null ? sum / count : null), show(max)] };
	});
	return panel(
		'Measurements',
		h('span.dim.num', `${series.length} since the start`),
		fold(page, 'measurements', 'Show', () => table(['Name', 'Source', '>Count', '>Mean', '>Most'], rows, 'metrics'), { class: 'plain' }),
	);
}

export function doctorPanel(page) {
	const { doctor } = page;
	const run = async () => {
		Object.assign(doctor, { busy: true, error: null });
		page.draw();
		try {
			doctor.report = { ...(await post('/api/system/doctor')).data, at: now() };
		} catch (error) {
			doctor.error = { message: error.message };
		}
		doctor.busy = false;
		page.draw();
	};
	const button = h(
		'button.btn.small',
		{ type: 'button', disabled: doctor.busy, 'data-key': 'doctor', 'data-needs': 'admin', onclick: run },
		doctor.report ? 'Check again' : 'Check',
	);
	return panel('Doctor', button, h('div.doctor', { 'aria-live': 'polite' }, doctorState(doctor)));
}

function doctorState({ report, busy, error }) {
	if (busy) return h('p', spinner(), ' Comparing what clients see with the event log…');
	if (error) return failed(error);
	if (!report) return h('p.dim', 'Compares what clients see with the event log, and checks the configuration.');
	const { findings } = report;
	return [
		findings.length
			? h('p', figure('doctor-findings', findings.length, plural(findings.length, 'finding'), 'b'))
			: h('p.verdict', icon('check'), figure('doctor-findings', 0, 'Everything agrees with the event log', 'b')),
		h('p.dim', `${plural(report.sessions, 'Session')}, ${dur(report.milliseconds)}, `, since(report.at, '', 'age'), ' ago'),
		h(
			'ul.diags',
			{ role: 'list' },
			findings.slice(0, 100).map((finding) => h('li', lamp(finding.level), h('div', h('p', finding.what), h('p.dim', finding.fix)))),
		),
		findings.length > 100 ? h('p.dim', `And ${findings.length - 100} more.`) : null,
	];
}

export function providersPanel({ parts }) {
	const { providers } = parts;
	if (providers.error) return panel('Providers', null, failed(providers.error));
	if (!providers.data.length)
		return panel(
			'Providers',
			null,
			none(['No provider can be used. Set a key, or sign in to one with ', h('code', 'holdfast auth login'), '.']),
		);
	return panel(
		'Providers',
		h('span.dim.num', plural(providers.data.length, 'provider')),
		h(
			'ul.mcp',
			{ role: 'list' },
			providers.data.map((one) =>
				h(
					'li',
					lamp(one.disabled ? 'gone' : 'ok'),
					h('div', h('p', h('b', one.name), h('span.dim', one.id)), h('p.dim', one.api.url ?? one.api.package ?? '')),
				),
			),
		),
	);
}

export function configurationPanel({ parts }) {
	const { config } = parts;
	if (config.error) return panel('Configuration', null, failed(config.error));
	const { files, problems, sources } = config.data;
	const untrusted = sources.filter((source) => !source.trusted);
	return panel(
		'Configuration',
		h('span.dim', plural(files.length, 'file')),
		problems.length || untrusted.length ? null : none('No problems.'),
		h(
			'ul.diags',
			{ role: 'list' },
			problems.map((one) =>
				h(
					'li',
					lamp(one.severity),
					h(
						'div',
						h('p', one.message),
						one.suggestion ? h('p.dim', one.suggestion) : null,
						h('code.dim', one.line == null ? one.path : `${one.path}:${one.line}`),
					),
				),
			),
			untrusted.map((one) =>
				h(
					'li',
					lamp('warning'),
					h(
						'div',
						h('p', `Not trusted, so not used: ${one.wants.join(', ')}`),
						h('p.dim', h('code', 'holdfast trust'), ' shows it and asks.'),
						h('code.dim', one.path),
					),
				),
			),
		),
	);
}

const MCP = { connected: 'ok', pending: 'wait', disabled: 'gone', needs_auth: 'warning', failed: 'error' };

export function mcpPanel(page) {
	const { mcp } = page.parts;
	if (mcp.error) return panel('MCP servers', null, failed(mcp.error));
	if (!mcp.data.length) return panel('MCP servers', null, none('None is configured.'));
	return panel(
		'MCP servers',
		null,
		h(
			'ul.mcp',
			{ role: 'list' },
			mcp.data.map((server) => mcpServer(page, server)),
		),
	);
}

function mcpServer(page, server) {
	const { status } = server.status;
	const error = server.status.error ?? server.error;
	const query = page.directory ? `?${new URLSearchParams({ 'location[directory]': page.directory })}` : '';
	const path = (verb) => `/api/mcp/${encodeURIComponent(server.name)}/${verb}${query}`;
	const button =
		status === 'connected' || status === 'pending'
			? action(page, `mcp-${server.name}`, 'Disconnect', () => post(path('disconnect')), `${server.name} is disconnected`, {
					'aria-label': `Disconnect ${server.name}`,
					'data-needs': 'admin',
				})
			: action(page, `mcp-${server.name}`, 'Connect', () => post(path('connect')), null, {
					'aria-label': `Connect ${server.name}`,
					'data-needs': 'admin',
				});
	return h(
		'li',
		{ 'data-id': server.name },
		lamp(MCP[status] ?? 'gone'),
		h(
			'div',
			h(
				'p',
				h('b', server.name),
				h('span.dim', (server.state ?? status).replace('_', ' ')),
				h('span.grow'),
				server.tools == null ? null : h('span.num', plural(server.tools, 'tool')),
			),
			error ? h('p.dim', error) : null,
			server.problems?.map((problem) => h('p.dim', problem)),
		),
		button,
	);
}

export function signInsPanel(page) {
	const { signIns } = page.parts;
	if (signIns.error) return signIns.error.status === 404 ? null : panel('Signed in', null, failed(signIns.error));
	const out = async () => {
		await post('/web/sign-out');
		setKey(null);
		location.reload();
	};
	if (!signIns.data.length) return panel('Signed in', null, none('Nobody has to sign in here.'));
	return panel(
		'Signed in',
		null,
		h(
			'ul.mcp',
			{ role: 'list' },
			signIns.data.map((one) =>
				h(
					'li',
					{ 'data-id': one.id },
					lamp('ok'),
					h(
						'div',
						h('p', h('b', one.current ? 'This browser' : browserName(one.agent))),
						h(
							'p.dim',
							h(
								'span',
								`${one.current ? `${browserName(one.agent)}, ` : ''}since ${moment(one.created)}, seen `,
								since(one.seen, '', 'age'),
								' ago',
							),
						),
					),
					one.current
						? action(page, 'sign-out', 'Sign out', out, null)
						: action(page, `revoke-${one.id}`, 'Revoke', () => del(`/web/sign-ins/${encodeURIComponent(one.id)}`), 'Signed out there', {
								'aria-label': `Revoke ${browserName(one.agent)}`,
							}),
				),
			),
		),
	);
}

/** The browser and the system of a user agent, for people. */
export function browserName(agent) {
	const browser = /Firefox|Edg|OPR|Chrome|Safari/.exec(agent ?? '')?.[0];
	const system = /iPhone|iPad|Android|Windows|Mac OS X|Linux/.exec(agent ?? '')?.[0];
	const name = { Edg: 'Edge', OPR: 'Opera' }[browser] ?? browser;
	return name ? `${name}${system ? ` on ${system.replace('Mac OS X', 'macOS')}` : ''}` : (agent || 'Unknown browser').slice(0, 60);
}
