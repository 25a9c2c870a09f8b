"""Approvals for good: what is stored, what it releases, and how far it reaches."""

from __future__ import annotations

import apsw
import pytest
from tests.conftest import ManualClock
from tests.core.event.samples import SES, Story, raw
from tests.core.permission.desk import REPLIED, Desk, rule, soon, want

from holdfast.core.clock import Ids
from holdfast.core.permission.errors import DeniedByRule, InvalidSave
from holdfast.schema.session_event import AgentSwitched

pytestmark = pytest.mark.anyio


async def test_always_saves_each_offered_pattern_once(desk: Desk) -> None:
    """TOL-096, TOL-097: one row per pattern, ids ascending; approving the same again changes nothing."""
    for _ in range(2):
        # Offered again, although saved: a rule that is narrower than `*` still asks.
        desk.rules["build"] = [rule("ask", "edit", "a*")]
        task, request = await desk.wait(want("edit", "a.txt", save=("*", "src/*")))
        await desk.permissions.reply(SES, request.id, "always")
        await soon(task)
    saved = await desk.permissions.saved.here()
    assert [(item.project_id, item.action, item.resource) for item in saved] == [
        ("prj_1", "edit", "*"),
        ("prj_1", "edit", "src/*"),
    ]
    assert all(item.id.startswith("psv_") for item in saved)
    assert saved[0].id < saved[1].id
    assert await desk.permissions.saved.of_project("prj_1") == saved
    assert await desk.permissions.saved.of_project("prj_2") == ()


async def test_always_without_a_pattern_is_once(desk: Desk) -> None:
    """TOL-096: nothing is stored, and the next call asks again."""
    task, request = await desk.wait(want())
    await desk.permissions.reply(SES, request.id, "always")
    await soon(task)
    assert await desk.permissions.saved.here() == ()
    assert (await desk.permissions.ask(want())).effect == "ask"


async def test_a_reply_of_once_saves_no_approval(desk: Desk) -> None:
    """TOL-322: it covers the one call that was shown."""
    task, request = await desk.wait(want(save=("*",)))
    await desk.permissions.reply(SES, request.id, "once")
    await soon(task)
    assert await desk.permissions.saved.here() == ()


async def test_a_saved_approval_holds_until_it_is_removed(desk: Desk) -> None:
    """TOL-076, TOL-347: until it is removed, which counts from the next evaluation; a deny counts in any case."""
    task, request = await desk.wait(want("bash", "git status", save=("git status *",)))
    await desk.permissions.reply(SES, request.id, "always")
    await soon(task)
    await soon(desk.permissions.assert_allowed(want("bash", "git status -s")))
    assert (await desk.permissions.ask(want("bash", "git push"))).effect == "ask"
    desk.rules["build"] = [rule("deny", "bash")]
    with pytest.raises(DeniedByRule):
        await desk.permissions.assert_allowed(want("bash", "git status -s"))
    desk.rules["build"] = []
    (approval,) = await desk.permissions.saved.here()
    await desk.permissions.saved.remove(approval.id)
    await desk.permissions.saved.remove("psv_unknown")
    assert await desk.permissions.saved.here() == ()
    assert (await desk.permissions.ask(want("bash", "git status -s"))).effect == "ask"


async def test_a_person_chooses_among_the_offered_patterns(desk: Desk) -> None:
    """TOL-099: a narrower one of those shown; anything else is refused and the request waits on."""
    task, request = await desk.wait(want("edit", "src/a.py", save=("src/a.py", "src/*", "*")))
    for wrong in (["**"], ["src/*", "/etc/*"]):
        with pytest.raises(InvalidSave) as caught:
            await desk.permissions.reply(SES, request.id, "always", save=wrong)
        assert caught.value.patterns == (wrong[-1],)
    with pytest.raises(InvalidSave):
        await desk.permissions.reply(SES, request.id, "once", save=["src/*"])
    assert not task.done()
    await desk.permissions.reply(SES, request.id, "always", save=["src/*", "src/*"])
    await soon(task)
    assert [item.resource for item in await desk.permissions.saved.here()] == ["src/*"]


async def test_always_alone_saves_what_was_shown(desk: Desk) -> None:
    """TOL-362: patterns with a star are for those who choose them."""
    task, request = await desk.wait(want("edit", "src/a.py", "b", save=("src/a.py", "b", "src/*", "*")))
    await desk.permissions.reply(SES, request.id, "always")
    await soon(task)
    assert [item.resource for item in await desk.permissions.saved.here()] == ["src/a.py", "b"]


async def test_a_command_is_approved_as_a_whole(desk: Desk) -> None:
    """TOL-363, TOL-322: the very same command is allowed from then on, also one that waits; its parts are not, nor a
    command of which it is one part, nor another action."""
    resources, whole = ("cd b", "rm c"), "cd b && rm c"
    task, request = await desk.wait(want("bash", *resources, save=(whole, "cd *")))
    same, _ = await desk.wait(want("bash", *resources, save=(whole, "cd *")))
    part, part_request = await desk.wait(want("bash", "rm c", save=("rm c",)))
    await desk.permissions.reply(SES, request.id, "always")
    await soon(task)
    await soon(same)
    assert [item.resource for item in await desk.permissions.saved.here()] == [whole]
    await soon(desk.permissions.assert_allowed(want("bash", *resources, save=(whole, "cd *"))))
    for other in (
        want("bash", "cd b", save=("cd b",)),
        want("bash", *resources, save=("rm c && cd b", whole)),
        want("bash", *resources),
        want("edit", *resources, save=(whole,)),
    ):
        assert (await desk.permissions.ask(other)).effect == "ask"
    assert part_request in await desk.permissions.list()
    assert not part.done()
    desk.rules["build"] = [rule("deny", "bash", "rm *")]
    with pytest.raises(DeniedByRule):
        await desk.permissions.assert_allowed(want("bash", *resources, save=(whole, "cd *")))


async def test_always_releases_what_it_now_covers(desk: Desk, story: Story) -> None:
    """TOL-096, TOL-322: requests of any Session here, each wholly covered, by their own agents' rules."""
    await Story(story.database, story.log, "ses_two").begin()
    desk.rules["careful"] = [rule("ask", "edit", "src/secret*")]
    desk.rules["forbidden"] = []
    asking, request = await desk.wait(want("edit", "src/a", save=("src/*",)))
    covered, covered_request = await desk.wait(want("edit", "src/b", "src/c", session="ses_two"))
    partly, partly_request = await desk.wait(want("edit", "src/b", "docs/c"))
    other_action, other_request = await desk.wait(want("read", "src/b"))
    narrower, narrower_request = await desk.wait(want("edit", "src/secret", agent="careful"))
    denied, denied_request = await desk.wait(want("edit", "src/b", agent="forbidden"))
    desk.rules["forbidden"] = [rule("deny")]
    await desk.permissions.reply(SES, request.id, "always")
    await soon(asking)
    await soon(covered)
    replies = [(item["requestID"], item["reply"]) for item in await desk.ear.count(REPLIED, 2)]
    assert replies == [(request.id, "always"), (covered_request.id, "always")]
    waiting = {item.id for item in await desk.permissions.list()}
    assert waiting == {partly_request.id, other_request.id, narrower_request.id, denied_request.id}
    assert not any(task.done() for task in (partly, other_action, narrower, denied))


async def test_a_switch_of_agent_releases_nothing(desk: Desk, story: Story) -> None:
    """TOL-322, TOL-096, SES-119: a pending request is judged under the agent that made it."""
    desk.rules["strict"] = [rule("ask", "edit", "src/b")]
    desk.rules["free"] = [rule("allow")]
    first, request = await desk.wait(want("edit", "src/a", save=("src/*",)))
    strict, strict_request = await desk.wait(want("edit", "src/b", agent="strict"))
    await story.tell(AgentSwitched, message_id="msg_switch", agent="free")
    await desk.permissions.reply(SES, request.id, "always")
    await soon(first)
    assert await desk.permissions.list() == (strict_request,)
    assert not strict.done()


async def test_approvals_stay_in_their_project(desk: Desk, ids: Ids, clock: ManualClock) -> None:
    """TOL-096, TOL-097, TOL-322: another project asks for itself; one that is not stored yet can still save."""
    task, request = await desk.wait(want(save=("*",)))
    await desk.permissions.reply(SES, request.id, "always")
    await soon(task)
    other = Desk(desk.log, desk.database, ids, clock, project="prj_new")
    task, request = await other.wait(want(save=("a.txt",)))
    await other.permissions.reply(SES, request.id, "always")
    await soon(task)
    assert [item.resource for item in await other.permissions.saved.here()] == ["a.txt"]
    assert [item.resource for item in await desk.permissions.saved.here()] == ["*"]
    await other.close()


@pytest.mark.store("sqlite", reason="foreign keys")
async def test_approvals_go_with_their_project(desk: Desk, story: Story) -> None:
    """TOL-097: deleting a project deletes what was approved for it."""
    asked = await desk.permissions.ask(want(save=("*",)))
    await desk.permissions.reply(SES, asked.id, "always")
    assert raw(story.database.path, "select action, resource from permission") == [("edit", "*")]
    connection = apsw.Connection(str(story.database.path))
    connection.execute("pragma foreign_keys=on; delete from session; delete from project where id = 'prj_1'")
    connection.close()
    assert await desk.permissions.saved.here() == ()


async def test_the_lenient_setting_lets_a_saved_star_win(desk: Desk, ids: Ids, clock: ManualClock) -> None:
    """TOL-077: strict unless told otherwise."""
    asked = await desk.permissions.ask(want("read", "a", save=("*",)))
    await desk.permissions.reply(SES, asked.id, "always")
    lenient = Desk(desk.log, desk.database, ids, clock)
    lenient.permissions.saved_beats_narrower_ask = True
    desk.rules["build"] = lenient.rules["build"] = [rule("ask", "read", "*.env")]
    assert (await desk.permissions.ask(want("read", "x.env"))).effect == "ask"
    assert (await lenient.permissions.ask(want("read", "x.env"))).effect == "allow"
    await lenient.close()


async def test_nothing_is_saved_for_a_directory_that_is_gone(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """TOL-393: the call that was shown may still be made; the log says that the approval was for this one."""
    task, request = await desk.wait(want(save=("*",)))
    directory = desk.permissions.saved._project.directory
    directory.rename(directory.with_name("elsewhere"))
    await desk.permissions.reply(SES, request.id, "always")
    await soon(task)
    assert f"{directory} is not there any more" in caplog.text
    assert await desk.permissions.saved.here() == ()
    directory.with_name("elsewhere").rename(directory)
    assert await desk.permissions.saved.here() == ()
