"""Makes updates for an editor from the events of one Session of a tree.

Invariants
- Every character of a text is sent once. Deltas are passed on while nothing of their block can have been missed; the
  end of a block carries the whole text, from which the rest is taken. What a replay has sent is not sent again.
- Of a Session below the followed one only the calls are shown as its own; its texts become the content of the call that
  gave it work.
- What is kept in memory is bounded by what is open: blocks and calls that have not ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.acp.text import bounded, printable, terminal_output
from holdfast.acp.tool_calls import changed_files, fenced, file_block, raw_value, result_content, text_content
from holdfast.schema import live_event as live
from holdfast.schema import session_event as ev
from holdfast.schema.frozen import Frozen
from holdfast.schema.todo import Todo

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.acp.tool_calls import ToolView
    from holdfast.schema.prompt import Prompt
    from holdfast.schema.session_message import ToolContent
    from holdfast.schema.typed_event import Event

Json = dict[str, Any]
MESSAGE = "agent_message_chunk"
THOUGHT = "agent_thought_chunk"
USER = "user_message_chunk"
KNOWN_MESSAGES = 4096
"""Of messages that were shown, so that an event that comes again is recognised."""


class ChildOf(Frozen):
    """Whose work a Session does: the call of its parent, by the id that the editor knows."""

    call_id: str


class _Block:
    """A text that is being written. `whole` is whether no delta of it can have been missed."""

    def __init__(self, *, whole: bool, sent: str = "") -> None:
        self.whole = whole
        self._sent = [sent]

    def take(self, delta: str) -> str:
        if not self.whole:
            return ""
        self._sent.append(delta)
        return delta

    def rest(self, text: str) -> str:
        sent = "".join(self._sent)
        if sent.startswith(text):  # of a block that broke off, less may have been kept than was sent
            return ""
        return text[len(sent) :] if text.startswith(sent) else f"\n\n{text}"


class _Call:
    def __init__(self, tool: str, given: Json, *, terminal: bool) -> None:
        self.tool = tool
        self.given = given
        self.terminal = terminal
        self.shown = 0
        """Characters of its output that a terminal has got."""


class Translation:
    def __init__(self, view: ToolView, *, child: ChildOf | None = None, terminals: bool = False) -> None:
        """`terminals`: whether the editor shows output of commands in a terminal of its own."""
        self._view = view
        self._child = child
        self._terminals = terminals
        self._blocks: dict[tuple[str, str], _Block] = {}
        self._calls: dict[str, _Call] = {}
        self._shown: dict[str, None] = {}
        self.live = True
        """Whether live events arrive by now."""
        self.own: set[str] = set()
        """Inputs that the editor sent and shows already."""

    @property
    def calls_run(self) -> bool:
        return bool(self._calls)

    def connection_lost(self) -> None:
        """Until `live` is set again, deltas may be missing."""
        self.live = False
        for block in self._blocks.values():
            block.whole = False

    def note_message(self, message_id: str) -> bool:
        """Whether a message is new. It counts as shown from now on."""
        if message_id in self._shown:
            return False
        self._shown[message_id] = None
        if len(self._shown) > KNOWN_MESSAGES:
            del self._shown[next(iter(self._shown))]
        return True

    def note_text(self, message_id: str, part_id: str, text: str) -> None:
        """A replay has sent this much of a text that is still being written."""
        self._blocks[message_id, part_id] = _Block(whole=False, sent=text)

    def updates(self, event: Event) -> Iterator[Json]:
        match event.data:
            case ev.Prompted(message_id=id, prompt=prompt):
                if self.note_message(id) and id not in self.own:
                    yield from self.prompt(id, prompt)
                self.own.discard(id)
            case ev.Synthetic(message_id=id, text=text, description=description):
                if self.note_message(id):
                    yield from self.note(description or text, id)
            case ev.Retried(attempt=attempt, error=failure):
                yield from self.note(f"The provider failed, attempt {attempt}: {failure.message}")
            case ev.StepFailed(error=failure):
                yield from self.note(f"The turn ended without a complete answer: {failure.message}")
            case ev.CompactionStarted():
                yield from self.note("Older history is being summarised.")
            case ev.CompactionFailed(error=failure):
                yield from self.note(f"Older history could not be summarised: {failure.message}")
            case _:
                yield from self._texts(event)
                yield from self._tool(event)
                yield from self._shell(event)

    # -- messages --------------------------------------------------------------------------------------------------

    def prompt(self, id: str, prompt: Prompt) -> Iterator[Json]:
        """A prompt of somebody else. Of a child it is in the input of the call."""
        if self._child is not None:
            return
        if prompt.text:
            yield chunk(USER, prompt.text, id)
        for file in prompt.files or ():
            yield {
                "sessionUpdate": USER,
                "content": file_block(file.uri, file.mime, file.name or file.uri),
                "messageId": id,
            }

    def note(self, text: str, id: str | None = None) -> Iterator[Json]:
        """Something that happened and is not of the model, as a thought on a line of its own."""
        if self._child is None:
            yield chunk(THOUGHT, f"{bounded(text)}\n\n", id)

    def _texts(self, event: Event) -> Iterator[Json]:
        match event.data:
            case ev.TextStarted(assistant_message_id=message, text_id=part):
                self._blocks.setdefault((message, part), _Block(whole=self.live))
            case ev.ReasoningStarted(assistant_message_id=message, reasoning_id=part):
                self._blocks.setdefault((message, part), _Block(whole=self.live))
            case live.TextDelta(assistant_message_id=message, text_id=part, delta=delta):
                yield from self.text(MESSAGE, message, self._delta(message, part, delta))
            case live.ReasoningDelta(assistant_message_id=message, reasoning_id=part, delta=delta):
                yield from self.text(THOUGHT, message, self._delta(message, part, delta))
            case ev.TextEnded(assistant_message_id=message, text_id=part, text=whole):
                rest = self._rest(message, part, whole)
                yield from self.text(MESSAGE, message, rest)
                if self._child is not None and whole:
                    content = [text_content(bounded(whole))]
                    yield {"sessionUpdate": "tool_call_update", "toolCallId": self._child.call_id, "content": content}
            case ev.ReasoningEnded(assistant_message_id=message, reasoning_id=part, text=whole):
                yield from self.text(THOUGHT, message, self._rest(message, part, whole))

    def text(self, kind: str, message: str, text: str) -> Iterator[Json]:
        if text and self._child is None:
            yield chunk(kind, text, message)

    def _delta(self, message: str, part: str, delta: str) -> str:
        block = self._blocks.get((message, part))
        return "" if block is None else block.take(delta)

    def _rest(self, message: str, part: str, whole: str) -> str:
        block = self._blocks.pop((message, part), None)
        return whole if block is None else block.rest(whole)

    # -- calls -----------------------------------------------------------------------------------------------------

    def _tool(self, event: Event) -> Iterator[Json]:
        match event.data:
            case ev.ToolInputStarted(assistant_message_id=message, call_id=call, name=tool):
                if call_key(message, call) not in self._calls:
                    yield self.called(message, call, tool, {}, status="pending")
            case ev.ToolCalled(assistant_message_id=message, call_id=call, tool=tool, input=given):
                known = call_key(message, call) in self._calls
                shown = self.called(message, call, tool, given, status="in_progress")
                yield {**shown, "sessionUpdate": "tool_call_update"} if known else shown
            case ev.ToolProgress(assistant_message_id=message, call_id=call, content=content):
                yield from self._progress(call_key(message, call), content)
            case ev.ToolSuccess(assistant_message_id=message, call_id=call, content=content, structured=structured):
                todos = self._todos(call_key(message, call))
                yield self.settled(call_key(message, call), content, structured)
                if todos is not None:
                    yield plan(todos)
            case ev.ToolFailed(assistant_message_id=message, call_id=call, error=failure):
                yield self.settled(call_key(message, call), (), {}, error=failure.message)

    def _todos(self, key: str) -> Sequence[Todo] | None:
        """The new to-do list, if this call has set it."""
        call = self._calls.get(key)
        if self._child is not None or call is None or call.tool != "todowrite":
            return None
        try:
            return msgspec.convert(call.given.get("todos"), tuple[Todo, ...])
        except msgspec.ValidationError:
            return None

    def called(self, message: str, call: str, tool: str, given: Json, *, status: str) -> Json:
        """A call that begins."""
        key = call_key(message, call)
        terminal = self._terminals and tool == "bash"
        self._calls[key] = _Call(tool, given, terminal=terminal)
        shown: Json = {
            "sessionUpdate": "tool_call",
            "toolCallId": key,
            "title": self._view.title(tool, given),
            "kind": self._view.kind(tool),
            "status": status,
        }
        if given:
            shown["rawInput"] = raw_value(given)
            shown["locations"] = self._view.locations(given)
            shown["content"] = [] if tool == "bash" else self._view.planned(tool, given)
        if terminal and given:
            shown["content"] = [{"type": "terminal", "terminalId": key}]
            shown["_meta"] = {"terminal_info": {"terminal_id": key, "cwd": self._view.directory}}
        return shown

    def _progress(self, key: str, content: Sequence[ToolContent]) -> Iterator[Json]:
        call = self._calls.get(key)
        update: Json = {"sessionUpdate": "tool_call_update", "toolCallId": key, "status": "in_progress"}
        if call is not None and call.terminal:
            if output := self._terminal_part(key, call, content):
                yield {**update, **output}
        elif content:
            yield {**update, "content": self._output(call, content)}

    def settled(self, key: str, content: Sequence[ToolContent], structured: Json, *, error: str | None = None) -> Json:
        """A call that has ended."""
        call = self._calls.pop(key, None)
        status = "completed" if error is None else "failed"
        update: Json = {"sessionUpdate": "tool_call_update", "toolCallId": key, "status": status}
        if error is not None:
            content_shown = [text_content(bounded(error))]
        else:
            content_shown = self._view.changes(structured) or self._output(call, content)
            update["rawOutput"] = raw_value(structured)
        if files := [name for name, _ in changed_files(structured)]:
            update["locations"] = self._view.locations({}, files)
        if call is not None and call.terminal and error is None:
            return {**update, **self._terminal_end(key, call, content, structured)}
        return {**update, "content": content_shown} if content_shown else update

    def _output(self, call: _Call | None, content: Sequence[ToolContent]) -> list[Json]:
        shown = result_content(content)
        if call is not None and call.tool == "bash":
            text = "\n".join(getattr(item, "text", "") for item in content)
            return [text_content(fenced(text))]
        return shown

    def _terminal_part(self, key: str, call: _Call, content: Sequence[ToolContent]) -> Json:
        text = "\n".join(getattr(item, "text", "") for item in content)
        new, call.shown = text[call.shown :], max(call.shown, len(text))
        if not new:
            return {}
        return {"_meta": {"terminal_output": {"terminal_id": key, "data": terminal_output(bounded_end(new))}}}

    def _terminal_end(self, key: str, call: _Call, content: Sequence[ToolContent], structured: Json) -> Json:
        meta: Json = self._terminal_part(key, call, content).get("_meta", {})
        exit = structured.get("exit")
        code = exit if isinstance(exit, int) else None
        return {"_meta": {**meta, "terminal_exit": {"terminal_id": key, "exit_code": code, "signal": None}}}

    # -- commands of a person --------------------------------------------------------------------------------------

    def _shell(self, event: Event) -> Iterator[Json]:
        match event.data:
            case ev.ShellStarted(message_id=message, call_id=call, command=command) if self._child is None:
                if self.note_message(message):
                    yield self.called("shell", call, "bash", {"command": command}, status="in_progress")
            case ev.ShellEnded(call_id=call, output=output, exit=exit) if self._child is None:
                yield shell_ended(call, output, exit)


def shell_ended(call_id: str, output: str, exit: int | None) -> Json:
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": call_key("shell", call_id),
        "status": "completed" if exit == 0 else "failed",
        "content": [text_content(fenced(output))],
    }


def call_key(message_id: str, call_id: str) -> str:
    """The id of a call for the editor. Providers use the same call ids again in other messages."""
    return printable(f"{message_id}/{call_id}")


def chunk(kind: str, text: str, message_id: str | None = None) -> Json:
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": printable(text)}}
    return update if message_id is None else {**update, "messageId": message_id}


def bounded_end(text: str, limit: int = 256 * 1024) -> str:
    return text if len(text) <= limit else f"[… {len(text) - limit} characters before]\n{text[-limit:]}"


STATUSES = {"pending": "pending", "in_progress": "in_progress", "completed": "completed"}
PRIORITIES = {"high": "high", "medium": "medium", "low": "low"}


def plan(todos: Sequence[Todo]) -> Json:
    """The model's to-do list. Cancelled entries are left out: the protocol has no state for them."""
    entries = [
        {
            "content": bounded(todo.content, 2000),
            "priority": PRIORITIES.get(todo.priority, "medium"),
            "status": STATUSES.get(todo.status, "pending"),
        }
        for todo in todos[:200]
        if todo.status != "cancelled"
    ]
    return {"sessionUpdate": "plan", "entries": entries}
