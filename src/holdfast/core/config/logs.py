"""Which log lines a server writes and in which form: `holdfast.log` of the user's configuration, or the environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast, get_args

from holdfast.core.config.user_settings import UnusableSetting, user_section
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]
LEVEL, FORMAT = "HOLDFAST_LOG_LEVEL", "HOLDFAST_LOG_FORMAT"


class LogSettings(Frozen):
    level: LogLevel = "warning"
    format: LogFormat = "text"


def configured_logs(environment: Mapping[str, str]) -> LogSettings:
    """The environment comes before the user's files. Raises UnusableSetting."""
    found = user_section(environment, "log")
    for variable, name, allowed in ((LEVEL, "level", get_args(LogLevel)), (FORMAT, "format", get_args(LogFormat))):
        given = environment.get(variable, "").lower()
        if given and given not in allowed:
            raise UnusableSetting("environment", variable, f"{given[:50]!r} is none of {', '.join(allowed)}")
        if given:
            found[name] = given
    return LogSettings(
        level=cast("LogLevel", found.get("level", LogSettings().level)),
        format=cast("LogFormat", found.get("format", LogSettings().format)),
    )
