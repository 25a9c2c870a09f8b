"""Plugin sources: whatever their code does, the turn goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from tests.core.context.conftest import Fact, of

from holdfast.core.context.errors import InvalidPluginSourceError
from holdfast.core.context.plugin import plugin_namespace, plugin_source, register_plugin_source
from holdfast.core.context.registry import SystemContextRegistry
from holdfast.core.context.snapshot import Snapshot
from holdfast.core.context.source import UNAVAILABLE, JsonCodec, Source, constant
from holdfast.core.context.system_context import (
    ReplacementBlocked,
    ReplacementReady,
    SystemContext,
    Unchanged,
    Updated,
    combine,
    initialize,
    make,
    observe,
    reconcile,
    replace,
)
from holdfast.core.scope import Scope

pytestmark = pytest.mark.anyio

KEY = "plugin/acme/weather"


class Told(list[tuple[str, str]]):
    def __call__(self, key: str, message: str) -> None:
        self.append((key, message))


@pytest.fixture
def diagnosed() -> Told:
    return Told()


def source(load: Callable[[], Any], **renderers: Any) -> Source[Any]:
    given: dict[str, Any] = {
        "baseline": lambda value: f"It is {value}",
        "update": lambda _, value: f"It is now {value}",
        "removed": lambda _: "Gone",
    }
    return Source(key=KEY, codec=JsonCodec(str), load=load, **(given | renderers))


async def outcome_of(context: SystemContext, stored: str = "{}") -> Any:
    return reconcile(await observe(context), Snapshot.decode(stored))


def test_a_plugin_speaks_only_for_itself(diagnosed: Told) -> None:
    """CTX-160: keys begin with the slug of its id; `core/` and other plugins are refused."""
    assert plugin_namespace("@Acme/Weather Tools") == "plugin/acme-weather-tools/"
    for key in ("core/weather", "plugin/other/weather", "plugin/acme-2/weather", "acme/weather"):
        fact = Fact(key)
        with pytest.raises(InvalidPluginSourceError):
            plugin_source("acme", fact.source(), diagnosed)
    assert plugin_source("Acme", Fact(KEY).source(), diagnosed).key == KEY
    with pytest.raises(InvalidPluginSourceError):
        plugin_namespace("///")


def test_a_removal_text_is_required(diagnosed: Told) -> None:
    """CTX-161: without it unloading would force a new baseline."""
    with pytest.raises(InvalidPluginSourceError, match="removal"):
        plugin_source("acme", Fact(KEY, removable=False).source(), diagnosed)


async def raising() -> str:
    raise RuntimeError("secret text")


async def cancelled() -> str:
    raise asyncio.CancelledError


def raising_at_once() -> str:
    raise RuntimeError("secret text")


def boom(*_: Any) -> str:
    raise RuntimeError("secret text")


@pytest.mark.parametrize(
    "load", [raising, raising_at_once, cancelled, constant(5), constant(object()), lambda: "at once"]
)
async def test_a_failing_observation_is_unavailable_with_a_diagnostic(diagnosed: Told, load: Any) -> None:
    """CTX-163: exceptions, own cancellations and values that cannot be stored; nothing blocks, nothing is said."""
    context = make(plugin_source("acme", source(load), diagnosed))
    generation = initialize(await observe(combine([of(Fact("core/a")), context])))
    assert generation.baseline == "a is v0"
    assert await outcome_of(context, f'{{"{KEY}":{{"value":"sunny","removed":"Gone"}}}}') == Unchanged()
    assert len(diagnosed) == 2
    assert all(key == KEY and "secret" not in message for key, message in diagnosed)


async def test_a_source_that_says_so_itself_is_unavailable_without_a_diagnostic(diagnosed: Told) -> None:
    """CTX-163, CTX-012: it is the plugin's own answer."""
    context = make(plugin_source("acme", source(constant(UNAVAILABLE)), diagnosed))
    assert initialize(await observe(context)).baseline == ""
    assert diagnosed == []


async def test_a_plugin_that_ignores_its_cancellation_is_not_waited_for(diagnosed: Told) -> None:
    """CTX-163, CTX-021: the bound holds even then, and a diagnostic says so."""
    release = asyncio.Event()
    ended = asyncio.Event()

    async def stubborn() -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        ended.set()
        return "late"

    isolated = plugin_source("acme", source(stubborn), diagnosed, timeout=0.01)
    async with asyncio.timeout(5):
        ((_, value),) = await observe(make(isolated))
    assert value is UNAVAILABLE
    assert diagnosed == [(KEY, "did not answer within 0.01 s")]
    release.set()
    await ended.wait()


@pytest.mark.parametrize("broken", [boom, lambda *_: "", lambda *_: None])
async def test_a_failing_rendering_is_unavailable_too(diagnosed: Told, broken: Any) -> None:
    """CTX-163: whichever renderer fails, the source is left out, or keeps what was admitted."""
    stored = f'{{"{KEY}":{{"value":"rain","removed":"Gone"}}}}'
    for kind in ("baseline", "update", "removed"):
        context = make(plugin_source("acme", source(constant("sunny"), **{kind: broken}), diagnosed))
        if kind != "update":
            assert initialize(await observe(context)).baseline == ""
            assert await outcome_of(context) == Unchanged()
            assert replace(await observe(context), Snapshot.decode(stored)) == ReplacementBlocked((KEY,))
        if kind != "baseline":
            assert await outcome_of(context, stored) == Unchanged()
    assert {key for key, _ in diagnosed} == {KEY}


async def test_a_reload_is_seen_whole_and_an_equal_value_says_nothing(diagnosed: Told) -> None:
    """CTX-162, CTX-044: closing the scope removes; replacing without awaiting shows either set; equal is silent."""
    registry, scope = SystemContextRegistry(), Scope()
    register_plugin_source(registry, "acme", source(constant("sunny")), scope, diagnosed)
    stored = initialize(await observe(registry.compose())).snapshot.encode()

    scope.close()
    again = Scope()
    register_plugin_source(registry, "acme", source(constant("sunny"), removed=lambda _: "New text"), again, diagnosed)
    assert await outcome_of(registry.compose(), stored) == Unchanged()

    again.close()
    outcome = await outcome_of(registry.compose(), stored)
    assert isinstance(outcome, Updated)
    assert outcome.text == "Gone"


async def test_plugin_text_follows_core_text(diagnosed: Told) -> None:
    """CTX-160: the contribution key is the source's key."""
    registry, scope = SystemContextRegistry(), Scope()
    register_plugin_source(registry, "acme", source(constant("sunny")), scope, diagnosed)
    registry.register("core/zzz", Fact("core/zzz").context, scope)
    assert initialize(await observe(registry.compose())).baseline == "zzz is v0\n\nIt is sunny"


async def test_waiting_for_a_plugin_is_bounded_whatever_it_returns(diagnosed: Told) -> None:
    """CTX-163: a future of its own, or something that only looks as if it could be awaited."""

    class Pretender:
        def __init__(self) -> None:
            self.__await__ = None

    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    given: Any
    for given in (future, Pretender()):
        isolated = plugin_source("acme", source(partial(_itself, given)), diagnosed, timeout=0.01)
        ((_, value),) = await observe(make(isolated))
        assert value is UNAVAILABLE
    assert diagnosed == [
        (KEY, "did not answer within 0.01 s"),
        (KEY, "has a load function that is not asynchronous"),
    ]


async def test_a_stored_value_that_a_newer_plugin_cannot_read_replaces_the_baseline(diagnosed: Told) -> None:
    """CTX-163, CTX-113: whatever its codec raises, the turn goes on."""

    class Strict(JsonCodec[str]):
        def __init__(self) -> None:
            super().__init__(str)
            self.decode = self._known

        def _known(self, data: Any) -> str:
            return {b'"sunny"': "sunny"}[bytes(data)]

    given = source(constant("sunny")).replace(codec=Strict())
    context = make(plugin_source("acme", given, diagnosed))
    outcome = await outcome_of(context, f'{{"{KEY}":{{"value":"rain","removed":"Gone"}}}}')
    assert isinstance(outcome, ReplacementReady)
    assert outcome.generation.baseline == "It is sunny"


def _itself(given: Any) -> Any:
    return given
