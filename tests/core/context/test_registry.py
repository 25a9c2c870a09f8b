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
from holdfast.core.context.model import model
from holdfast.core.context.registry import SystemContextRegistry, compose
from holdfast.core.context.system_context import EMPTY, SystemContext, combine, initialize, observe
from holdfast.core.project.project import Project
from holdfast.core.scope import Scope
from holdfast.schema.location import Location
from holdfast.schema.model import ModelRef

pytestmark = pytest.mark.anyio


async def baseline(registry: SystemContextRegistry) -> str:
    return initialize(await observe(await compose([registry.load]))).baseline


async def test_contributions_are_combined_by_key_whatever_ends_first() -> None:
    """CTX-072, CTX-004: all are asked at once; ascending code points, not registration or completion order."""
    registry, scope = SystemContextRegistry(), Scope()
    started: list[str] = []

    def producer(key: str, turns: int) -> None:
        async def load() -> SystemContext:
            started.append(key)
            await steps(1)
            assert len(started) == 4
            await steps(turns)
            return Fact(key).context()

        registry.register(key, load, scope)

    for key, turns in (("plugin/p/z", 0), ("core/b", 5), ("core/a-b", 1), ("core/a", 9)):
        producer(key, turns)
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
    await compose([registry.load])
    await compose([registry.load])
    assert asked == ["x", "x"]
    registry.register("core/two", fact.context, scope)
    with pytest.raises(DuplicateKeyError):
        await compose([registry.load])


async def test_a_defect_of_a_producer_is_raised() -> None:
    """CTX-013: the load fails before anything is observed."""
    registry = SystemContextRegistry()

    async def broken() -> SystemContext:
        raise LookupError("producer")

    fact = Fact("core/a")
    registry.register("core/a", fact.context, Scope())
    registry.register("core/b", broken, Scope())
    with pytest.raises(LookupError):
        await compose([registry.load])
    assert fact.loads == 0


async def test_the_order_of_a_whole_context(tmp_path: Path, clock: ManualClock) -> None:
    """CTX-074, CTX-075, CTX-076, CTX-147: environment, date, ambient, configured, remote, plugins; then what depends
    on the Session."""
    (tmp_path / "AGENTS.md").write_text("ambient", encoding="utf-8")
    (tmp_path / "more.md").write_text("configured", encoding="utf-8")
    files = InstructionFiles(tmp_path, tmp_path, tmp_path / "none", FileCache(), {})
    entries = [configured.Entry("more.md", tmp_path, True)]
    named = configured.ConfiguredInstructions(entries, files, FileCache(), tmp_path)
    project = Project("id", tmp_path, None)
    registry, scope = SystemContextRegistry(), Scope()
    registry.register("plugin/p/x", Fact("plugin/p/x").context, scope)
    registry.register(remote.CONTRIBUTION, Fact("core/instructions/remote/0").context, scope)
    registry.register(configured.CONTRIBUTION, named.load, scope)
    registry.register("core/instructions", files.ambient, scope)
    builtins = combine([environment(Location(directory=str(tmp_path)), project), date(clock)])
    registry.register("core/builtins", lambda: builtins, scope)
    context = await compose(
        [
            registry.load,
            lambda: model(ModelRef(id="m", provider_id="p")),
            lambda: of(Fact("core/skill-guidance")),
            lambda: of(Fact("core/reference-guidance")),
            lambda: of(Fact("core/instructions/nested")),
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
