"""`.ci/rules.py`: the index leads from a rule to its modules and tests, and is checked for drift."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Ids stand outside the test functions, or the index would list these tests.
SPEC = """# Sessions

## 1. Inbox

- **SES-001** [ref] An input is admitted once,
  whoever sends it.
- **SES-002** [beyond] A fork has its own inbox. *Not built: forks.*
- **SES-003** [beyond] Nobody has tested this.

## 2. Runner

Code: `core/runner.py`.

- **SES-004** [design] A turn ends.
"""
INBOX = '''
from holdfast.core.inbox import admit

def helper():
    return admit

# SES-004
def test_a_turn_ends():
    """Through the runtime."""

def test_an_input_is_admitted_once():
    """SES-001..001: twice the same."""
    helper()
'''
ROWS = [
    "| [SES-001](sessions.md#ses-001) | [core/inbox.py] | [core/test_inboxes.py]::test_an_input_is_admitted_once |",
    "| [SES-004](sessions.md#ses-004) | [core/runner.py] | [core/test_inboxes.py]::test_a_turn_ends |",
    "| [SES-002](sessions.md#ses-002) | Not built: forks. |",
    "| [SES-003](sessions.md#ses-003) | No test cites it. |",
    "[core/inbox.py]: ../../src/holdfast/core/inbox.py",
    "[core/runner.py]: ../../src/holdfast/core/runner.py",
    "[core/test_inboxes.py]: ../../tests/core/test_inboxes.py",
]
ANCHORED = '- **SES-001**<a id="ses-001"></a> [ref]'
UNKNOWN = "SES-009"
UNTESTED = "SES-003"
ENDS = "SES-004"
MORE = INBOX.replace("SES-004", "SES-003").replace("SES-001..001", "SES-003")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A project of two modules with a specification of four rules."""
    files = {
        "docs/spec/sessions.md": SPEC,
        "src/holdfast/core/inbox.py": "",
        "src/holdfast/core/runner.py": "",
        "tests/core/test_inboxes.py": INBOX,
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "rules.py", tmp_path / ".ci")
    return tmp_path


def rules(tree: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, str(tree / ".ci" / "rules.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_a_rule_leads_to_its_modules_and_tests(tree: Path) -> None:
    assert rules(tree) == (0, "")
    index = (tree / "docs/spec/index.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in index if line.startswith(("| [SES", "[core"))]
    assert rows == ROWS
    assert ANCHORED in (tree / "docs/spec/sessions.md").read_text(encoding="utf-8")


def modules(tree: Path) -> dict[str, str]:
    """The modules of each rule, as the index shows them."""
    assert rules(tree) == (0, "")
    index = (tree / "docs/spec/index.md").read_text(encoding="utf-8").splitlines()
    cells = [line.split(" | ") for line in index if line.startswith("| [SES") and line.count(" | ") == 2]
    return {row[0][3:10]: row[1] for row in cells}


def test_the_module_that_a_rule_names_comes_first(tree: Path) -> None:
    named = SPEC.replace("A turn ends.", "A turn ends, as `core/inbox.py` says.")
    (tree / "docs/spec/sessions.md").write_text(named, encoding="utf-8")
    assert modules(tree)[ENDS] == "[core/inbox.py], [core/runner.py]"


def test_of_the_modules_of_a_section_the_one_with_the_words_of_the_rule_comes_first(tree: Path) -> None:
    both = SPEC.replace("Code: `core/runner.py`.", "Code: `core/runner.py`, `core/closing.py`.")
    (tree / "docs/spec/sessions.md").write_text(both, encoding="utf-8")
    text = '"""Ends a turn."""\n\n\ndef end_turn(turns):\n    return turns\n'
    (tree / "src/holdfast/core/closing.py").write_text(text, encoding="utf-8")
    assert modules(tree)[ENDS] == "[core/closing.py], [core/runner.py]"


def test_a_new_test_changes_no_row_of_another_rule(tree: Path) -> None:
    before = modules(tree)
    (tree / "tests/core/test_more.py").write_text(MORE, encoding="utf-8")
    after = modules(tree)
    assert {id: after[id] for id in before} == before
    assert len(after) == len(before) + 1


def test_four_tests_are_shown_and_the_rest_is_counted(tree: Path) -> None:
    many = "".join(f'def test_number_{number}():\n    """{ENDS}"""\n\n' for number in range(5))
    (tree / "tests/core/test_more.py").write_text(many, encoding="utf-8")
    assert rules(tree) == (0, "")
    index = (tree / "docs/spec/index.md").read_text(encoding="utf-8").splitlines()
    (row,) = [line for line in index if line.startswith(f"| [{ENDS}]")]
    assert (row.count("::"), row.endswith(", 2 more |")) == (4, True)


@pytest.fixture
def cited(tree: Path) -> Path:
    """The project, with a test for each rule that is built."""
    (tree / "tests/core/test_more.py").write_text(f"def test_more():\n    '{UNTESTED}'\n", encoding="utf-8")
    rules(tree)
    assert rules(tree, "--check") == (0, "")
    return tree


def test_a_rule_without_a_test_fails_unless_it_is_not_built(cited: Path) -> None:
    (cited / "tests/core/test_more.py").unlink()
    rules(cited)
    message = f"rules: no test cites {UNTESTED}; write one, or end the rule with *Not built: …*\n"
    assert rules(cited, "--check") == (1, message)


def test_a_renamed_test_makes_the_index_out_of_date(cited: Path) -> None:
    tree = cited
    renamed = INBOX.replace("test_a_turn_ends", "test_every_turn_ends")
    (tree / "tests/core/test_inboxes.py").write_text(renamed, encoding="utf-8")
    assert rules(tree, "--check") == (1, "rules: docs/spec/index.md is out of date; run `make generate`\n")


def test_citing_an_unknown_rule_fails(tree: Path) -> None:
    (tree / "tests/core/test_more.py").write_text(f"def test_more():\n    '{UNKNOWN}'\n", encoding="utf-8")
    assert rules(tree) == (1, f"rules: tests cite what is not in docs/spec: {UNKNOWN}\n")


def test_a_code_line_that_names_no_module_fails(tree: Path) -> None:
    (tree / "src/holdfast/core/runner.py").rename(tree / "src/holdfast/core/drain.py")
    code, message = rules(tree)
    assert code == 1
    assert "Code: `core/runner.py`." in message
