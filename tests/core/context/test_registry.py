"""The registry of a Location: who contributes, in which order, for how long."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import ManualClock
from tests.core.context.conftest import Fact, of, steps

from holdfast.core.context import configured, remote
from holdfast.core.context.date import date
from holdfast.core.context.environment import environment
from holdfast.core.context.errors import DuplicateContributionError, DuplicateKeyError, InvalidKeyError
from holdfast.core.context.file_cache import FileCache
from holdfast.core.context.instructions import InstructionFiles
from holdfast.core.context.metrics import Metrics
from holdfast.core.context.model import model
from holdfast.core.context.registry import SystemContextRegistry
from holdfast.core.context.system_context import EMPTY, SystemContext, combine, initialize, make, observe
from holdfast.core.project.project import Project
from holdfast.core.scope import Scope
from holdfast.schema.location import Location
from holdfast.schema.model import ModelRef

pytestmark = pytest.mark.anyio


async def baseline(registry: SystemContextRegistry) -> str:
    return initialize(await observe(registry.compose())).baseline


async def test_contributions_are_combined_by_key_whatever_ends_first() -> None:
    """CTX-072, CTX-004: all are loaded at once; ascending code points, not registration or completion order."""
    registry, scope = SystemContextRegistry(), Scope()
    started: list[str] = []

    async def load(key: str, turns: int) -> str:
        started.append(key)
        await steps(1)
        assert len(started) == 4
        await steps(turns)
        return "v0"

    for key, turns in (("plugin/p/z", 0), ("core/b", 5), ("core/a-b", 1), ("core/a", 9)):
        registry.register(key, Fact(key, load(key, turns)).context, scope)
    assert await baseline(registry) == "a is v0\n\na-b is v0\n\nb is v0\n\np/z is v0"


async def test_a_contribution_ends_with_its_scope() -> None:
    """CTX-070, CTX-077: what is gone is noticed at the next load, and the key may be used again."""
    registry, scope = SystemContextRegistry(), Scope()
    registry.register("core/a", lambda: Fact("core/a").context(), scope)
    assert await baseline(registry) == "a is v0"
    scope.close()
    assert await baseline(registry) == ""
    dispose = registry.register("core/a", lambda: Fact("core/a", "again").context(), Scope())
    assert await baseline(registry) == "a is again"
    dispose()
    assert await baseline(registry) == ""


async def test_keys_are_checked_at_once() -> None:
    """CTX-071: the grammar of source keys, and one contribution per key."""
    registry, scope = SystemContextRegistry(), Scope()
    registry.register("core/a", lambda: EMPTY, scope)
    with pytest.raises(DuplicateContributionError, match="Duplicate system context entry key"):
        registry.register("core/a", lambda: EMPTY, scope)
    with pytest.raises(InvalidKeyError):
        registry.register("builtins", lambda: EMPTY, scope)


async def test_every_load_asks_every_producer_again() -> None:
    """CTX-073: no memory; the same source key from two contributions fails the load."""
    registry, scope = SystemContextRegistry(), Scope()
    fact = Fact("core/x")
    asked: list[str] = []

    def load() -> SystemContext:
        asked.append("x")
        return fact.context()

    registry.register("core/one", load, scope)
    registry.compose()
    registry.compose()
    assert asked == ["x", "x"]
    registry.register("core/two", fact.context, scope)
    with pytest.raises(DuplicateKeyError):
        registry.compose()


async def test_a_defect_of_a_producer_is_raised() -> None:
    """CTX-013: the load fails before anything is observed."""
    registry = SystemContextRegistry()

    def broken() -> SystemContext:
        raise LookupError("producer")

    fact = Fact("core/a")
    registry.register("core/a", fact.context, Scope())
    registry.register("core/b", broken, Scope())
    with pytest.raises(LookupError):
        registry.compose()
    assert fact.loads == 0


async def test_the_wait_for_a_contribution_is_recorded_once() -> None:
    """CTX-215: under the contribution's key, for the slowest of its sources; what is immediate is not recorded."""
    registry, scope, metrics = SystemContextRegistry(), Scope(), Metrics()
    registry.register("core/group", lambda: of(Fact("core/a"), Fact("core/b")), scope)
    immediate = Fact("core/c").source().replace(immediate=True)
    registry.register("core/immediate", lambda: make(immediate), scope)
    await observe(combine([registry.compose(), of(Fact("app/own"))]), metrics)
    durations = metrics.read()["context.observe.duration"]
    assert {key: series["times"] for key, series in durations.items()} == {"": 1, "core/group": 1, "app/own": 1}
    assert durations[""]["total"] >= durations["core/group"]["total"]


async def test_the_order_of_a_whole_context(tmp_path: Path, clock: ManualClock) -> None:
    """CTX-074, CTX-075, CTX-076, CTX-147: environment, date, ambient, configured, remote, plugins; then what depends
    on the Session."""
    (tmp_path / "AGENTS.md").write_text("ambient", encoding="utf-8")
    (tmp_path / "more.md").write_text("configured", encoding="utf-8")
    files = InstructionFiles(tmp_path, tmp_path, tmp_path / "none", FileCache(), {})
    entries = [configured.ConfiguredEntry("more.md", tmp_path, "user")]
    named = configured.ConfiguredInstructions(entries, files, FileCache(), tmp_path)
    project = Project("id", tmp_path, None)
    registry, scope = SystemContextRegistry(), Scope()
    registry.register("plugin/p/x", Fact("plugin/p/x").context, scope)
    registry.register(remote.CONTRIBUTION, Fact("core/instructions/remote/0").context, scope)
    registry.register(configured.CONTRIBUTION, named.context, scope)
    registry.register("core/instructions", files.ambient, scope)
    builtins = combine([environment(Location(directory=str(tmp_path)), project), date(clock)])
    registry.register("core/builtins", lambda: builtins, scope)
    context = combine(
        [
            registry.compose(),
            model(ModelRef(id="m", provider_id="p")),
            of(Fact("core/skill-guidance")),
            of(Fact("core/reference-guidance")),
            of(Fact("core/instructions/nested")),
        ]
    )
    assert list(initialize(await observe(context)).snapshot) == [
        "core/environment",
        "core/date",
        "core/instructions",
        "core/instructions/configured",
        "core/instructions/remote/0",
        "plugin/p/x",
        "core/model",
        "core/skill-guidance",
        "core/reference-guidance",
        "core/instructions/nested",
    ]
