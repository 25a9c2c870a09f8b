"""Reports on the configuration of a Location."""

from typing import Any, Literal

from holdfast.schema.record import Record

ConfigOrigin = Literal["user", "project", "untrusted"]


class ConfigDocument(Record, tag_field="type", tag="document"):
    path: str
    origin: ConfigOrigin
    info: dict[str, Any]
    """Its effective content in the current format, without secrets."""


class ConfigDirectory(Record, tag_field="type", tag="directory"):
    path: str
    origin: ConfigOrigin


class ConfigProblem(Record):
    """A problem in a configuration file."""

    severity: Literal["warning", "error"]
    path: str
    line: int | None = None
    message: str
    suggestion: str | None = None


class ConfigSource(Record):
    """A project file or folder with settings that need trust."""

    path: str
    trusted: bool
    digest: str
    """Digest of the settings that need trust. Trust is given to this digest, so a change needs a new decision."""
    wants: tuple[str, ...]


class ConfigReport(Record):
    files: tuple[str, ...]
    """The files that were read, lowest priority first."""
    problems: tuple[ConfigProblem, ...]
    sources: tuple[ConfigSource, ...]
