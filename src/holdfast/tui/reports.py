"""Pages of text about a Session: its context, costs, todo list; about servers and storage."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from holdfast.text.visible_text import one_line
from holdfast.tui.status_line import elapsed, money, tokens

if TYPE_CHECKING:
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.budget import UsageTotal
    from holdfast.schema.location import Location
    from holdfast.schema.session import Session

REQUESTS = 15
BAR = 20


def ago(millis: int) -> str:
    seconds = max(0.0, time.time() - millis / 1000)
    if seconds < 60:
        return "just now"
    for size, name in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{name} ago"
    return ""


async def context(client: AsyncClient, session: Session) -> str:
    window = await client.sessions.window(session.id)
    if window is None:
        return "Nothing was sent to a model yet."
    used = sum(part.tokens for part in window.parts)
    of = f" of {tokens(window.limit)} ({used / window.limit:.0%})" if window.limit else ""
    lines = [f"{window.model.provider_id}/{window.model.id}, turn {window.turn}: {tokens(used)} tokens{of}", ""]
    for part in window.parts:
        share = part.tokens / used if used else 0
        lines.append(f"{part.name:<12}  {tokens(part.tokens):>7}  {'#' * round(share * BAR)}")
    lines += ["", f"`holdfast context {session.id}` tells more: what the model is told, and what changed it."]
    return "\n".join(lines)


async def cost(client: AsyncClient, session: Session) -> str:
    usage = await client.sessions.usage(session.id)
    lines = [_total("this session", usage.own)]
    if usage.tree.sessions > 1:
        lines.append(_total(f"with {usage.tree.sessions - 1} subagents", usage.tree))
    for budget in await client.sessions.budgets(session.id):
        if budget.limit.money is not None:
            whose = "budget" if budget.session_id == session.id else f"budget of {budget.session_id}"
            lines.append(f"{whose:<16}  {money(budget.used.money)} of {money(budget.limit.money)}")
    requests = (await client.sessions.ledger(session.id, limit=REQUESTS)).items
    if requests:
        lines += ["", "The newest requests:"]
    for one in requests:
        used = one.tokens
        read = "" if used is None else f"{tokens(used.input + used.cache.read + used.cache.write)} in"
        wrote = "" if used is None else f"{tokens(used.output)} out"
        cached = "" if used is None or not used.cache.read else f"{tokens(used.cache.read)} cached"
        price = "" if one.cost is None else money(one.cost)
        turn = f"turn {one.turn}" if one.purpose == "turn" else one.purpose
        lines.append("  ".join(part for part in (f"{turn:<10}", price, read, cached, wrote, one.error or "") if part))
    return "\n".join(one_line(line) for line in lines)


def _total(name: str, total: UsageTotal) -> str:
    used = total.tokens
    read = used.input + used.cache.read + used.cache.write
    return (
        f"{name:<16}  {money(total.cost)}  {total.turns} turns  {tokens(read)} in  {tokens(used.output)} out  "
        f"{elapsed(total.time)} of work"
    )


async def todos(client: AsyncClient, session: Session) -> str:
    found = await client.sessions.todos(session.id)
    signs = {"completed": "[x]", "in_progress": "[>]", "cancelled": "[-]"}
    lines = [f"{signs.get(todo.status, '[ ]')}  {one_line(todo.content)}" for todo in found]
    return "\n".join(lines) or "The model has made no to-do list."


async def mcp(client: AsyncClient, location: Location) -> str:
    servers = (await client.mcp.list(location=location)).data
    lines = []
    for server in servers:
        count = "" if server.tools is None else f"  {server.tools} tools"
        lines.append(one_line(f"{server.name}  {server.state or ''}{count}  {server.error or ''}"))
        lines += [one_line(f"  {problem}") for problem in server.problems or ()]
    return "\n".join(lines) or "No MCP server is configured; `holdfast mcp add` adds one."


async def doctor(client: AsyncClient) -> str:
    report = await client.system.doctor()
    told = "1 session was" if report.sessions == 1 else f"{report.sessions} sessions were"
    lines = [f"{told} compared with the event log, in {report.milliseconds} ms"]
    for finding in report.findings:
        lines += ["", one_line(f"{finding.level}: {finding.what}"), one_line(f"  {finding.fix}")]
    return "\n".join(lines if report.findings else [*lines, "", "Everything agrees."])
