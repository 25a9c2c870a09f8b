"""Where a prompt goes: to a server or to this process, and to which Session, agent and model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

import click

from holdfast.cli.first_run import first_choice
from holdfast.cli.terminal import Terminal, present
from holdfast.schema.frozen import Frozen
from holdfast.schema.location import Location
from holdfast.schema.model import ModelRef

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from holdfast.cli.host import Host
    from holdfast.cli.run import Ask
    from holdfast.cli.screen import Screen
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.session import Session


class Opened(Frozen):
    client: AsyncClient
    host: Host | None
    """The same, if it is this process."""


async def open_client(ask: Ask, screen: Screen, stack: AsyncExitStack) -> Opened:
    if ask.attach is not None:
        from holdfast.client.connect import connect

        return Opened(await stack.enter_async_context(connect(ask.attach)), None)
    from holdfast.cli.remote import find_server

    if not ask.standalone and (found := await find_server(stack)) is not None:
        screen.note(f"through {found.url}; --standalone uses no server")
        return Opened(found.client, None)
    from holdfast.cli.host import Host

    unattended: Literal["wait", "allow", "deny"] = "wait" if present() else "allow" if ask.yes else "deny"
    if (person := Terminal() if present() and not ask.quiet else None) is not None:
        await first_choice(person)
    host = await stack.enter_async_context(
        Host(ask.directory, unattended=unattended, protect=True, sandbox=ask.sandbox)
    )
    if line := await host.sandbox_line():
        screen.note(line)
    return Opened(host, host)


async def place(client: AsyncClient, ask: Ask) -> Location:
    """Where the prompt is about: the Session's Location, or the directory that was asked for."""
    if ask.session_id is not None:
        return (await client.sessions.get(ask.session_id)).location
    return Location(directory=_directory(ask))


async def open_session(opened: Opened, ask: Ask, screen: Screen) -> Session:
    client = opened.client
    if ask.session_id is None:
        location = Location(directory=_directory(ask))
        model = _model(ask) or await _fallback(opened, location, screen)
        return await client.sessions.create(agent=ask.agent, model=model, location=location)
    session = await client.sessions.get(ask.session_id)
    if ask.agent is not None:
        await client.sessions.switch_agent(session.id, agent=ask.agent)
    if (model := _model(ask, session.model)) is not None:
        await client.sessions.switch_model(session.id, model=model)
    return session


async def with_command(client: AsyncClient, ask: Ask, name: str) -> Ask:
    """With the agent and the model that the command wants, unless others were asked for."""
    here = await place(client, ask)
    commands = {command.name: command for command in (await client.commands.list(location=here)).data}
    if name not in commands:
        raise click.BadParameter(f"no command is called {name}; see `holdfast commands`", param_hint="--command")
    found = commands[name]
    if found.model is not None and ask.model is None:
        model = f"{found.model.provider_id}/{found.model.id}"
        ask = ask._replace(model=model, variant=ask.variant or found.model.variant)
    return ask._replace(agent=ask.agent or found.agent)


async def _fallback(opened: Opened, location: Location, screen: Screen) -> ModelRef | None:
    """The offline model, where there is no other."""
    if opened.host is not None:
        usable = await opened.host.default_model() is not None
    else:
        usable = bool((await opened.client.models.list(location=location)).data)
    if usable:
        return None
    screen.note("no provider key and no configured model: using the offline demo/echo")
    screen.note("`holdfast auth login PROVIDER` connects a real one")
    return ModelRef(id="echo", provider_id="demo")


def _model(ask: Ask, current: ModelRef | None = None) -> ModelRef | None:
    """What was asked for, if anything; a variant alone is one of the current model."""
    if ask.model is not None:
        provider, _, name = ask.model.partition("/")
        return ModelRef(id=name, provider_id=provider, variant=ask.variant)
    if ask.variant is None:
        return None
    if current is None:
        raise click.UsageError("--variant needs --model here: no model is selected yet")
    return ModelRef(id=current.id, provider_id=current.provider_id, variant=ask.variant)


def _directory(ask: Ask) -> str:
    return os.path.realpath(ask.directory or os.getcwd())
