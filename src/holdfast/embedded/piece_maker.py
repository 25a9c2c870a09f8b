"""Makes pieces from the events of a Session, for the work on one prompt.

Invariants
- Deltas of a block are passed on only while nothing of it can have been missed: its start arrived over the connection
  that is still open, after live events had begun. The end of a block carries the whole text, from which the rest is
  taken. So every character is yielded once, however often the connection is lost.
- Only events after the promotion of the prompt count."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from holdfast.embedded.pieces import (
    FormPiece,
    PermissionPiece,
    QuestionPiece,
    ReasoningPiece,
    RetryPiece,
    TextPiece,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
)
from holdfast.schema import live_event as live
from holdfast.schema import session_event as ev
from holdfast.schema.form import Form
from holdfast.schema.permission import PermissionRequest
from holdfast.schema.question import QuestionRequest
from holdfast.schema.session_message import TextContent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.embedded.pieces import Piece
    from holdfast.schema.prompt import Delivery, PromptOptions
    from holdfast.schema.session_message import ToolContent
    from holdfast.schema.typed_event import Event

Key = tuple[str, str]
"""A message and a part of it."""

Request = TypeVar("Request", PermissionRequest, QuestionRequest)

TOOL_CALLS = "tool-calls"


class _Block:
    """A text that is being written. `whole` is whether no delta of it can have been missed."""

    def __init__(self, *, whole: bool) -> None:
        self.whole = whole
        self._sent: list[str] = []

    def take(self, delta: str) -> str:
        """The part of a delta to pass on."""
        if not self.whole:
            return ""
        self._sent.append(delta)
        return delta

    def rest(self, text: str) -> tuple[str, bool]:
        """What is still to pass on of the whole text, and whether that replaces what was passed on."""
        sent = "".join(self._sent)
        if sent.startswith(text):  # of a block that broke off, less may have been kept than was passed on
            return "", False
        return (text[len(sent) :], False) if text.startswith(sent) else (text, True)


class PieceMaker:
    def __init__(self) -> None:
        self.position: int | None = None
        """The newest durable sequence that was taken, or after which to begin."""
        self.answer_id: str | None = None
        """The newest step that works on the prompt."""
        self.may_be_over = False
        """Whether the newest event may have ended the work on the prompt."""
        self.next_began = False
        """Whether work on another input has begun after the work on this prompt was over."""
        self._prompt_id: str | None = None
        self._promoted = False
        self._step_complete = False
        """Whether the newest step needs no further one by itself."""
        self._blocks: dict[Key, _Block] = {}
        self._tools: dict[Key, str] = {}
        self._asked: set[str] = set()
        """Requests to a person that were passed on."""

    def expect(self, prompt_id: str, admitted_seq: int) -> None:
        """Begin with the events after this admission."""
        self._prompt_id = prompt_id
        self.position = admitted_seq

    def connection_lost(self) -> None:
        for block in self._blocks.values():
            block.whole = False

    def take(self, event: Event, *, live_begun: bool) -> Iterator[Piece]:
        """The pieces of an event. `live_begun` is whether the connection delivers live events by now."""
        self.may_be_over = False
        if event.durable is not None:
            if self.position is not None and event.durable.seq <= self.position:
                return
            self.position = event.durable.seq
        if isinstance(event.data, ev.Prompted):
            self._note_promotion(event.data.message_id, event.data.delivery, event.data.prompt.options)
        elif isinstance(event.data, ev.Synthetic) and event.data.delivery is not None:
            self._note_promotion(event.data.message_id, event.data.delivery, None)
        elif self._promoted and not self.next_began:
            self._note_step(event)
            yield from self._text_pieces(event, live_begun=live_begun)
            yield from self._tool_pieces(event)
            yield from self._other_pieces(event)

    def take_requests(self, requests: Iterable[PermissionRequest | QuestionRequest | Form]) -> Iterator[Piece]:
        """The pieces of requests that are open now, without those that were passed on."""
        for request in requests:
            if not self._promoted or self.next_began or request.id in self._asked:
                continue
            self._asked.add(request.id)
            if isinstance(request, PermissionRequest):
                yield PermissionPiece(request=request)
            elif isinstance(request, Form):
                yield FormPiece(request=request)
            else:
                yield QuestionPiece(request=request)

    def _note_promotion(self, message_id: str, delivery: Delivery, options: PromptOptions | None) -> None:
        if message_id == self._prompt_id:
            self._promoted = True
        elif options is not None and options.no_reply:
            pass  # it causes no work, and joins whenever it can
        elif self._promoted and (self._step_complete or delivery == "queue"):
            self.next_began = True  # queued input is promoted only when nothing else is owed

    def _note_step(self, event: Event) -> None:
        match event.data:
            case ev.StepStarted(assistant_message_id=message):
                self.answer_id, self._step_complete = message, False
            case ev.StepEnded(assistant_message_id=message, finish=finish, rejected=rejected) if (
                message == self.answer_id
            ):
                self.may_be_over = self._step_complete = finish != TOOL_CALLS and rejected is None
            case ev.StepFailed(assistant_message_id=message) if message == self.answer_id:
                self.may_be_over = self._step_complete = True

    def _text_pieces(self, event: Event, *, live_begun: bool) -> Iterator[Piece]:
        match event.data:
            case ev.TextStarted(assistant_message_id=message, text_id=part):
                self._blocks[message, part] = _Block(whole=live_begun)
            case ev.ReasoningStarted(assistant_message_id=message, reasoning_id=part):
                self._blocks[message, part] = _Block(whole=live_begun)
            case live.TextDelta(assistant_message_id=message, text_id=part, delta=delta):
                if text := self._delta(message, part, delta):
                    yield TextPiece(text=text, message_id=message, part_id=part)
            case live.ReasoningDelta(assistant_message_id=message, reasoning_id=part, delta=delta):
                if text := self._delta(message, part, delta):
                    yield ReasoningPiece(reasoning=text, message_id=message, part_id=part)
            case ev.TextEnded(assistant_message_id=message, text_id=part, text=whole):
                text, replaces = self._rest(message, part, whole)
                if text:
                    yield TextPiece(text=text, message_id=message, part_id=part, replaces=replaces)
            case ev.ReasoningEnded(assistant_message_id=message, reasoning_id=part, text=whole):
                text, replaces = self._rest(message, part, whole)
                if text:
                    yield ReasoningPiece(reasoning=text, message_id=message, part_id=part, replaces=replaces)

    def _delta(self, message: str, part: str, delta: str) -> str:
        block = self._blocks.get((message, part))
        return "" if block is None else block.take(delta)

    def _rest(self, message: str, part: str, whole: str) -> tuple[str, bool]:
        block = self._blocks.pop((message, part), None)
        return (whole, False) if block is None else block.rest(whole)

    def _tool_pieces(self, event: Event) -> Iterator[Piece]:
        match event.data:
            case ev.ToolInputStarted(assistant_message_id=message, call_id=call, name=tool):
                self._tools[message, call] = tool  # a call may fail before it is made
            case ev.ToolCalled(assistant_message_id=message, call_id=call, tool=tool, input=given):
                self._tools[message, call] = tool
                yield ToolStarted(message_id=message, call_id=call, tool=tool, input=given)
            case ev.ToolProgress(assistant_message_id=message, call_id=call, content=content):
                tool = self._tools.get((message, call), "")
                yield ToolProgressed(message_id=message, call_id=call, tool=tool, output=_text(content))
            case ev.ToolSuccess(assistant_message_id=message, call_id=call, content=content, structured=structured):
                tool, output = self._tools.pop((message, call), ""), _text(content)
                yield ToolFinished(message_id=message, call_id=call, tool=tool, output=output, structured=structured)
            case ev.ToolFailed(assistant_message_id=message, call_id=call, error=error):
                tool, failure = self._tools.pop((message, call), ""), error.message
                yield ToolFinished(message_id=message, call_id=call, tool=tool, output="", structured={}, error=failure)

    def _other_pieces(self, event: Event) -> Iterator[Piece]:
        match event.data:
            case ev.Retried(attempt=attempt, error=failure):
                yield RetryPiece(attempt=attempt, error=failure.message)
            case live.PermissionAskedLive() as asked:
                yield from self.take_requests([plain_request(asked, PermissionRequest)])
            case live.QuestionAskedLive() as question:
                yield from self.take_requests([plain_request(question, QuestionRequest)])
            case live.FormCreatedLive(form=form) if form.tool is not None:
                yield from self.take_requests([form])


def plain_request(event: Request, kind: type[Request]) -> Request:
    """The request of a live event, as operations return it."""
    return kind(**{name: getattr(event, name) for name in kind.__struct_fields__})


def _text(content: Sequence[ToolContent]) -> str:
    return "\n".join(item.text for item in content if isinstance(item, TextContent))
