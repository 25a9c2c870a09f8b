"""One Session that an editor has open: its prompts, their end, and what the editor chooses for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.acp.asking import Asking
from holdfast.acp.choices import COMPACT, MODE, MODEL, VARIANT, read_choices, read_commands
from holdfast.acp.elicitation import Elicitation
from holdfast.acp.errors import invalid
from holdfast.acp.following import Following
from holdfast.acp.permission import PermissionDialogue
from holdfast.acp.prompts import Prompts
from holdfast.acp.replay import Replay
from holdfast.acp.text import title
from holdfast.acp.translation import THOUGHT, chunk
from holdfast.client.errors import ApiError, ClientError
from holdfast.schema import session_event as ev

if TYPE_CHECKING:
    from holdfast.acp.choices import Choices, Commands
    from holdfast.acp.prompt_input import GivenPrompt
    from holdfast.acp.requests import ClientCapabilities
    from holdfast.embedded.holdfast import Holdfast
    from holdfast.mcp.connection import Connection
    from holdfast.schema.insight import InterruptedActivity
    from holdfast.schema.session import Session
    from holdfast.schema.typed_event import Event

Json = dict[str, Any]


class EditorSession:
    def __init__(self, host: Holdfast, connection: Connection, offers: ClientCapabilities, session: Session) -> None:
        self._host = host
        self._connection = connection
        self.id = session.id
        self.location = session.location
        self._choices: Choices | None = None
        self._commands: Commands | None = None
        self._shown: tuple[str, Any] | None = None
        """The agent and the model that the editor knows."""
        directory = session.location.directory
        permissions = PermissionDialogue(host, session.id, directory, self._ask)
        elicitation = Elicitation(host, session.id, offers, self._ask, self.note)
        self._asking = Asking(host, session.id, permissions, elicitation, lambda: self.prompts.cancelling)
        self._following = Following(
            host, session, self.send, self._asking, self._on_change, terminals=offers.shows_terminals
        )
        self.prompts = Prompts(host, session.id, self._following, lambda: connection.end is None)

    # -- opening ---------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Subscribe to what happens. Nothing is sent before `begin`."""
        await self._following.start()

    async def replay(self) -> None:
        await Replay(self._host, self.id, self._following.translation, self.location.directory).send(self.send)

    async def begin(self, note: str | None = None) -> None:
        """After the editor knows the session: what can be called, what happens, what is asked."""
        try:
            if note is not None:
                await self.note(note)
            self._commands = await read_commands(self._host, self.location)
            await self.send(self._commands.listed())
        finally:
            self._following.begin()
        await self._asking.look()
        await self._usage()

    async def go_on(self) -> None:
        """Decide about what an earlier process left, as the policy says. What is left to a person is told."""
        if not await self._left():
            return
        await self._host.sessions.recover(self.id, decision="policy")
        undecided = [one for one in await self._left() if one.decision]
        if undecided:
            await self.note(f"Work was left unfinished: {undecided[0].what}. {undecided[0].next}.")

    async def _left(self) -> list[InterruptedActivity]:
        interrupted = await self._host.sessions.interrupted()
        return [one for one in interrupted if self.id in (one.session_id, one.root_id) and one.stage != "waiting"]

    async def close(self) -> None:
        await self.prompts.close()
        await self._asking.close()
        await self._following.close()

    # -- prompts ---------------------------------------------------------------------------------------------------

    async def prompt(self, given: GivenPrompt) -> Json:
        call = given.command()
        if call is None:
            return await self.prompts.send(given)
        name, arguments = call
        if self._commands is None or not (self._commands.is_command(name) or self._commands.is_skill(name)):
            self._commands = await read_commands(self._host, self.location)
        if self._commands.is_command(name):
            return await self.prompts.send_command(name, arguments, given)
        if self._commands.is_skill(name):
            return await self.prompts.send_skill(name, arguments, given)
        if name == COMPACT and not given.files:
            return await self.prompts.compact()
        return await self.prompts.send(given)

    # -- choices ---------------------------------------------------------------------------------------------------

    async def state(self) -> Json:
        """Modes and options, as the answers to new, load, resume and fork carry them."""
        session = await self._host.sessions.get(self.id)
        choices = await self._read_choices()
        self._shown = (choices.agent_of(session), session.model)
        return {"modes": choices.modes(session), "configOptions": choices.options(session)}

    async def choose(self, option: str, value: Any) -> list[Json]:
        """Set an option; returns all of them. Raises RpcError."""
        choices = await self._read_choices()
        session = await self._host.sessions.get(self.id)
        if not isinstance(value, str):
            raise invalid(f"The value of {option[:100]!r} is a text")
        if option == MODE:
            await self._host.sessions.switch_agent(self.id, agent=choices.agent(value))
        elif option == MODEL:
            await self._host.sessions.switch_model(self.id, model=choices.model(value, session))
        elif option == VARIANT:
            await self._host.sessions.switch_model(self.id, model=choices.variant(value, session))
        else:
            raise invalid(f"There is no option {option[:100]!r}; there are {MODE}, {MODEL} and {VARIANT}")
        session = await self._host.sessions.get(self.id)
        self._shown = (choices.agent_of(session), session.model)
        return choices.options(session)

    async def _read_choices(self) -> Choices:
        """Anew each time: configuration may have changed."""
        self._choices = await read_choices(self._host, self.location)
        return self._choices

    async def _on_change(self, event: Event) -> None:
        match event.data:
            case ev.SessionUpdated(info=info):
                await self.send({"sessionUpdate": "session_info_update", "title": title(info.title)})
            case ev.AgentSwitched() | ev.ModelSwitched():
                await self._tell_choices()
            case ev.StepEnded():
                await self._usage()

    async def _tell_choices(self) -> None:
        """Somebody has chosen another agent or model; what this editor chose it knows."""
        session = await self._host.sessions.get(self.id)
        choices = self._choices or await self._read_choices()
        now = (choices.agent_of(session), session.model)
        before, self._shown = self._shown, now
        if before == now:
            return
        if before is None or before[0] != now[0]:
            await self.send({"sessionUpdate": "current_mode_update", "currentModeId": now[0]})
        await self.send({"sessionUpdate": "config_option_update", "configOptions": choices.options(session)})

    # -- the editor ------------------------------------------------------------------------------------------------

    async def send(self, update: Json) -> None:
        await self._connection.notify("session/update", {"sessionId": self.id, "update": update})

    async def _ask(self, method: str, params: Json) -> Any:
        """A person may take as long as they want."""
        return await self._connection.call(method, params, seconds=None)

    async def note(self, text: str) -> None:
        await self.send(chunk(THOUGHT, f"{text}\n\n"))

    async def _usage(self) -> None:
        """How full the context is, and what the Session has cost."""
        try:
            window = await self._host.sessions.window(self.id)
            session = await self._host.sessions.get(self.id)
        except (ApiError, ClientError):
            return
        if window is None or not window.limit:
            return  # without the size an editor could not show how full it is
        update: Json = {"sessionUpdate": "usage_update", "used": window.used, "size": window.limit}
        if session.cost:
            update["cost"] = {"amount": session.cost, "currency": "USD"}
        await self.send(update)
