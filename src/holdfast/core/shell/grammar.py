"""Parses a shell command into its simple commands, redirections, and whether it may do more than these show.

The grammar covers only the part of the language that dash and bash parse alike. Any other text makes the script opaque.

Invariants
- Unless a script is opaque, every simple command that a shell would run is in `commands`, every file that a redirection
  would open is in `outputs` or `inputs`, and nothing else sets a variable that affects shells or programs.
- Text above a limit is opaque. Parsing takes linear time."""

from __future__ import annotations

from holdfast.core.shell.evaluators import evaluates, has_subscript
from holdfast.core.shell.guess import guessed_commands
from holdfast.core.shell.script import Script, SimpleCommand, Word
from holdfast.core.shell.variables import decides_what_runs
from holdfast.core.shell.words import Cursor, Unclear, WordReader
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

LONGEST_BYTES = 8 * 1024
MOST_COMMANDS = 200
DEEPEST = 16
LOOP_VARIABLES = frozenset(
    """
    a arg b branch c commit d dir e entry f file filename folder g h host i id idx index item j k key l line m module n
    name num number o p package pkg port q r repo s size step t tag target test token u url user v val value var version
    w word x y z
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
"""Variable names that no shell or program interprets. A `for` loop may only set these: setting `PATH`, for example,
would change which programs run."""


def parse(command: str) -> Script:
    if len(command) > LONGEST_BYTES or len(command.encode("utf-8", "surrogatepass")) > LONGEST_BYTES:
        return Script(command, tuple(guessed_commands(command, MOST_COMMANDS)), opaque=True)
    found = _ScriptParts()
    parser = _Parser(Cursor(command), found)
    try:
        if _UNREADABLE.search(command) is not None:
            raise Unclear
        parser.commands("")
    except Unclear:
        found.opaque = True
        found.commands += guessed_commands(command[parser.begun :], MOST_COMMANDS - len(found.commands))
    return Script(
        command,
        tuple(found.commands),
        tuple(found.outputs),
        tuple(found.inputs),
        found.has_inline_input,
        opaque=found.opaque or any(map(_is_opaque, found.commands)),
    )


def _is_opaque(command: SimpleCommand) -> bool:
    if any(decides_what_runs(word.source) for word in command.assignments):
        return True
    return evaluates(command.words) or any(has_subscript(word.value or "") for word in command.words)


class _ScriptParts:
    def __init__(self) -> None:
        self.commands: list[SimpleCommand] = []
        self.outputs: list[Word] = []
        self.inputs: list[Word] = []
        self.has_inline_input = False
        self.opaque = False


class _HereDocument(Frozen):
    delimiter: str
    quoted: bool
    indented: bool


class _Parser:
    def __init__(self, cursor: Cursor, found: _ScriptParts, level: int = 0, *, nested: bool = False) -> None:
        """`nested`: inside a substitution, whose end older shells find without parsing it."""
        self._cursor = cursor
        self._found = found
        self._level = level
        self._nested = nested
        self._words = WordReader(cursor, self._read_substitution)
        self._heredoc: _HereDocument | None = None
        self.begun = 0
        """The start of the last simple command."""

    def commands(self, *ends: str) -> str:
        """Read commands up to the first of `ends`, consume it and return it. An empty string is the end of the text."""
        self._level += 1
        if self._level > DEEPEST:
            raise Unclear
        end = self._read_to_end(ends)
        self._level -= 1
        return end

    def _read_to_end(self, ends: tuple[str, ...]) -> str:
        cursor = self._cursor
        while True:
            self._skip_separators()
            if (reserved := cursor.take(_RESERVED)) is not None:
                if reserved[0] in ends:
                    return reserved[0]
                self._compound(reserved[0])
                continue
            match cursor.peek():
                case "" | ")" as end:
                    if end not in ends or (self._heredoc is not None and (self._nested or not end)):
                        raise Unclear
                    cursor.position += len(end)
                    return end
                case ";" if ";;" in ends and cursor.take(_CASE_END) is not None:
                    return ";;"
                case "(":
                    self._subshell()
                case _:
                    self._simple()

    def _skip_separators(self) -> None:
        """All separators are treated alike: what follows may or may not run."""
        cursor = self._cursor
        while True:
            self._skip_lines()
            if cursor.take(_BOTH_OUTPUTS) is not None:
                self._redirect_both()
            elif cursor.take(_SEPARATOR) is None:
                return

    def _skip_lines(self) -> None:
        cursor = self._cursor
        while True:
            cursor.take(_BLANKS)
            match cursor.peek():
                case "\n":
                    cursor.position += 1
                    if self._heredoc is not None:
                        self._read_heredoc(self._heredoc)
                        self._heredoc = None
                case "#" if not self._nested:
                    cursor.take(_COMMENT)
                case _:
                    return

    def _redirect_both(self) -> None:
        """`&>file` redirects both outputs in bash. In dash `&` ends the command, and words after the file are the next
        command."""
        self._cursor.take(_BLANKS)
        self._add_output(self._words.read())
        self._expect_command_end()

    def _expect_command_end(self) -> None:
        self._cursor.take(_BLANKS)
        if self._cursor.peek() not in _COMMAND_END:
            raise Unclear

    def _compound(self, reserved: str) -> None:
        match reserved:
            case "!":
                return
            case "if":
                self.commands("then")
                while (end := self.commands("elif", "else", "fi")) == "elif":
                    self.commands("then")
                if end == "else":
                    self.commands("fi")
            case "while" | "until":
                self.commands("do")
                self.commands("done")
            case "for":
                self._for()
            case "case" if not self._nested:
                self._case()
            case "{":
                self.commands("}")
            case _:
                raise Unclear
        self._after_compound()

    def _subshell(self) -> None:
        self._cursor.position += 1
        if self._cursor.peek() == "(":
            raise Unclear  # some shells read it as arithmetic
        self.commands(")")
        self._after_compound()

    def _for(self) -> None:
        cursor = self._cursor
        head = cursor.take(_FOR)
        if head is None or head[1] not in LOOP_VARIABLES:
            raise Unclear
        while cursor.take(_BLANKS) is not None and cursor.peek() not in ("\n", ";"):
            self._words.read()
        self.commands("do")
        self.commands("done")

    def _case(self) -> None:
        cursor = self._cursor
        cursor.take(_BLANKS)
        self._words.read()
        self._skip_lines()
        if cursor.take(_IN) is None:
            raise Unclear
        while True:
            self._skip_lines()
            if cursor.take(_ESAC) is not None:
                return
            cursor.take(_OPEN_PATTERN)
            self._words.read()
            while cursor.take(_NEXT_PATTERN) is not None:
                self._words.read()
            if cursor.take(_CLOSE_PATTERN) is None:
                raise Unclear
            if self.commands(";;", "esac") == "esac":
                return

    def _after_compound(self) -> None:
        self._cursor.take(_BLANKS)
        while self._redirection():
            self._cursor.take(_BLANKS)
        self._expect_command_end()

    def _simple(self) -> None:
        cursor, found = self._cursor, self._found
        self.begun = start = cursor.position
        place = len(found.commands)
        assignments: list[Word] = []
        words: list[Word] = []
        end, whole = start, True
        while cursor.take(_BLANKS) is not None and cursor.peek() not in _COMMAND_END:
            position = cursor.position
            if self._redirection():
                continue
            word = self._words.read()
            if cursor.text[position] in "<>" and cursor.text[position - 1 : position] not in (" ", "\t", ""):
                raise Unclear
            whole = whole and _BLANKS.fullmatch(cursor.text, end, position) is not None
            end = cursor.position
            if words or _ASSIGNMENT.match(word.source) is None:
                words.append(word)
            else:
                assignments.append(word)
            if len(words) < 2 and _ELEMENT.match(word.source) is not None:
                raise Unclear
        if cursor.position == start:
            raise Unclear
        if not (assignments or words):
            return
        source = cursor.text[start:end] if whole else " ".join(word.source for word in (*assignments, *words))
        found.commands.insert(place, SimpleCommand(source, tuple(assignments), tuple(words)))
        if len(found.commands) > MOST_COMMANDS:
            raise Unclear

    def _redirection(self) -> bool:
        cursor = self._cursor
        redirection = cursor.take(_REDIRECTION)
        if redirection is None:
            if cursor.take(_DESCRIPTOR) is not None:
                raise Unclear  # dash reads a number with two digits as an argument
            return False
        operator = redirection[1]
        cursor.take(_BLANKS)
        if operator in ("<<", "<<-"):
            self._begin_heredoc(indented=operator == "<<-")
            return True
        target = self._words.read()
        if operator == "<<<":
            self._found.has_inline_input = True
        elif operator in ("<&", ">&") and _OPEN_DESCRIPTOR.fullmatch(target.source) is not None:
            pass
        elif operator in ("<", "<&"):
            self._found.inputs.append(target)
        else:
            self._add_output(target)
        return True

    def _add_output(self, target: Word) -> None:
        if target.value not in _NOT_FILES:
            self._found.outputs.append(target)

    def _read_substitution(self, cursor: Cursor) -> None:
        _Parser(cursor, self._found, self._level, nested=True).commands(")")

    def _begin_heredoc(self, *, indented: bool) -> None:
        delimiter = self._cursor.take(_DELIMITER)
        rest = _REST_OF_LINE.match(self._cursor.text, self._cursor.position)
        if delimiter is None or rest is None or (self._nested and (not delimiter[1] or ")" in rest[0])):
            raise Unclear
        self._found.has_inline_input = True
        self._heredoc = _HereDocument(delimiter[2], bool(delimiter[1]), indented)

    def _read_heredoc(self, heredoc: _HereDocument) -> None:
        cursor = self._cursor
        while (line := cursor.take(_LINE)) is not None:
            text = line[1].lstrip("\t") if heredoc.indented else line[1]
            if text == heredoc.delimiter:
                return
            if not line[0].endswith("\n") or line[1].strip("\t ") == heredoc.delimiter:
                raise Unclear
            if not heredoc.quoted:
                WordReader(Cursor(line[1]), self._read_substitution).read_quoted("")
            elif self._nested and (_MARKED.search(line[1]) or text.startswith(heredoc.delimiter)):
                raise Unclear
        raise Unclear


_NOT_FILES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_COMMAND_END = frozenset(("", "\n", ";", "&", "|", ")", "#"))
# Control characters, surrogates, and sequences that a shell in another encoding would read as one character.
_UNREADABLE = pattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]|[^\x00-\x7f][\\`]")
# A line continuation separates words only after a blank; elsewhere it joins them.
_BLANKS = pattern(r"(?:[ \t]+(?:\\\n|[ \t])*+)?")
_COMMENT = pattern(r"#[^\n]*+")
_SEPARATOR = pattern(r"&&|\|\||\|(?!&)|&|;(?![;&])")
_BOTH_OUTPUTS = pattern(r"&>>?")
_RESERVED = pattern(
    r"(?:if|then|elif|else|fi|while|until|for|do|done|case|esac|select|function|coproc|repeat|foreach|\[\[|\})"
    r"(?![^ \t\n;&|()<>])|[{!](?=[ \t\n])"
)
_FOR = pattern(r"[ \t]+([A-Za-z]+)[ \t]+in(?=[ \t\n;])")
_IN = pattern(r"in(?=[ \t\n])")
_ESAC = pattern(r"esac(?![^ \t\n;&|()<>])")
_CASE_END = pattern(r";;(?![;&])")
_OPEN_PATTERN = pattern(r"(?:\([ \t]*+(?!esac))?")
_NEXT_PATTERN = pattern(r"[ \t]*+\|[ \t]*+")
_CLOSE_PATTERN = pattern(r"[ \t]*+\)")
_ASSIGNMENT = pattern(r"[A-Za-z_][A-Za-z0-9_]*+\+?=")
# `name[subscript]=value`: the subscript is evaluated.
_ELEMENT = pattern(r"[A-Za-z_][A-Za-z0-9_]*+\[")
_REDIRECTION = pattern(r"[0-9]?(<<<|<<-|<<|<>|<&|<(?!\()|>>|>&|>\||>(?!\())")
_DESCRIPTOR = pattern(r"[0-9]+(?=[<>])")
_OPEN_DESCRIPTOR = pattern(r"[0-9]|-")
_DELIMITER = pattern(r"(['\"]?)([A-Za-z0-9_][A-Za-z0-9_.-]*+)\1(?![^ \t\n;&|)<>])")
# No quote or escape that could continue the line, and no second here-document.
_REST_OF_LINE = pattern(r"[^'\"`\\(<#\n]*+\n")
_LINE = pattern(r"([^\n]*+)(?:\n|(?<=[^\n])\Z)")
# Characters that matter to shells that find the end of a substitution without parsing it.
_MARKED = pattern(r"['\"`()\\]")
