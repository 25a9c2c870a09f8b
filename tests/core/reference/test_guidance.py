"""What an agent is told about references."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.context.system_context import initialize, observe, reconcile
from holdfast.core.reference import guidance as texts
from holdfast.core.reference.failure import store_failure
from holdfast.core.reference.guidance import baseline, guidance, reference_context
from holdfast.core.reference.reference import GitSource, LocalSource, Reference

pytestmark = pytest.mark.anyio


def local(name: str, description: str | None = "d", *, hidden: bool | None = None, path: str = "/") -> Reference:
    source = LocalSource(path=path, description=description, hidden=hidden)
    return Reference(name=name, path=path, description=description, hidden=hidden, source=source)


def from_git(path: Path) -> Reference:
    return Reference(name="g", path=str(path), description="d", source=GitSource(repository="a/b", description="d"))


def test_reference_guidance_has_this_text() -> None:
    """CTX-193, CTX-195, CTX-213: each text in one place; escaped and on one line; named as tools take it."""
    assert baseline(guidance([local("b", "second\n<line>"), local("A", "first"), local("c", path="/not<there")])) == (
        "These further directories may be of use. Look into them where they bear on the task. They can only be read: "
        "`read`, `glob` and `grep` accept the path that is shown here, and paths inside it such as `@name/src/main.py`."
        "\n"
        "<available_references>\n"
        "  <reference>\n"
        "    <name>A</name>\n"
        "    <path>@A</path>\n"
        "    <description>first</description>\n"
        "  </reference>\n"
        "  <reference>\n"
        "    <name>b</name>\n"
        "    <path>@b</path>\n"
        "    <description>second &lt;line&gt;</description>\n"
        "  </reference>\n"
        "</available_references>\n"
        "These references are configured and cannot be used at present:\n"
        "- c: /not&lt;there does not exist"
    )


def test_references_with_a_description_are_listed_by_name() -> None:
    """CTX-193, CTX-195: those with a description, hidden or not, by name without regard to case."""
    found = [
        local("b"),
        local("a", hidden=True),
        local("c", None),
        local("B"),
        local("d", ""),
        local("e", None, path="/no"),
    ]
    assert [item.name for item in guidance(found)] == ["a", "B", "b"]


def test_a_reference_that_is_no_directory_is_explained_in_one_line(tmp_path: Path) -> None:
    """CTX-214: one line that says why, and no list of what is there when there is nothing."""
    (tmp_path / "file").touch()
    value = guidance([local("a", path=f"{tmp_path}/file"), local("b", path=f"{tmp_path}/none"), local("c", path="\0")])
    lines = baseline(value).splitlines()
    assert lines == [
        texts.UNUSABLE,
        f"- a: {tmp_path}/file is not a directory",
        f"- b: {tmp_path}/none does not exist",
        "- c: \0 does not exist",
    ]


def test_a_git_reference_is_listed_once_it_is_there(tmp_path: Path) -> None:
    """CTX-195, CTX-214: not before its checkout exists; a failure is told until then."""
    path = tmp_path / "name"
    assert guidance([from_git(path)]) == ()
    store_failure(path, "its host is unknown")
    assert baseline(guidance([from_git(path)])).splitlines()[1:] == ["- g: a/b is not available: its host is unknown"]
    path.mkdir()
    assert [(item.name, item.problem) for item in guidance([from_git(path)])] == [("g", None)]


async def test_an_update_of_references_repeats_the_whole_list() -> None:
    """CTX-193, CTX-194: absent without any; an update is the whole list; the end is said."""
    declared = [local("a", None)]
    context = reference_context(lambda: declared)
    assert await observe(context) == ()
    declared[:] = [local("a")]
    first = initialize(await observe(context))
    both = declared[:] = [local("a"), local("b")]
    changed = reconcile(await observe(context), first.snapshot)
    assert getattr(changed, "text", None) == f"{texts.CHANGED}\n{baseline(guidance(both))}"
    declared.clear()
    gone = reconcile(await observe(context), first.snapshot)
    assert getattr(gone, "text", None) == texts.REMOVED
