"""Mentions in the text of a prompt: what is attached, what is asked for, and what the model is told instead."""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing
from typing import Any

import httpx2
import pytest
from tests.cli.conftest import Machine, Provider
from tests.outside.scripted_provider import PATIENCE
from tests.outside.test_clients import Serve
from tests.outside.world import World, types

from holdfast import ApiError, Holdfast, PromptInput, Session
from holdfast.schema.permission import PermissionRequest
from holdfast.schema.prompt import Admission, AgentInput, FileInput, Source
from holdfast.schema.session_message import SyntheticMessage, UserMessage

pytestmark = pytest.mark.anyio


async def admit(hf: Holdfast, session: Session, text: str, **options: Any) -> Admission:
    given = {"resolve": True, "resume": False, **options}
    async with asyncio.timeout(PATIENCE):
        return await hf.sessions.prompt(session.id, prompt=PromptInput(text=text), **given)


async def answered(hf: Holdfast, session: Session) -> list[UserMessage | SyntheticMessage]:
    """What the model was sent, after it has answered what waits."""
    await hf.sessions.run(session.id)
    messages = await hf.sessions.context(session.id)
    return [message for message in messages if isinstance(message, UserMessage | SyntheticMessage)]


async def asked(hf: Holdfast, session: Session) -> PermissionRequest:
    async with asyncio.timeout(PATIENCE), aclosing(aiter(hf.events.subscribe())) as live:
        await anext(live)
        while not (found := await hf.permissions.list(session.id)):
            await anext(live)
    return found[0]


def names(receipt: Admission) -> list[str | None]:
    return [file.name for file in receipt.prompt.files or ()]


# -- what is attached --------------------------------------------------------------------------------------------------


async def test_mentioned_files_lines_and_directories_are_attached(world: World) -> None:
    """SES-207, SES-270, SES-271, SES-272, SES-277, API-474: with their spans; the text is sent as it was written."""
    world.write("src/a.py", "one\ntwo\nthree\nfour\n")
    world.write("with space.txt", "spaced\n")
    text = 'Compare @hello.txt, @src/a.py#L2-3 and @src/ (also @"with space.txt"). Again: @hello.txt'
    async with world.host() as hf:
        session = await hf.sessions.create()
        receipt = await admit(hf, session, text)
        assert receipt.prompt.text == text
        assert [(file.name, file.mime) for file in receipt.prompt.files or ()] == [
            ("hello.txt", "text/plain"),
            ("src/a.py#L2-3", "text/x-python"),
            ("src/", "application/x-directory"),
            ("with space.txt", "text/plain"),
        ]
        for file in receipt.prompt.files or ():
            assert file.source is not None
            assert text[file.source.start : file.source.end] == file.source.text
        assert [file.uri for file in receipt.prompt.files or ()] == [
            (world.project / "hello.txt").as_uri(),
            (world.project / "src/a.py").as_uri() + "?start=2&end=3",
            (world.project / "src").as_uri() + "/",
            (world.project / "with space.txt").as_uri(),
        ]
        assert receipt.prompt.notes is None
        (message,) = await answered(hf, session)
    assert isinstance(message, UserMessage)
    assert message.files == receipt.prompt.files
    ((_, content),) = world.model.last.said
    assert content.split("\n", 1)[0] == text
    assert content.count("<attached-file") == 4
    for attached in (
        '<attached-file name="hello.txt">\nhello world\n\n</attached-file>',
        '<attached-file name="src/a.py#L2-3">\ntwo\nthree\n\n</attached-file>',
        '<attached-file name="src/">\na.py\n</attached-file>',
        '<attached-file name="with space.txt">\nspaced\n\n</attached-file>',
    ):
        assert attached in content


async def test_without_resolve_only_the_callers_attachments_count(world: World) -> None:
    """SES-271: their spans are stored as they are, right or wrong."""
    span = Source(start=0, end=999, text="@nothing")
    file = FileInput(uri=(world.project / "hello.txt").as_uri() + "?start=1&end=1", source=span)
    async with world.host() as hf:
        session = await hf.sessions.create()
        receipt = await hf.sessions.prompt(
            session.id, prompt=PromptInput(text="see @hello.txt", files=(file,)), resume=False
        )
    assert receipt.prompt.sent is None
    assert [(item.uri, item.source) for item in receipt.prompt.files or ()] == [(file.uri, span)]


async def test_what_is_no_mention_stays_plain_text(world: World) -> None:
    """SES-270, SES-272: addresses, code, decorators, packages, agents that nobody calls; no note either."""
    text = (
        "mail bob@example.com about `@hello.txt` and \\@hello.txt\n```\n@hello.txt\n```\n"
        "@dataclass @functools.cache @build '@scope/package' @alice"
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        receipt = await admit(hf, session, text)
        assert (receipt.prompt.files, receipt.prompt.agents, receipt.prompt.notes) == (None, None, None)
        await answered(hf, session)
    assert world.model.last.said == [("user", text)]


async def test_a_mentioned_agent_is_recorded_and_told(world: World) -> None:
    """SES-212, SES-272: with its span, and a note for the model."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        receipt = await admit(hf, session, "let @explore look at @explore")
        (note,) = receipt.prompt.notes or ()
        assert "`explore`" in note
        await answered(hf, session)
    assert world.model.last.said == [("user", "let @explore look at @explore"), ("user", note)]


async def test_an_agent_that_the_caller_names_is_told_with_those_of_the_text(world: World) -> None:
    """SES-212: each once."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        prompt = PromptInput(text="@explore", agents=(AgentInput(name="general"), AgentInput(name="explore")))
        receipt = await hf.sessions.prompt(session.id, prompt=prompt, resolve=True, resume=False)
        assert [note.split("`")[1] for note in receipt.prompt.notes or ()] == ["general", "explore"]


async def test_agents_that_the_caller_names_are_told_to_the_model(world: World) -> None:
    """SES-212: as clients send them that find mentions themselves; an agent that may not be called is not told of."""
    async with world.host() as hf:
        for resolve in (None, False, True):
            session = await hf.sessions.create()
            prompt = PromptInput(text="look around", agents=(AgentInput(name="explore"), AgentInput(name="nobody")))
            receipt = await hf.sessions.prompt(session.id, id=f"msg_{resolve}", prompt=prompt, resolve=resolve)
            await hf.sessions.wait(session.id)
            (note,) = receipt.prompt.notes or ()
            assert "`explore`" in note
            assert world.model.last.said == [("user", "look around"), ("user", note)]
            assert [agent.name for agent in receipt.prompt.agents or ()] == ["explore", "nobody"]
            again = await hf.sessions.prompt(session.id, id=f"msg_{resolve}", prompt=prompt, resolve=resolve)
            assert again.admitted_seq == receipt.admitted_seq


@pytest.mark.parametrize(
    "settings",
    [
        {"permission": {"task": "deny"}},
        {"permissions": [{"action": "subagent", "resource": "explore", "effect": "deny"}]},
        {"subagent_depth": 0},
    ],
)
async def test_an_agent_that_cannot_be_called_is_recorded_and_not_told(world: World, settings: Any) -> None:
    """SES-212, SES-272: with its span; nothing is added to what the model reads."""
    world.configure(**settings)
    async with world.host() as hf:
        session = await hf.sessions.create()
        receipt = await admit(hf, session, "let @explore look")
        (agent,) = receipt.prompt.agents or ()
        assert (agent.name, agent.source) == ("explore", Source(start=4, end=12, text="@explore"))
        (message,) = await answered(hf, session)
        assert isinstance(message, UserMessage)
        assert message.agents == receipt.prompt.agents
    assert world.model.last.said == [("user", "let @explore look")]


# -- what cannot be attached -------------------------------------------------------------------------------------------


async def test_what_cannot_be_attached_is_told_and_the_prompt_is_admitted(world: World) -> None:
    """SES-274, SES-276: each with its reason, in synthetic messages of the same commit, right after the prompt."""
    os.mkfifo(world.project / "pipe.log")
    with (world.project / "huge.csv").open("wb") as file:
        file.truncate(2 * 1024**3)
    (world.project / "program.c").write_bytes(b"\x7fELF\0\0\1\2" * 100)
    world.write("empty.txt", "")
    (world.project / "loop.txt").symlink_to("loop.txt")
    expected = {
        "@missing/file.py": "it does not exist",
        "@typo.md": "it does not exist",
        "@pipe.log": "it is a pipe, not a file",
        "@/dev/zero": "paths of the system's own file systems and devices are never used",
        "@huge.csv": "it has more than 20971520 bytes",
        "@program.c": "it is neither text nor an image (text/x-csrc, 800 bytes)",
        "@empty.txt": "it is empty",
        "@loop.txt": "its links lead in a circle",
        "@hello.txt#L5-9": "it has 1 line",
        "@hello.txt#L9-5": "9-5 is not a range of lines, which are counted from 1",
        "@hello.txt/x": "a part of the path is not a directory",
    }
    async with world.host() as hf:
        session = await hf.sessions.create()
        receipt = await admit(hf, session, f"look: {' '.join(expected)}")
        notes = [f"`{text}` could not be attached: {reason}" for text, reason in expected.items()]
        assert (receipt.prompt.files, list(receipt.prompt.notes or ())) == (None, notes)
        assert await hf.sessions.context(session.id) == []
        user, *told = await answered(hf, session)
        assert user.id == receipt.id
        assert [message.text for message in told if isinstance(message, SyntheticMessage)] == notes
        kinds = await types(hf, session)
        begin = kinds.index("prompted")
        assert kinds[begin + 1 : begin + 1 + len(notes)] == ["synthetic"] * len(notes)
        assert await hf.verify() == []
    assert [text for _, text in world.model.last.said] == [receipt.prompt.text, *notes]


async def test_a_large_directory_is_listed_up_to_a_limit(world: World) -> None:
    """SES-272, SES-275."""
    folder = world.project / "many"
    folder.mkdir()
    for number in range(600):
        (folder / f"{number:03}").touch()
    async with world.host() as hf:
        session = await hf.sessions.create()
        await admit(hf, session, "@many/")
        await answered(hf, session)
    listing = world.model.last.said[0][1]
    assert len([line for line in listing.splitlines() if line.isdecimal()]) == 500
    assert "[more entries are not shown]" in listing


async def test_ten_thousand_mentions_attach_sixty_four_files(world: World) -> None:
    """SES-275: the others are counted in one note."""
    for number in range(100):
        world.write(f"f{number}.txt", f"{number}\n")
    text = " ".join(f"@f{number}.txt" for number in range(10_000))
    async with world.host() as hf:
        session = await hf.sessions.create()
        receipt = await admit(hf, session, text)
    assert names(receipt) == [f"f{number}.txt" for number in range(64)]
    assert receipt.prompt.notes == (
        "9936 further mentions could not be attached: a prompt attaches at most 64 of them.",
    )


# -- permission --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reply", ["once", "reject"])
async def test_a_path_outside_is_asked_for_while_the_admission_waits(world: World, reply: Any) -> None:
    """SES-273, API-474: any client answers; nothing is admitted before; a no is told to the model."""
    outside = world.home / "outside"
    outside.mkdir()
    (outside / "notes.txt").write_text("from outside\n")
    async with world.host() as hf:
        session = await hf.sessions.create()
        for text in (f"read @{outside}/notes.txt", "read @~/outside/notes.txt", "read @../outside/notes.txt"):
            admission = asyncio.create_task(admit(hf, session, text))
            request = await asked(hf, session)
            assert (request.action, request.resources) == ("external_directory", (f"{outside}/*",))
            assert await hf.sessions.pending(session.id) == []
            await hf.permissions.reply(session.id, request_id=request.id, reply=reply)
            receipt = await admission
            mention = text.partition(" ")[2]
            if reply == "once":
                assert [file.uri for file in receipt.prompt.files or ()] == [(outside / "notes.txt").as_uri()]
                assert names(receipt) == [mention[1:]]
            else:
                note = f"`{mention}` could not be attached: the permission request was denied"
                assert (receipt.prompt.files, receipt.prompt.notes) == (None, (note,))
            await answered(hf, session)
            sent = str(world.model.last.said)
            assert ("from outside" in sent) is (reply == "once")


async def test_links_are_judged_by_their_target(world: World) -> None:
    """SES-273: one that leads out is asked for as a path outside, one to a denied file is denied."""
    outside = world.home / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("from outside\n")
    (world.project / "innocent.txt").symlink_to(outside / "secret.txt")
    world.write(".env", "TOKEN=1\n")
    (world.project / "settings.txt").symlink_to(".env")
    world.configure(permission={"read": {"*": "allow", "*.env": "deny"}})
    async with world.host() as hf:
        session = await hf.sessions.create()
        admission = asyncio.create_task(admit(hf, session, "@innocent.txt @settings.txt"))
        request = await asked(hf, session)
        assert (request.action, request.resources) == ("external_directory", (f"{outside}/*",))
        await hf.permissions.reply(session.id, request_id=request.id, reply="once")
        receipt = await admission
        await answered(hf, session)
    assert names(receipt) == ["innocent.txt"]
    assert receipt.prompt.notes == ("`@settings.txt` could not be attached: Permission denied: read .env",)
    assert "TOKEN" not in world.model.last.raw.decode()


async def test_the_rules_of_the_prompts_agent_count(world: World) -> None:
    """SES-273: here those of the Session's agent; nobody is asked where they allow or deny."""
    outside = world.home / "outside"
    outside.mkdir()
    (outside / "notes.txt").write_text("from outside\n")
    rules = {
        name: {"external_directory": "allow", "read": read} for name, read in (("open", "allow"), ("shut", "deny"))
    }
    world.configure(agent={name: {"mode": "primary", "permission": rule} for name, rule in rules.items()})
    async with world.host() as hf:
        found = {}
        for agent in rules:
            session = await hf.sessions.create(agent=agent)
            found[agent] = (await admit(hf, session, "@~/outside/notes.txt")).prompt
    assert (found["open"].notes, [file.name for file in found["open"].files or ()]) == (None, ["~/outside/notes.txt"])
    assert found["shut"].files is None
    assert "Permission denied: read" in (found["shut"].notes or ("",))[0]


async def test_a_caller_that_leaves_ends_the_request(world: World) -> None:
    """API-474: its permission request is closed, and nothing is admitted."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        admission = asyncio.create_task(admit(hf, session, f"@{world.home}"))
        await asked(hf, session)
        async with asyncio.timeout(PATIENCE), aclosing(aiter(hf.events.subscribe())) as live:
            await anext(live)
            admission.cancel()
            while await hf.permissions.list(session.id):
                await anext(live)
        assert await hf.sessions.pending(session.id) == []


# -- once and for all --------------------------------------------------------------------------------------------------


async def test_a_retry_is_recognised_and_not_resolved_again(world: World) -> None:
    """SES-037, SES-271: whatever became of the files, before and after promotion; another prompt is a conflict."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        first = await admit(hf, session, "@hello.txt @gone.txt", id="msg_1")
        (world.project / "hello.txt").unlink()
        world.write("gone.txt", "now it is here")
        assert await admit(hf, session, "@hello.txt @gone.txt", id="msg_1") == first
        for change in ({"resolve": None}, {"delivery": "queue"}):
            with pytest.raises(ApiError) as refused:
                await admit(hf, session, "@hello.txt @gone.txt", id="msg_1", **change)
            assert refused.value.status == 409
        own = PromptInput(text="@hello.txt @gone.txt", files=(FileInput(uri=(first.prompt.files or ())[0].uri),))
        with pytest.raises(ApiError):
            await hf.sessions.prompt(session.id, prompt=own, id="msg_1", resolve=True, resume=False)
        await answered(hf, session)
        again = await admit(hf, session, "@hello.txt @gone.txt", id="msg_1")
        assert again.prompt == first.prompt
        assert again.promoted_seq is not None
        kinds = await types(hf, session)
        assert (kinds.count("prompt.admitted"), kinds.count("synthetic")) == (1, 1)


async def test_resolve_makes_no_difference_to_a_text_without_mentions(world: World) -> None:
    """SES-271."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        first = await admit(hf, session, "plain", id="msg_1")
        assert first.prompt.sent is None
        assert await admit(hf, session, "plain", id="msg_1", resolve=None) == first


async def test_another_process_sends_what_the_first_one_resolved(world: World) -> None:
    """SES-207, SES-213, SES-276: nothing is expanded again."""
    requests = []
    session_id = ""
    for turn in range(2):
        async with world.host() as hf:
            if not session_id:
                session = await hf.sessions.create()
                session_id = session.id
                await admit(hf, session, "@hello.txt @gone.txt")
            await hf.sessions.run(session_id)
            requests.append(world.model.last.said[:2])
            (world.project / "hello.txt").write_text(f"changed {turn}\n")
            world.write("gone.txt", "here")
            assert await hf.verify() == []
            await hf.rebuild()
    assert requests[0] == requests[1]
    assert "hello world" in str(requests[0])
    assert requests[0][1] == ("user", "`@gone.txt` could not be attached: it does not exist")


async def test_a_revert_takes_the_notes_with_their_prompt(world: World) -> None:
    """SES-276: each prompt has its notes behind it, whatever else is promoted with it."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        for text in ("one", "@gone.txt two", "@lost.txt three"):
            await admit(hf, session, text, id=f"msg_{text[:3].strip('@')}")
        messages = await answered(hf, session)
        assert [message.text.partition(" ")[0] for message in messages] == [
            "one",
            "@gone.txt",
            "`@gone.txt`",
            "@lost.txt",
            "`@lost.txt`",
        ]
        await hf.sessions.stage_revert(session.id, message_id="msg_one")
        await hf.sessions.commit_revert(session.id)
        left = await hf.sessions.context(session.id)
        assert [getattr(message, "text", "") for message in left] == ["one"]


# -- over the network and on the command line --------------------------------------------------------------------------


def test_mentions_over_http(serve: Serve, holdfast: Machine) -> None:
    """API-474, SES-271: `resolve` is beside `prompt`; inside it is refused by name."""
    with httpx2.Client(base_url=serve("--no-auth").url, timeout=30) as http:
        session = f"/api/session/{http.post('/api/session', json={}).json()['data']['id']}"
        prompt = {"text": "see @hello.txt and @no/such"}
        receipt = http.post(f"{session}/prompt", json={"prompt": prompt, "resolve": True, "resume": False}).json()
        assert receipt["data"]["prompt"] == {
            "text": prompt["text"],
            "files": [
                {
                    "uri": (holdfast.project / "hello.txt").as_uri(),
                    "mime": "text/plain",
                    "name": "hello.txt",
                    "source": {"start": 4, "end": 14, "text": "@hello.txt"},
                }
            ],
            "notes": ["`@no/such` could not be attached: it does not exist"],
            "sent": receipt["data"]["prompt"]["sent"],
        }
        refused = http.post(f"{session}/prompt", json={"prompt": {**prompt, "resolve": True}})
        assert (refused.status_code, refused.json()["field"]) == (400, "prompt.resolve")


def test_a_run_resolves_mentions(holdfast: Machine, provider: Provider) -> None:
    """API-475: and shows what could not be attached. A path outside is denied without a terminal; --yes allows it."""
    holdfast.use_provider(provider.url)
    (holdfast.home / "outside.txt").write_text("from outside\n")
    ran = holdfast("run", "see @hello.txt, @typo.md and @~/outside.txt")
    assert ran.code == 0, ran.err
    said = str(provider.bodies[0]["messages"])
    assert "hello world" in said
    assert "! `@typo.md` could not be attached: it does not exist" in ran.err
    assert "! `@~/outside.txt` could not be attached: " in ran.err
    assert "from outside" not in said
    ran = holdfast("run", "--yes", "-q", "see @~/outside.txt")
    assert (ran.code, ran.err) == (0, "")
    assert "from outside" in str(provider.bodies[-1]["messages"])


def test_a_run_without_mentions(holdfast: Machine, provider: Provider) -> None:
    """API-475."""
    holdfast.use_provider(provider.url)
    ran = holdfast("run", "--no-mentions", "see @hello.txt and @typo.md")
    assert ran.code == 0, ran.err
    assert "typo.md" not in ran.err
    assert provider.bodies[0]["messages"][-1]["content"] == "see @hello.txt and @typo.md"


def test_mentions_in_a_call_of_a_command(holdfast: Machine, provider: Provider) -> None:
    """API-460, API-475, CAT-230: of the arguments as of the template; `--no-mentions` leaves the arguments alone."""
    holdfast.use_provider(provider.url)
    folder = holdfast.project / ".opencode" / "command"
    folder.mkdir(parents=True)
    (folder / "look.md").write_text("Look: $ARGUMENTS")
    ran = holdfast("run", "/look @hello.txt and @typo.md")
    assert ran.code == 0, ran.err
    assert "hello world" in str(provider.bodies[-1]["messages"])
    assert "! `@typo.md` could not be attached: it does not exist" in ran.err
    plain = holdfast("run", "--no-mentions", "/look @hello.txt and @typo.md")
    assert (plain.code, "typo.md" in plain.err) == (0, False)
    assert provider.bodies[-1]["messages"][-1]["content"] == "Look: @hello.txt and @typo.md"


def test_a_person_allows_a_mentioned_file(holdfast: Machine, provider: Provider) -> None:
    """API-475, SES-273: in the terminal, before the prompt is sent."""
    holdfast.use_provider(provider.url)
    (holdfast.home / "outside.txt").write_text("from outside\n")
    person = holdfast.at_terminal("run", "see @~/outside.txt")
    person.wait_for("external_directory")
    assert provider.bodies == []
    person.type("y\n")
    assert person.leave().code == 0
    assert "from outside" in str(provider.bodies[0]["messages"])
