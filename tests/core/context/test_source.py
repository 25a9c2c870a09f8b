"""A Context Source: its key, its codec, what it may observe."""

from __future__ import annotations

import importlib
import pkgutil
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tests.core.context.conftest import Fact, of, seen

from holdfast.core import context as package
from holdfast.core.context.errors import EmptyRenderingError, InvalidKeyError
from holdfast.core.context.snapshot import Snapshot
from holdfast.core.context.source import UNAVAILABLE, JsonCodec, Source, constant
from holdfast.core.context.system_context import (
    Observed,
    Unchanged,
    Updated,
    initialize,
    make,
    observe,
    reconcile,
)

pytestmark = pytest.mark.anyio


class IsoTime:
    """Keeps milliseconds, so that what comes back is coarser than what went in."""

    def encode(self, value: datetime) -> bytes:
        return msgspec.json.encode(f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03}Z")

    def decode(self, data: bytes | msgspec.Raw) -> datetime:
        return datetime.fromisoformat(msgspec.json.decode(data, type=str))


@pytest.mark.parametrize("key", ["core/date", "plugin/x-1.y_z/a/b.c-d", "0/0"])
def test_a_key_names_a_namespace_and_a_thing(key: str) -> None:
    """CTX-011: at least one slash, lower case, digits, dots, dashes, underscores."""
    assert Fact(key).source().key == key


@pytest.mark.parametrize(
    "key", ["date", "Core/date", "core/", "/date", "core/date\n", "core/dáte", "", "core//x", "-/x"]
)
def test_any_other_key_is_refused_at_construction(key: str) -> None:
    """CTX-011: also one with a trailing newline, which a careless pattern lets through."""
    with pytest.raises(InvalidKeyError) as refused:
        Fact(key).source()
    assert refused.value.key == key


@pytest.mark.parametrize("value", [None, 0, "", [], False])
async def test_every_value_of_the_codec_is_a_value_and_only_the_sentinel_is_unavailable(value: Any) -> None:
    """CTX-012: `None` and empty values are admitted; UNAVAILABLE is something else."""
    assert value is not UNAVAILABLE
    generation = initialize(await observe(of(Fact("core/x", value))))
    assert bytes(generation.snapshot["core/x"].value) == msgspec.json.encode(value)
    assert reconcile(await observe(of(Fact("core/x", value))), generation.snapshot) == Unchanged()


async def test_a_defect_of_a_loader_is_raised_as_it_is() -> None:
    """CTX-013: infallible by contract; what is raised is no expected failure."""

    class Broken(Exception):
        pass

    async def load() -> str:
        raise Broken

    source = Source(key="core/x", codec=JsonCodec(str), load=load, baseline=str, update=lambda _, now: now)
    with pytest.raises(Broken):
        await observe(make(source))


async def test_a_context_shows_nothing_of_its_sources() -> None:
    """CTX-014, CTX-010: differently typed sources compose; a context has no public attribute to read them from."""
    number = Source(
        key="core/number",
        codec=JsonCodec(int),
        load=constant(7),
        baseline=lambda it: f"{it}",
        update=lambda _, it: f"{it}",
    )
    context = make(number)
    assert [name for name in dir(context) if not name.startswith("_")] == []
    assert initialize(await observe(context)).baseline == "7"


def test_the_snapshot_has_the_codecs_encoding_not_a_rendering() -> None:
    """CTX-015: a time whose codec is ISO text is stored as canonical text."""
    when = datetime(2026, 6, 3, 12, tzinfo=UTC)
    generation = initialize(seen(Fact("core/when", when, codec=IsoTime())))
    assert msgspec.json.decode(generation.snapshot["core/when"].value) == "2026-06-03T12:00:00.000Z"


def test_spelling_in_the_store_is_no_change() -> None:
    """CTX-016, CTX-002: key order, white space and number spelling are not compared; neither is a rendering."""
    fact = Fact("core/x", {"a": 1.0, "b": 2.0}, codec=JsonCodec(dict[str, float]))
    stored = Snapshot.decode('{"core/x": {"value": { "b" : 2, "a": 1.00 }, "removed": "an older wording"}}')
    assert reconcile(seen(fact), stored) == Unchanged()
    assert fact.rendered == []


def test_a_difference_that_the_codec_drops_is_no_change() -> None:
    """CTX-016: a finer time, or a tuple for a list, equals what the codec would give back."""
    when = datetime(2026, 6, 3, 12, 0, 0, 123_456, tzinfo=UTC)
    for fact in (Fact("core/x", when, codec=IsoTime()), Fact("core/x", ("a", "b"), codec=JsonCodec(list[str]))):
        assert reconcile(seen(fact), initialize(seen(fact)).snapshot) == Unchanged()


def test_renderers_run_only_when_their_text_is_needed() -> None:
    """CTX-017: baseline for a new source, update for a changed one, removal whenever an entry is written."""
    fact = Fact("core/x")
    snapshot = initialize(seen(fact)).snapshot
    assert sorted(fact.rendered) == ["baseline", "removed"]
    fact.rendered.clear()
    assert reconcile(seen(fact), snapshot) == Unchanged()
    assert fact.rendered == []
    fact.value = "v1"
    assert isinstance(reconcile(seen(fact), snapshot), Updated)
    assert sorted(fact.rendered) == ["removed", "update"]


@pytest.mark.parametrize("kind", ["baseline", "update", "removal"])
def test_an_empty_rendering_is_a_defect_that_names_itself(kind: str) -> None:
    """CTX-018: the key and the kind are in the message."""

    def say(which: str) -> str:
        return "" if which == kind else "text"

    source = Source(
        key="core/x",
        codec=JsonCodec(str),
        load=constant("v0"),
        baseline=lambda _: say("baseline"),
        update=lambda _, __: say("update"),
        removed=lambda _: say("removal"),
    )
    stored = Snapshot.decode('{"core/x": {"value": "before", "removed": "r"}}')
    observed = (Observed(source, "v0"),)
    with pytest.raises(EmptyRenderingError, match=f"core/x rendered an empty {kind}"):
        _ = initialize(observed) if kind == "baseline" else reconcile(observed, stored)


def test_retired_names_are_not_exposed() -> None:
    """CTX-001, CTX-007: neither retired terms nor names to avoid stand in the public names of the package."""
    retired = ("component", "checkpoint", "systemprompt", "fragment", "notification", "sessioncontext")
    for found in pkgutil.iter_modules(package.__path__):
        names = dir(importlib.import_module(f"{package.__name__}.{found.name}"))
        squeezed = [name.lower().replace("_", "") for name in (*names, found.name)]
        assert not [name for name in squeezed for word in retired if word in name], found.name
