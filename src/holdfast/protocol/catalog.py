"""What a Location offers: agents, models, providers, commands, skills, references."""

from __future__ import annotations

from typing import Any

from holdfast.protocol.endpoint import Endpoint, endpoint
from holdfast.protocol.scope import at_location
from holdfast.schema.agent import Agent
from holdfast.schema.catalog import CommandInfo, ModelInfo, ProviderInfo, ReferenceInfo, SkillInfo
from holdfast.schema.errors import ProviderNotFoundError, ServiceUnavailableError
from holdfast.schema.record import Record


class ProviderPath(Record):
    provider_id: str


def _list(group: str, noun: str, success: Any, summary: str, *, may_be_unavailable: bool = False) -> Endpoint:
    return endpoint(
        f"{group}.list",
        f"GET /api/{noun}",
        f"v2.{noun}.list",
        summary,
        role="read",
        location=list[success],
        errors=(ServiceUnavailableError,) if may_be_unavailable else (),
        handler=f"catalog.{group}",
    )


ENDPOINTS: tuple[Endpoint, ...] = at_location(
    _list("agents", "agent", Agent, "The agents of a Location."),
    _list("models", "model", ModelInfo, "The models that can be used now, newest first.", may_be_unavailable=True),
    _list("providers", "provider", ProviderInfo, "The providers that can be used now.", may_be_unavailable=True),
    _list("commands", "command", CommandInfo, "The commands of a Location."),
    _list("skills", "skill", SkillInfo, "The skills of a Location."),
    _list("references", "reference", ReferenceInfo, "Additional directories that agents may read."),
    endpoint(
        "providers.get",
        "GET /api/provider/{providerID}",
        "v2.provider.get",
        "One provider, even if it cannot be used now.",
        role="read",
        params=ProviderPath,
        location=ProviderInfo,
        errors=(ProviderNotFoundError, ServiceUnavailableError),
        handler="catalog.provider",
    ),
)
