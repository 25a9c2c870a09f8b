"""Asks the person at the terminal to fill in a form. The server checks the values; here they are only read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from holdfast.cli.output import brief, one_line, visible
from holdfast.schema.form import (
    BooleanField,
    ExternalField,
    IntegerField,
    MultiselectField,
    NumberField,
    StringField,
    condition_holds,
)

if TYPE_CHECKING:
    from holdfast.cli.terminal import Terminal
    from holdfast.schema.form import Form, FormAnswer, FormField, FormValue

YES = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
SHOWN_CHARACTERS = 2_000
NUMBER_CHARACTERS = 9
"""Of the number of an option."""


class _NotAValue(Exception):
    """A line that is no value of its field; the text says what is expected."""


async def fill_in(terminal: Terminal, form: Form, problem: str | None = None) -> FormAnswer | None:
    """The values by key; None at the end of input. `problem` is why the former answer was refused."""
    terminal.discard_typed()
    terminal.say(f"? {brief(form.title, 300)}")
    about = (form.metadata or {}).get("message")
    if isinstance(about, str):
        terminal.say(_indented(about, "  "))
    if problem is not None:
        terminal.say(f"  {problem}")
    terminal.say("  Ctrl-D cancels the form.")
    answer: FormAnswer = {}
    for field in form.fields:
        if not all(condition_holds(condition, answer.get(condition.key)) for condition in field.when or ()):
            continue
        _show(terminal, field)
        while True:
            line = await terminal.ask("  your answer:")
            if line is None:
                terminal.say()
                return None
            try:
                value = read_value(field, line)
            except _NotAValue as expected:
                terminal.say(f"  Please enter {expected}.")
                continue
            if value is not None:
                answer[field.key] = value
            break
    return answer


def read_value(field: FormField, line: str) -> FormValue | None:
    """What a line means; None for no answer. An empty line means the default. Raises for what is no value."""
    if not line:
        default = None if isinstance(field, ExternalField) else field.default
        if default is None and field.required:
            raise _NotAValue(_expected(field))
        return default
    match field:
        case StringField():
            return _option(field, line) if field.options else line
        case IntegerField() | NumberField():
            return _number(field, line)
        case BooleanField() | ExternalField():
            if line.lower() not in YES:
                raise _NotAValue(_expected(field))
            said = YES[line.lower()]
            return None if isinstance(field, ExternalField) and not said else said
        case MultiselectField():
            parts = [part.strip() for part in line.split(",") if part.strip()]
            return tuple(dict.fromkeys(_option(field, part) for part in parts))


def _show(terminal: Terminal, field: FormField) -> None:
    needed = "" if field.required else " (optional)"
    terminal.say(f"  {one_line(visible(field.title or field.key))[:300]}{needed}")
    if field.description:
        terminal.say(_indented(field.description, "    "))
    if isinstance(field, ExternalField):
        terminal.say(f"    {visible(field.url)}")
    elif isinstance(field, StringField | MultiselectField):
        for number, option in enumerate(field.options or (), start=1):
            about = f" — {one_line(visible(option.description))[:300]}" if option.description else ""
            terminal.say(f"  {number}  {one_line(visible(option.label))[:300]}{about}")
    default = None if isinstance(field, ExternalField) else field.default
    hint = "" if default is None else f"; Enter means {one_line(visible(_shown(default)))[:100]}"
    terminal.say(f"  {_expected(field).capitalize()}{hint}.")


def _indented(text: str, by: str) -> str:
    """Every line, so that none looks like one of ours."""
    return "\n".join(f"{by}{line}" for line in visible(text[:SHOWN_CHARACTERS]).splitlines())


def _shown(value: FormValue) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _expected(field: FormField) -> str:
    match field:
        case StringField(options=None):
            return f"a text of the format {field.format}" if field.format else "a text"
        case StringField():
            return "a number of the list or an answer of your own" if field.custom else "a number of the list"
        case MultiselectField():
            own = " or answers of your own" if field.custom else ""
            return f"numbers of the list{own}, with commas between them"
        case IntegerField():
            return "a whole number"
        case NumberField():
            return "a number"
        case BooleanField():
            return "y or n"
        case ExternalField():
            return "y once you have visited the page"


def _number(field: IntegerField | NumberField, line: str) -> int | float:
    try:
        whole = isinstance(field, IntegerField) or line.lstrip("+-").isdecimal()
        found: int | float = int(line) if whole else float(line)
        if math.isfinite(found):
            return found
    except (ValueError, OverflowError):
        pass
    raise _NotAValue(_expected(field))


def _option(field: StringField | MultiselectField, line: str) -> str:
    options = field.options or ()
    if line.isdecimal() and len(line) <= NUMBER_CHARACTERS and 1 <= int(line) <= len(options):
        return options[int(line) - 1].value
    for option in options:
        if line.lower() in (option.label.lower(), option.value.lower()):
            return option.value
    if field.custom:
        return line
    raise _NotAValue(_expected(field))
