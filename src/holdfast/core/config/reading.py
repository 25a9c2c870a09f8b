"""One text on its way to a document: decoded, judged by its origin, validated; and everything in it that does not
count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.config.authority import NOT_TRUSTED, Grant, narrowed
from holdfast.core.config.document import Document
from holdfast.core.config.environment import user_path
from holdfast.core.config.jsonc import InvalidJson, decode, lines_of
from holdfast.core.config.migrate import migrate
from holdfast.core.config.plugin_files import plugin_name, plugin_path
from holdfast.core.config.trust import Wanted, judge
from holdfast.core.config.unsupported import unsupported
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

MOST_PROBLEMS = 50
"""Per document; of those beyond it only the weight is told."""
NAME_CHARACTERS = 100
"""Of a name in a message: a key can be as long as its file."""


class Place(Frozen):
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


class Reading:
    def __init__(
        self,
        path: Path,
        folder: Path,
        origin: Origin,
        place: Place,
        trust: Trust,
        strict: Sequence[dict[str, str]] = (),
        watch: Watch | None = None,
    ) -> None:
        """`strict` are the user's rules that ask or deny; `watch` notes what else is read."""
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
        self._watch = watch
        self.wanted: Wanted | None = None
        """What a project's file wants beyond narrowing, if anything."""
        self.trusted = False

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
        document, wanted = self._narrowed(value)
        if self._trust.knows(self._path):
            self._watch_plugins(wanted.plugins)
        judged = judge(wanted, self._trust)
        self.wanted, self.trusted = wanted if wanted.grants else None, judged.trusted
        if not judged.trusted:
            return document
        del self._problems[told[0] :]  # of settings that count after all
        self._unlisted = told[1]
        return self._whole(value).replace(contents=judged.contents)

    def _whole(self, value: dict[str, Any]) -> Document:
        if self._mentions_variables:
            inside = None if self._origin == "user" else self._place.root
            value, self._secrets = self._substitution(inside).apply(value)
        data = validate(migrate(value, self._dropped), self._invalid)
        unsupported(data, self._dropped)
        self._watch_plugins(self._plugins(data))
        return Document(self._path, self._folder, self._origin, data, self._secrets)

    def _narrowed(self, value: dict[str, Any]) -> tuple[Document, Wanted]:
        """What counts while nobody trusts the project, and what else the file wants."""
        grants: list[Grant] = []
        written = value
        if self._mentions_variables:

            def withheld(trail: Trail, wants: str) -> None:
                grants.append(Grant(trail, wants, _at(written, trail)))

            value, self._secrets = self._substitution(self._place.root, withheld).apply(value)
        valid = validate(migrate(value, self._dropped), self._invalid)
        unsupported(valid, self._dropped)
        data, found = narrowed(valid, self._outside, self._strict)
        grants += found
        for grant in grants:
            self._dropped(grant.trail, f"{grant.wants}; {NOT_TRUSTED}")
        wanted = Wanted(self._path, tuple(grants), self._plugins(valid))
        return Document(self._path, self._folder, "untrusted", data, self._secrets), wanted

    def _substitution(self, inside: Path | None, withheld: Callable[[Trail, str], None] | None = None) -> Substitution:
        reads = self._watch.add if self._watch is not None else lambda path: None
        return Substitution(self._folder, inside, self._place.environment, self._dropped, withheld, reads)

    def _plugins(self, data: Mapping[str, Any]) -> tuple[Path, ...]:
        """Those that are files."""
        names = map(plugin_name, data.get("plugins", ()))
        found = (plugin_path(name, self._folder, self._place.environment) for name in names)
        return tuple(path for path in found if path is not None)

    def _watch_plugins(self, plugins: Sequence[Path]) -> None:
        if self._watch is not None:
            for path in plugins:
                self._watch.add_plugin(path)

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
        """Each with the line of what it is about, or of the nearest thing around it that the file has, and under the
        names that the file uses."""
        shapes = {trail: list(_shapes(trail)) for _, trail in self._problems if trail}
        lines = lines_of(self._text, (shape for found in shapes.values() for shape in found)) if shapes else {}
        for problem, trail in self._problems:
            shape = next((shape for shape in shapes.get(trail, ()) if shape in lines), None)
            if shape is None:
                yield problem
                continue
            message, before = problem.message, _dotted(trail)
            same = shape[-1] == trail[-1] or len(shape) == len(trail) == 1
            if message.startswith(f"{before}: ") and same:
                message = f"{_dotted(shape)}{message.removeprefix(before)}"
            yield problem.replace(line=lines[shape], message=message)
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
    "attachments": ("attachment",),
    "share": ("autoshare",),
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
