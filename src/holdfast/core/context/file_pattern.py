"""Path patterns with `*`, `?`, `**` and `{a,b}`: which files match right now, in the order of their paths."""

from __future__ import annotations

import os
import re
import stat
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from holdfast.core.context.file_cache import ABSENT
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.context.file_cache import FileCache

ALTERNATIVE_LIMIT = 256
DIRECTORY_LIMIT = 10_000
FILE_LIMIT = 10_000
SEGMENT_LIMIT = 100


class PatternTooWide(Exception):
    """A pattern with more alternatives, or over more files, than anyone needs for instructions."""


def is_pattern(path: str) -> bool:
    return any(mark in path for mark in "*?{")


class Walk:
    """Expands patterns below a directory. Directories that are links are entered by name, never by `**`; those for
    which `inside` does not hold are not looked into at all."""

    def __init__(self, files: FileCache, inside: Callable[[str], bool] = lambda directory: True) -> None:
        self._files = files
        self._inside = inside
        self.directories = 0
        """How many were looked into."""
        self.forbidden: list[str] = []
        """Those that a wildcard met and that may not be listed."""

    def matches(self, start: str, pattern: str) -> list[str]:
        """Raises OSError for a directory that the pattern names and that cannot be listed, PatternTooWide for a
        hopeless pattern."""
        found: set[str] = set()
        for alternative in alternatives(pattern):
            segments = [segment for segment in alternative.split("/") if segment]
            segments = [segment for last, segment in pairwise(["", *segments]) if (last, segment) != ("**", "**")]
            if len(segments) > SEGMENT_LIMIT:
                raise PatternTooWide(f"more than {SEGMENT_LIMIT} segments")
            for path in self._below(start, segments) if segments else ():
                found.add(path)
                if len(found) > FILE_LIMIT:
                    raise PatternTooWide(f"more than {FILE_LIMIT} files")
        return sorted(found)

    def _below(self, directory: str, segments: list[str], *, met: bool = False) -> Iterator[str]:
        """`met`: it was found on the way, and not named."""
        segment, rest = segments[0], segments[1:]
        if segment == "**":
            yield from self._anywhere(directory, rest or ["*"], met=met)
        elif not is_pattern(segment):
            path = os.path.join(directory, segment)
            if rest:
                yield from self._below(path, rest, met=met)
            elif self._is_file(path, met=met):
                yield path
        else:
            fits = _compiled(segment)
            for name, kind in self._children(directory, met=met):
                if fits.fullmatch(name) is None:
                    continue
                path = os.path.join(directory, name)
                if rest:
                    if kind in ("directory", "link"):
                        yield from self._below(path, rest, met=True)
                elif kind == "file" or (kind == "link" and self._is_file(path, met=True)):
                    yield path

    def _anywhere(self, directory: str, rest: list[str], *, met: bool) -> Iterator[str]:
        waiting = [(directory, met)]
        while waiting:
            current, met = waiting.pop()
            yield from self._below(current, rest, met=met)
            children = self._children(current, met=met)
            waiting += [(os.path.join(current, name), True) for name, kind in children if kind == "directory"]

    def _children(self, directory: str, *, met: bool) -> tuple[tuple[str, str], ...]:
        self.directories += 1
        if self.directories > DIRECTORY_LIMIT:
            raise PatternTooWide(f"more than {DIRECTORY_LIMIT} directories")
        try:
            return self._files.children(directory) if self._inside(directory) else ()
        except OSError as error:
            self._pass_over(error, directory, met=met)
            return ()

    def _is_file(self, path: str, *, met: bool) -> bool:
        try:
            return stat.S_ISREG(os.stat(path).st_mode)
        except OSError as error:
            self._pass_over(error, os.path.dirname(path), met=met)
            return False

    def _pass_over(self, error: OSError, directory: str, *, met: bool) -> None:
        if isinstance(error, PermissionError) and met:
            self.forbidden.append(directory)
        elif error.errno not in ABSENT:
            raise error


def alternatives(pattern: str) -> list[str]:
    """`{a,b}` spelled out, from left to right; an unclosed brace stands for itself."""
    done: list[str] = []
    todo = [pattern]
    while todo:
        current = todo.pop(0)
        match = _BRACES.search(current)
        if match is None:
            done.append(current)
        else:
            todo[:0] = [current[: match.start()] + choice + current[match.end() :] for choice in match[1].split(",")]
        if len(done) + len(todo) > ALTERNATIVE_LIMIT:
            raise PatternTooWide(f"more than {ALTERNATIVE_LIMIT} alternatives")
    return list(dict.fromkeys(done))


@lru_cache(maxsize=256)
def _compiled(segment: str) -> re.Pattern[str]:
    parts = {"*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(parts.get(mark) or re.escape(mark) for mark in segment), re.DOTALL)


# The innermost group first, so that groups may be nested.
_BRACES = pattern(r"\{([^{}]*)\}")
