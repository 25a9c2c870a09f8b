"""The approvals of a command that a person may save."""

from __future__ import annotations

import pytest

from holdfast.core.shell import approval as approvals
from holdfast.core.shell.approval import EXACT, Approval
from holdfast.core.shell.grammar import parse


def approval(command: str, directory: str = "", *, prefixes: bool = True) -> Approval:
    return approvals.approval(parse(command), directory, prefixes=prefixes)


def test_the_directory_is_a_part_of_what_is_saved() -> None:
    """TOL-527: unless it is the root of the project; prefixes are offered in the Session's own directory only."""
    (at_root, prefix), (nested,), (deeper,) = (
        approval("git status").save,
        approval("git status", "a", prefixes=False).save,
        approval("git status", "a/b", prefixes=False).save,
    )
    assert (at_root, prefix) == ("git status", "git status *")
    assert nested.startswith(EXACT)
    assert len({nested, deeper, *approval("git status ", "a", prefixes=False).save}) == 3


@pytest.mark.parametrize(
    "command",
    """
    git grep x|git log -1|git diff|git show|git push|tar tf a|mawk 1 a|nawk 1 a|nodejs a|pypy3 a|setpriv ls|nsenter ls
    systemd-run ls|firejail ls|gosu x ls|vim a|sort a|rg a|npx a|make test|npm run build|cargo build|go test|cd sub
    docker compose up|./ls|/bin/ls|find .|less a|tree|pip install a|kubectl get pods|curl a|cp a b|mv a b|rm a|sh a
    """.strip()
    .replace("\n    ", "|")
    .split("|"),
)
def test_no_prefix_is_offered_for_what_runs_or_writes_anything(command: str) -> None:
    """TOL-225: only the command itself."""
    assert approval(command).save == (command,)
