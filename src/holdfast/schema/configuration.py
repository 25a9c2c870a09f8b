"""The configuration of a Location as it was read, and its sandbox."""

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
    """A project file or folder with settings that need trust, or the project's directory, in which local MCP servers of
    the user would start."""

    path: str
    trusted: bool
    digest: str
    """Digest of the settings that need trust. Trust is given to this digest, so a change needs a new decision."""
    wants: tuple[str, ...]
    directory: bool | None = None
    """True for the project's directory."""
    never: tuple[str, ...] | None = None
    """What of it does not count with trust either, and why."""


class ConfigReport(Record):
    files: tuple[str, ...]
    """The files that were read, lowest priority first."""
    problems: tuple[ConfigProblem, ...]
    sources: tuple[ConfigSource, ...]


class SandboxInfo(Record):
    """The sandbox of a Location's commands, for agents other than `plan`."""

    mode: Literal["off", "read-only", "workspace"]
    required: bool
    """Whether commands are refused where the sandbox cannot be enforced."""
    in_force: str | None = None
    """How commands are confined now; absent when they are not."""
    backend: str | None = None
    """What of the kernel enforces it; absent if this machine has nothing that can, or if it was not checked."""
    problem: str | None = None
    """Why it is not in force as configured."""
    gaps: tuple[str, ...] = ()
    """What the back end cannot confine."""
