"""The configuration of one Location. Loading never writes files and never raises for a file's content."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.config.discovery import CandidateFile, discover, project_folders
from holdfast.core.config.document import DOT, Directory, Document
from holdfast.core.config.environment import directories
from holdfast.core.config.merge import merge
from holdfast.core.config.project_directory import project_directory
from holdfast.core.config.reading import MOST_PROBLEMS, ConfigLocation, DocumentReader
from holdfast.core.config.rules import project_reads
from holdfast.core.config.text_file import Unreadable
from holdfast.core.config.trust import NAME as TRUST_FILE
from holdfast.core.config.trust import TRUST_NOTHING, TrustRequest, TrustSource, check_trust
from holdfast.core.config.watch import MOST_PATHS, Watch
from holdfast.core.diagnostic import Diagnostic
from holdfast.core.filesystem.own_folders import OwnFolders
from holdfast.core.permission.project_reads import READ_DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from holdfast.core.config.document import Entry, Origin
    from holdfast.core.config.project_directory import ProjectDirectory
    from holdfast.core.config.trust import Trust
    from holdfast.core.filesystem.ownership import Owners
    from holdfast.core.permission.project_reads import ProjectReads

__all__ = ["MOST_PROBLEMS", "Config", "describe", "load_config"]

FILE_LIMIT = 5 * 1024 * 1024
INLINE = "OPENCODE_CONFIG_CONTENT"

log = logging.getLogger(__name__)


class Config:
    def __init__(
        self,
        entries: Iterable[Entry] = (),
        diagnostics: Iterable[Diagnostic] = (),
        requests: Iterable[tuple[TrustRequest, bool]] = (),
        watch: Watch | None = None,
        project: ProjectDirectory | None = None,
        reads: ProjectReads | None = None,
    ) -> None:
        """`requests` are the settings that need trust, per source, and whether they are trusted; `watch` detects
        changed files; `reads` decides which files the project may name."""
        self._entries = tuple(entries)
        self._diagnostics = tuple(diagnostics)
        self._requests = tuple(requests)
        self._documents = tuple(entry for entry in self._entries if isinstance(entry, Document))
        self._project = project
        self.reads = reads or READ_DEFAULTS
        self.watch = watch or Watch()

    @property
    def directory_trusted(self) -> bool:
        """Whether programs of the user may start in the project's directory."""
        return self._project is not None and self._project.trusted

    def entries(self) -> tuple[Entry, ...]:
        """Documents and folders, lowest priority first; a folder follows its own documents."""
        return self._entries

    def documents(self) -> tuple[Document, ...]:
        return self._documents

    def resolver(self, folder: Directory) -> Callable[[str], str]:
        """Return what resolves the paths of files in a configuration folder, for `read_markdown`."""
        return _resolver(None if folder.origin == "user" else self.reads, anywhere=folder.trusted)

    def latest(self, key: str) -> Any:
        """The value from the highest-priority document that has the key. For settings that are not merged."""
        return next((found.data[key] for found in reversed(self._documents) if key in found.data), None)

    def sources(self) -> tuple[TrustSource, ...]:
        """The project's files and folders with settings that need trust, and its directory if the user's programs would
        start there. Reads folders and plugin files."""
        from holdfast.core.config.folder import folder_request

        strict = strict_rules(self._documents)
        folders = (entry for entry in self._entries if isinstance(entry, Directory) and entry.origin != "user")
        requests = (
            *self._requests,
            *(
                (folder_request(folder.path, strict, _resolver(self.reads, anywhere=True)), folder.trusted)
                for folder in folders
            ),
        )
        directory = self._project.source(self._documents) if self._project is not None else None
        return (
            *(
                TrustSource(request.path, request.digest(request.contents()), request.grants, trusted)
                for request, trusted in requests
                if request.grants
            ),
            *((directory,) if directory is not None else ()),
        )

    @property
    def secrets(self) -> frozenset[str]:
        """Substituted values of variables, from all documents. They must never be shown."""
        return frozenset(secret for document in self._documents for secret in document.secrets)

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return self._diagnostics

    @property
    def refused(self) -> bool:
        """Whether a file has an error. A reload then keeps the previous configuration."""
        return any(problem.severity == "error" for problem in self._diagnostics)

    def effective(self) -> dict[str, Any]:
        """All documents merged for display, without secrets. No domain uses it."""
        return merge(self._documents)


BEFORE_ALL = -1
"""The position of the document with the lowest priority."""


def load_config(
    directory: Path,
    root: Path,
    environment: Mapping[str, str],
    managed: Iterable[tuple[Path, dict[str, Any]]] = (),
    *,
    preset: tuple[Path, dict[str, Any]] | None = None,
    trust: Trust = TRUST_NOTHING,
    owners: Owners | None = None,
    watch: Watch | None = None,
    own: OwnFolders = OwnFolders(),  # noqa: B008 - without folders it is immutable,
) -> Config:
    """`root` is the project's root. `managed` are documents of the host, with their names; they have the highest
    priority, and `preset`, which the host chose for a program that chose none, has the lowest. `trust` decides which
    settings of project files count. With `owners`, project files and folders that another user could have written are
    ignored. `watch` records every file and folder before it is read. `own` are Holdfast's own folders, of
    which no project makes it read a file."""
    loading = _Loading(ConfigLocation(directory, root, environment), trust, owners, watch, own)
    if preset is not None:
        name, content = preset
        loading.keep(BEFORE_ALL, loading.reader(name, name.parent, "user").document(content).replace(preset=True))
    found = list(enumerate(discover(directory, root, environment)))
    loading.read_user([one for one in found if one[1].origin == "user"])
    if inline := environment.get(INLINE):
        loading.keep(len(found), loading.reader(Path(INLINE), directory, "user").parse(inline))
    for position, (name, content) in enumerate(managed, start=len(found) + 1):
        loading.keep(position, loading.reader(name, name.parent, "user").document(content).replace(managed=True))
    loading.read_project([one for one in found if one[1].origin != "user"])
    problems = loading.problems()
    for problem in problems:
        log.log(logging.ERROR if problem.severity == "error" else logging.WARNING, "%s", describe(problem))
    project = project_directory(root, trust)
    return Config(loading.entries(), problems, loading.requests(), watch, project, loading.reads)


class _Loading:
    """Reads the user's documents first: their rules decide which settings of a project need trust."""

    def __init__(
        self, location: ConfigLocation, trust: Trust, owners: Owners | None, watch: Watch | None, own: OwnFolders
    ) -> None:
        self._location = location
        self._own = own
        self._trust = trust
        self._owners = owners
        self._watch = watch
        self._readers: list[DocumentReader] = []
        self._entries: dict[int, Entry] = {}
        self._strict: tuple[dict[str, str], ...] = ()
        self.reads = READ_DEFAULTS
        if watch is not None:
            watch.add(directories(location.environment).state / TRUST_FILE)

    def reader(self, path: Path, folder: Path, origin: Origin) -> DocumentReader:
        self._readers.append(
            DocumentReader(path, folder, origin, self._location, self._trust, self.reads, self._strict, self._watch)
        )
        return self._readers[-1]

    def keep(self, position: int, entry: Entry | None) -> None:
        if entry is not None:
            self._entries[position] = entry

    def read_user(self, found: Iterable[tuple[int, CandidateFile | Directory]]) -> None:
        for position, one in found:
            if isinstance(one, Directory):
                self._watch_folder(one)
                self.keep(position, one)
            else:
                self._read(position, one)

    def read_project(self, found: Iterable[tuple[int, CandidateFile | Directory]]) -> None:
        self._strict = strict_rules(self._entries.values())
        user = (entry for entry in self.entries() if isinstance(entry, Document))
        self.reads = project_reads(user, self._location, self._own)
        if self._watch is not None:
            here = self._location
            for folder in project_folders(here.directory, here.root, here.environment):
                self._watch.add(folder / DOT)
        for position, one in found:
            if isinstance(one, CandidateFile):
                self._read(position, one, self._owners)
            elif self._owners is not None and (reason := self._owners.refusal(str(one.path))) is not None:
                self.reader(one.path, one.path, one.origin).ignore(reason)
            else:
                self._watch_folder(one)
                self.keep(position, self._with_trust(one))

    def entries(self) -> list[Entry]:
        """The entries that were kept, lowest priority first."""
        return [self._entries[position] for position in sorted(self._entries)]

    def problems(self) -> list[Diagnostic]:
        found = [problem for reader in self._readers for problem in reader.problems()]
        if (problem := self._trust.problem()) is not None:
            found.append(Diagnostic(str(problem.path), f"{problem.reason}; nothing is trusted"))
        if self._watch is not None and not self._watch.complete:
            message = f"there are more than {MOST_PATHS} configuration files; edits of the rest need a reload"
            found.append(Diagnostic(str(self._location.directory), message))
        return found

    def requests(self) -> list[tuple[TrustRequest, bool]]:
        return [(reader.request, reader.trusted) for reader in self._readers if reader.request is not None]

    def _read(self, position: int, found: CandidateFile, owners: Owners | None = None) -> None:
        if self._watch is not None:
            self._watch.add(found.path)
        if (text := found.read(FILE_LIMIT)) is None:
            return
        reader = self.reader(found.path, found.folder, found.origin)
        reason = owners.refusal(str(found.path), str(found.folder)) if owners is not None else None
        if reason is not None:
            reader.ignore(reason)
        else:
            document = reader.read(text)
            self.keep(position, document.replace(preset=found.preset) if document is not None else None)

    def _watch_folder(self, folder: Directory) -> None:
        if self._watch is not None:
            self._watch.add_folder(folder.path)

    def _with_trust(self, folder: Directory) -> Directory:
        """The folder with its origin: whether the user trusts its current content."""
        if not self._trust.knows(folder.path):
            return folder.replace(origin="untrusted")
        from holdfast.core.config.folder import folder_request

        verdict = check_trust(
            folder_request(folder.path, self._strict, _resolver(self.reads, anywhere=True)), self._trust
        )
        return folder.replace(origin="project" if verdict.trusted else "untrusted", contents=verdict.contents)


def strict_rules(entries: Iterable[Entry]) -> tuple[dict[str, str], ...]:
    documents = (entry.data for entry in entries if isinstance(entry, Document) and entry.origin == "user")
    parts = (part for data in documents for part in (data, *data.get("agents", {}).values()))
    return tuple(rule for part in parts for rule in part.get("permissions", ()) if rule["effect"] != "allow")


def _resolver(reads: ProjectReads | None, *, anywhere: bool) -> Callable[[str], str]:
    def resolve(path: str) -> str:
        if reads is None:
            return path
        if (reason := reads.refusal(path, anywhere=anywhere)) is not None:
            raise Unreadable(reason)
        return os.path.realpath(path)

    return resolve


def describe(problem: Diagnostic) -> str:
    place = problem.path if problem.line is None else f"{problem.path}:{problem.line}"
    hint = f" (did you mean {problem.suggestion}?)" if problem.suggestion else ""
    return f"{place}: {problem.message}{hint}"
