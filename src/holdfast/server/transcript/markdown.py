"""A conversation as Markdown, with calls as quoted blocks."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.schema.rendered import (
    AssistantEntry,
    CompactionEntry,
    RenderedCall,
    RenderedReasoning,
    ShellEntry,
    UserEntry,
)
from holdfast.server.render.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.schema.rendered import CallBody, Entry
    from holdfast.schema.session import Session

SECTION_CHARACTERS = 20_000


class MarkdownWriter:
    def __init__(self, session: Session) -> None:
        self._session = session

    def head(self) -> str:
        session = self._session
        lines = [
            f"# {_line(session.title)}",
            "",
            f"- Session: `{session.id}`",
            f"- Directory: `{_line(session.location.directory)}`",
            f"- Created: {moment(session.time.created)}",
            f"- Cost: ${session.cost or 0:.4f}",
        ]
        return "\n".join(lines) + "\n\n"

    def entry(self, entry: Entry, bodies: Mapping[str, CallBody]) -> str:
        return "\n".join(self._lines(entry, bodies)) + "\n\n"

    def _lines(self, entry: Entry, bodies: Mapping[str, CallBody]) -> Iterator[str]:
        if isinstance(entry, UserEntry):
            yield "## You\n"
            yield visible(entry.text)
            yield from (f"\n- attached: {_line(file.name)} ({_line(file.mime)})" for file in entry.files)
        elif isinstance(entry, AssistantEntry):
            model = f" ({_line(entry.model.provider_id)}/{_line(entry.model.id)})" if entry.model is not None else ""
            yield f"## {_line(entry.agent or 'assistant')}{model}\n"
            for part in entry.parts:
                if isinstance(part, RenderedCall):
                    yield from _call(part, bodies.get(part.id))
                elif isinstance(part, RenderedReasoning):
                    yield _quoted(part.text)
                else:
                    yield visible(part.text) + "\n"
            if entry.error:
                yield f"**Error:** {_line(entry.error)}"
        elif isinstance(entry, ShellEntry):
            yield f"## You ran\n\n{_fenced('$ ' + entry.command + chr(10) + entry.text, '')}"
        elif isinstance(entry, CompactionEntry):
            yield f"## Summary of what came before\n\n{visible(entry.text)}"
        else:
            yield f"*{_line(entry.title)}*"


def moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _call(call: RenderedCall, body: CallBody | None) -> Iterator[str]:
    outcome = f" — {_line(call.outcome)}" if call.outcome else f" — {call.status}"
    yield f"**{_line(call.name)}** {_code(call.title)}{outcome}\n"
    for section in body.sections if body is not None else ():
        if section.name:
            yield f"{_code(section.name)}\n"
        yield _fenced(section.text, "diff" if section.kind == "diff" else "")
    if body is not None and body.cut:
        yield "*The rest is left out because of its size.*\n"


def _fenced(text: str, language: str) -> str:
    """In a fence that the text cannot end."""
    shown = visible(text[:SECTION_CHARACTERS]) + ("\n…" if len(text) > SECTION_CHARACTERS else "")
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", shown)), 3)
    return f"{fence}{language}\n{shown.rstrip(chr(10))}\n{fence}\n"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in visible(text).split("\n")) + "\n"


def _line(text: str) -> str:
    return visible(" ".join(text.split()))


def _code(text: str) -> str:
    shown = _line(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    return f"{fence} {shown} {fence}" if "`" in shown else f"`{shown}`" if shown else ""
