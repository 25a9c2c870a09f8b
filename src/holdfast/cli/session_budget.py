"""`holdfast sessions budget`, and what the command line says about budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.output import json_option, print_json, print_table
from holdfast.cli.session_choice import run_on_session, session_argument

if TYPE_CHECKING:
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.budget import Budget

PAUSED = 3
"""The exit code of a command whose session waits for a budget."""


class Dollars(click.ParamType[float]):
    """An amount of money, with or without a dollar sign."""

    name = "dollars"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> float:
        from math import isfinite

        from holdfast.schema.budget import MONEY

        try:
            amount = float(str(value).removeprefix("$"))
        except ValueError:
            self.fail(f"{value!r} is not an amount of dollars, as in 2.00", param, context)
        if not isfinite(amount) or not 0 <= amount <= MONEY:
            self.fail(f"{value!r} is not between 0 and {MONEY:,} dollars", param, context)
        return amount


@click.command("budget", short_help="Show or change the budget of a session.")
@session_argument
@click.option("--money", type=Dollars(), metavar="DOLLARS", help="US dollars, by the prices of the models.")
@click.option("--tokens", type=click.IntRange(min=0), help="Tokens of input and output, cached ones included.")
@click.option("--turns", type=click.IntRange(min=0), help="Requests to models.")
@click.option("--time", type=click.FloatRange(min=0), metavar="SECONDS", help="Seconds of work of models and tools.")
@click.option("--none", is_flag=True, help="Remove the budget.")
@json_option
def budget(session_id: str, none: bool, as_json: bool, **limits: Any) -> None:
    """Show what SESSION may use and has used, or set its budget.

    A budget holds for the session and everything below it, all together, since they were created. Options replace the
    whole budget. At the limit the session waits and goes on when the budget is raised: at once if a server runs, and
    otherwise when one starts, or with `holdfast sessions recover SESSION --continue`."""
    given = {name: value for name, value in limits.items() if value is not None}
    if none and given:
        raise click.UsageError("--none cannot be combined with limits")
    run_on_session(session_id, lambda client, id: _budget(client, id, given, none, as_json))


async def _budget(client: AsyncClient, session_id: str, given: dict[str, Any], none: bool, as_json: bool) -> int:
    from holdfast.schema.budget import Budget

    if none:
        await client.sessions.remove_budget(session_id)
    if given:
        await client.sessions.set_budget(session_id, budget=Budget(**given))
    infos = await client.sessions.budgets(session_id)
    if as_json:
        print_json(infos)
        return 0
    usage = (await client.sessions.usage(session_id)).tree
    if not infos:
        click.echo(f"{session_id} has no budget; ${usage.cost:.4f} in {usage.turns} turns were used", err=True)
        return 0
    rows = [
        (name, shown(name, getattr(info.used, name)), shown(name, getattr(info.limit, name)), _whose(info, session_id))
        for info in infos
        for name in ("money", "tokens", "turns", "time")
        if getattr(info.limit, name) is not None
    ]
    print_table(("LIMIT", "USED", "OF", "BUDGET OF"), rows)
    return 0


def _whose(info: Any, session_id: str) -> str:
    return "this session" if info.session_id == session_id else str(info.session_id)


def shown(name: str, value: float) -> str:
    match name:
        case "money":
            return f"${value:.4f}"
        case "time":
            return f"{value:.1f} s"
        case _:
            return f"{value:,}"


def money_budget(amount: float | None) -> Budget | None:
    """The budget that `--budget` gives."""
    from holdfast.schema.budget import Budget

    return Budget(money=amount) if amount is not None else None


async def is_paused(client: AsyncClient, session_id: str) -> str | None:
    """Why the session waits for a budget, if it does."""
    from holdfast.schema.budget import BUDGET_REACHED

    outcome = await client.sessions.outcome(session_id)
    return outcome.error if outcome.code == BUDGET_REACHED else None
