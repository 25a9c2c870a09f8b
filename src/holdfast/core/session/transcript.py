"""Renders a conversation as text for its summary: the text of each message, the messages kept verbatim, and the
instructions for the model. Pure functions; `runner/compaction.py` uses them."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from holdfast.core.filesystem.content import is_data_uri
from holdfast.schema import session_message as stored
from holdfast.schema.codec import encode
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.schema.prompt import FileAttachment
    from holdfast.schema.session_message import SessionMessage

RESULT_CHARACTERS = 2000
TRUNCATED = "[truncated]"
FOLLOWS = "[User]: [This message follows the record, word for word.]"
OMITTED = "[Earlier material was left out here because it did not fit.]"

INSTRUCTIONS = """\
Write the working notes from which another engineer, who has seen nothing of the conversation above, carries this work \
on without asking again.

Use exactly these sections, in this order, each one present even when it has nothing to say (then write "- none"):

## Objective
What the user wants, in one or two sentences.

## Important Details
- Constraints, preferences, decisions and why they were made, facts that are needed to go on.

## Work State
### Completed
- What is done.
### Active
- What is being worked on right now.
### Blocked
- What cannot go on, and on what it waits.

## Next Move
1. The next actions, in order.

## Relevant Files
- Path, and why it matters.

Short bullets. Copy literal values exactly: paths, names of symbols, commands, error texts, links, identifiers. Say \
nothing about these notes themselves or about how they were made. Answer with the notes only."""

CARRY_FORWARD = """\

The notes inside <prior-summary> are older than the conversation and will be thrown away: carry over everything in \
them that still matters. Where they disagree with the conversation, the conversation is right. What was active and is \
finished by now belongs under Completed."""

USER_INSTRUCTIONS = "\n\nThe user also asked of these notes: "


class Selection(Frozen):
    head: list[str]
    """To be summarised."""
    recent: list[str]
    """Kept word for word."""


def tokens(characters: int) -> int:
    """Estimate the number of tokens: four characters each, rounded."""
    return max(0, (characters + 2) // 4)


def serialise(message: SessionMessage, *, result_characters: int = RESULT_CHARACTERS) -> str:
    """The text of a message; empty if there is nothing to read."""
    match message:
        case stored.UserMessage():
            skills = (f"[Attached skill: {_said(skill.name)}]" for skill in message.skills or ())
            return "\n".join([f"[User]: {_said(message.text)}", *skills, *map(_attached, message.files or ())])
        case stored.SyntheticMessage():
            return f"[Synthetic context]: {_said(message.text)}"
        case stored.SystemMessage():
            return f"[System update]: {_said(message.text)}"
        case stored.ShellMessage():
            return f"[Shell]: {_said(message.command)}\n{_said(_cut(message.output, result_characters))}"
        case stored.AssistantMessage():
            return "\n".join(line for part in message.content for line in _part(part, result_characters))
        case _:
            return ""


def characters(message: SessionMessage) -> int:
    """The size of a message in a request, where its text is not shortened."""
    return len(serialise(message, result_characters=sys.maxsize))


def select(items: Sequence[str], keep_tokens: int) -> Selection:
    """Keep as many of the newest messages as fit. A message is never split."""
    kept = size = 0
    for item in reversed(items):
        size += tokens(len(item))
        if size > keep_tokens:
            break
        kept += 1
    cut = len(items) - kept
    return Selection(list(items[:cut]), list(items[cut:]))


def summary_prompt(conversation: Sequence[str], prior: str | None, instructions: str | None) -> str:
    """The conversation, then the instructions, so that the model reads these last."""
    parts = [f"<conversation>\n{neutral(join(conversation))}\n</conversation>"]
    if prior is not None:
        parts.append(f"<prior-summary>\n{neutral(prior)}\n</prior-summary>")
    asked = INSTRUCTIONS + (CARRY_FORWARD if prior is not None else "")
    if instructions:
        asked += USER_INSTRUCTIONS + instructions
    return "\n\n".join([*parts, asked])


def neutral(text: str) -> str:
    """Escape text so that it cannot close or imitate the tags around it."""
    return _TAG.sub("&lt;", text) if "<" in text else text


def join(items: Sequence[str]) -> str:
    return "\n\n".join(items)


def _attached(file: FileAttachment) -> str:
    """Name a file without base64 data."""
    name = file.name or ("" if is_data_uri(file.uri) else file.uri[:200])
    return f"[Attached {file.mime}{': ' + _said(name) if name else ''}]"


def _part(part: stored.Part, result_characters: int) -> list[str]:
    match part:
        case stored.TextPart(broken_off=True) | stored.ReasoningPart(broken_off=True):
            return []  # as in a request
        case stored.TextPart():
            return [f"[Assistant]: {_said(part.text)}"] if part.text else []
        case stored.ReasoningPart():
            return [f"[Assistant reasoning]: {_said(part.text)}"] if part.text else []
        case stored.ToolPart():
            given = part.state.input
            shown = given if isinstance(given, str) else encode(given).decode()
            return [f"[Assistant tool call]: {part.name}({_said(shown)})", *_result(part.state, result_characters)]


def _result(state: stored.ToolState, result_characters: int) -> list[str]:
    match state:
        case stored.ToolCompleted():
            return [f"[Tool result]: {_said(_body(state, result_characters))}"]
        case stored.ToolError():
            kept = _body(state, result_characters) if state.content or state.structured else ""
            return [f"[Tool error]: {_said(state.error.message)}{chr(10) if kept else ''}{_said(kept)}"]
        case _:
            return []


def _body(state: stored.ToolCompleted | stored.ToolError, result_characters: int) -> str:
    """The text of tool content. Media is named, without base64 data."""
    texts = [item.text for item in state.content if isinstance(item, stored.TextContent)]
    files = [item for item in state.content if isinstance(item, stored.FileContent)]
    text = "".join(texts) if state.content else encode(state.structured).decode()
    attached = [f"[Attached {file.mime}{': ' + file.name if file.name else ''}]" for file in files]
    return "\n".join([_cut(text, result_characters), *attached] if text else attached)


def _said(text: str) -> str:
    """Indent lines that look like our labels, so that only our labels begin a line that way."""
    # Looking for two characters first is twenty times quicker than the pattern, and an answer may have 8 MiB.
    return _LABEL.sub(r" \g<0>", text) if "]:" in text else text


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[:characters]}\n{TRUNCATED}"


_FRAMES = "conversation-checkpoint|conversation|prior-summary|summary|recent-context|system-update"
_TAG = pattern(rf"<(?=/?(?:{_FRAMES})\b)", re.IGNORECASE)
_LABEL = pattern(
    r"^\[(?:User|Assistant[a-z ]*|Tool (?:result|error)|System update|Synthetic context|Shell)\]:", re.MULTILINE
)
