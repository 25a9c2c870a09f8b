"""What one configuration says about a Location's System Context."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.config.document import DOT, Directory
from holdfast.core.context.configured import ConfiguredEntry, ConfiguredInstructions
from holdfast.core.context.date import date, find_zone
from holdfast.core.context.environment import environment
from holdfast.core.context.system_context import combine
from holdfast.core.skill.skill import DirectorySource, configured_sources, directory_sources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.clock import Clock
    from holdfast.core.config.config import Config
    from holdfast.core.context.file_cache import FileCache
    from holdfast.core.context.instructions import InstructionFiles
    from holdfast.core.project.project import Project
    from holdfast.core.reference.reference import References
    from holdfast.core.skill.skill import SkillSource, SkillSources
    from holdfast.schema.location import Location


class ContextSettings:
    def __init__(
        self,
        config: Config,
        location: Location,
        project: Project,
        home: Path,
        clock: Clock,
        files: InstructionFiles,
        cache: FileCache,
    ) -> None:
        self._config = config
        self._directory = Path(location.directory)
        self._project = project
        self._home = home
        self._files = files
        self.builtins = combine([environment(location, project), date(clock, find_zone(config.latest("timezone")))])
        entries = [
            ConfiguredEntry(text, document.base, document.origin)
            for document in config.documents()
            for text in document.data.get("instructions", ())
        ]
        self.instructions = ConfiguredInstructions(entries, files, cache, home)

    def declare_references(self, draft: References) -> None:
        for document in self._config.documents():
            within = None if document.trusted else self._project.directory
            draft.declare(document.data.get("references", {}), document.directory, self._home, within)

    def add_skill_sources(self, draft: SkillSources) -> None:
        for source in (*self._folder_sources(), *self._configured_sources()):
            draft.add(source)

    def _folder_sources(self) -> Iterator[SkillSource]:
        folders = {entry.path: entry.origin for entry in self._config.entries() if isinstance(entry, Directory)}
        for path in (*folders, *self._possible_folders()):
            origin = folders.get(path, "untrusted")
            yield from directory_sources([path], by_project=origin != "user", trusted=origin != "untrusted")

    def _configured_sources(self) -> Iterator[SkillSource]:
        for document in self._config.documents():
            for source in configured_sources(document.data.get("skills", ()), self._directory, self._home):
                project = isinstance(source, DirectorySource) and document.origin != "user"
                yield source.replace(by_project=True, trusted=document.trusted) if project else source

    def _possible_folders(self) -> Iterator[Path]:
        """Configuration folders that the project may create while it is open."""
        if self._files.project_enabled:
            root = self._project.directory if self._project.store is not None else self._directory
            for folder in (*reversed(self._directory.parents), self._directory):
                if folder.is_relative_to(root):
                    yield folder / DOT
