"""What `holdfast run` sends with its prompt: files, standard input and the schema of the answer."""

from __future__ import annotations

import base64
import os
import stat
import sys
from typing import Any

import click

STDIN = "-"
STDIN_NAME = "stdin"
STDIN_BYTES = 32 * 1024 * 1024
ATTACHED_BYTES = 11 * 1024 * 1024
"""The largest content that fits into a prompt as data."""
FIRST_BYTE_SECONDS = 3.0
"""How long a pipe that was not asked for may take to deliver something: its other end may never be closed."""
NOT_UTF8 = "the prompt is not valid UTF-8"
NOTHING_CAME = (
    f"nothing came from standard input within {FIRST_BYTE_SECONDS:g} s: going on without it; --file - waits for it"
)


class Attached:
    """The content of a file, read by this process."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self.data = data

    @property
    def uri(self) -> str:
        kind = "text/plain" if _is_text(self.data) else "application/octet-stream"
        return f"data:{kind};base64,{base64.b64encode(self.data).decode()}"


def read_prompt() -> str:
    """The prompt from standard input, up to the largest size that a server accepts."""
    return _text(_read_all(STDIN_BYTES, "PROMPT"))


def read_piped() -> bytes:
    """What standard input brings although nobody asked for it: the content of a pipe or a file."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return b""
    if stat.S_ISFIFO(mode) and not _arrives():
        click.echo(NOTHING_CAME, err=True)
        return b""
    return _read_all(STDIN_BYTES, "PROMPT") if stat.S_ISFIFO(mode) or stat.S_ISREG(mode) else b""


def piped_prompt() -> str:
    return _text(read_piped())


def attached_stdin(data: bytes | None = None) -> Attached:
    """Standard input as a file; `data` was read already."""
    data = _read_all(ATTACHED_BYTES, "--file") if data is None else data
    if len(data) > ATTACHED_BYTES:
        raise click.BadParameter(_too_large("standard input"), param_hint="--file")
    return Attached(STDIN_NAME, data)


def attached_file(path: str) -> Attached:
    """A file whose content is sent, because the server may be on another machine."""
    if os.path.isdir(path):
        raise click.BadParameter(f"{path} is a directory; a server elsewhere cannot read it", param_hint="--file")
    with open(path, "rb") as file:
        data = file.read(ATTACHED_BYTES + 1)
    if len(data) > ATTACHED_BYTES:
        raise click.BadParameter(_too_large(path), param_hint="--file")
    return Attached(path, data)


def read_schema(path: str) -> dict[str, Any]:
    """The JSON Schema of the answer."""
    import json

    try:
        with open(path, encoding="utf-8") as file:
            schema = json.load(file)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"{path} is not JSON: {error}", param_hint="--format") from None
    if not isinstance(schema, dict):
        raise click.BadParameter(f"{path} is not a JSON Schema: it is no object", param_hint="--format")
    return schema


def _arrives() -> bool:
    import select

    return bool(select.select([sys.stdin.fileno()], [], [], FIRST_BYTE_SECONDS)[0])


def _read_all(limit: int, option: str) -> bytes:
    data = sys.stdin.buffer.read(limit + 1)
    if len(data) > limit:
        what = "the prompt" if option == "PROMPT" else "standard input"
        raise click.BadParameter(f"{what} is larger than {limit // 1024**2} MiB", param_hint=option)
    return data


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise click.BadParameter(NOT_UTF8, param_hint="PROMPT") from None


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _too_large(name: str) -> str:
    return f"{name} is larger than {ATTACHED_BYTES // 1024**2} MiB"
