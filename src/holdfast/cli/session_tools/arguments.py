"""The arguments of each tool. Descriptions are for the model that calls it."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

LONGEST_WAIT = 3600.0
DEFAULT_WAIT = 45.0
"""Below the minute after which many clients give up a call."""
MOST_MESSAGES = 100
DEFAULT_MESSAGES = 20
MOST_CHARACTERS = 200_000
DEFAULT_CHARACTERS = 20_000
MOST_SESSIONS = 100

SessionId: TypeAlias = Annotated[str, Meta(description="The id of a session, `ses_…`.", min_length=1)]
Wait: TypeAlias = Annotated[
    float,
    Meta(
        description="How many seconds to wait at most; 0 returns at once. The session works on when the time is over.",
        ge=0,
        le=LONGEST_WAIT,
    ),
]
Amount: TypeAlias = Annotated[float, Meta(ge=0)]


class Arguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class Limits(Arguments):
    money: Annotated[float, Meta(ge=0, description="US dollars.")] | None = None
    tokens: Annotated[int, Meta(ge=0)] | None = None
    turns: Annotated[int, Meta(ge=0, description="Requests to models.")] | None = None
    time: Annotated[float, Meta(ge=0, description="Seconds of work.")] | None = None


class Create(Arguments):
    directory: Annotated[str, Meta(description="The project directory; the server's own by default.")] | None = None
    agent: Annotated[str, Meta(description="The agent; the configured default otherwise.")] | None = None
    model: Annotated[str, Meta(description="As `provider/model` or `provider/model#variant`.")] | None = None
    title: str | None = None
    budget: (
        Annotated[Limits, Meta(description="What the session and its subagents may use. At a limit it waits.")] | None
    ) = None


class Prompt(Arguments):
    session: SessionId
    text: Annotated[str, Meta(description="What to do.", min_length=1)]
    wait_seconds: Wait = DEFAULT_WAIT
    delivery: Annotated[
        Literal["steer", "queue"],
        Meta(description="While the session works: `steer` joins its work, `queue` waits for its end."),
    ] = "steer"
    id: (
        Annotated[str, Meta(description="An id `msg_…` of your own: a prompt that is sent twice counts once.")] | None
    ) = None


class Await(Arguments):
    session: SessionId
    wait_seconds: Wait = DEFAULT_WAIT


class Read(Arguments):
    session: SessionId
    cursor: (
        Annotated[str, Meta(description="From an earlier read: messages after it. Without one, the newest.")] | None
    ) = None
    limit: Annotated[int, Meta(description="How many messages at most.", ge=1, le=MOST_MESSAGES)] = DEFAULT_MESSAGES
    characters: Annotated[int, Meta(description="How many characters of text at most.", ge=200, le=MOST_CHARACTERS)] = (
        DEFAULT_CHARACTERS
    )


class List(Arguments):
    directory: Annotated[str, Meta(description="Only sessions of this directory; the server's own by default.")] | (
        None
    ) = None
    everywhere: Annotated[bool, Meta(description="Sessions of every directory.")] = False
    search: Annotated[str, Meta(description="Only sessions whose title contains this.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_SESSIONS)] = DEFAULT_MESSAGES
    cursor: Annotated[str, Meta(description="From an earlier list: the sessions after it.")] | None = None


class Answer(Arguments):
    session: SessionId
    request: Annotated[str, Meta(description="The id of the request that a result named.", min_length=1)]
    reply: (
        Annotated[Literal["once", "reject"], Meta(description="To a permission request: allow this once, or reject.")]
        | None
    ) = None
    message: Annotated[str, Meta(description="Why it was rejected; the model reads it and goes on.")] | None = None
    answers: (
        Annotated[
            list[list[str]],
            Meta(description="To a question: for each of its questions the labels that are chosen, or a text."),
        ]
        | None
    ) = None
    form: (
        Annotated[
            dict[str, str | int | float | bool | list[str]],
            Meta(description="To a form: the values by the keys of its fields."),
        ]
        | None
    ) = None
    dismiss: Annotated[
        bool, Meta(description="Nobody answers it: a question then ends the turn, a form is cancelled.")
    ] = False
    wait_seconds: Wait = 0.0


class Interrupt(Arguments):
    session: SessionId
    background: Annotated[bool, Meta(description="Subagents in the background too.")] = False
