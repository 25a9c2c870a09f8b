"""Opens what a prompt is sent to: a server or the runtime in this process, and the Session with its agent and model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from holdfast.cli.command_runner import started
from holdfast.cli.first_run import first_choice
from holdfast.cli.session_budget import money_budget
from holdfast.client.discovery import WITHOUT_PORT
from holdfast.schema.frozen import Frozen
from holdfast.schema.location import Location
from holdfast.schema.model import ModelRef

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from holdfast.cli.attendance import Attendance
    from holdfast.cli.run import Ask
    from holdfast.cli.screen import Screen
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.embedded.holdfast import Holdfast
    from holdfast.schema.session import Session


class Opened(Frozen):
    client: AsyncClient
    host: Holdfast | None
    """The same client, if the runtime is in this process."""


async def open_client(ask: Ask, attendance: Attendance, screen: Screen, stack: AsyncExitStack) -> Opened:
    if ask.attach is not None:
        from holdfast.client.connect import connect

        return Opened(await stack.enter_async_context(connect(ask.attach)), None)
    from holdfast.cli.remote import find_server

    if not ask.standalone and (found := await find_server(stack)) is not None:
        where = "in the background" if found.url == WITHOUT_PORT else f"at {found.url}"
        screen.note(f"using the server {where}; --standalone uses none")
        return Opened(found.client, None)
    from holdfast.embedded.holdfast import Holdfast

    if attendance.terminal is not None and not ask.quiet:
        await first_choice(attendance.terminal)
    host = await stack.enter_async_context(
        Holdfast(
            ask.directory,
            preset="allow",
            recover=False,
            unattended=attendance.unattended,
            protect=True,
            sandbox=ask.sandbox,
        )
    )
    started()
    return Opened(host, host)


async def open_session(opened: Opened, ask: Ask, found: Session | None, location: Location, screen: Screen) -> Session:
    """The Session that was found, or a new one at `location`, with the agent and the model that were asked for."""
    client = opened.client
    if found is None:
        model = _model(ask) or await _offline_model(opened, location, screen)
        limits = money_budget(ask.budget)
        return await client.sessions.create(agent=ask.agent, model=model, location=location, budget=limits)
    if (limits := money_budget(ask.budget)) is not None:
        await client.sessions.set_budget(found.id, budget=limits)
    if ask.agent is not None:
        await client.sessions.switch_agent(found.id, agent=ask.agent)
    if (model := _model(ask, found.model)) is not None:
        await client.sessions.switch_model(found.id, model=model)
    return found


def location_of(ask: Ask, found: Session | None) -> Location:
    """Where the prompt is run: the Location of the Session, or the directory that was asked for."""
    return found.location if found is not None else Location(directory=os.path.realpath(ask.directory or os.getcwd()))


async def _offline_model(opened: Opened, location: Location, screen: Screen) -> ModelRef | None:
    """The offline model if no other can be used."""
    if opened.host is not None:
        usable = await opened.host.default_model() is not None
    else:
        usable = bool((await opened.client.models.list(location=location)).data)
    if usable:
        return None
    screen.note("no model is configured and no provider is connected: using the offline model demo/echo")
    screen.note("`holdfast auth login PROVIDER` connects a provider")
    return ModelRef(id="echo", provider_id="demo")


def _model(ask: Ask, current: ModelRef | None = None) -> ModelRef | None:
    """The model that was asked for, if any; a variant alone is one of the current model."""
    if ask.model is not None:
        provider, _, name = ask.model.partition("/")
        return ModelRef(id=name, provider_id=provider, variant=ask.variant)
    if ask.variant is None:
        return None
    if current is None:
        raise click.UsageError("--variant needs --model: this session has no model of its own yet")
    return ModelRef(id=current.id, provider_id=current.provider_id, variant=ask.variant)
