"""Corners of resolving mentions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.core.conftest import new_session

from holdfast.core.filesystem.content import Content
from holdfast.core.permission.errors import DeniedByPerson
from holdfast.core.prompt import mentions as module
from holdfast.core.prompt.agent_guidance import agent_guidance
from holdfast.core.prompt.lookup import LOOKED_UP, PARSED, Lookup, Names
from holdfast.core.prompt.mentions import Mentions
from holdfast.core.runtime.runtime import Runtime
from holdfast.core.session import attachments
from holdfast.core.session.attachments import Attachments, check_size, is_retry
from holdfast.core.session.input_errors import PromptTooLarge
from holdfast.core.session.mentioned import Mentioned, MentionedFile
from holdfast.core.session.prompt_input import unresolved
from holdfast.core.tool.builtin.authorize import Denied
from holdfast.core.tool.tool import ToolContext
from holdfast.schema.prompt import AgentAttachment, FileAttachment, Prompt
from holdfast.schema.session import Session

pytestmark = pytest.mark.anyio


class Judge:
    """Decides about permissions, and keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.denies: dict[str, Exception] = {}

    async def allow(self, context: ToolContext, action: str, resources: Sequence[str], **_: Any) -> None:
        (resource,) = resources
        self.asked.append((action, resource))
        if action in self.denies:
            raise self.denies[action]


@pytest.fixture
def judge() -> Judge:
    return Judge()


@pytest.fixture
async def resolver(runtime: Runtime, judge: Judge) -> AsyncIterator[Mentions]:
    async with runtime.locations.use(runtime.location) as services:
        own = services.mentions
        own._permissions = judge
        yield own


async def resolve(resolver: Mentions, session: Session, text: str, **prompt: Any) -> Mentioned:
    return await resolver.resolve(session, Prompt(text=text, **prompt))


def names(mentioned: Mentioned) -> list[str | None]:
    return [file.attachment.name for file in mentioned.files]


async def test_each_thing_is_asked_once(resolver: Mentions, session: Session, judge: Judge, tmp_path: Path) -> None:
    """SES-273: one directory for all its files, one file for all its lines; a no counts for all of them."""
    folder = tmp_path / "outside"
    folder.mkdir()
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text("1\n2\n3\n")
    text = f"@{folder}/a.txt @{folder}/b.txt @{folder}/a.txt#L1 @{folder}/a.txt"
    found = await resolve(resolver, session, text)
    assert names(found) == [f"{folder}/a.txt", f"{folder}/b.txt", f"{folder}/a.txt#L1"]
    assert judge.asked == [
        ("external_directory", f"{folder}/*"),
        ("read", f"{folder}/a.txt"),
        ("read", f"{folder}/b.txt"),
    ]
    judge.asked.clear()
    judge.denies["external_directory"] = DeniedByPerson("per_1")
    found = await resolve(resolver, session, text)
    assert (found.files, len(found.notes)) == ((), 3)
    assert found.notes[0] == f"`@{folder}/a.txt` could not be attached: the permission request was denied"
    assert judge.asked == [("external_directory", f"{folder}/*")]


async def test_a_link_that_is_exchanged_after_the_permission_is_not_followed(
    resolver: Mentions, session: Session, judge: Judge, project: Path, tmp_path: Path
) -> None:
    """SES-273: what is read is what was judged."""
    (project / "a.txt").write_text("public")
    (tmp_path / "secret.txt").write_text("secret")

    async def exchange(*_: Any, **__: Any) -> None:
        (project / "a.txt").unlink()
        (project / "a.txt").symlink_to(tmp_path / "secret.txt")

    judge.allow = exchange  # type: ignore[method-assign]
    found = await resolve(resolver, session, "@a.txt")
    assert found.files == ()
    assert found.notes == (
        "`@a.txt` could not be attached: the path leads outside the working directory through a link",
    )


async def test_a_refusal_of_the_rules_is_told_with_its_words(
    resolver: Mentions, session: Session, judge: Judge, project: Path
) -> None:
    """SES-273, SES-274."""
    judge.denies["read"] = Denied("Permission denied: read hello.txt")
    (project / "hello.txt").write_text("x")
    found = await resolve(resolver, session, "@hello.txt")
    assert found.notes == ("`@hello.txt` could not be attached: Permission denied: read hello.txt",)


async def test_a_file_system_that_does_not_answer_delays_a_prompt_for_a_limited_time(
    resolver: Mentions, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SES-274."""
    answered = threading.Event()
    monkeypatch.setattr(module, "SECONDS", 0.05)
    monkeypatch.setattr(Lookup, "find", lambda *_: answered.wait(10))
    try:
        found = await resolve(resolver, session, "@hello.txt")
    finally:
        answered.set()
    assert found.files == ()
    assert "could not be looked up within 0.05 s" in found.notes[0]


async def test_a_text_that_is_too_long_is_refused_before_it_is_searched(
    resolver: Mentions, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SES-243, SES-275."""
    monkeypatch.setattr(Lookup, "find", lambda *_: pytest.fail("searched"))
    with pytest.raises(PromptTooLarge):
        await resolve(resolver, session, "@a " * 2_000_000)


async def test_the_number_of_lookups_has_a_limit(
    resolver: Mentions, session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SES-275: beyond it every mention is counted, and beyond a further limit every `@`."""
    looked_up = 0
    real = Lookup._look_up

    def counted(*arguments: Any) -> Any:
        nonlocal looked_up
        looked_up += 1
        return real(*arguments)

    monkeypatch.setattr(Lookup, "_look_up", counted)
    (project / "hello.txt").write_text("x")
    text = "@hello.txt " + " ".join(f"@word{number}" for number in range(PARSED + 100))
    found = await resolve(resolver, session, text)
    assert names(found) == ["hello.txt"]
    assert looked_up == LOOKED_UP
    assert found.notes == (
        f"{PARSED + 101 - LOOKED_UP} further mentions could not be attached: a prompt attaches at most 64 of them.",
    )


async def test_what_does_not_fit_is_a_note(
    resolver: Mentions, session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SES-234, SES-274: together with each other, and with the caller's own files."""
    for name in "abc":
        (project / f"{name}.txt").write_text("x" * 10)
    monkeypatch.setattr(module, "TOTAL_CHARACTERS", 25)
    found = await resolve(resolver, session, "@a.txt @b.txt @c.txt")
    assert names(found) == ["a.txt", "b.txt"]
    assert found.notes == (f"`@c.txt` could not be attached: {attachments.FULL}",)
    monkeypatch.setattr(attachments, "TOTAL_CHARACTERS", 25)
    own = FileAttachment(uri=(project / "c.txt").as_uri(), mime="text/plain")
    resolved = await Attachments().resolve(Prompt(text="x", files=(own,)), session.id, session.location, found)
    assert [file.name for file in resolved.prompt.files or ()] == [None, "a.txt"]
    assert sorted(resolved.contents) == [0, 1]
    assert resolved.prompt.notes == (
        f"`@b.txt` could not be attached: {attachments.FULL}",
        f"`@c.txt` could not be attached: {attachments.FULL}",
    )


async def test_the_callers_own_files_leave_less_room(resolver: Mentions, session: Session, project: Path) -> None:
    """SES-275."""
    for number in range(4):
        (project / f"{number}.txt").write_text("x")
    own = FileAttachment(uri="data:,x", mime="text/plain")
    found = await resolve(resolver, session, "@0.txt @1.txt @2.txt @3.txt", files=(own,) * 62)
    assert names(found) == ["0.txt", "1.txt"]
    assert found.notes == ("2 further mentions could not be attached: a prompt attaches at most 2 of them.",)
    check_size(Prompt(text="x", files=(own,) * 64), session.id)


async def test_prompts_with_one_id_that_are_resolved_at_once_give_one_receipt(runtime: Runtime, project: Path) -> None:
    """SES-040, SES-271: the first counts, whatever the second was resolved to."""
    session = await new_session(runtime)
    content = Content("text", "text/plain", "x")
    source = FileAttachment(uri="file:///x", mime="text/plain", name="x")
    some = Mentioned((MentionedFile("@x", source, content),), (AgentAttachment(name="general"),), ("note",))
    given = unresolved(Prompt(text="@x"), resolves=True)
    first, second = await asyncio.gather(
        *(
            runtime.sessions.prompt(session.id, given, id="msg_1", mentioned=found, resume=False)
            for found in (some, Mentioned())
        )
    )
    assert first == second


def test_what_the_caller_sent_decides_whether_it_is_a_retry() -> None:
    """SES-041, SES-271."""
    own, added = (FileAttachment(uri=f"file:///{name}", mime="text/plain") for name in "ab")
    sent = Prompt(text="@b", files=(own,))
    given = unresolved(sent, resolves=True)
    known = replace(given, files=(own, added), agents=(AgentAttachment(name="general"),), notes=("n",))
    assert is_retry(known, given)
    assert not is_retry(known, sent)
    assert not is_retry(known, unresolved(sent))
    assert not is_retry(known, unresolved(Prompt(text="@b", files=(own, added)), resolves=True))
    assert not is_retry(known, unresolved(Prompt(text="@b"), resolves=True))
    assert not is_retry(sent, given)
    assert is_retry(sent, sent)


def test_only_agents_that_may_be_called_are_told() -> None:
    """SES-212."""
    assert agent_guidance(["general", "explore"], {"explore"}) == (
        "The user mentions the agent `explore`. Give it the part of the task that is meant for it, with the `subagent` "
        "tool.",
    )
    assert agent_guidance(["general"], ()) == ()


def test_agents_and_references_are_found_by_their_whole_name(project: Path) -> None:
    """SES-271, SES-272: what is quoted or has lines is a path, and one path is attached once."""
    from holdfast.core.filesystem.location_files import LocationFiles

    lookup = Lookup(LocationFiles(project), project)
    (project / "general").write_text("x")
    found = lookup.find('@general @"general" @general#L1 @generals @general/', Names({}, frozenset({"general"})), 64)
    assert [type(item).__name__ for item in found.named] == ["NamedAgent", "NamedPath", "NamedPath"]
    (path,) = lookup.find("@./general", Names({}, frozenset({"general"})), 64).named
    assert type(path).__name__ == "NamedPath"
