"""The tools, and what each of them does."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.cli.session_tools import arguments, results
from holdfast.cli.session_tools.reading import read_messages
from holdfast.cli.session_tools.requests import answer
from holdfast.cli.session_tools.schemas import schema_of
from holdfast.cli.session_tools.waiting import Waiting
from holdfast.client.errors import ClientError
from holdfast.client.generated.guards import is_session_not_found
from holdfast.mcp.catalog import Tool, ToolAnnotations
from holdfast.mcp.content import TextContent
from holdfast.mcp.results import ToolResult
from holdfast.mcp.server import UnknownTool
from holdfast.schema.budget import Budget
from holdfast.schema.exceptions import HoldfastError, InvalidRequest
from holdfast.schema.location import Location

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.session_tools.runtime_access import RuntimeAccess
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.mcp.server import Report, ToolCall
    from holdfast.schema.model import ModelRef
    from holdfast.schema.prompt import Admission
    from holdfast.schema.session import Session

INSTRUCTIONS = """\
Holdfast runs durable agent sessions in project directories. Create a session, send it a prompt, and wait for the
answer: session_create, session_prompt, then session_wait as long as `state` is `working`. If `state` is `asking`, look
at `requests` and use session_answer. A session works on when a call ends or is cancelled; session_interrupt stops
it."""

Work = Callable[["AsyncClient", Any, "Report"], Awaitable[msgspec.Struct]]


class _SessionTool(NamedTuple):
    description: str
    takes: type[arguments.Arguments]
    gives: type[results.Result]
    work: Work
    read_only: bool = False

    def offered(self, name: str) -> Tool:
        return Tool(
            name=name,
            description=self.description,
            input_schema=schema_of(self.takes),
            output_schema=schema_of(self.gives),
            annotations=ToolAnnotations(read_only_hint=True) if self.read_only else None,
        )


class SessionToolbox:
    """A `holdfast.mcp.server.Toolbox`."""

    def __init__(self, access: RuntimeAccess, directory: str, *, same_machine: bool = True) -> None:
        """`directory` is where Sessions are created and listed by default. `same_machine`: directories can be looked
        at here."""
        self._access = access
        self._directory = directory
        self._same_machine = same_machine
        self._offered: Sequence[Tool] | None = None
        self._tools: dict[str, _SessionTool] = {
            "session_create": _SessionTool(
                "Create a session in a project directory. It does nothing before it gets a prompt.",
                arguments.Create,
                results.CreatedSession,
                self._create,
            ),
            "session_prompt": _SessionTool(
                "Send a prompt to a session, and wait for the answer for some time. The prompt is stored before this "
                "returns; the session works on it whether somebody waits or not.",
                arguments.Prompt,
                results.Status,
                self._prompt,
            ),
            "session_wait": _SessionTool(
                "Wait until a session has nothing to do, or asks for something. Returns its state and newest answer.",
                arguments.Await,
                results.Status,
                self._wait,
                read_only=True,
            ),
            "session_read": _SessionTool(
                "Read messages of a session, oldest first: the newest ones, or those after a cursor.",
                arguments.Read,
                results.Messages,
                self._read,
                read_only=True,
            ),
            "session_list": _SessionTool(
                "List sessions, newest first.", arguments.List, results.Sessions, self._list, read_only=True
            ),
            "session_answer": _SessionTool(
                "Answer a permission request, a question or a form of a session or its subagents.",
                arguments.Answer,
                results.Status,
                self._answer,
            ),
            "session_interrupt": _SessionTool(
                "Stop what a session is doing. What it did stays, and it can be sent another prompt.",
                arguments.Interrupt,
                results.Status,
                self._interrupt,
            ),
        }

    async def tools(self) -> Sequence[Tool]:
        """Their schemas take milliseconds to make, and never change."""
        if self._offered is None:
            self._offered = [tool.offered(name) for name, tool in self._tools.items()]
        return self._offered

    async def call(self, call: ToolCall) -> ToolResult:
        tool = self._tools.get(call.name)
        if tool is None:
            raise UnknownTool
        try:
            given = msgspec.convert(call.arguments, tool.takes)
        except msgspec.ValidationError as error:
            return _failed(f"The arguments of {call.name} are not valid: {error}")
        try:
            client = await self._access.client()
        except (HoldfastError, OSError) as error:
            return _failed(f"The runtime cannot be opened: {error}")
        try:
            done = await tool.work(client, given, call.report)
        except ClientError as error:
            if error.reason == "Transport":
                self._access.lost(client)
                return _failed(f"The connection to the runtime was lost: {error}. Sessions are kept; call again.")
            return _failed(str(error))
        except HoldfastError as error:
            known = "" if not is_session_not_found(error) else ". session_list lists the sessions"
            return _failed(f"{error}{known}")
        value = msgspec.to_builtins(done)
        return ToolResult((TextContent(text=msgspec.json.encode(value).decode()),), value)

    # -- tools -----------------------------------------------------------------------------------------------------

    async def _create(self, client: AsyncClient, given: arguments.Create, _: Report) -> results.CreatedSession:
        limits = Budget(**msgspec.structs.asdict(given.budget)) if given.budget is not None else None
        session = await client.sessions.create(
            agent=given.agent,
            model=given.model,
            location=Location(directory=self._resolved(given.directory)),
            budget=limits,
        )
        if given.title is not None:
            session = await client.sessions.rename(session.id, title=given.title)
        return results.CreatedSession(
            session=session.id,
            directory=session.location.directory,
            title=session.title,
            agent=session.agent,
            model=_model(session.model),
        )

    async def _prompt(self, client: AsyncClient, given: arguments.Prompt, report: Report) -> results.Status:
        receipts: list[Admission] = []

        async def admit() -> None:
            sent = client.sessions.prompt(given.session, text=given.text, id=given.id, delivery=given.delivery)
            receipts.append(await sent)

        status = await Waiting(client, given.session, given.wait_seconds, report).status(admit)
        return msgspec.structs.replace(status, prompt=receipts[0].id)

    async def _wait(self, client: AsyncClient, given: arguments.Await, report: Report) -> results.Status:
        await client.sessions.get(given.session)
        return await Waiting(client, given.session, given.wait_seconds, report).status()

    async def _read(self, client: AsyncClient, given: arguments.Read, _: Report) -> results.Messages:
        return await read_messages(client, given)

    async def _list(self, client: AsyncClient, given: arguments.List, _: Report) -> results.Sessions:
        if given.cursor is not None:
            page = await client.sessions.list(cursor=given.cursor, limit=given.limit)
        else:
            directory = None if given.everywhere else self._resolved(given.directory)
            page = await client.sessions.list(directory=directory, search=given.search, limit=given.limit)
        active = await client.sessions.active()
        found = [_listed(session, session.id in active) for session in page.items]
        return results.Sessions(sessions=found, cursor=page.next if len(found) == given.limit else None)

    async def _answer(self, client: AsyncClient, given: arguments.Answer, report: Report) -> results.Status:
        await answer(client, given)
        return await Waiting(client, given.session, given.wait_seconds, report).status()

    async def _interrupt(self, client: AsyncClient, given: arguments.Interrupt, report: Report) -> results.Status:
        await client.sessions.interrupt(given.session, background=given.background or None)
        return await Waiting(client, given.session, 0, report).status()

    def _resolved(self, directory: str | None) -> str:
        if not self._same_machine:
            return directory or self._directory
        path = os.path.realpath(os.path.join(self._directory, os.path.expanduser(directory or "")))
        if not os.path.isdir(path):
            raise InvalidRequest(f"{path} is not a directory", field="directory")
        return path


def _listed(session: Session, working: bool) -> results.ListedSession:
    return results.ListedSession(
        session=session.id,
        title=session.title,
        directory=session.location.directory,
        working=working,
        updated=session.time.updated,
        cost=session.cost,
        agent=session.agent,
        model=_model(session.model),
        parent=session.parent_id,
    )


def _model(model: ModelRef | None) -> str | None:
    if model is None:
        return None
    return f"{model.provider_id}/{model.id}{f'#{model.variant}' if model.variant else ''}"


def _failed(message: str) -> ToolResult:
    return ToolResult((TextContent(text=message),), is_error=True)
