"""Where models.dev's data comes from, and that bad answers and other processes cannot spoil it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from holdfast.core.catalog.dev_record import DevProvider
from holdfast.core.catalog.models_dev import FRESH_SECONDS, SOURCE, ModelsDev, validated
from holdfast.core.file_lock import file_lock
from holdfast.schema.live_event import ModelsDevRefreshed
from holdfast.schema.record import Record

pytestmark = pytest.mark.anyio
GOOD: dict[str, Any] = {"fetched": {"name": "Fetched", "models": {"m": {"name": "M"}}}}


class Source:
    """A real server; `answers` are played in turn, the last one again and again."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, str]] = [(200, json.dumps(GOOD))]
        self.asked: list[tuple[str, str]] = []
        self.called = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append((request.path, request.headers["user-agent"]))
        self.called.set()
        await self.gate.wait()
        status, text = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return web.Response(status=status, text=text)


@pytest.fixture
async def source() -> AsyncIterator[Source]:
    source = Source()
    application = web.Application()
    application.router.add_get("/{path:.*}", source.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    source.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]
    yield source
    await runner.cleanup()


class Waits:
    """Records how long would be slept, and returns at once."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def models(source: Source, cache: Path, *, bundled: Path | None = None, **more: Any) -> ModelsDev:
    environment = {"OPENCODE_MODELS_URL": source.url, **more.pop("environment", {})}
    return ModelsDev(cache, environment, bundled=bundled, **more)


def cached(source: Source, cache: Path) -> Path:
    return cache / f"models-{hashlib.sha1(source.url.encode()).hexdigest()}.json"


async def loaded(dev: ModelsDev) -> Mapping[str, DevProvider]:
    """The data on disk; fetched if there is none."""
    if not dev.providers():
        await dev.refresh()
    return dev.providers()


async def test_with_nothing_at_all_the_source_is_asked_once(source: Source, tmp_path: Path) -> None:
    """CAT-095, CAT-096, CAT-097: by whoever comes first; the answer is kept under the source's own name."""
    dev = models(source, tmp_path, environment={"OPENCODE_CLIENT": "desk"})
    found = await asyncio.gather(*(loaded(dev) for _ in range(5)))
    assert [list(providers) for providers in found] == [["fetched"]] * 5
    assert len(source.asked) == 1
    path, agent = source.asked[0]
    assert path == "/api.json"
    assert agent.startswith("opencode/")
    assert agent.endswith("/desk")
    assert json.loads(cached(source, tmp_path).read_text()) == GOOD
    assert ModelsDev(tmp_path, {}, bundled=None)._cache == tmp_path / "models.json"
    assert ModelsDev(tmp_path, {})._source == SOURCE


async def test_the_order_of_what_is_read(source: Source, tmp_path: Path) -> None:
    """CAT-097, CAT-014: a named file, else the cache, else what comes along; the network only when there is nothing."""
    bundled, named = tmp_path / "bundled.json", tmp_path / "named.json"
    bundled.write_text(json.dumps({"bundled": {}}))
    named.write_text(json.dumps({"named": {}}))
    assert list(await loaded(models(source, tmp_path, bundled=bundled))) == ["bundled"]
    cached(source, tmp_path).write_text(json.dumps({"cached": {}}))
    assert list(await loaded(models(source, tmp_path, bundled=bundled))) == ["cached"]
    environment = {"OPENCODE_MODELS_PATH": str(named)}
    assert list(await loaded(models(source, tmp_path, bundled=bundled, environment=environment))) == ["named"]
    assert source.asked == []


@pytest.mark.parametrize("switch", ["1", "true", "TRUE"])
async def test_fetching_can_be_switched_off(source: Source, tmp_path: Path, switch: str) -> None:
    """CAT-097, CAT-098, CAT-014: then nothing is nothing, and no failure."""
    dev = models(source, tmp_path, environment={"OPENCODE_DISABLE_MODELS_FETCH": switch})
    assert (await loaded(dev), await dev.refresh(), source.asked) == ({}, False, [])


async def test_a_damaged_cache_is_thrown_away_but_never_a_named_file(source: Source, tmp_path: Path) -> None:
    """CAT-097."""
    cached(source, tmp_path).write_text("<html>")
    assert list(await loaded(models(source, tmp_path))) == ["fetched"]
    assert json.loads(cached(source, tmp_path).read_text()) == GOOD
    named = tmp_path / "named.json"
    named.write_text("<html>")
    dev = models(source, tmp_path, environment={"OPENCODE_MODELS_PATH": str(named)})
    assert dev.providers() == {}
    assert named.read_text() == "<html>"


@pytest.mark.parametrize(
    "answer",
    [
        (200, "<html>Service unavailable</html>"),
        (200, "[]"),
        (200, "{}"),
        (200, '{"p": 3, "q": {"models": 4}}'),
        (200, '{"p": ' + "[" * 100_000),
        (500, json.dumps(GOOD)),
        (404, ""),
    ],
)
async def test_a_bad_answer_changes_nothing(
    source: Source, tmp_path: Path, answer: tuple[int, str], caplog: pytest.LogCaptureFixture
) -> None:
    """CAT-097, CAT-098, trap 20: an error page never replaces good data; the failure is in the log."""
    path = cached(source, tmp_path)
    path.write_text(json.dumps({"old": {}}))
    os.utime(path, (1, 1))
    source.answers = [answer]
    told: list[Record] = []
    dev = models(source, tmp_path, announce=told.append, sleep=Waits())
    assert await dev.refresh() is False
    assert list(dev.providers()) == ["old"]
    assert (json.loads(path.read_text()), told) == ({"old": {}}, [])
    assert "no refresh" in caplog.text


async def test_invalid_entries_are_left_out(source: Source, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """CAT-098: one bad provider or model takes nothing else with it."""
    mixed = {**GOOD, "bad": {"env": "KEY"}, "half": {"models": {"good": {}, "bad": {"limit": []}}}}
    source.answers = [(200, json.dumps(mixed))]
    with caplog.at_level(logging.WARNING):
        found = await loaded(models(source, tmp_path))
    assert {id: list(provider.models) for id, provider in found.items()} == {"fetched": ["m"], "half": ["good"]}
    assert "provider bad dropped" in caplog.text
    assert "model half/bad dropped" in caplog.text
    cached(source, tmp_path).write_text(json.dumps(mixed))
    again = models(source, tmp_path)
    assert list(again.providers()) == ["fetched", "half"]


@pytest.mark.parametrize("model", [b'{"name": "\xff"}', b'{"cost": {"input": 1e400}}'], ids=["no text", "no number"])
async def test_a_hostile_model_takes_nothing_else_with_it(tmp_path: Path, model: bytes) -> None:
    """CAT-098: neither from the source nor from a file, and not when somebody looks at it later."""
    data = b'{"p": {"models": {"bad": ' + model + b', "good": {}}}, "q": {"models": {"m": {}}}}'
    valid = {id: list(found["models"]) for id, found in json.loads(validated(data)).items()}
    assert valid == {"p": ["good"], "q": ["m"]}
    (tmp_path / "named.json").write_bytes(data)
    dev = ModelsDev(None, {"OPENCODE_MODELS_PATH": str(tmp_path / "named.json")})
    assert [found.id for entry in dev.entries().values() for found in entry.all()] == ["good", "m"]


@pytest.mark.parametrize("kind", ["folder", "empty", "nested", "unwritable"])
async def test_a_cache_that_is_no_use_is_as_if_there_were_none(tmp_path: Path, kind: str) -> None:
    """CAT-097, CAT-098: what comes along is used; the Location opens whatever lies there."""
    cache = tmp_path / "cache"
    path = cache / "models.json"
    cache.mkdir()
    match kind:
        case "folder":
            path.mkdir()
        case "empty":
            path.write_text("{}")
        case "nested":
            path.write_text('{"p": ' + "[" * 100_000 + "]" * 100_000 + "}")
        case _:
            path.write_text("<html>")
            cache.chmod(0o500)
    assert "anthropic" in ModelsDev(cache, {}).providers()
    cache.chmod(0o700)


async def test_data_of_the_future_is_not_fresh(source: Source, tmp_path: Path) -> None:
    """CAT-096: a clock that was wrong once does not stop refreshing for good."""
    path = cached(source, tmp_path)
    path.write_text(json.dumps({"old": {}}))
    os.utime(path, (time.time() + 10 * FRESH_SECONDS,) * 2)
    assert await models(source, tmp_path).refresh() is True


async def test_two_more_attempts_with_growing_pauses(source: Source, tmp_path: Path) -> None:
    """CAT-095."""
    source.answers = [(500, ""), (502, ""), (200, json.dumps(GOOD))]
    waits = Waits()
    assert list(await loaded(models(source, tmp_path, sleep=waits))) == ["fetched"]
    assert [0.16 <= waits.seconds[0] <= 0.24, 0.32 <= waits.seconds[1] <= 0.48] == [True, True]
    assert (len(waits.seconds), len(source.asked)) == (2, 3)


async def test_fresh_data_is_not_fetched_again(source: Source, tmp_path: Path) -> None:
    """CAT-096: five minutes by the file's time."""
    path = cached(source, tmp_path)
    path.write_text(json.dumps({"old": {}}))
    dev = models(source, tmp_path)
    assert await dev.refresh() is False
    os.utime(path, (time.time() - FRESH_SECONDS - 1,) * 2)
    assert await dev.refresh() is True
    assert (list(dev.providers()), len(source.asked)) == (["fetched"], 1)


async def test_a_process_that_waited_for_the_lock_does_not_fetch_again(source: Source, tmp_path: Path) -> None:
    """CAT-096, trap 20: what another process fetched meanwhile is used, not fetched twice."""
    path = cached(source, tmp_path)
    dev = models(source, tmp_path)
    assert dev.providers() == {}
    async with file_lock(path.with_suffix(".lock")):
        waiting = asyncio.create_task(dev.refresh())
        await asyncio.sleep(0)
        path.write_text(json.dumps({"theirs": {}}))
    assert await waiting is True
    assert (list(dev.providers()), source.asked) == (["theirs"], [])
    assert sorted(found.name for found in tmp_path.iterdir()) == sorted([path.name, path.with_suffix(".lock").name])


async def test_data_fetched_by_another_process_is_read_without_a_request(source: Source, tmp_path: Path) -> None:
    """CAT-096: fresh data that is not what was read here is read, without asking the source."""
    path = cached(source, tmp_path)
    path.write_text(json.dumps({"old": {}}))
    dev = models(source, tmp_path)
    assert list(dev.providers()) == ["old"]
    path.write_text(json.dumps({"theirs": {}}))
    os.utime(path, (time.time() - 1,) * 2)
    assert await dev.refresh() is True
    assert (list(dev.providers()), source.asked) == (["theirs"], [])


async def test_a_refresh_is_announced_when_its_data_can_be_read(source: Source, tmp_path: Path) -> None:
    """CAT-097: the event, then whoever rebuilds."""
    seen: list[object] = []
    bundled = tmp_path / "bundled.json"
    bundled.write_text(json.dumps({"bundled": {}}))
    dev = models(source, tmp_path, bundled=bundled, announce=seen.append)
    assert list(dev.providers()) == ["bundled"]
    end = dev.on_refresh(lambda: seen.append(list(dev.providers())))
    assert await dev.refresh() is True
    assert seen == [ModelsDevRefreshed(), ["fetched"]]
    end()
    os.utime(cached(source, tmp_path), (1, 1))
    assert await dev.refresh() is True
    assert len(seen) == 3


async def test_closing_stops_a_refresh(source: Source, tmp_path: Path) -> None:
    """CAT-097: it leaves no half file."""
    source.gate.clear()
    dev = models(source, tmp_path)
    waiting = asyncio.create_task(dev.refresh())
    await source.called.wait()
    await dev.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    source.gate.set()
    assert not cached(source, tmp_path).exists()


async def test_without_a_place_to_keep_it_nothing_is_fetched(source: Source) -> None:
    """CAT-142: the snapshot that comes along is enough to start with."""
    dev = ModelsDev(None, {"OPENCODE_MODELS_URL": source.url})
    assert "anthropic" in await loaded(dev)
    assert (await dev.refresh(), source.asked) == (False, [])
