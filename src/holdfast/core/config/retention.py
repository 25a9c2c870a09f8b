"""The retention policy in the user's configuration, read when it is applied.

Invariants
- Only the user's own files count: a project can never have Sessions removed.
- A setting that is there and cannot be used is an error: nothing is removed by a policy that was half understood."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.config.environment import user_path
from holdfast.core.config.jsonc import InvalidJson, decode
from holdfast.core.config.reading import ConfigLocation, DocumentReader
from holdfast.core.config.schema import ProjectRetention, Retention
from holdfast.core.config.storage import UnusableStorageSetting, user_texts
from holdfast.core.config.trust import TRUST_NOTHING
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

SECTION = "retention"
SETTING = f"holdfast.{SECTION}"
_NOWHERE = Path("/")


class RetentionPolicy(Frozen):
    general: Retention
    projects: dict[str, ProjectRetention]
    """By absolute directories."""
    export: Path | None

    @property
    def automatic(self) -> bool:
        return bool(self.general.automatic)


def configured_retention(environment: Mapping[str, str]) -> RetentionPolicy | None:
    """What the user's files say, later ones before earlier ones; None if they say nothing. Raises
    UnusableStorageSetting."""
    found: dict[str, Any] = {}
    for path, text in user_texts(environment):
        if SECTION in text or "\\u" in text:
            found |= _written(path, text, environment)
    if not found:
        return None
    general = msgspec.convert(found, Retention)
    projects = {str(user_path(path, environment)): limits for path, limits in (general.projects or {}).items()}
    export = Path(user_path(general.export, environment)) if general.export else None
    relative = [path for path in (*projects, *([str(export)] if export else [])) if not Path(path).is_absolute()]
    if relative:
        raise UnusableStorageSetting(
            Path("configuration"), f"{relative[0]!r} is no absolute path of a directory", SETTING
        )
    return RetentionPolicy(general, projects, export)


def _written(path: Path, text: str, environment: Mapping[str, str]) -> dict[str, Any]:
    try:
        raw, _ = decode(text)
    except InvalidJson as error:
        raise UnusableStorageSetting(path, f"the file mentions it, and {error}", SETTING) from None
    own = raw.get("holdfast") if isinstance(raw, dict) else None
    if not isinstance(own, dict) or own.get(SECTION) is None:
        return {}
    reader = DocumentReader(path, path.parent, "user", ConfigLocation(_NOWHERE, _NOWHERE, environment), TRUST_NOTHING)
    document = reader.parse(text)
    section = _section(document.data) if document is not None else {}
    problems = [problem.message for problem in reader.problems() if "holdfast" in problem.message]
    if any(SECTION in problem for problem in problems) or (own[SECTION] and not section):
        raise UnusableStorageSetting(path, "; ".join(problems) or "it cannot be read", SETTING)
    return section


def _section(document: Any) -> dict[str, Any]:
    own = document.get("holdfast") if isinstance(document, dict) else None
    section = own.get(SECTION) if isinstance(own, dict) else None
    return section if isinstance(section, dict) else {}
