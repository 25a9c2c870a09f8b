"""Work of a Session between drains that takes no turn: a compaction by hand, a shell command."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.session.errors import Interrupted, LeaseLost
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.core.runner.runner import Runner
    from holdfast.core.session.interrupt import Interrupt
    from holdfast.core.session.ownership import Lease


class _Request(Frozen):
    work: Callable[[Runner, Lease, Interrupt], Awaitable[None]]
    done: asyncio.Future[None]

    def settle(self, error: Exception | None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


class ExclusiveWork:
    def __init__(self) -> None:
        self._requests: dict[str, list[_Request]] = {}

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._requests

    def ask(self, session_id: str, work: Callable[[Runner, Lease, Interrupt], Awaitable[None]]) -> asyncio.Future[None]:
        request = _Request(work, asyncio.get_running_loop().create_future())
        self._requests.setdefault(session_id, []).append(request)
        return request.done

    async def do(self, session_id: str, runner: Runner, lease: Lease, interrupt: Interrupt) -> bool:
        """Do what was asked for, if anything. Its failure belongs to whoever asked, not to the drain."""
        asked = False
        while requests := self._requests.get(session_id):
            asked, request = True, requests[0]
            try:
                await request.work(runner, lease, interrupt)
            except LeaseLost:
                raise  # tried again under another lease
            except Exception as error:  # noqa: BLE001 - the caller's outcome, whatever it is
                request.settle(error)
            else:
                request.settle(None)
            requests.remove(request)
            if not requests:
                self._requests.pop(session_id, None)
            interrupt.check()  # whoever is left hears of it when the interruption is through
        return asked

    def give_up(self, session_id: str, error: Exception | None = None) -> None:
        """Whoever asked hears of the error, or of an interruption."""
        for request in self._requests.pop(session_id, []):
            request.settle(error or Interrupted())

    def give_up_all(self) -> None:
        for session_id in list(self._requests):
            self.give_up(session_id)
