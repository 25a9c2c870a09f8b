"""From a prompt that a command gives to a subagent to the call that does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.agent.callable_agents import TOOL
from holdfast.llm.event import ToolCall

if TYPE_CHECKING:
    from holdfast.core.session.stored_tasks import TaskPrompt


def task_call(prompt: TaskPrompt) -> ToolCall:
    task = prompt.task
    given = {"agent": task.agent, "description": task.description, "prompt": prompt.text}
    if task.model is not None:
        given["model"] = f"{task.model.provider_id}/{task.model.id}"
    return ToolCall(id=prompt.call_id, name=TOOL, input=given)
