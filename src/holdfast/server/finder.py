"""Finds paths that resemble a text. Matches in the name rank first, then in the path, then letters in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from holdfast.protocol.files import FileEntry

if TYPE_CHECKING:
    from collections.abc import Iterable

Kind = Literal["file", "directory"]


def best_matches(text: str, files: Iterable[str], kind: Kind | None, limit: int) -> list[FileEntry]:
    """Directories are the parents of the files; their paths end with a slash."""
    wanted = text.casefold()
    paths = set(files)
    if kind != "file":
        directories = {above for path in paths for above in _above(path)}
        paths = directories if kind == "directory" else paths | directories
    ranked = sorted((rank, len(path), path) for path in paths if (rank := _rank(wanted, path.casefold())) is not None)
    return [FileEntry(path=path, type="directory" if path.endswith("/") else "file") for _, _, path in ranked[:limit]]


def _above(path: str) -> Iterable[str]:
    end = path.find("/")
    while end >= 0:
        yield path[: end + 1]
        end = path.find("/", end + 1)


def _rank(wanted: str, path: str) -> int | None:
    if wanted in path.rstrip("/").rpartition("/")[2]:
        return 0
    if wanted in path:
        return 1
    letters = iter(path)
    return 2 if all(letter in letters for letter in wanted) else None
