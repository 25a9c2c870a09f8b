"""The process of a local MCP server: in a group of its own, with the allow-list of environment variables and what its
configuration declares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.process.environment import child_environment
from holdfast.mcp.stdio import ProcessEnd

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from holdfast.core.config.schema import LocalServer
    from holdfast.core.mcp.server_log import ServerLog
    from holdfast.core.process.piped import PipedProcess
    from holdfast.core.process.process import Processes


class ServerProcess:
    """A `holdfast.mcp.stdio.Process`. Its standard error goes to the log."""

    def __init__(self, process: PipedProcess, log: ServerLog) -> None:
        self._process = process
        self._log = log
        self.read = process.read
        self.write = process.write

    async def close(self) -> ProcessEnd:
        status = await self._process.close()
        self._log.end_of_errors()
        return ProcessEnd(status, self._log.last_line or None)


def start_server(
    processes: Processes, config: LocalServer, directory: Path, environment: Mapping[str, str], log: ServerLog
) -> ServerProcess:
    """`environment` is the runtime's own. Raises ProcessError."""
    log.last_line = ""
    process = processes.open(
        config.command,
        cwd=directory,
        environment=child_environment(environment, values=config.environment or {}),
        error=log.errors,
    )
    return ServerProcess(process, log)
