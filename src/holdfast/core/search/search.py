"""Searches a directory: files by a glob, newest first; lines by a regular expression, in path order.

Invariants
- The engine works by paths, which may lead elsewhere meanwhile, so its results are only claims. A file is returned if
  it can be reached from the directory without following a link, a line if the file that is reached so has it.
- The engine decides what is ignored; the caller's glob filters its results, so it never adds files.
- Results do not depend on the engine's threads. A search with very many matches is repeated in path order, which gives
  the first matches quickly."""

from __future__ import annotations

import asyncio
import os
import re
import stat
import sys
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.filesystem.canonical import printable
from holdfast.core.filesystem.location_path import SPECIAL
from holdfast.core.filesystem.open_tree import OpenTree
from holdfast.core.process.process import Capture, ProcessError
from holdfast.core.process.which import which
from holdfast.core.run_to_completion import run_to_completion
from holdfast.core.search.query import Query
from holdfast.core.search.verification import verify_matches
from holdfast.schema.deferred import deferred
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from holdfast.core.filesystem.own_folders import Identity, Use
    from holdfast.core.process.process import Processes, ProcessExit
    from holdfast.core.search import match as matching
    from holdfast.core.search.glob import Glob
    from holdfast.core.search.match import Match, MatchReader
else:
    matching = deferred("holdfast.core.search.match")

MOST_RESULTS = 10_000
MOST_BYTES = 8 * 1024 * 1024
TIMEOUT_SECONDS = 30.0
ERROR_BYTES = 8 * 1024
FALLBACK = "holdfast.core.search.fallback"
NO_FOLDERS: Mapping[Identity, Use] = MappingProxyType({})


class InvalidPattern(HoldfastError):
    """The engine cannot parse the regular expression; the message is the engine's."""


class SearchFailed(HoldfastError):
    """The engine could not search."""


class FileResults(Frozen):
    paths: list[str]
    total: int
    partial: bool
    """Whether the search timed out."""


class LineResults(Frozen):
    matches: list[Match]
    cut: bool
    partial: bool
    changed: int = 0
    """How many files with matches are left out, because they have these lines no more."""


class Search:
    """Runs ripgrep, or the Python engine if `ripgrep`, the path of the binary, is None."""

    def __init__(
        self,
        processes: Processes,
        environment: Mapping[str, str],
        ripgrep: str | None,
        *,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        self._processes = processes
        self._environment = environment
        self._ripgrep = ripgrep
        self._timeout = timeout

    async def files(
        self, directory: Path, glob: Glob, limit: int, *, own: Mapping[Identity, Use] = NO_FOLDERS
    ) -> FileResults:
        """`directory` has no links in its path; `own` are folders that may not be searched (OwnFolders)."""
        with _opened(directory, own) as tree:
            reader = _FileReader(tree, glob, limit)
            ended, error = await self._run(Query(hidden=glob.hidden), directory, tree, reader)
        if ended.cause == "exit" and ended.code not in (0, 1) and not reader.seen:
            raise SearchFailed(error)
        return FileResults(reader.newest(), reader.total, ended.cause == "timeout")

    async def lines(
        self,
        directory: Path,
        pattern: str,
        limit: int,
        *,
        name: str | None = None,
        include: str | None = None,
        keep: Callable[[str], bool],
        own: Mapping[Identity, Use] = NO_FOLDERS,
    ) -> LineResults:
        """`keep` is called once per file with matches and tells whether to return them."""
        query = Query(pattern=pattern, name=name, hidden=True, names=_file_names(include))
        with _opened(directory, own) as tree:

            def reachable(path: str) -> bool:
                return tree.status(path) is not None and keep(printable(path))

            reader = matching.MatchReader(reachable, MOST_RESULTS, MOST_BYTES)
            ended = await self._match(query, directory, tree, reader)
            if reader.enough:
                reader = matching.MatchReader(reachable, limit + 1, MOST_BYTES)
                ended = await self._match(msgspec.structs.replace(query, ordered=True), directory, tree, reader)
            matches = sorted(reader.matches, key=lambda match: match.order)
            cut = len(matches) > limit or reader.enough
            verified = await run_to_completion(asyncio.to_thread(verify_matches, tree, matches[:limit]))
        changed = len({match.path for match in matches[:limit]} - {match.path for match in verified})
        verified = [match._replace(path=printable(match.path)) for match in verified]
        return LineResults(verified, cut, ended.cause == "timeout", changed)

    async def _match(self, query: Query, directory: Path, tree: OpenTree, reader: MatchReader) -> ProcessExit:
        ended, error = await self._run(query, directory, tree, reader)
        if ended.cause == "exit" and not (reader.complete or reader.enough):
            if re.search(r"regex parse error|error parsing|regex could not|compiled regex exceeds", error):
                raise InvalidPattern(error.strip())
            raise SearchFailed(error.strip() or f"it ended with code {ended.code}")
        return ended

    async def _run(
        self, query: Query, directory: Path, tree: OpenTree, reader: Callable[[bytes], bool]
    ) -> tuple[ProcessExit, str]:
        command = _fallback(query) if self._ripgrep is None else _ripgrep(self._ripgrep, query, directory)
        errors = Capture(ERROR_BYTES)
        try:
            ended = await self._processes.run(
                command,
                cwd=tree.working_directory,
                environment=self._environment,
                output=reader,
                error=errors,
                timeout=self._timeout,
            )
        except ProcessError as problem:
            raise SearchFailed(problem.cause or str(problem)) from problem
        return ended, errors.text()


def find_ripgrep(environment: Mapping[str, str]) -> str | None:
    """The binary installed with this package, or one in PATH. Never downloads it."""
    beside = which("rg", os.path.dirname(sys.executable))
    return beside or which("rg", environment.get("PATH"))


def _ripgrep(binary: str, query: Query, directory: Path) -> Sequence[str]:
    command = [binary, "--no-config", "--no-ignore-global", "--color=never", "--glob=!.git"]
    if directory.parent == directory:
        command += [f"--glob=!{path}" for path in SPECIAL]
    if query.hidden:
        command.append("--hidden")
    if query.names is not None:
        # `--type` respects ignore rules; `--glob` would override them.
        command += [f"--type-add=named:{query.names}", "--type=named"]
    if query.ordered:
        command.append("--sort=path")
    command += ["--files", "--null"] if query.pattern is None else ["--json"]
    command.append("--")
    if query.pattern is not None:
        command.append(query.pattern)
    return [*command, "./" if query.name is None else f"./{query.name}"]


def _fallback(query: Query) -> Sequence[str]:
    return [sys.executable, "-I", "-m", FALLBACK, msgspec.json.encode(query).decode()]


def _file_names(include: str | None) -> str | None:
    """The glob, if it matches names only and has the same meaning in the engine."""
    return include if include is not None and re.fullmatch(r"[\w.*?{},-]+", include) else None


class _FileReader:
    """An output sink for NUL-separated paths that keeps the newest files."""

    def __init__(self, tree: OpenTree, glob: Glob, limit: int) -> None:
        self.seen = 0
        self.total = 0
        self._tree = tree
        self._glob = glob
        self._limit = limit
        self._pending = b""
        self._found: list[tuple[int, str]] = []

    def __call__(self, chunk: bytes) -> bool:
        *paths, self._pending = (self._pending + chunk).split(b"\0")
        self.seen += len(paths)
        for raw in paths:
            path = os.fsdecode(raw).removeprefix("./")
            if self._glob.matches(path) and (status := self._tree.status(path)) and stat.S_ISREG(status.st_mode):
                self.total += 1
                self._found.append((-status.st_mtime_ns, os.fsencode(path).decode("utf-8", "replace")))
        if len(self._found) > 4 * self._limit + 1000:
            self._trim()
        return True

    def newest(self) -> list[str]:
        self._trim()
        return [path for _, path in self._found]

    def _trim(self) -> None:
        self._found.sort()
        del self._found[self._limit :]


@contextmanager
def _opened(directory: Path, own: Mapping[Identity, Use]) -> Iterator[OpenTree]:
    try:
        tree = OpenTree(directory, own)
    except OSError as error:
        raise SearchFailed(f"{directory} cannot be opened: {error.strerror}") from error
    with tree:
        yield tree
