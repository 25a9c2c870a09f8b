"""Lists of Sessions and of messages, as the store gives them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.conftest import MODEL, ManualClock
from tests.core.conftest import tables

from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.core.session.errors import MessageNotFound, MessageUndecodable, SessionNotFound
from holdfast.core.session.stored_sessions import SessionAnchor, SessionFilter
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema.location import Location
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import Session

pytestmark = pytest.mark.anyio

ALL = SessionFilter()


async def create(runtime: Runtime, *, directory: Path | None = None, workspace: str | None = None) -> Session:
    location = Location(directory=str(directory or runtime.directory), workspace_id=workspace)
    return await runtime.sessions.create(location=location, project=await runtime.project(location), model=MODEL)


async def ids(runtime: Runtime, chosen: SessionFilter = ALL, *, order: str = "desc", limit: int = 50) -> list[str]:
    page = await runtime.sessions.page(chosen, order=order, limit=limit)  # type: ignore[arg-type]
    return [session.id for session in page]


async def test_each_filter_of_the_session_list_narrows_it(runtime: Runtime, tmp_path: Path) -> None:
    """SES-011, SES-013, SES-027: put away or not, directory exactly, project with a subpath, workspace, and a piece of
    the title whose wildcards are letters like any other."""
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "app" / "deep").mkdir(parents=True)
    (tmp_path / "repo" / "application").mkdir()
    root = await create(runtime, directory=tmp_path / "repo")
    app = await create(runtime, directory=tmp_path / "repo" / "app")
    deep = await create(runtime, directory=tmp_path / "repo" / "app" / "deep")
    beside = await create(runtime, directory=tmp_path / "repo" / "application", workspace="wrk_1")
    await runtime.sessions.rename(app.id, "100% done_now")
    await runtime.sessions.rename(deep.id, "1000 done-now")

    assert await ids(runtime, SessionFilter(directory=str(tmp_path / "repo"))) == [root.id]
    assert await ids(runtime, SessionFilter(project=root.project_id, subpath="app")) == [deep.id, app.id]
    assert await ids(runtime, SessionFilter(workspace="wrk_1")) == [beside.id]
    assert await ids(runtime, SessionFilter(search="0% d")) == [app.id]
    assert await ids(runtime, SessionFilter(search="e_n")) == [app.id]
    assert await ids(runtime, SessionFilter(search="DONE")) == [deep.id, app.id]
    await runtime.sessions.archive(app.id)
    assert await ids(runtime, SessionFilter(search="DONE", archived=False)) == [deep.id]
    assert await ids(runtime, SessionFilter(archived=True)) == [app.id]
    await runtime.sessions.archive(app.id, archived=False)
    assert await ids(runtime, SessionFilter(archived=True)) == []


async def test_anchors_continue_and_go_back(tmp_path: Path, clock: ManualClock, model: ScriptedTransport) -> None:
    """SES-011, SES-012: strictly after the anchor, or before it in the same order; ties on the time are told apart."""
    async with Runtime(
        paths=Paths(tmp_path / "data"),
        directory=tmp_path,
        environment={},
        clock=clock,
        transport=model,
        options=HostOptions(titles=False),
    ) as runtime:
        made = [await create(runtime) for _ in range(5)][::-1]
        second = SessionAnchor(id=made[1].id, time=made[1].time.created, direction="next")
        fourth = SessionAnchor(id=made[3].id, time=made[3].time.created, direction="previous")

        after = await runtime.sessions.page(ALL, order="desc", limit=2, anchor=second)
        before = await runtime.sessions.page(ALL, order="desc", limit=2, anchor=fourth)

        assert [item.id for item in after] == [item.id for item in made[2:4]]
        assert [item.id for item in before] == [item.id for item in made[1:3]]
        assert await ids(runtime, order="asc") == [item.id for item in made[::-1]]


async def test_messages_follow_the_log_not_their_ids(runtime: Runtime, session: Session) -> None:
    """SES-016: caller-chosen ids sort differently; newest first unless asked, and anchors are sequences."""
    for id in ("msg_z", "msg_a", "msg_m"):
        await runtime.sessions.prompt(session.id, Prompt(text=id), id=id)
        await runtime.sessions.wait(session.id)
    up = await runtime.sessions.messages(session.id, order="asc", limit=50)
    users = [row.id for row in up if row.id in ("msg_z", "msg_a", "msg_m")]

    assert users == ["msg_z", "msg_a", "msg_m"]
    assert [row.seq for row in up] == sorted(row.seq for row in up)
    down = await runtime.sessions.messages(session.id, order="desc", limit=2)
    assert [row.id for row in down] == [row.id for row in up[:-3:-1]]
    following = await runtime.sessions.messages(session.id, order="desc", limit=2, anchor=down[-1].seq)
    assert [row.id for row in following] == [row.id for row in up[-3:-5:-1]]
    back = await runtime.sessions.messages(
        session.id, order="desc", limit=1, anchor=following[0].seq, direction="previous"
    )
    assert [row.id for row in back] == [down[-1].id]


async def test_a_message_is_found_only_in_its_own_session(runtime: Runtime, session: Session) -> None:
    """SES-017, SES-018: another Session's message looks as if it did not exist, and so does its anchor."""
    other = await create(runtime)
    await runtime.sessions.prompt(session.id, Prompt(text="x"), id="msg_mine")
    await runtime.sessions.wait(session.id)

    assert (await runtime.sessions.message(session.id, "msg_mine")).id == "msg_mine"
    with pytest.raises(MessageNotFound) as caught:
        await runtime.sessions.message(other.id, "msg_mine")
    assert session.id not in str(caught.value)
    with pytest.raises(SessionNotFound):
        await runtime.sessions.message("ses_nobody", "msg_mine")
    assert await runtime.sessions.messages(other.id, order="asc", limit=5) == []


async def test_a_row_that_cannot_be_decoded_is_named(runtime: Runtime, session: Session) -> None:
    """SES-020: with its Session and id; the details are the cause, for the log. The next prompt is not lost on it."""
    await runtime.sessions.prompt(session.id, Prompt(text="x"), id="msg_broken")
    await runtime.sessions.wait(session.id)
    broken = '{"time":{"created":1},"text":5}'
    with tables(runtime) as sql:
        sql("update session_message set data = ? where id = 'msg_broken'", broken)

    with pytest.raises(MessageUndecodable) as caught:
        (await runtime.sessions.message(session.id, "msg_broken")).decode()
    assert (caught.value.session_id, caught.value.message_id) == (session.id, "msg_broken")
    assert isinstance(caught.value.__cause__, msgspec.ValidationError)
    with pytest.raises(MessageUndecodable):
        await runtime.sessions.run(session.id)
