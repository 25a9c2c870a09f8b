"""Agents: the model, system text and permissions of a Session."""

from typing import Annotated, Any, Literal

import msgspec

from holdfast.schema.model import ModelRef
from holdfast.schema.permission import Rule
from holdfast.schema.record import Record

AgentMode = Literal["subagent", "primary", "all"]


class ProviderRequest(Record):
    """Headers and body fields sent with every request of a provider, a model or an agent."""

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
    """More rule lists, which can only restrict `permissions`: the strictest list decides. They hold the user's own
    rules and those of an untrusted project."""


def new_agent(id: str) -> Agent:
    """An agent with default values."""
    return Agent(id=id, request=ProviderRequest(headers={}, body={}), mode="all", hidden=False, permissions=())
