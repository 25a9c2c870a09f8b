"""How long something works."""

from __future__ import annotations

from holdfast.core.work_time import measuring, not_working


class Clock:
    time = 0

    def now(self) -> int:
        return self.time

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError


def test_waiting_is_no_work() -> None:
    """SES-372: waits that overlap count once, and the time until now counts while a wait goes on."""
    clock = Clock()
    with measuring(clock) as time:
        clock.time += 10
        with not_working():
            clock.time += 100
            assert time.worked == 10
            with not_working():
                clock.time += 100
        clock.time += 5
        assert time.worked == 15
        clock.time -= 50
        assert time.worked == 0  # a clock may be set back
    with not_working():
        clock.time += 1
