"""Writes generated files. A manifest beside them lists their names, and only listed files are replaced or deleted."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

MANIFEST = "generated.txt"


class RefusedPath(Exception):
    """A generated file may not go there."""


class GeneratedFiles(NamedTuple):
    folder: Path
    files: dict[str, str]


def write(output: GeneratedFiles) -> None:
    for name in {*output.files, *_owned(output.folder)}:
        _require_own(output.folder, name)
    output.folder.mkdir(parents=True, exist_ok=True)
    for name in _stale(output):
        (output.folder / name).unlink(missing_ok=True)
    for name, text in {**output.files, MANIFEST: _manifest(output)}.items():
        (output.folder / name).write_text(text, encoding="utf-8")


def drift(output: GeneratedFiles) -> list[str]:
    """Names of files that differ from what would be written. Writes nothing."""
    expected = {**output.files, MANIFEST: _manifest(output)}
    changed = [name for name, text in expected.items() if _read(output.folder / name) != text]
    return sorted({*changed, *(name for name in _stale(output) if (output.folder / name).exists())})


def _manifest(output: GeneratedFiles) -> str:
    return "".join(f"{name}\n" for name in sorted(output.files))


def _owned(folder: Path) -> list[str]:
    return (_read(folder / MANIFEST) or "").splitlines()


def _stale(output: GeneratedFiles) -> list[str]:
    return [name for name in _owned(output.folder) if name not in output.files]


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _require_own(folder: Path, name: str) -> None:
    if not name or name == MANIFEST or name != Path(name).name or name in (".", ".."):
        raise RefusedPath(f"{name!r} is not a name for a generated file")
    if (folder / name).is_symlink() or folder.is_symlink():
        raise RefusedPath(f"{folder / name} goes through a symbolic link")
