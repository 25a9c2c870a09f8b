"""Answers as values of a Python type: `ask` sends a prompt with a format and waits for the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.client.errors import StructuredOutputFailed, check_outcome
from holdfast.client.generated.async_client import SessionsGroup as AsyncSessions
from holdfast.core.tool.codec import JsonSchema, SchemaMismatch, codec_of
from holdfast.schema.insight import STRUCTURED_OUTPUT, Outcome
from holdfast.schema.prompt import JsonFormat, PromptInput
from holdfast.schema.session_message import AssistantMessage, UserMessage

if TYPE_CHECKING:
    from typing import Literal

    from holdfast.client.call import Page
    from holdfast.schema.session import Session
    from holdfast.schema.session_message import SessionMessage

T = TypeVar("T")

PAGE = 50
REPLACED = "the prompt was followed by another one before it was answered in the requested form"


class Asking(Generic[T]):
    """One question: the prompt with its format, and how the answer is read."""

    def __init__(self, prompt: str | PromptInput, into: Any, retry_count: int | None) -> None:
        """Raises TypeError for a type that has no JSON Schema."""
        self._codec = codec_of(JsonSchema(into) if isinstance(into, dict) else into)
        given = PromptInput(text=prompt) if isinstance(prompt, str) else prompt
        count = UNSET if retry_count is None else retry_count
        self.prompt = replace(given, format=JsonFormat(schema=self._codec.schema, retry_count=count))
        self._answer: AssistantMessage | None = None

    def look(self, page: Page[SessionMessage], message_id: str) -> str | None:
        """Look for the answer in a page of messages, newest first. Returns the cursor of the next page to look at."""
        for message in page.items:
            if message.id == message_id:
                return None
            if isinstance(message, UserMessage) and not (message.options and message.options.no_reply):
                self._answer = None  # what was newer answers that prompt
            elif isinstance(message, AssistantMessage) and message.structured is not UNSET:
                self._answer = self._answer or message
        return page.next

    def value(self, outcome: Outcome) -> T:
        """Raises ActivityFailed, or StructuredOutputFailed."""
        if self._answer is None:
            check_outcome(outcome)
            raise _failed(outcome, REPLACED)
        try:
            found: T = self._codec.decode(self._answer.structured)
        except SchemaMismatch as error:
            raise _failed(outcome, f"the answer matches the schema and not the type: {error}") from error
        return found


class HostSessions(AsyncSessions):
    """The operations on Sessions, and `ask`."""

    @overload
    async def ask(
        self,
        session: Session | str,
        prompt: str | PromptInput,
        *,
        into: type[T],
        id: str | None = None,
        delivery: Literal["steer", "queue"] | None = None,
        retry_count: int | None = None,
    ) -> T: ...

    @overload
    async def ask(
        self,
        session: Session | str,
        prompt: str | PromptInput,
        *,
        into: dict[str, Any],
        id: str | None = None,
        delivery: Literal["steer", "queue"] | None = None,
        retry_count: int | None = None,
    ) -> Any: ...

    async def ask(
        self,
        session: Session | str,
        prompt: str | PromptInput,
        *,
        into: Any,
        id: str | None = None,
        delivery: Literal["steer", "queue"] | None = None,
        retry_count: int | None = None,
    ) -> Any:
        """Prompt, wait, and return the answer as a value of a type: a `msgspec.Struct`, a dataclass, a TypedDict, a
        pydantic model, any other type that msgspec converts to, or a JSON Schema. `retry_count` says how often the
        model is asked again after an answer that does not match, 2 by default. Raises StructuredOutputFailed if there
        is no such answer, and ActivityFailed if the work did not complete."""
        return await ask(self, session, prompt, into=into, id=id, delivery=delivery, retry_count=retry_count)


async def ask(
    sessions: AsyncSessions,
    session: Session | str,
    prompt: str | PromptInput,
    *,
    into: Any,
    id: str | None = None,
    delivery: Literal["steer", "queue"] | None = None,
    retry_count: int | None = None,
) -> Any:
    """As `HostSessions.ask`, with the Sessions of any client."""
    asking: Asking[Any] = Asking(prompt, into, retry_count)
    session_id = session_id_of(session)
    admitted = await sessions.prompt(session_id, prompt=asking.prompt, id=id, delivery=delivery)
    outcome = await sessions.outcome(session_id)
    cursor: str | None = None
    while True:
        # A cursor holds the order and the size of the page.
        page = await sessions.messages(session_id, cursor=cursor, limit=None if cursor else PAGE)
        cursor = asking.look(page, admitted.id)
        if cursor is None:
            return asking.value(outcome)


def session_id_of(session: Session | str) -> str:
    return session if isinstance(session, str) else session.id


def _failed(outcome: Outcome, why: str) -> StructuredOutputFailed:
    return StructuredOutputFailed(replace(outcome, type="failed", error=why, code=STRUCTURED_OUTPUT))
