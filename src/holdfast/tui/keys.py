"""Which key does what. The names of the actions are methods of the application."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from prompt_toolkit.key_binding import KeyPressEvent

    from holdfast.tui.screen import Screen

NAMED = {
    "up": "up",
    "down": "down",
    "left": "left",
    "right": "right",
    "home": "home",
    "end": "end",
    "pageup": "pageup",
    "pagedown": "pagedown",
    "enter": "enter",
    "tab": "tab",
    "s-tab": "s-tab",
    "escape": "escape",
    "backspace": "backspace",
    "delete": "delete",
    "c-c": "c-c",
    "c-d": "escape",
    "c-g": "escape",
    "c-j": "enter",
    "c-n": "down",
    "c-p": "up",
    "c-u": "pageup",
    "c-a": "home",
    "c-e": "end",
}
"""Keys that lists, pages and dialogs understand, and how they are called there."""

HELP = """\
Enter          send; while it runs, steer
Alt-Enter      new line (also Ctrl-J)
Tab            while it runs: queue behind the running work
Esc Esc        interrupt
Ctrl-C         clear the composer; twice: leave
Ctrl-D         leave, if the composer is empty
Ctrl-X         take the last waiting input back
Ctrl-V         attach the image in the clipboard
Ctrl-G         to the open request, and back with Esc
y / a / n      in a request: once, always, no
Up, Down       history of prompts
Ctrl-R         search the history
PageUp/Down    scroll; also Ctrl-Home, Ctrl-End
Alt-Up/Down    select a tool call; Enter unfolds it
Ctrl-T         unfold or fold all tool calls
Ctrl-O         more or less detail
Ctrl-L         draw the screen again
Ctrl-Z         suspend; fg comes back
@              files, references, agents
/              commands; /help lists them
!              run a shell command
F1 or ?        this page"""


class Actions(Protocol):
    screen: Screen

    def submit(self, *, queue: bool) -> None: ...
    def accept_or_submit(self) -> None: ...
    def escape(self) -> None: ...
    def interrupt_key(self) -> None: ...
    def leave_if_empty(self) -> None: ...
    def paste(self, text: str) -> None: ...
    def paste_image(self) -> None: ...
    def take_back(self) -> None: ...
    def to_request(self) -> None: ...
    def modal_key(self, key: str) -> None: ...
    def submit_entry(self) -> None: ...
    def show_help(self) -> None: ...
    def redraw(self) -> None: ...
    def suspend(self) -> None: ...
    def scroll(self, how: str) -> None: ...
    def select(self, step: int) -> None: ...
    def toggle_calls(self) -> None: ...
    def next_detail(self) -> None: ...


def key_bindings(actions: Actions) -> KeyBindings:
    keys = KeyBindings()
    screen = actions.screen
    composer = screen.composer
    composing = Condition(lambda: screen.mode == "compose")
    modal = Condition(lambda: screen.mode in ("picker", "pager", "panel"))
    entering = Condition(lambda: screen.mode == "entry")
    searching = Condition(lambda: screen.mode == "search")
    completing = composing & Condition(lambda: composer.completion.open)
    empty = composing & Condition(lambda: not composer.text)

    def on(
        *names: str, when: Condition | object = composing, eager: bool = False
    ) -> Callable[[Callable[[], None]], None]:
        def add(action: Callable[[], None]) -> None:
            keys.add(*names, filter=when, eager=eager)(lambda event: action())  # type: ignore[arg-type]

        return add

    on("enter")(lambda: actions.submit(queue=False))
    on("escape", "enter")(lambda: composer.buffer.insert_text("\n"))
    on("c-j")(lambda: composer.buffer.insert_text("\n"))
    on("tab")(lambda: actions.submit(queue=True))
    on("escape")(actions.escape)
    on("c-c")(actions.interrupt_key)
    on("<sigint>")(actions.interrupt_key)
    on("c-d", when=empty)(actions.leave_if_empty)
    on("c-v")(actions.paste_image)
    on("c-x", eager=True)(actions.take_back)
    on("c-g")(actions.to_request)
    on("up")(composer.up)
    on("down")(composer.down)
    on("c-p")(composer.up)
    on("c-n")(composer.down)
    on("c-r")(composer.start_search)
    on("backspace")(composer.delete_before)
    on("delete")(composer.delete_after)
    on("?", when=empty)(actions.show_help)
    on("f1")(actions.show_help)
    on("c-t")(actions.toggle_calls)
    on("c-o")(actions.next_detail)
    on("escape", "up")(lambda: actions.select(-1))
    on("escape", "down")(lambda: actions.select(1))
    for name, how in (("pageup", "up"), ("pagedown", "down"), ("c-home", "home"), ("c-end", "end")):
        on(name)(lambda how=how: actions.scroll(how))  # type: ignore[misc]
    on("s-up")(lambda: actions.scroll("line-up"))
    on("s-down")(lambda: actions.scroll("line-down"))

    on("up", when=completing)(lambda: composer.completion.move(-1))
    on("down", when=completing)(lambda: composer.completion.move(1))
    on("tab", when=completing)(composer.accept_completion)
    on("enter", when=completing)(actions.accept_or_submit)
    on("escape", when=completing, eager=True)(composer.completion_dismissed)

    on("c-r", when=searching, eager=True)(composer.start_search)
    on("enter", when=searching, eager=True)(lambda: composer.end_search(accept=True))
    on("backspace", when=searching, eager=True)(composer.shorten_search)
    for name in ("escape", "c-c", "c-g"):
        on(name, when=searching, eager=True)(lambda: composer.end_search(accept=False))
    keys.add(Keys.Any, filter=searching)(lambda event: composer.type_search(_typed(event)))

    on("enter", when=entering, eager=True)(actions.submit_entry)
    on("escape", when=entering, eager=True)(lambda: actions.modal_key("escape"))
    on("c-c", when=entering, eager=True)(lambda: actions.modal_key("escape"))
    for name in ("pageup", "pagedown"):
        on(name, when=entering, eager=True)(lambda name=name: actions.modal_key(name))  # type: ignore[misc]

    for name, meaning in NAMED.items():
        on(name, when=modal, eager=True)(lambda meaning=meaning: actions.modal_key(meaning))  # type: ignore[misc]
    keys.add(Keys.Any, filter=modal)(lambda event: actions.modal_key(_typed(event)))
    keys.add(Keys.BracketedPaste, filter=modal)(lambda event: None)
    keys.add(Keys.BracketedPaste, filter=composing)(lambda event: actions.paste(event.data))

    always = Condition(lambda: True)
    on("c-l", when=always)(actions.redraw)
    on("c-z", when=always)(actions.suspend)
    return keys


def _typed(event: KeyPressEvent) -> str:
    return event.data if len(event.data) == 1 and event.data.isprintable() else ""
