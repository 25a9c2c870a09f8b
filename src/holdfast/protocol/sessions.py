"""The Session operations."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from holdfast.protocol.endpoint import Endpoint, endpoint
from holdfast.protocol.inputs import LocationInput, WorkspaceIDField
from holdfast.protocol.scope import SAFE, MessagePath, of_session
from holdfast.protocol.unsupported import (
    UnsupportedBesideCommand,
    UnsupportedBesidePrompt,
    UnsupportedBesideShell,
    UnsupportedInCreation,
)
from holdfast.schema.budget import Budget
from holdfast.schema.errors import (
    CommandNotFoundError,
    ConflictError,
    ForbiddenError,
    InvalidCursorError,
    MessageNotFoundError,
    ServiceUnavailableError,
    SkillNotFoundError,
    UnknownError,
)
from holdfast.schema.ids import MessageIDField, SessionIDField
from holdfast.schema.prompt import (
    Admission,
    AgentInput,
    Delivery,
    FileInput,
    JsonFormat,
    ModelInput,
    PromptInput,
    SkillInput,
    TextFormat,
)
from holdfast.schema.record import Record
from holdfast.schema.session import ForkBefore, ForkThrough, Revert, Session, SessionActive
from holdfast.schema.session_message import SessionMessage
from holdfast.schema.typed_event import DurableEvent, Event

Order = Literal["asc", "desc"]


ParentIDField = Annotated[str, msgspec.Meta(pattern="^ses|^null$")]


class ListQuery(Record):
    workspace: WorkspaceIDField | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=SAFE)] | None = None
    order: Order | None = None
    search: str | None = None
    directory: str | None = None
    project: str | None = None
    subpath: str | None = None
    archived: bool | None = None
    """Only archived Sessions, or only others; both by default. A child is archived with any Session above it."""
    parent_id: ParentIDField | msgspec.UnsetType = msgspec.UNSET
    """Only children of this Session; `null`: only Sessions without a parent."""
    cursor: str | None = None


CHECKED = "x-holdfast-checked"
"""Header that rejects an unknown agent or model when a Session is created, or when a prompt names one. Without it they
are accepted, as in the contract, and the input does not start."""


INSTRUCTION_CHARACTERS = 10_000


class CreatePayload(Record):
    id: SessionIDField | None = None
    agent: str | None = None
    model: ModelInput | None = None
    location: LocationInput | None = None
    budget: Budget | None = None


class PromptPayload(Record):
    """The prompt is inside `prompt`, or its fields are beside `id`, `delivery` and `resume`; not both."""

    id: MessageIDField | None = None
    prompt: PromptInput | None = None
    text: str | None = None
    files: tuple[FileInput, ...] | None = None
    agents: tuple[AgentInput, ...] | None = None
    skills: tuple[SkillInput, ...] | None = None
    metadata: dict[str, Any] | None = None
    system: str | None = None
    tools: dict[str, bool] | None = None
    format: TextFormat | JsonFormat | None = None
    agent: str | None = None
    model: ModelInput | None = None
    variant: str | None = None
    no_reply: bool | None = None
    delivery: Delivery | None = None
    resume: bool | None = None
    resolve: bool | None = None
    """Whether mentions in the text (`@path`, `@path#L10-20`, `@reference/path`, `@agent`) are attached."""


PROMPT_FIELDS = PromptInput.__struct_fields__
"""The fields of a prompt, in either shape."""


class CommandPayload(Record):
    id: MessageIDField | None = None
    command: str
    arguments: str | None = None
    agent: str | None = None
    model: ModelInput | None = None
    files: tuple[FileInput, ...] | None = None
    agents: tuple[AgentInput, ...] | None = None
    skills: tuple[SkillInput, ...] | None = None
    delivery: Delivery | None = None
    resume: bool | None = None
    resolve: bool | None = None
    """False leaves mentions in the arguments as text. Otherwise they are attached, as those of the template are."""


class SkillPayload(Record):
    id: MessageIDField | None = None
    skill: str
    resume: bool | None = None


class ShellPayload(Record):
    id: Annotated[str, msgspec.Meta(pattern="^(msg|evt)_")] | None = None
    """The id of the message. With `evt_` in place of `msg_` it names the same message."""
    command: str


class SyntheticPayload(Record):
    id: MessageIDField | None = None
    text: str
    description: str | None = None
    metadata: dict[str, Any] | None = None
    delivery: Delivery | None = None
    resume: bool | None = None


class SwitchAgentPayload(Record):
    agent: str


class SwitchModelPayload(Record):
    model: ModelInput


class CompactPayload(Record):
    instructions: Annotated[str, msgspec.Meta(max_length=INSTRUCTION_CHARACTERS)] | None = None
    """What the summary should keep or leave out, for this one."""


class StagePayload(Record):
    message_id: MessageIDField
    files: bool | None = None
    before: bool | None = None
    """Whether the message itself is taken back too, as a prompt is. Otherwise it stays."""


class ForkPayload(Record):
    boundary: ForkBefore | ForkThrough


class MessagesQuery(Record):
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] | None = None
    order: Order | None = None
    cursor: str | None = None


class HistoryQuery(Record):
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None
    after: Annotated[int, msgspec.Meta(ge=0, le=SAFE)] | None = None


class EventsQuery(Record):
    after: Annotated[int, msgspec.Meta(ge=0, le=SAFE)] | None = None
    live: bool | None = None
    """Whether live events of the Session are included: marked, without a sequence, not replayed. A comment in the
    stream marks where they begin."""
    replay: bool | None = None
    """False begins with the next event, unless `after` or `Last-Event-ID` names another position."""


class InterruptQuery(Record):
    background: bool | None = None
    """Whether subagents in the background are interrupted too."""


_OF_SESSION = of_session(
    endpoint("sessions.get", "GET", "v2.session.get", "One Session.", role="read", data=Session),
    endpoint(
        "sessions.switch_agent",
        "POST /agent",
        "v2.session.switchAgent",
        "Switch the agent, from the next turn on.",
        role="prompt",
        payload=SwitchAgentPayload,
    ),
    endpoint(
        "sessions.switch_model",
        "POST /model",
        "v2.session.switchModel",
        "Switch the model, from the next turn on. Selecting the current model has no effect.",
        role="prompt",
        payload=SwitchModelPayload,
    ),
    endpoint(
        "sessions.prompt",
        "POST /prompt",
        "v2.session.prompt",
        "Admit a prompt durably and wake the Session, unless `resume` is false. With `resolve`, mentions in its text "
        "are attached; a file that needs permission is asked for, and a caller that disconnects meanwhile ends it.",
        role="prompt",
        adds="input",
        payload=PromptPayload,
        unsupported=UnsupportedBesidePrompt,
        data=Admission,
        errors=(ConflictError, ServiceUnavailableError),
        headers=((CHECKED, "1"),),
    ),
    endpoint(
        "sessions.command",
        "POST /command",
        "v2.session.command",
        "Expand a command of the Session's Location and admit the result as a prompt. Shell commands of its "
        "template need permission like those of an agent. A caller that disconnects before the admission ends it. "
        "The command's own agent and model come before those of the call, and apply to this prompt only.",
        role="prompt",
        adds="input",
        payload=CommandPayload,
        unsupported=UnsupportedBesideCommand,
        data=Admission,
        errors=(CommandNotFoundError, ConflictError, ServiceUnavailableError),
        extension=True,
        handler="commands.command",
    ),
    endpoint(
        "sessions.skill",
        "POST /skill",
        "v2.session.skill",
        "Admit a skill as a prompt without a text and wake the Session, unless `resume` is false.",
        role="prompt",
        adds="input",
        payload=SkillPayload,
        errors=(SkillNotFoundError, ConflictError, ServiceUnavailableError),
        extension=True,
        handler="commands.skill",
    ),
    endpoint(
        "sessions.shell",
        "POST /shell",
        "v2.session.shell",
        "Run a command in the Session's directory once the Session is idle, and return when it has ended. Command and "
        "output become a message; no turn is taken. It needs permission like the `bash` calls of the Session's agent.",
        role="admin",
        adds="input",
        payload=ShellPayload,
        unsupported=UnsupportedBesideShell,
        errors=(ForbiddenError, ConflictError, ServiceUnavailableError),
        extension=True,
        handler="commands.shell",
    ),
    endpoint(
        "sessions.synthetic",
        "POST /synthetic",
        "v2.session.synthetic",
        "Admit text that a program adds to the conversation and wake the Session, unless `resume` is false. The model "
        "reads it as a message of the user.",
        role="prompt",
        adds="input",
        payload=SyntheticPayload,
        data=Admission,
        errors=(ConflictError,),
        extension=True,
        handler="commands.synthetic",
    ),
    endpoint(
        "sessions.compact",
        "POST /compact",
        "v2.session.compact",
        "Summarise older history now, without a turn.",
        role="prompt",
        payload=CompactPayload,
        errors=(ConflictError, ServiceUnavailableError),
    ),
    endpoint(
        "sessions.wait",
        "POST /wait",
        "v2.session.wait",
        "Wait until the Session is idle and every prompt that should start it has been handled.",
        role="read",
        errors=(ServiceUnavailableError,),
    ),
    endpoint(
        "sessions.stage_revert",
        "POST /revert/stage",
        "v2.session.revert.stage",
        "Restore the files to their state at a message. The conversation stays until the revert is committed.",
        role="prompt",
        payload=StagePayload,
        data=Revert,
        errors=(MessageNotFoundError, UnknownError),
    ),
    endpoint(
        "sessions.clear_revert",
        "POST /revert/clear",
        "v2.session.revert.clear",
        "Undo a staged revert.",
        role="prompt",
        errors=(UnknownError,),
    ),
    endpoint(
        "sessions.commit_revert",
        "POST /revert/commit",
        "v2.session.revert.commit",
        "Remove everything after the staged message from the conversation.",
        role="prompt",
    ),
    endpoint(
        "sessions.fork",
        "POST /fork",
        "v2.session.fork",
        "Create a Session that shares this one's conversation: before a message, or all of it that is complete.",
        role="prompt",
        adds="session",
        payload=ForkPayload,
        data=Session,
        errors=(MessageNotFoundError,),
        extension=True,
    ),
    endpoint(
        "sessions.context",
        "GET /context",
        "v2.session.context",
        "The messages selected as model history, oldest first.",
        role="read",
        data=list[SessionMessage],
        errors=(UnknownError,),
    ),
    endpoint(
        "sessions.history",
        "GET /history",
        "v2.session.history",
        "A finite page of durable events after a sequence.",
        role="read",
        query=HistoryQuery,
        history=DurableEvent,
    ),
    endpoint(
        "sessions.events",
        "GET /event",
        "v2.session.events",
        "Durable events after a sequence, then new ones as they are committed; with `live`, live events too.",
        role="read",
        query=EventsQuery,
        stream=Event,
    ),
    endpoint(
        "sessions.interrupt",
        "POST /interrupt",
        "v2.session.interrupt",
        "Interrupt the running activity with the subagents that it waits for, and return when their ends are recorded. "
        "With `background`, everything below the Session.",
        role="prompt",
        recorded=True,
        query=InterruptQuery,
    ),
    endpoint(
        "sessions.background",
        "POST /background",
        "v2.session.background",
        "Let the subagents that the Session waits for go on in the background. Nothing happens if there are none.",
        role="prompt",
        recorded=True,
        errors=(ConflictError,),
        extension=True,
    ),
    endpoint(
        "sessions.message",
        "GET /message/{messageID}",
        "v2.session.message",
        "One message.",
        role="read",
        params=MessagePath,
        data=SessionMessage,
        errors=(MessageNotFoundError,),
    ),
    endpoint(
        "sessions.messages",
        "GET /message",
        "v2.session.messages",
        "A page of messages, newest first unless asked otherwise.",
        role="read",
        query=MessagesQuery,
        page=SessionMessage,
        errors=(InvalidCursorError, UnknownError),
    ),
)

ENDPOINTS: tuple[Endpoint, ...] = (
    endpoint(
        "sessions.list",
        "GET /api/session",
        "v2.session.list",
        "A page of Sessions, newest first unless asked otherwise.",
        role="read",
        checks_projects=True,
        query=ListQuery,
        page=Session,
        errors=(InvalidCursorError,),
    ),
    endpoint(
        "sessions.create",
        "POST /api/session",
        "v2.session.create",
        "Create a Session, or return the existing one with this id.",
        role="prompt",
        adds="session",
        checks_projects=True,
        payload=CreatePayload,
        unsupported=UnsupportedInCreation,
        data=Session,
        errors=(ConflictError,),
        headers=((CHECKED, "1"),),
    ),
    endpoint(
        "sessions.active",
        "GET /api/session/active",
        "v2.session.active",
        "The Sessions that are executing now.",
        role="read",
        data=dict[str, SessionActive],
    ),
    *_OF_SESSION,
)
