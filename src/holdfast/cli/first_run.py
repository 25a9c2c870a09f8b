"""Asks the person once, before the first run, how agents may work."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.cli.terminal import Terminal
    from holdfast.embedded.choices import Preset

QUESTION = """\
? This is your first run. By default agents read, edit and run commands in a project without asking you.
  1  keep the default
  2  ask me before edits, fetches, and commands that may change something
  3  confine commands: they write only in the project and have no network (docs/how-to/sandbox.md)
  `holdfast config preset` changes this later."""
ANSWERS: dict[str, Preset] = {"": "default", "1": "default", "2": "ask", "3": "sandbox"}


async def first_choice(terminal: Terminal) -> None:
    """Ask and store the choice, unless one is stored. The end of input stores nothing: the next run asks again."""
    from holdfast.embedded.choices import Choices

    choices = Choices()
    if choices.made:
        return
    terminal.discard_typed()
    for line in QUESTION.splitlines():
        terminal.say(line)
    while (answer := await terminal.ask("  your choice [1]:")) is not None:
        if (preset := ANSWERS.get(answer)) is not None:
            choices.choose(preset)
            return
        terminal.say("  Please enter 1, 2 or 3.")
