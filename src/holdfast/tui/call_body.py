"""The body of a tool call as lines: diffs, code, the output of programs. In a conversation it is drawn in blocks of a
hundred lines, so that of a long one only what is visible is rendered."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holdfast.text.highlighting import language_of
from holdfast.tui.ansi import output_lines, program_lines
from holdfast.tui.code import code_lines
from holdfast.tui.diff import Diff
from holdfast.tui.lines import hard_wrap, safe, safe_line, sides, wrap
from holdfast.tui.passages import LazyLines
from holdfast.tui.style import UNICODE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.schema.rendered import BodySection, CallBody
    from holdfast.tui.lines import Line
    from holdfast.tui.style import Marks

CHUNK = 100
"""Lines of a block."""
CUT = "The rest is left out here because of its size."


def call_body_lines(sections: Iterable[BodySection], width: int, marks: Marks = UNICODE) -> list[Line]:
    """All lines of all sections."""
    return [line for section in sections for block in section_blocks(section) for line in block.lines(width, marks)]


def body_blocks(body: CallBody) -> list[LazyLines]:
    blocks = [block for section in body.sections for block in section_blocks(section)]
    if body.cut:
        blocks.append(_note(CUT))
    if body.paths:
        blocks.append(_note("The whole output is in " + ", ".join(body.paths)))
    return blocks


def section_blocks(section: BodySection) -> Iterator[LazyLines]:
    match section.kind:
        case "diff":
            diff = Diff(section.text, section.name or "")
            yield LazyLines(partial(_file_line, section, diff))
            for number in range(diff.groups):
                yield LazyLines(partial(diff.lines, number))
        case "code":
            language = section.name or ""
            known = language_of(f"x.{language}") or language
            for text in _split(section.text):
                yield LazyLines(partial(_code, text, known))
        case "output":
            lines = list(program_lines(section.text))
            for start in range(0, len(lines), CHUNK):
                yield LazyLines(partial(_output, lines[start : start + CHUNK]))
        case "error":
            yield LazyLines(lambda width, marks: _coloured(output_lines(section.text, width), "class:call.peek"))
        case "note":
            yield _note(section.text)


def _split(text: str) -> Iterator[str]:
    lines = text.removesuffix("\n").split("\n")
    for start in range(0, len(lines), CHUNK):
        yield "\n".join(lines[start : start + CHUNK])


def _file_line(section: BodySection, diff: Diff, width: int, marks: Marks) -> list[Line]:
    left = [("class:diff.file", safe_line(section.name or "file"))]
    if section.status in ("added", "deleted"):
        left.append(("class:dim", f" {section.status}"))
    return [sides(left, change_counts(diff.additions, diff.deletions, marks), width, marks.ellipsis)]


def change_counts(additions: int | None, deletions: int | None, marks: Marks) -> Line:
    """`+3 −1`, without what is zero."""
    shown: Line = []
    if additions:
        shown.append(("class:added", f"+{additions}"))
    if deletions:
        shown.append(("class:removed", f"{' ' if shown else ''}{marks.minus}{deletions}"))
    return shown


def _code(text: str, language: str, width: int, marks: Marks) -> list[Line]:
    return code_lines(text, width, language)


def _output(lines: Sequence[Line], width: int, marks: Marks) -> list[Line]:
    return [wrapped for line in lines for wrapped in hard_wrap(line, width)]


def _note(text: str) -> LazyLines:
    return LazyLines(
        lambda width, marks: [
            line for given in safe(text).split("\n") for line in wrap([("class:dim", given)] if given else [], width)
        ]
    )


def _coloured(lines: Iterable[Line], style: str) -> list[Line]:
    return [[(f"{style} {own}".rstrip(), text) for own, text in line] for line in lines]
