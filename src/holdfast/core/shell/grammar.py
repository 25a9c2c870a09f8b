"""A shell command taken apart by a real grammar: the simple commands in it, wherever they stand, what they are
redirected into, and whether there is more to it than reading can tell.

Invariants
- Every simple command is found: in lists, pipes, substitutions, subshells, function bodies, here-documents.
- When in doubt a script is opaque. Opaque means: what it runs is not wholly written in what is approved.
- What shells read differently, or the grammar reads otherwise than they do, is in doubt: a quote that ends elsewhere
  would hide whatever follows it."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tree_sitter import Node, Parser

PARSED_BYTES = 64 * 1024
MOST_COMMANDS = 500
SHELLS = frozenset({"ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "rbash", "sh", "tcsh", "zsh"})
EVALUATORS = frozenset(
    """
    . alias bind compgen complete coproc enable eval fc mapfile parallel readarray runuser script source su trap watch
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
"""Commands whose arguments are shell text."""
INTERPRETERS = frozenset({"bun", "deno", "lua", "node", "perl", "php", "python", "ruby", "tclsh"})
"""Without a program to run they read one."""

_PLAIN_NAME = pattern(r"[\w./+:@%,=-]+|\[")
_NOT_FILES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})


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
    commands: tuple[SimpleCommand, ...]
    outputs: tuple[Word, ...]
    """Files that something is redirected into."""
    inputs: tuple[Word, ...]
    fed: bool
    """Whether text of the script is the input of one of its commands."""
    opaque: bool


def parse(command: str) -> Script:
    source = command.encode("utf-8", "surrogateescape")
    if len(source) > PARSED_BYTES:
        return Script((), (), (), fed=False, opaque=True)
    root = _parser().parse(source).root_node
    reader = _Reader(source)
    for node in _walk(root):
        reader.read(node)
        if len(reader.commands) > MOST_COMMANDS:
            reader.opaque = True
            break
    return Script(
        tuple(reader.commands),
        tuple(reader.outputs),
        tuple(reader.inputs),
        reader.fed,
        opaque=reader.opaque or root.has_error,
    )


class _Reader:
    def __init__(self, source: bytes) -> None:
        self._source = source
        self.commands: list[SimpleCommand] = []
        self.outputs: list[Word] = []
        self.inputs: list[Word] = []
        self.fed = False
        self.opaque = False

    def read(self, node: Node) -> None:
        self.opaque = self.opaque or self._is_doubtful(node)
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
            case "heredoc_redirect" | "herestring_redirect":
                self.fed = True

    def _is_doubtful(self, node: Node) -> bool:
        """Whether another reader could see something else here."""
        match node.type:
            case "ansi_c_string":
                # In a POSIX shell, a plain quote behind a dollar sign, which a backslash does not keep open.
                return True
            case "expansion":
                # Shells disagree about quotes in there.
                return any(character in self._text(node) for character in "'`\\")
            case "command_substitution" if (text := self._text(node)).startswith("`"):
                # Read twice: what was escaped the first time counts the second time.
                return "\\" in text
            case "comment":
                # Blanks of the grammar that are none to a shell would make it a part of the word before it.
                return _BEFORE_COMMENT.fullmatch(self._source[max(node.start_byte - 2, 0) : node.start_byte]) is None
            case "word" if _LINE_END.search(self._text(node)):
                return True
            case "raw_string" | "string_content" | "word":
                return _SUBSCRIPT.search(self._text(node)) is not None
            case "heredoc_redirect":
                return not self._is_plain_heredoc(node)
            case _:
                return self._has_gap(node)

    def _has_gap(self, node: Node) -> bool:
        """Whether the grammar passed over something that separates what it has joined, or joined what is separate."""
        if node.type in _FREE_TEXT:
            return False
        between = _BLANKS.get(node.type, _SPACE)
        return any(
            between.fullmatch(self._source, before.end_byte, after.start_byte) is None
            for before, after in pairwise(node.children)
        )

    def _is_plain_heredoc(self, node: Node) -> bool:
        """One that ends for every shell where it ends for the grammar, and holds no commands that the grammar misses.
        Words behind the delimiter would be arguments."""
        children = {child.type: child for child in node.children}
        if self._has_gap(node) or not {"heredoc_start", "heredoc_end"} <= children.keys():
            return False
        start, end = children["heredoc_start"], children["heredoc_end"]
        opening = _DELIMITER.fullmatch(self._text(start))
        rest = _REST_OF_LINE.match(self._source, start.end_byte)
        if opening is None or rest is None or any(child.type in _ARGUMENTS for child in node.named_children):
            return False
        *body, indent = self._source[rest.end() : end.start_byte].split(b"\n")
        tabs = b"\t" if "<<-" in children else b""
        delimiter = opening["name"].encode()
        followed = self._source[end.end_byte : end.end_byte + 1]
        if indent.strip(tabs) or self._text(end) != opening["name"] or followed not in (b"", b"\n"):
            return False
        if any(line.strip(b"\t ") == delimiter for line in body):
            return False
        return bool(opening["quote"]) or not any(b"`" in line or line.endswith(b"\\") for line in body)

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
        self.opaque = self.opaque or evaluates(words)

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
        word = Word(self._text(node), self._value(node))
        self.opaque = self.opaque or _SUBSCRIPT.search(word.value or "") is not None
        return word

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
_FREE_TEXT = frozenset({"heredoc_body", "regex", "string"})
_BEFORE_COMMENT = pattern(rb"|[ \t\n;&|()<>`]|[^\\][ \t\n;&|()<>`]", re.DOTALL)
_LINE_END = pattern(r"(?<!\\)\n")
_SPACE = pattern(rb"(?:[ \t\n]|\\\n)*")
_WORDS_APART = pattern(rb"(?:\\\n)*[ \t](?:[ \t]|\\\n)*")
_NOTHING = pattern(b"")
_NO_LINE_END = pattern(rb"(?:[ \t]|\\\n)*")
_BLANKS = {
    **dict.fromkeys(("command", "declaration_command", "unset_command"), _WORDS_APART),
    **dict.fromkeys(("concatenation", "simple_expansion", "variable_assignment"), _NOTHING),
    **dict.fromkeys(("file_redirect", "herestring_redirect", "redirected_statement"), _NO_LINE_END),
}
"""What may stand between the parts of a node that ends with its line."""
_DELIMITER = pattern(r"(?P<quote>['\"]?)(?P<name>[\w.-]+)(?P=quote)", re.ASCII)
# Nothing that could carry the line on, nor a second here-document.
_REST_OF_LINE = pattern(rb"[^'\"`\\(<\n]*\n")
# Where a shell takes text for the name of a variable, it runs the substitutions in its subscript.
_SUBSCRIPT = pattern(r"\[.*(?:\$\(|`)", re.DOTALL)


def evaluates(words: Sequence[Word]) -> bool:
    """Whether this runs text that is not part of the script, or a program whose name cannot be read."""
    if not words:
        return False
    name = words[0].value
    if name is None or _PLAIN_NAME.fullmatch(name) is None:
        return True
    name = name.rpartition("/")[2]
    if name in EVALUATORS:
        return True
    if name in SHELLS:
        # As good as any program while it runs a file; told `-c`, or nothing, it runs text from elsewhere.
        first = next((word.value for word in words[1:] if word.value is None or not word.value.startswith("+")), None)
        return first is None or first.startswith(("-", "/dev/", "/proc/"))
    if is_interpreter(name):
        given = [word.value or "" for word in words[1:]]
        program = next((value for value in given if value == "-" or not value.startswith("-")), None)
        if program is None:
            return not _ABOUT_ITSELF.intersection(given)
        return program == "-" or program.startswith(("/dev/", "/proc/"))
    return False


def is_interpreter(name: str) -> bool:
    """Whatever its version."""
    return name.rstrip("0123456789.") in INTERPRETERS


_ABOUT_ITSELF = frozenset({"--help", "--version", "-V", "-h", "-v"})


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
