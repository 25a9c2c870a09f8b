"""The database in which later versions of OpenCode 1.x store their Sessions: a row for each Session, message and part,
the latter two as JSON. It is foreign, and only read."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.bundle.opencode import version1
from holdfast.core.bundle.opencode.foreign import Json, is_id, mapping, text
from holdfast.core.bundle.opencode.source import FILE_BYTES, SESSION_BYTES, transcript_of, trees_of
from holdfast.core.bundle.opencode.transcript import TranscriptInvalid
from holdfast.core.database.foreign_file import HEADER, ForeignFile, ForeignFileUnreadable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from holdfast.core.bundle.opencode.transcript import Transcript
    from holdfast.schema.session_message import SessionMessage

NAME = "opencode.db"
NEEDED = {
    "session": {"id", "project_id", "directory"},
    "message": {"id", "session_id", "data"},
    "part": {"id", "message_id", "data"},
}
INFO = {
    "projectID": "project_id",
    "parentID": "parent_id",
    "directory": "directory",
    "title": "title",
    "version": "version",
    "share": "share_url",
    "revert": "revert",
}
"""The fields of a Session's record, and the columns that they are in."""
TIMES = {"created": "time_created", "updated": "time_updated", "archived": "time_archived"}


def database_at(path: Path) -> Path | None:
    """The database, if this is one or the directory of one."""
    file = path / NAME if path.is_dir() else path
    if not file.is_file():  # a pipe would wait for its writer
        return None
    try:
        with file.open("rb") as opened:
            return file if opened.read(len(HEADER)) == HEADER else None
    except OSError:
        return None


class StoredDatabase:
    """Closed by whoever opened it. Blocks."""

    def __init__(self, path: Path) -> None:
        """Raises TranscriptInvalid."""
        self._source = str(path)
        self.refused: list[TranscriptInvalid] = []
        """Sessions whose record cannot be read."""
        with _readable(self._source), ExitStack() as stack:
            self._file = stack.enter_context(closing(ForeignFile(path, FILE_BYTES)))
            self._columns = {table: self._file.columns(table) for table in (*NEEDED, "project", "todo")}
            for table, needed in NEEDED.items():
                if not needed <= self._columns[table]:
                    problem = f"it has no table `{table}` as the database of OpenCode 1.x has"
                    raise TranscriptInvalid(self._source, f"{problem}; `holdfast restore` takes backups of Holdfast")
            self._infos = {text(info["id"]): info for info in self._records()}
            stack.pop_all()

    def close(self) -> None:
        self._file.close()

    def trees(self) -> list[list[str]]:
        """The ids of Sessions, each tree with parents before their children."""
        trees, refused = trees_of(self._infos)
        self.refused += refused
        return trees

    def read(self, id: str) -> Transcript:
        """A Session. Raises TranscriptInvalid."""
        with _readable(id):
            return self._read(id)

    def _read(self, id: str) -> Transcript:
        info, lost = self._infos[id], Counter[str]()
        conversion = version1.Conversion(id, lost)
        messages: list[SessionMessage] = []
        budget = SESSION_BYTES
        order = "time_created, id" if "time_created" in self._columns["message"] else "id"
        for row in self._file.rows(f"select id, data from message where session_id = ? order by {order}", (id,)):
            header, budget = _json(row, id, budget)
            parts = []
            for part_row in self._file.rows(
                "select id, data from part where message_id = ? order by id", (text(row["id"]),)
            ):
                part, budget = _json(part_row, id, budget)
                parts.append(part)
            messages += conversion.message(header, parts)
        if "session_id" in self._columns["todo"] and any(
            self._file.rows("select 1 as one from todo where session_id = ? limit 1", (id,))
        ):
            lost["todo lists"] += 1
        return transcript_of(id, info, self._project(text(info.get("projectID"))), messages, conversion, lost)

    def _records(self) -> Iterator[Json]:
        known = self._columns["session"]
        wanted = ["id", *(column for column in (*INFO.values(), *TIMES.values()) if column in known)]
        for row in self._file.rows(f"select {', '.join(wanted)} from session order by id"):
            if not is_id("ses", row["id"]):
                self.refused.append(TranscriptInvalid(self._source, f"{str(row['id'])[:100]!r} is no id of a session"))
                continue
            yield {
                "id": row["id"],
                "time": {name: row.get(column) for name, column in TIMES.items()},
                **{field: row.get(column) for field, column in INFO.items()},
            }

    def _project(self, id: str) -> Json:
        if not {"id", "worktree"} <= self._columns["project"]:
            return {}
        return dict(next(self._file.rows("select worktree from project where id = ?", (id,)), {}))


@contextmanager
def _readable(source: str) -> Iterator[None]:
    try:
        yield
    except ForeignFileUnreadable as error:
        raise TranscriptInvalid(source, f"it cannot be read ({error})") from error


def _json(row: Mapping[str, Any], source: str, budget: int) -> tuple[Json, int]:
    """The value of a row, whose id is in a column of its own."""
    data = row["data"]
    if not isinstance(data, str | bytes):
        raise TranscriptInvalid(source, f"{text(row['id'])[:100]} is no JSON")
    size = len(data.encode("utf-8", "surrogatepass")) if isinstance(data, str) else len(data)
    if size > budget:
        raise TranscriptInvalid(source, f"it is over the limit of what is read, {SESSION_BYTES:,} bytes")
    try:
        return {**mapping(msgspec.json.decode(data)), "id": row["id"]}, budget - size
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise TranscriptInvalid(source, f"{text(row['id'])[:100]} is no JSON ({error})") from error
