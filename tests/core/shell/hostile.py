"""Hostile shell commands, made by the thousand, and real shells that show whether one of them had an effect.

Everything that a generated command could start is `cat`, `echo` or a program that leaves a file behind. There is no
other program on its PATH, it has no input, its output is discarded, its time and the size of its files are limited."""

from __future__ import annotations

import os
import random
import re
import resource
import select
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from holdfast.core.permission.rules import configured
from holdfast.core.shell.approval import approval
from holdfast.core.shell.grammar import parse
from holdfast.schema.permission import Rule

SHELLS = ("dash", "bash")
POSIX_BASH = "sh"
"""What bash is called where it is the system's shell, and then behaves as POSIX says."""
RULES = [Rule(action="bash", resource=pattern, effect="allow") for pattern in ("cat *", "echo *")]
SECONDS = 3.0

RUN = "canary x"
"""What must not happen."""

HARMLESS = [
    "echo 'canary x'",
    'echo "canary x" $x ${x} "${x:-y}" ${x%/*}',
    "echo a && cat f || echo b; cat f | cat & echo c",
    "cat <<E\ncanary x\nE\n",
    "cat <<'E'\n$(canary x) `canary x`\nE\necho a",
    "cat <<-E | cat\n\tcanary $x ${x} \\$(canary x)\n\tE\n",
    "echo \"$(cat <<'E'\ncanary x\nE\n)\"",
    'echo "$(cat f)" $(echo a; cat f) `cat f`',
    "for i in a 'canary x' *; do echo $i \"$i\"; done",
    "if echo a; then cat f; elif cat f; then echo b; else echo c; fi",
    "while echo a | cat x; do cat f; done",
    "case $x in a|b) echo a;; *) cat f;; esac",
    "case 'canary x' in (a) echo a;; (c*) cat f; esac",
    "(echo a; (cat f)) </dev/null; { echo b; } 2>&1",
    "! echo a # canary x\necho b",
    "echo a \\\n  b \\\n  canary x",
    "echo {a,b}.{c,d} {1..3} $((1 + 2)) a[0] *.c ?",
    "cat <(echo a) < <(cat f)",
    "cat <<< 'canary x' 2>/dev/null >/dev/null",
    "echo \\; canary x \\& canary x \\| canary x \\$\\(canary x",
    "echo $ $? $# $@ $* $$ $! $- $1 ${#x}",
    "echo a &>/dev/null; echo b &>>/dev/null",
    "echo it''s \"it's\" 'a\"b' a\\'b",
]
"""Accepted forms, with the name of the program where it is only text."""
HOSTILE = [
    "cat <<E\n x $(canary x)\nE",
    "cat <<E\n${x:-$(canary x)}\nE",
    "cat <<E\n$((x[`canary x`]))\nE",
    "cat <<E'\n'\ncanary x\nE",
    "cat <<E;canary x\nE",
    "cat <<E\nE\ncanary x",
    "cat <<\\E\nE\ncanary x",
    "echo $(( '$(canary x)' ))",
    "echo $((x[$(canary x)]))",
    "echo ${x:-<(canary x)}",
    "echo ${x-`canary x`} ${x+$(canary x)}",
    "echo ${HOME:+<(canary x)} ${HOME/<(canary x)/} ${HOME%%<(canary x)}",
    "for x in '$(canary x)'; do echo ${x@P}; done",
    "for x in '$(canary x)'; do echo {,$}{x@P}; done",
    "for x in 'a[$(canary x)]'; do echo $((x)) ${!x}; done",
    "for x in 'a[$'; do for y in '(canary x)]'; do echo $(($x$y)) $[$x$y]; done; done",
    "for PATH in ./evil; do cat f; done",
    "for IFS in a; do echo $x; done",
    "echo {PATH}>/dev/null; cat f",
    "echo {PATH[0]}>/dev/null; cat f",
    "echo ${PATH:=x} ${PATH=./evil}; cat f",
    "PATH=./evil cat f",
    "PATH=./evil; cat f",
    "export PATH=./evil; cat f",
    "echo a &>/dev/null canary x",
    "echo a; [[ x || canary x ]]",
    "echo a; [[ x > made ]]",
    "echo; [[ 'a[$(canary x)]' -eq 1 ]]; [ -v 'a[$(canary x)]' ]; test -v 'a[$(canary x)]'",
    "echo; ((x['$(canary x)']))",
    "for ((i=x['$(canary x)'];;)); do echo; done",
    "echo $[x['$(canary x)']] $[ `canary x` ]",
    "a[$(canary x)]=1 echo a; x=(`canary x`)",
    "echo $'\\'; canary x #'",
    'echo "${x:-\'}"; canary x #\'}"',
    'echo $"a"`canary x`',
    "echo `echo \\`canary x\\``",
    'echo "`echo \\"\\`canary x\\`\\"`"',
    "echo $\\\n(canary x)",
    'echo "$\\\n(canary x)"',
    "echo\\\n a; ca\\\nnary x",
    "cat() { canary x; }; cat f",
    "echo () { canary x; }; echo a",
    "function cat { canary x; }; cat f",
    "alias cat='canary x'\ncat f",
    "trap 'canary x' EXIT; echo a",
    "eval 'canary x'; echo a",
    "coproc canary x; echo a",
    "time canary x; time { canary x; }",
    "select x in a; do canary x; done",
    "! canary x",
    "echo a > made; echo a >> made; cat <> made; echo >| made",
    "echo a >&made; echo a &>made; cat f 2>made",
    "echo a | (canary x); { canary x; }; if canary x; then echo; fi",
    "case $(canary x) in a) echo;; esac",
    "case a in a) echo;; $(canary x)) echo;; esac",
    "for i in `canary x`; do echo; done",
    "echo a <(canary x) >(canary x)",
    "cat < <(canary x)",
    "echo ~$(canary x) a{b,$(canary x)}",
    "echo a\rcanary x\n\rcanary x",
    "echo a\x0bcanary x\x0c; canary x",
    "echo a\u00a0;canary x\u2028canary x\u0085canary x",
    "#\\\ncanary x",
    "echo a#b; canary x #c",
    "echo !! !canary ^a^b; canary x",
    "exec canary x; echo",
    "command canary x; builtin echo; env canary x",
    "echo @(a|b) !(a) +(canary x); echo",
    "echo ${x//a/$(canary x)} ${x:$(canary x)} ${x:0:`canary x`}",
    'echo "$(echo "$(canary x)")" \'$(canary x)\'',
    "if echo; then echo; fi; canary x",
    "{ echo; } canary x",
    "echo a;; canary x",
    "echo a |& canary x",
    "cat 12>/dev/null x; echo 12>&1",
]
"""Forms that must be asked about."""
SEEDS = HARMLESS + HOSTILE
PIECES = [
    RUN,
    *(
        "echo",
        "cat",
        "x",
        "a=",
        "E",
        "f",
        " ",
        "  ",
        ";",
        "\n",
        "|",
        "||",
        "&&",
        "&",
        "#",
        " #",
        "!",
        "! ",
        "=",
        ",",
        "~",
    ),
    *("'", '"', "\\", "`", "$", "$(", ")", "(", "{ ", "; }", "{", "}", "${x:-", "${x%", "${x", "${", "$'", '$"', "$$"),
    *("\\\n", " \\\n", "\r", "\t", "\x0b", "\u00a0", "[[ ", " ]]", "[ ", " ]", "[", "]", "((", "))", "$((", "$["),
    *(
        "=~",
        "-eq",
        "-v",
        "<<<",
        "<",
        "<>",
        "<&",
        ">&",
        "2>&1",
        ">/dev/null",
        "&>/dev/null",
        "<(",
        ">(",
        "x=(",
        "x[",
        "x=1 ",
    ),
    *("cat <<E", "cat <<-E", "cat <<'E'", '<<"E"', "<<\\E", "\nE\n", "\n\tE\n", "\nE;\n", "\n E\n", "E)"),
    *(
        "if echo; then ",
        "; fi",
        "for i in x; do ",
        "for x in '",
        "; done",
        "case x in x) ",
        ";;",
        " esac",
        "else ",
        "do ",
    ),
    *(
        "echo ",
        "cat ",
        "echo a",
        "cat f",
        "echo $x",
        'echo "',
        "echo '",
        "$x",
        "${x}",
        '"$x"',
        "$(echo ",
        "`echo ",
        "*",
        "?",
    ),
    *(
        "{a,b}",
        "{,$}",
        "{x@P}",
        "${x@P}",
        "${!x}",
        "{PATH}>",
        "PATH=./evil ",
        "for PATH in ./evil",
        "in ",
        "then ",
        "time ",
    ),
    *(
        "function ",
        "coproc ",
        "eval ",
        "trap ",
        "f()",
        "cat()",
        "[0]",
        "1",
        "12>",
        "2>",
        "\\'",
        '\\"',
        "\\`",
        "\\$(",
        "''",
    ),
]

JOINTS = (
    " ",
    "; ",
    "\n",
    " | ",
    " && ",
    " & ",
    "",
    ")",
    ") ",
    '"',
    "'",
    "\nE\n",
    "}",
    " }",
    "; }",
    "; fi; ",
    "; done; ",
)
NAMES = (*("echo", "cat") * 8, "ec\\ho", '"cat"', RUN)
COMPOUNDS = (
    *(
        "@; @",
        "@\n@",
        "@ | @",
        "@ && @",
        "@ || @",
        "@ & @",
        "(@)",
        "{ @; }",
        "( (@); @ )",
        "! @",
        "@ </dev/null",
        "@ 2>&1",
    ),
    *("if @; then @; fi", "if @\nthen @\nelse @\nfi", "for i in a 'b c'; do @; done", "case $x in a) @;; *) @;; esac"),
    *(
        "@ <<E\ntext $x ' \"\nE\n@",
        "@ <<'E'; @\n$(canary x) '\nE\n@",
        "@ <<-E | @\n\t$(@)\n\tE",
        "@ # '\n@",
        "@ \\\n @",
    ),
)
WORD_PARTS = (
    *(
        "a",
        "f",
        "-n",
        "'canary x'",
        "'$(canary x)'",
        "'`canary x`'",
        '"canary x"',
        "'\"'",
        '"\'"',
        "\\'",
        '\\"',
        "\\`",
        "\\$",
    ),
    *("$x", '"$x"', "${x}", '"${x:-y}"', "${x%/*}", "$(@)", '"$(@)"', '"a $(@) b"', "<(@)", "`@`", "$((1+2))", "{a,b}"),
    *(
        "*",
        "?",
        "[a]",
        "#",
        "a#b",
        "!",
        "=",
        "a=b",
        "~",
        "$",
        "$$",
        "$?",
        "x[0]",
        "''",
        '""',
        "\\;",
        "\\&",
        "\\|",
        "\\\\",
        "é",
        "'é'",
    ),
)
_PART = re.compile("@")


def generated(seed: int, count: int) -> Iterator[str]:
    """Always the same commands for the same seed; the seeds themselves come first."""
    yield from SEEDS[:count]
    chance = random.Random(seed)
    for _ in range(count - len(SEEDS)):
        match chance.randrange(8):
            case 0:
                yield "".join(chance.choices(PIECES, k=chance.randint(1, 12)))
            case 1:
                first, second = chance.choice(SEEDS), chance.choice(SEEDS)
                yield first[: chance.randint(0, len(first))] + second[chance.randint(0, len(second)) :]
            case 2:
                # What one of them leaves open, the next may close.
                first, second = _mutated(chance, HARMLESS, 1), _mutated(chance, SEEDS, 1)
                yield first + chance.choice(JOINTS) + second
            case 3:
                yield _nested(chance, 4)
            case 4:
                yield _mutated(chance, [_nested(chance, 3)], 2)
            case 5:
                yield _mutated(chance, HOSTILE, 3)
            case _:
                yield _mutated(chance, HARMLESS, 3)


def _mutated(chance: random.Random, seeds: list[str], most: int) -> str:
    text = chance.choice(seeds)
    for _ in range(chance.randint(1, most)):
        start = chance.randint(0, len(text))
        end = min(len(text), start + chance.choice((0, 0, 0, 1, 1, 2, 5)))
        text = text[:start] + chance.choice((*PIECES, "", "")) + text[end:]
    return text


def _nested(chance: random.Random, depth: int) -> str:
    """Commands by a grammar of their own, most of them harmless."""
    if depth == 0 or chance.random() < 0.3:
        words = " ".join(_word(chance, depth) for _ in range(chance.randint(0, 3)))
        return f"{chance.choice(NAMES)} {words}"
    parts = iter([_nested(chance, depth - 1) for _ in range(4)])
    return _PART.sub(lambda _: next(parts), chance.choice(COMPOUNDS))


def _word(chance: random.Random, depth: int) -> str:
    word = "".join(chance.choice(WORD_PARTS) for _ in range(chance.randint(1, 3)))
    return _PART.sub(lambda _: _nested(chance, max(depth - 2, 0)), word)


def runs_unasked(command: str) -> bool:
    return configured(RULES, "bash", approval(parse(command)).resources) == "allow"


class Yard:
    """A directory to run commands in, which notices what they leave behind. It must be the working directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ran = 0
        programs = folder / "bin"
        made = folder / "made"
        self._made = made
        self.directory = folder / "yard"
        self._environment = {
            "PATH": str(programs),
            "HOME": str(self.directory),
            "CANARY": str(made),
            # In bash, also a program that does not exist is noticed.
            "BASH_FUNC_command_not_found_handle%%": '() { : > "$CANARY"; }',
        }
        names = {word for piece in (*PIECES, *SEEDS) for word in piece.replace("(", " ").split() if word.isalnum()}
        for path in (*(programs / name for name in names), *(self.directory / name / "cat" for name in ("evil", "10"))):
            _write_program(path, ': > "$CANARY"')
        expected = f"{self._environment['PATH']}:{self._environment['HOME']}::"
        check = f'[ "$PATH:$HOME:${{LD_PRELOAD-}}:${{x-}}" = "{expected}" ] || : > "$CANARY"'
        _write_program(programs / "cat", f'{check}\nexec /bin/cat "$@"')
        (programs / "echo").unlink()
        (programs / "echo").symlink_to("/bin/echo")
        (self.directory / "f").write_text("text\n", encoding="utf-8")
        self._before = self._state()

    def has_effect(self, command: str, shell: str) -> bool:
        self.ran += 1
        self._execute(shell, command)
        if self._state() == self._before:
            return False
        self._clean()
        return True

    def _execute(self, shell: str, command: str) -> None:
        nothing = ((os.POSIX_SPAWN_OPEN, number, "/dev/null", os.O_RDWR, 0) for number in range(3))
        arguments = (shell, "-c", command.encode("utf-8", "surrogateescape"))
        path = "/bin/bash" if shell == POSIX_BASH else f"/bin/{shell}"
        process = os.posix_spawn(path, arguments, self._environment, file_actions=[*nothing], setsid=True)
        resource.prlimit(process, resource.RLIMIT_CPU, (2, 2))
        resource.prlimit(process, resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        handle = os.pidfd_open(process)
        ready, _, _ = select.select([handle], [], [], SECONDS)
        if not ready:
            os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(handle)
        _end_group(process)

    def _state(self) -> list[tuple[str, int, int]]:
        entries = [self._made, *self.directory.iterdir()] if self._made.exists() else self.directory.iterdir()
        return sorted((path.name, (found := path.stat()).st_size, found.st_mtime_ns) for path in entries)

    def _clean(self) -> None:
        self._made.unlink(missing_ok=True)
        for path in self.directory.iterdir():
            if path.name not in {name for name, _, _ in self._before}:
                path.unlink()
        self._before = self._state()


def _end_group(leader: int) -> None:
    """What was started in the background gets a moment to show what it does."""
    deadline = time.monotonic() + 0.1
    with suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(leader, 0)
            time.sleep(0.001)
        os.killpg(leader, signal.SIGKILL)


def _write_program(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/dash\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
