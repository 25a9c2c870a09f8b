"""What must be allowed for a command: each simple command in it, and nothing hidden by how it is written."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.core.shell.hostile import HARMLESS, HOSTILE, runs_unasked

from holdfast.core.permission.rules import effective, evaluate, whole_of
from holdfast.core.shell.approval import MOST_CHARACTERS, MOST_RESOURCES, OPAQUE, Approval
from holdfast.core.shell.approval import approval as approval_of
from holdfast.core.shell.arity import arity
from holdfast.core.shell.grammar import DEEPEST, LONGEST_BYTES, parse
from holdfast.core.shell.references import external_directories
from holdfast.schema.permission import Effect, Rule, SavedApproval


def approval(command: str) -> Approval:
    return approval_of(parse(command))


def rules(*allowed: str) -> list[Rule]:
    return [Rule(action="bash", resource=resource, effect="allow") for resource in allowed]


def allowed(command: str, *patterns: str) -> bool:
    return all(evaluate(rules(*patterns), "bash", resource) == "allow" for resource in approval(command).resources)


def denied(command: str, pattern: str) -> bool:
    given = [*rules("*"), Rule(action="bash", resource=pattern, effect="deny")]
    return any(evaluate(given, "bash", resource) == "deny" for resource in approval(command).resources)


def effect_of_saved(command: str, *saved: str, rules: Sequence[Rule] = ()) -> Effect:
    """What becomes of the command when these patterns were approved for good."""
    resources, save = approval(command)
    approvals = [SavedApproval(id="psv_1", project_id="p", action="bash", resource=pattern) for pattern in saved]
    return effective(rules, approvals, "bash", resources, whole=whole_of("bash", save))


@pytest.mark.parametrize(
    ("command", "resources"),
    [
        ("git status", ("git status",)),
        ("git status; rm -rf ~", ("git status", "rm -rf ~")),
        ("git status && make test || echo no", ("git status", "make test", "echo no")),
        ("cat a | sort -u | head -1", ("cat a", "sort -u", "head -1")),
        ("git log & rm x", ("git log", "rm x")),
        ("git log\nrm x", ("git log", "rm x")),
        ('echo "$(rm x)"', ('echo "$(rm x)"', "rm x")),
        ("echo `rm x`", ("echo `rm x`", "rm x")),
        ("(cd a && rm x)", ("cd a", "rm x")),
        ("{ rm x; }", ("rm x",)),
        ("diff <(ls a) <(rm b)", ("diff <(ls a) <(rm b)", "ls a", "rm b")),
        ("if test -f a; then rm a; fi", ("test -f a", "rm a")),
        ("for i in a b; do rm $i; done", ("rm $i",)),
        ("case $x in a) rm b;; esac", ("rm b",)),
        ("while read x; do rm $x; done < list", ("read x", "rm $x")),
        ("! rm x", ("rm x",)),
        ("cat <<EOF\n$(rm x)\nEOF", ("cat", "rm x")),
        ("a=$(rm x)", ("a=$(rm x)", "rm x")),
        ("export A=1", ("export A=1",)),
        ("git log 2>&1 >/dev/null", ("git log",)),
        ("git log >/dev/null -1 x", ("git log -1 x",)),
        ("git status - <<EOF\nx\nEOF", ("git status -",)),
        ("git log <list", ("git log",)),
        ("git log < /dev/tcp/127.0.0.1/9", ("git log", "< /dev/tcp/127.0.0.1/9")),
        ("git log < $x", ("git log", "< $x")),
        ("git commit -m \"$(cat <<'E'\nwords\nE\n)\"", ("git commit -m \"$(cat <<'E'\nwords\nE\n)\"", "cat")),
        ("git log > out", ("git log", "> out")),
        ("git log &>> 'the log'", ("git log", "> 'the log'")),
        ("X=1 git log", ("X=1 git log", "git log")),
        ('"git"  log', ('"git"  log', "git log")),
        ("/usr/bin/git log", ("/usr/bin/git log", "git log")),
        ("sudo rm x", ("sudo rm x", "rm x")),
        (
            "env A=1 nice timeout 5 rm x",
            ("env A=1 nice timeout 5 rm x", "nice timeout 5 rm x", "timeout 5 rm x", "rm x"),
        ),
        ("ls | xargs rm", ("ls", "xargs rm", "rm")),
        ("find . -name a -exec rm {} \\;", ("find . -name a -exec rm {} \\;", "rm {}")),
    ],
)
def test_every_simple_command_is_a_resource(command: str, resources: tuple[str, ...]) -> None:
    """TOL-224: wherever it stands; beside it what it is redirected into and its plain form."""
    assert approval(command).resources == resources


@pytest.mark.parametrize(
    "command",
    [
        "git status; rm -rf ~",
        "git status\nrm -rf ~",
        "git status & rm -rf ~",
        "git status && rm -rf ~",
        "git status || rm -rf ~",
        "git status | rm -rf ~",
        "git status $(rm -rf ~)",
        "git status `rm -rf ~`",
        'git status "$(rm -rf ~)"',
        "git status <(rm -rf ~)",
        "git status > ~/.bashrc",
        "git status >> ~/.bashrc",
        "git status >| ~/.bashrc",
        "git() { rm -rf ~; }; git status",
        "PATH=/tmp git status",
        "PATH=/tmp; git status",
        "export PATH=/tmp; git status",
        "alias git='rm -rf ~'; git status",
        "trap 'rm -rf ~' EXIT; git status",
        "git status; eval 'rm -rf ~'",
        "git status; . ./evil",
        "git status | sh",
        "git status | bash -s",
        "git status; $X",
        "git status; $(echo rm) -rf ~",
        "git status; r? -rf ~",
        "git status; {rm,-rf,~}",
        "git status; $'rm' -rf ~",
        "git status <<EOF | sh\nrm -rf ~\nEOF",
        "bash <<EOF\nrm -rf ~\nEOF",
        "bash <<< 'rm -rf ~'",
        "git status <<E; rm -rf ~\nE",
        "git status 'unclosed",
        "git status (",
        "git status; sudo -n rm -rf ~",
        "git status; xargs -0 rm",
        "git status; coproc rm -rf ~",
        "git status; command sh -c 'rm -rf ~'",
        "git status " + "; git status" * 10 + "; " + "(" * 2000 + "rm -rf ~" + ")" * 2000,
        "git status #" + "x" * 70_000 + "\nrm -rf ~",
        # A line end that the grammar takes for a blank.
        "git status\n\\rm -rf ~",
        "git status \\\n\nrm -rf ~",
        "git status\n\\\n rm -rf ~",
        "git status <<< $\nrm -rf ~",
        # Blanks of the grammar that are none to a shell, and words that it joins.
        "git status\n\r#x; rm -rf ~",
        "git status\n\\ #x; rm -rf ~",
        "git\\\nstatus= rm -rf ~",
        "git status\nxa=\\\n rm -rf ~",
        # Quotes that end elsewhere in a POSIX shell.
        "git status $'\\'; rm -rf ~ #'",
        'git status "${x:-\'}"; rm -rf ~ #\'}"',
        # Here-documents that end elsewhere, or hold commands.
        'git status <<E"O"F\nEOF\nrm -rf ~\nE"O"F',
        "git status <<EOF\n\tEOF\ngit status '\nEOF\nrm -rf ~\ngit status '",
        "git status <<EOF\nEO\\\nF\nrm -rf ~\nEOF",
        "git status <<EOF\n`rm -rf ~`\nEOF",
        "git status <<EOF\n${x:-`rm -rf ~`}\nEOF",
        "git status `git status \\`rm -rf ~\\``",
        # Subscripts that a shell evaluates.
        "git status; test -v 'a[$(rm -rf ~)]'",
        "git status; [[ x -eq 'a[$(rm -rf ~)]' ]]",
        "git status; declare -i x='a[$(rm -rf ~)]'",
        # Programs that carry out what they read.
        "git status | python3",
        "git status | python3.12 -u -",
        "git status; sh /dev/stdin <<EOF\nrm -rf ~\nEOF",
        "git status; ssh host <<EOF\nrm -rf ~\nEOF",
        "git status; sudo psql tools <<< 'drop table orders'",
        "git status; find . -exec sh -c 'rm -rf ~' \\;",
        "git status; watch rm -rf ~",
    ],
)
def test_a_prefix_allows_nothing_else(command: str) -> None:
    """TOL-224, TOL-318: the corpus of ways around `git status *`; everything passes under `*`."""
    assert not allowed(command, "git status *")
    assert not allowed(command, "git status *", "git *", "git status; *")
    assert allowed(command, "*")


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf x",
        "X=1 rm -rf x",
        "'rm' -rf x",
        "r\\m -rf x",
        "/bin/rm -rf x",
        "rm   -rf x",
        "rm\t-rf x",
        "rm \\\n -rf x",
        "command rm -rf x",
        "exec rm x",
        "nohup rm x",
        "time rm x",
        "true; rm",
        "echo $(rm x)",
        "env A-B=1 rm x",
        "env 'A=1\n2' rm x",
        "sudo A=1 env B=2 rm x",
        "env -- rm x; rm y",
        "busybox rm x",
        "flock lock rm x",
        "timeout 5 chroot / rm x",
        "find . -execdir rm {} +",
        "find . -exec rm -- {} -exec \\;",
        "echo a | xargs rm",
        "eval true; rm x",
        "if true; then rm x",
        "f() { rm x; }; f",
        "[[ -f x ]] && rm x",
        "echo $((a)) | rm x",
        "echo 'unclosed; rm x",
        "time X=1 rm x",
        "true; rm x #" + "x" * LONGEST_BYTES,
        "cat <<E\n${a:=$(rm x)}\nE",
    ],
)
def test_a_denial_meets_every_way_of_writing(command: str) -> None:
    """TOL-224: quotes, paths, blanks, assignments and wrappers do not hide a command, nor does an opaque neighbour."""
    assert denied(command, "rm *")


@pytest.mark.parametrize(
    "command",
    ["eval 'x y'", "$CMD x", "$(which git) status", "bash -c 'git status'", "echo 'unclosed", "sh <<E\nls\nE", "# x"],
)
def test_the_opaque_is_allowed_exactly_or_wholly(command: str) -> None:
    """TOL-224: by `*`, or by an approval of this very text; not by a pattern that is near."""
    resources, save = approval(command)
    assert resources[0] == command
    assert resources[-1].startswith(OPAQUE)
    assert save == (command,)
    assert allowed(command, "*")
    assert not allowed(command, command[:4] + "*", "*" + command[-2:], command)
    assert effect_of_saved(command, *save) == "allow"
    assert effect_of_saved(command + " ", *save) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "git commit -m 'first\n\nsecond'",
        'git commit -m "it\'s [done] $(date)"',
        "git commit --file=- <<'EOF'\nwith `code` and $(words)\nEOF",
        "cat <<EOF > out.txt\nname: $NAME\nEOF",
        "cat > out.txt <<-EOF\n\tone\n\tEOF\nls",
        "cd src && \\\n  make test \\\n  -j4",
        'for f in *.py; do\n  wc -l "$f" # count\ndone',
        "python3 -m pytest -q tests",
        "python3 --version",
        "python -c 'print(1)'",
        "node build.js /dev/null",
        "grep -rn '\\[x\\]' src | sort | uniq -c",
        'echo ${HOME%/*} "${x:-y}" $((1 + 2))',
        '[ -f a ] && [ "$b" = c ] && test -n "$c" && ls',
        'set -euo pipefail\nexport A="$B"\nprintf \'%s\\n\' "$A"',
        'while read -r line; do echo "$line"; done < list',
        "# why\nls",
    ],
)
def test_everyday_commands_are_understood(command: str) -> None:
    """TOL-224, TOL-225: what people write every day stays open to rules by command."""
    assert not approval(command).resources[-1].startswith(OPAQUE)


@pytest.mark.parametrize(
    ("command", "save"),
    [
        ("git status -s", ("git status -s", "git status *")),
        ("npm run build -- --fast", ("npm run build -- --fast",)),
        ("docker compose up -d", ("docker compose up -d",)),
        ("ls -la; make test", ("ls -la; make test", "ls *")),
        ("git", ("git",)),
        ("git -C x push", ("git -C x push",)),
        ("python -c 'x'", ("python -c 'x'",)),
        ("sudo ls", ("sudo ls",)),
        ("export A=1", ("export A=1",)),
        ("sed -n 1p x", ("sed -n 1p x",)),
        ("cat > x", ("cat > x", "cat *")),
        ("rm x", ("rm x",)),
        ("X=1 ls", ("X=1 ls",)),
        ("rm *.log", ("exact:b502f04e51c86064dd04312446053631",)),
        ("ls ?.py", ("exact:19240ace43b810e84cdcc24b83af49b6", "ls *")),
        ("exact:1", ("exact:d107444ad3770822b38556528c39ef0d",)),
    ],
)
def test_the_whole_command_is_offered_for_saving_before_its_prefix(command: str, save: tuple[str, ...]) -> None:
    """TOL-098, TOL-225, TOL-363: the command as a whole first, by its digest if its text would be read as a pattern;
    then a prefix that says what it does."""
    assert approval(command).save == save


def test_a_saved_approval_covers_its_command_again() -> None:
    """TOL-206, TOL-225, TOL-363: unmatched asks; the saved command is allowed as a whole, and none of its parts; a
    prefix is allowed if it was chosen; a configured denial wins."""
    command = "cd build && rm -rf ./*"
    whole, prefix = approval("cd build && ls").save[0], "cd *"
    assert effect_of_saved(command) == "ask"
    assert effect_of_saved(command, *approval(command).save[:1]) == "allow"
    assert effect_of_saved("rm -rf ./*", *approval(command).save[:1]) == "ask"
    assert effect_of_saved("cd build", whole) == "ask"
    assert effect_of_saved("cd build && ls", whole) == "allow"
    assert effect_of_saved("cd build  && ls", whole) == "ask"
    assert effect_of_saved("cd elsewhere", prefix) == "allow"
    assert effect_of_saved("cd elsewhere && ls x", prefix, "ls x") == "ask"
    denial = Rule(action="bash", resource="ls *", effect="deny")
    assert effect_of_saved("cd build && ls", whole, rules=(denial,)) == "deny"


@pytest.mark.parametrize("command", HOSTILE)
def test_hostile_forms_are_asked_about(command: str) -> None:
    """TOL-360: with `cat *` and `echo *` allowed, none of them runs unasked."""
    assert not runs_unasked(command)


@pytest.mark.parametrize("command", HARMLESS)
def test_forms_that_shells_read_alike_are_transparent(command: str) -> None:
    """TOL-360: what is only text, and commands that are allowed, need no question."""
    assert runs_unasked(command)


@pytest.mark.parametrize(
    "command",
    [
        # Not read alike by dash, bash and zsh.
        *("[[ -f a ]]", "f() { ls; }", "function f { ls; }", "ls |& cat", "select x in a; do ls; done", "ls $'a'"),
        *('ls $"a"', "ls &>x y", "ls 12>x", "ls @(a)", "a=(b)", "a[0]=b ls", "ls {x}>y", "for ((;;)); do ls; done"),
        # Evaluated, or expanded more than once.
        *(
            "ls $((a))",
            "ls $((a[0]))",
            "ls $[1]",
            "ls ${a@P}",
            "ls ${!a}",
            "ls ${a:=b}",
            "ls ${a:-$(b)}",
            "ls ${a/b/c}",
        ),
        *(
            "ls ${a[0]}",
            "ls {a,$}b",
            "ls $x{a,b}",
            "ls `ls \\`ls\\``",
            'ls "`ls`"',
            "let a=1",
            "((a=1))",
            "hash -p x ls",
        ),
        *("test -v a", '[ "$a" "$b" ]', "[ $a = b ]", "printf -v a b", 'printf "$a"', "read $a", "declare -i a=b"),
        *("declare -n a=b", "unset 'a[0]'", "set -k", "set -- a", "shopt -s extglob"),
        # Variables with a meaning.
        *("for PATH in a; do ls; done", "for path in a; do ls; done", "for LD_PRELOAD in a; do ls; done"),
        # Characters that shells, or terminals, take for something else.
        *("ls a\rb", "ls 'a\x01'", "ls a\u00a0b", "ls \udc80", "ls a\x7f", "ls '\x85'", 'ls "\u00e9\\"'),
        # Here-documents that end elsewhere, or are read in another order.
        *(
            "cat <<E <<F\na\nE\nb\nF",
            "cat <<E\na \\\nE\nE",
            "cat <<E 'a\nb'\nE",
            "cat <<E\n$(ls\n)\nE",
            "$(cat <<E\na\nE\n)",
        ),
        "echo $(cat <<'E'\nit's\nE\n)",
        "echo $(ls # )\n)",
        "echo $(case a in a) ls;; esac)",
    ],
)
def test_a_command_outside_the_common_grammar_is_opaque(command: str) -> None:
    """TOL-360: however harmless it looks."""
    assert approval(command).resources[-1].startswith(OPAQUE)


def test_the_number_of_resources_is_bounded() -> None:
    """TOL-224, TOL-361: a longer list is one opaque thing, also one that is long only in characters."""
    for count in (MOST_RESOURCES, MOST_RESOURCES + 1):
        resources, _ = approval("; ".join(f"echo {number}" for number in range(count)))
        assert len(resources) <= MOST_RESOURCES + 2
        assert resources[-1].startswith(OPAQUE) == (count > MOST_RESOURCES)
    wordy, _ = approval("nice " * 15 + "x" * 7000)
    assert sum(map(len, wordy)) < MOST_CHARACTERS
    assert wordy[-1].startswith(OPAQUE)


def test_a_command_above_8_kb_is_opaque() -> None:
    """TOL-361: the limit is 8 kB of UTF-8."""
    assert approval("echo " + "a" * (LONGEST_BYTES - 5)).resources[-1].startswith("echo ")
    assert approval("echo " + "a" * (LONGEST_BYTES - 4)).resources[-1].startswith(OPAQUE)
    assert approval("echo '" + "\u00e9" * (LONGEST_BYTES // 2 - 2) + "'").resources[-1].startswith(OPAQUE)


@pytest.mark.parametrize("depth", [DEEPEST - 1, DEEPEST])
def test_a_command_nested_too_deeply_is_opaque(depth: int) -> None:
    """TOL-361: subshells and substitutions count alike."""
    assert approval("( " * depth + "ls" + " )" * depth).resources[-1].startswith(OPAQUE) == (depth == DEEPEST)
    assert approval("ls $(" * depth + "ls" + ")" * depth).resources[-1].startswith(OPAQUE) == (depth == DEEPEST)


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "a|",
            "a;",
            "<<E ",
            "cat <<E\n$x\nE\n",
            "( ",
            "(",
            "$(",
            '"$(',
            "nice ",
            "'a'",
            '"$x"',
            "`a`",
            "{a,",
            "[",
            " \\\n",
        ),
        *(
            "\n",
            "#\n",
            " <(a)",
            ">a ",
            "$x ",
            "/a/b ",
            "' \" ",
            "a=b ",
            "if a;then ",
            "for i in a;do ",
            "case x in x)",
            "\\a",
        ),
        *("${x%", "find . -exec ", "a[", "$", "&>a ", "ls $(a) "),
    ],
)
def test_a_command_cannot_take_long_to_read(unit: str) -> None:
    """TOL-361, TOL-324: whatever it repeats, reading and judging it takes well below 50 ms of processor time."""
    command = (unit * LONGEST_BYTES)[:LONGEST_BYTES]
    taken = []
    for _ in range(5):
        started = time.process_time()
        script = parse(command)
        approval_of(script)
        external_directories(script, Path("/work"), "/home/me")
        taken.append(time.process_time() - started)
    assert min(taken) < 0.05


@pytest.mark.parametrize(
    ("words", "count"),
    [("git status -s", 2), ("npm run x", 3), ("npm ci", 2), ("docker compose up", 3), ("docker ps", 2), ("ls -l", 1)],
)
def test_the_number_of_words_in_a_saved_prefix_depends_on_the_command(words: str, count: int) -> None:
    """TOL-225: the table."""
    assert arity(words.split()) == count
