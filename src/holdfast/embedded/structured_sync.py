"""`ask` for synchronous clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from holdfast.client.generated.sync_client import SessionsGroup
from holdfast.embedded.structured import PAGE, Asking, session_id_of

if TYPE_CHECKING:
    from typing import Literal

    from holdfast.schema.prompt import PromptInput
    from holdfast.schema.session import Session

T = TypeVar("T")


class HostSessionsSync(SessionsGroup):
    """The operations on Sessions, and `ask`."""

    @overload
    def ask(
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
    def ask(
        self,
        session: Session | str,
        prompt: str | PromptInput,
        *,
        into: dict[str, Any],
        id: str | None = None,
        delivery: Literal["steer", "queue"] | None = None,
        retry_count: int | None = None,
    ) -> Any: ...

    def ask(
        self,
        session: Session | str,
        prompt: str | PromptInput,
        *,
        into: Any,
        id: str | None = None,
        delivery: Literal["steer", "queue"] | None = None,
        retry_count: int | None = None,
    ) -> Any:
        """As `HostSessions.ask`: prompt, wait, and return the answer as a value of a type."""
        return ask_sync(self, session, prompt, into=into, id=id, delivery=delivery, retry_count=retry_count)


def ask_sync(
    sessions: SessionsGroup,
    session: Session | str,
    prompt: str | PromptInput,
    *,
    into: Any,
    id: str | None = None,
    delivery: Literal["steer", "queue"] | None = None,
    retry_count: int | None = None,
) -> Any:
    """As `ask`, for synchronous clients."""
    asking: Asking[Any] = Asking(prompt, into, retry_count)
    session_id = session_id_of(session)
    admitted = sessions.prompt(session_id, prompt=asking.prompt, id=id, delivery=delivery)
    outcome = sessions.outcome(session_id)
    cursor: str | None = None
    while True:
        page = sessions.messages(session_id, cursor=cursor, limit=None if cursor else PAGE)
        cursor = asking.look(page, admitted.id)
        if cursor is None:
            return asking.value(outcome)
