"""Writes a conversation to a Markdown file. An existing file is never replaced."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.rendered import (
    AssistantEntry,
    CompactionEntry,
    RenderedCall,
    RenderedText,
    ShellEntry,
    UserEntry,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.rendered import Entry
    from holdfast.schema.session import Session

PAGE = 100
NAME_CHARACTERS = 60


class NotExported(HoldfastError):
    """The file could not be written."""


async def export(client: AsyncClient, session: Session, path: str) -> str:
    """Returns the path of the file. Without one it is named after the title, in the current directory."""
    target = os.path.abspath(os.path.expanduser(path)) if path else _unused(os.path.join(os.getcwd(), _name(session)))
    try:
        with open(target, "x", encoding="utf-8") as file, _removed_unless_complete(target):  # noqa: ASYNC230 - small writes
            file.write(f"# {session.title}\n\nSession {session.id} in {session.location.directory}\n")
            await _write(client, session.id, file)
    except FileExistsError:
        raise NotExported(f"{target} exists; give another name: /export NAME.md") from None
    except OSError as error:
        raise NotExported(f"{target}: {error.strerror or error}") from error
    return target


@contextmanager
def _removed_unless_complete(path: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        os.unlink(path)
        raise


async def _write(client: AsyncClient, session_id: str, file: TextIO) -> None:
    cursor = None
    while True:
        page = await client.sessions.rendered(
            session_id, limit=PAGE, order=None if cursor else "asc", cursor=cursor, format="text"
        )
        for entry in page.items:
            file.writelines(_lines(entry))
        cursor = page.next
        if cursor is None or not page.items:
            return


def _lines(entry: Entry) -> Iterator[str]:
    match entry:
        case UserEntry():
            yield f"\n## Prompt\n\n{entry.text}\n"
            for attached in entry.files:
                yield f"\n- attached: {attached.name}\n"
        case AssistantEntry():
            yield "\n## Answer\n"
            for part in entry.parts:
                if isinstance(part, RenderedText):
                    yield f"\n{part.text}\n"
                elif isinstance(part, RenderedCall):
                    outcome = f" ({part.outcome})" if part.outcome else ""
                    yield f"\n- {part.name}: `{part.title}`{outcome}\n"
            if entry.error:
                yield f"\n- failed: {entry.error}\n"
        case ShellEntry():
            fence = _fence(entry.text)
            yield f"\n## Shell\n\n{fence}\n$ {entry.command}\n{entry.text.rstrip()}\n{fence}\n"
        case CompactionEntry():
            yield f"\n## Summary of what came before\n\n{entry.text}\n"
        case _:
            yield f"\n- {entry.title}\n"


def _fence(text: str) -> str:
    """Longer than any run of backquotes in the text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(3, longest + 1)


def _name(session: Session) -> str:
    title = re.sub(r"[^\w.-]+", "-", session.title, flags=re.ASCII).strip("-.")[:NAME_CHARACTERS]
    return f"{title or session.id}.md"


def _unused(path: str) -> str:
    stem, extension = os.path.splitext(path)
    number = 1
    while os.path.lexists(path):
        number += 1
        path = f"{stem}-{number}{extension}"
    return path
