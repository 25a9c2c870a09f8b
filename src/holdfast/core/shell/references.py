"""Finds directories outside the working directory that a command names. Advice for the person who approves it, not a
security check: a command can access files without naming them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.core.filesystem.canonical import contains
from holdfast.core.shell.grammar import LONGEST_BYTES
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.core.shell.script import Script, Word

MOST_DIRECTORIES = 20
LONGEST_PATH = 4096
STREAMS = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"})
"""Devices that stand for no directory: nothing is kept there."""


def external_directories(script: Script, workdir: Path, home: str) -> tuple[str, ...]:
    """In order of appearance, without duplicates. Only the beginning of an opaque script is searched."""
    found: dict[str, None] = {}
    for text, is_directory in (*_mentions(script), *(_tokens(script.text) if script.opaque else ())):
        path = _absolute(text, home)
        if path is not None and path not in STREAMS and not contains(str(workdir), path):
            found[path if is_directory else os.path.dirname(path)] = None
    return tuple(found)[:MOST_DIRECTORIES]


def _mentions(script: Script) -> Iterator[tuple[str, bool]]:
    """Words that may be paths, and whether they must be directories."""
    for one in script.commands:
        enters = bool(one.words) and one.words[0].value in ("cd", "pushd")
        for word in one.words[1:]:
            yield _unquoted(word), enters
            option, equals, value = word.source.partition("=")
            if equals and option.startswith("-"):
                yield value.strip("\"'"), False
    for word in (*script.outputs, *script.inputs):
        yield _unquoted(word), False


def _unquoted(word: Word) -> str:
    return word.value if word.value is not None else word.source.strip("\"'")


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Words of text that the grammar does not accept."""
    for token in _TOKEN.findall(text[:LONGEST_BYTES]):
        yield token.rstrip(";,|&").strip("\"'"), False


def _absolute(text: str, home: str) -> str | None:
    if not text.startswith("/"):
        text = _HOME.sub(lambda found: home, text)
    if not text.startswith("/") or len(text) > LONGEST_PATH or _DYNAMIC.search(text):
        return None
    return os.path.normpath(text).replace("//", "/")


_TOKEN = pattern(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""")
_HOME = pattern(r"^(?:~|\$HOME|\$\{HOME\})(?=/|$)")
_DYNAMIC = pattern(r"[\0$`]")
