"""What is known about a shell command after it was read."""

from __future__ import annotations

from holdfast.schema.frozen import Frozen


class Word(Frozen):
    source: str
    value: str | None
    """What the shell makes of it; None if that is known only when it runs."""


class SimpleCommand(Frozen):
    source: str
    """As it is written, with assignments before it and without redirections."""
    assignments: tuple[Word, ...]
    words: tuple[Word, ...]
    """The name and its arguments; none for a statement that only assigns."""


class Script(Frozen):
    text: str
    commands: tuple[SimpleCommand, ...] = ()
    outputs: tuple[Word, ...] = ()
    """Files that something is redirected into."""
    inputs: tuple[Word, ...] = ()
    fed: bool = False
    """Whether text of the script is the input of one of its commands."""
    opaque: bool = False
    """Whether it may do more than its commands and outputs say."""
