"""The configuration of one Location, read once. Loading never writes, and never raises for what a file contains."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.config.authority import NOT_TRUSTED, Grant, digest, narrowed
from holdfast.core.config.discovery import Candidate, discover
from holdfast.core.config.document import Diagnostic, Directory, Document
from holdfast.core.config.environment import user_path
from holdfast.core.config.jsonc import InvalidJson, decode, lines_of
from holdfast.core.config.merge import merge
from holdfast.core.config.migrate import migrate
from holdfast.core.config.secret import hide
from holdfast.core.config.trust import TRUST_NOTHING, Source
from holdfast.core.config.validate import Problem, Trail, validate
from holdfast.core.config.variables import Substitution, mentions_variables
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from holdfast.core.config.document import Entry, Origin, Severity
    from holdfast.core.config.text_file import Unreadable
    from holdfast.core.config.trust import Trust
    from holdfast.core.filesystem.ownership import Owners

FILE_LIMIT = 5 * 1024 * 1024
MOST_PROBLEMS = 50
"""Per document; of those beyond it only the weight is told."""
NAME_CHARACTERS = 100
"""Of a name in a message: a key can be as long as its file."""
INLINE = "OPENCODE_CONFIG_CONTENT"

log = logging.getLogger(__name__)


class Config:
    def __init__(
        self,
        entries: Iterable[Entry] = (),
        diagnostics: Iterable[Diagnostic] = (),
        sources: Iterable[Source] = (),
    ) -> None:
        self._entries = tuple(entries)
        self._diagnostics = tuple(diagnostics)
        self._sources = tuple(sources)
        self._documents = tuple(entry for entry in self._entries if isinstance(entry, Document))

    def entries(self) -> tuple[Entry, ...]:
        """Documents and folders, low to high priority; a folder follows its own documents."""
        return self._entries

    def documents(self) -> tuple[Document, ...]:
        return self._documents

    def latest(self, key: str) -> Any:
        """The value of the last document that has one: the rule for everything that is not folded."""
        return next((found.data[key] for found in reversed(self._documents) if key in found.data), None)

    def sources(self) -> tuple[Source, ...]:
        """The project's files and folders that want something which needs trust. Reads the folders."""
        from holdfast.core.config.folder import folder_grants

        found = list(self._sources)
        for entry in self._entries:
            if isinstance(entry, Directory) and entry.origin != "user":
                grants = folder_grants(entry.path, self._strict)
                if grants:
                    found.append(Source(entry.path, digest(grants), grants, entry.trusted))
        return tuple(found)

    @property
    def _strict(self) -> tuple[dict[str, str], ...]:
        return tuple(_strict_rules(self._documents))

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
) -> Config:
    """`root` is the project's; `managed` are documents of the host, with their names, which count last of all. `trust`
    decides what a project's files may say beyond narrowing. With `owners`, a project's file or folder that somebody
    else could have written is ignored."""
    entries: list[Entry] = []
    readings: list[_Reading] = []

    def reading(path: Path, folder: Path, origin: Origin) -> _Reading:
        strict = list(_strict_rules(entries))
        readings.append(_Reading(path, folder, origin, _Place(directory, root, environment), trust, strict))
        return readings[-1]

    for found in discover(directory, root, environment):
        if not isinstance(found, Candidate):
            if found.origin == "user":
                entries.append(found)
            elif owners is not None and (reason := owners.refusal(str(found.path))) is not None:
                reading(found.path, found.path, found.origin).ignore(reason)
            else:
                entries.append(_judged(found, trust, entries))
            continue
        if (text := found.read(FILE_LIMIT)) is None:
            continue
        used = reading(found.path, found.folder, found.origin)
        checked = owners if found.origin == "project" else None
        reason = checked.refusal(str(found.path), str(found.folder)) if checked is not None else None
        if reason is not None:
            used.ignore(reason)
        elif (document := used.use(text)) is not None:
            entries.append(document)
    if (inline := environment.get(INLINE)) and (document := reading(Path(INLINE), directory, "user").parse(inline)):
        entries.append(document)
    for name, content in managed:
        entries.append(reading(name, name.parent, "user").document(content).but(managed=True))
    problems = [problem for used in readings for problem in used.problems()]
    for problem in problems:
        log.log(logging.ERROR if problem.severity == "error" else logging.WARNING, "%s", describe(problem))
    return Config(entries, problems, (used.source for used in readings if used.source is not None))


def _judged(folder: Directory, trust: Trust, entries: Iterable[Entry]) -> Directory:
    """A project's folder, and whether its user trusts what is in it now."""
    if not trust.knows(folder.path):
        return folder.but(origin="untrusted")
    from holdfast.core.config.folder import folder_grants

    grants = folder_grants(folder.path, list(_strict_rules(entries)))
    return folder.but(origin="project" if trust.covers(folder.path, digest(grants)) else "untrusted")


def _strict_rules(entries: Iterable[Entry]) -> Iterator[dict[str, str]]:
    """The user's own rules that ask or deny."""
    for document in entries:
        if isinstance(document, Document) and document.origin == "user":
            agents = document.data.get("agents", {}).values()
            for part in (document.data, *agents):
                yield from (rule for rule in part.get("permissions", ()) if rule["effect"] != "allow")


def describe(problem: Diagnostic) -> str:
    place = problem.path if problem.line is None else f"{problem.path}:{problem.line}"
    hint = f" (did you mean {problem.suggestion}?)" if problem.suggestion else ""
    return f"{place}: {problem.message}{hint}"


class _Place(Frozen):
    """Where a Location is."""

    directory: Path
    root: Path
    environment: Mapping[str, str]

    def outside(self, base: Path, text: str) -> bool:
        """Whether a path as a person writes it leads out of the project."""
        try:
            path = (base / user_path(text, self.environment)).resolve()
            return not path.is_relative_to(self.root.resolve())
        except (OSError, RuntimeError, ValueError):
            return True


class _Reading:
    """One text on its way to a document."""

    def __init__(
        self,
        path: Path,
        folder: Path,
        origin: Origin,
        place: _Place,
        trust: Trust,
        strict: list[dict[str, str]],
    ) -> None:
        self._path = path
        self._folder = folder
        self._origin = origin
        self._place = place
        self._trust = trust
        self._strict = strict
        self._text = ""
        self._secrets: frozenset[str] = frozenset()
        self._problems: list[tuple[Diagnostic, Trail]] = []
        self._unlisted: Severity | None = None
        self.source: Source | None = None
        """What a project's file wants beyond narrowing, if anything."""

    def ignore(self, reason: str) -> None:
        """The file, or the folder it lies in, belongs to somebody else."""
        self._report(f"it or its folder {reason}; ignored")

    def use(self, text: str | Unreadable) -> Document | None:
        if isinstance(text, str):
            return self.parse(text)
        self._report(f"{text}; ignored", severe=True)
        return None

    def parse(self, text: str) -> Document | None:
        self._text = text
        if not text.strip().removeprefix("\ufeff"):
            return None
        try:
            value, repeated = decode(text)
        except InvalidJson as error:
            self._report(f"{error}; ignored", line=error.line, severe=True)
            return None
        if not isinstance(value, dict):
            self._report("is not an object; ignored", severe=True)
            return None
        for name in repeated:
            self._report(f"{name}: stands twice in one object; the last one counts")
        return self.document(value)

    def document(self, value: dict[str, Any]) -> Document:
        if self._origin == "user":
            return self._whole(value)
        told = len(self._problems), self._unlisted
        document = self._narrowed(value)
        if not self._trust.covers(self._path, digest(self.source.grants if self.source else ())):
            return document
        del self._problems[told[0] :]  # of settings that count after all
        self._unlisted = told[1]
        return self._whole(value)

    def _whole(self, value: dict[str, Any]) -> Document:
        if self._mentions_variables:
            inside = None if self._origin == "user" else self._place.root
            substitution = Substitution(self._folder, inside, self._place.environment, self._dropped)
            value, self._secrets = substitution.apply(value)
        data = validate(migrate(value, self._dropped), self._invalid)
        return Document(self._path, self._folder, self._origin, data, self._secrets)

    def _narrowed(self, value: dict[str, Any]) -> Document:
        """What counts while nobody trusts the project. What else the file wants is `source`."""
        grants: list[Grant] = []
        written = value
        if self._mentions_variables:

            def withheld(trail: Trail, wants: str) -> None:
                grants.append(Grant(trail, wants, _at(written, trail)))

            place = self._place
            substitution = Substitution(self._folder, place.root, place.environment, self._dropped, withheld)
            value, self._secrets = substitution.apply(value)
        valid = validate(migrate(value, self._dropped), self._invalid)
        data, found = narrowed(valid, self._outside, self._strict)
        grants += found
        if grants:
            known = digest(grants)
            self.source = Source(self._path, known, tuple(grants), self._trust.covers(self._path, known))
            for grant in grants:
                self._dropped(grant.trail, f"{grant.wants}; {NOT_TRUSTED}")
        return Document(self._path, self._folder, "untrusted", data, self._secrets)

    def _outside(self, text: str) -> bool:
        """References are relative to the file's folder, skills to the Location: both have to be inside."""
        return any(self._place.outside(base, text) for base in (self._folder, self._place.directory))

    @property
    def _mentions_variables(self) -> bool:
        return not self._text or mentions_variables(self._text)

    def _dropped(self, trail: Trail, message: str) -> None:
        self._report(f"{_dotted(trail)}: {message}", trail=trail)

    def _invalid(self, problem: Problem) -> None:
        message = f"{_dotted(problem.trail)}: {problem.message}"
        self._report(message, trail=problem.trail, severe=problem.fatal, suggestion=problem.suggestion)

    def _report(
        self,
        message: str,
        *,
        trail: Trail = (),
        line: int | None = None,
        severe: bool = False,
        suggestion: str | None = None,
    ) -> None:
        severity: Severity = "error" if severe else "warning"
        if len(self._problems) == MOST_PROBLEMS:
            self._unlisted = "error" if severe else self._unlisted or severity
        else:
            hidden = hide(message, self._secrets)
            self._problems.append((Diagnostic(str(self._path), hidden, line, severity, suggestion), trail))

    def problems(self) -> Iterator[Diagnostic]:
        """Each with the line of what it is about, or of the nearest thing around it that the file has."""
        shapes = {trail: list(_shapes(trail)) for _, trail in self._problems if trail}
        lines = lines_of(self._text, (shape for found in shapes.values() for shape in found)) if shapes else {}
        for problem, trail in self._problems:
            line = next((lines[shape] for shape in shapes.get(trail, ()) if shape in lines), problem.line)
            yield problem.but(line=line)
        if self._unlisted:
            yield Diagnostic(str(self._path), "has more problems, which are not listed", None, self._unlisted)


def _at(value: Any, trail: Trail) -> Any:
    for part in trail:
        value = value[part]
    return value


_FORMER: dict[str, tuple[str, ...]] = {
    "providers": ("provider",),
    "agents": ("agent", "mode"),
    "permissions": ("permission", "tools"),
    "commands": ("command",),
    "references": ("reference",),
    "plugins": ("plugin",),
}


def _shapes(trail: Trail) -> Iterator[Trail]:
    """How a file may have written this path before it was migrated, the most exact first."""
    while trail:
        yield trail
        for former in _FORMER.get(str(trail[0]), ()):
            yield (former, *trail[1:])
        if trail[:2] == ("mcp", "servers"):
            yield ("mcp", *trail[2:])
        trail = trail[:-1]


def _dotted(trail: Trail) -> str:
    return ".".join(str(part)[:NAME_CHARACTERS] for part in trail)
