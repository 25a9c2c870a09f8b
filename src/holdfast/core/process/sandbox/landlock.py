"""Rules for Landlock, the kernel's access control for unprivileged processes. Rules only allow: a path inside an
allowed directory cannot be excluded, so the paths next to it are allowed one by one instead."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from holdfast.core.process.sandbox.place_names import SOCKETS, SOCKETS_EXCEPT, TEMPORARY
from holdfast.core.process.sandbox.places import existing
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from holdfast.core.process.sandbox.confinement import Confinement

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << bit for bit in range(6))
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << bit for bit in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
BIND_TCP, CONNECT_TCP = 1, 2
SCOPE_ABSTRACT_UNIX, SCOPE_SIGNAL = 1, 2

READ = EXECUTE | READ_FILE
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
MAKE = MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM
WRITE = WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE | REFER | TRUNCATE
EVERYTHING = (1 << 16) - 1
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_ADDED = ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEV))
MOST_RULES = 20_000

_CREATE_RULESET = 444


class Ruleset(Frozen):
    """Bit masks for the kernel. A rule is a path and the rights at and below it."""

    filesystem: int
    network: int
    scoped: int
    rules: tuple[tuple[str, int], ...]


def version() -> int:
    """The kernel's Landlock ABI version; 0 if there is none."""
    if not sys.platform.startswith("linux"):
        return 0
    import ctypes

    return max(0, int(ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, 1)))


def missing(abi: int) -> tuple[str, ...]:
    """What Landlock alone cannot prevent in this version."""
    gaps = []
    if abi < 3:
        gaps.append("files outside the project can be truncated (needs Linux 6.2)")
    if abi < 5:
        gaps.append("devices accept ioctl calls (needs Linux 6.10)")
    if abi < 6:
        gaps.append("other processes of the user can be signalled (needs Linux 6.12)")
    return tuple(gaps)


def within_namespaces(confinement: Confinement, abi: int) -> Ruleset:
    """Rules in addition to mounts: writing only where the mounts allow it."""
    paths = [*confinement.writable, confinement.temporary, *existing(TEMPORARY), "/dev", "/proc"]
    handled = _known(WRITE, abi)
    return Ruleset(handled, 0, _scopes(abi), tuple((str(path), handled) for path in paths))


def alone(confinement: Confinement, abi: int) -> Ruleset:
    """Rules without namespaces. Hidden files cannot be read, but names can be listed everywhere; nothing can be added
    to a directory that contains a protected path, or changed in `.git`."""
    handled = _known(EVERYTHING, abi)
    rules: dict[str, int] = {"/": READ_DIR}

    def allow(path: Path | str, rights: int) -> None:
        rights &= handled if os.path.isdir(path) else handled & ON_FILES
        rules[str(path)] = rules.get(str(path), 0) | rights

    closed = {str(path) for path in (*existing(("/dev", "/dev/shm", *SOCKETS, *TEMPORARY)), *confinement.hidden)}
    opened = [*existing(SOCKETS_EXCEPT), *confinement.readable, *confinement.writable]
    for part in _around("/", closed):
        allow(part, READ)
    for folder in opened:
        inside = {hole for hole in closed if hole.startswith(f"{folder}/")}
        for part in _around(str(folder), inside):
            allow(part, READ)
    kept = (*confinement.protected, *confinement.hidden)
    for root in confinement.writable:
        holes = {str(_git_directory(path, root)) for path in kept if root in path.parents}
        for part in _around(str(root), holes):
            allow(part, READ | WRITE | IOCTL_DEV)
    allow(confinement.temporary, READ | WRITE | IOCTL_DEV)
    for name in DEVICES:
        if os.path.exists(f"/dev/{name}"):
            allow(f"/dev/{name}", READ_FILE | WRITE_FILE | IOCTL_DEV)
    network = BIND_TCP | CONNECT_TCP if confinement.network != "on" and abi >= 4 else 0
    return Ruleset(handled, network, _scopes(abi), tuple(rules.items()))


def _git_directory(path: Path, root: Path) -> Path:
    """The git directory below the root that contains the path: no commit would work in a part of it. Else the path."""
    parents = [parent for parent in path.parents if root in parent.parents and parent.name == ".git"]
    return parents[-1] if parents else path


def _around(folder: str, holes: Collection[str]) -> Iterator[str]:
    """The fewest paths that cover a directory except the paths in `holes`."""
    if not holes:
        yield folder
        return
    base = folder.rstrip("/")
    leading = {hole[len(base) + 1 :].split("/")[0] for hole in holes if hole.startswith(f"{base}/")}
    for name, link in _names(folder):
        path = f"{base}/{name}"
        if link or path in holes:
            continue
        if name in leading:
            yield from _around(path, [hole for hole in holes if hole.startswith(f"{path}/")])
        else:
            yield path


def _names(folder: str) -> Iterable[tuple[str, bool]]:
    try:
        with os.scandir(folder) as found:
            return [(entry.name, entry.is_symlink()) for entry in found][:MOST_RULES]
    except OSError:
        return []


def _known(rights: int, abi: int) -> int:
    for since, right in _ADDED:
        if abi < since:
            rights &= ~right
    return rights


def _scopes(abi: int) -> int:
    return SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL if abi >= 6 else 0
