"""Fields of OpenCode that are not supported. They are rejected by name: a caller that sends `tools` to disable a tool
must not get an answer made with it. Other unknown fields are ignored, as in the contract."""

from __future__ import annotations

import msgspec

from holdfast.schema.record import Record

NOTHING = msgspec.Raw(b"null")


class UnsupportedInPrompt(Record):
    parts: msgspec.Raw = NOTHING
    command: msgspec.Raw = NOTHING
    arguments: msgspec.Raw = NOTHING


class MisplacedInPrompt(UnsupportedInPrompt):
    """And a field that belongs beside `prompt`."""

    resolve: msgspec.Raw = NOTHING


class UnsupportedBesidePrompt(UnsupportedInPrompt):
    """The same fields beside `prompt`, and a name that a field of OpenCode has elsewhere."""

    message_id: msgspec.Raw = NOTHING
    prompt: MisplacedInPrompt = MisplacedInPrompt()


class UnsupportedBesideCommand(Record):
    """The same for a call of a command."""

    variant: msgspec.Raw = NOTHING
    parts: msgspec.Raw = NOTHING
    message_id: msgspec.Raw = NOTHING
    system: msgspec.Raw = NOTHING
    tools: msgspec.Raw = NOTHING
    format: msgspec.Raw = NOTHING
    metadata: msgspec.Raw = NOTHING
    no_reply: msgspec.Raw = NOTHING


class UnsupportedBesideShell(Record):
    """The same for a command that a person runs."""

    agent: msgspec.Raw = NOTHING
    model: msgspec.Raw = NOTHING
    variant: msgspec.Raw = NOTHING
    parts: msgspec.Raw = NOTHING
    message_id: msgspec.Raw = NOTHING


class UnsupportedInCreation(Record):
    """A Session that was meant to be a child would have no fence and no budget of the Session above it. One that was
    meant for another directory would work in that of the server."""

    parent_id: msgspec.Raw = NOTHING
    directory: msgspec.Raw = NOTHING
    workspace_id: msgspec.Raw = NOTHING


INSTEAD = {
    "parentID": "only the tool `subagent` makes children",
    "directory": "its place is `location.directory`",
    "workspaceID": "its place is `location.workspaceID`",
    "messageID": "the id of a prompt is `id`",
    "resolve": "it belongs beside `prompt`",
    "model": "choose the Session's model instead",
    "agent": "choose the Session's agent instead",
    "variant": "choose the Session's model with its variant instead",
}
