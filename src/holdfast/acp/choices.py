"""What a person can choose for a Session in an editor: the agent as mode, the model and its variant, commands."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.acp.errors import invalid
from holdfast.acp.text import bounded, title
from holdfast.schema.frozen import Frozen
from holdfast.schema.model import DEFAULT_VARIANT, ModelRef

if TYPE_CHECKING:
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.embedded.holdfast import Holdfast
    from holdfast.schema.agent import Agent
    from holdfast.schema.catalog import CommandInfo, ModelInfo, SkillInfo
    from holdfast.schema.location import Location
    from holdfast.schema.session import Session

Json = dict[str, Any]
MOST_MODELS = 500
MOST_COMMANDS = 200
COMPACT = "compact"
DEFAULT_AGENT = "build"
MODE, MODEL, VARIANT = "mode", "model", "variant"
NO_MODEL = "none"


class Choices(Frozen):
    """What there is at a Location."""

    agents: tuple[Agent, ...]
    models: tuple[ModelInfo, ...]
    default: ModelRef | None

    def modes(self, session: Session) -> Json:
        listed = [{"id": agent.id, "name": title(agent.id), **_described(agent.description)} for agent in self.agents]
        return {"currentModeId": self.agent_of(session), "availableModes": listed}

    def agent_of(self, session: Session) -> str:
        if session.agent is not None:
            return session.agent
        ids = [agent.id for agent in self.agents]
        return DEFAULT_AGENT if DEFAULT_AGENT in ids or not ids else ids[0]

    def options(self, session: Session) -> list[Json]:
        """The configuration options, in the order of their weight."""
        current = session.model or self.default
        found = [self._mode(session), self._model(current)]
        variants = self.variants(current)
        if variants:
            chosen = current.variant if current is not None and current.variant in variants else DEFAULT_VARIANT
            found.append(
                _select(
                    VARIANT, "Effort", "thought_level", chosen, [(name, name) for name in (DEFAULT_VARIANT, *variants)]
                )
            )
        return found

    def variants(self, current: ModelRef | None) -> list[str]:
        model = self._info(current)
        return [variant.id for variant in model.variants if variant.id != DEFAULT_VARIANT] if model else []

    def model(self, name: str, session: Session) -> ModelRef:
        """The model that an editor chose. Raises RpcError."""
        for model in self.models:
            if name == _name(model):
                return ModelRef(id=model.id, provider_id=model.provider_id)
        raise invalid(f"There is no model {name[:200]!r} here. `holdfast models` lists them.")

    def variant(self, name: str, session: Session) -> ModelRef:
        current = session.model or self.default
        if current is None:
            raise invalid("There is no model whose variant could be chosen")
        if name != DEFAULT_VARIANT and name not in self.variants(current):
            raise invalid(f"The model {current.provider_id}/{current.id} has no variant {name[:100]!r}")
        variant = None if name == DEFAULT_VARIANT else name
        return ModelRef(id=current.id, provider_id=current.provider_id, variant=variant)

    def agent(self, name: str) -> str:
        if name not in [agent.id for agent in self.agents]:
            known = ", ".join(agent.id for agent in self.agents)
            raise invalid(f"There is no mode {name[:100]!r}; there are {known}")
        return name

    def limit(self, model: ModelRef | None) -> int:
        """How many tokens the model takes; 0 if that is not known."""
        found = self._info(model or self.default)
        return found.limit.context if found is not None else 0

    def _info(self, ref: ModelRef | None) -> ModelInfo | None:
        if ref is None:
            return None
        return next((one for one in self.models if (one.provider_id, one.id) == (ref.provider_id, ref.id)), None)

    def _mode(self, session: Session) -> Json:
        names = [(agent.id, agent.id) for agent in self.agents]
        return _select(MODE, "Agent", "mode", self.agent_of(session), names)

    def _model(self, current: ModelRef | None) -> Json:
        names = [(_name(model), f"{model.name} ({model.provider_id})") for model in self.models]
        chosen = f"{current.provider_id}/{current.id}" if current is not None else NO_MODEL
        if chosen not in [value for value, _ in names]:
            names = [(chosen, "No model is connected" if current is None else chosen), *names]
        return _select(MODEL, "Model", "model", chosen, names)


async def read_choices(host: Holdfast, location: Location) -> Choices:
    agents, models, default = await asyncio.gather(
        host.agents.list(location=location), host.models.list(location=location), host.default_model(location.directory)
    )
    return Choices(
        agents=tuple(agent for agent in agents.data if agent.mode != "subagent" and not agent.hidden),
        models=tuple(model for model in models.data if model.enabled)[:MOST_MODELS],
        default=default,
    )


class Commands(Frozen):
    """What can be called with a slash."""

    commands: tuple[CommandInfo, ...]
    skills: tuple[SkillInfo, ...]

    def listed(self) -> Json:
        found = [_command(one.name, one.description or one.template[:100]) for one in self.commands]
        names = {one.name for one in self.commands}
        found += [_command(one.name, one.description or "A skill") for one in self.skills if one.name not in names]
        if COMPACT not in names:
            found.append(
                {"name": COMPACT, "description": "Summarise older history now, so that the context has room again"}
            )
        return {"sessionUpdate": "available_commands_update", "availableCommands": found[:MOST_COMMANDS]}

    def is_command(self, name: str) -> bool:
        return any(one.name == name for one in self.commands)

    def is_skill(self, name: str) -> bool:
        return any(one.name == name for one in self.skills)


async def read_commands(client: AsyncClient, location: Location) -> Commands:
    commands, skills = await asyncio.gather(
        client.commands.list(location=location), client.skills.list(location=location)
    )
    return Commands(commands=tuple(commands.data), skills=tuple(one for one in skills.data if one.slash is not False))


def _command(name: str, description: str) -> Json:
    return {"name": title(name), "description": bounded(title(description)), "input": {"hint": "arguments"}}


def _select(id: str, name: str, category: str, current: str, values: list[tuple[str, str]]) -> Json:
    options = [{"value": value, "name": title(label)} for value, label in values]
    return {
        "id": id,
        "name": name,
        "category": category,
        "type": "select",
        "currentValue": current,
        "options": options,
    }


def _name(model: ModelInfo) -> str:
    return f"{model.provider_id}/{model.id}"


def _described(text: str | None) -> Json:
    return {"description": bounded(text, 1000)} if text else {}
