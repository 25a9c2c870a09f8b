"""What a Location does when one of its servers asks for something or announces something."""

from __future__ import annotations

from contextvars import copy_context
from typing import TYPE_CHECKING

import msgspec

from holdfast.schema.mcp import McpResourcesChanged

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from holdfast.core.mcp.seam import CallFor
    from holdfast.core.mcp.server_host import ServerHost
    from holdfast.core.mcp.server_log import ServerLog
    from holdfast.mcp.errors import McpError
    from holdfast.mcp.handlers import Asked, Handlers
    from holdfast.mcp.input import Elicitation, ElicitationAnswer, Root, Sampling, SamplingAnswer
    from holdfast.mcp.results import LogMessage

GARBAGE_LOGGED = 100
"""Of one server, how often bytes that are no message are put into its log."""


class ServerHandlers:
    def __init__(self, name: str, host: ServerHost, log: ServerLog, announced: Callable[[str], None]) -> None:
        """`announced` is told which list has changed."""
        self._name = name
        self._host = host
        self._log = log
        self._announced = announced
        self._calls: dict[str, CallFor] = {}
        """The calls under way, by their keys, newest last."""
        self._contexts: dict[CallFor, Context] = {}
        """Those in which the calls run. What a server asks comes in another one."""

    def made(self, lost: Callable[[McpError], None]) -> Handlers:
        from holdfast.mcp.handlers import Handlers

        return Handlers(
            elicit=self._elicit,
            sample=self._sample if self._host.sampler() is not None else None,
            roots=self.roots,
            on_tools_changed=lambda: self._announced("tools"),
            on_prompts_changed=lambda: self._announced("prompts"),
            on_resources_changed=lambda: self._announced("resources"),
            on_elicitation_complete=self._completed,
            on_log=self._logged,
            on_garbage=self._garbage,
            on_closed=lost,
        )

    def begin_call(self, key: str, whom: CallFor) -> None:
        self._calls[key] = whom
        self._contexts[whom] = copy_context()

    def end_call(self, key: str) -> None:
        if (whom := self._calls.pop(key, None)) is not None:
            self._contexts.pop(whom, None)

    def resources_changed(self) -> None:
        self._host.announce(McpResourcesChanged(server=self._name))

    async def roots(self) -> list[Root]:
        from holdfast.mcp.input import Root

        return [Root(uri=self._host.directory.as_uri(), name=self._host.directory.name)]

    async def _elicit(self, request: Elicitation, asked: Asked) -> ElicitationAnswer:
        """The newest of the calls that the question can belong to is asked about it. Nobody can be asked outside of a
        call."""
        people, whom = self._host.people(), self._whom(asked)
        if people is None or whom is None:
            from holdfast.mcp.input import ElicitationAnswer

            return ElicitationAnswer(action="cancel")
        return await people.elicit(self._name, request, whom)

    async def sample(self, request: Sampling, whom: CallFor | None) -> SamplingAnswer:
        """Raises RpcError: without a call of a Session there is no model to ask."""
        sampler = self._host.sampler()
        if sampler is None or whom is None:
            from holdfast.mcp.errors import RpcError
            from holdfast.mcp.messages import INVALID_REQUEST

            raise RpcError(INVALID_REQUEST, "Only a call of a session can ask for an answer of a model")
        return await sampler.sample(self._name, request, whom, self._contexts.get(whom))

    async def ended(self, whom: CallFor) -> None:
        """The call is over."""
        if (sampler := self._host.sampler()) is not None:
            await sampler.ended(whom)

    async def _sample(self, request: Sampling, asked: Asked) -> SamplingAnswer:
        return await self.sample(request, self._whom(asked))

    def _whom(self, asked: Asked) -> CallFor | None:
        return next((self._calls[key] for key in reversed(self._calls) if key in asked.keys), None)

    def _completed(self, elicitation_id: str) -> None:
        if (people := self._host.people()) is not None:
            people.completed(self._name, elicitation_id)

    def _logged(self, message: LogMessage) -> None:
        data = message.data if isinstance(message.data, str) else msgspec.json.encode(message.data).decode()
        logger = f" {message.logger}" if message.logger else ""
        self._log.line("log", f"{message.level}{logger}: {data}")

    def _garbage(self, data: bytes, count: int) -> None:
        if count <= GARBAGE_LOGGED:
            self._log.line("stdout", f"not a message: {data.decode('utf-8', 'replace')}")
