"""Checks the options of a prompt against its Session's Location, before the prompt is admitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.runner.turn_options import chosen_model, unknown_tools
from holdfast.core.session.errors import AgentUnavailable
from holdfast.core.session.input_errors import PromptOptionRefused
from holdfast.schema.exceptions import ApiError

if TYPE_CHECKING:
    from holdfast.core.context.epoch import Epochs
    from holdfast.core.location.service_map import ServiceMap
    from holdfast.core.location.services import LocationServices
    from holdfast.schema.prompt import PromptOptions
    from holdfast.schema.session import Session


class PromptCheck:
    def __init__(self, locations: ServiceMap[LocationServices], epochs: Epochs) -> None:
        self._locations = locations
        self._epochs = epochs

    async def check(self, session: Session, options: PromptOptions | None, *, choices: bool) -> None:
        """Refuse a name in `tools` that no tool has: who meant to switch a tool off must not get an answer made with
        it. `choices` also refuses an unknown agent or model; otherwise such a prompt is admitted and blocked."""
        if options is None or options.no_reply:
            return
        choices = choices and (options.agent or options.model or options.variant) is not None
        if not choices and not options.tools:
            return
        async with self._locations.use(session.location) as services:
            await services.catalog.ready()
            if unknown := await self._unknown_tools(services, session, options):
                raise PromptOptionRefused(
                    session.id, f"tools.{unknown[0][:100]}", f"There is no tool {unknown[0][:100]}"
                )
            if choices:
                _check_choices(services, session, options)

    async def _unknown_tools(self, services: LocationServices, session: Session, options: PromptOptions) -> list[str]:
        """What the Session is offered counts, and any name of a server that is not known yet."""
        mcp = services.mcp_tools
        unknown = unknown_tools(options.tools, (*services.tools.names, *mcp.names()))
        unknown = [name for name in unknown if not name.startswith(mcp.prefixes(known=False))]
        if not unknown:
            return []
        offered = {tool.name for tool in await mcp.tools(await self._epochs.offer(session.id))}
        return [name for name in unknown if name not in offered]


def _check_choices(services: LocationServices, session: Session, options: PromptOptions) -> None:
    agent = services.agents.select(options.agent or session.agent).agent
    if options.agent is not None and agent is None:
        refused = AgentUnavailable(session.id, options.agent)
        raise PromptOptionRefused(session.id, "agent", str(refused)) from refused
    if options.model is None and options.variant is None:
        return
    model = chosen_model(options, session.model, agent, services.catalog)
    try:
        services.catalog.resolve(session.id, model, agent)
    except ApiError as error:
        named = "model" if options.model is not None else "variant"
        raise PromptOptionRefused(session.id, named, str(error)) from error
