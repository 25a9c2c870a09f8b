"""The retention policy in the user's configuration, read when it is applied."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.config.environment import user_path
from holdfast.core.config.holdfast_schema import ProjectRetention, Retention
from holdfast.core.config.user_settings import UnusableSetting, user_section
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

SECTION = "retention"


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
    UnusableSetting."""
    found = user_section(environment, SECTION)
    if not found:
        return None
    general = msgspec.convert(found, Retention)
    projects = {str(user_path(path, environment)): limits for path, limits in (general.projects or {}).items()}
    export = Path(user_path(general.export, environment)) if general.export else None
    relative = [path for path in (*projects, *([str(export)] if export else [])) if not Path(path).is_absolute()]
    if relative:
        reason = f"{relative[0]!r} is no absolute path of a directory"
        raise UnusableSetting("configuration", f"holdfast.{SECTION}", reason)
    return RetentionPolicy(general, projects, export)
