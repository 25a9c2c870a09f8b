"""The runtime in your own process.

async with Holdfast("/path/to/project") as hf:

    @hf.tool
    async def lookup(ticket: str) -> str:
        \"\"\"What a ticket says.\"\"\"

    session = await hf.sessions.create()
    await hf.sessions.prompt(session.id, prompt=PromptInput(text="What is in README.md?"))
    await hf.sessions.wait(session.id)
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from holdfast.client.errors import ClientError
from holdfast.client.generated.async_client import AsyncClient
from holdfast.core.context.system_context import make
from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.core.scope import Scope
from holdfast.embedded.asgi_transport import CLOSED, AsgiTransport
from holdfast.embedded.peers import Peers
from holdfast.embedded.structured import HostSessions
from holdfast.embedded.tools import HostContext, HostTools
from holdfast.server.app import App
from holdfast.server.auth import Hosts
from holdfast.server.pty_environment import pty_environment as host_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from holdfast.core.context.source import Source
    from holdfast.core.event.log import Mismatch
    from holdfast.core.permission.permission import Unattended
    from holdfast.core.tool.tool import Tool
    from holdfast.llm.route.transport import Transport
    from holdfast.schema.model import ModelRef
    from holdfast.server.auth import Credentials
    from holdfast.server.pty_environment import HostPtyEnvironment
    from holdfast.server.types import Receive, Send
    from holdfast.server.types import Scope as AsgiScope

OPEN = "the host is already open"


class Holdfast(AsyncClient):
    """The generated client with a runtime of its own. Closing stops running work at the nearest safe point, records it
    and ends streams; the next host continues the work."""

    def __init__(
        self,
        directory: str | Path | None = None,
        *,
        data: str | Path | None = None,
        environment: dict[str, str] | None = None,
        transport: Transport | None = None,
        unattended: Unattended = "wait",
        trust: bool = False,
        config: dict[str, Any] | None = None,
        protect: bool = False,
        sandbox: Literal["off", "read-only", "workspace"] | None = None,
        recover: bool = True,
        pty_environment: HostPtyEnvironment | None = None,
    ) -> None:
        """`unattended`: a permission request or question waits for a reply through this client, or is denied or allowed
        at once. `trust`: trust the configuration of every project; without it only settings that `holdfast trust`
        accepted have effect, and others can only restrict. `config`: your own configuration, in the form of
        `opencode.json`, with precedence over all files. `protect`: remove secrets from the environment of this process
        before the first command starts, so that commands cannot read them; use it only in a process that Holdfast has
        for itself. `sandbox`: confine the commands of agents; without it HOLDFAST_SANDBOX and the user's configuration
        decide. `recover`: continue work that an earlier process left unfinished, as `holdfast serve` does; it begins
        with the first operation, so that your tools are registered by then. `pty_environment`: variables for every
        terminal, as a mapping or a function of the Location's directory and the terminal's working directory."""
        self._recover = recover
        self._recovering: asyncio.Task[None] | None = None
        self._pty_environment = host_variables(pty_environment)
        self._runtime = Runtime(
            paths=Paths(Path(data)) if data is not None else None,
            directory=Path(directory) if directory is not None else None,
            environment=environment,
            transport=transport,
            options=HostOptions(unattended=unattended, trust=trust, config=config, protect=protect, sandbox=sandbox),
        )
        self._scope = Scope()
        self._app: App | None = None
        self.tools = self.tool = HostTools(self._add_tools)
        self.context = HostContext(self._add_context)
        super().__init__(AsgiTransport(self._answer))
        self.sessions: HostSessions = HostSessions(self.sessions._core)

    async def __aenter__(self) -> Self:
        if self._app is not None:
            raise RuntimeError(OPEN)
        await self._runtime.__aenter__()
        self._runtime.log.relay.links = Peers(
            self._runtime.log.relay, self._runtime.environment, self._runtime.paths.data
        )
        self._app = self.application()
        if self._scope.closed:
            self._scope = Scope()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        app, self._app = self._app, None
        if app is None:
            return
        if self._recovering is not None:
            await asyncio.wait({self._recovering})
            self._recovering = None
        await app.close()
        await self._transport.close()
        await self._runtime.__aexit__(None, None, None)
        self._scope.close()

    def application(
        self,
        *,
        credentials: Credentials | None = None,
        hosts: Hosts | None = Hosts(),  # noqa: B008 - immutable
        origins: frozenset[str] = frozenset(),
    ) -> App:
        """A further ASGI application on the open runtime. Whoever makes it closes it."""
        return App(
            self._runtime,
            credentials=credentials,
            hosts=hosts,
            origins=origins,
            pty_environment=self._pty_environment,
        )

    async def _answer(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if self._app is None:
            raise ClientError("Transport", CLOSED)
        self.start_recovery()
        await self._app(scope, receive, send)

    def start_recovery(self) -> None:
        """Start to continue unfinished work of earlier processes, unless `recover` is false or it was started."""
        if self._recover and self._recovering is None:
            work = self._runtime.recovery.start()
            self._recovering = asyncio.get_running_loop().create_task(work, name="holdfast-recovery")

    @staticmethod
    def config_schema() -> dict[str, Any]:
        """The JSON Schema of a configuration file."""
        from holdfast.core.config.schema import json_schema

        return json_schema()

    async def default_model(self) -> ModelRef | None:
        """The model of a Session for which none was chosen."""
        return await self._runtime.default_model()

    async def refresh_models(self) -> bool:
        """Fetch the newest list of models. Returns whether there was one; the stored list stays in use otherwise."""
        return await self._runtime.models.refresh()

    async def reload(self) -> tuple[str, ...]:
        """Read the configuration of every open project again: files, agents, commands, plugins. Returns one line per
        project where that failed; there the former configuration stays in effect. Edited files are also read again
        before each turn, without this call."""
        failed = await self._runtime.reload()
        return tuple(f"{location.directory}: {error}" for location, error in failed.items())

    async def verify(self) -> list[Mismatch]:
        """Projection rows that differ from the event log; empty if there are none."""
        return await self._runtime.verify()

    async def rebuild(self) -> int:
        """Rebuild the projections of every Session from the event log. Returns the number of Sessions."""
        return await self._runtime.rebuild()

    def _add_tools(self, tools: Mapping[str, Tool[Any, Any]]) -> Callable[[], None]:
        return self._runtime.application_tools.register(tools, self._scope)

    def _add_context(self, source: Source[Any]) -> Callable[[], None]:
        context = make(source)
        return self._runtime.application_context.register(source.key, lambda: context, self._scope)
