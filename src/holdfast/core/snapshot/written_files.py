"""Writes files of a tree into a directory, and removes others, through descriptors.

git would do it by paths, which may lead elsewhere meanwhile. Here each file is reached from the directory that is held
open (filesystem/open_tree.py), so nothing outside is written or removed, whatever is renamed during the work.

Invariants
- A file has the bytes and the mode of the tree, subject to the umask; no filter runs and no line ending changes. A link
  is a link. A file that is the same already is left alone.
- What is in the place of a file is replaced, a directory with all that is in it; what is in the place of its folders
  gives way to folders.
- A reader of a file sees the old or the new content."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from typing import IO, TYPE_CHECKING, NamedTuple

from holdfast.core.filesystem.open_tree import NEW_FILE, NOT_A_DIRECTORY, OpenTree, open_regular, temporary_name
from holdfast.core.process.git import GitFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    RunGit = Callable[..., Awaitable[bytes]]

LINK = "120000"
REGULAR = "100644"
EXECUTABLE = "100755"
SUBMODULE = "160000"
IN_MEMORY = 8 * 1024 * 1024
CHUNK = 1024 * 1024
GIT_DIRECTORY = ".git"
UNUSABLE = "{path} is not a path for a file of a project"
MISSING = "the content of {path} is not in the store"
CUT = "git ended before it had given the content of {path}"


class TreeEntry(NamedTuple):
    mode: str
    blob: str
    path: str


def entries_of(listed: bytes) -> Iterator[TreeEntry]:
    """The entries in the output of `git ls-tree -r -z`."""
    for entry in listed.split(b"\0"):
        if entry:
            about, _, path = entry.partition(b"\t")
            mode, _, blob = about.decode("ascii").split(" ")
            yield TreeEntry(mode, blob, os.fsdecode(path))


def index_entries(listed: bytes) -> Iterator[TreeEntry]:
    """The entries in the output of `git ls-files -s -z`."""
    for entry in listed.split(b"\0"):
        if entry:
            about, _, path = entry.partition(b"\t")
            mode, blob, _ = about.decode("ascii").split(" ")
            yield TreeEntry(mode, blob, os.fsdecode(path))


async def write_files(
    git: RunGit, directory: Path, entries: Sequence[TreeEntry], removed: Sequence[str], *, scratch: Path
) -> None:
    """`git` runs a command with the store of the blobs and a sink for its output; contents that do not fit into memory
    pass through an unnamed file in `scratch`. Raises GitFailed and OSError; then some files may be written."""
    for path in (*(entry.path for entry in entries), *removed):
        _check(path)
    with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY, dir=str(scratch)) as contents:
        if entries:
            sink = _Sink(contents)
            try:
                await git(
                    "cat-file", "--batch", stdin="".join(f"{one.blob}\n" for one in entries).encode(), output=sink
                )
            finally:
                sink.check()
            contents.seek(0)
        await asyncio.to_thread(_write_all, directory, entries, removed, contents)


def copy_files(source: Path, directory: Path, paths: Iterable[str]) -> None:
    """Make these files of a directory as they are in the source; those that are not there are removed. Blocks."""
    with OpenTree(source) as original, OpenTree(directory) as tree:
        for path in paths:
            _check(path)
            found = original.status(path)
            if found is None:
                _remove(tree, path)
            elif stat.S_ISLNK(found.st_mode):
                above, name = original.parent(path)
                text = os.readlink(os.fsencode(name), dir_fd=above)
                _place(tree, path, LINK, io.BytesIO(text), len(text))
            elif (handle := original.open(path)) is not None:
                with os.fdopen(handle, "rb") as file:
                    mode = EXECUTABLE if found.st_mode & stat.S_IXUSR else REGULAR
                    _place(tree, path, mode, file, os.fstat(handle).st_size)


class _Sink:
    """Keeps the output of git. An error of the file is raised by `check`, because a sink may not raise."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._error: OSError | None = None

    def __call__(self, chunk: bytes) -> bool:
        try:
            self._file.write(chunk)
        except OSError as error:
            self._error = error
        return self._error is None

    def check(self) -> None:
        if self._error is not None:
            raise self._error


def _check(path: str) -> None:
    """git refuses such paths in an index, so they are in no tree of ours."""
    if any(part in ("", ".", "..") or part.casefold() == GIT_DIRECTORY for part in path.split("/")):
        raise GitFailed(UNUSABLE.format(path=path))


def _write_all(directory: Path, entries: Iterable[TreeEntry], removed: Iterable[str], contents: IO[bytes]) -> None:
    with OpenTree(directory) as tree:
        for entry in entries:
            _write(tree, entry, contents)
        for path in removed:
            _remove(tree, path)


def _write(tree: OpenTree, entry: TreeEntry, contents: IO[bytes]) -> None:
    head = contents.readline().split()
    if len(head) != 3:
        raise GitFailed((MISSING if head else CUT).format(path=entry.path))
    size = int(head[2])
    start = contents.tell()
    _place(tree, entry.path, entry.mode, contents, size)
    contents.seek(start + size + 1)


def _place(tree: OpenTree, path: str, mode: str, contents: IO[bytes], size: int) -> None:
    """Make a file of the next bytes."""
    start = contents.tell()
    directory, name = tree.parent(path, make=True)
    if _is_same(directory, name, mode, contents, size):
        return
    contents.seek(start)
    temporary = temporary_name()
    try:
        if not _create(directory, temporary, mode, contents, size):
            raise GitFailed(CUT.format(path=path))
        _rename(directory, temporary, name)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise


def _is_same(directory: int, name: str, mode: str, contents: IO[bytes], size: int) -> bool:
    """Whether there is nothing to do. Reads from `contents` only if the sizes are the same."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    if found.st_size != size or mode == LINK or not stat.S_ISREG(found.st_mode):
        return False
    if bool(found.st_mode & stat.S_IXUSR) != (mode == EXECUTABLE):
        return False
    try:
        handle = open_regular(directory, name)
    except OSError:
        return False
    if handle is None:
        return False
    with os.fdopen(handle, "rb") as file:
        while size:
            part = contents.read(min(size, CHUNK))
            if not part or file.read(len(part)) != part:
                return False
            size -= len(part)
        return not file.read(1)


def _create(directory: int, name: str, mode: str, contents: IO[bytes], size: int) -> bool:
    """False if there are fewer bytes."""
    if mode == LINK:
        text = contents.read(size)
        os.symlink(text, os.fsencode(name), dir_fd=directory)
        return len(text) == size
    handle = os.open(name, NEW_FILE, 0o777 if mode == EXECUTABLE else 0o666, dir_fd=directory)
    with os.fdopen(handle, "wb", buffering=0) as file:
        while size:
            part = contents.read(min(size, CHUNK))
            if not part:
                return False
            size -= len(part)
            while part:
                part = part[file.write(part) :]
    return True


def _rename(directory: int, temporary: str, name: str) -> None:
    try:
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except IsADirectoryError:
        shutil.rmtree(name, dir_fd=directory)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)


def _remove(tree: OpenTree, path: str) -> None:
    """A missing file is fine, and one that became a directory, or whose folder became a link or a file: it is gone."""
    try:
        directory, name = tree.parent(path)
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.ENOENT, *NOT_A_DIRECTORY):
            return
        raise
    if not stat.S_ISDIR(found.st_mode):
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)
