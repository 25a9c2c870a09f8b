"""Holdfast in your own process.

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
from holdfast.embedded.tools import HostContext, HostTools
from holdfast.server.app import App
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
    from holdfast.server.pty_environment import HostPtyEnvironment
    from holdfast.server.types import Receive, Send
    from holdfast.server.types import Scope as AsgiScope

OPEN = "the host is open already"


class Holdfast(AsyncClient):
    """The generated client over a runtime of its own. Closing stops what runs at the nearest safe point, records it and
    ends streams; the next host goes on with it."""

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
        """`unattended` says what becomes of a request that only a person could answer: it waits for a reply through
        this client, or is denied or allowed at once. `trust` vouches for the configuration of every project that is
        opened here; without it only what `holdfast trust` accepted counts, and the rest can only narrow. `config` is
        your own configuration, in the form of `opencode.json`; it counts after all files. `protect` removes secrets
        from the environment of this process before the first command starts, so that commands cannot read them there;
        use it where the process is Holdfast's alone. `sandbox` confines the commands of agents; without it,
        HOLDFAST_SANDBOX and the user's configuration say how. `recover` goes on with what an earlier process left, as
        `holdfast serve` does: when the first operation is called, so that your tools are registered by then.
        `pty_environment` adds variables to every terminal: a mapping, or a function of the Location's directory and the
        one that the terminal starts in."""
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

    async def __aenter__(self) -> Self:
        if self._app is not None:
            raise RuntimeError(OPEN)
        await self._runtime.__aenter__()
        self._runtime.log.relay.links = Peers(
            self._runtime.log.relay, self._runtime.environment, self._runtime.paths.data
        )
        self._app = App(self._runtime, pty_environment=self._pty_environment)
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

    async def _answer(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if self._app is None:
            raise ClientError("Transport", CLOSED)
        self.start_recovery()
        await self._app(scope, receive, send)

    def start_recovery(self) -> None:
        """Go on with what an earlier process left, if this host is to do that and has not begun yet."""
        if self._recover and self._recovering is None:
            work = self._runtime.recovery.start()
            self._recovering = asyncio.get_running_loop().create_task(work, name="holdfast-recovery")

    @staticmethod
    def config_schema() -> dict[str, Any]:
        """The JSON Schema of a configuration file."""
        from holdfast.core.config.schema import json_schema

        return json_schema()

    async def default_model(self) -> ModelRef | None:
        """The model that a Session without one would use here."""
        return await self._runtime.default_model()

    async def refresh_models(self) -> bool:
        """Fetch the list of models anew; whether that brought anything. What was there stays when it fails."""
        return await self._runtime.models.refresh()

    async def reload(self) -> tuple[str, ...]:
        """Read the configuration of every project that is open here again: files, agents, commands, plugins. What could
        not be taken over, one line each; there the former configuration stays in force. Edits are noticed without this
        before each turn."""
        failed = await self._runtime.reload()
        return tuple(f"{location.directory}: {error}" for location, error in failed.items())

    async def verify(self) -> list[Mismatch]:
        """Projection rows that differ from what the event log says; empty when all is well."""
        return await self._runtime.verify()

    async def rebuild(self) -> int:
        """Project every Session anew from the event log; how many there were."""
        return await self._runtime.rebuild()

    def _add_tools(self, tools: Mapping[str, Tool[Any, Any]]) -> Callable[[], None]:
        return self._runtime.application_tools.register(tools, self._scope)

    def _add_context(self, source: Source[Any]) -> Callable[[], None]:
        context = make(source)
        return self._runtime.application_context.register(source.key, lambda: context, self._scope)
