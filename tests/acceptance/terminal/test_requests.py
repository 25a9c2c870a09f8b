"""Recorded sessions at the terminal: approvals with a diff, refusals with a reason, questions, requests of children."""

from __future__ import annotations

import pytest
from tests.acceptance.page.machine import Machine
from tests.acceptance.page.provider import Provider, Reply, calling
from tests.acceptance.terminal.conftest import SIZES, Terminals, answer

pytestmark = pytest.mark.acceptance
Size = tuple[int, int]
sizes = pytest.mark.parametrize("size", SIZES, ids=["80x24", "40x20"])


@sizes
def test_an_approval_shows_the_diff_and_y_allows_it(
    machine: Machine, provider: Provider, terminals: Terminals, size: Size
) -> None:
    """TUI-012, TUI-130, TUI-132"""
    file = machine.project / f"greeting{size[0]}.txt"
    file.write_text("good morning\n", encoding="utf-8")
    change = calling("edit", path=file.name, oldString="good morning", newString="good evening")
    provider.on(f"Change {file.name}", change, Reply("It is changed."))
    pane = terminals.opened(machine, size=size)
    pane.send(f"Change {file.name}")
    pane.wait_for("Permission to edit", "good morning", "good evening", "y allow it once")
    assert file.read_text(encoding="utf-8") == "good morning\n"
    answer(pane, "y allow it once", "y")
    pane.wait_for("It is changed.", "idle")
    assert file.read_text(encoding="utf-8") == "good evening\n"


@sizes
def test_no_with_a_reason_reaches_the_model(
    machine: Machine, provider: Provider, terminals: Terminals, size: Size
) -> None:
    """TUI-130"""
    provider.on(f"Tag {size}", calling("bash", command=f"git tag no-{size[0]}"), Reply("Understood."))
    pane = terminals.opened(machine, size=size)
    pane.send(f"Tag {size}")
    pane.wait_for(f"git tag no-{size[0]}")
    answer(pane, "n no, with a reason", "n")
    pane.wait_for("reason")
    pane.send("not before friday")
    pane.wait_for("Understood.", "idle")
    session = newest_session(machine)
    assert "not before friday" in str(machine.messages(session))


@sizes
def test_a_question_is_answered_with_a_key(
    machine: Machine, provider: Provider, terminals: Terminals, size: Size
) -> None:
    """TUI-136"""
    options = [{"label": "blue", "description": "like the sea"}, {"label": "red", "description": "like a lighthouse"}]
    question = {"question": "Which colour shall it have?", "header": "Colour", "options": options}
    provider.on(f"Paint {size}", calling("question", questions=[question]), Reply("Painted."))
    pane = terminals.opened(machine, size=size)
    pane.send(f"Paint {size}")
    pane.wait_for("Which colour shall it have?", "blue", "red")
    answer(pane, "red", "2")
    if "Painted." not in pane.screen:
        pane.press("Enter")
    pane.wait_for("Painted.", "idle")
    assert "red" in str(machine.messages(newest_session(machine)))


@sizes
def test_a_request_of_a_child_is_answered_at_the_root(
    machine: Machine, provider: Provider, terminals: Terminals, size: Size
) -> None:
    """TUI-133: it names who asks."""
    tag = f"child-{size[0]}"
    work = calling("subagent", agent="general", description=f"tag {tag}", prompt=f"make {tag} now")
    provider.on(f"Delegate {size}", work, Reply("The child is done."))
    provider.on(f"make {tag} now", calling("bash", command=f"git tag {tag}"), Reply("tagged"))
    pane = terminals.opened(machine, size=size)
    pane.send(f"Delegate {size}")
    pane.wait_for(f"git tag {tag}", "asked by")
    answer(pane, "y allow it once", "y")
    pane.wait_for("The child is done.", "idle")


def newest_session(machine: Machine) -> str:
    found = machine.get("/api/session", limit=1)
    return str(found[0]["id"])
