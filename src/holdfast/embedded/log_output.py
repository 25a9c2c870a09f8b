"""The log of a server on standard error: one line for each record, as text or as JSON.

Invariants
- A record is one line: control characters, line breaks of any kind and lone surrogates are escaped.
- An exception is told by its type and the places in the code. Its message may quote a file or a prompt, so that it is
  written only at the level `debug`."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

from holdfast.core.config.logs import configured_logs
from holdfast.core.observe.log_context import FIELDS, log_context

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.config.logs import LogSettings

FRAMES = 30
"""Of a traceback, the innermost so many."""
VALUE_CHARACTERS = 2_000
_BARE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:@%+,;~#$*()[]")


def set_up_logs(**given: str | None) -> Callable[[str], None]:
    """Write the log as these options, the environment and the user's configuration say. Returns a function that tells
    the person who started the server something: with JSON as a record, otherwise as it is."""
    chosen = {name: value for name, value in given.items() if value is not None}
    settings = configured_logs(os.environ).replace(**chosen)
    configure_logs(settings)
    if settings.format == "json":
        return logging.getLogger("holdfast.serve").warning
    return lambda line: print(line, file=sys.stderr, flush=True)  # noqa: T201 - a person reads it


def configure_logs(settings: LogSettings) -> None:
    """Write records of Holdfast from this level on, and warnings of other libraries, replacing what was set up
    before."""
    level = logging.getLevelName(settings.level.upper())
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter((JsonLines if settings.format == "json" else TextLines)(messages=level <= logging.DEBUG))
    root = logging.getLogger()
    for old in tuple(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(max(level, logging.WARNING))
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("holdfast.")]:
        own = logging.getLogger(name)
        own.handlers.clear()
        own.propagate = True
        own.setLevel(logging.NOTSET)
    logging.getLogger("holdfast").setLevel(level)
    if level >= logging.WARNING:  # the start says in one line that something does not count
        logging.getLogger("holdfast.core.config").setLevel(logging.ERROR)
    logging.captureWarnings(True)


class _Lines(logging.Formatter):
    def __init__(self, *, messages: bool) -> None:
        """`messages`: the messages of exceptions are written too."""
        super().__init__()
        self._messages = messages

    def format(self, record: logging.LogRecord) -> str:
        return self.line(
            {
                "time": _timestamp(record.created),
                "level": record.levelname.lower(),
                "logger": record.name,
                "message": record.getMessage()[:VALUE_CHARACTERS],
                **self._fields(record),
            }
        )

    def line(self, fields: dict[str, Any]) -> str:
        raise NotImplementedError

    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if (context := log_context()) is not None:
            found["session"] = context.session_id
            if context.turn is not None:
                found["turn"] = context.turn
        found |= getattr(record, FIELDS, {})
        if record.exc_info and (error := record.exc_info[1]) is not None:
            found |= self._exception(error)
        return found

    def _exception(self, error: BaseException) -> dict[str, Any]:
        frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]
        told: dict[str, Any] = {"exception": f"{type(error).__module__}.{type(error).__qualname__}"}
        if self._messages:
            told["exception_message"] = str(error)[:VALUE_CHARACTERS]
        told["frames"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        return told


class JsonLines(_Lines):
    def line(self, fields: dict[str, Any]) -> str:
        return json.dumps(fields, default=str)  # ASCII only: everything else is escaped


class TextLines(_Lines):
    def line(self, fields: dict[str, Any]) -> str:
        when, level, logger, message = (fields.pop(name) for name in ("time", "level", "logger", "message"))
        rest = "".join(f" {name}={_shown(value)}" for name, value in fields.items())
        return f"{when} {level} {logger}: {_one_line(message)}{rest}"


def _timestamp(seconds: float) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{int(seconds * 1000) % 1000:03d}Z"


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, default=str)
    text = str(value)[:VALUE_CHARACTERS]
    return text if text and _BARE.issuperset(text) else json.dumps(text)


def _one_line(text: str) -> str:
    """With everything escaped that is not printable; letters of all scripts stay."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
