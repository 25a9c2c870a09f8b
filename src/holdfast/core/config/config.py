"""The configuration of one Location, read once. Loading never writes, and never raises for what a file contains."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.config.discovery import Candidate, discover
from holdfast.core.config.document import Diagnostic, Document
from holdfast.core.config.jsonc import InvalidJson, decode, line_of
from holdfast.core.config.legacy import ProviderConfig, providers
from holdfast.core.config.merge import merge
from holdfast.core.config.migrate import migrate
from holdfast.core.config.text_file import Unreadable, read_text
from holdfast.core.config.validate import Problem, Trail, validate
from holdfast.core.config.variables import Substitution, hide

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.core.config.document import Entry, Severity

FILE_LIMIT = 5 * 1024 * 1024
MOST_PROBLEMS = 50
"""Per document; finding the line of each takes a pass over the file."""
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

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return self._diagnostics

    @property
    def refused(self) -> bool:
        """Whether a file could not be used as it was meant: a reload keeps the former configuration then."""
        return any(problem.severity == "error" for problem in self._diagnostics)

    @property
    def model(self) -> str | None:
        found = self.latest("model")
        return found if isinstance(found, str) else None

    @property
    def providers(self) -> dict[str, ProviderConfig]:
        return providers(self._documents)

    def effective(self) -> dict[str, Any]:
        """One merged object to look at, without secrets. Nothing works with it."""
        return merge(self._documents)


def load_config(
    directory: Path, root: Path, environment: Mapping[str, str], managed: Iterable[tuple[Path, dict[str, Any]]] = ()
) -> Config:
    """`root` is the project's; `managed` are documents of the host, with their names, which count last of all."""
    entries: list[Entry] = []
    problems: list[Diagnostic] = []
    for found in discover(directory, root, environment):
        if not isinstance(found, Candidate):
            entries.append(found)
        elif document := _Source(found.path, found.path.parent, found.trusted, root, environment, problems).read():
            entries.append(document)
    if inline := environment.get(INLINE):
        source = _Source(Path(INLINE), directory, True, root, environment, problems)
        entries += filter(None, [source.parse(inline)])
    for name, content in managed:
        source = _Source(name, name.parent, True, root, environment, problems)
        entries.append(replace(source.document(content), managed=True))
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
        problems: list[Diagnostic],
    ) -> None:
        self._path = path
        self._directory = directory
        self._trusted = trusted
        self._root = root
        self._environment = environment
        self._problems = problems
        self._text = ""
        self._secrets: frozenset[str] = frozenset()
        self._reported = 0
        self._severe = False

    def read(self) -> Document | None:
        try:
            text = read_text(self._path, FILE_LIMIT)
        except Unreadable as error:
            self._report(f"{error}; ignored", severe=True)
            return None
        return None if text is None else self.parse(text)

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
        inside = None if self._trusted else self._root.resolve()
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
                wide = rule["resource"] == "*" and rule["action"] in ("*", "external_directory")
                if wide and rule["effect"] == "allow":
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
        self._reported += 1
        if self._reported > MOST_PROBLEMS:
            if severe and not self._severe:
                self._problems.append(Diagnostic(str(self._path), "has more fatal problems", None, "error"))
            elif self._reported == MOST_PROBLEMS + 1:
                self._problems.append(Diagnostic(str(self._path), "has more problems, which are not listed"))
            self._severe |= severe
            return
        self._severe |= severe
        found = line if line is not None or not trail else _line(self._text, trail)
        message = hide(message, self._secrets)
        severity: Severity = "error" if severe else "warning"
        self._problems.append(Diagnostic(str(self._path), message, found, severity, suggestion))


_FORMER: dict[str, tuple[str, ...]] = {
    "providers": ("provider",),
    "agents": ("agent", "mode"),
    "permissions": ("permission", "tools"),
    "commands": ("command",),
    "references": ("reference",),
    "plugins": ("plugin",),
}


def _line(text: str, trail: Trail) -> int | None:
    """Where it stands in the file as written, or the nearest thing around it."""
    while trail:
        first, *rest = trail
        shapes: list[list[str | int]] = [[former, *rest] for former in (first, *_FORMER.get(str(first), ()))]
        if trail[:2] == ("mcp", "servers"):
            shapes.append(["mcp", *trail[2:]])
        for shape in shapes:
            if (line := line_of(text, shape)) is not None:
                return line
        trail = trail[:-1]
    return None


def _dotted(trail: Trail) -> str:
    return ".".join(str(part) for part in trail)
