"""Asks the person at the terminal to fill in a form. The server checks the values; here they are only read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.cli.output import brief, one_line, visible
from holdfast.schema.form import ExternalField, MultiselectField, StringField, asker, condition_holds
from holdfast.tui.form_values import NotAValue, expected, read_value, shown_value

if TYPE_CHECKING:
    from holdfast.cli.terminal import Terminal
    from holdfast.schema.form import Form, FormAnswer, FormField

SHOWN_CHARACTERS = 2_000


async def fill_in(terminal: Terminal, form: Form, problem: str | None = None) -> FormAnswer | None:
    """The values by key; None at the end of input. `problem` is why the former answer was refused."""
    terminal.discard_typed()
    terminal.say(f"? {brief(form.title, 300)}")
    if (line := asker(form)) is not None:
        terminal.say(brief(line, 300))
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
            except NotAValue as wanted:
                terminal.say(f"  Please enter {wanted}.")
                continue
            if value is not None:
                answer[field.key] = value
            break
    return answer


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
    hint = "" if default is None else f"; Enter means {one_line(visible(shown_value(default)))[:100]}"
    terminal.say(f"  {expected(field).capitalize()}{hint}.")


def _indented(text: str, by: str) -> str:
    """Every line, so that none looks like one of ours."""
    return "\n".join(f"{by}{line}" for line in visible(text[:SHOWN_CHARACTERS]).splitlines())
