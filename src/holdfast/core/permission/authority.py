"""What agents may do in the Sessions of one Location.

A child has the rules of its own agent, and those of the agents of all its ancestors as fences. So it may do nothing
that an ancestor may not do, and a person is asked where an ancestor would have to ask.

Invariants
- Everything is read when it is asked for. Nothing is copied into the child.
- An ancestor that does not exist, or whose agent does not exist, denies everything."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.core.permission.rules import DENY_EVERYTHING, UNMATCHED, AncestorAuthority, Authority, configured
from holdfast.schema.exceptions import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from holdfast.core.session.ancestors import Ancestor, Ancestors
    from holdfast.schema.agent import Agent
    from holdfast.schema.location import Location
    from holdfast.schema.session import Session

    AuthorityOf = Callable[[str | None], Authority | None]
    AuthorityAt = Callable[[Location, str | None], Awaitable[Authority | None]]

log = logging.getLogger(__name__)


class Authorities:
    def __init__(self, location: Location, ancestors: Ancestors, here: AuthorityOf, elsewhere: AuthorityAt) -> None:
        """`here` gives the authority of an agent of this Location, `elsewhere` that of an agent of another one; None is
        the default agent."""
        self._location = location
        self.ancestors = ancestors
        self._here = here
        self._elsewhere = elsewhere

    async def of(self, session_id: str, agent: str) -> Authority:
        """What the agent may do in this Session. Raises SessionNotFound."""
        line = await self.ancestors.of(session_id)
        above = await self._above(line) if line else ()
        own = self._own(agent)
        return fenced(own, above) if above else own

    def denying(
        self, agent: str, authority: Authority, action: str, resources: Sequence[str]
    ) -> AncestorAuthority | None:
        """The nearest ancestor that denies one of the resources, if the agent itself denies none of them."""
        if _denies(self._own(agent), action, resources):
            return None
        return next((above for above in authority.above if _denies(above.authority, action, resources)), None)

    async def fenced(self, session: Session, agent: Agent) -> Agent:
        """The agent as it is in this Session: with the fences of the Session's ancestors."""
        if session.parent_id is None:
            return agent
        above = await self._above(await self.ancestors.of(session.id))
        return replace(agent, fences=fenced(Authority(agent.permissions, agent.fences), above).fences)

    def _own(self, agent: str) -> Authority:
        return self._here(agent) or DENY_EVERYTHING

    async def _above(self, line: Sequence[Ancestor]) -> tuple[AncestorAuthority, ...]:
        found: list[AncestorAuthority] = []
        for ancestor in line:
            place = ancestor.location
            if place is None:
                found.append(AncestorAuthority(ancestor.id, None, DENY_EVERYTHING, "session"))
                continue
            agents = (ancestor.agent,) if ancestor.caller is None else (ancestor.agent, ancestor.caller)
            for agent in dict.fromkeys(agents):
                known = self._here(agent) if place == self._location else await self._at(place, agent)
                if known is not None:
                    found.append(AncestorAuthority(ancestor.id, agent, known))
                else:
                    found.append(AncestorAuthority(ancestor.id, agent, DENY_EVERYTHING, "agent"))
        return tuple(found)

    async def _at(self, location: Location, agent: str | None) -> Authority | None:
        try:
            return await self._elsewhere(location, agent)
        except (HoldfastError, OSError):
            log.exception("the agents of %s cannot be read; a child of a Session there may do nothing", location)
            return None


def fenced(own: Authority, above: Sequence[AncestorAuthority]) -> Authority:
    """An authority with those of ancestors as fences. Ancestors that may do the same add none."""
    fences = list(own.fences)
    different: list[Authority] = []
    for ancestor in above:
        authority = ancestor.authority
        if authority != own and authority not in different:
            different.append(authority)
            fences += ((UNMATCHED, *authority.rules), *authority.fences)
    return Authority(own.rules, tuple(fences), tuple(above))


def _denies(authority: Authority, action: str, resources: Sequence[str]) -> bool:
    return configured(authority.rules, action, resources, authority.fences) == "deny"
