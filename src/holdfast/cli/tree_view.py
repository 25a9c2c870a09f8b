"""Draws the tree of a Session in a terminal, once or whenever it changes."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.child_lines import totals_line
from holdfast.cli.output import brief, one_line, print_json
from holdfast.cli.session_choice import newest_session, session_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.insight import WaitInfo
    from holdfast.schema.tree import SessionTree, TreeNode

ACTIVE = ("running", "waiting")
REDRAW_SECONDS = 0.2
"""Events of this time are shown together."""
LOOK_SECONDS = 2.0
"""How long nothing may happen until the tree is read again: the end of a process makes no event."""
URGENT = ("permission", "question", "form", "authorization", "blocked", "recovery", "budget", "subagent")


async def with_client(attach: str | None, work: Callable[[AsyncClient], Coroutine[Any, Any, int]]) -> int:
    """With the server at an address, or the one that runs on the same data, or the runtime in this process."""
    async with AsyncExitStack() as stack:
        if attach is not None:
            from holdfast.client.connect import connect

            return await work(await stack.enter_async_context(connect(attach)))
        from holdfast.cli.remote import find_server

        if (found := await find_server(stack)) is not None:
            return await work(found.client)
        from holdfast.embedded.holdfast import Holdfast

        return await work(await stack.enter_async_context(Holdfast(preset="allow", recover=False)))


async def show(client: AsyncClient, session_id: str | None, *, follow: bool, as_json: bool) -> int:
    session_id = await newest_session(client) if session_id is None else await session_of(client, session_id)
    if as_json:
        print_json(await client.sessions.tree(session_id))
    elif follow:
        await _follow(client, session_id)
    else:
        click.echo("\n".join(drawn(await client.sessions.tree(session_id))))
    return 0


async def _follow(client: AsyncClient, session_id: str) -> None:
    changed = asyncio.Event()
    watching = asyncio.get_running_loop().create_task(_watch(client, session_id, changed))
    shown: list[str] = []
    try:
        while True:
            changed.clear()
            found = await client.sessions.tree(session_id)
            lines = list(drawn(found))
            if lines != shown:
                _redraw(shown, lines)
                shown = lines
            if not any(node.state in ACTIVE for node in found.nodes):
                return
            await _within(LOOK_SECONDS, changed)
            await asyncio.sleep(REDRAW_SECONDS)
    finally:
        watching.cancel()
        await asyncio.wait({watching})


async def _watch(client: AsyncClient, session_id: str, changed: asyncio.Event) -> None:
    from holdfast.client.errors import ApiError, ClientError

    try:
        async with aclosing(aiter(client.sessions.tree_events(session_id, replay=False))) as events:
            async for _ in events:
                changed.set()
    except (ApiError, ClientError):
        pass  # the tree is read again from time to time


async def _within(seconds: float, event: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


def _redraw(before: list[str], lines: list[str]) -> None:
    """In the place of the former tree, if this is a terminal."""
    if before and sys.stdout.isatty():
        import shutil

        width = shutil.get_terminal_size().columns
        height = sum(max(1, -(-len(line) // width)) for line in before)
        click.echo(f"\x1b[{height}A\x1b[J", nl=False)
    elif before:
        click.echo()
    click.echo("\n".join(lines))


def drawn(tree: SessionTree) -> Iterator[str]:
    """The lines of a tree."""
    if tree.ancestors:
        yield f"below {' > '.join(one_line(above.id) for above in tree.ancestors)}"
    last = _last_of_their_parents(tree.nodes)
    open_lines: list[bool] = []
    for node in tree.nodes:
        del open_lines[max(node.depth - 1, 0) :]
        above = "".join("│  " if more else "   " for more in open_lines)
        branch = "" if node.depth == 0 else "└─ " if node.id in last else "├─ "
        yield f"{above}{branch}{_line(node)}"
        if node.depth > 0:
            open_lines.append(node.id not in last)
        if (wait := _most_urgent(node.waits)) is not None:
            below = "".join("│  " if more else "   " for more in open_lines)
            yield f"{below}   waits for {brief(wait.what, 160)}"
    if tree.count > len(tree.nodes):
        yield f"({tree.count - len(tree.nodes)} more sessions are not shown)"
    if tree.nodes and tree.nodes[0].total.sessions > 1:
        yield f"total: {totals_line(tree.nodes[0].total)}"


def _line(node: TreeNode) -> str:
    tokens = node.tokens.input + node.tokens.output + node.tokens.reasoning
    ended = node.task.status if node.state == "idle" and node.task is not None else None
    state = ended if ended not in (None, "running") else node.state
    background = ", background" if node.task is not None and node.task.background else ""
    who = f"{node.agent or '(default)'}{background}"
    return f"{node.id}  {state}  {one_line(who)}  {brief(node.title, 60)}  ${node.cost:.4f}  {tokens:,} tokens"


def _most_urgent(waits: tuple[WaitInfo, ...]) -> WaitInfo | None:
    return next((wait for kind in URGENT for wait in waits if wait.kind == kind), waits[0] if waits else None)


def _last_of_their_parents(nodes: tuple[TreeNode, ...]) -> set[str]:
    return set({node.parent_id: node.id for node in nodes}.values())
