"""The runtime in your own process.

async with Holdfast("/path/to/project") as hf:

    @hf.tool
    async def lookup(ticket: str) -> str:
        \"\"\"What a ticket says.\"\"\"

    answer = await hf.run("What is ticket 7 about?", model="local/qwen")
    print(answer.text)
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from holdfast.client.errors import ClientError
from holdfast.client.generated.async_client import AsyncClient
from holdfast.core.context.system_context import make
from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.core.scope import Scope
from holdfast.embedded.asgi_transport import CLOSED, AsgiTransport
from holdfast.embedded.attendant import Attendant
from holdfast.embedded.choices import ASK_CHANGES
from holdfast.embedded.peer_sources import peer_source
from holdfast.embedded.peers import Peers
from holdfast.embedded.settings import HoldfastSettings, check_names
from holdfast.embedded.structured import HostSessions
from holdfast.embedded.tools import HostContext, HostTools
from holdfast.schema.deferred import deferred
from holdfast.schema.location import Location
from holdfast.server.app import App
from holdfast.server.auth import Hosts
from holdfast.server.pty_environment import pty_environment as host_variables

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, Sequence
    from os import PathLike
    from types import TracebackType
    from typing import Unpack

    from holdfast.core.context.source import Source
    from holdfast.core.event.log import Mismatch
    from holdfast.core.session.activity import Activity
    from holdfast.core.tool.tool import Tool
    from holdfast.embedded import prompting
    from holdfast.embedded.answer import Answer
    from holdfast.embedded.attendant import FormCallback, PermissionCallback, QuestionCallback
    from holdfast.embedded.pieces import Piece
    from holdfast.embedded.prompting import Prompting, PromptSettings, RunOptions
    from holdfast.embedded.traces import TraceReport
    from holdfast.schema.bundle import BundleReport, ImportReport
    from holdfast.schema.model import ModelRef
    from holdfast.schema.prompt import Admission, PromptInput
    from holdfast.schema.retention import RetentionReport
    from holdfast.schema.session import Session
    from holdfast.schema.transcript_import import TranscriptReport
    from holdfast.server.auth import Credentials
    from holdfast.server.types import Receive, Send
    from holdfast.server.types import Scope as AsgiScope
else:
    prompting = deferred("holdfast.embedded.prompting")

T = TypeVar("T")

OPEN = "the host is already open"


class Holdfast(AsyncClient):
    """The generated client with a runtime of its own. Closing stops running work at the nearest safe point, records it
    and ends streams; the next host continues the work."""

    def __init__(self, directory: str | PathLike[str] | None = None, **settings: Unpack[HoldfastSettings]) -> None:
        """`directory` is the project; the current directory by default."""
        check_names(settings, HoldfastSettings)
        data = settings.get("data")
        self._recover = settings.get("recover", True)
        self._recovering: asyncio.Task[None] | None = None
        self._serves = False
        """Whether others than this program may send requests, who can answer."""
        self._pty_environment = host_variables(settings.get("pty_environment"))
        self._runtime = Runtime(
            paths=Paths(Path(data)) if data is not None else None,
            directory=Path(directory) if directory is not None else None,
            environment=settings.get("environment"),
            transport=settings.get("transport"),
            database=settings.get("database"),
            options=HostOptions(
                preset=ASK_CHANGES if settings.get("preset", "ask") == "ask" else None,
                unattended=settings.get("unattended", "wait"),
                attended=None if {"preset", "unattended"} & settings.keys() else self._attended,
                trust=settings.get("trust", False),
                config=settings.get("config"),
                protect=settings.get("protect", False),
                sandbox=settings.get("sandbox"),
                goes_on=settings.get("recover", True),
                editor=settings.get("editor"),
            ),
        )
        self._scope = Scope()
        self._app: App | None = None
        self.tools = self.tool = HostTools(self._add_tools)
        self.context = HostContext(self._add_context)
        super().__init__(AsgiTransport(self._answer))
        self.sessions: HostSessions = HostSessions(self.sessions._core)
        self._attendant = Attendant(self, self._runtime, settings.get("unattended", "wait"))

    async def __aenter__(self) -> Self:
        if self._app is not None:
            raise RuntimeError(OPEN)
        await self._runtime.__aenter__()
        runtime = self._runtime
        runtime.log.relay.links = Peers(runtime.log.relay, peer_source(runtime, runtime.environment))
        self._app = App(runtime, hosts=Hosts(), pty_environment=self._pty_environment)
        if self._scope.closed:
            self._scope = Scope()
        self._attendant.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        app, self._app = self._app, None
        if app is None:
            return
        if self._recovering is not None:
            await asyncio.wait({self._recovering})
            self._recovering = None
        await self._attendant.close()
        await app.close()
        await self._transport.close()
        await self._runtime.__aexit__(None, None, None)
        self._scope.close()

    async def run(self, prompt: PromptInput | str, **options: Unpack[RunOptions]) -> Answer:
        """Admit a prompt and wait for the complete answer. Raises ActivityFailed if there is none: the model or a
        provider failed, the work was interrupted or cannot start. A caller that stops waiting leaves the Session at
        work, unless `interrupt` is true."""
        return await self._prompting().run(prompt, **options)

    @overload
    async def ask(
        self,
        prompt: PromptInput | str,
        *,
        into: type[T],
        retry_count: int | None = None,
        **options: Unpack[RunOptions],
    ) -> T: ...

    @overload
    async def ask(
        self,
        prompt: PromptInput | str,
        *,
        into: dict[str, Any],
        retry_count: int | None = None,
        **options: Unpack[RunOptions],
    ) -> Any: ...

    async def ask(
        self, prompt: PromptInput | str, *, into: Any, retry_count: int | None = None, **options: Unpack[RunOptions]
    ) -> Any:
        """As `run`, and return the answer as a value of a type: a `msgspec.Struct`, a dataclass, a TypedDict, a
        pydantic model, any other type that msgspec converts to, or a JSON Schema. `retry_count` says how often the
        model is asked again after an answer that does not match, 2 by default. Raises StructuredOutputFailed, which is
        an ActivityFailed, if there is no such answer."""
        return await self._prompting().ask(prompt, into, retry_count, **options)

    def stream(
        self, session: Session | str, prompt: PromptInput | str, **settings: Unpack[PromptSettings]
    ) -> AsyncGenerator[Piece, None]:
        """Admit a prompt when the first piece is asked for, and yield the answer while it is written: text, reasoning,
        tool calls, requests to a person. The last piece is `Done` with the answer; ActivityFailed is raised in its
        place. Only work on this prompt is yielded, and nothing of it is lost or repeated. A caller that stops reading
        leaves the Session at work, unless `interrupt` is true."""
        return self._prompting().stream(session, prompt, **settings)

    async def answer(self, session: Session | str, admit: Callable[[], Coroutine[Any, Any, Admission]]) -> Answer:
        """Admit an input with a function of yours, which awaits `hf.sessions.prompt` or `command`, and wait for the
        complete answer as `run` does. Raises ActivityFailed."""
        return await self._prompting().answer(session if isinstance(session, str) else session.id, admit)

    def on_permission(
        self, callback: PermissionCallback, *, session: Session | str | None = None
    ) -> Callable[[], None]:
        """Answer the permission requests of this host's Sessions, or of one Session and its descendants, with a
        function, which may be asynchronous. It gets a PermissionRequest and returns `once`, `always`, `reject`, a
        PermissionReply, or None to leave the request open for others. If it raises, the error is logged and the request
        stays open. Returns a function that removes it; closing the host does too."""
        return self._attendant.on_permission(callback, session)

    def on_question(self, callback: QuestionCallback, *, session: Session | str | None = None) -> Callable[[], None]:
        """Answer the questions of the model likewise. The function gets a QuestionRequest and returns one answer for
        each question, a single text if there is one question, DISMISS to end the turn, or None to leave it open."""
        return self._attendant.on_question(callback, session)

    def on_form(self, callback: FormCallback, *, session: Session | str | None = None) -> Callable[[], None]:
        """Answer forms, such as questions of MCP servers, likewise. The function gets a Form and returns the values by
        the keys of its fields, DISMISS to cancel it, or None to leave it open."""
        return self._attendant.on_form(callback, session)

    def _attended(self, session_id: str, ancestors: Sequence[str]) -> bool:
        return self._serves or self._attendant.attends(session_id, ancestors)

    def application(
        self,
        *,
        credentials: Credentials | None = None,
        hosts: Hosts | None = Hosts(),  # noqa: B008 - immutable
        origins: frozenset[str] = frozenset(),
        page: bool = True,
    ) -> App:
        """A further ASGI application on the open runtime. Whoever makes it closes it."""
        self._serves = True
        return App(
            self._runtime,
            credentials=credentials,
            hosts=hosts,
            origins=origins,
            pty_environment=self._pty_environment,
            page=page,
        )

    async def _answer(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if self._app is None:
            raise ClientError("Transport", CLOSED)
        self.start_recovery()
        await self._app(scope, receive, send)

    def start_recovery(self, *, everywhere: bool = False) -> None:
        """Decide about unfinished work of processes that ended, from now on, unless `recover` is false or it was
        started: in the host's directory, below it and in the directories that it uses, or with `everywhere` in all."""
        if not self._recover or self._recovering is not None:
            return
        runtime = self._runtime
        if not everywhere:
            runtime.placement.own = self._is_own
        work = runtime.takeover.follow(runtime.locations.opened)
        self._recovering = asyncio.get_running_loop().create_task(work, name="holdfast-recovery")

    def _is_own(self, location: Location) -> bool:
        directory = Path(location.directory)
        return directory.is_relative_to(self._runtime.directory) or location in self._runtime.locations.opened()

    @staticmethod
    def config_schema() -> dict[str, Any]:
        """The JSON Schema of a configuration file."""
        from holdfast.core.config.schema import json_schema

        return json_schema()

    async def default_model(self, directory: str | PathLike[str] | None = None) -> ModelRef | None:
        """The model of a Session for which none was chosen, in the host's directory or another one."""
        location = Location(directory=str(Path(directory).resolve())) if directory is not None else None
        return await self._runtime.default_model(location)

    async def refresh_models(self) -> bool:
        """Fetch the newest list of models. Returns whether there was one; the stored list stays in use otherwise."""
        return await self._runtime.models.refresh()

    async def reload(self) -> tuple[str, ...]:
        """Read the configuration of every open project again: files, agents, commands, plugins. Returns one line per
        project where that failed; there the former configuration stays in effect. Edited files are also read again
        before each turn, without this call."""
        failed = await self._runtime.reload()
        return tuple(f"{location.directory}: {error}" for location, error in failed.items())

    async def describe_store(self) -> str:
        """Where Sessions are stored, in one line without secrets."""
        return await self._runtime.describe_store()

    async def verify(self) -> list[Mismatch]:
        """Projection rows that differ from the event log; empty if there are none."""
        return await self._runtime.verify()

    async def rebuild(self) -> int:
        """Rebuild the projections of every Session from the event log. Returns the number of Sessions."""
        return await self._runtime.rebuild()

    async def export_bundle(
        self,
        path: str | Path,
        *session_ids: str,
        redact: bool = False,
        told: Callable[[str, int, int], None] | None = None,
    ) -> BundleReport:
        """Write these Sessions, or all, to a bundle: each with its whole tree, and with those it was forked from.
        `redact` replaces what looks like a secret, and the home directory. `told` gets what is done, how many Sessions
        are done, and how many there are."""
        return await self._runtime.bundles.export(session_ids or None, Path(path), told or _untold, redact=redact)

    async def import_bundle(
        self,
        path: str | Path,
        *,
        directory: str | Path | None = None,
        accept_changes: bool = False,
        told: Callable[[str, int, int], None] | None = None,
    ) -> ImportReport:
        """Import all Sessions of a bundle, or none. `directory` takes the place of the one they were in. Nothing is
        executed: unfinished work waits for a decision. `accept_changes` lets the bundle also rename, move and otherwise
        change Sessions that are here, not only continue them."""
        place = None if directory is None else str(Path(directory).absolute())
        return await self._runtime.bundles.import_from(
            Path(path), directory=place, accept_changes=accept_changes, told=told or _untold
        )

    async def import_transcripts(
        self,
        path: str | Path,
        *,
        directory: str | Path | None = None,
        told: Callable[[str, int, int], None] | None = None,
    ) -> TranscriptReport:
        """Import conversations of OpenCode: an exported file, or the folder in which 1.x stores them. Each tree of
        Sessions is imported as a whole or refused. Nothing is executed."""
        place = None if directory is None else str(Path(directory).absolute())
        return await self._runtime.transcripts.import_from(Path(path), directory=place, told=told or _untold)

    async def verify_bundle(
        self, path: str | Path, *, told: Callable[[str, int, int], None] | None = None
    ) -> BundleReport:
        """Check every hash and every event of a bundle. Nothing is imported."""
        return await self._runtime.bundles.verify(Path(path), told or _untold)

    async def traces(self, *session_ids: str) -> AsyncIterator[dict[str, Any]]:
        """The traces of the whole trees of these Sessions, one activity at a time, as JSON of OTLP. Activities that go
        on are left out."""
        from holdfast.embedded.traces import read_traces

        async for found in read_traces(self._runtime, session_ids):
            yield found

    async def export_traces(self, *session_ids: str, endpoint: str | None = None) -> TraceReport:
        """Send these traces to a collector: that of the configuration, unless `endpoint` is another one."""
        from holdfast.embedded.traces import send_traces

        return await send_traces(self._runtime, session_ids, endpoint)

    async def apply_retention(
        self,
        *,
        dry_run: bool = False,
        export: str | Path | None = None,
        told: Callable[[str, int, int], None] | None = None,
    ) -> RetentionReport:
        """Remove the Sessions that the retention policy of the user's configuration names, or with `dry_run` only say
        which. `export` is a directory to which each tree is written as a bundle first. `told` gets what is done, how
        much is done, and how much there is."""
        folder = Path(export) if export is not None else None
        return await self._runtime.retention.run(dry_run=dry_run, export=folder, told=told or _untold)

    async def compact_database(self) -> int:
        """Write the database file anew, without free pages. All commits wait meanwhile. Returns by how many bytes it is
        smaller."""
        return await self._runtime.retention.compact()

    def _prompting(self) -> Prompting:
        return prompting.Prompting(self, self._activity)

    async def _activity(self, session_id: str) -> Activity | None:
        return await self._runtime.store.activity(session_id)

    def _add_tools(self, tools: Mapping[str, Tool[Any, Any]]) -> Callable[[], None]:
        return self._runtime.application_tools.register(tools, self._scope)

    def _add_context(self, source: Source[Any]) -> Callable[[], None]:
        context = make(source)
        return self._runtime.application_context.register(source.key, lambda: context, self._scope)


def _untold(what: str, done: int, total: int) -> None:
    """Progress that nobody asked for."""
