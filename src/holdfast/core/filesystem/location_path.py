"""Resolves path arguments: the canonical target, the resource that permissions use, and the boundary that an external
target needs approval for. Opens no file; the result is verified again when the target is opened.

Invariants
- A relative path, or an absolute one that starts with the Location, never becomes an external target.
- Files of a reference are readable without approval, by `@name/path` or absolute path. `@name/path` is never written.
- `Target.path` contains no link (at resolution) and no `..`. It is opened from `/` without following links: the
  Location, a reference or a directory above them may be replaced by a link.
- Holdfast's own folders are outside of every Location (own_folders.py).
- A dangling link is resolved to its destination before anything is decided."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from holdfast.core.filesystem.canonical import contains, is_text
from holdfast.core.filesystem.errors import PathError
from holdfast.core.filesystem.own_folders import OwnFolders
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.core.filesystem.own_folders import Use

MAX_PATH_BYTES = 4096
MAX_LINKS = 40
SPECIAL = ("/proc", "/sys", "/dev")
"""File systems of the kernel: they show what processes have in memory, and reading a device may have effects."""
SHARED_MEMORY = "/dev/shm"
"""An ordinary file system, in which a project may be."""

NO_OWN_FOLDERS = OwnFolders()

Access = Literal["read", "write"]


class Target(Frozen):
    path: Path
    resource: str
    """Relative to the Location, `.` for the Location itself; absolute when outside."""
    boundary: str | None = None
    """`<directory>/*`, to be approved as `external_directory` first; None if no such approval is needed."""
    exists: bool = False


class LocationPaths:
    """Resolves the path arguments of one Location."""

    def __init__(
        self,
        directory: Path,
        *,
        managed: Callable[[Path], bool] = lambda path: False,
        references: Callable[[], Mapping[str, Path]] = dict,
        own: OwnFolders = NO_OWN_FOLDERS,
    ) -> None:
        """`references` are canonical directories, by name."""
        self.directory = Path(os.path.abspath(directory))
        self.root = Path(os.path.realpath(directory))
        self.own = own.around(str(self.root))
        self._managed = managed
        self._references = references

    def resolve(
        self,
        path: str,
        access: Access = "read",
        *,
        kind: Literal["file", "directory"] = "file",
        follow: bool = True,
        external: Literal["ask", "deny"] = "ask",
    ) -> Target:
        """`follow=False` does not follow a link in the last component, to act on the link itself; `kind="directory"`
        makes an existing directory its own boundary. Raises `PathError`."""
        _check(path)
        if (reference := self._reference(path)) is not None:
            if access == "write":
                raise PathError(path, "read_only_reference")
            return self._referenced(path, *reference)
        inside = self._inside(path)
        if inside is not None:
            found = canonicalize(path, inside, base=str(self.root), follow=follow)
            if not contains(str(self.root), found.path):
                raise PathError(path, "location_escape")
        else:
            lexical = _absolute(path)
            if _is_special(lexical):
                raise PathError(path, "special_path")
            found = canonicalize(path, lexical, follow=follow)
        return self._approvable(path, found, access, kind, external)

    def _approvable(
        self,
        path: str,
        found: CanonicalPath,
        access: Access,
        kind: Literal["file", "directory"],
        external: Literal["ask", "deny"],
    ) -> Target:
        if access == "read" and self._managed(Path(found.path)):
            return _target(found, found.path)
        use = self._use(path, found, access)
        # An absolute path may lead back into the Location through a link.
        if contains(str(self.root), found.path) and use == "open":
            return _target(found, _relative(found.path, str(self.root)))
        if access == "read" and use == "open" and self._is_referenced(found.path):
            return _target(found, found.path)
        if external == "deny":
            raise PathError(path, "external_denied")
        is_directory = found.mode is not None and stat.S_ISDIR(found.mode)
        boundary = found.path if kind == "directory" and is_directory else found.ancestor
        return _target(found, found.path, f"{boundary.rstrip('/')}/*")

    def _use(self, path: str, found: CanonicalPath, access: Access) -> Use:
        if _is_special(found.path):
            raise PathError(path, "special_path")
        use = self.own.use(found.path, access)
        if use == "closed":
            raise PathError(path, "own_folder")
        return use

    def _inside(self, path: str) -> str | None:
        """The path relative to the Location, or None if it is absolute and outside."""
        if not os.path.isabs(path):
            return _normalized(path, path)
        lexical = _absolute(path)
        for root in (str(self.root), str(self.directory)):
            if contains(root, lexical):
                return _relative(lexical, root)
        return None

    def _reference(self, path: str) -> tuple[Path, str] | None:
        if not path.startswith("@"):
            return None
        name, _, rest = path[1:].partition("/")
        directory = self._references().get(name)
        return None if directory is None else (directory, rest or ".")

    def _is_referenced(self, path: str) -> bool:
        """Whether a reference contains this canonical path."""
        return any(contains(str(directory), path) for directory in self._references().values())

    def _referenced(self, path: str, directory: Path, rest: str) -> Target:
        root = str(directory)
        found = canonicalize(path, _normalized(path, rest.lstrip("/") or "."), base=root)
        if not contains(root, found.path):
            raise PathError(path, "location_escape")
        if self._use(path, found, "read") != "open":
            raise PathError(path, "own_folder")
        return _target(found, found.path)


def _target(found: CanonicalPath, resource: str, boundary: str | None = None) -> Target:
    return Target(Path(found.path), resource, boundary, found.mode is not None)


class CanonicalPath(Frozen):
    path: str
    mode: int | None
    """None if the path does not exist."""
    ancestor: str
    """The nearest existing parent directory."""


def canonicalize(shown: str, path: str, *, base: str = "/", follow: bool = True) -> CanonicalPath:
    """Resolve every link of a path below a base without links; missing components are appended unchanged. Errors name
    the path as `shown`."""
    rest = [part for part in reversed(path.split("/")) if part and part != "."]
    current = base.rstrip("/")
    links = 0
    mode = stat.S_IFDIR
    ancestor = base
    while rest:
        if not stat.S_ISDIR(mode):
            raise PathError(shown, "non_directory_ancestor")
        ancestor = current or "/"
        part = rest.pop()
        if part == "..":
            current = current.rpartition("/")[0]
            continue
        candidate = f"{current}/{part}"
        try:
            mode = os.lstat(candidate).st_mode
        except FileNotFoundError:
            missing = os.path.normpath("/".join([candidate, *reversed(rest)]))
            return CanonicalPath(_printable(shown, missing), None, ancestor)
        except OSError as error:
            raise PathError(shown, _REASONS.get(error.errno or 0, "inaccessible")) from None
        if not stat.S_ISLNK(mode) or not (rest or follow):
            current = candidate
            continue
        links += 1
        if links > MAX_LINKS:
            raise PathError(shown, "link_loop")
        text = os.readlink(candidate)
        if text.startswith("/"):
            current = ""
        rest.extend(part for part in reversed(text.split("/")) if part and part != ".")
        mode = stat.S_IFDIR
    return CanonicalPath(_printable(shown, current or "/"), mode, ancestor)


_REASONS: dict[int, Literal["non_directory_ancestor", "malformed"]] = {
    errno.ENOTDIR: "non_directory_ancestor",
    errno.ENAMETOOLONG: "malformed",
}


def _check(path: str) -> None:
    """Reject malformed paths before the file system is accessed."""
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise PathError(ascii(path), "malformed") from None
    if not path or "\0" in path or size > MAX_PATH_BYTES:
        raise PathError(path[:200], "malformed")


def _normalized(shown: str, path: str) -> str:
    """A relative path without `..`; raises `PathError` if it leaves its base directory."""
    relative = os.path.normpath(path)
    if relative == ".." or relative.startswith("../"):
        raise PathError(shown, "relative_escape")
    return relative


def _printable(shown: str, path: str) -> str:
    """Reject a name that is not valid UTF-8: it cannot be part of a permission or an event."""
    if not is_text(path):
        raise PathError(shown, "malformed")
    return path


def _relative(path: str, root: str) -> str:
    return path[len(root.rstrip("/")) + 1 :] or "."


def _absolute(path: str) -> str:
    return "/" + os.path.normpath(path).lstrip("/")


def _is_special(path: str) -> bool:
    return any(contains(root, path) for root in SPECIAL) and not contains(SHARED_MEMORY, path)
