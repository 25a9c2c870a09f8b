"""Counting committed events."""

from __future__ import annotations

import logging

import pytest

from holdfast.core.observe.families import OTHER, SERIES, Counter, Family
from holdfast.core.observe.observer import Observer
from holdfast.core.observe.open_work import MOST, OpenWork
from holdfast.llm.errors import LLMError
from holdfast.schema import session_event as ev
from holdfast.schema.model import ModelRef
from holdfast.schema.record import Record
from holdfast.schema.session import CacheTokens, Tokens
from holdfast.schema.session_message import UnknownError
from holdfast.schema.turn_event import TurnAbandoned, TurnDispatched

MODEL = ModelRef(id="m", provider_id="mock")
USED = Tokens(input=10, output=5, reasoning=2, cache=CacheTokens(read=80, write=3))
HERE = ev.Provider(executed=False)


def dispatched(at: int = 1000, session: str = "ses_1") -> TurnDispatched:
    return TurnDispatched(
        timestamp=at,
        session_id=session,
        agent="build",
        model=MODEL,
        attempt=1,
        baseline_seq=0,
        checkpoint_seq=-1,
        pruned_seq=-1,
        tools="",
        system="",
        controls="",
        last_step=False,
    )


def ended(at: int = 3000, session: str = "ses_1") -> ev.StepEnded:
    return ev.StepEnded(
        timestamp=at, session_id=session, assistant_message_id="msg_1", finish="stop", cost=0.25, tokens=USED
    )


def values(*events: Record) -> dict[str, float]:
    observer = Observer()
    observer.committed(events, 0.004)
    return {
        f"{name}{''.join(f'|{text}' for _, text in labels)}": value
        for _, samples in observer.counters.read()
        for name, labels, value in samples
    }


def test_a_turn_is_counted_with_its_model_tokens_cost_and_time() -> None:
    found = values(dispatched(), ended())
    assert found["holdfast_turns_total|ended|mock|m"] == 1
    assert found["holdfast_tokens_total|input|turn|mock|m"] == 10
    assert found["holdfast_tokens_total|cache_read|turn|mock|m"] == 80
    assert found["holdfast_cost_dollars_total|turn|mock|m"] == 0.25
    assert found["holdfast_turn_seconds_bucket|1.0"] == 0
    assert found["holdfast_turn_seconds_bucket|2.5"] == 1
    assert found["holdfast_turn_seconds_sum"] == 2.0
    assert found["holdfast_commit_seconds_bucket|0.005"] == found["holdfast_commit_seconds_count"] == 1


def test_turns_that_fail_or_are_abandoned_are_told_apart() -> None:
    failed = ev.StepFailed(
        timestamp=2, session_id="ses_1", assistant_message_id="msg_1", error=UnknownError(message="no")
    )
    abandoned = TurnAbandoned(timestamp=2, session_id="ses_2", reason="it did not fit")
    found = values(dispatched(), failed, dispatched(session="ses_2"), abandoned)
    assert found["holdfast_turns_total|failed|mock|m"] == found["holdfast_turns_total|abandoned|mock|m"] == 1
    assert not [name for name in found if name.startswith("holdfast_tokens_total")]


def test_the_end_of_a_turn_of_another_process_has_no_model() -> None:
    assert values(ended())["holdfast_turns_total|ended||"] == 1


def test_waits_and_retries_count_with_their_time() -> None:
    retried = ev.Retried(
        timestamp=1000,
        session_id="ses_1",
        attempt=1,
        error=ev.RetryError(message="x", status_code=429, is_retryable=True, metadata={"next": "3500"}),
    )
    found = values(retried)
    assert found["holdfast_provider_retries_total|429"] == 1
    assert found["holdfast_wait_seconds_total|retry"] == 2.5


def test_a_tool_is_known_by_its_call() -> None:
    call = {"timestamp": 1, "session_id": "ses_1", "assistant_message_id": "msg_1", "call_id": "c"}
    called = ev.ToolCalled(tool="bash", input={}, provider=HERE, **call)  # type: ignore[arg-type]
    failed = ev.ToolFailed(error=UnknownError(message="no"), provider=HERE, **call)  # type: ignore[arg-type]
    assert values(called, failed)["holdfast_tool_calls_total|bash|failed"] == 1
    assert values(failed)["holdfast_tool_calls_total|unknown|failed"] == 1


def test_errors_count_by_reason() -> None:
    observer = Observer()
    observer.counters.failed(LLMError("RateLimit", "later"))
    observer.counters.failed(ValueError("what"))
    assert [labels[0][1] for _, labels, _ in observer.counters.errors.samples()] == ["RateLimit", "ValueError"]


def test_labels_are_bounded() -> None:
    counter = Counter(Family("x_total", "counter", "x", ("name",)))
    for number in range(SERIES + 10):
        counter.add(1, f"name{number}")
    found = {labels[0][1]: value for _, labels, value in counter.samples()}
    assert len(found) == SERIES + 1
    assert found[OTHER] == 10


def test_what_never_ends_is_forgotten() -> None:
    work = OpenWork()
    for number in range(MOST + 1):
        work.begin(dispatched(session=f"ses_{number}"))
    assert work.turn("ses_0") is None
    assert work.turn(f"ses_{MOST}") is not None


def test_a_failure_of_the_observer_affects_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    observer = Observer()
    monkeypatch.setattr(observer.counters, "count", lambda event: 1 / 0)
    with caplog.at_level(logging.ERROR):
        observer.committed([ended()], 0.001)
    assert "observing StepEnded" in caplog.text
