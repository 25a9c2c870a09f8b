"""What `holdfast run` says before it sends a prompt: sandbox, trust, configuration problems; and about unfinished
sessions, when it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.cli.output import one_line
from holdfast.cli.trust import configuration_notes
from holdfast.client.errors import ApiError, ClientError

STOPPING = ("running", "waiting", "pending")
SHOWN = 5

if TYPE_CHECKING:
    from holdfast.cli.attendance import Attendance
    from holdfast.cli.opening import Opened
    from holdfast.cli.run import Ask
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.configuration import SandboxInfo
    from holdfast.schema.location import Location
    from holdfast.schema.session import Session


async def opening_notes(opened: Opened, ask: Ask, location: Location, attendance: Attendance) -> list[str]:
    """One line each. An untrusted project's settings are offered to the person, unless a server was named: its trust is
    decided where it runs."""
    client = opened.client
    sandbox = sandbox_note(await client.sandbox.get(location=location)) if opened.host is not None else None
    configuration = await configuration_notes(client, location, None if ask.attach else attendance.terminal)
    return [note for note in (sandbox, *configuration) if note is not None]


def sandbox_note(info: SandboxInfo) -> str | None:
    """How commands are confined; None if the sandbox is off."""
    if info.mode == "off":
        return None
    if info.in_force:
        return f"sandbox {info.in_force}" + (f"; {info.problem}" if info.problem else "")
    outcome = "commands are refused" if info.required else "commands run without one"
    return f"sandbox {info.mode} is not in force, {outcome}: {info.problem}"


async def stopping_note(client: AsyncClient, session: Session) -> str | None:
    """Which subagents in the background stop when this process ends. Call it where the runtime is in this process."""
    nodes = (await client.sessions.tree(session.id)).nodes
    left = [node for node in nodes[1:] if node.state in STOPPING]
    if not left:
        return None
    names = ", ".join(f"{node.id} ({one_line(node.title)})" for node in left[:SHOWN])
    more = f" and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
    return (
        f"subagents in the background stop with this command: {names}{more}; "
        f"`holdfast sessions recover {session.id} --continue` or a server goes on with them"
    )


async def unfinished_note(client: AsyncClient, session: Session) -> str | None:
    """How many other Sessions of the directory have work that no process continues."""
    try:
        found = await client.sessions.interrupted(directory=session.location.directory)
    except (ApiError, ClientError):
        return None  # a server of another version
    count = sum(activity.session_id != session.id for activity in found)
    if not count:
        return None
    subject = "1 session of this directory has" if count == 1 else f"{count} sessions of this directory have"
    return f"{subject} unfinished work that no process continues; `holdfast sessions --interrupted` lists them"
