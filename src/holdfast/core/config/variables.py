"""Substitutes `{env:NAME}` and `{file:path}` in values. It runs after parsing, so a value cannot become structure.

Invariants
- Each variable is replaced once; the replacement is not scanned again.
- Keys are not changed.
- Substituted values are recorded as secrets, so that they are never shown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.core.config.environment import user_path
from holdfast.core.config.text_file import Unreadable, is_text, read_text
from holdfast.core.permission.project_reads import protected_by

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from holdfast.schema.permission import Rule

INSERT_LIMIT = 1024 * 1024

_SCALARS = frozenset((int, float, bool, type(None)))
_VARIABLE = r"\{(env|file):([^{}]+)\}"

Trail = tuple[str | int, ...]


class Substituted(NamedTuple):
    value: dict[str, Any]
    secrets: frozenset[str]


class _Dropped:
    """Marks a value that could not be substituted; its key is removed."""


_DROPPED: Final = _Dropped()


def mentions_variables(text: str) -> bool:
    """Whether the text may contain variables; a brace can also be written as an escape."""
    return "{env:" in text or "{file:" in text or "\\u007" in text


class Substitution:
    """Substitutes the variables of one document. Files must be in the folder `inside`, unless it is None."""

    def __init__(
        self,
        directory: Path,
        inside: Path | None,
        environment: Mapping[str, str],
        report: Callable[[Trail, str], None],
        withheld: Callable[[Trail, str], None] | None = None,
        *,
        protecting: Callable[[str], Rule | None] | None = None,
        watch: Callable[[Path], None] = lambda path: None,
    ) -> None:
        """With `withheld`, no environment variable is read, and `withheld` is called for each value that is dropped for
        this reason, for a file outside `inside`, or for one that a rule of `protecting` asks about. A file that a rule
        denies is never read. `watch` is called with each file before it is read."""
        self._directory = directory
        self._inside = inside
        self._environment = environment
        self._report = report
        self._withheld = withheld
        self._protecting = protecting
        self._watch = watch
        self._secrets: set[str] = set()

    def apply(self, document: dict[str, Any]) -> Substituted:
        value = self._object(document, ())
        return Substituted(value, frozenset(self._secrets))

    def _object(self, value: dict[str, Any], trail: Trail) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, item in value.items():
            # Fast path: most values are numbers or plain text.
            kind = type(item)
            if kind in _SCALARS or (kind is str and "{" not in item):
                found[key] = item
            elif (new := self._value(item, (*trail, key))) is not _DROPPED:
                found[key] = new
        return found

    def _value(self, value: Any, trail: Trail) -> Any:
        if isinstance(value, str):
            return self._text(value, trail)
        if isinstance(value, dict):
            return self._object(value, trail)
        if isinstance(value, list):
            found = (self._value(item, (*trail, index)) for index, item in enumerate(value))
            return [item for item in found if item is not _DROPPED]
        return value

    def _text(self, text: str, trail: Trail) -> str | _Dropped:
        parts: list[str] = []
        end = 0
        for match in re.finditer(_VARIABLE, text):
            found = self._variable(match[1], match[2], trail)
            if found is None:
                return _DROPPED
            if found:
                self._secrets.add(found)
            parts += (text[end : match.start()], found)
            end = match.end()
        return "".join((*parts, text[end:]))

    def _variable(self, kind: str, name: str, trail: Trail) -> str | None:
        if kind == "file":
            return self._file(name.strip(), trail)
        if self._withheld is not None:
            self._withheld(trail, f"reads the variable {name}")
            return None
        found = self._environment.get(name)
        if found is None:
            self._report(trail, f"the variable {name} is not set; read as empty")
        elif not is_text(found):
            self._report(trail, f"the variable {name} is not UTF-8")
            return None
        return found or ""

    def _file(self, name: str, trail: Trail) -> str | None:
        path = self._directory / user_path(name, self._environment)
        try:
            real = path.resolve()
            if self._inside is not None and not real.is_relative_to(self._inside.resolve()):
                if self._withheld is None:
                    raise Unreadable("is outside the project")
                self._withheld(trail, f"reads the file {name}")
                return None
            if (rule := self._protecting(str(real)) if self._protecting is not None else None) is not None:
                if rule.effect == "deny":
                    raise Unreadable(protected_by(str(real), rule))
                if self._withheld is not None:
                    self._withheld(trail, f"reads the file {name}")
                    return None
            self._watch(path)
            text = read_text(real, INSERT_LIMIT)
        except (Unreadable, OSError, RuntimeError, ValueError) as error:
            self._report(trail, f"the file {name} {error if isinstance(error, Unreadable) else 'cannot be read'}")
            return None
        if text is None:
            self._report(trail, f"the file {name} does not exist")
            return None
        return text.strip()
