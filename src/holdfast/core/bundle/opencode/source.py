"""Reads conversations of OpenCode: the folder `storage` of early 1.x, and exported files of 1.x, 2.0 and Holdfast.

Everything is foreign. Only regular files are read, up to a size, and no name in them becomes a path unless it is the id
of a message or a Session."""

from __future__ import annotations

import os
import stat
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.bundle.opencode import version1, version2
from holdfast.core.bundle.opencode.foreign import Json, is_deep, is_id, items, mapping, number, optional_text, text
from holdfast.core.bundle.opencode.transcript import Transcript, TranscriptInvalid
from holdfast.schema.model import ModelRef

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from holdfast.schema.session_message import SessionMessage

FILE_BYTES = 256 * 1024 * 1024
"""The largest file that is read."""
SESSION_BYTES = 512 * 1024 * 1024
"""The most that is read for one Session: all of it is in memory at once."""
UNTITLED = "Imported session"


class _Exported(msgspec.Struct):
    info: dict[str, Any]
    messages: list[msgspec.Raw]


class _Answered(msgspec.Struct):
    """As the API of 2.0 wraps it."""

    data: _Exported


class _Shape(msgspec.Struct):
    """Tells the messages of 1.x from others: those have a header of their own."""

    info: dict[str, Any] | None = None


def read_file(path: Path) -> list[Transcript]:
    """The one Session of an exported file. Raises TranscriptInvalid."""
    source = str(path)
    data = _bytes(path, source, FILE_BYTES)
    try:
        wrapped = "data" in msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        exported = (
            msgspec.json.decode(data, type=_Answered).data if wrapped else msgspec.json.decode(data, type=_Exported)
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = f"it is no export of a conversation, which has `info` and `messages` ({error})"
        raise TranscriptInvalid(source, problem) from error
    info, lost = exported.info, Counter[str]()
    conversion = version1.Conversion(text(info.get("id")), lost)
    messages = []
    for place, raw in enumerate(exported.messages):
        try:
            messages += _exported_message(raw, conversion, text(info.get("id")), lost)
        except (version2.NotConvertible, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise TranscriptInvalid(source, f"message {place + 1} cannot be read ({error})") from error
    return [transcript_of(source, info, {}, messages, conversion, lost)]


def _exported_message(
    raw: msgspec.Raw, conversion: version1.Conversion, session_id: str, lost: Counter[str]
) -> list[SessionMessage]:
    if msgspec.json.decode(raw, type=_Shape).info is None:
        message = version2.converted(raw, session_id, lost)
        return [message] if message is not None else []
    value = mapping(msgspec.json.decode(raw))
    parts = [mapping(part) for part in items(value.get("parts"))]
    return list(conversion.message(mapping(value.get("info")), parts))


class Storage:
    """The folder of 1.x: `session/PROJECT/ID.json`, `message/SESSION/ID.json` and `part/MESSAGE/ID.json`."""

    def __init__(self, folder: Path) -> None:
        inside = folder / "storage"
        self._folder = inside if inside.is_dir() else folder
        if not (self._folder / "session").is_dir():
            problem = "it has no folder `session` or `storage/session`, as OpenCode 1.x has"
            raise TranscriptInvalid(str(folder), problem)
        self.refused: list[TranscriptInvalid] = []
        """Sessions whose record cannot be read."""
        self._infos = {text(info["id"]): info for info in self._records()}

    def trees(self) -> list[list[str]]:
        """The ids of Sessions, each tree with parents before their children."""
        trees, refused = trees_of(self._infos)
        self.refused += refused
        return trees

    def read(self, id: str) -> Transcript:
        """A Session. Raises TranscriptInvalid."""
        info, lost = self._infos[id], Counter[str]()
        conversion = version1.Conversion(id, lost)
        messages: list[SessionMessage] = []
        budget = SESSION_BYTES
        for name in _names(self._folder / "message" / id):
            header, budget = self._json(self._folder / "message" / id / name, id, budget)
            parts = []
            if is_id("msg", header.get("id")):
                folder = self._folder / "part" / str(header["id"])
                for part_name in _names(folder):
                    part, budget = self._json(folder / part_name, id, budget)
                    parts.append(part)
            messages += conversion.message(header, parts)
        if (self._folder / "todo" / f"{id}.json").is_file():
            lost["todo lists"] += 1
        project = self._project(text(info.get("projectID")))
        return transcript_of(id, info, project, messages, conversion, lost)

    def _records(self) -> Iterator[Json]:
        for project in _folders(self._folder / "session"):
            for name in _names(self._folder / "session" / project):
                path = self._folder / "session" / project / name
                try:
                    info, _ = self._json(path, str(path), FILE_BYTES)
                    if not is_id("ses", info.get("id")) or f"{info['id']}.json" != name:
                        raise TranscriptInvalid(str(path), "its name is not the id of a session in it")
                except TranscriptInvalid as error:
                    self.refused.append(error)
                else:
                    yield {"projectID": project, **info}

    def _project(self, id: str) -> Json:
        if not id or "/" in id or id.startswith("."):
            return {}
        try:
            return self._json(self._folder / "project" / f"{id}.json", id, FILE_BYTES)[0]
        except TranscriptInvalid:
            return {}

    def _json(self, path: Path, source: str, budget: int) -> tuple[Json, int]:
        data = _bytes(path, source, min(budget, FILE_BYTES))
        try:
            return mapping(msgspec.json.decode(data)), budget - len(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise TranscriptInvalid(source, f"{path.name} is no JSON ({error})") from error


def trees_of(infos: Mapping[str, Json]) -> tuple[list[list[str]], list[TranscriptInvalid]]:
    """The ids of Sessions by trees, with parents before their children, and those that belong to none."""
    children: dict[str | None, list[str]] = {}
    for id, info in infos.items():
        parent = info.get("parentID")
        children.setdefault(parent if parent in infos and parent != id else None, []).append(id)
    trees = []
    for root in sorted(children.get(None, ())):
        tree = [root]
        for id in tree:  # grows while it is read
            tree += sorted(children.get(id, ()))
        trees.append(tree)
    reached = {id for tree in trees for id in tree}
    return trees, [TranscriptInvalid(id, "it is an ancestor of itself") for id in sorted(infos.keys() - reached)]


def transcript_of(
    source: str,
    info: Json,
    project: Json,
    messages: Sequence[SessionMessage],
    conversion: version1.Conversion,
    lost: Counter[str],
) -> Transcript:
    time = mapping(info.get("time"))
    location = mapping(info.get("location"))
    worktree = text(project.get("worktree"))
    directory = text(info.get("directory")) or text(location.get("directory")) or worktree
    if not os.path.isabs(directory) or "\0" in directory:
        raise TranscriptInvalid(source, f"it names no absolute directory ({directory[:200]!r})")
    if not isinstance(info.get("id"), str):
        raise TranscriptInvalid(source, "it has no id")
    for field, kind in (("share", "shared links"), ("revert", "staged reverts"), ("fork", "origins of forks")):
        if info.get(field):
            lost[kind] += 1
    if is_deep(info):
        raise TranscriptInvalid(source, "values of its record are nested too deeply")
    created = number(time.get("created"))
    model = mapping(info.get("model"))
    known = isinstance(model.get("id"), str) and isinstance(model.get("providerID"), str)
    return Transcript(
        source=source,
        id=text(info.get("id")),
        parent_id=optional_text(info.get("parentID")),
        project_id=optional_text(info.get("projectID")) or "global",
        worktree=worktree or directory,
        directory=os.path.normpath(directory),
        title=text(info.get("title")) or UNTITLED,
        version=text(info.get("version")),
        created=created,
        updated=number(time.get("updated"), created),
        archived=number(time["archived"]) if time.get("archived") is not None else None,
        agent=optional_text(info.get("agent")) or conversion.agent,
        model=ModelRef(id=model["id"], provider_id=model["providerID"]) if known else conversion.model,
        messages=messages,
        lost=lost,
    )


def _names(folder: Path) -> list[str]:
    """The names of the JSON files of a folder, in order. Links are left out."""
    try:
        with os.scandir(folder) as found:
            return sorted(
                entry.name for entry in found if entry.name.endswith(".json") and entry.is_file(follow_symlinks=False)
            )
    except OSError:
        return []


def _folders(folder: Path) -> list[str]:
    with os.scandir(folder) as found:
        return sorted(entry.name for entry in found if entry.is_dir(follow_symlinks=False))


def _bytes(path: Path, source: str, most: int) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise TranscriptInvalid(source, f"{path.name}: {error.strerror}") from error
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise TranscriptInvalid(source, f"{path.name} is no regular file")
        data = file.read(most + 1)
    if len(data) > most:
        raise TranscriptInvalid(source, f"{path.name} brings it over the limit of what is read, {most:,} bytes")
    return data
