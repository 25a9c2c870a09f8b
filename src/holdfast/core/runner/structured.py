"""Structured answers of a drain: the format of the newest prompt, and whether an answer matches it.

Invariants
- An answer is judged before its step ends, and the step's end holds the value: after a crash there are both or neither.
- An answer that does not match is rejected in the commit that ends its step. The prompt stays owed, and the model is
  told what was wrong.
- Rejections are counted in the log: a restart gives no further attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.tool.tool import CallOutput
from holdfast.llm.answer_format import AnswerFormat, AskedFormat, Problem, Value, thinks
from holdfast.schema.frozen import Frozen
from holdfast.schema.session_message import AssistantMessage, TextContent, TextPart, ToolCompleted, ToolPart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from holdfast.core.runner.publish import TurnPublisher
    from holdfast.core.session.store import SessionStore
    from holdfast.llm.answer_format import Refusable
    from holdfast.llm.event import ToolCall
    from holdfast.llm.model import Model
    from holdfast.llm.request import ToolDefinition
    from holdfast.schema.model import ModelRef
    from holdfast.schema.prompt import OutputFormat
    from holdfast.schema.session_message import SessionMessage

RETRIES = 2
"""How often the model is asked again, unless the prompt says otherwise."""
ACCEPTED = (TextContent(text="The answer was accepted."),)
"""The result of the call that gave the answer."""
ALREADY_GIVEN = "The answer was already given."
MISMATCH = "The answer does not match the schema: {problem}. Call {tool} again with the whole answer."
ASK_AGAIN = (
    "Your answer does not have the requested form: {problem}. Give the whole answer again, as JSON that matches the "
    "schema, without any other text."
)
ASK_FOR_CALL = "The final answer has to be given by calling the tool {tool}. The text of your answer: {problem}."
CUT_OFF = "it was cut off, because it reached the limit on the length of an answer"


class ActiveFormat:
    """The format of the newest prompt; lives as long as its drain."""

    def __init__(self) -> None:
        self._given: OutputFormat | None = None
        self.format: AnswerFormat | None = None
        self.retries = RETRIES
        self.rejected = 0
        """Answers to this prompt that did not match."""
        self._refused: dict[ModelRef, set[Refusable]] = {}
        self._asked: tuple[object, AskedFormat] | None = None

    async def use(self, given: OutputFormat | None, store: SessionStore, session_id: str) -> None:
        """Take over the format of the newest prompt. Another prompt has another object, also if it is equal."""
        if given is self._given:
            return
        self.begin(given)
        if given is not None:
            self.rejected = await store.rejections(session_id)

    def begin(self, given: OutputFormat | None) -> None:
        """Take over the format of a prompt that has no answer yet."""
        self._given, self._asked = given, None
        self.format = None if given is None else AnswerFormat(given.schema)
        self.retries = RETRIES if given is None or given.retry_count is None else given.retry_count
        self.rejected = 0

    def ask(
        self,
        ref: ModelRef,
        model: Model,
        tools: Sequence[ToolDefinition],
        options: Mapping[str, Mapping[str, Any]] | None,
        *,
        last_step: bool,
    ) -> TurnOutput | None:
        """How a request with these tools and provider options asks for the format; None without one. On the last step
        there is no other chance."""
        if self.format is None:
            return None
        thinking, refused = thinks(model, options), self._refused.get(ref, set())
        again = last_step or self.rejected > 0
        key = (model, tuple(tool.name for tool in tools), thinking, again, tuple(sorted(refused)))
        if self._asked is None or self._asked[0] != key:
            asked = self.format.ask(model, tools, thinks=thinking, again=again, refused=refused)
            self._asked = (key, asked)
        return TurnOutput(self, self.format, self._asked[1])

    def resumed(self, message: SessionMessage) -> TurnOutput | None:
        """For a step that an earlier process left open while a call waited for a person: the answer that the step has
        given; None if it has given none."""
        if self.format is None or not isinstance(message, AssistantMessage):
            return None
        for part in message.content:
            if isinstance(part, ToolPart) and isinstance(part.state, ToolCompleted) and part.state.content == ACCEPTED:
                value = self.format.read_input(part.state.input)
                return TurnOutput(self, self.format, AskedFormat(), value) if isinstance(value, Value) else None
        return None

    def refuse(self, ref: ModelRef, way: Refusable) -> None:
        """The provider refuses this way of asking: the drain does not use it again with this model."""
        self._refused.setdefault(ref, set()).add(way)


class Rejected(Frozen):
    reason: str
    note: str | None
    """What the model is told in a message; None if the result of its call tells it."""


class TurnOutput:
    """The format that one turn asks for, and what the model answered."""

    def __init__(
        self, active: ActiveFormat, format: AnswerFormat, asked: AskedFormat, value: Value | None = None
    ) -> None:
        self._active = active
        self._format = format
        self.asked = asked
        self._value = value
        self._problem: str | None = None

    @property
    def may_repeat(self) -> bool:
        return self._active.rejected < self._active.retries

    @property
    def attempts(self) -> int:
        """Including this one."""
        return self._active.rejected + 1

    def count_rejection(self) -> None:
        self._active.rejected += 1

    def is_answer(self, call: ToolCall) -> bool:
        return self.asked.tool is not None and call.name == self.asked.tool.name

    def take(self, call: ToolCall, publisher: TurnPublisher) -> None:
        """Settle a call that gives the answer. The first that matches counts."""
        if self._value is not None:
            publisher.fail_call(call.id, ALREADY_GIVEN)
            return
        match self._format.read_input(call.input):
            case Value() as value:
                self._value = value
                publisher.succeed(call.id, CallOutput({}, ACCEPTED))
            case Problem(text):
                self._problem = text
                publisher.fail_call(call.id, MISMATCH.format(problem=text, tool=call.name))

    def judge(self, publisher: TurnPublisher) -> Value | Rejected | None:
        """What a complete step means for the answer; None if the model has called other tools and goes on."""
        if self._value is not None:
            return self._value
        tool = self.asked.tool
        if tool is not None and tool.name in publisher.tools:
            return Rejected(self._problem or "the input of the call is not JSON", None)
        if publisher.called:
            return None
        judged = self._read(publisher)
        if isinstance(judged, Value):
            return judged
        cut = publisher.finish is not None and publisher.finish.reason == "length"
        problem = CUT_OFF if cut else judged.text
        note = ASK_AGAIN if tool is None else ASK_FOR_CALL
        return Rejected(problem, note.format(problem=problem, tool=tool.name if tool is not None else ""))

    def _read(self, publisher: TurnPublisher) -> Value | Problem:
        """From the last text first: a model may comment before it answers."""
        message = publisher.answer.message
        texts = [part.text for part in (message.content if message else ()) if isinstance(part, TextPart)]
        if len(texts) > 1 and isinstance(value := self._format.read_text(texts[-1]), Value):
            return value
        return self._format.read_text("".join(texts))
