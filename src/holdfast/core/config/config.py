"""The configuration of one Location, read once. Loading never writes, and never raises for what a file contains."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.config.discovery import Candidate, discover, project_folders
from holdfast.core.config.document import DOT, Directory, Document
from holdfast.core.config.environment import directories
from holdfast.core.config.merge import merge
from holdfast.core.config.reading import MOST_PROBLEMS, Place, Reading
from holdfast.core.config.trust import NAME as TRUST_FILE
from holdfast.core.config.trust import TRUST_NOTHING, Source, Wanted, judge
from holdfast.core.config.watch import MOST_PATHS, Watch
from holdfast.core.diagnostic import Diagnostic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from holdfast.core.config.document import Entry, Origin
    from holdfast.core.config.trust import Trust
    from holdfast.core.filesystem.ownership import Owners

__all__ = ["MOST_PROBLEMS", "Config", "describe", "load_config"]

FILE_LIMIT = 5 * 1024 * 1024
INLINE = "OPENCODE_CONFIG_CONTENT"

log = logging.getLogger(__name__)


class Config:
    def __init__(
        self,
        entries: Iterable[Entry] = (),
        diagnostics: Iterable[Diagnostic] = (),
        wanted: Iterable[tuple[Wanted, bool]] = (),
        watch: Watch | None = None,
    ) -> None:
        """`wanted` is what the project's files want, and whether that is trusted; `watch` tells when a file changed."""
        self._entries = tuple(entries)
        self._diagnostics = tuple(diagnostics)
        self._wanted = tuple(wanted)
        self._documents = tuple(entry for entry in self._entries if isinstance(entry, Document))
        self.watch = watch or Watch()

    def entries(self) -> tuple[Entry, ...]:
        """Documents and folders, low to high priority; a folder follows its own documents."""
        return self._entries

    def documents(self) -> tuple[Document, ...]:
        return self._documents

    def latest(self, key: str) -> Any:
        """The value of the last document that has one: the rule for everything that is not folded."""
        return next((found.data[key] for found in reversed(self._documents) if key in found.data), None)

    def sources(self) -> tuple[Source, ...]:
        """The project's files and folders that want something which needs trust. Reads folders and plugins."""
        from holdfast.core.config.folder import folder_wants

        strict = strict_rules(self._documents)
        folders = (entry for entry in self._entries if isinstance(entry, Directory) and entry.origin != "user")
        wanted = (*self._wanted, *((folder_wants(folder.path, strict), folder.trusted) for folder in folders))
        return tuple(
            Source(one.path, one.digest(one.contents()), one.grants, trusted) for one, trusted in wanted if one.grants
        )

    @property
    def secrets(self) -> frozenset[str]:
        """What variables stood for, anywhere: never to be shown."""
        return frozenset(secret for document in self._documents for secret in document.secrets)

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return self._diagnostics

    @property
    def refused(self) -> bool:
        """Whether a file could not be used as it was meant: a reload keeps the former configuration then."""
        return any(problem.severity == "error" for problem in self._diagnostics)

    def effective(self) -> dict[str, Any]:
        """One merged object to look at, without secrets. Nothing works with it."""
        return merge(self._documents)


def load_config(
    directory: Path,
    root: Path,
    environment: Mapping[str, str],
    managed: Iterable[tuple[Path, dict[str, Any]]] = (),
    *,
    trust: Trust = TRUST_NOTHING,
    owners: Owners | None = None,
    watch: Watch | None = None,
) -> Config:
    """`root` is the project's; `managed` are documents of the host, with their names, which count last of all. `trust`
    decides what a project's files may say beyond narrowing. With `owners`, a project's file or folder that somebody
    else could have written is ignored. `watch` is told of every file and folder before it is read."""
    loading = _Loading(Place(directory, root, environment), trust, owners, watch)
    found = list(enumerate(discover(directory, root, environment)))
    loading.read_user([one for one in found if one[1].origin == "user"])
    if inline := environment.get(INLINE):
        loading.keep(len(found), loading.reading(Path(INLINE), directory, "user").parse(inline))
    for position, (name, content) in enumerate(managed, start=len(found) + 1):
        loading.keep(position, loading.reading(name, name.parent, "user").document(content).replace(managed=True))
    loading.read_project([one for one in found if one[1].origin != "user"])
    problems = loading.problems()
    for problem in problems:
        log.log(logging.ERROR if problem.severity == "error" else logging.WARNING, "%s", describe(problem))
    return Config(loading.entries(), problems, loading.wanted(), watch)


class _Loading:
    """The user's own documents are read first: their rules have a say in what a project may want."""

    def __init__(self, place: Place, trust: Trust, owners: Owners | None, watch: Watch | None) -> None:
        self._place = place
        self._trust = trust
        self._owners = owners
        self._watch = watch
        self._readings: list[Reading] = []
        self._entries: dict[int, Entry] = {}
        self._strict: tuple[dict[str, str], ...] = ()
        if watch is not None:
            watch.add(directories(place.environment).state / TRUST_FILE)

    def reading(self, path: Path, folder: Path, origin: Origin) -> Reading:
        self._readings.append(Reading(path, folder, origin, self._place, self._trust, self._strict, self._watch))
        return self._readings[-1]

    def keep(self, position: int, entry: Entry | None) -> None:
        if entry is not None:
            self._entries[position] = entry

    def read_user(self, found: Iterable[tuple[int, Candidate | Directory]]) -> None:
        for position, one in found:
            if isinstance(one, Directory):
                self._watch_folder(one)
                self.keep(position, one)
            else:
                self._read(position, one)

    def read_project(self, found: Iterable[tuple[int, Candidate | Directory]]) -> None:
        self._strict = strict_rules(self._entries.values())
        if self._watch is not None:
            place = self._place
            for folder in project_folders(place.directory, place.root, place.environment):
                self._watch.add(folder / DOT)
        for position, one in found:
            if isinstance(one, Candidate):
                self._read(position, one, self._owners)
            elif self._owners is not None and (reason := self._owners.refusal(str(one.path))) is not None:
                self.reading(one.path, one.path, one.origin).ignore(reason)
            else:
                self._watch_folder(one)
                self.keep(position, self._judged(one))

    def entries(self) -> list[Entry]:
        """Everything that was kept, low to high."""
        return [self._entries[position] for position in sorted(self._entries)]

    def problems(self) -> list[Diagnostic]:
        found = [problem for used in self._readings for problem in used.problems()]
        if self._watch is not None and not self._watch.complete:
            message = f"there are more than {MOST_PATHS} configuration files; edits of the rest need a reload"
            found.append(Diagnostic(str(self._place.directory), message))
        return found

    def wanted(self) -> list[tuple[Wanted, bool]]:
        return [(used.wanted, used.trusted) for used in self._readings if used.wanted is not None]

    def _read(self, position: int, found: Candidate, owners: Owners | None = None) -> None:
        if self._watch is not None:
            self._watch.add(found.path)
        if (text := found.read(FILE_LIMIT)) is None:
            return
        used = self.reading(found.path, found.folder, found.origin)
        reason = owners.refusal(str(found.path), str(found.folder)) if owners is not None else None
        if reason is not None:
            used.ignore(reason)
        else:
            self.keep(position, used.use(text))

    def _watch_folder(self, folder: Directory) -> None:
        if self._watch is not None:
            self._watch.add_folder(folder.path)

    def _judged(self, folder: Directory) -> Directory:
        """A project's folder, and whether its user trusts what is in it now."""
        if not self._trust.knows(folder.path):
            return folder.replace(origin="untrusted")
        from holdfast.core.config.folder import folder_wants

        judged = judge(folder_wants(folder.path, self._strict), self._trust)
        return folder.replace(origin="project" if judged.trusted else "untrusted", contents=judged.contents)


def strict_rules(entries: Iterable[Entry]) -> tuple[dict[str, str], ...]:
    """The user's own rules that ask or deny."""
    return tuple(_strict_rules(entries))


def _strict_rules(entries: Iterable[Entry]) -> Iterator[dict[str, str]]:
    for document in entries:
        if isinstance(document, Document) and document.origin == "user":
            agents = document.data.get("agents", {}).values()
            for part in (document.data, *agents):
                yield from (rule for rule in part.get("permissions", ()) if rule["effect"] != "allow")


def describe(problem: Diagnostic) -> str:
    place = problem.path if problem.line is None else f"{problem.path}:{problem.line}"
    hint = f" (did you mean {problem.suggestion}?)" if problem.suggestion else ""
    return f"{place}: {problem.message}{hint}"
