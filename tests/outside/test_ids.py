"""Ids are names, not paths: what a caller may choose."""

from __future__ import annotations

from collections.abc import Callable

import httpx2
import pytest
from tests.cli.conftest import Server
from tests.outside.test_forks import talked
from tests.outside.test_retention import ids, policy
from tests.outside.world import World

from holdfast import InvalidRequest, PromptInput

pytestmark = pytest.mark.anyio

ODD = ("ses_x/../../escape", "ses_.", "ses a", "ses_\n", "ses_\x1b[2J", "ses_\u202e", "ses_é", "ses:1", "ses\\x")


async def test_an_id_that_a_caller_chooses_has_letters_digits_and_two_marks(world: World) -> None:
    """SES-002, SES-488: of Sessions and messages alike; the error names the id, with nothing that a terminal obeys."""
    async with world.host() as hf:
        for id in (*ODD, f"ses_{'x' * 100}"):
            with pytest.raises(InvalidRequest) as refused:
                await hf.sessions.create(id=id)
            assert refused.value.field == "id"
            assert "letters, digits, `_` and `-`" in str(refused.value)
            assert str(refused.value).isascii()
            assert str(refused.value).isprintable()
        session = await hf.sessions.create(id="ses-my_own-1")
        for id in ("msg_../x", "msg_ x", "msg_\n"):
            with pytest.raises(InvalidRequest):
                await hf.sessions.prompt(session.id, id=id, prompt=PromptInput(text="go"))
            with pytest.raises(InvalidRequest):
                await hf.sessions.synthetic(session.id, id=id, text="go")
        assert await ids(hf) == {"ses-my_own-1"}


def test_a_workspace_is_no_path_either(serve: Callable[..., Server]) -> None:
    """SES-488."""
    with httpx2.Client(base_url=f"{serve('--no-auth').url}/api") as client:
        for workspace in ("wrk_\n", "wrk_\x1b[2J", "wrk a"):
            body = {"location": {"directory": "/tmp", "workspaceID": workspace}}
            assert client.post("/session", json=body).status_code == 400, workspace


async def test_a_session_that_cannot_be_exported_stays_and_keeps_no_other(world: World) -> None:
    """OPS-114, SES-488: a folder stands where the bundle of one of three would be written."""
    export = world.home / "export"
    policy(world, age=0, export=str(export))
    async with world.host() as hf:
        one, two, three = [await talked(hf, name) for name in ("one", "two", "three")]
        (export / f"{two.id}.holdfast").mkdir(parents=True)
        report = await hf.apply_retention()
        assert {item.id for item in report.items} == {one.id, three.id}
        (note,) = report.notes
        assert note.startswith(f"{two.id} stays: its bundle was not written: ")
        assert await ids(hf) == {two.id}
