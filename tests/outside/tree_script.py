"""Scripts for the Sessions of a tree: who plays what is decided by the first prompt of the conversation."""

from __future__ import annotations

from typing import Any

from tests.outside.scripted_provider import Call, Request, Turn


class Cast:
    """For each first prompt the turns of its Session, in order; then it says `done`."""

    def __init__(self, **parts: list[Turn]) -> None:
        self.parts = parts
        self.requests: dict[str, list[Request]] = {}

    def __call__(self, request: Request) -> Turn:
        name = first_prompt(request)
        self.requests.setdefault(name, []).append(request)
        turns = self.parts.get(name, [])
        taken = sum(1 for message in request.messages if message["role"] == "assistant")
        return turns[taken] if taken < len(turns) else Turn(text=f"{name} done")


def first_prompt(request: Request) -> str:
    content = next(message["content"] for message in request.messages if message["role"] == "user")
    return content if isinstance(content, str) else str(content[0]["text"])


def delegating(*tasks: dict[str, Any] | str) -> Turn:
    """One turn that gives tasks to subagents. A name is the whole prompt of a `general` agent."""
    given = [task if isinstance(task, dict) else {"prompt": task} for task in tasks]
    return Turn(calls=tuple(Call("subagent", {"agent": "general", "description": "a task", **task}) for task in given))
