"""Noticing that configuration files have changed."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest
from tests.core.config.conftest import Place

from holdfast.core.config import watch as watching
from holdfast.core.config.config import Config, load_config
from holdfast.core.config.reload import ConfigRefused, LiveConfig
from holdfast.core.config.trust import TRUST_EVERYTHING
from holdfast.core.config.watch import Watch
from holdfast.core.state import Batches

pytestmark = pytest.mark.anyio


def test_every_kind_of_change_is_seen(tmp_path: Path) -> None:
    """CAT-192: content, also of the same size within one tick, appearance, disappearance, replacement."""
    file = tmp_path / "a"

    def watched() -> Watch:
        watch = Watch()
        watch.add(file)
        watch.add(tmp_path / "folder")
        assert not watch.changed()
        return watch

    watch = watched()
    file.write_text("one")
    assert watch.changed()
    watch = watched()
    file.write_text("two")
    assert watch.changed()
    watch = watched()
    (tmp_path / "b").write_text("two")
    os.replace(tmp_path / "b", file)
    assert watch.changed()
    watch = watched()
    (tmp_path / "folder").mkdir()
    assert watch.changed()
    watch = watched()
    file.unlink()
    assert watch.changed()


def test_a_missing_path_is_seen_when_it_appears(tmp_path: Path) -> None:
    """CAT-192: also in a folder that was missing, and behind a link. Other files of the folder do not count."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "link").symlink_to(elsewhere / "target")
    watch = Watch()
    for name in ("a", "folder/b", "link"):
        watch.add(tmp_path / name)
    (tmp_path / "other").write_text("")
    assert not watch.changed()
    (tmp_path / "folder").mkdir()
    assert not watch.changed()
    for appears in (tmp_path / "a", tmp_path / "folder" / "b", elsewhere / "target"):
        appears.write_text("")
        assert watch.changed()
        assert watch.changed()
        appears.unlink()
        assert not watch.changed()


def test_a_missing_path_is_seen_within_one_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CAT-192: although the stamp of its folder stays the same."""
    watch = Watch()
    watch.add(tmp_path / "a")
    stamp = watching._stamp(str(tmp_path))
    real = watching._stamp
    monkeypatch.setattr(watching, "_stamp", lambda path: stamp if path == str(tmp_path) else real(path))
    assert not watch.changed()
    (tmp_path / "a").write_text("")
    assert watch.changed()


def test_two_edits_within_one_tick_do_not_hide_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CAT-192: while a stamp is young the content is compared, and once more when it has become old."""
    file = tmp_path / "a"
    file.write_text("one")
    stamp = watching._stamp(str(file))
    monkeypatch.setattr(watching, "_stamp", lambda path: stamp)
    watch = Watch()
    watch.add(file)
    assert not watch.changed()
    file.write_text("two")
    assert watch.changed()
    later = time.time_ns() + 2 * watching.YOUNG_NS
    monkeypatch.setattr(time, "time_ns", lambda: later)
    assert watch.changed()
    file.write_text("one")
    assert not watch.changed()
    file.write_text("two")
    assert not watch.changed()  # the clock has moved on: from now on an edit has another stamp


def test_the_number_of_paths_is_bounded(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """CAT-192: and it is said that more of them are there than are watched."""
    for number in range(10):
        place.write(f".opencode/agent/a{number}.md", "x")
    monkeypatch.setattr(watching, "MOST_PATHS", 12)
    watch = Watch()
    config = load_config(place.root, place.root, place.environment(), trust=TRUST_EVERYTHING, watch=watch)
    assert (len(watch), watch.complete) == (12, False)
    assert "need a reload" in config.diagnostics()[-1].message


def test_a_folder_that_leads_back_to_itself_is_entered_once(tmp_path: Path) -> None:
    """CAT-192: and what Python leaves beside a plugin is no edit of it."""
    (tmp_path / "down").mkdir()
    (tmp_path / "down" / "up").symlink_to(tmp_path)
    watch = Watch()
    watch.add_tree(tmp_path)
    assert watch.complete
    watch = Watch()
    (tmp_path / "__pycache__").mkdir()
    watch.add_tree(tmp_path)
    (tmp_path / "__pycache__" / "a.pyc").touch()
    assert not watch.changed()


@pytest.mark.parametrize("text", ['{"shell": "{file:shell.txt}"}', '{"plugins": ["./shell.txt"]}'])
def test_files_and_plugins_that_a_document_names_are_watched(place: Place, text: str) -> None:
    """CAT-192: files that it inserts, and plugins that it names."""
    place.write("opencode.json", text)
    place.write("shell.txt", "sh")
    watch = Watch()
    load_config(place.root, place.root, place.environment(), trust=TRUST_EVERYTHING, watch=watch)
    assert not watch.changed()
    place.write("shell.txt", "bash")
    assert watch.changed()


async def test_an_edit_is_taken_over_once_by_whoever_comes_first(place: Place) -> None:
    """CAT-192, CAT-193: fifty Sessions at one boundary read the files once; a broken edit is tried once."""
    loads = 0
    told: list[str] = []

    def load() -> Config:
        nonlocal loads
        loads += 1
        return load_config(place.root, place.root, place.environment(), trust=TRUST_EVERYTHING, watch=Watch())

    live = LiveConfig(load, Batches(), lambda: told.append("taken over"))
    await live.refresh()
    assert loads == 1
    place.write("opencode.json", {"model": "p/a"})
    await asyncio.gather(*(live.refresh() for _ in range(50)))
    assert (loads, live.current.latest("model"), told) == (2, "p/a", ["taken over"])
    place.write("opencode.json", "{")
    for _ in range(3):
        await live.refresh()
    assert (loads, live.current.latest("model"), told) == (3, "p/a", ["taken over"])
    (problem,) = live.diagnostics()
    assert problem.severity == "error"
    with pytest.raises(ConfigRefused):
        await live.reload()
    place.write("opencode.json", {"model": "p/b"})
    await live.refresh()
    assert (live.current.latest("model"), live.diagnostics()) == ("p/b", ())


async def test_a_domain_that_cannot_prepare_fails_no_turn(place: Place) -> None:
    """CAT-193: whatever it raises is reported, and the former configuration stays."""
    live = LiveConfig(
        lambda: load_config(place.root, place.root, place.environment(), trust=TRUST_EVERYTHING, watch=Watch()),
        Batches(),
    )

    def prepare(config: Config) -> None:
        raise RuntimeError("on purpose")

    live._followers.append(prepare)  # type: ignore[arg-type]
    place.write("opencode.json", {"model": "p/a"})
    await live.refresh()
    assert live.current.latest("model") is None
    assert "on purpose" in live.diagnostics()[0].message


async def test_a_reload_that_is_cut_off_leaves_the_edit_to_the_next(place: Place) -> None:
    """CAT-192: the caller went away while the files were read; nobody took them over."""
    reading, go_on = threading.Event(), threading.Event()

    def load() -> Config:
        reading.set()
        go_on.wait(30)
        return load_config(place.root, place.root, place.environment(), trust=TRUST_EVERYTHING, watch=Watch())

    go_on.set()
    live = LiveConfig(load, Batches())
    place.write("opencode.json", {"model": "p/a"})
    go_on.clear()
    reading.clear()
    reloading = asyncio.ensure_future(live.reload())
    await asyncio.to_thread(reading.wait, 30)
    reloading.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await reloading
    await live.refresh()
    assert live.current.latest("model") == "p/a"
