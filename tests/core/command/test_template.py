"""What a template becomes."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from holdfast.core.command.template import INSERT_CHARACTERS, MOST_SHELL_COMMANDS, Template
from holdfast.core.tool.tool import ToolFailure

pytestmark = pytest.mark.anyio


class Shell:
    """Answers with the command in angle brackets."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    async def __call__(self, command: str) -> str:
        self.ran.append(command)
        if command.startswith("deny"):
            raise ToolFailure("Permission denied")
        return f"<{command}>"


@pytest.mark.parametrize(
    ("template", "arguments", "text"),
    [
        ("do $ARGUMENTS now", "a  'b c'", "do a  'b c' now"),
        ("$1-$2", "a 'b c'", "a-b c"),
        ("$1-$2", "a b c d", "a-b c d"),
        ("$2 $1", "a b c", "b c a"),
        ("$1", "a b", "a b"),
        ("$3", "a b c d", "c d"),
        ("[$1][$2]", "a", "[a][]"),
        ("[$1]", "", "[]"),
        ("$1 and $1", "a", "a and a"),
        ("plain", "more words", "plain\n\nmore words"),
        ("plain", "  ", "plain"),
        ("plain", "", "plain"),
        ("", "x", "\n\nx"),
        ("costs $100 and $0, $ARGUMENTSX", "a", "costs $100 and $0, $ARGUMENTSX\n\na"),
        ("[$10] [$11]", "1 2 3 4 5 6 7 8 9 ten eleven twelve", "[ten] [eleven twelve]"),
        ("$1|$2", '"a \'b" c\\ d', "a 'b|c d"),
        ("$1|$2", "'' b", "|b"),
        ("$1|$2", '"open a', '"open|a'),
        ("$1|$2", "a b\\", "a|b\\"),
        ("$1", "it's", "it's"),
        ("$ARGUMENTS", "$1 $ARGUMENTS !`rm` @x", "$1 $ARGUMENTS !`rm` @x"),
        ("$1 $2", "$2 $1", "$2 $1"),
    ],
)
async def test_the_last_numbered_place_of_a_template_takes_the_remaining_arguments(
    template: str, arguments: str, text: str
) -> None:
    """CAT-079: the last numbered place takes the rest, missing ones are empty, nothing is read twice."""
    shell = Shell()
    assert (await Template(template).expand(arguments, shell)).text == text
    assert shell.ran == []


async def test_shell_commands_of_the_template_are_run() -> None:
    """CAT-080: in order, their output inserted; never one that stands in an argument or in an output."""
    shell = Shell()
    expanded = await Template("a !`git status` b !`echo '!`x`'` $1").expand("!`evil`", shell)
    assert shell.ran == ["git status", "echo '!"]
    assert expanded.text == "a <git status> b <echo '!>x`'` !`evil`"


async def test_arguments_in_a_shell_command_are_single_words() -> None:
    """CAT-079, CAT-080: they cannot become another command."""
    shell = Shell()
    await Template("!`git log $1` !`grep $ARGUMENTS`").expand("'; rm -rf /' $(evil)", shell)
    assert shell.ran == ["""git log '; rm -rf /' '$(evil)'""", """grep '; rm -rf /' '$(evil)'"""]


@pytest.mark.parametrize("argument", ["plain", "$(touch made)", "'; touch made; '", '"; touch made; "', "a'b\"c\\\\d"])
@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("printf '[%s]' $1", "[{}]"),
        ("printf '[%s]' '$1'", "[{}]"),
        ("printf '[%s]' \"$1\"", "[{}]"),
        ("printf '[%s]' a\"b $1 c\"d", "[ab {} cd]"),
        ("printf '[%s]' \"$(printf %s '$1')\"", "[{}]"),
        ("printf '[%s]' \"$(printf %s \"$1\")\" '$1'", "[{}][{}]"),
        ("printf '[%s]' \"it's ($1)\"", "[it's ({})]"),
        ("printf '[%s]' \\' $1", "['][{}]"),
        ("printf '[%s]' \"$ARGUMENTS\"", "[{}]"),
    ],
)
async def test_an_argument_stays_one_inside_quotes_of_the_template(
    tmp_path: Path, argument: str, template: str, words: str
) -> None:
    """CAT-079, CAT-080: a real shell reads it back as it was, whatever quotes it stands in, and runs nothing of it."""
    shell = Shell()
    given = argument if "ARGUMENTS" in template else shlex.quote(argument)
    await Template(f"!`{template}`").expand(given, shell)
    assert _said(shell.ran[0], tmp_path) == words.replace("{}", argument)
    assert list(tmp_path.iterdir()) == []


def _said(command: str, folder: Path) -> str:
    return subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=True).stdout


async def test_a_denied_command_leaves_a_note_and_output_is_bounded() -> None:
    """CAT-080."""

    async def large(command: str) -> str:
        return "x" * (INSERT_CHARACTERS + 1)

    assert (await Template("a !`deny it` b").expand("", Shell())).text == (
        "a [`deny it` was not run: Permission denied] b"
    )
    cut = (await Template("!`x`").expand("", large)).text
    assert cut.startswith("x" * INSERT_CHARACTERS + "\n[")
    shell = Shell()
    await Template("!`x`" * (MOST_SHELL_COMMANDS + 5)).expand("", shell)
    assert len(shell.ran) == MOST_SHELL_COMMANDS


async def test_a_command_with_many_placeholders_takes_linear_time() -> None:
    """CAT-227: a file of a repository must not hold up everything else; quadratic, this takes minutes."""
    shell = Shell()
    await Template("!`" + "$1 " * 20_000 + "`").expand("a", shell)
    assert shell.ran == ["a " * 20_000]


async def test_the_parts_of_the_text_are_known() -> None:
    """CAT-230: what arguments gave, and what commands wrote or would have written."""
    expanded = await Template("See @$1 and $2: !`deny it`, !`cat @no` @b.py").expand("a.py 'x y'", Shell())
    parts = {
        name: [expanded.text[start:end] for start, end in getattr(expanded, name)] for name in ("arguments", "output")
    }
    assert parts["arguments"] == ["a.py", "x y"]
    assert parts["output"] == ["[`deny it` was not run: Permission denied]", (await Shell()("cat @no"))]
    appended = await Template("Fix it.").expand("@a.py", Shell())
    assert (appended.text, appended.arguments) == ("Fix it.\n\n@a.py", ((9, 14),))
