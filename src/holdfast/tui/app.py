"""The interactive terminal: its life from the first frame to the restored terminal, and what its keys do.

The first frame is drawn before anything that talks to a server is imported; the composer takes keys at once.

Invariants
- Every task belongs to the application and has ended when `run` returns.
- However `run` ends, the terminal is as it was before: prompt_toolkit restores it, and an exception in a task or in
  drawing ends the application instead of being printed over the screen.
- Changes of the conversation redraw at most 25 times a second (`Feed` sees to that), keys redraw at once."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from prompt_toolkit.application import Application
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.layout import Layout
from prompt_toolkit.output import ColorDepth, create_output

from holdfast.tui.composer import Composer
from holdfast.tui.defects import log_defect
from holdfast.tui.history import History, history_file
from holdfast.tui.keys import HELP, key_bindings
from holdfast.tui.paste import PasteRefused
from holdfast.tui.paste_input import read_large_pastes
from holdfast.tui.screen import Screen
from holdfast.tui.style import marks_for, style_of, theme_of

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

    from holdfast.tui.completion import Trigger
    from holdfast.tui.launch import Host, Launch
    from holdfast.tui.operations import Operations
    from holdfast.tui.pager import Pager
    from holdfast.tui.pickers import Picker
    from holdfast.tui.style import Theme

LEAVE_SECONDS = 2.0
"""Within which the second Ctrl-C leaves."""
INTERRUPT_SECONDS = 1.5
ESCAPE_SECONDS = 0.05
"""After which an Esc is no longer taken for the beginning of another key."""
TICK_SECONDS = 0.5
CLOSING_SECONDS = 3.0
"""How long tasks may take to end."""


class TerminalApp:
    def __init__(
        self,
        launch: Launch,
        host: Host,
        *,
        environment: Mapping[str, str],
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self.launch = launch
        self.host = host
        self.environment = environment
        self.theme: Theme = theme_of(environment, launch.theme)
        file = history_file(launch.state_folder, launch.directory) if launch.state_folder is not None else None
        composer = Composer(History(file), self._completion_wanted)
        self._output = output or create_output()
        self.encoding: str = getattr(sys.stdout, "encoding", None) or "ascii"
        self.screen = Screen(composer, marks_for(self.encoding), self._terminal_size)
        self.operations: Operations | None = None
        self.farewell: list[str] = []
        """What is printed when the screen is gone."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_interrupt = 0.0
        self._last_escape = 0.0
        self.application: Application[int] = Application(
            layout=Layout(self.screen.root, focused_element=self.screen.composer_window),
            key_bindings=key_bindings(self),
            style=style_of(self.theme),
            color_depth=ColorDepth.DEPTH_1_BIT if self.theme == "none" else None,
            full_screen=True,
            mouse_support=True,
            editing_mode=EditingMode.EMACS,
            input=input,
            output=self._output,
            before_render=lambda _: self._prepare_frame(),
        )
        read_large_pastes(self.application.input)
        self.application.ttimeoutlen = ESCAPE_SECONDS
        self.application.timeoutlen = ESCAPE_SECONDS

    # -- life ---------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Until the person leaves. Raises what made it crash."""
        loop = asyncio.get_running_loop()
        before = loop.get_exception_handler()
        loop.set_exception_handler(self._crashed)
        try:
            return await self.application.run_async(
                pre_run=self._begin, set_exception_handler=False, handle_sigint=False
            )
        except EOFError:  # the terminal was closed
            return 0
        finally:
            if self.operations is not None:
                self.farewell = self.operations.farewell()
            await self._end_tasks()
            if self.operations is not None:
                await self.operations.close()
            loop.set_exception_handler(before)

    def start(self, work: Coroutine[Any, Any, None], *, vital: bool = False) -> asyncio.Task[None]:
        """Run it beside the screen. A failure is shown; a defect is also logged. Without work that is vital the screen
        would be wrong: a failure of it ends the application."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(lambda ended: self._ended(ended, vital=vital))
        return task

    def leave(self) -> None:
        if self.application.is_running and not self.application.is_done:
            self.application.exit(result=0)

    def changed(self) -> None:
        """Draw again soon."""
        self.application.invalidate()

    def notify(self, text: str, style: str = "class:notice") -> None:
        self.screen.notify(text, style)
        self.changed()

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self.application.style = style_of(theme)
        self.changed()

    def toggle_mouse(self) -> bool:
        """Whether the terminal reports the mouse now; without that it selects text by itself."""
        before = bool(self.application.renderer.mouse_support())
        from prompt_toolkit.filters import to_filter

        self.application.mouse_support = to_filter(not before)
        self.application.renderer.mouse_support = self.application.mouse_support
        return not before

    def _begin(self) -> None:
        self.start(self._open(), vital=True)
        self.start(self._tick(), vital=True)

    async def _open(self) -> None:
        self.screen.composer.history.load()
        # In a thread: importing takes a tenth of a second, in which keys are already taken.
        await asyncio.to_thread(import_module, "holdfast.tui.operations")
        from holdfast.tui.operations import Operations

        self.operations = Operations(self)
        await self.operations.begin()

    async def _tick(self) -> None:
        """Redraw what shows the time while something shows it."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            view = self.screen.status
            if view.connection or view.state not in ("idle", "new session") or self._has_notice():
                self.changed()

    def _has_notice(self) -> bool:
        """Also right after its end, so that it is removed from the screen."""
        shown = self._noticed
        self._noticed = bool(self.screen.notice)
        return shown or self._noticed

    _noticed = False

    def _ended(self, task: asyncio.Task[None], *, vital: bool) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if vital:
            self._crash(error)
        elif type(error).__module__.startswith("holdfast."):
            self.notify(str(error), "class:error")
        else:
            where = log_defect(self.launch.state_folder, error)
            self.notify(f"a defect of the terminal: {type(error).__name__}: {error}{where}", "class:error")

    def _crashed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if isinstance(error := context.get("exception"), Exception):
            self._crash(error)

    def _crash(self, error: BaseException) -> None:
        if self.application.is_running and not self.application.is_done:
            self.application.exit(exception=error)

    async def _end_tasks(self) -> None:
        for task in (tasks := tuple(self._tasks)):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSING_SECONDS)

    def _terminal_size(self) -> tuple[int, int]:
        size = self._output.get_size()
        return size.columns, size.rows

    def _prepare_frame(self) -> None:
        self._focus()
        self.screen.measure()

    def _focus(self) -> None:
        """Keep the focus where the keys go."""
        screen = self.screen
        wanted = screen.entry_window if screen.mode == "entry" else screen.composer_window
        if self.application.layout.current_window is not wanted:
            self.application.layout.focus(wanted)

    # -- keys ---------------------------------------------------------------------------------------------------

    def submit(self, *, queue: bool) -> None:
        composer = self.screen.composer
        if not composer.text.strip():
            if queue or (self.screen.control is not None and self.screen.control.toggle()):
                return
            if self.operations is not None:
                self.operations.start_pending()
            return
        if self.operations is None:
            self.notify("still connecting; what you typed stays here")
            return
        self.operations.submit(queue=queue)

    def accept_or_submit(self) -> None:
        composer = self.screen.composer
        if composer.completion.is_typed:
            composer.completion_dismissed()
            self.submit(queue=False)
        else:
            composer.accept_completion()

    def escape(self) -> None:
        control = self.screen.control
        if control is not None:
            control.select_none()
        if self.operations is None or not self.operations.is_busy:
            self.screen.forget_notice()
            return
        now = time.monotonic()
        if now - self._last_escape <= INTERRUPT_SECONDS:
            self._last_escape = 0.0
            self.operations.interrupt()
            return
        self._last_escape = now
        self.screen.notify("Esc again to interrupt", seconds=INTERRUPT_SECONDS)

    def interrupt_key(self) -> None:
        now = time.monotonic()
        if now - self._last_interrupt <= LEAVE_SECONDS:
            self.leave()
            return
        self._last_interrupt = now
        self.screen.composer.clear()
        self.screen.notify("Ctrl-C again to leave; everything is kept", seconds=LEAVE_SECONDS)

    def leave_if_empty(self) -> None:
        if self.operations is not None and self.operations.is_sending:
            self.screen.notify("a prompt is still being sent; Ctrl-C twice leaves without it")
        else:
            self.leave()

    def paste(self, text: str) -> None:
        if not text:  # what some terminals send if only an image is in the clipboard
            self.paste_image()
            return
        try:
            self.screen.composer.paste(text)
        except PasteRefused as refused:
            self.notify(str(refused), "class:error")

    def paste_image(self) -> None:
        self.start(self._paste_image())

    async def _paste_image(self) -> None:
        from holdfast.tui.clipboard import clipboard_image

        try:
            self.paste(await clipboard_image(self.environment, self.launch.state_folder))
        except PasteRefused as refused:
            self.notify(str(refused), "class:error")

    def take_back(self) -> None:
        if self.operations is not None:
            self.operations.take_back()

    def to_request(self) -> None:
        panel = self.screen.panel
        if panel is not None and panel.dialog is not None:
            panel.focused = True
        else:
            self.screen.notify("no request is open")

    def modal_key(self, key: str) -> None:
        screen = self.screen
        mode = screen.mode
        if mode == "pager" and screen.pager is not None:
            if screen.pager.key(key):
                screen.pager = None
        elif mode == "picker" and (picker := screen.picker) is not None:
            if picker.key(key) and screen.picker is picker:
                screen.picker = None
        elif key == "c-c":
            self.interrupt_key()
        elif screen.panel is not None and self.operations is not None:
            if mode == "panel" and key.isprintable() and len(key) == 1 and not screen.panel.understands(key):
                # Typed for the composer: it goes there, and answers nothing.
                screen.panel.focused = False
                screen.composer.buffer.insert_text(key)
            elif (decision := screen.panel.key(key)) is not None:
                self.operations.decide(decision)
            if key == "escape":
                screen.entry.reset()
        self._focus()

    def submit_entry(self) -> None:
        panel = self.screen.panel
        if panel is None or self.operations is None:
            return
        text = self.screen.entry.text
        self.screen.entry.reset()
        decision = panel.enter(text)
        if decision is not None:
            self.operations.decide(decision)
        self._focus()

    def show(self, shown: Pager | Picker) -> None:
        """A page or a list, over the conversation."""
        from holdfast.tui.pager import Pager

        if isinstance(shown, Pager):
            self.screen.pager = shown
        else:
            self.screen.picker = shown
        self.changed()

    def show_help(self) -> None:
        from holdfast.tui.pager import Pager

        self.show(Pager("Keys", HELP))

    def redraw(self) -> None:
        self.application.renderer.clear()

    def suspend(self) -> None:
        self.application.suspend_to_background()

    def scroll(self, how: str) -> None:
        control = self.screen.control
        if control is None:
            return
        match how:
            case "up" | "down":
                control.scroll_page(-1 if how == "up" else 1)
            case "line-up" | "line-down":
                control.scroll(-1 if how == "line-up" else 1)
            case "home":
                control.go_home()
            case _:
                control.go_end()

    def select(self, step: int) -> None:
        if self.screen.control is not None:
            self.screen.control.select(step)

    def toggle_calls(self) -> None:
        if self.screen.control is not None:
            self.screen.control.toggle_calls()

    def next_detail(self) -> None:
        if self.screen.control is not None:
            self.screen.notify(f"detail: {self.screen.control.next_detail()}")

    def _completion_wanted(self, wanted: Trigger) -> None:
        if self.operations is not None:
            self.operations.complete(wanted)


async def run_terminal(launch: Launch, host: Host) -> int:
    """The interactive terminal on standard input and output. What it prints at the end says how to come back."""
    app = TerminalApp(launch, host, environment=os.environ)
    try:
        return await app.run()
    finally:
        for line in app.farewell:
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
