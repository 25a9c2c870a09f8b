"""What the dialogs about requests have in common: choices with keys, and lines of text that a person decides about."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from holdfast.text.visible_text import visible
from holdfast.tui.lines import hard_wrap, safe, truncated, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.tui.lines import Line
    from holdfast.tui.request_answers import Decision

MOST_CHARACTERS = 200_000
"""Of a text in a dialog; what is left out is noted."""


class Choice(NamedTuple):
    key: str
    text: str
    selected: bool = False


class Dialog(Protocol):
    """One request on the screen. Pure: keys in, decisions out."""

    @property
    def title(self) -> str: ...

    @property
    def entry(self) -> str | None:
        """The label of the text that is asked for; None while keys decide."""

    @property
    def problem(self) -> str:
        """Why the last answer is not one."""

    def body(self, width: int) -> list[Line]:
        """What the person decides about, whole."""

    def choices(self) -> Sequence[Choice]: ...

    def key(self, key: str) -> Decision | None: ...

    def enter(self, text: str) -> Decision | None:
        """The text that was asked for."""

    def leave_entry(self) -> bool:
        """Esc in the text. Whether there was one to leave."""


def text_lines(text: str, width: int, style: str = "") -> list[Line]:
    """Foreign text, every character of it visible, broken where a line ends."""
    lines: list[Line] = []
    for line in safe(visible(text[:MOST_CHARACTERS])).split("\n"):
        lines += hard_wrap([(style, line)], width)
    if len(text) > MOST_CHARACTERS:
        lines.append([("class:warn", f"({len(text) - MOST_CHARACTERS} more characters are not shown)")])
    return lines


def sentence_lines(text: str, width: int, style: str = "") -> list[Line]:
    """Foreign text in words."""
    lines: list[Line] = []
    for line in safe(visible(text[:MOST_CHARACTERS])).split("\n"):
        lines += wrap([(style, line)], width)
    return lines


def choice_lines(choices: Sequence[Choice], width: int) -> list[Line]:
    room = max((len(choice.key) for choice in choices), default=0)
    lines: list[Line] = []
    for choice in choices:
        style = "class:panel.chosen" if choice.selected else "class:panel.choice"
        line = [("class:panel.key", f" {choice.key:<{room}} "), (style, f" {safe(visible(choice.text))} ")]
        lines.append(truncated([(part, text.replace("\n", " ")) for part, text in line], width))
    return lines
