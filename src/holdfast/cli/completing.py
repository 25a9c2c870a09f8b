"""What a shell completes: sessions of this directory, models and agents. Nothing is created, and nothing is completed
where that would take long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.cli.output import brief

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from click.shell_completion import CompletionItem

    from holdfast.client.generated.async_client import AsyncClient

    Read = Callable[[AsyncClient], Awaitable[list[tuple[str, str]]]]

SECONDS = 0.3
"""How long the runtime may take to open and answer; without an answer nothing is completed."""
OFFERED = 50
HELP_CHARACTERS = 60


def sessions(begun: str) -> list[CompletionItem]:
    """Ids of the newest sessions of this directory, each with its title. A part of a title completes to the id."""

    async def read(client: AsyncClient) -> list[tuple[str, str]]:
        import os

        found = await client.sessions.list(directory=os.path.realpath(os.getcwd()), parent_id="null", limit=OFFERED)
        return [
            (session.id, session.title)
            for session in found.items
            if session.id.startswith(begun) or begun.lower() in session.title.lower()
        ]

    return _completed(read)


def models(begun: str) -> list[CompletionItem]:
    async def read(client: AsyncClient) -> list[tuple[str, str]]:
        found = (await client.models.list()).data
        named = [(f"{model.provider_id}/{model.id}", model.name) for model in found]
        return [(name, title) for name, title in (*named, ("demo/echo", "offline")) if name.startswith(begun)]

    return _completed(read)


def agents(begun: str) -> list[CompletionItem]:
    async def read(client: AsyncClient) -> list[tuple[str, str]]:
        found = (await client.agents.list()).data
        return [
            (agent.id, agent.description or "") for agent in found if not agent.hidden and agent.id.startswith(begun)
        ]

    return _completed(read)


def _completed(read: Read) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(value, help=brief(title, HELP_CHARACTERS) or None) for value, title in _read(read)]


def _read(read: Read) -> list[tuple[str, str]]:
    import asyncio
    import logging

    logging.disable()  # a line on the terminal would break what is typed

    async def work() -> list[tuple[str, str]]:
        from holdfast.embedded.holdfast import Holdfast

        async with asyncio.timeout(SECONDS), Holdfast(preset="allow", recover=False) as host:
            return (await read(host))[:OFFERED]

    try:
        return asyncio.run(work())
    except Exception:  # noqa: BLE001 - a shell that completes shows no errors
        return []
