"""The limits of a server: what is refused beyond them, and when there is room again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.core.config.limits import ServerLimits
from holdfast.schema.exceptions import InsufficientStorage, TooManyRequests
from holdfast.server import disk_floor
from holdfast.server.caller import Caller
from holdfast.server.disk_floor import SECONDS, DiskFloor
from holdfast.server.limits import COUNT_SECONDS, CREDENTIALS, RECOUNT_SECONDS, Limiting

pytestmark = pytest.mark.anyio

CI, OTHER = Caller("ci", "read"), Caller("other", "read")
FREE = (Caller("local"), Caller("node"))


class World:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.time = 0.0
        self.sessions = 0
        self.counted = 0

    def limiting(self, **limits: Any) -> Limiting:
        chosen = ServerLimits(**limits)
        disk = DiskFloor(self.folder, chosen.disk_floor_bytes, now=lambda: self.time)
        return Limiting(chosen, disk=disk, count_sessions=self.count, now=lambda: self.time)

    async def count(self) -> int:
        self.counted += 1
        return self.sessions


@pytest.fixture
def here(tmp_path: Path) -> World:
    return World(tmp_path)


def test_each_token_has_a_bucket_that_fills_again(here: World) -> None:
    """OPS-322."""
    limiting = here.limiting(requests_per_second=2, burst=3)
    for _ in range(3):
        limiting.check_rate(CI)
    with pytest.raises(TooManyRequests, match="ci sends more than 2 requests a second") as refused:
        limiting.check_rate(CI)
    assert refused.value.retry_after == 1
    limiting.check_rate(OTHER)
    here.time += 0.5
    limiting.check_rate(CI)
    with pytest.raises(TooManyRequests):
        limiting.check_rate(CI)
    here.time += 1_000
    for _ in range(3):
        limiting.check_rate(CI)
    with pytest.raises(TooManyRequests):
        limiting.check_rate(CI)


def test_refused_requests_do_not_make_the_wait_longer(here: World) -> None:
    """OPS-322: and a slow rate tells how long to wait."""
    limiting = here.limiting(requests_per_second=0.1, burst=1)
    limiting.check_rate(CI)
    for _ in range(100):
        with pytest.raises(TooManyRequests) as refused:
            limiting.check_rate(CI)
        assert refused.value.retry_after == 10
    here.time += 10
    limiting.check_rate(CI)


def test_owners_and_nodes_are_not_counted(here: World) -> None:
    """OPS-322."""
    limiting = here.limiting(requests_per_second=1, burst=1)
    for caller in (*FREE, Caller("password"), Caller("page"), Caller("anyone")):
        for _ in range(10):
            limiting.check_rate(caller)


def test_only_so_many_callers_are_remembered(here: World) -> None:
    """OPS-322."""
    limiting = here.limiting()
    for number in range(CREDENTIALS + 10):
        limiting.check_rate(Caller(f"t{number}", "read"))
    assert len(limiting._buckets) == CREDENTIALS


def test_streams_are_limited_together_and_for_each_token(here: World) -> None:
    """OPS-323: a token cannot take the streams of all others."""
    limiting = here.limiting(followers=40)
    ends = [limiting.follow(CI) for _ in range(2)]
    with pytest.raises(TooManyRequests, match="limit of one token"):
        limiting.follow(CI)
    owner = [limiting.follow(Caller("page")) for _ in range(38)]
    for caller in (OTHER, Caller("password")):
        with pytest.raises(TooManyRequests, match=r"holdfast\.limits\.followers"):
            limiting.follow(caller)
    for caller in FREE:
        limiting.follow(caller)()
    ends[0]()
    limiting.follow(OTHER)()
    limiting.follow(CI)()
    for end in (ends[1], *owner):
        end()
    assert not limiting._followers


async def test_sessions_are_counted_now_and_then(here: World) -> None:
    """OPS-320: what this server adds counts at once, and after a refusal it is counted again soon."""
    limiting = here.limiting(sessions=3)
    here.sessions = 1
    for _ in range(2):
        async with limiting.adding("session"):
            here.sessions += 1
    assert here.counted == 1
    with pytest.raises(InsufficientStorage, match=r"3 Sessions.*Delete some") as refused:
        async with limiting.adding("session"):
            raise AssertionError
    assert refused.value.limit == "sessions"
    async with limiting.adding("input"):
        pass
    here.sessions -= 1
    with pytest.raises(InsufficientStorage):
        async with limiting.adding("session"):
            raise AssertionError
    here.time += RECOUNT_SECONDS
    async with limiting.adding("session"):
        pass
    assert here.counted == 2
    here.time += COUNT_SECONDS
    here.sessions = 0
    async with limiting.adding("session"):
        pass
    assert here.counted == 3


async def test_a_session_that_was_not_created_does_not_count(here: World) -> None:
    """OPS-320."""
    limiting = here.limiting(sessions=1)
    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            async with limiting.adding("session"):
                raise ValueError("no")
    async with limiting.adding("session"):
        pass


async def test_below_the_floor_nothing_new_is_accepted(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """OPS-324: the disk is asked once a second at most."""
    free, asked = 200, 0

    def bytes_left(folder: Path) -> int:
        nonlocal asked
        asked += 1
        return free * 2**20

    monkeypatch.setattr(disk_floor, "_free_bytes", bytes_left)
    limiting = here.limiting()
    for _ in range(3):
        async with limiting.adding("input"):
            pass
    assert asked == 1
    free = 99
    here.time += SECONDS
    with pytest.raises(InsufficientStorage, match="103,809,024 bytes free") as refused:
        async with limiting.adding("input"):
            raise AssertionError
    assert refused.value.limit == "disk_floor_bytes"
    free = 101
    here.time += SECONDS
    async with limiting.adding("session"):
        pass
    async with here.limiting(disk_floor_bytes=0).adding("input"):
        pass


async def test_the_real_disk_is_asked(here: World) -> None:
    """OPS-324: also where the folder does not exist yet."""
    here.folder = here.folder / "not" / "yet"
    with pytest.raises(InsufficientStorage):
        async with here.limiting(disk_floor_bytes=2**60).adding("input"):
            raise AssertionError
