"""The prompts that were sent from a project, for the keys Up, Down and Ctrl-R.

One file per project in the state folder, readable by its owner only: one JSON text per line, the newest last. Several
terminals append to it; one that grew too large is replaced by its newest entries.

Invariants
- Reading and writing never fail: without the file there is no history, and prompts are sent all the same.
- A position is in `entries`, which is fixed while a person moves in it."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.private_files import make_directory

if TYPE_CHECKING:
    from pathlib import Path

MOST_ENTRIES = 1_000
MOST_BYTES = 1024 * 1024
ENTRY_CHARACTERS = 32 * 1024
"""A longer prompt is not kept."""


def history_file(state_folder: Path, directory: str) -> Path:
    """The file of a project. Its name is a digest: the path may be longer than a name may be."""
    digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
    return state_folder / "history" / f"{digest}.jsonl"


class History:
    def __init__(self, file: Path | None) -> None:
        self._file = file
        self.entries: list[str] = []
        """Oldest first."""
        self._place: int | None = None
        self._draft = ""

    def load(self) -> None:
        if self._file is None:
            return
        self.entries = _read(self._file)[-MOST_ENTRIES:] + self.entries

    def add(self, text: str) -> None:
        self._place = None
        if not text.strip() or len(text) > ENTRY_CHARACTERS or (self.entries and self.entries[-1] == text):
            return
        self.entries.append(text)
        del self.entries[:-MOST_ENTRIES]
        if self._file is not None:
            with suppress(OSError):
                _append(self._file, text)

    # -- moving -------------------------------------------------------------------------------------------------

    @property
    def browsing(self) -> bool:
        return self._place is not None

    def leave(self) -> None:
        """The text in the composer was edited: it is a draft of its own."""
        self._place = None

    def previous(self, draft: str) -> str | None:
        """The entry before the one that is shown; None at the oldest. `draft` is what `next` comes back to."""
        place = len(self.entries) if self._place is None else self._place
        if place == 0:
            return None
        if self._place is None:
            self._draft = draft
        self._place = place - 1
        return self.entries[self._place]

    def next(self) -> str | None:
        """The entry after the one that is shown, at last the draft; None if none is shown."""
        if self._place is None:
            return None
        self._place += 1
        if self._place < len(self.entries):
            return self.entries[self._place]
        self._place = None
        return self._draft

    def search(self, query: str, before: int | None = None) -> tuple[int, str] | None:
        """The newest entry with this text, older than the place `before`; upper and lower case are the same."""
        wanted = query.casefold()
        for place in range(min(len(self.entries) if before is None else before, len(self.entries)) - 1, -1, -1):
            if wanted in self.entries[place].casefold():
                return place, self.entries[place]
        return None


def _read(file: Path) -> list[str]:
    try:
        with open(file, "rb") as source:
            size = source.seek(0, os.SEEK_END)
            source.seek(max(0, size - MOST_BYTES))
            lines = source.read(MOST_BYTES).split(b"\n")
    except OSError:
        return []
    entries = []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:  # the first line may be cut, and the disk may have been full
            continue
        if isinstance(entry, str):
            entries.append(entry)
    return entries


def _append(file: Path, text: str) -> None:
    make_directory(file.parent)
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, json.dumps(text).encode() + b"\n")
        large = os.fstat(handle).st_size > 2 * MOST_BYTES
    finally:
        os.close(handle)
    if large:
        _shorten(file)


def _shorten(file: Path) -> None:
    """Keep the newest entries. What another terminal appends in this moment is lost to the file, not to the Session."""
    draft = file.with_suffix(f".{os.getpid()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as target:
        for entry in _read(file)[-MOST_ENTRIES:]:
            target.write(json.dumps(entry).encode() + b"\n")
    os.replace(draft, file)
