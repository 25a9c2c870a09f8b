"""Turns the text of one file into a Document: decodes, checks trust, validates, and collects diagnostics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.config.authority import NOT_TRUSTED, Grant, restrict_document
from holdfast.core.config.document import Document
from holdfast.core.config.environment import user_path
from holdfast.core.config.jsonc import InvalidJson, decode, line_numbers
from holdfast.core.config.migrate import migrate
from holdfast.core.config.plugin_files import plugin_name, plugin_path
from holdfast.core.config.trust import TrustRequest, check_trust
from holdfast.core.config.unsupported import report_unsupported
from holdfast.core.config.validate import Problem, Trail, validate
from holdfast.core.config.variables import Substitution, mentions_variables
from holdfast.core.diagnostic import Diagnostic
from holdfast.core.secret import hide
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from holdfast.core.config.document import Origin
    from holdfast.core.config.text_file import Unreadable
    from holdfast.core.config.trust import Trust
    from holdfast.core.config.watch import Watch
    from holdfast.core.diagnostic import Severity
    from holdfast.core.permission.project_reads import ProjectReads

MOST_PROBLEMS = 50
"""Per document. Further problems are summarised by their highest severity."""
NAME_CHARACTERS = 100
"""Longest name shown in a message: a key can be as long as its file."""


class ConfigLocation(Frozen):
    """The directories and the environment that configuration is read with."""

    directory: Path
    root: Path
    environment: Mapping[str, str]

    def outside(self, base: Path, text: str) -> bool:
        """Whether a path, as written by a person, leads out of the project."""
        try:
            path = (base / user_path(text, self.environment)).resolve()
            return not path.is_relative_to(self.root.resolve())
        except (OSError, RuntimeError, ValueError):
            return True


class DocumentReader:
    def __init__(
        self,
        path: Path,
        folder: Path,
        origin: Origin,
        location: ConfigLocation,
        trust: Trust,
        reads: ProjectReads,
        strict: Sequence[dict[str, str]] = (),
        watch: Watch | None = None,
    ) -> None:
        """`reads` decides which files a project may name; `strict` are the user's rules that ask or deny; `watch`
        records further files that are read."""
        self._path = path
        self._folder = folder
        self._origin = origin
        self._location = location
        self._trust = trust
        self._reads = reads
        self._strict = strict
        self._text = ""
        self._secrets: frozenset[str] = frozenset()
        self._problems: list[tuple[Diagnostic, Trail]] = []
        self._unlisted: Severity | None = None
        self._watch = watch
        self.request: TrustRequest | None = None
        """The settings that need trust, if the file has any."""
        self.trusted = False

    def ignore(self, reason: str) -> None:
        """Report that the file or its folder belongs to another user."""
        self._report(f"it or its folder {reason}; ignored")

    def read(self, text: str | Unreadable) -> Document | None:
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
            self._report(f"{name}: occurs twice in one object; the last value is used")
        return self.document(value)

    def document(self, value: dict[str, Any]) -> Document:
        if self._origin == "user":
            return self._complete(value)
        reported, unlisted = len(self._problems), self._unlisted
        document, request = self._restricted(value)
        if self._trust.knows(self._path):
            self._watch_plugins(request.plugins)
        verdict = check_trust(request, self._trust)
        self.request, self.trusted = request if request.grants else None, verdict.trusted
        if not verdict.trusted:
            return document
        del self._problems[reported:]  # these settings count after all
        self._unlisted = unlisted
        return self._complete(value).replace(contents=verdict.contents)

    def _complete(self, value: dict[str, Any]) -> Document:
        if self._mentions_variables:
            inside = None if self._origin == "user" else self._location.root
            value, self._secrets = self._substitution(inside).apply(value)
        data = self._valid(value)
        self._watch_plugins(self._plugins(data))
        return Document(self._path, self._folder, self._origin, data, self._secrets)

    def _restricted(self, value: dict[str, Any]) -> tuple[Document, TrustRequest]:
        """The document as it counts without trust, and the settings that need trust."""
        grants: list[Grant] = []
        written = value
        if self._mentions_variables:

            def withheld(trail: Trail, wants: str) -> None:
                grants.append(Grant(trail, wants, _at(written, trail)))

            value, self._secrets = self._substitution(self._location.root, withheld).apply(value)
        valid = self._valid(value)
        data, restricted = restrict_document(valid, self._outside, self._strict)
        grants += restricted
        for grant in grants:
            self._dropped(grant.trail, f"{grant.wants}; {NOT_TRUSTED}")
        request = TrustRequest(self._path, tuple(grants), self._plugins(valid))
        return Document(self._path, self._folder, "untrusted", data, self._secrets), request

    def _valid(self, value: dict[str, Any]) -> dict[str, Any]:
        """The document in the current format, without what is invalid or unknown."""
        data = validate(migrate(value, self._dropped), self._invalid)
        report_unsupported(data, self._dropped)
        zone = data.get("timezone")
        if zone is not None and not _is_zone(zone):
            self._dropped(("timezone",), f"{zone[:NAME_CHARACTERS]!r} is not a known time zone; the host's is used")
            del data["timezone"]
        return data

    def _substitution(self, inside: Path | None, withheld: Callable[[Trail, str], None] | None = None) -> Substitution:
        return Substitution(
            self._folder,
            inside,
            self._location.environment,
            self._dropped,
            withheld,
            protecting=None if self._origin == "user" else self._reads.protecting,
            watch=self._watch.add if self._watch is not None else lambda path: None,
        )

    def _plugins(self, data: Mapping[str, Any]) -> tuple[Path, ...]:
        """Plugins that are files."""
        names = map(plugin_name, data.get("plugins", ()))
        found = (plugin_path(name, self._folder, self._location.environment) for name in names)
        return tuple(path for path in found if path is not None)

    def _watch_plugins(self, plugins: Sequence[Path]) -> None:
        if self._watch is not None:
            for path in plugins:
                self._watch.add_plugin(path)

    def _outside(self, text: str) -> bool:
        """Whether a path leads out of the project. References are relative to the file's folder, skills to the
        Location; both must be inside."""
        return any(self._location.outside(base, text) for base in (self._folder, self._location.directory))

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
        """All problems, with the names used in the file and the line of the setting, or of the nearest enclosing one in
        the file."""
        spellings = {trail: list(_spellings(trail)) for _, trail in self._problems if trail}
        lines = (
            line_numbers(self._text, (spelling for found in spellings.values() for spelling in found))
            if spellings
            else {}
        )
        for problem, trail in self._problems:
            spelling = next((spelling for spelling in spellings.get(trail, ()) if spelling in lines), None)
            if spelling is None:
                yield problem
                continue
            message, before = problem.message, _dotted(trail)
            same = spelling[-1] == trail[-1] or len(spelling) == len(trail) == 1
            if message.startswith(f"{before}: ") and same:
                message = f"{_dotted(spelling)}{message.removeprefix(before)}"
            yield problem.replace(line=lines[spelling], message=message)
        if self._unlisted:
            yield Diagnostic(str(self._path), "has more problems, which are not listed", None, self._unlisted)


def _is_zone(name: str) -> bool:
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


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
    "attachments": ("attachment",),
    "share": ("autoshare",),
}


def _spellings(trail: Trail) -> Iterator[Trail]:
    """The ways in which a file may spell this path in the V1 or current format, most exact first."""
    while trail:
        yield trail
        for former in _FORMER.get(str(trail[0]), ()):
            yield (former, *trail[1:])
        if trail[:2] == ("mcp", "servers"):
            yield ("mcp", *trail[2:])
        trail = trail[:-1]


def _dotted(trail: Trail) -> str:
    return ".".join(str(part)[:NAME_CHARACTERS] for part in trail)
