"""Sends the stored conversation of a Session to an editor, as the same updates that it got or would have got live.

Everything is sent: prompts, answers, reasoning, calls with their results, commands of a person, and the calls of
subagents below the call that gave them work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.acp.tool_calls import ToolView
from holdfast.acp.translation import MESSAGE, THOUGHT, ChildOf, Translation, call_key, plan, shell_ended
from holdfast.schema import session_message as messages
from holdfast.schema.prompt import Prompt

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.session_message import SessionMessage
    from holdfast.schema.tree import TreeNode

Json = dict[str, Any]
PAGE = 100
MOST_CHILDREN = 500
CHILD_MESSAGES = 1000
"""Of one subagent."""


class Replay:
    def __init__(self, client: AsyncClient, session_id: str, translation: Translation, directory: str) -> None:
        """`translation` goes on with live events where the replay ends."""
        self._client = client
        self._session_id = session_id
        self._translation = translation
        self._directory = directory
        self._children: dict[str, list[TreeNode]] = {}

    async def send(self, send: Callable[[Json], Awaitable[None]]) -> None:
        tree = await self._client.sessions.tree(self._session_id, limit=MOST_CHILDREN)
        for node in tree.nodes[1:]:
            if node.task is not None:
                self._children.setdefault(call_key(node.task.message_id, node.task.call_id), []).append(node)
        async for message in _messages(self._client, self._session_id):
            for update in self._updates(message, self._translation):
                await send(update)
                if update.get("status") in ("completed", "failed"):
                    await self._send_children(str(update["toolCallId"]), send)
        if todos := await self._client.sessions.todos(self._session_id):
            await send(plan(todos))

    async def _send_children(self, call_id: str, send: Callable[[Json], Awaitable[None]]) -> None:
        for node in self._children.pop(call_id, ()):
            view = ToolView(self._directory, node.agent)
            translation = Translation(view, child=ChildOf(call_id))
            count = 0
            async for message in _messages(self._client, node.id):
                count += 1
                if count > CHILD_MESSAGES:
                    break
                for update in self._updates(message, translation):
                    await send(update)
                    if update.get("status") in ("completed", "failed"):
                        await self._send_children(str(update["toolCallId"]), send)

    def _updates(self, message: SessionMessage, translation: Translation) -> Iterator[Json]:
        translation.note_message(message.id)
        match message:
            case messages.UserMessage(id=id, text=text, files=files):
                yield from translation.prompt(id, Prompt(text=text, files=files))
            case messages.SyntheticMessage(id=id, text=text, description=description):
                yield from translation.note(description or text, id)
            case messages.ShellMessage(call_id=call, command=command, output=output, exit=exit, time=time):
                yield translation.called("shell", call, "bash", {"command": command}, status="in_progress")
                if time.completed is not None:
                    yield shell_ended(call, output, exit)
            case messages.CompactionMessage():
                yield from translation.note("Older history was summarised.")
            case messages.AssistantMessage():
                yield from self._answer(message, translation)

    def _answer(self, message: messages.AssistantMessage, translation: Translation) -> Iterator[Json]:
        unfinished = message.time.completed is None
        for part in message.content:
            match part:
                case messages.TextPart(id=id):
                    text = part.text or part.partial or ""
                    yield from translation.text(MESSAGE, message.id, text)
                    if unfinished:
                        translation.note_text(message.id, id, text)
                case messages.ReasoningPart(id=id):
                    text = part.text or part.partial or ""
                    yield from translation.text(THOUGHT, message.id, text)
                    if unfinished:
                        translation.note_text(message.id, id, text)
                case messages.ToolPart():
                    yield from _call(message.id, part, translation)
        if message.error is not None:
            yield from translation.note(f"The turn ended without a complete answer: {message.error.message}")


def _call(message_id: str, part: messages.ToolPart, translation: Translation) -> Iterator[Json]:
    state = part.state
    given = state.input if isinstance(state.input, dict) else {}
    status = "pending" if isinstance(state, messages.ToolPending) else "in_progress"
    yield translation.called(message_id, part.id, part.name, given, status=status)
    key = call_key(message_id, part.id)
    match state:
        case messages.ToolCompleted(content=content, structured=structured):
            yield translation.settled(key, content, structured)
        case messages.ToolError(error=error):
            yield translation.settled(key, (), {}, error=error.message)


async def _messages(client: AsyncClient, session_id: str) -> AsyncIterator[SessionMessage]:
    cursor = None
    while True:
        if cursor is None:
            page = await client.sessions.messages(session_id, limit=PAGE, order="asc")
        else:
            page = await client.sessions.messages(session_id, limit=PAGE, cursor=cursor)
        for message in page.items:
            yield message
        cursor = page.next
        if not page.items or cursor is None:
            return
