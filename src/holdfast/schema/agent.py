"""An agent: who speaks for a Session, with which model, words and rights."""

from typing import Annotated, Any, Literal

import msgspec

from holdfast.schema.model import ModelRef
from holdfast.schema.permission import Rule
from holdfast.schema.record import Record

AgentMode = Literal["subagent", "primary", "all"]


class ProviderRequest(Record):
    """What travels with every request of a provider, a model or an agent."""

    headers: dict[str, str]
    body: dict[str, Any]


class Agent(Record):
    id: str
    model: ModelRef | None = None
    request: ProviderRequest
    system: str | None = None
    description: str | None = None
    mode: AgentMode
    hidden: bool
    color: str | None = None
    steps: Annotated[int, msgspec.Meta(gt=0)] | None = None
    permissions: tuple[Rule, ...]
    fences: tuple[tuple[Rule, ...], ...] = ()
    """Further lists of rules that only narrow `permissions`: of all lists, the strictest decides. Here stand the user's
    own rules, which nobody lifts, and the rules of a project that is not trusted."""


def new_agent(id: str) -> Agent:
    """An agent as it is before anyone said anything about it."""
    return Agent(id=id, request=ProviderRequest(headers={}, body={}), mode="all", hidden=False, permissions=())
