"""Fields of a prompt that clients of OpenCode know and that are not honoured here. They are refused by name: whoever
sends `tools` to take a tool away must not get an answer that was made with it. Other unknown fields are ignored, as in
the recorded contract."""

from __future__ import annotations

import msgspec

from holdfast.schema.record import Record

NOTHING = msgspec.Raw(b"null")


class UnsupportedInPrompt(Record):
    format: msgspec.Raw = NOTHING
    system: msgspec.Raw = NOTHING
    tools: msgspec.Raw = NOTHING
    no_reply: msgspec.Raw = NOTHING
    model: msgspec.Raw = NOTHING
    agent: msgspec.Raw = NOTHING
    variant: msgspec.Raw = NOTHING
    parts: msgspec.Raw = NOTHING
    skills: msgspec.Raw = NOTHING
    metadata: msgspec.Raw = NOTHING
    command: msgspec.Raw = NOTHING
    arguments: msgspec.Raw = NOTHING


class UnsupportedBesidePrompt(UnsupportedInPrompt):
    """The same ones beside `prompt`, and what belongs inside it."""

    message_id: msgspec.Raw = NOTHING
    text: msgspec.Raw = NOTHING
    files: msgspec.Raw = NOTHING
    agents: msgspec.Raw = NOTHING
    prompt: UnsupportedInPrompt = UnsupportedInPrompt()


class UnsupportedBesideCommand(Record):
    """The same for a call of a command."""

    agent: msgspec.Raw = NOTHING
    model: msgspec.Raw = NOTHING
    variant: msgspec.Raw = NOTHING
    skills: msgspec.Raw = NOTHING
    parts: msgspec.Raw = NOTHING
    message_id: msgspec.Raw = NOTHING


INSTEAD = {
    "messageID": "the id of a prompt is `id`",
    "text": "it belongs inside `prompt`",
    "files": "it belongs inside `prompt`",
    "agents": "it belongs inside `prompt`",
    "model": "choose the Session's model instead",
    "agent": "choose the Session's agent instead",
    "variant": "choose the Session's model with its variant instead",
}
