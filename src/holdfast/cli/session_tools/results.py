"""What the tools return, and how it is bounded."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

State = Literal["idle", "working", "asking", "waiting", "completed", "failed", "interrupted", "blocked", "unfinished"]
ANSWER_CHARACTERS = 50_000
DETAIL_CHARACTERS = 2000


class Result(msgspec.Struct, kw_only=True, omit_defaults=True):
    pass


class CreatedSession(Result):
    session: str
    directory: str
    title: str
    agent: str | None = None
    model: str | None = None


class OpenRequest(Result):
    """Something that a session waits to be told with `session_answer`."""

    id: str
    kind: Literal["permission", "question", "form"]
    session: str
    """The session that asks: the one that was named, or a subagent of it."""
    action: str | None = None
    resources: list[str] | None = None
    details: str | None = None
    questions: list[dict[str, Any]] | None = None
    title: str | None = None
    fields: list[dict[str, Any]] | None = None
    """Of a form."""
    only_a_person: bool = False
    """It cannot be answered with `session_answer`."""


class Status(Result):
    """`idle`: nothing was asked yet. `working`: the time to wait is over. `asking`: `requests` wait for an answer.
    `waiting`: for a budget. `blocked`: the prompt cannot start. `unfinished`: no process works on it. Otherwise how the
    last work ended."""

    session: str
    state: State
    answer: str | None = None
    """The text of the newest answer."""
    error: str | None = None
    requests: list[OpenRequest] = []
    waits: list[str] = []
    """What it waits for."""
    pending: int = 0
    """Prompts that the model has not seen."""
    prompt: str | None = None
    """The id of the prompt that was sent."""


class ShownCall(Result):
    tool: str
    status: str
    input: str
    output: str | None = None
    error: str | None = None


class ShownMessage(Result):
    id: str
    type: str
    text: str
    complete: bool = True
    """False: it is still being written, and comes again with the next read."""
    calls: list[ShownCall] = []
    error: str | None = None


class Messages(Result):
    session: str
    messages: list[ShownMessage]
    cursor: str | None = None
    """For the messages after these."""
    more: bool = False
    """Whether there are messages after these already."""


class ListedSession(Result):
    session: str
    title: str
    directory: str
    working: bool
    updated: int
    """In milliseconds since the epoch."""
    cost: float
    agent: str | None = None
    model: str | None = None
    parent: str | None = None


class Sessions(Result):
    sessions: list[ListedSession]
    cursor: str | None = None


def cut(text: str, limit: int) -> str:
    """The text, or its beginning and how much is missing."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n… {len(text) - limit} more characters"
