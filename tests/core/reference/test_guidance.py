"""What an agent is told about references."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.context.system_context import EMPTY, initialize, observe, reconcile
from holdfast.core.reference import guidance as texts
from holdfast.core.reference.guidance import baseline, guidance, reference_context
from holdfast.core.reference.reference import GitSource, LocalSource, Reference

pytestmark = pytest.mark.anyio


def local(name: str, description: str | None = "d", *, hidden: bool | None = None, path: str = "/x") -> Reference:
    source = LocalSource(path=path, description=description, hidden=hidden)
    return Reference(name=name, path=path, description=description, hidden=hidden, source=source)


def test_the_words() -> None:
    """CTX-193, CTX-195: each text in one place; escaped and on one line."""
    assert baseline(guidance([local("b", "second\n<line>"), local("A", "first")])) == (
        "These further directories may be of use. Look into them where they bear on the task.\n"
        "<available_references>\n"
        "  <reference>\n"
        "    <name>A</name>\n"
        "    <path>/x</path>\n"
        "    <description>first</description>\n"
        "  </reference>\n"
        "  <reference>\n"
        "    <name>b</name>\n"
        "    <path>/x</path>\n"
        "    <description>second &lt;line&gt;</description>\n"
        "  </reference>\n"
        "</available_references>"
    )


def test_which_are_listed() -> None:
    """CTX-193, CTX-195: those with a description, hidden or not, by name without regard to case."""
    found = [local("b"), local("a", hidden=True), local("c", None), local("B"), local("d", "")]
    assert [item.name for item in guidance(found)] == ["a", "B", "b"]


def test_a_git_reference_is_listed_once_it_is_there(tmp_path: Path) -> None:
    """CTX-195: not before its checkout exists."""
    path = tmp_path / "name"
    git = Reference(name="g", path=str(path), description="d", source=GitSource(repository="a/b", description="d"))
    assert guidance([git]) == ()
    path.mkdir()
    assert [item.name for item in guidance([git])] == ["g"]


async def test_update_and_removal() -> None:
    """CTX-193, CTX-194: absent without any; an update is the whole list; the end is said."""
    assert reference_context([]) is reference_context([local("a", None)]) is EMPTY
    first = initialize(await observe(reference_context([local("a")])))
    both = [local("a"), local("b")]
    changed = reconcile(await observe(reference_context(both)), first.snapshot)
    assert getattr(changed, "text", None) == f"{texts.CHANGED}\n{baseline(guidance(both))}"
    gone = reconcile(await observe(EMPTY), first.snapshot)
    assert getattr(gone, "text", None) == texts.REMOVED
