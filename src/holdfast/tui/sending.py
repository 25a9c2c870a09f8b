"""Sends what a person wrote, in order. A prompt whose receipt was lost is sent again with the same id, so that it is
admitted once however often the connection breaks."""

from __future__ import annotations

import asyncio
import base64
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from holdfast.client.errors import ClientError
from holdfast.schema.prompt import FileInput

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.tui.paste import Image

T = TypeVar("T")

FIRST_PAUSE = 0.25
LONGEST_PAUSE = 8.0
PATIENCE_SECONDS = 600.0
"""For how long a prompt is sent again. After that it is put back into the composer."""


async def until_received(
    send: Callable[[], Awaitable[T]],
    *,
    waiting: Callable[[float], None] = lambda seconds: None,
    patience: float = PATIENCE_SECONDS,
) -> T:
    """Send until the server has answered. `send` has the same id each time. `waiting` is called with the pause before
    another attempt. Raises what the server refuses at once, and the last failure of the connection in the end."""
    deadline = time.monotonic() + patience
    pause = FIRST_PAUSE
    while True:
        try:
            return await send()
        except ClientError as error:
            if error.reason != "Transport" or time.monotonic() + pause > deadline:
                raise
        waiting(pause)
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


def attachments(images: tuple[Image, ...], *, elsewhere: bool) -> tuple[FileInput, ...]:
    """Images as the server gets them: by path, or as data for a server on another machine. Raises OSError."""
    return tuple(FileInput(uri=_uri(image, elsewhere=elsewhere), name=Path(image.path).name) for image in images)


def _uri(image: Image, *, elsewhere: bool) -> str:
    path = Path(image.path)
    if not elsewhere:
        path.stat()
        return path.as_uri()
    return f"data:{image.mime};base64,{base64.b64encode(path.read_bytes()).decode()}"
