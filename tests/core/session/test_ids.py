"""How ids are made, and which ones are taken from callers."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import msgspec
import pytest
from tests.conftest import ManualClock

from holdfast.core.clock import Ids, SystemClock
from holdfast.schema.codec import decoder
from holdfast.schema.ids import EventIDField, MessageIDField, SessionIDField, is_session_id

SHAPE = re.compile(r"[a-z]{3}_([0-9a-f]{12})[0-9A-Za-z]{14}")
MASK = (1 << 48) - 1


def stamp(id: str) -> int:
    """The 48-bit value that an id encodes."""
    match = SHAPE.fullmatch(id)
    assert match is not None, id
    return int(match[1], 16)


def test_an_id_encodes_its_moment_and_a_counter_that_starts_anew(ids: Ids, clock: ManualClock) -> None:
    """SES-001: milliseconds times 4096 plus a counter from 1, cut to 48 bits, then 14 random characters."""
    first, second = ids.message(), ids.message()
    clock.advance(1)
    third = ids.message()
    moment = clock.now() - 1
    assert [stamp(id) for id in (first, second, third)] == [
        value & MASK for value in (moment * 4096 + 1, moment * 4096 + 2, (moment + 1) * 4096 + 1)
    ]
    assert first[-14:] != second[-14:]


def test_each_kind_has_its_prefix_and_direction(ids: Ids, clock: ManualClock) -> None:
    """SES-002: messages, events and jobs ascend; a newer Session sorts first because its value is inverted."""
    session = ids.session()
    assert stamp(session) == ~(clock.now() * 4096 + 1) & MASK
    makers: dict[str, Callable[[], str]] = {"msg_": ids.message, "evt_": ids.event, "job_": lambda: ids.of("job")}
    for prefix, make in makers.items():
        made = []
        for _ in range(5):
            clock.advance(1)
            made.append(make())
        assert all(id.startswith(prefix) for id in made)
        assert made == sorted(made)
    sessions = []
    for _ in range(5):
        clock.advance(1)
        sessions.append(ids.session())
    assert all(id.startswith("ses_") for id in sessions)
    assert sessions == sorted(sessions, reverse=True)


def test_ten_thousand_ids_of_one_moment_are_unique_and_in_order(ids: Ids) -> None:
    """SES-001: also when one millisecond holds more ids than the counter can count."""
    made = [ids.message() for _ in range(10_000)]
    assert len(set(made)) == len(made)
    assert made == sorted(made)


def test_ids_stay_in_order_when_the_clock_runs_back(ids: Ids, clock: ManualClock) -> None:
    """SES-001: IDs made in one process sort in creation order."""
    made = [ids.event()]
    clock.advance(-5_000)
    made += [ids.event() for _ in range(3)]
    clock.advance(5_001)
    made.append(ids.event())
    assert made == sorted(made)


def test_two_processes_do_not_make_the_same_id(clock: ManualClock) -> None:
    """SES-001: at the same moment only the random tail tells them apart."""
    one, other = Ids(clock, random.Random(1)), Ids(clock, random.Random(2))
    assert {one.message() for _ in range(100)}.isdisjoint({other.message() for _ in range(100)})


def test_the_system_clock_counts_milliseconds_and_slugs_are_readable() -> None:
    """SES-006: a slug for people; times are integer milliseconds since 1970."""
    assert 1_600_000_000_000 < SystemClock().now() < 10_000_000_000_000
    assert re.fullmatch(r"[a-z]+-[a-z]+", Ids(SystemClock()).slug())


@pytest.mark.parametrize(
    ("field", "taken", "refused"),
    [
        (SessionIDField, ["ses_1", "ses", "session-7"], ["", "msg_1", "xses_1"]),
        (MessageIDField, ["msg_1", "msg_"], ["msg", "message", "ses_1", "xmsg_1"]),
        (EventIDField, ["evt_1"], ["evt", "event", "msg_1", "xevt_1"]),
    ],
)
def test_an_id_from_a_caller_needs_only_its_prefix(field: object, taken: list[str], refused: list[str]) -> None:
    """SES-002: a Session id must begin with `ses`, a message id with `msg_`, an event id with `evt_`; no more."""
    reading = decoder(field)
    for id in taken:
        assert reading.decode(msgspec.json.encode(id)) == id
    for id in refused:
        with pytest.raises(msgspec.ValidationError):
            reading.decode(msgspec.json.encode(id))


def test_the_checks_in_code_agree_with_the_decoders() -> None:
    """SES-002."""
    assert is_session_id("ses-anything")
    assert not is_session_id("msg_1")
