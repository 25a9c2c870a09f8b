"""The files that a template mentions with `@`. A general resolver of mentions can take the place of this module."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.permission.rules import evaluate
from holdfast.core.session.prompt_input import media_type
from holdfast.schema.frozen import Frozen
from holdfast.schema.prompt import FileAttachment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.permission.rules import Authority

OUTSIDE = "`@{mention}` was not attached: it is outside the project, whose commands are not trusted (`holdfast trust`)"
DENIED = "`@{mention}` was not attached: the rules of the agent deny reading it"


class MentionedFiles(Frozen):
    files: tuple[FileAttachment, ...]
    notes: tuple[str, ...]
    """What was not attached, and why. Names that are no files are ordinary text."""


def mentioned_files(mentions: Iterable[str], directory: Path, authority: Authority, *, trusted: bool) -> MentionedFiles:
    """A template that is not `trusted` reaches only files of the project. Links are judged by their target."""
    files, notes = [], []
    root = os.path.realpath(directory)
    for mention in mentions:
        path = _existing(mention, directory)
        if path is None:
            continue
        inside = os.path.relpath(os.path.realpath(path), root)
        if inside.split(os.sep)[0] == os.pardir:
            if not trusted:
                notes.append(OUTSIDE.format(mention=mention))
                continue
        elif evaluate(authority.rules, "read", inside, authority.fences) == "deny":
            notes.append(DENIED.format(mention=mention))
            continue
        uri = path.as_uri()
        files.append(FileAttachment(uri=uri, mime=media_type(uri, mention), name=mention))
    return MentionedFiles(tuple(files), tuple(notes))


def _existing(mention: str, directory: Path) -> Path | None:
    try:
        path = directory / Path(mention).expanduser()
        return path if path.exists() else None
    except (OSError, RuntimeError):  # a name that is too long, or the home of an unknown user
        return None
