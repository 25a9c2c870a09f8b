"""The options of the prompt that a turn works on: which prompt decides, which model it means, which tools it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.core.permission.wildcard import has_wildcard, matches
from holdfast.schema.prompt import PromptOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holdfast.core.catalog.catalog import Catalog
    from holdfast.schema.agent import Agent
    from holdfast.schema.model import ModelRef
    from holdfast.schema.prompt import Admission, Prompt

NO_OPTIONS = PromptOptions()
OTHER_NAMES = {"task": "subagent"}
"""What OpenCode calls a tool in other generations."""


def asks_nothing(prompt: Prompt) -> bool:
    """Whether the prompt only becomes part of the conversation."""
    return prompt.options is not None and prompt.options.no_reply is True


def deciding(inputs: Sequence[Admission], current: PromptOptions) -> PromptOptions:
    """The options after these inputs are promoted: those of the last prompt that asks for an answer. Synthetic
    inputs leave them as they are."""
    for item in reversed(inputs):
        if item.type is None and not asks_nothing(item.prompt):
            return item.prompt.options or NO_OPTIONS
    return current


def chosen_model(
    options: PromptOptions, selected: ModelRef | None, agent: Agent | None, catalog: Catalog
) -> ModelRef | None:
    """The model of a turn; `selected` is the Session's own. A variant alone is one of the model that is used anyway."""
    if options.variant is None:
        return options.model or selected
    model = options.model or selected or (agent.model if agent is not None else None) or catalog.default()
    return replace(model, variant=options.variant) if model is not None else None


def left_out(tools: Mapping[str, bool] | None, offered: Iterable[str]) -> frozenset[str]:
    """The offered tools that a prompt switches off. A name decides before a pattern, a longer pattern before a shorter
    one, and of two equally long ones the one that switches off."""
    if not tools:
        return frozenset()
    tools = {**{OTHER_NAMES[name]: tools[name] for name in tools if name in OTHER_NAMES}, **tools}
    patterns = sorted((name for name in tools if has_wildcard(name)), key=lambda name: (-len(name), tools[name]))

    def is_left(name: str) -> bool:
        if name in tools:
            return tools[name]
        found = next((pattern for pattern in patterns if matches(pattern, name)), None)
        return found is None or tools[found]

    return frozenset(name for name in offered if not is_left(name))


def unknown_tools(tools: Mapping[str, bool] | None, offered: Iterable[str]) -> list[str]:
    """Names in a prompt's choice of tools that are neither a tool nor a pattern."""
    return sorted(set(tools or ()) - {*offered, *OTHER_NAMES} - {name for name in tools or () if has_wildcard(name)})
