"""Environment, date and model."""

from __future__ import annotations

import locale
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.conftest import ManualClock

from holdfast.core.context import date as date_module
from holdfast.core.context import environment as environment_module
from holdfast.core.context import model as model_module
from holdfast.core.context.date import date, find_zone
from holdfast.core.context.environment import environment
from holdfast.core.context.model import model
from holdfast.core.context.snapshot import Snapshot
from holdfast.core.context.system_context import (
    Generation,
    SystemContext,
    Unchanged,
    Updated,
    combine,
    initialize,
    observe,
    reconcile,
)
from holdfast.core.project.project import Project
from holdfast.schema.location import Location
from holdfast.schema.model import ModelRef

pytestmark = pytest.mark.anyio


async def first(context: SystemContext) -> Generation:
    return initialize(await observe(context))


async def told(context: SystemContext, snapshot: Snapshot) -> str | None:
    outcome = reconcile(await observe(context), snapshot)
    if outcome == Unchanged():
        return None
    assert isinstance(outcome, Updated)
    return outcome.text


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The host's own zone."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


async def test_the_environment_is_these_lines(tmp_path: Path) -> None:
    """CTX-115, CTX-116: exact structure, the Location's own spelling, the platform's Node name."""
    location = Location(directory=f"{tmp_path}/./sub/")
    repository = Project("id", tmp_path, tmp_path / ".git")
    generation = await first(environment(location, repository))
    assert generation.baseline.split("\n") == [
        environment_module.BASELINE,
        "<env>",
        f"  Working directory: {tmp_path}/./sub/",
        f"  Workspace root folder: {tmp_path}",
        "  Is directory a git repo: yes",
        f"  Platform: {sys.platform}",
        "</env>",
    ]
    assert generation.snapshot["core/environment"].removed is None
    elsewhere = environment(Location(directory="/x"), Project("global", Path("/")))
    text = await told(elsewhere, generation.snapshot)
    assert text is not None
    assert text.split("\n")[0] == environment_module.UPDATE
    assert "  Working directory: /x" in text.split("\n")
    assert "  Is directory a git repo: no" in text.split("\n")


def at(text: str) -> ManualClock:
    return ManualClock(int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000))


@pytest.mark.usefixtures("in_tokyo")
async def test_the_date_is_the_hosts_and_changes_with_the_day() -> None:
    """CTX-117, CTX-118: local calendar day; one update at midnight, with nothing else repeated."""
    clock = at("2026-06-02T15:30:00")  # already the 3rd in Tokyo
    project = Project("id", Path("/"))
    context = combine([environment(Location(directory="/x"), project), date(clock)])
    generation = await first(context)
    assert generation.baseline.endswith("\n\n" + date_module.BASELINE.format("Wed Jun 03 2026"))
    assert generation.snapshot["core/date"].removed is None
    clock.advance(8 * 3_600_000)
    assert await told(context, generation.snapshot) is None
    clock.advance(16 * 3_600_000)
    assert await told(context, generation.snapshot) == date_module.UPDATE.format("Thu Jun 04 2026")


async def test_the_date_ignores_the_locale() -> None:
    """CTX-117: English names, padded day, in any locale that this machine has."""
    before = locale.setlocale(locale.LC_TIME)
    for name in ("de_DE.UTF-8", "C.UTF-8", "C"):
        try:
            locale.setlocale(locale.LC_TIME, name)
        except locale.Error:
            continue
    try:
        assert date_module.calendar_day(at("2026-03-01T12:00:00").millis, UTC) == "Sun Mar 01 2026"
    finally:
        locale.setlocale(locale.LC_TIME, before)


@pytest.mark.usefixtures("in_tokyo")
async def test_a_configured_zone_replaces_the_hosts() -> None:
    """CTX-119: an unknown name falls back to the host's zone; key and format stay."""
    clock = at("2026-06-02T15:30:00")
    assert (await first(date(clock, find_zone("UTC")))).baseline == date_module.BASELINE.format("Tue Jun 02 2026")
    for name in ("Mars/Base", "../etc/passwd", "", os.sep):
        generation = await first(date(clock, find_zone(name)))
        assert generation.baseline == date_module.BASELINE.format("Wed Jun 03 2026")
        assert list(generation.snapshot) == ["core/date"]


async def test_a_model_switch_is_told_and_starts_no_epoch() -> None:
    """CTX-120, CTX-110, CTX-003: an update, or a removal when it is no longer stated; never a replacement."""
    generation = await first(model(ModelRef(id="m1", provider_id="p", variant="high")))
    assert generation.baseline == model_module.BASELINE.format("p", "m1")
    entry = generation.snapshot["core/model"]
    assert bytes(entry.value) == b'{"providerID":"p","modelID":"m1"}'
    assert await told(model(ModelRef(id="m1", provider_id="p")), generation.snapshot) is None
    other = model(ModelRef(id="a/b", provider_id="q"))
    assert await told(other, generation.snapshot) == model_module.UPDATE.format("q", "a/b")
    assert await told(combine([]), generation.snapshot) == model_module.REMOVED
