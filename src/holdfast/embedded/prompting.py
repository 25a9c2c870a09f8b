"""`run`, `ask` and `stream`: a prompt and its answer in one call."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import aclosing, suppress
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack
from urllib.parse import quote

from msgspec import UNSET, UnsetType, structs

from holdfast.client.call import Page
from holdfast.client.errors import ClientError, check_outcome
from holdfast.core.session.answer_outcome import outcome_of_answer
from holdfast.embedded.activity import PromptActivity
from holdfast.embedded.answer import read_answer
from holdfast.embedded.piece_maker import PieceMaker
from holdfast.embedded.pieces import Done
from holdfast.embedded.settings import check_names
from holdfast.embedded.structured import Asking, session_id_of
from holdfast.schema.budget import Budget
from holdfast.schema.exceptions import InvalidRequest
from holdfast.schema.insight import Outcome
from holdfast.schema.location import Location
from holdfast.schema.model import ModelRef, model_ref
from holdfast.schema.prompt import FileInput, ModelInput, PromptInput, named_model, prompt_input

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable

    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.embedded.activity import ActivityOf
    from holdfast.embedded.answer import Answer
    from holdfast.embedded.pieces import Piece
    from holdfast.schema.prompt import Admission
    from holdfast.schema.session import Session

    Admit = Callable[[], Coroutine[Any, Any, Admission]]

T = TypeVar("T")

EVERY_TOOL = "*"
URI_SCHEMES = ("data:", "file:", "mcp://")
ADMISSION_SECONDS = 5.0
"""How long a caller that was cancelled waits for an admission; resolving a prompt may wait for a person."""
EMPTY = "the prompt is empty: give it a text, files or skills"
SHOWN = 100
NO_ANSWER = "a prompt with `no_reply` has no answer; admit it with `hf.sessions.prompt`"
NEW_SESSION_ONLY = "`directory` is for a new Session; a Session stays in its own directory"
NOT_ANSWERED = "the prompt was not answered: it was withdrawn, or the work on it was ended before it began"


class PromptSettings(TypedDict, total=False):
    """What a prompt sets for the work on it."""

    model: ModelRef | str
    """`provider/model`, or `provider/model#variant`."""
    agent: str
    system: str
    """Instructions for the work on this prompt."""
    tools: Mapping[str, bool] | Iterable[str]
    """The tools that the model may use, by name; or a mapping that switches single tools, or `*`, on and off. It never
    adds a tool."""
    files: Iterable[FileInput | PathLike[str] | str]
    """Files to attach: paths, relative to the Session's directory, `data:` and `file:` URIs, or resources
    of MCP servers as `mcp://server/address`."""
    interrupt: bool
    """Whether the Session is interrupted if the caller stops waiting or reading. Otherwise it goes on."""


class RunOptions(PromptSettings, total=False):
    """As PromptSettings, and where the prompt is run. Without `session` a new Session is made, which keeps the model
    and the agent; in an existing one they are for the work on this prompt."""

    session: Session | str
    directory: PathLike[str] | str
    """The directory of a new Session; that of the host by default."""
    budget: Budget | float
    """What the Session and everything below it may use; a number is US dollars. At the limit the Session waits, and
    ActivityFailed is raised with an outcome `waiting`."""
    timeout: float
    """Raise TimeoutError after so many seconds."""


class Prompting:
    def __init__(self, client: AsyncClient, activity_of: ActivityOf) -> None:
        self._client = client
        self._activity_of = activity_of

    async def run(self, prompt: PromptInput | str, **options: Unpack[RunOptions]) -> Answer:
        return await self._run(prompt, options, resolve=isinstance(prompt, str))

    async def _run(self, prompt: PromptInput | str, options: RunOptions, *, resolve: bool) -> Answer:
        """`resolve`: attach what the text mentions."""
        check_names(options, RunOptions)
        given = _with_settings(prompt, options)
        interrupt = options.get("interrupt", False)
        limits = _limits(options.get("budget"))
        async with asyncio.timeout(options.get("timeout")):
            if "session" not in options:
                session_id, given = await self._new_session(given, options.get("directory"), limits)
            elif "directory" in options:
                raise InvalidRequest(NEW_SESSION_ONLY, kind="Payload", field="directory")
            else:
                session_id = session_id_of(options["session"])
                if limits is not None:
                    await self._client.sessions.set_budget(session_id, budget=limits)
            found = self._pieces(session_id, given, resolve=resolve, live=False, interrupt=interrupt)
            async with aclosing(found) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Done):
                        return piece.answer
        raise AssertionError("an answer ends with `Done` or an exception")

    async def ask(
        self, prompt: PromptInput | str, into: Any, retry_count: int | None, **options: Unpack[RunOptions]
    ) -> Any:
        asking: Asking[Any] = Asking(prompt, into, retry_count)
        answer = await self._run(asking.prompt, options, resolve=isinstance(prompt, str))
        asking.look(Page(items=list(reversed(answer.messages))), answer.messages[0].id)
        return asking.value(Outcome(type="completed", message_id=answer.message.id))

    def stream(
        self, session: Session | str, prompt: PromptInput | str, **settings: Unpack[PromptSettings]
    ) -> AsyncGenerator[Piece, None]:
        check_names(settings, PromptSettings)
        given = _with_settings(prompt, settings)
        resolve, interrupt = isinstance(prompt, str), settings.get("interrupt", False)
        return self._pieces(session_id_of(session), given, resolve=resolve, live=True, interrupt=interrupt)

    async def answer(self, session_id: str, admit: Admit) -> Answer:
        pieces = self._answer_pieces(session_id, admit, live=False, interrupt=False)
        async with aclosing(pieces):
            async for piece in pieces:
                if isinstance(piece, Done):
                    return piece.answer
        raise AssertionError("an answer ends with `Done` or an exception")

    async def _new_session(
        self, prompt: PromptInput, directory: PathLike[str] | str | None, limits: Budget | None
    ) -> tuple[str, PromptInput]:
        """A Session with the prompt's agent and model, and the prompt without them."""
        named = _or_none(prompt.model)
        session = await self._client.sessions.create(
            agent=_or_none(prompt.agent),
            model=named_model(named) if named is not None else None,
            location=Location(directory=os.path.abspath(directory)) if directory is not None else None,
            budget=limits,
        )
        return session.id, structs.replace(prompt, agent=UNSET, model=UNSET)

    def _pieces(
        self, session_id: str, prompt: PromptInput, *, resolve: bool, live: bool, interrupt: bool
    ) -> AsyncGenerator[Piece, None]:
        async def admit() -> Admission:
            admitting = self._client.sessions.prompt(session_id, prompt=prompt, resolve=resolve)
            return await (_to_completion(admitting) if interrupt else admitting)

        return self._answer_pieces(session_id, admit, live=live, interrupt=interrupt)

    async def _answer_pieces(
        self, session_id: str, admit: Admit, *, live: bool, interrupt: bool
    ) -> AsyncGenerator[Piece, None]:
        maker = PieceMaker()
        admitted: list[Admission] = []

        async def admit_once() -> Admission:
            admitted.append(await admit())
            return admitted[0]

        activity = PromptActivity(self._client, self._activity_of, session_id, maker, live=live)
        try:
            async with aclosing(activity.pieces(admit_once)) as pieces:
                async for piece in pieces:
                    yield piece
        except (asyncio.CancelledError, GeneratorExit):
            if interrupt:
                with suppress(ClientError):  # the host was closed, which stops its work too
                    await self._client.sessions.interrupt(session_id)
            raise
        answer, outcome = None, Outcome(type="interrupted", error=NOT_ANSWERED)
        if maker.answer_id is not None:
            answer = await read_answer(self._client, session_id, admitted[0].id, maker.answer_id)
            outcome = outcome_of_answer(answer.message)
        if outcome.type != "completed" and activity.idle:
            newest = await self._client.sessions.outcome(session_id)  # it may still be owed, or be blocked
            outcome = newest if newest.type not in ("idle", "completed") else outcome
        check_outcome(outcome, session_id)
        assert answer is not None
        yield Done(answer=answer)


def _limits(given: Budget | float | None) -> Budget | None:
    if given is None or isinstance(given, Budget):
        return given
    return Budget(money=given)


async def _to_completion(admitting: Coroutine[Any, Any, Admission]) -> Admission:
    """Whoever is cancelled meanwhile can interrupt the Session afterwards: nothing is admitted any more."""
    task = asyncio.get_running_loop().create_task(admitting)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=ADMISSION_SECONDS)
        task.cancel()
        await asyncio.wait({task})
        raise


def _with_settings(prompt: PromptInput | str, settings: PromptSettings) -> PromptInput:
    if not isinstance(prompt, str | PromptInput):
        raise TypeError(f"a prompt is a text or a PromptInput, not {type(prompt).__name__}: {str(prompt)[:SHOWN]}")
    given = prompt_input(prompt)
    if not (given.text.strip() or given.files or given.skills or settings.get("files")):
        raise InvalidRequest(EMPTY, kind="Payload", field="prompt.text")
    if given.no_reply is True:
        raise InvalidRequest(NO_ANSWER, kind="Payload", field="prompt.noReply")
    if "model" in settings:
        model = model_ref(settings["model"])
        named = ModelInput(id=model.id, provider_id=model.provider_id, variant=model.variant or UNSET)
        given = structs.replace(given, model=named)
    if "agent" in settings:
        given = structs.replace(given, agent=settings["agent"])
    if "system" in settings:
        given = structs.replace(given, system=settings["system"])
    if "tools" in settings:
        given = structs.replace(given, tools=_tools(settings["tools"]))
    if "files" in settings:
        given = structs.replace(given, files=(*(_or_none(given.files) or ()), *map(_file, settings["files"])))
    return given


def _or_none(value: T | UnsetType) -> T | None:
    return None if isinstance(value, UnsetType) else value


def _tools(given: Mapping[str, bool] | Iterable[str]) -> dict[str, bool]:
    if isinstance(given, str):
        raise InvalidRequest("`tools` is a list of names, not one text", kind="Payload", field="prompt.tools")
    if isinstance(given, Mapping):
        return dict(given)
    return {EVERY_TOOL: False, **dict.fromkeys(given, True)}


def _file(given: FileInput | PathLike[str] | str) -> FileInput:
    if isinstance(given, FileInput):
        return given
    path = fspath(given)
    if isinstance(given, str) and given.startswith(URI_SCHEMES):
        return FileInput(uri=given)
    # A colon would be read as the end of a scheme.
    return FileInput(uri=f"file:{quote(path)}" if ":" in path else path)
