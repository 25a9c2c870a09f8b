"""The file system of a confined command as an ordered list of mounts over a read-only root, for back ends with mount
namespaces.

Invariants
- Parents come before their contents.
- A protected path and every directory between it and its writable root are mount points, which the kernel refuses to
  rename or remove. A symbolic link cannot be a mount point, so a writable root with a protected link is closed: its
  entries can be written, but nothing can be added, removed or renamed directly in it."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Literal, TypeAlias

from holdfast.core.process.sandbox.place_names import SOCKETS, SOCKETS_EXCEPT, TEMPORARY
from holdfast.core.process.sandbox.places import existing
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.core.process.sandbox.confinement import Confinement

Kind: TypeAlias = Literal["write", "read", "empty", "nothing"]
"""`write` and `read` show `source` at `target`; `empty` is a directory without entries; `nothing` is an empty file."""


class Mount(Frozen):
    kind: Kind
    target: str
    source: str


def mounts(confinement: Confinement) -> tuple[Mount, ...]:
    """Call it after placeholders for missing protected paths were created."""
    found: dict[str, Mount] = {}

    def add(kind: Kind, target: Path | str, source: Path | str | None = None) -> None:
        found[str(target)] = Mount(kind, str(target), str(target if source is None else source))

    for path in (*existing(SOCKETS), *confinement.hidden):
        add("empty" if path.is_dir() else "nothing", path)
    for path in existing(TEMPORARY):
        add("write", path, confinement.temporary)
    for path in (*existing(SOCKETS_EXCEPT), *_resolver(confinement), *confinement.readable):
        add("read", path)
    for root in confinement.writable:
        add("write", root)
    for root in closed_roots(confinement):
        add("read", root)
        for path in entries(root, confinement.protected):
            add("write", path)
    for path in confinement.protected:
        around = _root_of(path, confinement)
        if around is not None and path.exists() and not path.is_symlink():
            for folder in path.relative_to(around).parents[:-1]:
                between = str(around / folder)
                found.setdefault(between, Mount("write", between, between))
            add("read", path)
    add("write", confinement.temporary)
    if confinement.proxy is not None:
        add("read", confinement.proxy)
    return tuple(sorted(found.values(), key=lambda mount: (mount.target.count("/"), mount.target)))


def closed_roots(confinement: Confinement) -> Iterator[Path]:
    for root in confinement.writable:
        if any(path.is_symlink() for path in confinement.protected if root in path.parents):
            yield root


def entries(root: Path, protected: tuple[Path, ...]) -> Iterator[Path]:
    """Direct children of a directory that are not protected and contain nothing protected."""
    holding = {path for one in protected for path in (one, *one.parents)}
    with os.scandir(root) as found:
        for entry in found:
            mode = entry.stat(follow_symlinks=False).st_mode
            path = root / entry.name
            if path not in holding and (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                yield path


def _root_of(path: Path, confinement: Confinement) -> Path | None:
    """The innermost writable directory that contains the path."""
    around = [root for root in confinement.writable if root in path.parents]
    return max(around, key=lambda root: len(root.parts), default=None)


def _resolver(confinement: Confinement) -> tuple[Path, ...]:
    """The host's DNS configuration for `network: on`; the file may be a link into a hidden directory."""
    return existing(["/etc/resolv.conf"]) if confinement.network == "on" else ()
