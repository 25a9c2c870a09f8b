"""The page's stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.clock import SystemClock
from holdfast.schema.codec import encode
from holdfast.schema.version import __version__

if TYPE_CHECKING:
    from holdfast.core.runtime.runtime import Runtime
    from holdfast.server.types import Frames
    from holdfast.server.web.stream_ends import StreamEnd


async def frames(runtime: Runtime, session_id: str | None, after: int | None, ended: StreamEnd) -> Frames:
    """`ended` is set when the sign-in of the reader has ended."""
    yield _frame({"type": "hello", "version": __version__, "now": SystemClock().now()})
    await ended.wait()
    yield _frame({"type": "bye", "reason": "signed-out"})


def _frame(content: dict[str, object]) -> bytes:
    return b"data: " + encode(content) + b"\n\n"
