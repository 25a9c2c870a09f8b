"""Handlers of `protocol/sessions.py`."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UnsetType

from holdfast.core.project.directory import canonical_directory
from holdfast.core.prompt.mention import may_mention
from holdfast.core.session.budgets import check_budget
from holdfast.core.session.errors import AgentUnavailable, InvalidCursor, MessageNotFound
from holdfast.core.session.prompt_input import normalise
from holdfast.core.session.stored_sessions import SessionAnchor, SessionFilter
from holdfast.protocol.sessions import CHECKED
from holdfast.schema.codec import encode
from holdfast.schema.exceptions import ApiError, Forbidden, InvalidRequest
from holdfast.schema.prompt import named_model
from holdfast.schema.session import ForkBefore, SessionActive
from holdfast.server.admission import admit_resolved, attaches_resources, resolve_prompt
from holdfast.server.attached_files import reads_own_files
from holdfast.server.closed_folders import check_open
from holdfast.server.cursor import ListCursor, MessageCursor, read_cursor, write_cursor
from holdfast.server.locations import served_location
from holdfast.server.project_reach import ASK_INSTEAD, UNDO_INSTEAD, check_worktree
from holdfast.server.prompt_payload import in_shape, prompt_of
from holdfast.server.sse import HEARTBEAT, joined
from holdfast.server.types import ApiCall, Frames, HistoryOf, PageOf

if TYPE_CHECKING:
    from holdfast.core.session.stored_messages import StoredMessage
    from holdfast.core.session.stored_sessions import Direction, Order
    from holdfast.protocol import sessions as protocol
    from holdfast.schema.location import Location
    from holdfast.schema.prompt import Admission
    from holdfast.schema.session import Revert, Session

PAGE = 50
LAST_SEQUENCE = 2**53 - 1


async def list(call: ApiCall) -> PageOf:
    query: protocol.ListQuery = call.query
    cursor = read_cursor(ListCursor, query.cursor) if query.cursor is not None else None
    scope = cursor or query
    order: Order = scope.order or "desc"
    limit = query.limit or (cursor.limit if cursor else None) or PAGE
    chosen = SessionFilter(
        workspace=scope.workspace,
        search=scope.search,
        directory=canonical_directory(scope.directory) if scope.directory else scope.directory,
        project=scope.project,
        subpath=scope.subpath,
        archived=scope.archived,
        parent=cursor.parent if cursor else _known(query.parent_id),
    )
    call.caller.check_directory(chosen.directory)  # of the cursor too, which a caller can write
    sessions = await call.runtime.sessions.page(
        chosen, order=order, limit=limit, anchor=cursor.anchor if cursor else None
    )
    if not sessions:
        return PageOf([], None, None)

    def link(session: Session, direction: Direction) -> str:
        anchor = SessionAnchor(id=session.id, time=session.time.created, direction=direction)
        filters = {name: getattr(chosen, name) for name in chosen.__struct_fields__}
        return write_cursor(ListCursor(anchor=anchor, order=scope.order, limit=limit, **filters))

    return PageOf([*sessions], link(sessions[0], "previous"), link(sessions[-1], "next"))


async def create(call: ApiCall) -> Session:
    payload: protocol.CreatePayload = call.payload
    if payload.id is not None and (known := await call.runtime.store.find(payload.id)) is not None:
        if not call.caller.reaches(known.location.directory):
            raise Forbidden(f"The token {call.caller.name} is limited to projects, and this Session is not in them.")
        return known  # even if its directory no longer exists
    location = call.runtime.location
    if payload.location is not None:
        given, workspace = payload.location, _known(payload.location.workspace_id)
        call.caller.check_directory(given.directory)  # first: a limited one does not learn what there is elsewhere
        location = served_location(call.runtime.placement, given.directory, workspace, kind="Payload")
    call.caller.check_directory(location.directory)
    check_open(call.runtime, call.caller, location.directory)
    if call.headers.get(CHECKED) == "1" and (payload.agent or payload.model):
        await _check_choices(call, location, payload)
    if payload.budget is not None:
        check_budget(payload.budget)
    return await call.runtime.sessions.create(
        id=payload.id,
        agent=payload.agent,
        model=named_model(payload.model) if payload.model else None,
        location=location,
        project=await call.runtime.project(location),
        budget=payload.budget,
    )


async def _check_choices(call: ApiCall, location: Location, payload: protocol.CreatePayload) -> None:
    """Refuse an unknown agent or model before the Session is created."""
    async with call.runtime.locations.use(location) as services:
        await services.catalog.ready()
        agent = services.agents.select(payload.agent).agent
        if payload.agent and agent is None:
            refused = AgentUnavailable(payload.id or "", payload.agent)
            raise InvalidRequest(str(refused), kind="Payload", field="agent")
        if payload.model:
            try:
                services.catalog.resolve(payload.id or "", named_model(payload.model), agent)
            except ApiError as error:
                raise InvalidRequest(str(error), kind="Payload", field="model") from error


async def active(call: ApiCall) -> dict[str, SessionActive]:
    return {session_id: SessionActive(type="running") for session_id in await call.runtime.sessions.active()}


async def get(call: ApiCall) -> Session:
    assert call.session is not None
    return call.session


async def prompt(call: ApiCall) -> Admission:
    payload: protocol.PromptPayload = call.payload
    given = normalise(prompt_of(payload))
    id, delivery, resume = payload.id, payload.delivery or "steer", payload.resume is not False
    checked = call.headers.get(CHECKED) == "1"
    resolves = payload.resolve is True and may_mention(given.text)
    try:
        if given.skills or given.agents or resolves or attaches_resources(given) or reads_own_files(call, given):
            resolve = partial(resolve_prompt, mentions=resolves)
            return await admit_resolved(
                call, given, resolve, id=id, delivery=delivery, resume=resume, checked=checked, resolves=resolves
            )
        return await call.runtime.sessions.prompt(
            call.params.session_id, given, id=id, delivery=delivery, resume=resume, checked=checked
        )
    except InvalidRequest as error:
        raise in_shape(payload, error) from None


async def switch_agent(call: ApiCall) -> None:
    await call.runtime.sessions.switch_agent(call.params.session_id, call.payload.agent)


async def switch_model(call: ApiCall) -> None:
    await call.runtime.sessions.switch_model(call.params.session_id, named_model(call.payload.model))


async def compact(call: ApiCall) -> None:
    await call.runtime.sessions.compact(call.params.session_id, call.payload.instructions or None)


async def stage_revert(call: ApiCall) -> Revert:
    payload: protocol.StagePayload = call.payload
    assert call.session is not None
    if payload.files is not False:
        await check_worktree(call, call.session, UNDO_INSTEAD)
    return await call.runtime.sessions.stage_revert(
        call.params.session_id,
        payload.message_id,
        files=payload.files is not False,
        before=payload.before is True,
    )


async def clear_revert(call: ApiCall) -> None:
    assert call.session is not None
    if call.session.revert is not None and call.session.revert.files:
        await check_worktree(call, call.session, ASK_INSTEAD)
    await call.runtime.sessions.clear_revert(call.params.session_id)


async def commit_revert(call: ApiCall) -> None:
    await call.runtime.sessions.commit_revert(call.params.session_id)


async def fork(call: ApiCall) -> Session:
    payload: protocol.ForkPayload = call.payload
    before = payload.boundary.message_id if isinstance(payload.boundary, ForkBefore) else None
    return await call.runtime.sessions.fork(call.params.session_id, before)


async def wait(call: ApiCall) -> None:
    await call.while_connected(call.runtime.sessions.wait(call.params.session_id), also_stopping=True)


async def interrupt(call: ApiCall) -> None:
    await call.runtime.sessions.interrupt(call.params.session_id, background=call.query.background is True)


async def background(call: ApiCall) -> None:
    async with call.services as services:
        allowed = services.callable_agents.background
    await call.runtime.sessions.background(call.params.session_id, allowed=allowed)


async def context(call: ApiCall) -> Any:
    return [_raw(message) for message in await call.runtime.sessions.context(call.params.session_id)]


async def history(call: ApiCall) -> HistoryOf:
    query: protocol.HistoryQuery = call.query
    events, more = await call.runtime.sessions.history(
        call.params.session_id, after=-1 if query.after is None else query.after, limit=query.limit or PAGE
    )
    return HistoryOf([*events], more)


async def events(call: ApiCall) -> Frames:
    after = call.query.after
    if after is None:
        resumed = call.headers.get("last-event-id", "")
        if resumed.isascii() and resumed.isdecimal():
            after = min(int(resumed[:20]), LAST_SEQUENCE)
        else:
            after = await call.runtime.log.latest(call.params.session_id) if call.query.replay is False else -1
    return _live_frames(call, after) if call.query.live else _frames(call, after)


async def messages(call: ApiCall) -> PageOf:
    query: protocol.MessagesQuery = call.query
    session_id = call.params.session_id
    order: Order = query.order or "desc"
    limit, anchor, direction = query.limit, None, "next"
    if query.cursor:
        if query.order is not None:
            raise InvalidCursor("A cursor already carries its order")
        cursor = read_cursor(MessageCursor, query.cursor)
        order, direction, limit = cursor.order, cursor.direction, limit or cursor.limit
        try:
            anchor = (await call.runtime.sessions.message(session_id, cursor.id)).seq
        except MessageNotFound as error:
            raise InvalidCursor from error
    limit = min(limit or PAGE, 200)
    found = await call.runtime.sessions.messages(
        session_id, order=order, limit=limit, anchor=anchor, direction="previous" if direction == "previous" else "next"
    )
    if not found:
        return PageOf([], None, None)

    def link(message: StoredMessage, direction: Direction) -> str:
        return write_cursor(MessageCursor(id=message.id, order=order, direction=direction, limit=limit))

    return PageOf([_raw(message) for message in found], link(found[0], "previous"), link(found[-1], "next"))


async def message(call: ApiCall) -> msgspec.Raw:
    return _raw(await call.runtime.sessions.message(call.params.session_id, call.params.message_id))


async def _frames(call: ApiCall, after: int) -> Frames:
    stored = call.runtime.sessions.events(call.params.session_id, after=after, holding=call.holding)
    async with aclosing(stored) as batches:  # type: ignore[type-var]
        async for batch in batches:
            for chunk in joined(b"data: %s\n\n" % encode(event) for event in batch):
                yield chunk


async def _live_frames(call: ApiCall, after: int) -> Frames:
    followed = call.runtime.sessions.live_events(call.params.session_id, after=after, holding=call.holding)
    async with aclosing(followed) as batches:  # type: ignore[type-var]
        async for batch in batches:
            if not batch:
                yield HEARTBEAT  # live events begin here
            for chunk in joined(b"data: %s\n\n" % event for event in batch):
                yield chunk


def _raw(message: StoredMessage) -> msgspec.Raw:
    return msgspec.Raw(message.wire)


def _known(value: str | UnsetType) -> str | None:
    return None if isinstance(value, UnsetType) else value
