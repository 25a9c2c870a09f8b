"""When streams of a sign-in or token end."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

import pytest

from holdfast.server.stream_ends import StreamEnds

pytestmark = pytest.mark.anyio


async def test_a_stream_that_opens_during_a_look_at_the_tokens_does_not_end_with_it() -> None:
    """OPS-305: its token may be newer than what the look has seen."""
    looking, looked = asyncio.Event(), asyncio.Event()

    async def valid() -> set[str]:
        looking.set()
        await looked.wait()
        return {"old"}

    ends = StreamEnds(valid, lambda notify: nullcontext())
    try:
        old, gone = ends.open("old"), ends.open("gone")
        await looking.wait()
        new = ends.open("new")
        looked.set()
        await gone.wait()
        assert (old.is_set(), new.is_set()) == (False, False)
    finally:
        await ends.close()
