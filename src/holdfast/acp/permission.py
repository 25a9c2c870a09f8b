"""A permission request in the editor: the call with what it would do, and the answers there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.acp.requests import PermissionAnswer
from holdfast.acp.text import title
from holdfast.acp.tool_calls import ToolView, raw_value, text_content
from holdfast.acp.translation import call_key
from holdfast.client.errors import ApiError, ClientError
from holdfast.schema.session_message import AssistantMessage, ToolPart

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.permission import PermissionRequest

    Call = Callable[[str, dict[str, Any]], Awaitable[msgspec.Raw]]

Json = dict[str, Any]
GO_ON = "The user rejected this call. Do not repeat it; go on without it, or ask what to do instead."
MOST_PATTERNS = 6
BEFORE_BYTES = 256 * 1024


class PermissionDialogue:
    def __init__(self, client: AsyncClient, session_id: str, directory: str, call: Call) -> None:
        """`session_id` is the Session that the editor has open: requests of those below it are asked there too. `call`
        sends a request to the editor."""
        self._client = client
        self._session_id = session_id
        self._directory = directory
        self._call = call

    async def ask(self, request: PermissionRequest, cancelling: Callable[[], bool]) -> None:
        """Raises McpError if the editor does not answer."""
        params = {
            "sessionId": self._session_id,
            "toolCall": await self._described(request),
            "options": _options(request),
        }
        raw = await self._call("session/request_permission", params)
        try:
            outcome = msgspec.json.decode(raw, type=PermissionAnswer).outcome
        except ValueError:
            outcome = None
        if (outcome is None or outcome.outcome != "selected") and cancelling():
            return  # the interruption settles the request
        chosen = outcome.option_id if outcome is not None and outcome.outcome == "selected" else None
        await self._reply(request, chosen)

    async def _reply(self, request: PermissionRequest, chosen: str | None) -> None:
        reply = self._client.permissions.reply
        session_id = request.session_id
        if chosen == "allow":
            await reply(session_id, request_id=request.id, reply="once")
        elif chosen is not None and chosen.startswith("always-") and chosen[7:].isdecimal():
            patterns = _patterns(request)
            pattern = patterns[min(int(chosen[7:]), len(patterns) - 1)]
            await reply(session_id, request_id=request.id, reply="always", save=(pattern,))
        elif chosen == "reject-continue":
            await reply(session_id, request_id=request.id, reply="reject", message=GO_ON)
        else:  # what was not offered is no approval either
            await reply(session_id, request_id=request.id, reply="reject")

    async def _described(self, request: PermissionRequest) -> Json:
        source = request.source
        part = await self._part(request)
        who = await self._who(request)
        view = ToolView(self._directory, who)
        key = call_key(source.message_id, source.call_id) if source is not None else request.id
        about = f"{request.action} {' '.join(request.resources)}"
        shown: Json = {"toolCallId": key, "status": "pending", "title": title(f"{who}: {about}" if who else about)}
        if part is None or not isinstance(part.state.input, dict):
            return {**shown, "kind": view.kind(request.action), "rawInput": raw_value(request.metadata or {})}
        given = part.state.input
        before = await self._before(part.name, given)
        content = view.planned(part.name, given, before)
        if request.action not in (part.name, view.kind(part.name)):
            content = [text_content(f"Needs {title(about)}"), *content]
        warnings = (request.metadata or {}).get("warnings")
        if isinstance(warnings, list | tuple):
            content += [text_content(title(str(warning))) for warning in warnings[:10]]
        return {
            **shown,
            "title": view.title(part.name, given),
            "kind": view.kind(part.name),
            "rawInput": raw_value(given),
            "locations": view.locations(given),
            "content": content,
        }

    async def _part(self, request: PermissionRequest) -> ToolPart | None:
        if request.source is None:
            return None
        try:
            found = await self._client.sessions.message(request.session_id, message_id=request.source.message_id)
        except (ApiError, ClientError):
            return None
        parts = found.content if isinstance(found, AssistantMessage) else ()
        calls = [part for part in parts if isinstance(part, ToolPart) and part.id == request.source.call_id]
        return calls[0] if calls else None

    async def _who(self, request: PermissionRequest) -> str | None:
        """The agent, if it is a subagent that asks."""
        if request.session_id == self._session_id:
            return None
        try:
            return (await self._client.sessions.get(request.session_id)).agent or "subagent"
        except (ApiError, ClientError):
            return "subagent"

    async def _before(self, tool: str, given: Json) -> str | None:
        """The present text of a file that would be replaced."""
        path = given.get("path")
        if tool != "write" or not isinstance(path, str):
            return None
        from holdfast.schema.location import Location

        try:
            data = await self._client.files.read(path, location=Location(directory=self._directory))
        except (ApiError, ClientError, ValueError):
            return None
        if len(data) > BEFORE_BYTES:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError:
            return None


def _patterns(request: PermissionRequest) -> tuple[str, ...]:
    return (request.save or request.resources)[:MOST_PATTERNS]


def _options(request: PermissionRequest) -> list[Json]:
    always = [
        {"optionId": f"always-{number}", "name": title(f"Always allow {request.action} {text}"), "kind": "allow_always"}
        for number, text in enumerate(request.save[:MOST_PATTERNS] if request.save else ())
    ]
    return [
        {"optionId": "allow", "name": "Allow once", "kind": "allow_once"},
        *always,
        {"optionId": "reject", "name": "Reject, and end the turn", "kind": "reject_once"},
        {"optionId": "reject-continue", "name": "Reject, and go on", "kind": "reject_once"},
    ]
