"""Recorded sessions at the terminal: first start, prompt, steer, queue, interrupt, undo, fork."""

from __future__ import annotations

import threading

import pytest
from tests.acceptance.page.machine import Machine
from tests.acceptance.page.provider import Held, Provider, Reply, calling
from tests.acceptance.terminal.conftest import READY, SIZES, Terminals, answer

pytestmark = pytest.mark.acceptance
Size = tuple[int, int]
sizes = pytest.mark.parametrize("size", SIZES, ids=["80x24", "40x20"])


@sizes
def test_the_first_start_asks_about_presets_starts_a_server_and_answers(
    own_machine: Machine, provider: Provider, terminals: Terminals, size: Size
) -> None:
    """TUI-101, TUI-102, TUI-106: nothing runs, nothing was ever chosen."""
    provider.on("Say hello first", Reply("Hello from the **model**."))
    pane = terminals.open(own_machine, size=size)
    pane.wait_for("This is your first run.", "your choice [1]:")
    pane.send("1")
    pane.wait_for("A new session", READY)
    shown_whole = pane.is_full_screen
    assert shown_whole
    pane.send("Say hello first")
    pane.wait_for("Hello from the model.", "idle")
    pane.press("C-c", "C-c")
    assert pane.wait_for_exit() == 0
    pane.wait_until(lambda _: not pane.is_full_screen, "the main screen is not back")
    pane.wait_for("comes back to it.")


@sizes
def test_enter_steers_and_tab_queues_while_it_runs(
    machine: Machine, provider: Provider, terminals: Terminals, size: Size
) -> None:
    """TUI-122, TUI-123: both are shown while they wait; a queued one is withdrawn into the composer."""
    goes_on = threading.Event()
    provider.on(f"Begin {size}", Reply(Held("At work.", goes_on, " Going on.")))
    provider.on("steered in", Reply("I was steered."))
    provider.on("queued behind", Reply("That was queued."))
    pane = terminals.opened(machine, size=size)
    pane.send(f"Begin {size}")
    pane.wait_for("At work.")
    pane.type("steered in")
    pane.wait_for("steered in")
    pane.press("Enter")
    pane.wait_for("next: steered in")
    pane.type("never sent")
    pane.press("Tab")
    pane.wait_for("queued: never sent", "Ctrl-X takes the last one back")
    pane.press("C-x")
    pane.wait_without("queued: never sent")
    pane.wait_for("never sent")
    pane.press("C-c")
    pane.wait_without("never sent")
    pane.type("queued behind")
    pane.press("Tab")
    pane.wait_for("queued: queued behind")
    goes_on.set()
    pane.wait_for("I was steered.", "That was queued.", "idle")
    shown = pane.wait_without("queued:")
    assert shown.index("I was steered.") < shown.index("That was queued.")
    assert "never sent" not in shown


@sizes
def test_escape_twice_interrupts(machine: Machine, provider: Provider, terminals: Terminals, size: Size) -> None:
    """TUI-124: the first Esc says what the second one does."""
    provider.on(f"Work long {size}", Reply(Held("Beginning.", threading.Event(), "never")))
    provider.on("Go on", Reply("I go on."))
    pane = terminals.opened(machine, size=size)
    pane.send(f"Work long {size}")
    pane.wait_for("Beginning.")
    pane.press("Escape")
    pane.wait_for("Esc again to interrupt", "Beginning.")
    pane.press("Escape")
    pane.wait_for("interrupted", "Beginning.")
    pane.send("Go on")
    pane.wait_for("I go on.", "idle")


@sizes
def test_undo_takes_the_prompt_and_its_files_back(
    machine: Machine, provider: Provider, terminals: Terminals, size: Size
) -> None:
    """TUI-151: the prompt is in the composer again, and /redo brings everything back."""
    file = machine.project / f"undo{size[0]}.txt"
    provider.on(f"Create {file.name}", calling("write", path=str(file), content="created\n"), Reply("It is there."))
    pane = terminals.opened(machine, size=size)
    pane.send("Nothing special")
    pane.wait_for("done", "idle")
    pane.send(f"Create {file.name}")
    answer(pane, "Permission to edit", "y")
    pane.wait_for("It is there.", "idle")
    assert file.read_text(encoding="utf-8") == "created\n"
    pane.send("/undo")
    pane.wait_for("undone", "1 file restored")
    assert not file.exists()
    pane.press("C-c")
    pane.wait_without(f"❯ Create {file.name}")
    pane.send("/redo")
    pane.wait_for("brought back")
    assert file.read_text(encoding="utf-8") == "created\n"


@sizes
def test_fork_goes_on_in_a_copy(machine: Machine, provider: Provider, terminals: Terminals, size: Size) -> None:
    """TUI-142, TUI-152: the original stays as it was, and the list of Sessions has both."""
    provider.on("Only in the original", Reply("The common answer."))
    provider.on("Only in the copy", Reply("The answer of the copy."))
    pane = terminals.opened(machine, size=size)
    pane.send("Only in the original")
    pane.wait_for("The common answer.", "idle")
    pane.send(f"/rename Original {size[0]}")
    pane.wait_for("renamed to")
    pane.send("/fork")
    pane.wait_for("this is a fork of", "The common answer.")
    pane.send("Only in the copy")
    pane.wait_for("The answer of the copy.", "idle")
    pane.send(f"/sessions Original {size[0]}")
    pane.wait_for("Sessions", f"Original {size[0]}")
    original = machine.find(f"Original {size[0]}")
    said = [message["text"] for message in machine.messages(original) if message["type"] == "user"]
    assert said == ["Only in the original"]
