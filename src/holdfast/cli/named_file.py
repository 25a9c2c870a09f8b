"""Files that a person names on the command line."""

from __future__ import annotations

import os
import stat
from typing import Any

import click

FILE = "{path} is neither a file nor a directory; opening it could wait for ever. Copy what it gives to a file first."
OPENED = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Pipes that the shell has opened for this process, as for `<(…)`. They have a writer."""


class NamedFile(click.Path):
    """A path of a file or a directory. Pipes, sockets and devices are refused before anybody opens them; with
    `piped`, a pipe that was opened for this process is as good as a file."""

    def __init__(self, *, piped: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self._piped = piped

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        path = super().convert(value, parameter, context)
        if not (self._piped and str(value).startswith(OPENED)) and not _is_usable(value):
            self.fail(FILE.format(path=click.format_filename(value)), parameter, context)
        return path


def _is_usable(path: str | os.PathLike[str]) -> bool:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return True  # missing, or unusable for another reason, which opening it names
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)
