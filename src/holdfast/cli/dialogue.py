"""Asks the person at the terminal about a permission request or a question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.cli.output import brief, visible
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.cli.terminal import Terminal
    from holdfast.schema.permission import PermissionRequest, Reply
    from holdfast.schema.question import Answer, Question

SHOWN_LINES = 40
"""How many lines of a request are shown; the rest is counted."""


class Decision(Frozen):
    reply: Reply
    message: str | None = None
    save: tuple[str, ...] | None = None


async def decide(terminal: Terminal, request: PermissionRequest) -> Decision:
    """Ask until the answer is one of the choices. The end of input rejects the request."""
    offered = request.save or ()
    terminal.discard_typed()
    _show(terminal, request)
    choices = tuple(_choices(offered))
    for choice, meaning in choices:
        terminal.say(f"  {choice:<8}  {meaning}")
    while True:
        line = await terminal.ask("  your answer:")
        if line is None:
            terminal.say()
            return Decision("reject")
        decision = _decision(line, offered)
        if decision is not None:
            return decision
        terminal.say(f"  {line!r} is not a choice. Please enter one of: {', '.join(choice for choice, _ in choices)}.")


async def answer(terminal: Terminal, questions: Sequence[Question]) -> tuple[Answer, ...] | None:
    """One answer to each question; None at the end of input."""
    terminal.discard_typed()
    answers: list[Answer] = []
    for question in questions:
        _show_question(terminal, question)
        chosen: Answer | None = None
        while chosen is None:
            line = await terminal.ask("  your answer:")
            if line is None:
                terminal.say()
                return None
            chosen = _chosen(line, question)
            if chosen is None:
                terminal.say(f"  Please enter {_expected(question)}.")
        answers.append(chosen)
    return tuple(answers)


# -- permissions -------------------------------------------------------------------------------------------------


def _show(terminal: Terminal, request: PermissionRequest) -> None:
    about = request.metadata or {}
    wish, given = _of_stranger(request.action, about)
    terminal.say(f"? permission to {wish}:")
    lines = [line for text in given or request.resources for line in text.splitlines() or [""]]
    if isinstance(diff := about.get("diff"), str):
        lines += diff.splitlines()
    for line in lines[:SHOWN_LINES]:
        terminal.say(f"    {visible(line)}")
    if len(lines) > SHOWN_LINES:
        terminal.say(f"    … and {len(lines) - SHOWN_LINES} more lines")


def _of_stranger(action: str, about: dict[str, Any]) -> tuple[str, Sequence[str]]:
    """What a plugin or an MCP server wants, and what there is to see of it besides the resources of the request."""
    match about:
        case {"plugin": str(plugin), "input": str(given)}:
            return f"use the tool {action} of the plugin {visible(plugin)}", (given,)
        case {"server": str(server), "tool": str(), "input": str(given)}:
            return f"use the tool {action} of the MCP server {visible(server)}", (given,)
        case {"tool": str(), "input": str(given)}:  # of the program
            return f"use the tool {action}", (given,)
        case {"server": str(server), "resource": str(address)}:
            return f"read a resource of the MCP server {visible(server)}", (address,)
        case {"server": str(server), "asks": str(asked), "maxTokens": int(most)}:
            wish = f"give the MCP server {visible(server)} an answer of the model, of at most {most} tokens, to"
            return wish, (asked,)
        case _:
            return action, ()


def _choices(offered: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield "y", "allow it once"
    if len(offered) == 1:
        yield "a", f"always allow {_pattern(offered[0])}"
    elif offered:
        narrow = any("*" not in pattern for pattern in offered)
        yield "a", "always allow exactly this" if narrow else "always allow all of these:"
        for number, pattern in enumerate(offered, start=1):
            yield f"a{number}", f"always allow {_pattern(pattern)}"
    yield "n", "reject it, and stop the turn"
    yield "n REASON", "reject it, tell the model why, and go on"


def _pattern(pattern: str) -> str:
    return "exactly this command" if pattern.startswith("exact:") else brief(visible(pattern))


def _decision(line: str, offered: Sequence[str]) -> Decision | None:
    word, _, rest = line.partition(" ")
    word = word.lower()
    if word in ("y", "yes") and not rest:
        return Decision("once")
    if word in ("n", "no"):
        return Decision("reject", rest.strip() or None)
    if word in ("a", "always") and offered and not rest:
        return Decision("always")
    if word[:1] == "a" and word[1:].isdecimal() and 1 <= int(word[1:]) <= len(offered) and not rest:
        return Decision("always", save=(offered[int(word[1:]) - 1],))
    return None


# -- questions ---------------------------------------------------------------------------------------------------


def _show_question(terminal: Terminal, question: Question) -> None:
    terminal.say(f"? {brief(question.header)}: {question.question}")
    for number, option in enumerate(question.options, start=1):
        terminal.say(f"  {number}  {option.label} — {option.description}")
    terminal.say(f"  {_expected(question).capitalize()}; Ctrl-D dismisses the question.")


def _expected(question: Question) -> str:
    numbers = "numbers with commas between them" if question.multiple else "a number"
    if not question.options:
        return "an answer"
    return numbers if question.custom is False else f"{numbers} or an answer of your own"


def _chosen(line: str, question: Question) -> Answer | None:
    parts = [part.strip() for part in line.split(",")] if question.multiple else [line]
    options = [option.label for option in question.options]
    if all(part.isdecimal() and 1 <= int(part) <= len(options) for part in parts):
        return tuple(dict.fromkeys(options[int(part) - 1] for part in parts))
    named = {label.lower(): label for label in options}
    if all(part.lower() in named for part in parts):
        return tuple(dict.fromkeys(named[part.lower()] for part in parts))
    return (line,) if line and question.custom is not False else None
