"""The Sessions that an editor has open on one connection, and the methods of the protocol about Sessions."""

from __future__ import annotations

import asyncio
import logging
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast.acp import requests
from holdfast.acp.choices import MODE, MODEL
from holdfast.acp.errors import invalid, no_session, not_open
from holdfast.acp.mcp_servers import PassedServers, server_config
from holdfast.acp.prompt_input import given_prompt
from holdfast.acp.session import EditorSession
from holdfast.acp.text import title
from holdfast.client.errors import ApiError, ClientError
from holdfast.mcp.errors import McpError
from holdfast.schema.exceptions import InvalidCursor, SessionNotFound
from holdfast.schema.frozen import Frozen
from holdfast.schema.location import Location
from holdfast.schema.model import ModelRef
from holdfast.schema.session import ForkThrough

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.embedded.holdfast import Holdfast
    from holdfast.mcp.connection import Connection
    from holdfast.schema.session import Session

Json = dict[str, Any]
PAGE = 50
DEEPEST = 32
KNOWN_PARENTS = 10_000
MOST_SESSIONS = 100
"""That one editor may have open at a time."""
OFFLINE = ModelRef(id="echo", provider_id="demo")
NO_MODEL = "No model is configured and no provider is connected: using the offline model demo/echo. " + (
    "`holdfast auth login PROVIDER` connects a provider."
)

log = logging.getLogger(__name__)


class OpenSessions:
    def __init__(self, host: Holdfast, connection: Connection, offers: requests.ClientCapabilities) -> None:
        self._host = host
        self._connection = connection
        self._offers = offers
        self._servers = PassedServers(host)
        self._open: dict[str, EditorSession] = {}
        self._parents: dict[str, str | None] = {}

    # -- opening ---------------------------------------------------------------------------------------------------

    async def new(self, params: requests.OpenSession) -> Json:
        location = _checked(params)
        offline = await self._host.default_model(location.directory) is None
        session = await self._host.sessions.create(location=location, model=OFFLINE if offline else None)
        opened = await self._attach(session, params)
        state = await opened.state()
        self._begin(opened, NO_MODEL if offline else None)
        return {"sessionId": session.id, **state}

    async def load(self, params: requests.OpenStored) -> Json:
        """Everything that was said is sent before the answer."""
        opened = await self._attach(await self._stored(params), params)
        await opened.replay()
        state = await opened.state()
        self._begin(opened, go_on=True)
        return state

    async def resume(self, params: requests.OpenStored) -> Json:
        opened = await self._attach(await self._stored(params), params)
        state = await opened.state()
        self._begin(opened, go_on=True)
        return state

    async def fork(self, params: requests.OpenStored) -> Json:
        source = await self._stored(params)
        session = await self._host.sessions.fork(source.id, boundary=ForkThrough())
        opened = await self._attach(session, params)
        state = await opened.state()
        self._begin(opened)
        return {"sessionId": session.id, **state}

    async def _attach(self, session: Session, params: requests.OpenSession) -> EditorSession:
        if (before := self._open.pop(session.id, None)) is not None:
            await before.close()  # an editor that loads again sees everything again
        if len(self._open) >= MOST_SESSIONS:
            raise invalid(f"{MOST_SESSIONS} sessions are open in this connection. session/close closes one.")
        await self._servers.add(session.id, session.location, params.mcp_servers or ())
        opened = self._open[session.id] = EditorSession(self._host, self._connection, self._offers, session)
        try:
            await opened.open()
        except BaseException:
            self._open.pop(session.id, None)
            await opened.close()
            raise
        return opened

    def _begin(self, opened: EditorSession, note: str | None = None, *, go_on: bool = False) -> None:
        """After the answer was sent: the task begins when this one waits, and messages are sent in order."""
        self._connection.run(self._begin_after(opened, note, go_on))

    async def _begin_after(self, opened: EditorSession, note: str | None, go_on: bool) -> None:
        try:
            await opened.begin(note)
            if go_on:
                await opened.go_on()
        except (ApiError, ClientError, McpError) as error:
            log.warning("%s cannot be shown whole: %s", opened.id, error)

    async def _stored(self, params: requests.OpenStored) -> Session:
        location = _checked(params)
        try:
            session = await self._host.sessions.get(params.session_id)
        except (SessionNotFound, ValueError) as error:
            raise no_session(params.session_id) from error
        if os.path.realpath(session.location.directory) != location.directory:
            raise invalid(
                f"The session {session.id} belongs to {session.location.directory}, not to {location.directory}. "
                "Open it in its own directory."
            )
        return session

    async def root_of(self, session_id: str) -> str | None:
        """The open session that a Session belongs to: itself, or the one above it."""
        seen = 0
        id: str | None = session_id
        while id is not None and id not in self._open and seen < DEEPEST:
            seen += 1
            if len(self._parents) > KNOWN_PARENTS:
                self._parents.clear()
            if id not in self._parents:
                self._parents[id] = (await self._host.sessions.get(id)).parent_id
            id = self._parents[id]
        return id if id in self._open else None

    # -- methods ---------------------------------------------------------------------------------------------------

    async def list(self, params: requests.ListSessions) -> Json:
        directory = os.path.realpath(params.cwd) if params.cwd is not None else None
        try:
            if params.cursor is not None:
                page = await self._host.sessions.list(cursor=params.cursor, limit=PAGE)
            else:
                page = await self._host.sessions.list(directory=directory, parent_id="null", limit=PAGE)
        except InvalidCursor as error:
            raise invalid(f"The cursor is none of session/list: {error}") from error
        found: Json = {"sessions": [_listed(session) for session in page.items]}
        return {**found, "nextCursor": page.next} if page.next is not None and len(page.items) == PAGE else found

    async def prompt(self, params: requests.PromptRequest) -> Json:
        given = given_prompt(params.prompt)
        opened = self._get(params)
        for problem in await self._servers.ready(opened.id):
            await opened.note(problem)
        return await opened.prompt(given)

    def cancel(self, params: requests.OfSession) -> None:
        if (opened := self._open.get(params.session_id)) is not None:
            opened.prompts.cancel()

    async def close_session(self, params: requests.OfSession) -> Json:
        opened = self._get(params)
        await opened.prompts.stop()
        self._open.pop(opened.id, None)
        await opened.close()
        await self._servers.remove(opened.id, opened.location)
        return {}

    async def delete(self, params: requests.OfSession) -> Json:
        if params.session_id in self._open:
            await self.close_session(params)
        try:
            await self._host.sessions.delete(params.session_id, children="delete")
        except (SessionNotFound, ValueError) as error:
            raise no_session(params.session_id) from error
        return {}

    async def set_mode(self, params: requests.SetMode) -> Json:
        await self._get(params).choose(MODE, params.mode_id)
        return {}

    async def set_model(self, params: requests.SetModel) -> Json:
        await self._get(params).choose(MODEL, params.model_id)
        return {}

    async def set_config_option(self, params: requests.SetConfigOption) -> Json:
        return {"configOptions": await self._get(params).choose(params.config_id, params.value)}

    async def close(self) -> None:
        """The editor has gone. Requests to people stay open, and work stops at a safe point with the runtime."""
        sessions, self._open = list(self._open.values()), {}
        if sessions:
            await asyncio.gather(*(opened.close() for opened in sessions))
        await self._servers.close()

    def _get(self, params: requests.OfSession) -> EditorSession:
        opened = self._open.get(params.session_id)
        if opened is None:
            raise not_open(params.session_id)
        return opened


def _checked(params: requests.OpenSession) -> Location:
    """Raises RpcError for what cannot be honoured."""
    if not os.path.isabs(params.cwd):
        raise invalid(f"`cwd` is not an absolute path: {params.cwd[:200]!r}")
    directory = os.path.realpath(params.cwd)
    if not os.path.isdir(directory):
        raise invalid(f"`cwd` is not a directory: {directory[:200]!r}")
    if params.additional_directories:
        raise invalid("Holdfast has no additional directories: sessionCapabilities does not name them")
    for server in params.mcp_servers or ():
        server_config(server)
    return Location(directory=directory)


def _listed(session: Session) -> Json:
    updated = datetime.fromtimestamp(session.time.updated / 1000, UTC).isoformat().replace("+00:00", "Z")
    return {
        "sessionId": session.id,
        "cwd": session.location.directory,
        "title": title(session.title),
        "updatedAt": updated,
    }


class Handler(Frozen):
    params: type[Any]
    answer: Callable[[OpenSessions, Any], Awaitable[Json]]


HANDLERS = {
    "session/new": Handler(requests.OpenSession, OpenSessions.new),
    "session/load": Handler(requests.OpenStored, OpenSessions.load),
    "session/resume": Handler(requests.OpenStored, OpenSessions.resume),
    "session/fork": Handler(requests.OpenStored, OpenSessions.fork),
    "session/list": Handler(requests.ListSessions, OpenSessions.list),
    "session/prompt": Handler(requests.PromptRequest, OpenSessions.prompt),
    "session/close": Handler(requests.OfSession, OpenSessions.close_session),
    "session/delete": Handler(requests.OfSession, OpenSessions.delete),
    "session/set_mode": Handler(requests.SetMode, OpenSessions.set_mode),
    "session/set_model": Handler(requests.SetModel, OpenSessions.set_model),
    "session/set_config_option": Handler(requests.SetConfigOption, OpenSessions.set_config_option),
}
