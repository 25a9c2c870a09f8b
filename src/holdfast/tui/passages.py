"""What a conversation is drawn from: passages, each of which renders its own lines when they are about to be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from holdfast.tui.lines import columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.tui.lines import Line
    from holdfast.tui.style import Marks

FoldKind = Literal["call", "reasoning", "mark", "compaction", "prompt", "shell"]
Detail = Literal["quiet", "normal", "full"]
DETAILS: tuple[Detail, ...] = ("quiet", "normal", "full")
Kind = Literal["prompt", "text", "reasoning", "call", "body", "mark", "shell", "error", "foot"]
_TIGHT = frozenset({"call", "body", "reasoning"})
"""Passages between which there is no blank line."""
FOLDED_MOST = 10_000
"""Things whose fold state was chosen one by one that are remembered."""


class Drawable(Protocol):
    """Something that has lines, and keeps those of the newest width."""

    def lines(self, width: int, marks: Marks) -> list[Line]: ...

    def forget(self) -> None:
        """Free the memory of its lines."""


class LazyLines:
    def __init__(self, render: Callable[[int, Marks], list[Line]]) -> None:
        self._render = render
        self._lines: list[Line] = []
        self._drawn: tuple[int, Marks] | None = None

    def lines(self, width: int, marks: Marks) -> list[Line]:
        if self._drawn != (width, marks):
            self._lines, self._drawn = self._render(width, marks), (width, marks)
        return self._lines

    def forget(self) -> None:
        self._lines, self._drawn = [], None


class Target(NamedTuple):
    """Something that can be folded and unfolded."""

    kind: FoldKind
    message_id: str
    part_id: str = ""


class Passage(NamedTuple):
    key: str
    """Unique in its entry, and the same after the entry has changed."""
    kind: Kind
    content: Drawable
    target: Target | None = None
    """What its first line folds and unfolds."""
    indent: tuple[tuple[str, str], ...] = (("", "  "),)
    """Before each line."""
    gap: bool = False
    """Whether a blank line is before it."""
    wants: Target | None = None
    """A call whose body is to be loaded, because this passage is where it would be."""

    def rows(self, width: int, marks: Marks) -> list[Line]:
        """Its lines with what is before them."""
        inner = width - sum(columns(text) for _, text in self.indent)
        indent = list(self.indent)
        if inner < 1:
            inner, indent = width, []
        lines: list[Line] = [[*indent, *line] for line in self.content.lines(inner, marks)]
        return [[(style, text.rstrip()) for style, text in indent], *lines] if self.gap else lines

    def inside(self, prefix: str, indent: tuple[tuple[str, str], ...]) -> Passage:
        """The same inside another passage."""
        return self._replace(key=f"{prefix}/{self.key}", kind="body", indent=(*indent, *self.indent))


def is_apart(before: Kind, kind: Kind) -> bool:
    """Whether there is a blank line between two passages."""
    return not (before in _TIGHT and kind in _TIGHT) and not (before == kind and kind in ("mark", "shell"))


class Folds:
    """What is unfolded. Things of one kind are alike until one of them is changed."""

    def __init__(self) -> None:
        self.detail: Detail = "normal"
        self.revision = 0
        self._defaults: dict[FoldKind, bool] = {}
        self._chosen: dict[Target, bool] = {}

    def is_open(self, target: Target) -> bool:
        return self._chosen.get(target, self._default(target.kind))

    def toggle(self, target: Target) -> bool:
        """Whether it is unfolded now."""
        unfolded = not self.is_open(target)
        self._chosen.pop(target, None)
        self._chosen[target] = unfolded
        if len(self._chosen) > FOLDED_MOST:
            del self._chosen[next(iter(self._chosen))]
        self.revision += 1
        return unfolded

    def set_all(self, kind: FoldKind, unfolded: bool) -> None:
        self._defaults[kind] = unfolded
        self._chosen = {target: state for target, state in self._chosen.items() if target.kind != kind}
        self.revision += 1

    def are_open(self, kind: FoldKind) -> bool:
        """Whether things of a kind are unfolded unless chosen otherwise."""
        return self._default(kind)

    def set_detail(self, detail: Detail) -> None:
        self.detail = detail
        self._defaults.clear()
        self._chosen.clear()
        self.revision += 1

    def _default(self, kind: FoldKind) -> bool:
        return self._defaults.get(kind, self.detail == "full")
