"""Loads the named statements of a back end from its .sql files."""

from __future__ import annotations

from functools import cache
from pathlib import Path

SQL = Path(__file__).parent / "sql"


@cache
def load_queries(folder: Path = SQL) -> dict[str, str]:
    """A line `-- name: x` begins a statement. Other comment lines are left out."""
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*.sql")):
        name, lines = "", list[str]()
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("-- name: "):
                _keep(found, name, lines)
                name, lines = line.removeprefix("-- name: ").strip(), []
            elif not line.startswith("--"):
                lines.append(line)
        _keep(found, name, lines)
    return found


@cache
def load_migrations(folder: Path = SQL / "migrations") -> list[str]:
    """The migrations in order. The first one brings an empty file to schema 1."""
    return [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.sql"))]


def _keep(found: dict[str, str], name: str, lines: list[str]) -> None:
    if not name:
        return
    if name in found:
        raise ValueError(f"statement {name} is defined twice")
    found[name] = "\n".join(lines).strip()
