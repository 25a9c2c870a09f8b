"""Bundles that were made to harm: every hash is right, and what they contain is not."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, PromptInput
from holdfast.core.bundle import importing
from holdfast.core.bundle.archive import ArchiveReader, ArchiveWriter
from holdfast.core.bundle.errors import BundleConflict, BundleInvalid
from holdfast.core.bundle.lines import Digest
from holdfast.core.bundle.verification import MOST_BYTES
from holdfast.core.bundle.zstd import ZstdCompressor

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
Change = Callable[[Json, list[list[Json]]], None]


class Place:
    """A good bundle of one Session, and a host without it."""

    def __init__(self, home: Path, hf: Holdfast, victim: str) -> None:
        self.home = home
        self.hf = hf
        self.victim = victim
        self.good = home / "good.holdfast"

    def changed(self, change: Change) -> Path:
        manifest, events = unpacked(self.good)
        change(manifest, events)
        path = self.home / "bad.holdfast"
        path.write_bytes(packed(manifest, events))
        return path


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    async with Holdfast(tmp_path, data=tmp_path / "a", environment=environment) as hf:
        session = await hf.sessions.create(model="demo/echo")
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="hello"))
        await hf.sessions.wait(session.id)
        await hf.export_bundle(tmp_path / "good.holdfast", session.id)
    async with Holdfast(tmp_path, data=tmp_path / "b", environment=environment) as hf:
        yield Place(tmp_path, hf, (await hf.sessions.create(model="demo/echo")).id)


def unpacked(path: Path) -> tuple[Json, list[list[Json]]]:
    with path.open("rb") as file:
        reader = ArchiveReader(file)
        contents = []
        while reader.next(MOST_BYTES) is not None:
            contents.append(b"".join(reader.chunks()))
    events = [[json.loads(line) for line in content.splitlines()] for content in contents[1:]]
    return json.loads(contents[0]), events


def packed(manifest: Json, events: list[list[Json]]) -> bytes:
    """With sizes and hashes that fit."""
    contents = ["".join(json.dumps(event) + "\n" for event in part).encode() for part in events]
    for session, content in zip(manifest["sessions"], contents, strict=False):
        digest = Digest()
        digest.add(content)
        part = digest.part(session["events"]["name"])
        session["events"] = {"name": part.name, "size": part.size, "sha256": part.sha256, **session.get("over", {})}
    return archive(("manifest.json", json.dumps(manifest).encode()), *_named(manifest, contents))


def _named(manifest: Json, contents: list[bytes]) -> list[tuple[str, bytes]]:
    return [
        (session["events"]["name"], content) for session, content in zip(manifest["sessions"], contents, strict=True)
    ]


def archive(*entries: tuple[str, bytes]) -> bytes:
    file = io.BytesIO()
    writer = ArchiveWriter(file)
    for name, content in entries:
        writer.begin(name, len(content))
        writer.write(content)
    writer.finish()
    return file.getvalue()


def other_aggregate(manifest: Json, events: list[list[Json]]) -> None:
    events[0][3]["data"]["sessionID"] = "ses_another"


def other_record(manifest: Json, events: list[list[Json]]) -> None:
    events[0][0]["data"]["info"]["id"] = "ses_another"


def a_gap(manifest: Json, events: list[list[Json]]) -> None:
    del events[0][2]


def a_repetition(manifest: Json, events: list[list[Json]]) -> None:
    events[0].insert(2, events[0][2])


def cut_off(manifest: Json, events: list[list[Json]]) -> None:
    del events[0][-1]


def more_than_said(manifest: Json, events: list[list[Json]]) -> None:
    events[0].append({**events[0][-1], "seq": events[0][-1]["seq"] + 1})


def unknown_type(manifest: Json, events: list[list[Json]]) -> None:
    events[0][2]["type"] = "session.next.exploded.1"


def created_twice(manifest: Json, events: list[list[Json]]) -> None:
    events[0][2] = {**events[0][0], "seq": events[0][2]["seq"]}


def wrong_payload(manifest: Json, events: list[list[Json]]) -> None:
    events[0][0]["data"]["info"]["time"] = "yesterday"


def a_parent(manifest: Json, events: list[list[Json]]) -> None:
    for event in events[0]:
        if "info" in event["data"]:
            event["data"]["info"]["parentID"] = "ses_another"


def a_parent_that_is_told(manifest: Json, events: list[list[Json]]) -> None:
    a_parent(manifest, events)
    manifest["sessions"][0]["parentID"] = "ses_another"


def no_project(manifest: Json, events: list[list[Json]]) -> None:
    manifest["projects"] = []


def twice(manifest: Json, events: list[list[Json]]) -> None:
    manifest["sessions"].append({**manifest["sessions"][0]})
    events.append(events[0])


def a_path(manifest: Json, events: list[list[Json]]) -> None:
    part = {"name": "files/000001", "size": 0, "sha256": "0" * 64}
    manifest["files"] = [{"name": "../../tool_12345678", "content": part}]


def a_wrong_hash(manifest: Json, events: list[list[Json]]) -> None:
    manifest["sessions"][0]["over"] = {"sha256": "0" * 64}


def a_huge_size(manifest: Json, events: list[list[Json]]) -> None:
    manifest["sessions"][0]["over"] = {"size": 10**15}


def a_newer_format(manifest: Json, events: list[list[Json]]) -> None:
    manifest["version"] = 2


def another_format(manifest: Json, events: list[list[Json]]) -> None:
    manifest["format"] = "zip"


def a_foreign_fork(manifest: Json, events: list[list[Json]]) -> None:
    session = manifest["sessions"][0]["id"]
    forked = {
        "timestamp": 1,
        "sessionID": session,
        "sourceID": "ses_another",
        "throughSeq": 5,
        "segments": [{"sourceID": "ses_another", "afterSeq": -1, "throughSeq": 5}],
        "location": {"directory": "/"},
    }
    events[0][1] = {"seq": 1, "id": "evt_x", "type": "session.next.forked.1", "data": forked}


CHANGES = [
    *(other_aggregate, other_record, a_gap, a_repetition, cut_off, more_than_said, unknown_type, created_twice),
    *(wrong_payload, a_parent, a_parent_that_is_told, no_project, twice, a_path, a_wrong_hash, a_huge_size),
    *(a_newer_format, another_format, a_foreign_fork),
]


async def test_what_a_bundle_must_not_contain_is_refused(place: Place) -> None:
    """OPS-011, OPS-012: with the reason, and nothing is imported."""
    before = (await place.hf.sessions.get(place.victim), await everything(place.hf))
    for change in CHANGES:
        path = place.changed(change)
        try:
            with pytest.raises(BundleInvalid) as refused:
                await place.hf.import_bundle(path)
        except BaseException as error:
            raise AssertionError(change.__name__) from error
        assert "Nothing was imported" in str(refused.value), change.__name__
        assert (await place.hf.sessions.get(place.victim), await everything(place.hf)) == before, change.__name__
        with pytest.raises(BundleInvalid):
            await place.hf.verify_bundle(path)
    unchanged = place.changed(lambda manifest, events: None)
    assert (await place.hf.import_bundle(unchanged)).sessions[0].outcome == "imported"
    assert await place.hf.verify() == []


async def test_archives_that_no_export_writes_are_refused(place: Place) -> None:
    """OPS-011: other names and kinds of entries, data between and behind them, a bomb."""
    manifest, _ = unpacked(place.good)
    text = json.dumps(manifest).encode()
    whole = place.good.read_bytes()
    bomb = ZstdCompressor().compress(bytes(200_000_000)) + ZstdCompressor().flush()
    attempts = {
        "no manifest": archive(("events/000001.jsonl", b"")),
        "missing": archive(("manifest.json", text)),
        "traversal": archive(("manifest.json", text), ("../../etc/passwd", b"x")),
        "absolute": archive(("/etc/passwd", b"x")),
        "twice": whole + whole,
        "bomb": bomb,
        "zeros": bytes(10_000),
        "recursion": archive(("manifest.json", b"[" * 100_000)),
    }
    for name, content in attempts.items():
        path = place.home / "bad.holdfast"
        path.write_bytes(content)
        with pytest.raises(BundleInvalid):
            await place.hf.verify_bundle(path)
        with pytest.raises(BundleInvalid):
            await place.hf.import_bundle(path)
        assert len(await everything(place.hf)) == 1, name


async def test_an_import_that_fails_in_the_middle_takes_back_what_it_wrote(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPS-020: also what a cancelled one wrote. Afterwards the same bundle is imported."""
    monkeypatch.setattr("holdfast.core.bundle.lines.GROUP_EVENTS", 3)
    append, written = importing.Importer._append, 0

    async def failing(self: importing.Importer, *given: Any) -> None:
        nonlocal written
        if written == 2:
            raise OSError("the disk is full")
        written += 1
        await append(self, *given)

    with monkeypatch.context() as patched:
        patched.setattr(importing.Importer, "_append", failing)
        with pytest.raises(OSError, match="disk is full"):
            await place.hf.import_bundle(place.good)
    assert written == 2
    assert await everything(place.hf) == [place.victim]
    assert await place.hf.verify() == []
    assert (await place.hf.import_bundle(place.good)).sessions[0].outcome == "imported"
    assert await place.hf.verify() == []


async def test_a_failed_import_leaves_a_session_that_was_here_as_it_was(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPS-020, OPS-022: the events that it had stay, and their rows."""
    report = await place.hf.import_bundle(place.good)
    session_id = report.sessions[0].id
    newer = place.home / "newer.holdfast"
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(place.home)}
    async with Holdfast(place.home, data=place.home / "a", environment=environment) as origin:
        await origin.sessions.prompt(session_id, prompt=PromptInput(text="more"))
        await origin.sessions.wait(session_id)
        await origin.export_bundle(newer, session_id)
    monkeypatch.setattr("holdfast.core.bundle.lines.GROUP_EVENTS", 3)

    async def failing(self: importing.Importer, *given: Any) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(importing.Importer, "_complete_sources", failing)
        with pytest.raises(OSError, match="disk is full"):
            await place.hf.import_bundle(newer)
    assert await place.hf.verify() == []
    await place.hf.export_bundle(place.home / "again.holdfast", session_id)
    assert (place.home / "again.holdfast").read_bytes() == place.good.read_bytes()
    assert (await place.hf.import_bundle(newer)).sessions[0].outcome == "extended"
    assert await place.hf.verify() == []


async def test_an_import_that_was_killed_is_completed_by_the_same_import(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPS-020, OPS-022: nobody was there to take back what was written."""
    monkeypatch.setattr("holdfast.core.bundle.lines.GROUP_EVENTS", 3)
    append, written = importing.Importer._append, 0

    async def dying(self: importing.Importer, *given: Any) -> None:
        nonlocal written
        if written == 2:
            raise OSError("killed")
        written += 1
        await append(self, *given)

    async def nothing(self: importing.Importer, *given: Any) -> None:
        pass

    with monkeypatch.context() as patched:
        patched.setattr(importing.Importer, "_append", dying)
        patched.setattr(importing.Importer, "_take_back", nothing)
        with pytest.raises(OSError, match="killed"):
            await place.hf.import_bundle(place.good)
    assert await place.hf.verify() == []
    report = await place.hf.import_bundle(place.good)
    assert report.sessions[0].outcome == "extended"
    assert await place.hf.verify() == []
    await place.hf.export_bundle(place.home / "again.holdfast", report.sessions[0].id)
    assert (place.home / "again.holdfast").read_bytes() == place.good.read_bytes()


async def test_two_imports_of_one_bundle_at_the_same_time(place: Place) -> None:
    """OPS-020, OPS-021: one of them imports it. The other finds it there, or is refused and takes nothing away."""
    outcomes = await asyncio.gather(*(place.hf.import_bundle(place.good) for _ in range(2)), return_exceptions=True)
    assert [item for item in outcomes if not isinstance(item, BaseException)]
    assert all(isinstance(item, BundleConflict) for item in outcomes if isinstance(item, BaseException))
    assert len(await everything(place.hf)) == 2
    assert await place.hf.verify() == []


async def test_a_session_that_is_here_cannot_be_made_a_relative(place: Place) -> None:
    """OPS-012: neither as a former parent."""

    def adopted(manifest: Json, events: list[list[Json]]) -> None:
        events[0][0]["data"]["info"]["parentID"] = place.victim

    with pytest.raises(BundleInvalid):
        await place.hf.import_bundle(place.changed(adopted))
    assert await everything(place.hf) == [place.victim]


async def test_an_event_id_that_is_used_here_refuses_the_bundle(place: Place) -> None:
    """OPS-012, OPS-020: found while it is written, and taken back."""

    def reuse(manifest: Json, events: list[list[Json]]) -> None:
        events[0][-1]["id"] = used

    await place.hf.sessions.prompt(place.victim, prompt=PromptInput(text="mine"))
    await place.hf.sessions.wait(place.victim)
    used = (await place.hf.sessions.history(place.victim)).events[0].id
    with pytest.raises((BundleInvalid, BundleConflict)):
        await place.hf.import_bundle(place.changed(reuse))
    assert await everything(place.hf) == [place.victim]
    assert await place.hf.verify() == []


async def everything(hf: Holdfast) -> list[str]:
    return [session.id for session in (await hf.sessions.list()).items]
