"""What people may see of a stored epoch, and the numbers beside it."""

from __future__ import annotations

import msgspec
import pytest
from tests.conftest import ManualClock
from tests.core.context.conftest import Drained, Fact
from tests.core.event.samples import SES

from holdfast.core.context.metrics import SERIES_LIMIT, SESSION_LIMIT, Growth, Metrics
from holdfast.core.context.source import UNAVAILABLE
from holdfast.core.context.view import ContextSummary, request_context, summary
from holdfast.schema.model import ModelRef
from holdfast.schema.turn_event import PrefixBreak, TurnDispatched

pytestmark = pytest.mark.anyio


async def test_a_session_without_an_epoch_says_so(drained: Drained) -> None:
    """CTX-202: an explicit result, not an empty baseline."""
    view = await request_context(drained.epochs, drained.database, SES)
    assert msgspec.to_builtins(view) == {"status": "not initialized"}


async def test_the_stored_epoch_is_shown_without_observing(drained: Drained, clock: ManualClock) -> None:
    """CTX-202: baseline, sources with value, size and state, what was told, and recorded prefix breaks."""
    a, fixed, gone = Fact("core/a", [1]), Fact("core/fixed", removable=False), Fact("core/gone")
    never = Fact("core/never", UNAVAILABLE, optional=True)
    epoch = await drained.initialize(a, fixed, gone, never)
    began = clock.now()
    model = ModelRef(id="m", provider_id="p")
    causes: tuple[PrefixBreak, ...] = ("new epoch", "tool change")
    for broke in (None, causes):
        await drained.log.publish(
            TurnDispatched(
                timestamp=1,
                session_id=SES,
                agent="build",
                model=model,
                attempt=1,
                baseline_seq=0,
                checkpoint_seq=-1,
                pruned_seq=-1,
                tools="",
                system="",
                controls="",
                last_step=False,
                broke=broke,
            )
        )
    clock.advance(5)
    fixed.lose()
    await drained.prepare(epoch, a, fixed, never)
    loads = [fact.loads for fact in (a, fixed, gone, never)]
    view = msgspec.json.decode(msgspec.json.encode(await request_context(drained.epochs, drained.database, SES)))
    assert [fact.loads for fact in (a, fixed, gone, never)] == loads
    assert view == {
        "status": "initialized",
        "baseline": "a is [1]\n\nfixed is v0\n\ngone is v0",
        "baselineSeq": 0,
        "sources": [
            {"key": "core/a", "value": [1], "bytes": 3, "removable": True, "state": {"type": "current"}},
            {
                "key": "core/fixed",
                "value": "v0",
                "bytes": 4,
                "removable": False,
                "state": {"type": "unavailable", "since": began + 5},
            },
            {"key": "core/gone", "bytes": 0, "removable": False, "state": {"type": "removed", "since": began + 5}},
            {"key": "core/never", "bytes": 0, "removable": False, "state": {"type": "unavailable", "since": began}},
        ],
        "changes": [{"seq": 3, "keys": ["core/gone"]}],
        "prefixBreaks": [{"seq": 2, "causes": ["new epoch", "tool change"]}],
    }


async def test_metrics_count_sizes_keys_and_durations_only(drained: Drained, metrics: Metrics) -> None:
    """CTX-200, CTX-201: every named series exists after these boundaries, and no content is in them."""
    a, lost = Fact("core/a", "secret-0"), Fact("core/lost", "secret-lost")
    epoch = await drained.initialize(a, lost)
    a.value = "secret-1"
    epoch = await drained.prepare(epoch, a, lost)
    a.value = "secret-22"
    lost.lose()
    epoch = await drained.prepare(epoch, a, lost)
    read = metrics.read()
    sizes = [len("a is now secret-1"), len("a is now secret-22")]
    assert read["context.baseline.bytes"][""] == {
        "times": 1,
        "total": len(epoch.baseline),
        "largest": len(epoch.baseline),
    }
    assert read["context.update.bytes"][""] == {"times": 2, "total": sum(sizes), "largest": max(sizes)}
    assert read["context.updates.count"][""]["largest"] == 2
    assert read["context.updates.bytes"][""]["largest"] == sum(sizes)
    assert read["context.source.unavailable"]["core/lost"]["times"] == 1
    assert read["context.observe.duration"][""]["times"] == 3
    assert "secret" not in repr(read)


async def test_a_session_can_be_looked_at_for_debugging(drained: Drained, metrics: Metrics) -> None:
    """CTX-201: keys, sizes, availability, the baseline's place and how the last boundary ended."""
    a, lost = Fact("core/a"), Fact("core/lost")
    epoch = await drained.initialize(a, lost)
    assert summary(epoch, metrics).outcome == "initialized"
    a.value = "v1"
    epoch = await drained.prepare(epoch, a, lost)
    lost.lose()
    epoch = await drained.prepare(epoch, a, lost)
    assert summary(epoch, metrics) == ContextSummary(
        baseline_bytes=len("a is v0\n\nlost is v0"),
        baseline_seq=0,
        updates=1,
        update_bytes=len("a is now v1"),
        outcome="unchanged",
        sources={"core/a": (4, "current"), "core/lost": (4, "unavailable")},
    )


def test_metrics_keep_a_bounded_number_of_keys_and_sessions() -> None:
    """CTX-201: more keys than anyone needs are counted together; the oldest Session is forgotten."""
    metrics = Metrics()
    for number in range(SERIES_LIMIT + 5):
        metrics.record("context.source.unavailable", 1, f"core/{number}")
    series = metrics.read()["context.source.unavailable"]
    assert len(series) == SERIES_LIMIT + 1
    assert series["other"]["times"] == 5
    for number in range(SESSION_LIMIT + 1):
        metrics.began(f"ses_{number}", "initialized", "")
    assert metrics.of_session("ses_0") == Growth()
    assert metrics.of_session("ses_1").outcome == "initialized"
