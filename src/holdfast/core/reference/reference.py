"""A reference, its declaration in configuration, and its directory on disk."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from holdfast.core.filesystem.canonical import is_text
from holdfast.core.reference.repository import parse_repository
from holdfast.schema.catalog import GitReference, LocalReference, ReferenceInfo
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from pathlib import Path

LocalSource = LocalReference
GitSource = GitReference
Reference = ReferenceInfo


class References:
    """Declared references by name; a later declaration replaces an earlier one."""

    def __init__(
        self, sources: dict[str, LocalSource | GitSource] | None = None, within: dict[str, Path] | None = None
    ) -> None:
        self._sources = sources or {}
        self.within = within or {}
        """The directory that a reference of an untrusted project must not lead out of, by name."""

    def add(self, name: str, source: LocalSource | GitSource, within: Path | None = None) -> None:
        self._sources[name] = source
        self.within.pop(name, None)
        if within is not None:
            self.within[name] = within

    def declare(self, declared: dict[str, Any], base: Path, home: Path, within: Path | None = None) -> list[str]:
        """Add the references of one document, whose paths are relative to `base`. Returns the problems of the rest."""
        problems: list[str] = []
        for name, value in declared.items():
            try:
                self.add(_name(name), _source(value, base, home), within)
            except (ValueError, msgspec.ValidationError) as error:
                problems.append(f"reference {name[:80]!r}: {error}")
        return problems

    def copy(self) -> References:
        return References(dict(self._sources), dict(self.within))

    def resolve(self, repositories: Path) -> tuple[Reference, ...]:
        return tuple(_resolved(name, source, repositories) for name, source in self._sources.items())


def checkout(source: GitSource, repositories: Path) -> Path:
    """The directory that holds a repository at a branch."""
    repository = parse_repository(source.repository)
    folder = repositories.joinpath(repository.host, *repository.segments)
    return folder if source.branch is None else folder.with_name(f"{folder.name}@{quote(source.branch, safe='')}")


def _name(name: str) -> str:
    if not name or not is_text(name) or any(character in "/`," or character.isspace() for character in name):
        raise ValueError("a name must not be empty or contain `/`, white space, a backtick or a comma")
    return name


def _source(value: object, base: Path, home: Path) -> LocalSource | GitSource:
    if isinstance(value, str):
        value = {"path" if value.startswith((".", "/", "~")) else "repository": value}
    declared = msgspec.convert(value, _Declared)
    if not all(map(is_text, (declared.path or "", declared.repository or "", declared.description or ""))):
        raise ValueError("it contains characters that are not valid text")
    if declared.path is not None:
        path = home / declared.path[2:] if declared.path.startswith("~/") else base / declared.path
        return LocalSource(path=str(path), description=declared.description, hidden=declared.hidden)
    if declared.repository is None:
        raise ValueError("it has neither a path nor a repository")
    parse_repository(declared.repository)
    if declared.branch is not None and (not _BRANCH.fullmatch(declared.branch) or ".." in declared.branch):
        raise ValueError("not a valid branch")
    return GitSource(
        repository=declared.repository,
        branch=declared.branch,
        description=declared.description,
        hidden=declared.hidden,
    )


def _resolved(name: str, source: LocalSource | GitSource, repositories: Path) -> Reference:
    path = source.path if isinstance(source, LocalSource) else str(checkout(source, repositories))
    return Reference(name=name, path=path, description=source.description, hidden=source.hidden, source=source)


class _Declared(msgspec.Struct, frozen=True):
    path: str | None = None
    repository: str | None = None
    branch: str | None = None
    description: str | None = None
    hidden: bool | None = None


_BRANCH = pattern(r"[A-Za-z0-9/_.][A-Za-z0-9/_.-]*", re.ASCII)
