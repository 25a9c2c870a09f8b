"""The image in the clipboard, read with the program that this desktop has for it, and kept as a private file."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.private_files import make_directory
from holdfast.tui.paste import IMAGE_BYTES, PasteRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

SECONDS = 3.0
KEPT = 20
"""Images that are kept; a further one replaces the oldest. A prompt has no more, and is sent soon."""
PNG = b"\x89PNG\r\n\x1a\n"
READERS = (
    ("WAYLAND_DISPLAY", ("wl-paste", "--no-newline", "--type", "image/png")),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-target", "image/png", "-out")),
    (None, ("pngpaste", "-")),
)
"""Programs that write the image, each with the variable of the desktop for which it is."""
NO_READER = "no program reads images of the clipboard here: wl-paste, xclip or pngpaste; drop an image file instead"
NO_IMAGE = "there is no image in the clipboard"


async def clipboard_image(environment: Mapping[str, str], folder: Path | None) -> str:
    """The path of the image, quoted as terminals paste the path of a file. It is kept in `folder`, or until the machine
    starts again. Raises PasteRefused."""
    readers = [
        (found, *arguments)
        for variable, (name, *arguments) in READERS
        if (variable is None or environment.get(variable))
        and (found := shutil.which(name, path=environment.get("PATH"))) is not None
    ]
    if not readers:
        raise PasteRefused(NO_READER)
    for reader in readers:
        data = await _output(reader, environment)
        if len(data) > IMAGE_BYTES:
            raise PasteRefused(f"the image in the clipboard is larger than {IMAGE_BYTES // 1024**2} MiB")
        if data.startswith(PNG):
            return shlex.quote(await asyncio.to_thread(_keep, data, folder))
    raise PasteRefused(NO_IMAGE)


async def _output(command: tuple[str, ...], environment: Mapping[str, str]) -> bytes:
    """What the program writes, up to a little more than an image may have; nothing if it fails or takes too long."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=dict(environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return b""
    assert process.stdout is not None
    data = b""
    try:
        async with asyncio.timeout(SECONDS):
            while len(data) <= IMAGE_BYTES and (piece := await process.stdout.read(1024 * 1024)):
                data += piece
    except TimeoutError:
        data = b""
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    return data


def _keep(data: bytes, state: Path | None) -> str:
    folder = state / "images" if state is not None else Path(tempfile.mkdtemp())
    make_directory(folder)
    older = sorted(folder.glob("clipboard-*.png"), key=lambda path: path.stat().st_mtime_ns)
    for path in older[: max(0, len(older) - KEPT + 1)]:
        path.unlink(missing_ok=True)
    handle, name = tempfile.mkstemp(dir=folder, prefix="clipboard-", suffix=".png")  # mode 0600
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    return name
