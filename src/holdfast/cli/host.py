"""The runtime in this process, with what the API has no operation for: commands, and how configuration was read."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from holdfast.embedded.holdfast import Holdfast
from holdfast.schema.frozen import Frozen
from holdfast.schema.prompt import FileInput, PromptInput
from holdfast.schema.session_message import TextContent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.schema.session import Session


@contextmanager
def quiet_configuration() -> Iterator[None]:
    """For commands that show what is wrong with the configuration: it need not be in the log as well."""
    log = logging.getLogger("holdfast.core.config")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


class Caller(Frozen):
    """Who runs a template's shell commands: a Session, before any message of its own."""

    session_id: str
    agent: str
    assistant_message_id: str
    tool_call_id: str


class Host(Holdfast):
    """What an earlier process left is shown by commands; going on with it is for hosts that stay."""

    def __init__(self, directory: str | Path | None = None, **options: Any) -> None:
        super().__init__(directory, recover=False, **options)

    async def expand(self, session: Session, agent: str | None, name: str, arguments: str) -> PromptInput:
        """What a call of the command says. Its shell commands need permission like those of a model."""
        async with self._runtime.locations.use(session.location) as services:
            selected = services.agents.select(agent or session.agent)
            agent_rules = (selected.agent.permissions, selected.agent.fences) if selected.agent else ((), ())
            tools = services.tools.materialize(agent_rules[0], fences=agent_rules[1])
            caller = cast("Any", Caller(session.id, selected.id, "", f"/{name}"))

            async def shell(command: str) -> str:
                output = await tools.bound(await tools.execute("bash", {"command": command}, caller))
                return "\n".join(part.text for part in output.content if isinstance(part, TextContent))

            called = await services.commands.invoke(name, arguments, shell)
        here = Path(session.location.directory)
        paths = ((mention, here / Path(mention).expanduser()) for mention in called.mentions)
        files = tuple(FileInput(uri=path.as_uri(), name=mention) for mention, path in paths if path.exists())
        return PromptInput(text=called.text, files=files) if files else PromptInput(text=called.text)

    async def sandbox_line(self) -> str | None:
        """What to say about the sandbox before commands run; None where nobody asked for one."""
        async with self._runtime.locations.use(self._runtime.location) as services:
            if services.sandbox.settings.mode == "off":
                return None
            report = await services.sandbox.report()
        if report.summary:
            return f"sandbox {report.summary}" + (f"; {report.problem}" if report.problem else "")
        outcome = "commands are refused" if report.required else "commands run without one"
        return f"sandbox {report.mode} is not in force, {outcome}: {report.problem}"

    async def sandbox_lines(self) -> list[str]:
        """All that is known about the sandbox, for `holdfast doctor`."""
        line = await self.sandbox_line()
        async with self._runtime.locations.use(self._runtime.location) as services:
            report = await services.sandbox.report()
        if report.backend is None:
            found = f"this machine cannot confine commands: {report.problem}"
        else:
            found = f"this machine can confine commands ({report.backend})"
        return [line or "sandbox off", found, *(f"{report.backend}: {gap}" for gap in report.gaps)]

    async def effective_config(self) -> dict[str, Any]:
        """All files merged, without secrets."""
        async with self._runtime.locations.use(self._runtime.location) as services:
            return services.config.current.effective()
