"""Holdfast in your own process.

async with Holdfast("/path/to/project") as hf:
    session = await hf.sessions.create()
    await hf.sessions.prompt(session.id, prompt=PromptInput(text="What is in README.md?"))
    await hf.sessions.wait(session.id)
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from holdfast.client.generated.async_client import AsyncClient
from holdfast.core.runtime import Paths, Runtime
from holdfast.embedded.asgi_transport import AsgiTransport
from holdfast.server.app import App

if TYPE_CHECKING:
    from types import TracebackType

    from holdfast.core.event.log import Mismatch
    from holdfast.llm.route.transport import Transport
    from holdfast.schema.model import ModelRef


class Holdfast(AsyncClient):
    """The generated client over a runtime of its own. Closing interrupts what runs, records it, and ends streams."""

    def __init__(
        self,
        directory: str | Path | None = None,
        *,
        data: str | Path | None = None,
        environment: dict[str, str] | None = None,
        transport: Transport | None = None,
    ) -> None:
        self._runtime = Runtime(
            paths=Paths(Path(data)) if data is not None else None,
            directory=Path(directory) if directory is not None else None,
            environment=environment,
            transport=transport,
        )
        self._app = App(self._runtime)
        self._in_memory = AsgiTransport(self._app)
        super().__init__(self._in_memory)

    async def __aenter__(self) -> Self:
        await self._runtime.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._app.stop()
        await self._runtime.execution.close()
        await self._in_memory.close()
        await self._runtime.__aexit__(kind, error, trace)

    async def default_model(self) -> ModelRef | None:
        """The model that a Session without one would use here."""
        return await self._runtime.default_model()

    async def verify(self) -> list[Mismatch]:
        """Projection rows that differ from what the event log says; empty when all is well."""
        return await self._runtime.verify()

    async def rebuild(self) -> int:
        """Project every Session anew from the event log; how many there were."""
        return await self._runtime.rebuild()
