"""The settings that a program gives a host by keyword."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike

    from holdfast.core.filesystem.editor_files import EditorFiles
    from holdfast.core.permission.permission import Unattended
    from holdfast.llm.route.transport import Transport
    from holdfast.server.pty_environment import HostPtyEnvironment


class HoldfastSettings(TypedDict, total=False):
    """The settings of `Holdfast` and `HoldfastSync`, all optional."""

    data: PathLike[str] | str | None
    """Where Sessions are stored; by default HOLDFAST_DATA or the user's data directory decides."""
    database: str | None
    """The address of a PostgreSQL database for the Sessions, `postgresql://…`, or `sqlite` for a file in `data`. By
    default HOLDFAST_DATABASE and `holdfast.storage.url` of the user's configuration decide."""
    environment: dict[str, str] | None
    """The environment variables, in place of those of the process."""
    transport: Transport | None
    """How models are reached. `holdfast.testing` has one for tests."""
    preset: Literal["ask", "allow"]
    """What agents may do where no configuration says otherwise. `ask`, the default, asks before edits, fetches and
    commands, except those that are proved to change nothing; `allow` asks for none of them. Tools that you register are
    allowed by both."""
    unattended: Unattended
    """What becomes of a permission request or a question: `wait` for an answer through this host, or `deny` or `allow`
    it at once. They wait by default; but if neither this nor `preset` is given, what only the preset asks about is
    denied while no function for permissions is registered and no application is served."""
    trust: bool
    """Trust the configuration of every project. Without it only settings that `holdfast trust` accepted have effect,
    and others can only restrict."""
    config: dict[str, Any] | None
    """Your own configuration, in the form of `opencode.json`, with precedence over all files."""
    protect: bool
    """Remove secrets from the environment of this process before the first command starts, so that commands cannot read
    them. Use it only in a process that Holdfast has for itself."""
    sandbox: Literal["off", "read-only", "workspace"] | None
    """Confine the commands of agents. Without it HOLDFAST_SANDBOX and the user's configuration decide."""
    recover: bool
    """Continue work that an earlier process left unfinished, as `holdfast serve` does; true by default. It begins with
    the first operation, so that your tools are registered by then."""
    editor: EditorFiles | None
    """Reads and writes the files that an editor has open: an object with two asynchronous methods,
    `read(session_id, path)` and `write(session_id, path, text)`."""
    pty_environment: HostPtyEnvironment | None
    """Variables for every terminal, as a mapping or a function of the Location's directory and the terminal's working
    directory. HoldfastSync calls the function in the host's own thread."""


def check_names(given: Iterable[str], kind: Any) -> None:
    """Raise TypeError for a keyword that this TypedDict does not have, as Python does for ordinary parameters."""
    known: frozenset[str] = kind.__required_keys__ | kind.__optional_keys__
    if unknown := sorted(set(given) - known):
        raise TypeError(f"unexpected keyword {unknown[0]!r}; known are {', '.join(sorted(known))}")
