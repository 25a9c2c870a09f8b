"""A list from which a person chooses, with a search: models, agents, variants, Sessions, themes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.tui.completion import score
from holdfast.tui.lines import columns, padded, safe_line, truncated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.tui.lines import Line

QUERY_CHARACTERS = 200


class Pick(NamedTuple):
    value: str
    label: str
    detail: str = ""
    current: bool = False


class Picker:
    """`choose` gets the value. With `ask`, a changed query is also given to whoever can find more."""

    def __init__(
        self,
        title: str,
        picks: Sequence[Pick],
        choose: Callable[[str], None],
        *,
        ask: Callable[[str], None] | None = None,
        empty: str = "nothing matches",
    ) -> None:
        self.title = title
        self.query = ""
        self.selected = next((place for place, pick in enumerate(picks) if pick.current), 0)
        self._picks = tuple(picks)
        self._choose = choose
        self._ask = ask
        self._empty = empty

    @property
    def shown(self) -> list[Pick]:
        """Those that match, best first; without a query all in their order."""
        if not self.query:
            return list(self._picks)
        found = []
        for pick in self._picks:
            marks = [mark for text in (pick.label, pick.detail) if (mark := score(self.query, text)) is not None]
            if marks:
                found.append((max(marks), pick))
        return [pick for _, pick in sorted(found, key=lambda pair: -pair[0])]

    def offer(self, query: str, picks: Sequence[Pick]) -> None:
        """What was found for a query, unless the person has typed on."""
        if query == self.query:
            self._picks = tuple(picks)
            self.selected = min(self.selected, max(0, len(self.shown) - 1))

    def key(self, key: str) -> bool:
        """Whether the picker is done."""
        shown = self.shown
        match key:
            case "escape" | "c-c":
                return True
            case "enter":
                if not shown:
                    return False
                self._choose(shown[self.selected].value)
                return True
            case "up" | "down" | "pageup" | "pagedown":
                step = {"up": -1, "down": 1, "pageup": -10, "pagedown": 10}[key]
                self.selected = max(0, min(self.selected + step, len(shown) - 1))
            case "backspace":
                self._search(self.query[:-1])
            case _ if len(key) == 1 and key.isprintable() and len(self.query) < QUERY_CHARACTERS:
                self._search(self.query + key)
        return False

    def lines(self, width: int, height: int) -> list[Line]:
        shown = self.shown
        room = max(1, height - 2)
        first = max(0, min(self.selected - room // 2, len(shown) - room))
        lines: list[Line] = [
            truncated([("class:panel.title", self.title), ("class:dim", "  type to search, Enter, Esc")], width),
            truncated([("class:composer.mark", "search: "), ("", safe_line(self.query))], width),
        ]
        for place, pick in enumerate(shown[first : first + room], start=first):
            style = "class:menu.chosen" if place == self.selected else ""
            mark = "* " if pick.current else "  "
            label = safe_line(pick.label)
            gap = "  " if pick.detail else ""
            wide = columns(label) + len(mark) < width - 12
            detail = [(f"{style} class:dim".strip(), gap + safe_line(pick.detail))] if wide else []
            line = truncated([(style, mark + label), *detail], width)
            lines.append(padded(line, width, style))
        if not shown:
            lines.append(truncated([("class:dim", f"  {self._empty}")], width))
        return lines

    def _search(self, query: str) -> None:
        self.query = query
        self.selected = 0
        if self._ask is not None:
            self._ask(query)
