"""How the terminal was started, and what the command line does for it. Imported before the first frame: standard
library only."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.client.transport import AsyncTransport
    from holdfast.schema.configuration import ConfigSource


class Launch(NamedTuple):
    directory: str
    """The project; of a server elsewhere only a name."""
    state_folder: Path | None
    """Where the history of prompts is kept; None keeps none."""
    session: str | None = None
    """The Session to open: its id, the beginning of it, or its title. None: the newest of the directory."""
    new: bool = False
    """Begin with a new Session."""
    fork: bool = False
    """Begin with a fork of the Session."""
    model: str | None = None
    agent: str | None = None
    theme: str | None = None
    elsewhere: bool = False
    """The server is on another machine: it cannot read files of this one."""


class Place(NamedTuple):
    """A server that can be connected to."""

    url: str
    socket: str | None
    started: bool = False
    """Whether it was started for this terminal."""


class Servers(Protocol):
    """Finds the server of this terminal. Implemented by the command line, which knows the runtime."""

    async def find(self) -> Place:
        """The server that runs, or a new one. Raises HoldfastError."""

    def connect(self, place: Place) -> AsyncTransport: ...


class TrustDecisions(Protocol):
    """The decisions about settings of the project, which are the user's and not the server's."""

    def undecided(self, sources: tuple[ConfigSource, ...]) -> tuple[ConfigSource, ...]: ...

    def decide(self, sources: tuple[ConfigSource, ...], *, trusted: bool) -> None: ...


class Host(NamedTuple):
    """What the command line does for the terminal."""

    servers: Servers
    trust: Callable[[], TrustDecisions] | None = None
    """None where the user's decisions are not on this machine."""
