"""Uses a server on behalf of a call: starts it, and puts to people what it asks.

A request is sent once. It is sent again only if the server has said that it did not act: because it wants input first,
or a credential."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from holdfast.core.mcp.errors import ServerUnavailable
from holdfast.mcp.errors import NeedsAuthorization, RpcError, UrlElicitationRequired
from holdfast.mcp.input import Elicitation, InputRequired, RootsAnswer, RootsRequest, Sampling

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from holdfast.core.mcp.seam import CallFor, People
    from holdfast.core.mcp.server import Server
    from holdfast.mcp.client import Client
    from holdfast.mcp.input import InputAnswer

    Input = tuple[Mapping[str, InputAnswer] | None, str | None]
    """Answers by key, and the state of the server."""

T = TypeVar("T")

ROUNDS = 20
"""How often one call may ask for input or a credential."""
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 5.0


async def use(
    server: Server,
    people: People | None,
    whom: CallFor | None,
    send: Callable[[Client, Input], Awaitable[T | InputRequired]],
) -> T:
    """Raises McpError and ServerUnavailable. With `whom` None nobody is asked."""
    try:
        return await _use(server, people, whom, send)
    finally:
        if whom is not None:
            await server.handlers.ended(whom)
        if people is not None and whom is not None:
            await people.ended(whom)


async def _use(
    server: Server,
    people: People | None,
    whom: CallFor | None,
    send: Callable[[Client, Input], Awaitable[T | InputRequired]],
) -> T:
    key = f"{whom.session_id}/{whom.call_id}" if whom is not None else None
    asked = people if whom is not None else None
    required = await asked.pending(server.name, whom) if asked is not None and whom is not None else None
    pause = FIRST_PAUSE
    given: Input = (None, None)
    answered: InputRequired | None = None
    for _ in range(ROUNDS + 1):
        if required is not None and required is not answered:
            if not required.requests:
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            given, answered = (await _answers(server, required, asked, whom), required.state), required
        try:
            client = await server.client()
            if key is not None and whom is not None:
                server.handlers.begin_call(key, whom)
            try:
                result = await send(client, given)
            finally:
                if key is not None:
                    server.handlers.end_call(key)
        except NeedsAuthorization as needs:
            server.needs_authorization(needs)
            if asked is None or whom is None or not await asked.authorize(server.name, needs, whom):
                raise ServerUnavailable(server.name, server.reason(needs)) from needs
            continue
        except UrlElicitationRequired as error:
            if not await _visited(server, error, asked, whom):
                raise
            continue
        server.authorized()
        if not isinstance(result, InputRequired):
            return result
        required = result
    raise ServerUnavailable(server.name, f"it asked for input or a credential more than {ROUNDS} times in one call")


async def _answers(
    server: Server, required: InputRequired, people: People | None, whom: CallFor | None
) -> dict[str, InputAnswer]:
    """What cannot be answered here is a refusal of the call."""
    answers: dict[str, InputAnswer] = {}
    questions = {key: item for key, item in required.requests.items() if isinstance(item, Elicitation)}
    for key, request in required.requests.items():
        if isinstance(request, RootsRequest):
            answers[key] = RootsAnswer(roots=await server.handlers.roots())
        elif isinstance(request, Sampling):
            try:
                answers[key] = await server.handlers.sample(request, whom)
            except RpcError as error:
                reason = f"it asks for an answer of a model, and gets none: {error.message}"
                raise ServerUnavailable(server.name, reason) from error
    if questions:
        if people is None or whom is None:
            raise ServerUnavailable(server.name, "it asks for input of a person, and there is nobody to ask")
        answers |= await people.input(server.name, required, whom)
    return answers


async def _visited(server: Server, error: UrlElicitationRequired, people: People | None, whom: CallFor | None) -> bool:
    if people is None or whom is None:
        return False
    for request in error.elicitations:
        if (await people.elicit(server.name, request, whom)).action != "accept":
            return False
    return bool(error.elicitations)
