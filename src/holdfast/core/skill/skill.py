"""A skill, and the sources of skills in the order of their priority."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.filesystem.canonical import possible
from holdfast.schema.catalog import SkillInfo
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

FOLDERS = ("skill", "skills")

Skill = SkillInfo


class DirectorySource(Frozen):
    path: str
    by_project: bool = False
    """Whether a project names it, rather than the user."""
    trusted: bool = True


class UrlSource(Frozen):
    url: str


class EmbeddedSource(Frozen):
    skill: Skill


SkillSource = DirectorySource | UrlSource | EmbeddedSource


class SkillSources:
    """An ordered set of sources; a source that is added twice keeps its first position."""

    def __init__(self, sources: Iterable[SkillSource] = ()) -> None:
        self._sources: dict[tuple[type, str], SkillSource] = {}
        for source in sources:
            self.add(source)

    def add(self, source: SkillSource) -> None:
        self._sources.setdefault(_identity(source), source)

    def copy(self) -> SkillSources:
        return SkillSources(self._sources.values())

    def list(self) -> tuple[SkillSource, ...]:
        return tuple(self._sources.values())


def directory_sources(
    directories: Sequence[Path], *, by_project: bool = False, trusted: bool = True
) -> list[SkillSource]:
    """The skill folders of configuration directories, lowest priority first."""
    paths = [str(directory / folder) for directory in directories for folder in FOLDERS]
    return [DirectorySource(path, by_project, trusted) for path in paths]


def configured_sources(entries: Sequence[str], location: Path, home: Path) -> list[SkillSource]:
    """The entries of `skills` in configuration: URLs, or paths relative to the Location. Invalid ones are dropped."""
    return [_configured(entry, location, home) for entry in entries if entry and possible(entry)]


def _configured(entry: str, location: Path, home: Path) -> SkillSource:
    if entry.startswith(("http://", "https://")):
        return UrlSource(entry)
    if entry.startswith("~/"):
        return DirectorySource(str(home / entry[2:]))
    return DirectorySource(str(location / entry))


def _identity(source: SkillSource) -> tuple[type, str]:
    match source:
        case DirectorySource(path):
            return DirectorySource, path
        case UrlSource(url):
            return UrlSource, url
        case EmbeddedSource(skill):
            return EmbeddedSource, skill.name
