"""The Session as its drain last read it: taken from memory only while nobody else has committed."""

from __future__ import annotations

import pytest
from tests.core.conftest import Pair

from holdfast.core.event import signal
from holdfast.core.runner.session_cache import SessionCache
from holdfast.core.runtime.runtime import Runtime
from holdfast.schema.prompt import Prompt
from holdfast.schema.session_event import Synthetic

pytestmark = pytest.mark.anyio


async def test_a_commit_of_another_process_between_two_own_ones_is_noticed(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-083: its signal has not arrived yet, but the next own commit leaves a gap in the sequence."""
    monkeypatch.setattr(signal, "POLL_SECONDS", 60)
    session_id = pair.session.id

    async def commit(runtime: Runtime, name: str) -> bool:
        """Whether the cache is valid after it."""
        note = Synthetic(timestamp=1, session_id=session_id, message_id=f"msg_{name}", text=name)
        cache.committed(await runtime.log.publish(note))
        return cache.valid

    with pair.a.log.signals.follow(session_id) as flag:
        cache = SessionCache(pair.a.store, session_id, flag)
        await cache.read()
        await commit(pair.a, "first")
        assert [cache.valid] == [True], "an own commit alone does not make it read again"
        await pair.b.sessions.prompt(session_id, Prompt(text="meanwhile"), resume=False)
        await commit(pair.a, "second")
        assert [cache.valid] == [False], "the commit of the other process was passed over"
        assert (await cache.read()).steer
