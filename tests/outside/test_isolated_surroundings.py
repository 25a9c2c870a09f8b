"""Isolated copies and what is around them: trust, approvals, the sandbox, submodules, limits, what a kill leaves."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from functools import partial

import pytest
from tests.cli.conftest import HOLDFAST
from tests.outside.isolation import (
    applying,
    copy_of,
    delegated,
    failure,
    isolated,
    requested,
    shell,
    states,
    text,
    told_to,
    worktrees,
)
from tests.outside.scripted_provider import PATIENCE, Request, Turn, calling
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, ask

from holdfast import ForkThrough, PromptInput
from holdfast.schema.session_message import ToolCompleted

pytestmark = pytest.mark.anyio

PLUGIN = '''
from holdfast.core.tool.typed import tool

@tool
def plug(what: str) -> str:
    """Does what it is told."""
    return "done"

class Acme:
    id = "acme"

    def setup(self, host):
        host.tool.register({"plug": plug})

plugin = Acme()
'''


async def test_trust_in_the_original_holds_for_the_same_content_in_the_copy(world: World) -> None:
    """SES-411: a plugin that was trusted runs in the copy; one that is edited there does not."""
    world.write(".opencode/plugin/acme.py", PLUGIN)
    world.repository()
    environment = {**world.environment, "PATH": os.environ["PATH"]}
    for trusts in (False, True):
        cast = world.model.always = Cast(
            root=[delegating(isolated("work"), "plain")],
            work=[shell("echo '# edited' >> .opencode/plugin/acme.py"), delegating("below")],
            below=[Turn(text="fine")],
        )
        async with world.host() as hf:
            await delegated(hf)
        assert ("plug" in cast.requests["work"][0].tools) == trusts
        assert ("plug" in cast.requests["plain"][0].tools) == trusts
        assert "plug" not in cast.requests["below"][0].tools
        trust = partial(subprocess.run, cwd=world.project, env=environment, check=True, capture_output=True)
        await asyncio.to_thread(trust, (HOLDFAST, "trust", "--yes"))


async def test_saved_approvals_of_the_project_hold_in_the_copy(world: World) -> None:
    """SES-411: it is the same repository."""
    world.repository()
    world.configure(permission={"edit": "ask"})
    cast = world.model.always = Cast(
        root=[calling("write", path="made.txt", content="one\n"), delegating(isolated("work"))],
        work=[calling("write", path="made.txt", content="two\n")],
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        request = await requested(hf, session)
        await hf.permissions.reply(session.id, request_id=request.id, reply="always")
        await hf.sessions.wait(session.id)
        assert "+two" in cast.requests["root"][-1].results[-1]
    assert (world.project / "made.txt").read_text() == "one\n"


@pytest.mark.parametrize("backend", ["namespaces", "landlock"])
async def test_a_sandbox_confines_the_child_to_its_copy(world: World, backend: str) -> None:
    """SES-411: commands write there, and cannot write to the original."""
    world.environment["HOLDFAST_SANDBOX_BACKEND"] = backend
    world.write("folder/file", "x")  # landlock keeps the folder with `.git` as it is
    world.repository()
    places = ("folder/made.txt", world.project / "folder" / "escaped", world.data / "escaped")
    attempt = "; ".join((*(f"echo x > {place}" for place in places), "git status --short"))
    cast = world.model.always = Cast(root=[delegating(isolated("work"))], work=[shell(attempt)])
    async with world.host(sandbox="workspace") as hf:
        report = await hf.sandbox.get(probe=True)
        if report.backend != backend:
            pytest.skip(f"no {backend} on this machine")
        _, child_id, state = await delegated(hf)
        assert isinstance(state, ToolCompleted)
    assert "?? folder/made.txt" in cast.requests["work"][-1].results[0]
    assert (copy_of(world, child_id) / "folder" / "made.txt").exists()
    assert not (world.project / "folder" / "escaped").exists()
    assert not (world.data / "escaped").exists()


async def test_submodules_are_told_as_not_included(world: World) -> None:
    """SES-410: a dirty one is not touched."""
    library = world.home / "library"
    library.mkdir()
    world.git("init", "-q", cwd=library)
    world.git("commit", "-qm", "x", "--allow-empty", cwd=library)
    world.repository()
    world.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    world.git("commit", "-qm", "lib")
    world.write("lib/dirty", "dirty\n")
    cast = world.model.always = Cast(root=[delegating(isolated("work"))], work=[shell("ls lib; git status --short")])
    async with world.host() as hf:
        _, _, state = await delegated(hf)
        assert "changed no files" in text(state)
    assert "submodules (lib)" in told_to(cast, "work")
    assert cast.requests["work"][-1].results[0].startswith("(no output)")
    assert (world.project / "lib" / "dirty").exists()


async def test_a_large_diff_is_cut_and_its_whole_is_a_managed_file(world: World) -> None:
    """TOL-471: for `git apply`; binary files are named."""
    world.repository()
    world.model.always = Cast(
        root=[delegating(isolated("work"))], work=[shell("seq 5000 > numbers.txt; printf 'a\\0b' > blob")]
    )
    async with world.host() as hf:
        _, _, state = await delegated(hf)
        read = text(state)
    assert len(read) < 25_000
    assert "blob" in read
    assert "numbers.txt | 5000" in read
    whole = read.partition("for `git apply`: ")[2].partition("]")[0]
    world.git("apply", whole)
    assert (world.project / "numbers.txt").read_text().endswith("5000\n")
    assert (world.project / "blob").read_bytes() == b"a\0b"


async def test_files_above_the_limit_of_snapshots_are_told_and_their_copy_stays(world: World) -> None:
    """SES-410, SES-415, TOL-475."""
    world.configure(holdfast={"titles": False, "snapshot": {"file_bytes": 1000}})
    world.write("large.txt", "x" * 2000)
    world.repository()
    cast = world.model.always = Cast(
        root=[delegating(isolated("work"))], work=[shell("head -c 3000 /dev/zero > huge; echo s > small")]
    )
    async with world.host() as hf:
        session, child_id, state = await delegated(hf)
        assert "too large (large.txt)" in told_to(cast, "work")
        assert "because they are too large or repositories of their own: huge" in text(state)
        state = await applying(world, hf, session, child_id)
        assert isinstance(state, ToolCompleted), state
        assert "Not applied" in text(state)
    assert (world.project / "small").exists()
    assert (copy_of(world, child_id) / "huge").exists()


async def test_what_a_killed_process_left_is_removed_at_the_next_start(world: World) -> None:
    """SES-412, SES-415: an unfinished copy; one with changes stays, though nobody knows its Session."""
    world.repository()
    world.model.always = Cast(root=[delegating(isolated("work"))], work=[shell("echo made > made.txt")])
    async with world.host() as hf:
        _, child_id, _ = await delegated(hf)
    record = json.loads((world.data / "copies" / f"{child_id}.json").read_text())
    for name, state in (("ses_unfinished", "making"), ("ses_unknown", "ready")):
        world.git("worktree", "add", "--quiet", "--detach", str(copy_of(world, name)))
        kept = {**record, "session_id": name, "state": state, "result": None}
        (world.data / "copies" / f"{name}.json").write_text(json.dumps(kept))
        (copy_of(world, name) / "unsaved").write_text("x")
    os.utime(world.data / "copies" / "ses_unknown.json", (0, 0))
    async with world.host() as hf:
        await hf.sessions.list()
        async with asyncio.timeout(PATIENCE):
            while (world.data / "copies" / "ses_unfinished.json").exists():  # noqa: ASYNC110 - only looking tells
                await asyncio.sleep(0.005)
    assert worktrees(world) == [str(world.project), str(copy_of(world, child_id)), str(copy_of(world, "ses_unknown"))]


async def test_a_copy_that_cannot_be_made_leaves_nothing(world: World) -> None:
    """SES-412: as with a full disk; no task is recorded."""
    world.repository()
    bin = world.home / "bin"
    bin.mkdir()
    script = '#!/bin/sh\ncase "$*" in *read-tree*) echo "fatal: No space left on device" >&2; exit 128;; esac\n'
    (bin / "git").write_text(f'{script}exec /usr/bin/git "$@"\n')
    (bin / "git").chmod(0o755)
    world.environment["PATH"] = f"{bin}:{world.environment['PATH']}"
    world.model.always = Cast(root=[delegating(isolated("work"))])
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        (state,) = await states(hf, session)
        assert "No space left on device" in failure(state)
        assert len((await hf.sessions.list()).items) == 1
    assert worktrees(world) == [str(world.project)]
    assert [path.suffix for path in (world.data / "copies").iterdir()] == [".lock"]


async def test_a_child_of_an_isolated_child_may_have_a_copy_of_the_copy(world: World) -> None:
    """SES-416: its changes are applied to the copy of its parent, and from there to the project."""
    world.repository()
    cast = Cast(
        root=[delegating(isolated("middle"))],
        middle=[shell("echo middle > middle.txt"), delegating(isolated("deep"))],
        deep=[shell("cat middle.txt > deep.txt")],
    )

    def play(request: Request) -> Turn:
        turn = cast(request)
        if turn.text != "middle done" or len(cast.requests["middle"]) > 3:
            return turn
        return calling("apply_subagent", sessionID=request.results[-1].partition('sessionID="')[2].partition('"')[0])

    world.model.always = play
    async with world.host() as hf:
        _, _, state = await delegated(hf)
        assert isinstance(state, ToolCompleted), state
        assert "+middle" in text(state)
        assert "deep.txt" in text(state)
    assert not (world.project / "deep.txt").exists()
    assert len(worktrees(world)) == 2


async def test_a_copy_stays_while_a_fork_works_in_it(world: World) -> None:
    """SES-413: though the child changed nothing."""
    world.repository()
    gate, never = asyncio.Event(), asyncio.Event()
    world.model.always = Cast(root=[delegating(isolated("work"))], work=[Turn(text="done", begin=gate)])
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        await world.model.asked(2)
        (child,) = [found for found in (await hf.sessions.list()).items if found.parent_id is not None]
        fork = await hf.sessions.fork(child.id, boundary=ForkThrough())
        world.model.plays(Turn(text="slow", begin=never))
        await hf.sessions.prompt(fork.id, prompt=PromptInput(text="and you?"))
        await world.model.asked(3)
        gate.set()
        await hf.sessions.wait(session.id)
        assert "It changed no files in its isolated copy at" in text((await states(hf, session))[0])
        assert copy_of(world, child.id).is_dir()
        never.set()


@pytest.mark.parametrize("repository", [True, False])
async def test_the_tool_that_applies_is_offered_to_those_who_can_use_it(world: World, repository: bool) -> None:
    """TOL-476: with subagents, in a repository, to agents that may edit."""
    world.configure(agents={"general": {}})
    if repository:
        world.repository()
    cast = world.model.always = Cast(root=[delegating("child")])
    async with world.host() as hf:
        await delegated(hf)
    assert ("apply_subagent" in cast.requests["root"][0].tools) == repository
    assert "apply_subagent" not in cast.requests["child"][0].tools


async def test_a_session_in_a_folder_of_the_project(world: World) -> None:
    """SES-411, TOL-473: the child works in the same folder; a file outside of it needs more than `edit`."""
    world.write("folder/file", "x\n")
    world.repository()
    cast = world.model.always = Cast(
        root=[delegating(isolated("work"))], work=[shell("echo in > made.txt; echo out > ../outside.txt")]
    )
    async with world.host(directory=world.project / "folder") as hf:
        session, child_id, _ = await delegated(hf)
        child = await hf.sessions.get(child_id)
        assert child.location.directory == str(copy_of(world, child_id) / "folder")
        assert child.subpath == session.subpath == "folder"
        cast.parts["root"] += [Turn(text="fine"), calling("apply_subagent", sessionID=child_id)]
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="apply it"))
        request = await requested(hf, session)
        assert (request.action, request.resources) == ("external_directory", (f"{world.project}/*",))
        await hf.permissions.reply(session.id, request_id=request.id, reply="once")
        await hf.sessions.wait(session.id)
        assert text((await states(hf, session))[-1]).endswith(f"A made.txt\nA {world.project}/outside.txt")
    assert (world.project / "outside.txt").read_text() == "out\n"
