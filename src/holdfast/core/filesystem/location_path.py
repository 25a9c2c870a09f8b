"""Where a path argument leads: the canonical target, the resource that a permission names, and the boundary that an
approval for the outside needs. It opens nothing; what it found is verified again when the target is opened.

Invariants
- A relative path, and an absolute one that begins with the Location, never becomes an external target.
- A file of a reference is read without approval, by `@name/path` or its absolute path. `@name/path` is never written.
- `Target.path` has no link in it as of resolution and no `..`; `Target.root` is it or one of its ancestors.
- A dangling link is followed to where it points before anything is decided.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from holdfast.core.filesystem.errors import PathError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_PATH_BYTES = 4096
MAX_LINKS = 40
SPECIAL = ("/proc", "/sys", "/dev")
WINDOWS = os.name == "nt"
DEVICE_NAMES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))})

Access = Literal["read", "write"]


class Target(Frozen):
    path: Path
    resource: str
    """Relative to the Location with forward slashes, `.` for itself; absolute when outside."""
    root: Path
    """Below this the target is opened, component by component."""
    boundary: str | None = None
    """`<directory>/*`, to be approved as `external_directory` first; None when no such approval is due."""
    exists: bool = False


class LocationPaths:
    """The path arguments of one Location."""

    def __init__(
        self,
        directory: Path,
        *,
        managed: Callable[[Path], bool] = lambda path: False,
        references: Callable[[], Mapping[str, Path]] = dict,
    ) -> None:
        self.directory = Path(os.path.abspath(directory))
        self.root = Path(os.path.realpath(directory))
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
        """The target of a path argument. `follow=False` stops at a link in the last place, to act on the link itself;
        `kind="directory"` makes an existing directory its own boundary."""
        _check(path)
        if (reference := self._reference(path)) is not None:
            if access == "write":
                raise PathError(path, "read_only_reference")
            return self._referenced(path, *reference)
        inside = self._inside(path)
        if inside is not None:
            return self._internal(path, canonical(path, inside, base=str(self.root), follow=follow))
        lexical = _absolute(path)
        if _below_any(lexical, SPECIAL):
            raise PathError(path, "special_path")
        found = canonical(path, lexical, follow=follow)
        if access == "read" and self._managed(Path(found.path)):
            return Target(Path(found.path), found.path, Path("/"), None, found.mode is not None)
        if access == "read" and (root := self._reference_root(found.path)) is not None:
            return Target(Path(found.path), found.path, Path(root), None, found.mode is not None)
        if external == "deny":
            raise PathError(path, "external_denied")
        return self._external(path, found, kind)

    def _inside(self, path: str) -> str | None:
        """The path relative to the Location, or None if it is absolute and lies outside."""
        if not os.path.isabs(path):
            relative = os.path.normpath(path)
            if relative == ".." or relative.startswith("../"):
                raise PathError(path, "relative_escape")
            return relative
        lexical = _absolute(path)
        for root in (str(self.root), str(self.directory)):
            if below(lexical, root):
                return _relative(lexical, root)
        return None

    def _internal(self, path: str, found: Canonical) -> Target:
        if not below(found.path, str(self.root)):
            raise PathError(path, "location_escape")
        # A Location at the top of the file system contains them; one that lies inside of them is meant.
        if _below_any(found.path, SPECIAL) and not _below_any(str(self.root), SPECIAL):
            raise PathError(path, "special_path")
        return Target(Path(found.path), _relative(found.path, str(self.root)), self.root, None, found.mode is not None)

    def _external(self, path: str, found: Canonical, kind: Literal["file", "directory"]) -> Target:
        if _below_any(found.path, SPECIAL):
            raise PathError(path, "special_path")
        # An absolute path may come back into the Location through a link.
        if below(found.path, str(self.root)):
            return self._internal(path, found)
        is_directory = found.mode is not None and stat.S_ISDIR(found.mode)
        boundary = found.path if kind == "directory" and is_directory else found.ancestor
        return Target(
            Path(found.path), found.path, Path("/"), f"{boundary.rstrip('/')}/*", exists=found.mode is not None
        )

    def _reference(self, path: str) -> tuple[Path, str] | None:
        if not path.startswith("@"):
            return None
        name, _, rest = path[1:].partition("/")
        directory = self._references().get(name)
        return None if directory is None else (directory, rest or ".")

    def _reference_root(self, path: str) -> str | None:
        """The directory of the reference that holds this canonical path."""
        roots = (os.path.realpath(directory) for directory in self._references().values())
        return next((root for root in roots if below(path, root)), None)

    def _referenced(self, path: str, directory: Path, rest: str) -> Target:
        root = os.path.realpath(directory)
        relative = os.path.normpath(rest.lstrip("/") or ".")
        if relative == ".." or relative.startswith("../"):
            raise PathError(path, "relative_escape")
        found = canonical(path, relative, base=root)
        if not below(found.path, root):
            raise PathError(path, "location_escape")
        return Target(Path(found.path), found.path, Path(root), None, found.mode is not None)


class Canonical(Frozen):
    path: str
    mode: int | None
    """None: nothing is there."""
    ancestor: str
    """The nearest existing directory above it."""


def canonical(shown: str, path: str, *, base: str = "/", follow: bool = True) -> Canonical:
    """Follow every link of a path below a base that has none; what is missing is appended as it stands."""
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
            return Canonical(_printable(shown, missing), None, ancestor)
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
    return Canonical(_printable(shown, current or "/"), mode, ancestor)


def below(path: str, root: str) -> bool:
    """Equal, or inside; a neighbour whose name begins the same is neither."""
    return path == root or path.startswith(root.rstrip("/") + "/")


_REASONS: dict[int, Literal["non_directory_ancestor", "malformed"]] = {
    errno.ENOTDIR: "non_directory_ancestor",
    errno.ENAMETOOLONG: "malformed",
}


def _check(path: str) -> None:
    """What is refused before the file system is touched."""
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise PathError(ascii(path), "malformed") from None
    if not path or "\0" in path or size > MAX_PATH_BYTES:
        raise PathError(path[:200], "malformed")
    if WINDOWS and any(_is_windows_special(part) for part in os.path.splitdrive(path)[1].replace("\\", "/").split("/")):
        raise PathError(path, "special_path")


def _is_windows_special(name: str) -> bool:
    """A device whatever its extension, or an alternate data stream."""
    return ":" in name or name.partition(".")[0].rstrip(" ").lower() in DEVICE_NAMES


def _printable(shown: str, path: str) -> str:
    """A name that is not valid UTF-8 can stand in no permission and no record."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise PathError(shown, "malformed") from None
    return path


def _relative(path: str, root: str) -> str:
    return path[len(root.rstrip("/")) + 1 :] or "."


def _absolute(path: str) -> str:
    return "/" + os.path.normpath(path).lstrip("/")


def _below_any(path: str, roots: tuple[str, ...]) -> bool:
    return any(below(path, root) for root in roots)
