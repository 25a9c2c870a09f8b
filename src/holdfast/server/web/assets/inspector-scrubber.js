// A slider over all sequences of a Session, which shows the Session as it was at one of them.
import { h, ib, put, s } from './dom.js';
import { get, state } from './data.js';

const WAIT = 120;
const STEP = 500;
const BINS = 72;
const PLAY = 'M5 3l8 5-8 5z';
const PAUSE = 'M4.5 3.5v9M11.5 3.5v9';
const RARE = { crash: 'you', suspended: 'you', interrupted: 'you', prompt: 'prompt', context: 'context', prefix: 'context' };

export class Scrubber {
	/** @param {() => number} newest the newest sequence that the view knows */
	constructor(panel, newest) {
		Object.assign(this, { panel, newest, playing: 0, timer: 0, most: 1 });
		this.label = h('output.num', { 'data-figure': 'at' });
		this.density = h('div.density', { 'aria-hidden': 'true' });
		this.range = h('input', {
			type: 'range',
			min: 0,
			step: 1,
			'aria-label': 'Show the Session as it was at this sequence',
			oninput: () => this.slide(),
		});
		this.now = h('button.btn.small', { type: 'button', onclick: () => this.go(null) }, 'Now');
		this.play = ib('right', 'Play', () => this.toggle());
		const keys = (event) => {
			if (event.key !== ' ' || event.target.tagName === 'BUTTON') return;
			event.preventDefault();
			this.toggle();
		};
		this.element = h(
			'div.scrub',
			{ role: 'group', 'aria-label': 'As it was', onkeydown: keys },
			h(
				'div.scrub-top',
				h('span.hide-s', 'As it was at'),
				this.label,
				h('span.grow'),
				ib('left', 'One event back', () => this.step(-1)),
				this.play,
				ib('right', 'One event on', () => this.step(1)),
				this.now,
			),
			this.density,
			this.range,
		);
		this.draw();
		this.drawDensity();
	}

	close() {
		clearTimeout(this.timer);
		clearInterval(this.playing);
	}

	get max() {
		this.most = Math.max(this.most, state.head ?? 0, this.newest());
		return this.most;
	}

	draw() {
		const { max } = this;
		const { at } = state;
		this.range.max = max;
		if (!this.timer) this.range.value = at ?? max;
		this.range.setAttribute('aria-valuetext', at == null ? `now, sequence ${max}` : `sequence ${at} of ${max}`);
		this.label.dataset.value = at ?? max;
		put(this.label, at == null ? [h('b', 'now'), ` · #${max}`] : [h('b', `#${at}`), ` of ${max}`]);
		this.now.disabled = at == null;
		const name = this.playing ? 'Pause' : 'Play';
		this.play.setAttribute('aria-label', name);
		this.play.title = name;
		put(this.play, s('svg.i', { viewBox: '0 0 16 16', 'aria-hidden': 'true' }, s('path', { d: this.playing ? PAUSE : PLAY })));
	}

	/** While the slider is dragged, the page is asked for the past only now and then. */
	slide() {
		const value = Number(this.range.value);
		put(this.label, h('b', `#${value}`), ` of ${this.max}`);
		clearTimeout(this.timer);
		this.timer = setTimeout(() => {
			this.timer = 0;
			this.go(value);
		}, WAIT);
	}

	go(seq) {
		this.panel.ctx.go(seq == null || seq >= this.max ? null : Math.max(0, seq));
	}

	step(by) {
		this.go((state.at ?? this.max) + by);
	}

	/** Plays the log from where it is, or from its beginning, until it reaches the present. */
	toggle() {
		if (this.playing) {
			clearInterval(this.playing);
			this.playing = 0;
			return this.draw();
		}
		if (state.at == null) this.go(0);
		this.playing = setInterval(() => {
			if (state.at == null || !this.panel.visible) return this.toggle();
			this.step(1);
		}, STEP);
		this.draw();
	}

	/** How much happened where, from the spans and moments of the timeline. It is a help for the eye, so it may be absent. */
	async drawDensity() {
		const timeline = await get(`/api/session/${this.panel.session}/timeline`).then(
			(body) => body.data,
			() => null,
		);
		if (!timeline) return;
		const bins = Array.from({ length: BINS }, () => ({ count: 0, rare: null }));
		const bin = (seq) => bins[Math.min(BINS - 1, Math.floor((seq / (this.max + 1)) * BINS))];
		for (const span of timeline.spans) bin(span.seq).count += 1;
		for (const one of timeline.moments) if (RARE[one.kind]) bin(one.seq).rare = RARE[one.kind];
		const most = Math.max(1, ...bins.map((one) => one.count));
		put(
			this.density,
			bins.map((one) => h('i', { class: one.rare ? `e-${one.rare}` : null, css: { height: `${14 + (one.count / most) * 86}%` } })),
		);
	}
}
