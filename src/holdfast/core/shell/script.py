"""The result of parsing a shell command."""

from __future__ import annotations

from holdfast.schema.frozen import Frozen


class Word(Frozen):
    source: str
    value: str | None
    """The word after quote removal; None if an expansion decides it at run time."""


class SimpleCommand(Frozen):
    source: str
    """The text with assignments and without redirections."""
    assignments: tuple[Word, ...]
    words: tuple[Word, ...]
    """The name and its arguments; empty if the command only assigns variables."""


class Script(Frozen):
    text: str
    commands: tuple[SimpleCommand, ...] = ()
    outputs: tuple[Word, ...] = ()
    """Files that output is redirected to."""
    inputs: tuple[Word, ...] = ()
    has_inline_input: bool = False
    """Whether a here-document or here-string is the input of a command."""
    opaque: bool = False
    """Whether it may do more than the other fields show."""
