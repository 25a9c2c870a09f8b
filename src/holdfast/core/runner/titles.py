"""A title for a Session that nobody named, after its first exchange, in bounded background work. It is the beginning of
the first prompt, unless a model was chosen for the `title` agent: nothing is spent that nobody asked for."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from holdfast.core.catalog.prices import cache_savings
from holdfast.core.runner.publish import stored_tokens
from holdfast.core.session.errors import MessageUndecodable
from holdfast.core.session.records import DEFAULT_TITLE
from holdfast.core.session.transcript import serialise
from holdfast.llm.errors import LLMError
from holdfast.llm.request import Generation, make_request
from holdfast.llm.stream import generate
from holdfast.schema.exceptions import ApiError
from holdfast.schema.session_event import UsageRecorded
from holdfast.schema.session_message import AssistantMessage, UserMessage

if TYPE_CHECKING:
    from holdfast.core.catalog.catalog import ResolvedModel
    from holdfast.core.clock import Clock
    from holdfast.core.event.log import EventLog
    from holdfast.core.plugin.request import RequestHooks
    from holdfast.core.session.budgets import Budgets
    from holdfast.core.session.records import SessionRecords
    from holdfast.core.session.store import SessionStore
    from holdfast.llm.route.transport import Transport
    from holdfast.schema.session import Session
    from holdfast.schema.session_message import SessionMessage

AGENT = "title"
AT_ONCE = 2
WAITING = 100
SECONDS = 30.0
TOKENS = 64
EXCERPT = 4_000
CHARACTERS = 80
PROMPT_CHARACTERS = 60
ASKED = (
    "Give the conversation below a title: at most eight words, in its own language, saying what it is about. Answer "
    "with the title only, no quotes and no full stop.\n\n"
)

log = logging.getLogger(__name__)


class Titles:
    """One per process."""

    def __init__(
        self,
        log: EventLog,
        store: SessionStore,
        records: SessionRecords,
        transport: Transport,
        clock: Clock,
        budgets: Budgets,
        *,
        enabled: bool = True,
    ) -> None:
        self._log = log
        self._store = store
        self._records = records
        self._transport = transport
        self._clock = clock
        self._budgets = budgets
        self._enabled = enabled
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def want(self, session: Session, model: ResolvedModel | None, hooks: RequestHooks) -> None:
        """An exchange ended. A Session that has a name, or is being named, is left alone. `model` writes the title;
        None takes it from the first prompt. `hooks` are those of the Session's Location."""
        if (
            not self._enabled
            or not session.title.startswith(DEFAULT_TITLE)
            or session.id in self._tasks
            or len(self._tasks) >= WAITING
        ):
            return
        task = asyncio.get_running_loop().create_task(self._name(session, model, hooks), name=f"title {session.id}")
        self._tasks[session.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(session.id, None))

    async def name_after_prompt(self, session: Session) -> None:
        """Name a Session whose first exchange was interrupted or failed: at once, since its process may be about to
        end, and without a model."""
        if not self._enabled or not session.title.startswith(DEFAULT_TITLE) or session.id in self._tasks:
            return
        try:
            first = [row.decode() for row in await self._store.messages(session.id, order="asc", limit=20)]
            if title := _beginning(first):
                await self._records.name(session.id, title)
        except (ApiError, MessageUndecodable) as error:
            log.debug("no title for %s: %s", session.id, error)

    async def close(self) -> None:
        for task in tuple(self._tasks.values()):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _name(self, session: Session, model: ResolvedModel | None, hooks: RequestHooks) -> None:
        try:
            async with self._slots, asyncio.timeout(SECONDS):
                first = [row.decode() for row in await self._store.messages(session.id, order="asc", limit=20)]
                if model is None or await self._store.refusing_budget(session.id) is not None:
                    title = _beginning(first)
                else:
                    title = await self._ask(session, model, first, hooks)
            if title:
                await self._records.name(session.id, title)
        except (LLMError, ApiError, MessageUndecodable, TimeoutError) as error:
            log.debug("no title for %s: %s", session.id, error)
        except Exception:
            log.exception("naming %s", session.id)

    async def _ask(
        self, session: Session, model: ResolvedModel, first: list[SessionMessage], hooks: RequestHooks
    ) -> str:
        said = [serialise(item) for item in first if isinstance(item, (UserMessage, AssistantMessage))]
        request = make_request(prompt=ASKED + "\n\n".join(said)[:EXCERPT], generation=Generation(max_tokens=TOKENS))
        request = await hooks.change(request, "title", session_id=session.id, agent=AGENT, model=model.ref)
        answer = await generate(self._transport, model.model, request)
        if answer.usage is not None:
            used = stored_tokens(answer.usage)
            spent = UsageRecorded(
                timestamp=self._clock.now(),
                session_id=session.id,
                purpose="title",
                cost=model.price(used),
                tokens=used,
                model=model.ref,
                saved=cache_savings(model.price, used),
            )
            counted = await self._budgets.settlement(session.id)
            await self._log.publish(spent, location=session.location, local=counted)
        return _clean(answer.text)


def _beginning(first: list[SessionMessage]) -> str:
    """The first line that says something, cut between words."""
    text = next((item.text for item in first if isinstance(item, UserMessage)), "")
    line = _clean(text[:EXCERPT])
    if len(line) <= PROMPT_CHARACTERS:
        return line
    return line[:PROMPT_CHARACTERS].rpartition(" ")[0] or line[:PROMPT_CHARACTERS]


def _clean(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line.strip("\"'`“”‘’# ").rstrip(".")[:CHARACTERS]
