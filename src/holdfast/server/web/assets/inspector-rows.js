// A listbox of rows of one height, of which only those near the viewport are in the document.
import { h } from './dom.js';

const OVERSCAN = 20;

export class RowList {
	/**
	 * @param {{label: string, height: () => number, render: (item) => HTMLElement, pick: (item) => void, reach: (edge: 'start'|'end') => void}} options
	 *   `reach` is called when an end of the list comes near
	 */
	constructor(options) {
		Object.assign(this, options, { items: [], active: null, pinned: true });
		this.inner = h('div.rows');
		this.element = h(
			'div.evlist',
			{ role: 'listbox', 'aria-label': options.label, tabindex: 0, onkeydown: (event) => this.key(event) },
			this.inner,
		);
		this.element.addEventListener('scroll', () => this.scrolled(), { passive: true });
		this.element.addEventListener('click', (event) => {
			const row = event.target.closest('[data-index]');
			if (row) this.choose(Number(row.dataset.index));
		});
		new ResizeObserver(() => (this.pinned ? this.toEnd() : this.update())).observe(this.element);
	}

	/** Shows other items. `added` of them are new at the start; what is in sight stays where it is. */
	set(items, added = 0) {
		this.items = items;
		const top = this.element.scrollTop + added * this.height();
		this.update();
		if (added) this.element.scrollTop = top;
		if (this.pinned) this.toEnd();
		this.update();
	}

	scrolled() {
		const { scrollTop, clientHeight, scrollHeight } = this.element;
		this.pinned = scrollHeight - scrollTop - clientHeight < this.height();
		this.update();
		if (scrollTop < clientHeight) this.reach('start');
		if (scrollHeight - scrollTop - clientHeight < clientHeight) this.reach('end');
	}

	toEnd() {
		this.pinned = true;
		this.update();
		this.element.scrollTop = this.element.scrollHeight;
		this.update();
	}

	/** Scrolls to an item, unless it is in sight. */
	show(index) {
		if (index < 0) return;
		const height = this.height();
		const { scrollTop, clientHeight } = this.element;
		const top = index * height;
		if (top >= scrollTop && top + height <= scrollTop + clientHeight) return this.update();
		this.pinned = false;
		this.element.scrollTop = Math.max(0, top - clientHeight / 2);
		this.update();
	}

	update() {
		const height = this.height();
		const { element, inner, items } = this;
		inner.style.height = `${items.length * height}px`;
		const first = Math.max(0, Math.floor(element.scrollTop / height) - OVERSCAN);
		const last = Math.min(items.length, Math.ceil((element.scrollTop + element.clientHeight) / height) + OVERSCAN);
		const rows = [];
		for (let index = first; index < last; index++) rows.push(this.row(items[index], index, height));
		inner.replaceChildren(...rows);
		const id = this.active != null && this.active >= first && this.active < last ? `event-${items[this.active]?.seq}` : null;
		if (id) element.setAttribute('aria-activedescendant', id);
		else element.removeAttribute('aria-activedescendant');
	}

	row(item, index, height) {
		const row = this.render(item);
		row.dataset.index = index;
		row.id = `event-${item.seq}`;
		row.setAttribute('role', 'option');
		row.setAttribute('aria-posinset', index + 1);
		row.setAttribute('aria-setsize', this.items.length);
		row.setAttribute('aria-selected', String(index === this.active));
		row.style.setProperty('top', `${index * height}px`);
		return row;
	}

	choose(index) {
		this.active = this.active === index ? null : index;
		this.pick(this.active == null ? null : this.items[index]);
		this.update();
	}

	key(event) {
		const page = Math.max(1, Math.floor(this.element.clientHeight / this.height()) - 1);
		const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
		if (!step || !this.items.length) return;
		event.preventDefault();
		event.stopPropagation();
		const next = Math.max(0, Math.min(this.items.length - 1, (this.active ?? this.items.length) + step));
		if (next !== this.active) this.choose(next);
		this.show(next);
	}
}
