// The files that the Session's tools changed, each with its diff.
import { h, icon, plural, toast } from './dom.js';
import { get } from './data.js';
import { diffTable } from './diff.js';
import { figure, fold, nothing } from './inspector-parts.js';

const MANY = 200;
const PACE = 5000;
const TAG = { added: 'new', deleted: 'deleted' };

/** Comparing snapshots costs the server more than other views do, so it is asked less often. @type {import('./inspector.js').View} */
export const changesView = {
	load: async ({ session }) => (await get(`/api/session/${session}/changes`)).data,
	draw,
	pace: () => PACE,
};

function draw(panel, { files, complete, note }) {
	const warning = complete ? null : h('p.incomplete', { role: 'note' }, icon('alert'), note ?? 'Not all steps could be compared.');
	if (!files.length)
		return h(
			'div',
			warning ? h('section', warning) : null,
			nothing('pencil', 'No file was changed', 'What tools write, edit and delete in the directory appears here.'),
		);
	const sum = (name) => files.reduce((total, file) => total + file[name], 0);
	if (!panel.begun && files.length <= 3) for (const file of files) panel.opened.add(`file-${file.path}`);
	panel.begun = true;
	const list = h(
		'ul.list.filelist',
		{ role: 'list' },
		files.slice(0, MANY).map((file) => fileRow(panel, file)),
	);
	const rest = files.length - MANY;
	const more =
		rest > 0
			? h(
					'button.btn.small',
					{
						type: 'button',
						onclick: (event) => {
							list.append(...files.slice(MANY).map((file) => fileRow(panel, file)));
							event.target.remove();
						},
					},
					`Show ${plural(rest, 'more file')}`,
				)
			: null;
	return h(
		'div.v-changes',
		h(
			'section',
			{ 'aria-label': 'Changed files' },
			warning,
			h(
				'h3',
				figure('changes-files', files.length, plural(files.length, 'file'), 'span'),
				h(
					'span.h-val.num',
					figure('changes-additions', sum('additions'), `+${sum('additions')}`, 'span.add'),
					' ',
					figure('changes-deletions', sum('deletions'), `−${sum('deletions')}`, 'span.rem'),
				),
			),
			list,
			more,
		),
	);
}

function fileRow(panel, file) {
	const cut = file.path.lastIndexOf('/') + 1;
	return h(
		'li',
		{ 'data-path': file.path },
		fold(
			panel,
			`file-${file.path}`,
			[
				icon('right'),
				h('code', { title: file.path }, h('span.dim', file.path.slice(0, cut)), file.path.slice(cut)),
				TAG[file.status] ? h('span.tag', TAG[file.status]) : null,
				h('span.grow'),
				h('span.delta', h('span.add', `+${file.additions}`), file.deletions ? h('span.rem', `−${file.deletions}`) : null),
			],
			() => h('div.edit', diffTable(file.patch, `Changes of ${file.path}`), copyButton(file)),
		),
	);
}

function copyButton(file) {
	const copy = () =>
		navigator.clipboard.writeText(file.patch).then(
			() => toast('The patch is copied'),
			() => toast('The browser does not allow copying', true),
		);
	return file.patch ? h('button.btn.small.quiet', { type: 'button', onclick: copy }, 'Copy the patch') : null;
}
