"""A shell command taken apart by a real grammar: the simple commands in it, wherever they stand, what they are
redirected into, and whether there is more to it than reading can tell.

Invariants
- Every simple command is found: in lists, pipes, substitutions, subshells, function bodies, here-documents.
- When in doubt a script is opaque. Opaque means: what it runs is not wholly written in what is approved."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node, Parser

PARSED_BYTES = 64 * 1024
SHELLS = frozenset({"ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "rbash", "sh", "tcsh", "zsh"})
EVALUATORS = frozenset({".", "alias", "coproc", "eval", "source", "trap"})
"""Commands whose arguments are shell text."""

_PLAIN_NAME = re.compile(r"[\w./+:@%,=-]+|\[")
_NOT_FILES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})


class Word(NamedTuple):
    source: str
    value: str | None
    """What the shell makes of it; None if that is known only when it runs."""


class SimpleCommand(NamedTuple):
    source: str
    """As it is written, with assignments before it and without redirections."""
    assignments: tuple[Word, ...]
    words: tuple[Word, ...]
    """The name and its arguments; none for a statement that only assigns."""


class Script(NamedTuple):
    commands: tuple[SimpleCommand, ...]
    outputs: tuple[Word, ...]
    """Files that something is redirected into."""
    inputs: tuple[Word, ...]
    opaque: bool


def parse(command: str) -> Script:
    source = command.encode("utf-8", "surrogateescape")
    if len(source) > PARSED_BYTES:
        return Script((), (), (), opaque=True)
    root = _parser().parse(source).root_node
    reader = _Reader(source)
    for node in _walk(root):
        reader.read(node)
    return Script(
        tuple(reader.commands), tuple(reader.outputs), tuple(reader.inputs), opaque=reader.opaque or root.has_error
    )


class _Reader:
    def __init__(self, source: bytes) -> None:
        self._source = source
        self.commands: list[SimpleCommand] = []
        self.outputs: list[Word] = []
        self.inputs: list[Word] = []
        self.opaque = False

    def read(self, node: Node) -> None:
        match node.type:
            case "command":
                self._command(node)
            case "declaration_command" | "unset_command":
                self._statement(node)
            case "variable_assignment" if node.parent is not None and node.parent.type not in _HOLDS_ASSIGNMENTS:
                word = self._word(node)
                self.commands.append(SimpleCommand(word.source, (word,), ()))
            case "file_redirect":
                self._redirect(node)
            case "heredoc_redirect":
                # Words behind the delimiter are arguments that the grammar leaves here.
                self.opaque = self.opaque or any(child.type in _ARGUMENTS for child in node.named_children)

    def _command(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        assignments: list[Word] = []
        words: list[Word] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                assignments.append(self._word(child))
            elif name is not None and child == name:
                words.append(self._word(child.named_children[0] if child.named_child_count else child))
            elif child.type not in ("file_redirect", "heredoc_redirect", "herestring_redirect", "comment"):
                words.append(self._word(child))
        self.commands.append(SimpleCommand(self._text(node), tuple(assignments), tuple(words)))
        self.opaque = self.opaque or _evaluates(tuple(words))

    def _statement(self, node: Node) -> None:
        """`export`, `unset` and their like: words of the grammar, commands to us."""
        keyword = node.children[0]
        words = [Word(self._text(keyword), self._text(keyword)), *map(self._word, node.named_children)]
        self.commands.append(SimpleCommand(self._text(node), (), tuple(words)))

    def _redirect(self, node: Node) -> None:
        destination = node.child_by_field_name("destination")
        operator = next((child.type for child in node.children if not child.is_named), ">")
        if destination is None:
            return
        word = self._word(destination)
        if operator.startswith("<") and operator != "<>":
            self.inputs.append(word)
        elif not (operator == ">&" and (word.source.isdigit() or word.source == "-")) and word.value not in _NOT_FILES:
            self.outputs.append(word)

    def _word(self, node: Node) -> Word:
        return Word(self._text(node), self._value(node))

    def _value(self, node: Node) -> str | None:
        match node.type:
            case "word" | "number" | "test_operator" | "variable_name":
                return re.sub(r"\\(?:\n|(.))", lambda found: found[1] or "", self._text(node), flags=re.DOTALL)
            case "raw_string":
                return self._text(node)[1:-1]
            case "string" if all(child.type == "string_content" for child in node.named_children):
                return re.sub(r'\\(["\\$`])|\\\n', lambda found: found[1] or "", self._text(node)[1:-1])
            case "concatenation":
                parts = [self._value(child) for child in node.named_children]
                return None if None in parts else "".join(part for part in parts if part is not None)
            case _:
                return None

    def _text(self, node: Node) -> str:
        return self._source[node.start_byte : node.end_byte].decode("utf-8", "surrogateescape")


_ARGUMENTS = frozenset({"word", "string", "raw_string", "concatenation", "simple_expansion", "expansion", "number"})
_HOLDS_ASSIGNMENTS = frozenset({"command", "declaration_command"})


def _evaluates(words: tuple[Word, ...]) -> bool:
    """Whether this runs shell text that is not part of the script, or a program whose name cannot be read."""
    if not words:
        return False
    name = words[0].value
    if name is None or _PLAIN_NAME.fullmatch(name) is None:
        return True
    name = name.rpartition("/")[2]
    if name in EVALUATORS:
        return True
    if name not in SHELLS:
        return False
    # A shell is as good as any program while it runs a file; told `-c`, or nothing, it runs text from elsewhere.
    first = next((word.value for word in words[1:] if word.value is None or not word.value.startswith("+")), None)
    return first is None or first.startswith("-")


def _walk(root: Node) -> Iterator[Node]:
    """In the order of the text; without recursion, for a command may be nested deeper than Python's stack."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.named_children))


@cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
