"""When an owner counts as stopped."""

from __future__ import annotations

import pytest

from holdfast.core.session import heartbeats
from holdfast.core.session.heartbeats import EXPIRY_SECONDS, WATCHED_SECONDS, Heartbeats

HOUR = 3_600_000


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(heartbeats, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_a_step_of_the_clock_takes_nothing_from_a_living_owner(time: list[float], step: int) -> None:
    """STO-104, OPS-455: an owner reports every two seconds; whoever looks has a clock that is an hour off, for as long
    as one likes."""
    looking = Heartbeats()
    for second in range(0, 120, 2):
        time[0] += 2
        beat = second * 1000
        assert not looking.stopped("own_1", beat, step)


def test_an_owner_that_reports_no_more_is_stopped(time: list[float]) -> None:
    """STO-104: after its report is old and has stayed the newest for a while."""
    looking, old = Heartbeats(), int(EXPIRY_SECONDS * 1000)
    assert not looking.stopped("own_1", 5, old - 1)
    assert not looking.stopped("own_1", 5, old)
    time[0] += WATCHED_SECONDS - 0.1
    assert not looking.stopped("own_1", 5, old + 5900)
    time[0] += 0.2
    assert looking.stopped("own_1", 5, old + 6100)
    assert not looking.stopped("own_1", 6, old + 6100)
