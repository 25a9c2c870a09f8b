"""The output of a running command as it is announced."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core.tool.live_output import LIVE_CHARACTERS, NO_MORE, LiveOutput

pytestmark = pytest.mark.anyio


class Sides:
    """Takes what goes to the sink and what is announced."""

    def __init__(self) -> None:
        self.kept = bytearray()
        self.announced: list[str] = []
        self.live = LiveOutput(self._keep, self.announced.append)

    def _keep(self, chunk: bytes) -> bool:
        self.kept += chunk
        return True


async def test_the_first_chunk_is_announced_at_once_and_the_rest_together() -> None:
    """SES-286: characters that are cut between chunks are put together."""
    sides = Sides()
    for chunk in (b"one\n", "ü".encode()[:1], "ü".encode()[1:], b" two"):
        assert sides.live(chunk)
    assert sides.announced == ["one\n"]
    sides.live.close()
    assert sides.announced == ["one\n", "ü two"]
    assert sides.kept.decode() == "one\nü two"


async def test_what_collects_is_announced_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """SES-286."""
    monkeypatch.setattr("holdfast.core.tool.live_output.EVERY_SECONDS", 0.001)
    announced: list[str] = []
    both = asyncio.Event()

    def announce(text: str) -> None:
        announced.append(text)
        if len(announced) == 2:
            both.set()

    live = LiveOutput(lambda chunk: True, announce)
    live(b"one")
    live(b"two")
    await both.wait()
    assert announced == ["one", "two"]
    live.close()


async def test_beyond_the_limit_only_the_sink_gets_more() -> None:
    """SES-286: one line says so."""
    sides = Sides()
    for _ in range(3):
        sides.live(b"x" * LIVE_CHARACTERS)
    sides.live.close()
    assert "".join(sides.announced) == "x" * LIVE_CHARACTERS + NO_MORE
    assert len(sides.kept) == 3 * LIVE_CHARACTERS


async def test_a_chunk_after_the_end_is_refused() -> None:
    """SES-288: whatever wrote it is ended."""
    sides = Sides()
    sides.live.close()
    assert not sides.live(b"late")
    assert (sides.announced, bytes(sides.kept)) == ([], b"")
