"""The configuration of one Location, read once. Loading never writes, and never raises for what a file contains."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.config.discovery import Candidate, discover
from holdfast.core.config.document import Diagnostic, Document
from holdfast.core.config.jsonc import InvalidJson, decode, lines_of
from holdfast.core.config.merge import merge
from holdfast.core.config.migrate import migrate
from holdfast.core.config.secret import hide
from holdfast.core.config.validate import Problem, Trail, validate
from holdfast.core.config.variables import Substitution, mentions_variables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from holdfast.core.config.document import Entry, Severity
    from holdfast.core.config.text_file import Unreadable

FILE_LIMIT = 5 * 1024 * 1024
MOST_PROBLEMS = 50
"""Per document; of those beyond it only the weight is told."""
NAME_CHARACTERS = 100
"""Of a name in a message: a key can be as long as its file."""
INLINE = "OPENCODE_CONFIG_CONTENT"

log = logging.getLogger(__name__)


class Config:
    def __init__(self, entries: Iterable[Entry] = (), diagnostics: Iterable[Diagnostic] = ()) -> None:
        self._entries = tuple(entries)
        self._diagnostics = tuple(diagnostics)
        self._documents = tuple(entry for entry in self._entries if isinstance(entry, Document))

    def entries(self) -> tuple[Entry, ...]:
        """Documents and folders, low to high priority; a folder follows its own documents."""
        return self._entries

    def documents(self) -> tuple[Document, ...]:
        return self._documents

    def latest(self, key: str) -> Any:
        """The value of the last document that has one: the rule for everything that is not folded."""
        return next((found.data[key] for found in reversed(self._documents) if key in found.data), None)

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
    directory: Path, root: Path, environment: Mapping[str, str], managed: Iterable[tuple[Path, dict[str, Any]]] = ()
) -> Config:
    """`root` is the project's; `managed` are documents of the host, with their names, which count last of all."""
    entries: list[Entry] = []
    sources: list[_Source] = []

    def source(path: Path, directory: Path, trusted: bool) -> _Source:
        sources.append(_Source(path, directory, trusted, root, environment))
        return sources[-1]

    for found in discover(directory, root, environment):
        if not isinstance(found, Candidate):
            entries.append(found)
            continue
        text = found.read(FILE_LIMIT)
        if text is not None and (document := source(found.path, found.folder, found.trusted).use(text)):
            entries.append(document)
    if (inline := environment.get(INLINE)) and (document := source(Path(INLINE), directory, True).parse(inline)):
        entries.append(document)
    for name, content in managed:
        entries.append(source(name, name.parent, True).document(content).but(managed=True))
    problems = [problem for used in sources for problem in used.problems()]
    for problem in problems:
        log.log(logging.ERROR if problem.severity == "error" else logging.WARNING, "%s", describe(problem))
    return Config(entries, problems)


def describe(problem: Diagnostic) -> str:
    place = problem.path if problem.line is None else f"{problem.path}:{problem.line}"
    hint = f" (did you mean {problem.suggestion}?)" if problem.suggestion else ""
    return f"{place}: {problem.message}{hint}"


class _Source:
    """One text on its way to a document."""

    def __init__(
        self,
        path: Path,
        directory: Path,
        trusted: bool,
        root: Path,
        environment: Mapping[str, str],
    ) -> None:
        self._path = path
        self._directory = directory
        self._trusted = trusted
        self._root = root
        self._environment = environment
        self._text = ""
        self._secrets: frozenset[str] = frozenset()
        self._problems: list[tuple[Diagnostic, Trail]] = []
        self._unlisted: Severity | None = None

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
        if not self._text or mentions_variables(self._text):
            inside = None if self._trusted else self._root
            substitution = Substitution(self._directory, inside, self._environment, self._dropped)
            value, self._secrets = substitution.apply(value)
        data = validate(migrate(value, self._dropped), self._invalid)
        if not self._trusted:
            self._look_for_wide_rules(data)
        return Document(self._path, self._directory, self._trusted, data, self._secrets)

    def _look_for_wide_rules(self, data: dict[str, Any]) -> None:
        """A project may say what its agents are allowed; that it allows everything should not go unnoticed."""
        named = {f"agents.{id}.": agent for id, agent in data.get("agents", {}).items()}
        for where, part in {"": data, **named}.items():
            for rule in part.get("permissions", ()):
                if rule["effect"] == "allow" and _is_wide(rule):
                    message = f"{where}permissions: this project's file allows {rule['action']} on everything"
                    self._report(message, trail=("permissions",))

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


def _is_wide(rule: dict[str, str]) -> bool:
    """However it is written: whether it is about every file outside the project."""
    from holdfast.core.permission.wildcard import matches

    return matches(rule["action"], "external_directory") and matches(rule["resource"], "/anywhere/at all")


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
