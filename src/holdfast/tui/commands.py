"""The commands of the terminal itself, which begin with a slash like those of the project and come before them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, cast

from holdfast.tui import reports
from holdfast.tui.completion import Candidate
from holdfast.tui.export import export
from holdfast.tui.keys import HELP
from holdfast.tui.pager import Pager
from holdfast.tui.pickers import Pick, Picker
from holdfast.tui.session_choice import fork_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.schema.model import ModelRef
    from holdfast.schema.rendered import UserEntry
    from holdfast.schema.session import Session
    from holdfast.tui.operations import Operations
    from holdfast.tui.style import Theme

BUILT_IN = (
    Candidate("help", "keys and commands"),
    Candidate("new", "begin a new session"),
    Candidate("sessions", "open another session"),
    Candidate("model", "choose the model"),
    Candidate("variant", "choose the variant of the model"),
    Candidate("agent", "choose the agent"),
    Candidate("undo", "take the last prompt and its changes of files back"),
    Candidate("redo", "bring back what /undo took"),
    Candidate("fork", "go on in a copy of this session"),
    Candidate("compact", "summarise the conversation to free context"),
    Candidate("context", "what fills the context window"),
    Candidate("cost", "what the session has used"),
    Candidate("todos", "the model's to-do list"),
    Candidate("export", "write the conversation to a Markdown file"),
    Candidate("rename", "give the session a title"),
    Candidate("mcp", "MCP servers and their state"),
    Candidate("doctor", "does everything agree with the event log?"),
    Candidate("trust", "settings of the project that need trust"),
    Candidate("theme", "dark, light or none"),
    Candidate("mouse", "let the terminal select text, or take the mouse back"),
    Candidate("quit", "leave; everything is kept"),
)
LISTED = 50


class Call(NamedTuple):
    name: str
    arguments: str


def read_call(text: str) -> Call | None:
    """The command that the text calls: a slash and a name at its beginning."""
    found = _CALL.match(text)
    return Call(found[1], (found[2] or "").strip()) if found is not None else None


class Commands:
    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._app = operations.app
        self._runs: dict[str, Callable[[str], Awaitable[None]]] = {
            "help": self._help,
            "new": self._new,
            "sessions": self._sessions,
            "model": self._model,
            "variant": self._variant,
            "agent": self._agent,
            "undo": self._undo,
            "redo": self._redo,
            "fork": self._fork,
            "compact": self._compact,
            "context": self._context,
            "cost": self._cost,
            "todos": self._todos,
            "export": self._export,
            "rename": self._rename,
            "mcp": self._mcp,
            "doctor": self._doctor,
            "trust": self._trust,
            "theme": self._theme,
            "mouse": self._mouse,
            "quit": self._quit,
            "exit": self._quit,
        }

    def has(self, name: str) -> bool:
        return name in self._runs

    async def run(self, name: str, arguments: str) -> None:
        await self._runs[name](arguments)

    # -- Sessions -----------------------------------------------------------------------------------------------

    async def _new(self, _: str) -> None:
        self._operations.show_new()

    async def _sessions(self, query: str) -> None:
        picks = await self._found("")
        picker = Picker("Sessions", picks, self._open, ask=lambda text: self._search(picker, text), empty="no session")
        self._app.show(picker)
        for letter in query:
            picker.key(letter)

    def _search(self, picker: Picker, query: str) -> None:
        async def search() -> None:
            picker.offer(query, await self._found(query))
            self._app.changed()

        self._app.start(search())

    async def _found(self, query: str) -> list[Pick]:
        page = await self._operations.client.sessions.overview(limit=LISTED, search=query or None)
        here = self._operations.location.directory
        current = self._operations.session.id if self._operations.session is not None else ""
        return [
            Pick(
                found.session.id,
                found.session.title,
                f"{found.state}  {reports.ago(found.session.time.updated)}"
                + ("" if found.session.location.directory == here else f"  {found.session.location.directory}"),
                found.session.id == current,
            )
            for found in page.items
        ]

    def _open(self, session_id: str) -> None:
        async def open_it() -> None:
            await self._operations.open(await self._operations.client.sessions.get(session_id))

        self._app.start(open_it())

    async def _rename(self, title: str) -> None:
        session = self._current()
        if session is None:
            return
        if not title:
            self._app.notify("the title comes after the command: /rename The new title")
            return
        self._operations.session = await self._operations.client.sessions.rename(session.id, title=title)
        self._app.notify(f"renamed to {title}")

    async def _fork(self, _: str) -> None:
        session = self._current()
        if session is None:
            return
        session = await self._operations.client.sessions.get(session.id)  # its title may just have changed
        forked = await fork_of(self._operations.client, session)
        if forked.id == session.id:
            self._app.notify("there is nothing to fork yet")
            return
        await self._operations.open(forked)
        self._app.notify(f"this is a fork of {session.title}; /sessions goes back")

    async def _compact(self, instructions: str) -> None:
        if (session := self._current()) is not None:
            self._app.notify("compacting")
            await self._operations.client.sessions.compact(session.id, instructions=instructions or None)

    # -- undo ---------------------------------------------------------------------------------------------------

    async def _undo(self, _: str) -> None:
        session = self._current()
        if session is None:
            return
        if self._operations.is_busy:
            self._app.notify("the session works; Esc Esc interrupts it, then /undo")
            return
        session = await self._operations.client.sessions.get(session.id)  # the stream tells of an undo a moment later
        prompt = self._last_prompt(session)
        if prompt is None:
            self._app.notify("there is no prompt to undo")
            return
        revert = await self._operations.client.sessions.stage_revert(
            session.id, message_id=prompt.id, files=True, before=True
        )
        self._operations.screen.composer.prepend(prompt.text)
        count = len(revert.files or ())
        files = f"{count} file{'' if count == 1 else 's'} restored" if count else "no file changed"
        self._app.notify(f"undone, {files}; /redo brings it back, the next prompt makes it final")

    def _last_prompt(self, session: Session) -> UserEntry | None:
        from holdfast.schema.rendered import UserEntry

        feed_control = self._operations.screen.control
        entries = feed_control.conversation.entries if feed_control is not None else ()
        prompts = [entry for entry in entries if isinstance(entry, UserEntry)]
        if session.revert is not None:
            staged = next((one.seq for one in prompts if one.id == session.revert.message_id), None)
            if staged is not None:
                prompts = [one for one in prompts if one.seq < staged]
        return prompts[-1] if prompts else None

    async def _redo(self, _: str) -> None:
        session = self._current()
        if session is None:
            return
        session = await self._operations.client.sessions.get(session.id)
        if session.revert is None:
            self._app.notify("there is nothing to bring back")
            return
        await self._operations.client.sessions.clear_revert(session.id)
        self._app.notify("brought back")

    # -- choices ------------------------------------------------------------------------------------------------

    async def _model(self, name: str) -> None:
        from holdfast.schema.model import model_ref

        if name:
            await self._use_model(model_ref(name))
            return
        models = (await self._operations.client.models.list(location=self._operations.location)).data
        session = self._operations.session
        current = session.model if session is not None else None
        now = f"{current.provider_id}/{current.id}" if current is not None else ""
        names = {f"{model.provider_id}/{model.id}": model.name for model in models}
        names |= {name: "offline" for name in ("demo/echo", "demo/story") if name not in names}
        picks = [Pick(name, name, detail, name == now) for name, detail in names.items()]
        self._app.show(Picker("Model", picks, lambda value: self._start_model(model_ref(value))))

    def _start_model(self, model: ModelRef) -> None:
        self._app.start(self._use_model(model))

    async def _use_model(self, model: ModelRef) -> None:
        session = self._operations.session
        if session is None:
            self._operations.choose_next(model=model)
        else:
            await self._operations.client.sessions.switch_model(session.id, model=model)
        variant = f"#{model.variant}" if model.variant else ""
        self._app.notify(f"model {model.provider_id}/{model.id}{variant}")

    async def _variant(self, name: str) -> None:
        from holdfast.schema.model import ModelRef

        session = self._operations.session
        model = session.model if session is not None else None
        if model is None:
            self._app.notify("this session has no model of its own yet; /model chooses one")
            return

        def choose(value: str) -> None:
            self._start_model(ModelRef(id=model.id, provider_id=model.provider_id, variant=value or None))

        if name:
            choose(name)
            return
        models = (await self._operations.client.models.list(location=self._operations.location)).data
        known = next((one for one in models if (one.provider_id, one.id) == (model.provider_id, model.id)), None)
        variants = [variant.id for variant in (known.variants or ())] if known is not None else []
        if not variants:
            self._app.notify(f"{model.provider_id}/{model.id} has no variants")
            return
        picks = [Pick("", "default", "", model.variant is None)]
        picks += [Pick(variant, variant, "", variant == model.variant) for variant in variants]
        self._app.show(Picker("Variant", picks, choose))

    async def _agent(self, name: str) -> None:
        def choose(value: str) -> None:
            self._app.start(self._use_agent(value))

        if name:
            choose(name)
            return
        agents = (await self._operations.client.agents.list(location=self._operations.location)).data
        session = self._operations.session
        current = session.agent if session is not None else None
        picks = [
            Pick(agent.id, agent.id, agent.description or "", agent.id == current)
            for agent in agents
            if agent.mode != "subagent" and not agent.hidden
        ]
        self._app.show(Picker("Agent", picks, choose))

    async def _use_agent(self, name: str) -> None:
        session = self._operations.session
        if session is None:
            self._operations.choose_next(agent=name)
        else:
            await self._operations.client.sessions.switch_agent(session.id, agent=name)
        self._app.notify(f"agent {name}")

    async def _theme(self, name: str) -> None:
        themes = ("dark", "light", "none")

        def choose(value: str) -> None:
            self._app.set_theme(cast("Theme", value))

        if name in themes:
            choose(name)
        else:
            self._app.show(Picker("Theme", [Pick(one, one, "", one == self._app.theme) for one in themes], choose))

    # -- pages --------------------------------------------------------------------------------------------------

    async def _help(self, _: str) -> None:
        width = max(len(one.text) for one in BUILT_IN) + 1
        listed = "\n".join(f"/{one.text:<{width}}  {one.detail}" for one in BUILT_IN)
        further = await self._operations.suggestions.commands()
        own = "\n".join(f"/{one.text:<{width}}  {one.detail}" for one in further)
        page = f"{HELP}\n\nCommands\n{listed}" + (f"\n\nOf this project\n{own}" if own else "")
        self._app.show(Pager("Help", page))

    async def _context(self, _: str) -> None:
        if (session := self._current()) is not None:
            self._app.show(Pager("Context", await reports.context(self._operations.client, session)))

    async def _cost(self, _: str) -> None:
        if (session := self._current()) is not None:
            self._app.show(Pager("Cost", await reports.cost(self._operations.client, session)))

    async def _todos(self, _: str) -> None:
        if (session := self._current()) is not None:
            self._app.show(Pager("Todo list", await reports.todos(self._operations.client, session)))

    async def _mcp(self, _: str) -> None:
        page = await reports.mcp(self._operations.client, self._operations.location)
        self._app.show(Pager("MCP servers", page))

    async def _doctor(self, _: str) -> None:
        self._app.notify("examining")
        self._app.show(Pager("Doctor", await reports.doctor(self._operations.client)))

    async def _export(self, path: str) -> None:
        if (session := self._current()) is not None:
            self._app.notify("exporting")
            written = await export(self._operations.client, session, path)
            self._app.notify(f"written to {written}")

    async def _trust(self, _: str) -> None:
        await self._operations.trust.look(asked=True)

    async def _mouse(self, _: str) -> None:
        on = self._app.toggle_mouse()
        self._app.notify("the wheel scrolls, a click unfolds" if on else "the mouse selects text; /mouse changes back")

    async def _quit(self, _: str) -> None:
        self._app.leave()

    def _current(self) -> Session | None:
        if self._operations.session is None:
            self._app.notify("there is no session yet: it is created with your first prompt")
        return self._operations.session


_CALL = re.compile(r"/([^\s/]+(?:/[^\s/]+)*)(?:\s+([\s\S]*))?\Z")
