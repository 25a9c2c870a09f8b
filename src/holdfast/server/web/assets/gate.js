// Which presses answer a request. One press answers one request:
// - it counts only on a button that has stood where it is, in sight, for 500 ms, and 500 ms after the answer before;
// - a key that is held down answers nothing;
// - "yes" counts only once everything was on the screen (`blocked` says what is missing).
// Buttons say by `aria-disabled` whether a press would count; a press is always judged by its own time and place.
const STOOD = 500; // milliseconds
const SAMPLE = 100;
const MOVED = 2; // pixels that are no movement
const guards = new Map(); // button → {run, blocked, box, since, attached}
let timer = 0;
let answered = -Infinity; // when the last press counted, or its request left

/**
 * Makes a button one that answers. `blocked` returns why it may not be pressed yet, or null.
 * @param {HTMLButtonElement} button @param {() => void} run @param {() => string|null} blocked
 */
export function guard(button, run, blocked = () => null) {
	guards.set(button, { run, blocked, box: null, since: performance.now(), attached: false });
	button.setAttribute('aria-disabled', 'true');
	button.addEventListener('click', (event) => {
		event.preventDefault();
		press(button, event);
	});
	// In a frame: what stands where nothing is painted has been seen by nobody.
	timer ||= setInterval(() => requestAnimationFrame(sampleAll), SAMPLE);
	return button;
}

/** Answers if the press counts. Returns whether it did. */
export function press(button, event) {
	const state = guards.get(button);
	if (!state || event.repeat) return false;
	sample(button, state);
	const stood = event.timeStamp - Math.max(state.since, answered) >= STOOD;
	if (!state.box || !stood || state.blocked()) return false;
	if (!inSight(button)) {
		button.scrollIntoView({ block: 'nearest' });
		return false;
	}
	settled();
	state.run(event);
	return true;
}

/** Says that a request was answered or has left: the next one is not answered in the same breath. */
export function settled() {
	answered = performance.now();
}

/** Nothing lies above the button, and nothing cuts it off. */
function inSight(button) {
	const { left, top, width, height } = button.getBoundingClientRect();
	return button.contains(document.elementFromPoint(left + width / 2, top + height / 2));
}

const differs = (a, b) => !a || Math.abs(a.left - b.left) > MOVED || Math.abs(a.top - b.top) > MOVED;

function sample(button, state) {
	const seen = !document.hidden && button.checkVisibility();
	const box = seen ? button.getBoundingClientRect() : null;
	if (!box || differs(state.box, box)) Object.assign(state, { box, since: performance.now() });
	const waits = !box || performance.now() - Math.max(state.since, answered) < STOOD || state.blocked() != null;
	if (button.getAttribute('aria-disabled') !== String(waits)) button.setAttribute('aria-disabled', String(waits));
}

// What scrolls moves buttons, and says so sooner than the next sample.
addEventListener('scroll', () => guards.size && sampleAll(), { capture: true, passive: true });

function sampleAll() {
	for (const [button, state] of guards) {
		if (button.isConnected) {
			state.attached = true;
			sample(button, state);
		} else if (state.attached) guards.delete(button);
	}
	if (guards.size) return;
	clearInterval(timer);
	timer = 0;
}

/** Held Enter presses a button, or sends a form, again and again: inside an element it does neither. */
export function ignoreHeldEnter(el) {
	el.addEventListener('keydown', (event) => {
		if (event.repeat && event.key === 'Enter' && !event.target.matches('textarea')) event.preventDefault();
	}, true);
}
