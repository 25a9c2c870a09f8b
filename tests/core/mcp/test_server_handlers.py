"""What a Location answers when a server asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.core.mcp.seam import CallFor
from holdfast.core.mcp.server_handlers import ServerHandlers
from holdfast.core.mcp.server_host import ServerHost
from holdfast.core.mcp.server_log import ServerLog
from holdfast.mcp.handlers import Asked
from holdfast.mcp.input import Elicitation, ElicitationAnswer

pytestmark = pytest.mark.anyio

QUESTION = Elicitation(message="?", requested_schema={})


class Asking:
    def __init__(self) -> None:
        self.asked: list[CallFor] = []

    async def elicit(self, server: str, request: Elicitation, whom: CallFor) -> ElicitationAnswer:
        self.asked.append(whom)
        return ElicitationAnswer(action="accept")


class Host:
    def __init__(self, people: Asking | None) -> None:
        self.directory = Path("/x")
        self._people = people

    def people(self) -> Asking | None:
        return self._people

    def sampler(self) -> None:
        return None


def call(id: str) -> CallFor:
    return CallFor("ses_1", "msg_1", id, "build")


def handlers(tmp_path: Path, people: Asking | None) -> ServerHandlers:
    host = cast("ServerHost", Host(people))
    return ServerHandlers("s", host, ServerLog(tmp_path / "log"), lambda kind: None)


async def test_a_question_belongs_to_the_newest_call_that_it_can_belong_to(tmp_path: Path) -> None:
    """MCP-159."""
    people = Asking()
    found = handlers(tmp_path, people)
    for id in ("a", "b", "c"):
        found.begin_call(id, call(id))
    elicit: Any = found.made(lambda error: None).elicit
    assert (await elicit(QUESTION, Asked(("a", "b")))).action == "accept"
    found.end_call("b")
    await elicit(QUESTION, Asked(("a", "b")))
    assert [whom.call_id for whom in people.asked] == ["b", "a"]
    assert (await elicit(QUESTION, Asked(()))).action == "cancel"
    assert (await elicit(QUESTION, Asked(("b",)))).action == "cancel"


async def test_where_there_is_nobody_a_question_is_cancelled(tmp_path: Path) -> None:
    """MCP-159."""
    found = handlers(tmp_path, None)
    found.begin_call("a", call("a"))
    elicit: Any = found.made(lambda error: None).elicit
    assert (await elicit(QUESTION, Asked(("a",)))).action == "cancel"
