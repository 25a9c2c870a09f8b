"""Path patterns with `*`, `?`, `**` and `{a,b}`, expanded to the files that match, sorted by path."""

from __future__ import annotations

import os
import re
import stat
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from holdfast.core.context.file_cache import NOT_FOUND_ERRNOS
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.context.file_cache import FileCache

ALTERNATIVE_LIMIT = 256
DIRECTORY_LIMIT = 10_000
MATCH_LIMIT = 10_000
SEGMENT_LIMIT = 100


class PatternTooWide(Exception):
    """A pattern exceeds one of the limits above."""


def is_pattern(path: str) -> bool:
    return any(mark in path for mark in "*?{")


class Walk:
    """Expands patterns below a directory. `**` does not follow links to directories. Directories for which `inside` is
    false are not listed."""

    def __init__(self, files: FileCache, inside: Callable[[str], bool] = lambda directory: True) -> None:
        self._files = files
        self._inside = inside
        self.directories = 0
        """How many were listed."""
        self.forbidden: list[str] = []
        """Directories matched by a wildcard that this user may not list."""

    def matches(self, start: str, pattern: str) -> list[str]:
        """Raises OSError if a directory that the pattern names literally cannot be listed, and PatternTooWide."""
        found: set[str] = set()
        for alternative in alternatives(pattern):
            segments = [segment for segment in alternative.split("/") if segment]
            segments = [segment for last, segment in pairwise(["", *segments]) if (last, segment) != ("**", "**")]
            if len(segments) > SEGMENT_LIMIT:
                raise PatternTooWide(f"more than {SEGMENT_LIMIT} segments")
            for path in self._below(start, segments) if segments else ():
                found.add(path)
                if len(found) > MATCH_LIMIT:
                    raise PatternTooWide(f"more than {MATCH_LIMIT} files")
        return sorted(found)

    def _below(self, directory: str, segments: list[str], *, met: bool = False) -> Iterator[str]:
        """`met`: a wildcard led to this directory; the pattern does not name it."""
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
        elif error.errno not in NOT_FOUND_ERRNOS:
            raise error


def alternatives(pattern: str) -> list[str]:
    """The pattern with every `{a,b}` expanded, from left to right. An unclosed brace is literal."""
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
