"""The configuration of a Location as it was read, and the sandbox that it asks for."""

from typing import Any, Literal

from holdfast.schema.record import Record

ConfigOrigin = Literal["user", "project", "untrusted"]


class ConfigDocument(Record, tag_field="type", tag="document"):
    path: str
    origin: ConfigOrigin
    info: dict[str, Any]
    """What counts of it, in today's shape, without secrets."""


class ConfigDirectory(Record, tag_field="type", tag="directory"):
    path: str
    origin: ConfigOrigin


class ConfigProblem(Record):
    """Something in a configuration file that does not count as its author meant it."""

    severity: Literal["warning", "error"]
    path: str
    line: int | None = None
    message: str
    suggestion: str | None = None


class ConfigSource(Record):
    """A file or folder of the project that wants more than an untrusted project may have."""

    path: str
    trusted: bool
    digest: str
    """Of what it wants. Trust is given to this digest, so that a change asks again."""
    wants: tuple[str, ...]


class ConfigReport(Record):
    files: tuple[str, ...]
    """That were read, low to high priority."""
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
    """What of the kernel enforces it; absent when this machine has nothing that can, or when nobody looked."""
    problem: str | None = None
    """Why it is not in force as configured."""
    gaps: tuple[str, ...] = ()
    """What the back end cannot confine."""
