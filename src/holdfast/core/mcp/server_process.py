"""The process of a local MCP server: in a group of its own, with the allow-list of environment variables and what its
configuration declares."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.mcp.start_places import NoStartPlace
from holdfast.core.process.environment import child_environment
from holdfast.core.process.process import ProcessError
from holdfast.core.process.sandbox.private_directory import remove
from holdfast.mcp.stdio import ProcessEnd

if TYPE_CHECKING:
    from holdfast.core.config.schema import LocalServer
    from holdfast.core.mcp.configured_servers import ConfiguredServer
    from holdfast.core.mcp.server_log import ServerLog
    from holdfast.core.mcp.start_places import StartPlaces
    from holdfast.core.process.piped import PipedProcess
    from holdfast.core.process.process import Processes
    from holdfast.core.process.sandbox.private_directory import PrivateDirectory


class ServerProcess:
    """A `holdfast.mcp.stdio.Process`. Its standard error goes to the log."""

    def __init__(self, process: PipedProcess, log: ServerLog, empty: PrivateDirectory | None) -> None:
        """`empty` is the directory that was made for it, and is removed with it."""
        self._process = process
        self._log = log
        self._empty = empty
        self.read = process.read
        self.write = process.write

    async def close(self) -> ProcessEnd:
        status = await self._process.close()
        self._log.end_of_errors()
        empty, self._empty = self._empty, None
        if empty is not None:
            await asyncio.to_thread(remove, empty)
        return ProcessEnd(status, self._log.last_line or None)


def start_server(
    processes: Processes, server: ConfiguredServer, config: LocalServer, places: StartPlaces, log: ServerLog
) -> ServerProcess:
    """Raises ProcessError."""
    log.last_line = ""
    place = places.of(server, config)
    empty = None
    if (directory := place.directory) is None:
        try:
            empty = places.make_empty()
        except (NoStartPlace, OSError) as error:
            raise ProcessError(config.command, "cannot be started", cause=str(error)) from error
        directory = empty.path
        log.line("state", f"starts in the empty directory {directory}, because {place.reason}")
    variables = child_environment(places.environment(server), values=config.environment or {})
    try:
        process = processes.open(config.command, cwd=directory, environment=variables, error=log.errors)
    except ProcessError:
        if empty is not None:
            remove(empty)
        raise
    return ServerProcess(process, log, empty)
