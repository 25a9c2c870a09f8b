"""The profile for `sandbox-exec` of macOS. Tested as text only, never on macOS."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from holdfast.core.process.sandbox.confinement import Confinement

DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/dtracehelper")


def profile(confinement: Confinement) -> str:
    """The last matching rule wins."""
    lines = ["(version 1)", "(allow default)", "(deny file-write*)"]
    lines += _rule("allow file-write*", (*map(_subpath, (*confinement.writable, confinement.temporary)),))
    lines += _rule("allow file-write*", (f"(literal {_quoted(device)})" for device in DEVICES))
    lines += _protect(confinement, confinement.writable)
    lines += _rule("deny file-read-data file-write*", map(_subpath, confinement.hidden))
    lines += _rule("allow file-read-data", map(_subpath, confinement.readable))
    # A writable directory inside a hidden one is visible; what it protects stays protected.
    inner = [root for root in confinement.writable if any(hidden in root.parents for hidden in confinement.hidden)]
    lines += _rule("allow file-read-data file-write*", map(_subpath, inner))
    lines += _protect(confinement, inner)
    lines += [
        "(deny file-write-setugid)",
        "(deny process-info* (target others))",
        "(allow signal (target same-sandbox))",
    ]
    if confinement.network != "on":
        lines.append("(deny network*)")
    return "\n".join(lines) + "\n"


def _protect(confinement: Confinement, roots: Sequence[Path]) -> list[str]:
    """The rules for what is protected in these writable directories."""
    protected = [
        path for path in (*confinement.protected, *confinement.absent) if any(root in path.parents for root in roots)
    ]
    # Otherwise a directory that contains a protected path could be moved.
    around = {parent for path in protected for parent in path.parents if _inside(parent, roots)}
    unlink = (f"(literal {_quoted(path)})" for path in sorted(around))
    return [*_rule("deny file-write*", map(_subpath, protected)), *_rule("deny file-write-unlink", unlink)]


def _inside(path: Path, roots: Sequence[Path]) -> bool:
    return any(path == root or root in path.parents for root in roots)


def _rule(action: str, filters: Iterable[str]) -> list[str]:
    found = list(filters)
    return [f"({action} {' '.join(found)})"] if found else []


def _subpath(path: Path) -> str:
    return f"(subpath {_quoted(path)})"


def _quoted(path: str | Path) -> str:
    text = os.fspath(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
