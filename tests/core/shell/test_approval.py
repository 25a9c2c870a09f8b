"""What must be allowed for a command: each simple command in it, and nothing hidden by how it is written."""

from __future__ import annotations

import time

import pytest

from holdfast.core.permission.rules import effective, evaluate
from holdfast.core.shell.approval import MOST_RESOURCES, OPAQUE, approval
from holdfast.core.shell.arity import arity
from holdfast.schema.permission import Rule, SavedApproval


def rules(*allowed: str) -> list[Rule]:
    return [Rule(action="bash", resource=resource, effect="allow") for resource in allowed]


def allowed(command: str, *patterns: str) -> bool:
    return all(evaluate(rules(*patterns), "bash", resource) == "allow" for resource in approval(command).resources)


def denied(command: str, pattern: str) -> bool:
    given = [*rules("*"), Rule(action="bash", resource=pattern, effect="deny")]
    return any(evaluate(given, "bash", resource) == "deny" for resource in approval(command).resources)


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
        ("f() { rm x; }; f", ("rm x", "f")),
        ("diff <(ls a) <(rm b)", ("diff <(ls a) <(rm b)", "ls a", "rm b")),
        ("if test -f a; then rm a; fi", ("test -f a", "rm a")),
        ("for i in a b; do rm $i; done", ("rm $i",)),
        ("case $x in a) rm b;; esac", ("rm b",)),
        ("while read x; do rm $x; done < list", ("read x", "rm $x")),
        ("! rm x", ("rm x",)),
        ("echo ${x:-$(rm y)}", ("echo ${x:-$(rm y)}", "rm y")),
        ("cat <<EOF\n$(rm x)\nEOF", ("cat", "rm x")),
        ("a=$(rm x)", ("a=$(rm x)", "rm x")),
        ("[[ -f $(rm x) ]]", ("rm x",)),
        ("export A=1", ("export A=1",)),
        ("git log 2>&1 >/dev/null", ("git log",)),
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
        # A word that the grammar leaves out.
        "git status - <<EOF\nx\nEOF",
        # Subscripts that a shell evaluates.
        "git status; test -v 'a[$(rm -rf ~)]'",
        "git status; [[ x -eq 'a[$(rm -rf ~)]' ]]",
        "git status; declare -i x='a[$(rm -rf ~)]'",
        # Programs that carry out what they read.
        "git status | python3",
        "git status | python3.12 -u -",
        "git status; sh /dev/stdin <<EOF\nrm -rf ~\nEOF",
        "git status; ssh host <<EOF\nrm -rf ~\nEOF",
        "git status; sudo psql shop <<< 'drop table orders'",
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
    """TOL-224: by `*`, or by the lines that were saved together; not by a pattern that is near."""
    resources, save = approval(command)
    assert resources[0] == command
    assert resources[-1].startswith(OPAQUE)
    assert allowed(command, "*")
    assert not allowed(command, command[:4] + "*", "*" + command[-2:], command)
    assert allowed(command, *save)
    assert not allowed(command + " ", *save)


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
        "[[ -f a && $b == c ]] && ls",
        "# why\nls",
    ],
)
def test_ordinary_commands_are_read(command: str) -> None:
    """TOL-224, TOL-225: what people write every day stays open to rules by command."""
    assert not approval(command).resources[-1].startswith(OPAQUE)


@pytest.mark.parametrize(
    ("command", "save"),
    [
        ("git status -s", ("git status -s", "git status *")),
        ("npm run build -- --fast", ("npm run build -- --fast", "npm run build *")),
        ("docker compose up -d", ("docker compose up -d", "docker compose up *")),
        ("ls -la; make test", ("ls -la", "make test", "ls *", "make test *")),
        ("git", ("git",)),
        ("git -C x push", ("git -C x push",)),
        ("python -c 'x'", ("python -c 'x'",)),
        ("sudo ls", ("sudo ls", "ls")),
        ("rm x", ("rm x",)),
        ("X=1 ls", ("X=1 ls", "ls")),
        ("rm *.log", ()),
        ("ls *.py", ("ls *",)),
    ],
)
def test_what_may_be_saved(command: str, save: tuple[str, ...]) -> None:
    """TOL-098, TOL-225: the exact text, unless it would be read as a pattern, and a prefix that says what it does."""
    assert approval(command).save == save


def test_a_saved_approval_covers_its_command_again() -> None:
    """TOL-206, TOL-225: unmatched asks, the saved exact text allows, a configured denial wins."""
    command = "cargo build --release && ./deploy.sh"
    resources, save = approval(command)
    saved = [SavedApproval(id="psv_1", project_id="p", action="bash", resource=pattern) for pattern in save]
    assert effective([], [], "bash", resources) == "ask"
    assert effective([], saved, "bash", resources) == "allow"
    assert effective([], saved, "bash", approval("cargo build --debug").resources) == "allow"
    assert effective([], saved, "bash", approval("cargo publish").resources) == "ask"
    denial = [Rule(action="bash", resource="./deploy.sh *", effect="deny")]
    assert effective(denial, saved, "bash", resources) == "deny"


def test_the_number_of_resources_is_bounded() -> None:
    """TOL-224: a longer list is one opaque thing."""
    resources, _ = approval("; ".join(f"echo {number}" for number in range(MOST_RESOURCES + 1)))
    assert len(resources) <= MOST_RESOURCES + 2
    assert resources[-1].startswith(OPAQUE)


@pytest.mark.parametrize("command", ["nice " * 12_000 + "rm x", "a;" * 30_000])
def test_a_command_cannot_take_long_to_read(command: str) -> None:
    """TOL-224, TOL-324: wrapped in itself, or very many; without a bound the first takes half a minute."""
    started = time.process_time()
    assert approval(command).resources[-1].startswith(OPAQUE)
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    ("words", "count"),
    [("git status -s", 2), ("npm run x", 3), ("npm ci", 2), ("docker compose up", 3), ("docker ps", 2), ("ls -l", 1)],
)
def test_how_many_words_say_what_it_does(words: str, count: int) -> None:
    """TOL-225: the table."""
    assert arity(words.split()) == count
