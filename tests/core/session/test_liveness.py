"""Which processes live: by a lock on a file, and by a lock on a database server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.core.session.liveness import SETTLING_SECONDS, FileLiveness, ServerLiveness

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


async def test_a_lock_on_a_file_says_who_lives(tmp_path: Path) -> None:
    """STO-100"""
    one, other = FileLiveness(tmp_path), FileLiveness(tmp_path)
    assert not other.lives("own_a", None)
    await one.hold("own_a")
    await one.hold("own_a")
    assert other.lives("own_a", None)
    await one.release("own_a")
    assert not other.lives("own_a", None)
    assert list(tmp_path.iterdir()) == []


class Server:
    """Stands in for the connection that holds the lock."""

    def __init__(self) -> None:
        self.held: int | None = None
        self.seconds: float | None = None

    async def hold(self, number: int) -> None:
        self.held = number

    async def release(self) -> None:
        self.held = None

    def lost(self) -> float | None:
        return self.seconds


async def test_a_lock_on_the_server_has_the_number_of_its_owner() -> None:
    """STO-100: a number of 64 bits, the same wherever it is computed."""
    server = Server()
    liveness = ServerLiveness(server)
    await liveness.hold("own_a")
    number = server.held
    assert number == liveness.number("own_a") != liveness.number("own_b")
    assert number is not None
    assert -(2**63) <= number < 2**63
    await liveness.release("own_a")
    assert server.held is None


async def test_who_has_connected_again_judges_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-101: what ended one connection may have ended others; and a server that starts cannot tell."""
    monkeypatch.setattr("holdfast.core.session.liveness.SETTLING_SECONDS", SETTLING_SECONDS)
    server = Server()
    liveness = ServerLiveness(server)
    assert not liveness.lives("own_a", 0)
    assert liveness.lives("own_a", None)
    assert liveness.lives("own_a", 1)
    server.seconds = 0.0
    assert liveness.lives("own_a", 0)
    server.seconds = SETTLING_SECONDS + 1
    assert not liveness.lives("own_a", 0)
