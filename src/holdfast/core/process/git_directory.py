"""Minimal git directories of our own, with which git works on the user's files without reading their repository's
configuration."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIG = """\
[core]
\trepositoryformatversion = {version}
\tbare = {bare}
\tlogAllRefUpdates = false
"""
SHA256 = "[extensions]\n\tobjectFormat = sha256\n"


def create_git_directory(folder: Path, *, bare: bool = True, sha256: bool = False) -> None:
    """Write the minimum that git accepts as a repository, without templates."""
    for name in ("objects/info", "refs", "info"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    config = CONFIG.format(version=int(sha256), bare=str(bare).lower()) + (SHA256 if sha256 else "")
    (folder / "config").write_text(config, encoding="utf-8")
    (folder / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")  # last: git recognises a repository by it


@contextmanager
def scratch_git_directory(
    objects: Path | None = None, *, sha256: bool = False, shallow: bytes = b"", exclude: bytes = b""
) -> Iterator[Path]:
    """A temporary git directory. It reads the `objects` of another repository but writes new ones here; `shallow` and
    `exclude` are the contents of that repository's files."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="holdfast-git-") as name:
        folder = Path(name)
        create_git_directory(folder, sha256=sha256)
        if objects is not None:
            (folder / "objects" / "info" / "alternates").write_bytes(quoted(os.fsencode(objects)) + b"\n")
        if shallow:
            (folder / "shallow").write_bytes(shallow)
        if exclude:
            (folder / "info" / "exclude").write_bytes(exclude)
        yield folder


def quoted(path: bytes) -> bytes:
    """The path in git's C-style quoting."""
    plain = range(0x20, 0x7F)
    text = "".join(chr(byte) if byte in plain and chr(byte) not in '"\\' else f"\\{byte:03o}" for byte in path)
    return f'"{text}"'.encode("ascii")
