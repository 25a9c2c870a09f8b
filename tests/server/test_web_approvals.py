"""Approval links: one request, one answer, and what does not work."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.core.conftest import tables
from tests.server.conftest import UNKNOWN

from holdfast.core.page_access.approval_links import LIFETIME_SECONDS, MOST
from holdfast.core.runtime.runtime import Runtime
from holdfast.core.session.records import NewSession
from holdfast.server.auth import Credentials
from holdfast.server.throttle import FAILURES

pytestmark = pytest.mark.anyio

OWNER = httpx2.BasicAuth("opencode", "secret")
GONE = (404, "NotFoundError")


@pytest.fixture
def credentials() -> Credentials | None:
    return Credentials("secret")


@pytest.fixture(autouse=True)
def rules(project: Path) -> None:
    config = {"permission": {"*": "allow", "deploy": "ask"}}
    (project / "opencode.json").write_text(json.dumps(config), encoding="utf-8")


async def create(http: httpx2.AsyncClient) -> str:
    session = str((await http.post("/api/session", json={}, auth=OWNER)).json()["data"]["id"])
    renamed = await http.post(f"/api/session/{session}/rename", json={"title": "mine"}, auth=OWNER)
    assert renamed.status_code == 200, renamed.text
    return session


async def ask(http: httpx2.AsyncClient, session: str, **fields: object) -> str:
    """A request of a Session that waits for an answer."""
    wish = {"action": "deploy", "resources": ["site/1"], "save": ["site/*"], **fields}
    answer = await http.post(f"/api/session/{session}/permission", json=wish, auth=OWNER)
    assert answer.json()["data"]["effect"] == "ask", answer.text
    return str(answer.json()["data"]["id"])


async def link(http: httpx2.AsyncClient, session: str, request: str, **fields: object) -> str:
    """The token of a new link."""
    answer = await http.post(f"/api/session/{session}/permission/{request}/link", json=fields, auth=OWNER)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["data"]["path"]).removeprefix("/#/approve/")


async def show(http: httpx2.AsyncClient, token: str) -> httpx2.Response:
    return await http.post("/web/approval", json={"token": token})


async def reply(http: httpx2.AsyncClient, token: str, reply: str = "once", **fields: object) -> httpx2.Response:
    return await http.post("/web/approval/reply", json={"token": token, "reply": reply, **fields})


async def waiting(http: httpx2.AsyncClient, session: str) -> list[str]:
    found = (await http.get(f"/api/session/{session}/permission", auth=OWNER)).json()["data"]
    return [each["id"] for each in found]


def failure(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["_tag"]


async def test_whoever_has_the_link_sees_the_request_and_answers_it_once(http: httpx2.AsyncClient) -> None:
    """WEB-030, WEB-031: without credentials; looking does not use it up, answering does."""
    session = await create(http)
    request = await ask(http, session)
    token = await link(http, session, request)
    assert len(token) == 43
    for _ in range(2):
        shown = (await show(http, token)).json()
        asked = shown["request"]
        assert (asked["id"], asked["kind"], asked["sessionID"]) == (request, "permission", session)
        assert (asked["titles"], asked["permission"]["resources"]) == (["mine"], ["site/1"])
        assert asked["since"] > 0
        assert list(shown["preview"]) == ["directory"]
    assert (await reply(http, token)).status_code == 204
    assert await waiting(http, session) == []
    assert failure(await show(http, token)) == failure(await reply(http, token)) == GONE
    assert (await http.get("/api/permission/saved", auth=OWNER)).json()["data"] == []


async def test_a_link_of_a_child_is_made_through_its_parent(http: httpx2.AsyncClient, runtime: Runtime) -> None:
    """WEB-030: as its requests are answered."""
    parent = await create(http)
    project = await runtime.project(runtime.location)
    new = NewSession("ses_below", project.id, runtime.location, None, parent_id=parent, title="below")
    child = (await runtime.sessions._records.create(new)).id
    request = await ask(http, child)
    token = await link(http, parent, request)
    asked = (await show(http, token)).json()["request"]
    assert (asked["sessionID"], asked["ancestors"], asked["titles"]) == (child, [parent], ["mine", "below"])
    assert (await reply(http, token, "reject", message="not today")).status_code == 204
    assert await waiting(http, child) == []


async def test_of_two_people_with_one_link_one_answers(http: httpx2.AsyncClient) -> None:
    """WEB-031: whatever they answer."""
    session = await create(http)
    for _ in range(5):
        token = await link(http, session, await ask(http, session))
        answers = await asyncio.gather(*(reply(http, token, "once" if number % 2 else "reject") for number in range(4)))
        assert sorted(answer.status_code for answer in answers) == [204, 404, 404, 404]


async def test_a_link_is_for_one_request(http: httpx2.AsyncClient) -> None:
    """WEB-030: an allowed one leaves the others open."""
    session = await create(http)
    first, second = await ask(http, session), await ask(http, session)
    assert (await reply(http, await link(http, session, first))).status_code == 204
    assert await waiting(http, session) == [second]


async def test_a_request_that_was_answered_elsewhere_has_no_link_any_more(http: httpx2.AsyncClient) -> None:
    """WEB-031: and none can be made for it."""
    session = await create(http)
    request = await ask(http, session)
    token = await link(http, session, request)
    path = f"/api/session/{session}/permission/{request}"
    assert (await http.post(f"{path}/reply", json={"reply": "once"}, auth=OWNER)).status_code == 204
    assert failure(await show(http, token)) == failure(await reply(http, token)) == GONE
    assert failure(await http.post(f"{path}/link", json={}, auth=OWNER)) == (404, "PermissionNotFoundError")


async def test_a_deleted_session_has_no_links_any_more(http: httpx2.AsyncClient) -> None:
    """WEB-031."""
    session = await create(http)
    token = await link(http, session, await ask(http, session))
    assert (await http.delete(f"/api/session/{session}", auth=OWNER)).status_code == 204
    assert failure(await show(http, token)) == failure(await reply(http, token)) == GONE


async def test_a_link_expires_and_its_token_is_not_stored(http: httpx2.AsyncClient, runtime: Runtime) -> None:
    """WEB-030: after 15 minutes, or what was asked for."""
    session = await create(http)
    request = await ask(http, session)
    now = runtime.page_access.clock.now()
    answer = await http.post(f"/api/session/{session}/permission/{request}/link", json={}, auth=OWNER)
    assert abs(answer.json()["data"]["expires"] - now - LIFETIME_SECONDS * 1000) < 60_000
    token = answer.json()["data"]["path"].removeprefix("/#/approve/")
    short = await link(http, session, request, seconds=10)
    with tables(runtime) as sql:
        rows = sql("select token from approval_link")
        assert token not in str(rows)
        sql("update approval_link set time_expires = time_expires - 10000")
    assert failure(await show(http, short)) == failure(await reply(http, short)) == GONE
    assert (await show(http, token)).status_code == 200
    await link(http, session, request)
    with tables(runtime) as sql:
        assert len(sql("select 1 from approval_link")) == 2  # the expired one is removed with the next


async def test_a_request_has_a_bounded_number_of_links(http: httpx2.AsyncClient) -> None:
    """WEB-030: the one that expires first goes."""
    session = await create(http)
    request = await ask(http, session)
    tokens = [await link(http, session, request, seconds=1000 + number) for number in range(MOST + 2)]
    statuses = [(await show(http, token)).status_code for token in (*tokens[2:], tokens[1], tokens[0])]
    assert statuses == [*[200] * MOST, 404, 404]


@pytest.mark.parametrize(
    "payload",
    [
        {"reply": "always"},
        {"reply": "once", "save": ["*"], "token": 1},
        {"reply": "yes"},
        {},
        {"reply": "reject", "message": "x" * 10_001},
        {"reply": "once", "token": "x" * 201},
    ],
)
async def test_a_link_never_saves_an_approval(http: httpx2.AsyncClient, payload: dict[str, Any]) -> None:
    """WEB-031, WEB-005: what it cannot do is refused, and the link stays."""
    session = await create(http)
    token = await link(http, session, await ask(http, session))
    answer = await http.post("/web/approval/reply", json={"token": token, **payload})
    assert failure(answer) == (400, "InvalidRequestError")
    assert (await reply(http, token)).status_code == 204


async def test_only_who_may_use_the_api_makes_links(http: httpx2.AsyncClient) -> None:
    """WEB-030: and only for open requests of that Session."""
    session, other = await create(http), await create(http)
    request = await ask(http, session)
    path = "/api/session/{}/permission/{}/link"
    assert (await http.post(path.format(session, request), json={})).status_code == 401
    for where in ((other, request), (session, "per_unknown"), (UNKNOWN, request)):
        assert (await http.post(path.format(*where), json={}, auth=OWNER)).status_code == 404
    for seconds in (9, 86_401, "x"):
        answer = await http.post(path.format(session, request), json={"seconds": seconds}, auth=OWNER)
        assert answer.status_code == 400


async def test_wrong_tokens_are_slowed_down(http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """WEB-032: the right one gets through."""
    monkeypatch.setattr("holdfast.server.throttle.DELAY_SECONDS", 0.2)
    session = await create(http)
    token = await link(http, session, await ask(http, session))
    for number in range(FAILURES):
        assert failure(await show(http, f"wrong{number}")) == GONE
    started = asyncio.get_running_loop().time()
    assert (await reply(http, token)).status_code == 204
    assert asyncio.get_running_loop().time() - started >= 0.2
