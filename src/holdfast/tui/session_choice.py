"""Which Session a terminal opens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.model import ModelRef
from holdfast.schema.session import ForkThrough

if TYPE_CHECKING:
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.location import Location
    from holdfast.schema.session import Session
    from holdfast.tui.launch import Launch

NO_MODEL = "no provider is connected: using the offline model demo/echo; `holdfast auth login` connects one"
SHOWN = 3


class NoSuchSession(HoldfastError):
    """No Session has this id, beginning of an id, or title, or several have."""


async def first_session(client: AsyncClient, launch: Launch) -> Session | None:
    """The Session that a terminal was started for; None for a new one. Raises NoSuchSession."""
    if launch.session is not None:
        found = await named_session(client, launch.session, launch.directory)
    elif launch.new or (newest := await newest_session(client, launch.directory)) is None:
        return None
    else:
        found = newest
    return await fork_of(client, found) if launch.fork else found


async def fork_of(client: AsyncClient, session: Session) -> Session:
    """A copy of the whole conversation; the same Session if there is nothing in it."""
    if not (await client.sessions.messages(session.id, limit=1)).items:
        return session
    return await client.sessions.fork(session.id, boundary=ForkThrough())


async def offline_model(client: AsyncClient, location: Location) -> ModelRef | None:
    """The offline model if no other can be used."""
    usable = (await client.models.list(location=location)).data
    return None if usable else ModelRef(id="echo", provider_id="demo")


async def newest_session(client: AsyncClient, directory: str) -> Session | None:
    """The Session of a directory that changed last and is no subagent's."""
    found = (await client.sessions.overview(directory=directory, limit=1)).items
    return found[0].session if found else None


async def named_session(client: AsyncClient, name: str, directory: str) -> Session:
    """The Session that a person means by an id, the beginning of one, a title or a part of one; those of the directory
    come first. Raises NoSuchSession."""
    found = await client.sessions.find(name=name, directory=directory, limit=SHOWN + 1) if name else []
    if len(found) == 1:
        return found[0]
    if not found:
        raise NoSuchSession(f"no session is called {name}; `holdfast sessions --all` lists them")
    some = ", ".join(session.id for session in found[:SHOWN])
    raise NoSuchSession(f"several sessions are called {name}: {some}; give a longer part of the id")
