"""The hunks of a unified diff as pairs of texts, which is how editors take changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_NEWLINE = "\\"


def hunks(patch: str) -> Iterator[tuple[str, str]]:
    """Old and new text of each hunk, with the lines of context in both."""
    old: list[str] = []
    new: list[str] = []
    inside = False
    for line in patch.split("\n"):
        if line.startswith("@@"):
            if inside:
                yield _joined(old), _joined(new)
            old, new, inside = [], [], True
        elif not inside:
            continue
        elif line.startswith("-"):
            old.append(line[1:])
        elif line.startswith("+"):
            new.append(line[1:])
        elif line.startswith(" "):
            old.append(line[1:])
            new.append(line[1:])
        elif not line.startswith(NO_NEWLINE):
            inside = bool(line)  # an empty line ends the patch
            if not inside:
                yield _joined(old), _joined(new)
                old, new = [], []
    if inside:
        yield _joined(old), _joined(new)


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
