"""Asks about a permission request: once, always with a pattern that is offered, or no with a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.text.visible_text import brief, visible
from holdfast.tui.dialog import Choice, sentence_lines, text_lines
from holdfast.tui.request_answers import ReplyPermission

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.schema.permission import PermissionRequest
    from holdfast.schema.rendered import BodySection, CallBody
    from holdfast.tui.lines import Line
    from holdfast.tui.style import Marks

REASON = "reason (empty stops the turn)"


class PermissionDialog:
    def __init__(self, request: PermissionRequest, marks: Marks) -> None:
        self.request = request
        self._marks = marks
        self._choosing = False
        self._reason = False
        self._selected = 0
        self._call: CallBody | None = None
        self._drawn: tuple[int, list[Line]] | None = None
        """Diffs can be long: the lines of the last width are kept."""
        self.problem = ""

    @property
    def title(self) -> str:
        return f"Permission to {_of_stranger(self.request.action, self.request.metadata or {})[0]}"

    @property
    def entry(self) -> str | None:
        return REASON if self._reason else None

    def set_call(self, body: CallBody) -> None:
        """The body of the call that waits, with its planned diff."""
        self._call, self._drawn = body, None

    def body(self, width: int) -> list[Line]:
        if self._drawn is None or self._drawn[0] != width:
            self._drawn = (width, self._lines(width))
        return self._drawn[1]

    def _lines(self, width: int) -> list[Line]:
        about = self.request.metadata or {}
        given: Sequence[str] = _of_stranger(self.request.action, about)[1] or self.request.resources
        if isinstance(command := about.get("command"), str):
            given = (command,)  # whole; the resources are its parts
        sections = self._call.sections if self._call is not None else ()
        planned = [_shown(section) for section in sections if section.kind == "diff"]
        named = {section.name for section in planned}
        lines = [line for text in given if visible(text) not in named for line in text_lines(text, width)]
        for warning in about.get("warnings") or ():
            lines += sentence_lines(str(warning), width, "class:warn")
        if isinstance(workdir := about.get("workdir"), str) and workdir not in (".", ""):
            lines += text_lines(f"in {workdir}", width, "class:dim")
        if planned:
            from holdfast.tui.call_body import call_body_lines

            lines += call_body_lines(planned, width, self._marks)
        elif isinstance(diff := about.get("diff"), str):
            from holdfast.tui.diff import diff_lines

            lines += diff_lines(visible(diff), width)
        for section in sections:
            if section.kind in ("code", "note") and section.text.strip() not in given:
                lines += (sentence_lines if section.kind == "note" else text_lines)(section.text, width, "class:dim")
        return lines

    def choices(self) -> Sequence[Choice]:
        if self._reason:
            return ()
        offered = self.request.save or ()
        if self._choosing:
            return [
                Choice(str(number), f"always allow {_pattern(pattern)}", number - 1 == self._selected)
                for number, pattern in enumerate(offered, start=1)
            ] + [Choice("Esc", "back")]
        choices = [Choice("y", "allow it once")]
        if len(offered) == 1:
            choices.append(Choice("a", f"always allow {_pattern(offered[0])}"))
        elif offered:
            choices.append(Choice("a", "always allow: choose a pattern"))
        return [*choices, Choice("n", "no, with a reason for the model")]

    def key(self, key: str) -> ReplyPermission | None:
        offered = self.request.save or ()
        if self._choosing:
            return self._choose(key, offered)
        if key == "y":
            return self._reply("once")
        if key == "a" and len(offered) == 1:
            return self._reply("always", save=offered)
        if key == "a" and offered:
            self._choosing, self._selected = True, 0
        elif key == "n":
            self._reason = True
        return None

    def enter(self, text: str) -> ReplyPermission | None:
        return self._reply("reject", message=text.strip() or None)

    def leave_entry(self) -> bool:
        was = self._reason or self._choosing
        self._reason = self._choosing = False
        return was

    def _choose(self, key: str, offered: Sequence[str]) -> ReplyPermission | None:
        if key in ("up", "down"):
            self._selected = (self._selected + (1 if key == "down" else -1)) % len(offered)
        elif key == "enter":
            return self._reply("always", save=(offered[self._selected],))
        elif key.isdecimal() and 1 <= int(key) <= len(offered):
            return self._reply("always", save=(offered[int(key) - 1],))
        return None

    def _reply(self, reply: Any, message: str | None = None, save: Sequence[str] | None = None) -> ReplyPermission:
        kept = tuple(save) if save is not None else None
        return ReplyPermission(self.request.session_id, self.request.id, reply, message, kept)


def _of_stranger(action: str, about: dict[str, Any]) -> tuple[str, Sequence[str]]:
    """What a plugin or an MCP server wants, and what there is to see of it besides the resources of the request."""
    match about:
        case {"plugin": str(plugin), "input": str(given)}:
            return f"use the tool {action} of the plugin {brief(visible(plugin))}", (given,)
        case {"server": str(server), "tool": str(), "input": str(given)}:
            return f"use the tool {action} of the MCP server {brief(visible(server))}", (given,)
        case {"tool": str(), "input": str(given)}:  # of the program
            return f"use the tool {action}", (given,)
        case {"server": str(server), "resource": str(address)}:
            return f"read a resource of the MCP server {brief(visible(server))}", (address,)
        case {"server": str(server), "asks": str(asked), "maxTokens": int(most)}:
            wish = f"give the MCP server {brief(visible(server))} an answer of the model, of at most {most} tokens"
            return wish, (asked,)
        case _:
            return action, ()


def _shown(section: BodySection) -> BodySection:
    """With the characters that nobody would see shown: a person decides about it."""
    name = visible(section.name) if section.name is not None else None
    return msgspec.structs.replace(section, text=visible(section.text), name=name)


def _pattern(pattern: str) -> str:
    return "exactly this command" if pattern.startswith("exact:") else brief(visible(pattern))
