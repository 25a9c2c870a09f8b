"""A search engine in Python for hosts without ripgrep. A separate program, so that a search that never ends can be
killed; it prints the same records as ripgrep, in path order."""

from __future__ import annotations

import base64
import os
import re
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.filesystem.location_path import SPECIAL
from holdfast.core.search.gitignore import IgnoreFile
from holdfast.core.search.glob import Glob
from holdfast.core.search.query import Query
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

IGNORE_FILES = (".rgignore", ".ignore", ".gitignore")
SNIFF_BYTES = 64 * 1024
LARGEST_FILE = 64 * 1024 * 1024


def main(arguments: list[str]) -> int:
    query = msgspec.json.decode(arguments[0], type=Query)
    paths: Iterable[str] = walk(query.hidden) if query.name is None else (query.name,)
    if query.names is not None:
        names = Glob(query.names, dots=True)
        paths = (path for path in paths if names.matches(path))
    if query.pattern is None:
        for path in paths:
            _print(os.fsencode(path) + b"\0")
        return 0
    try:
        expression = re.compile(re.sub(r"\(\?<(?=[A-Za-z_])", "(?P<", query.pattern))
    except (re.error, RecursionError, OverflowError) as problem:
        sys.stderr.write(f"regex parse error: {problem}\n")
        return 2
    found = False
    for path in paths:
        for record in search_file(path, expression, explicit=query.name is not None):
            found = True
            _print(msgspec.json.encode(record) + b"\n")
        # Flush now: the search of the next file may never end.
        sys.stdout.buffer.flush()
    _print(b'{"type":"summary"}\n')
    return 0 if found else 1


class Rules(Frozen):
    """The ignore files of one kind, each with its directory, the deepest first."""

    files: tuple[tuple[str, IgnoreFile], ...] = ()

    def ignores(self, path: str, *, directory: bool) -> bool | None:
        for root, file in self.files:
            verdict = file.ignores(os.fsencode(os.path.relpath(path, root)), directory=directory)
            if verdict is not None:
                return verdict
        return None


class Ignored(Frozen):
    kinds: dict[str, Rules]
    in_repository: bool

    def below(self, directory: str) -> Ignored:
        """Add the ignore files of this directory. At the root of a repository, git's rules from outside are dropped."""
        kinds = dict(self.kinds)
        in_repository = self.in_repository
        if os.path.exists(os.path.join(directory, ".git")):
            in_repository = True
            kinds[".gitignore"] = Rules()
            kinds["exclude"] = Rules(_read(directory, ".git/info/exclude"))
        for kind in IGNORE_FILES:
            kinds[kind] = Rules((*_read(directory, kind), *kinds.get(kind, Rules()).files))
        return Ignored(kinds, in_repository)

    def ignores(self, path: str, *, directory: bool) -> bool:
        used = (*IGNORE_FILES, "exclude") if self.in_repository else IGNORE_FILES[:2]
        for kind in used:
            verdict = self.kinds.get(kind, Rules()).ignores(path, directory=directory)
            if verdict is not None:
                return verdict
        return False


def walk(hidden: bool) -> Iterator[str]:
    """Relative paths of files below the working directory. Does not follow links."""
    here = os.getcwd()
    ignored = Ignored({}, in_repository=False)
    ancestors = [here]
    while (above := os.path.dirname(ancestors[-1])) != ancestors[-1]:
        ancestors.append(above)
    for directory in reversed(ancestors[1:]):
        ignored = ignored.below(directory)
    waiting: list[tuple[str, Ignored | None]] = [("", ignored)]
    while waiting:
        path, above_rules = waiting.pop()
        if above_rules is None:
            yield path
            continue
        absolute = os.path.join(here, path) if path else here
        rules = above_rules.below(absolute)
        waiting.extend(reversed(list(_children(path, absolute, rules, hidden))))


def _children(path: str, absolute: str, rules: Ignored, hidden: bool) -> Iterator[tuple[str, Ignored | None]]:
    try:
        entries = sorted(os.scandir(absolute), key=lambda entry: os.fsencode(entry.name))
    except OSError as problem:
        sys.stderr.write(f"{absolute}: {problem.strerror}\n")
        return
    for entry in entries:
        if entry.name == ".git" or entry.path in SPECIAL or (entry.name.startswith(".") and not hidden):
            continue
        is_directory = entry.is_dir(follow_symlinks=False)
        if not is_directory and not entry.is_file(follow_symlinks=False):
            continue
        if not rules.ignores(entry.path, directory=is_directory):
            child = f"{path}/{entry.name}" if path else entry.name
            yield child, rules if is_directory else None


def _read(directory: str, name: str) -> tuple[tuple[str, IgnoreFile], ...]:
    try:
        with open(os.path.join(directory, name), "rb") as file:
            return ((directory, IgnoreFile(file.read())),)
    except OSError:
        return ()


def search_file(path: str, expression: re.Pattern[str], *, explicit: bool) -> Iterator[dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_FILE)
    except OSError as problem:
        sys.stderr.write(f"{path}: {problem.strerror}\n")
        return
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        data = data.decode("utf-16", "replace").encode()
    elif not explicit and b"\0" in data:
        # Search only the lines before the first NUL; none if it is near the beginning.
        zero = data.index(b"\0")
        data = b"" if zero < SNIFF_BYTES else data[: data.rindex(b"\n", 0, zero) + 1 if b"\n" in data[:zero] else 0]
    offset = 0
    for number, raw in enumerate(data.removesuffix(b"\n").split(b"\n") if data else (), start=1):
        line = raw.decode("utf-8", "surrogateescape")
        submatches = [
            {
                "match": _text(os.fsencode(found[0])),
                "start": _bytes(line, found.start()),
                "end": _bytes(line, found.end()),
            }
            for found in expression.finditer(line)
        ]
        if submatches:
            match = {
                "path": _text(os.fsencode(f"./{path}")),
                "lines": _text(raw + (b"\n" if offset + len(raw) < len(data) else b"")),
                "line_number": number,
                "absolute_offset": offset,
                "submatches": submatches,
            }
            yield {"type": "match", "data": match}
        offset += len(raw) + 1


def _bytes(line: str, position: int) -> int:
    return len(line[:position].encode("utf-8", "surrogateescape"))


def _text(raw: bytes) -> dict[str, str]:
    try:
        return {"text": raw.decode("utf-8")}
    except UnicodeDecodeError:
        return {"bytes": base64.b64encode(raw).decode()}


def _print(data: bytes) -> None:
    sys.stdout.buffer.write(data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
