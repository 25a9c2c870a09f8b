"""The parts of a Location that plugins may add to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.core.agent.draft import AgentDraft
    from holdfast.core.catalog.draft import CatalogDraft
    from holdfast.core.command.command import CommandDraft
    from holdfast.core.context.registry import SystemContextRegistry
    from holdfast.core.plugin.host import ConnectableState, Events, ToolRegistrar, TransformableState
    from holdfast.core.plugin.request import RequestHooks
    from holdfast.core.plugin.terminal import TerminalHooks
    from holdfast.core.reference.reference import References
    from holdfast.core.skill.skill import SkillSources


class PluginLocation(Frozen):
    """The parts of a Location that plugins may add to."""

    agents: TransformableState[AgentDraft]
    commands: TransformableState[CommandDraft]
    context: SystemContextRegistry
    tools: ToolRegistrar
    requests: RequestHooks
    events: Events
    catalog: TransformableState[CatalogDraft]
    integrations: ConnectableState
    references: TransformableState[References]
    skills: TransformableState[SkillSources]
    terminals: TerminalHooks
