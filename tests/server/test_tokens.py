"""Tokens at the server: who gets in with what, and what an attacker with a small role tries."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.core.conftest import tables
from tests.plain_http import NO_TLS
from tests.server.conftest import PATIENCE, listening
from tests.server.test_pty import TICKET, serving
from tests.server.test_web_sign_in import BASIC, PASSWORD, another, sign_in, status
from tests.server.test_web_terminals import closed, opened
from websockets.exceptions import InvalidStatus

from holdfast.core.access import tokens as stored
from holdfast.core.database.errors import StorageUnavailable
from holdfast.core.page_access.sign_ins import MOST_OF_TOKEN
from holdfast.core.runtime.runtime import Runtime
from holdfast.protocol.api import API
from holdfast.schema.access import ROLES, includes
from holdfast.schema.exceptions import Conflict, InvalidRequest
from holdfast.server.app import App
from holdfast.server.auth import Credentials
from holdfast.server.pty import SIGNED_OUT

pytestmark = pytest.mark.anyio


@pytest.fixture
def credentials() -> Credentials | None:
    return Credentials(PASSWORD)


Http = httpx2.AsyncClient


async def token(http: Http, name: str, role: str, **more: Any) -> str:
    made = await http.post("/api/token", json={"name": name, "role": role, **more}, headers=BASIC)
    assert made.status_code == 200, made.text
    return str(made.json()["data"]["token"])


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def basic(token: str, user: str = "whoever") -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()}


# -- who gets in -------------------------------------------------------------------------------------------------------


async def test_a_token_is_a_bearer_or_the_password_of_any_user(http: Http) -> None:
    """OPS-301."""
    made = await token(http, "ci", "read")
    query = base64.b64encode(f"x:{made}".encode()).decode()
    for headers in (bearer(made), {"authorization": f"bearer  {made}"}, basic(made), basic(made, "opencode")):
        assert await status(http, headers) == 200
    assert (await http.get("/api/session", params={"auth_token": query})).status_code == 200
    for wrong in (bearer(made + "x"), bearer(made[:-1]), bearer(made.upper()), basic(made[4:]), basic(f"{made}:")):
        assert await status(http, wrong) == 401
    assert (await http.get("/api/session", params={"auth_token": "x"}, headers=bearer(made))).status_code == 401
    assert await status(http, bearer(PASSWORD)) == 401


async def test_a_wrong_token_is_refused_where_no_password_is_needed(runtime: Runtime) -> None:
    """OPS-301: a revoked token does not become an owner."""
    async with listening(App(runtime)) as url, Http(base_url=url, timeout=PATIENCE, verify=NO_TLS) as http:
        assert await status(http, {}) == 200
        made = (await http.post("/api/token", json={"name": "ci", "role": "read"})).json()["data"]["token"]
        assert (await http.post("/api/session", json={}, headers=bearer(made))).status_code == 403
        assert (await http.delete("/api/token/ci")).status_code == 204
        assert await status(http, bearer(made)) == 401


async def test_the_secret_is_stored_as_a_hash_and_not_shown_again(
    http: Http, runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    """OPS-300."""
    caplog.set_level("DEBUG")
    made = await token(http, "ci", "read")
    assert await status(http, bearer(made)) == 200
    assert await status(http, bearer(made + "x")) == 401
    with tables(runtime) as sql:
        rows = json.dumps([[str(value) for value in row] for row in sql("select * from access_token")])
    listed = (await http.get("/api/token", headers=BASIC)).text
    assert made.startswith("hft_")
    assert len(made) > 40
    for place in (rows, listed, caplog.text):
        assert made not in place
        assert made.removeprefix("hft_") not in place


async def test_an_expired_token_is_refused_and_its_name_is_free(http: Http, runtime: Runtime) -> None:
    """OPS-300."""
    made = await token(http, "ci", "read", seconds=60)
    assert await status(http, bearer(made)) == 200
    with tables(runtime) as sql:
        sql("update access_token set time_expires = 1")
    assert await status(http, bearer(made)) == 401
    assert (await http.get("/api/token", headers=BASIC)).json()["data"][0]["expires"] == 1
    assert await token(http, "ci", "read") != made


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "x" * 65, "ä", "page", "Local", "password"])
async def test_a_name_that_cannot_be_told_apart_is_refused(http: Http, name: str) -> None:
    """OPS-300."""
    answer = await http.post("/api/token", json={"name": name, "role": "read"}, headers=BASIC)
    assert answer.status_code == 400, answer.text


async def test_names_are_unique_and_tokens_few(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """OPS-300."""
    tokens = runtime.access_tokens
    await tokens.create("a", "read", seconds=None, projects=())
    with pytest.raises(Conflict, match="token revoke a"):
        await tokens.create("a", "admin", seconds=None, projects=())
    monkeypatch.setattr(stored, "MOST", 2)
    await tokens.create("b", "read", seconds=None, projects=())
    with pytest.raises(Conflict, match="Revoke some first"):
        await tokens.create("c", "read", seconds=None, projects=())
    with pytest.raises(InvalidRequest, match="cannot be limited"):
        await tokens.create("d", "admin", seconds=None, projects=("/tmp",))


async def test_the_last_use_is_told(http: Http) -> None:
    """OPS-300."""
    made = await token(http, "ci", "read")
    assert (await http.get("/api/token", headers=BASIC)).json()["data"][0].get("seen") is None
    assert await status(http, bearer(made)) == 200
    assert await status(http, bearer(made)) == 200
    async with asyncio.timeout(PATIENCE):  # it is written after the answer
        while not (await http.get("/api/token", headers=BASIC)).json()["data"][0].get("seen"):  # noqa: ASYNC110
            await asyncio.sleep(0)


# -- roles -------------------------------------------------------------------------------------------------------------


async def test_every_endpoint_refuses_every_smaller_role(http: Http) -> None:
    """OPS-302, OPS-303: before anything is looked up or decoded."""
    made = {role: await token(http, f"a-{role}", role) for role in ROLES}
    for endpoint in API:
        path = endpoint.path.replace("*", "x").replace("{", "").replace("}", "")
        for role in ROLES:
            if includes(role, endpoint.role):
                continue
            answer = await http.request(endpoint.method, path, headers=bearer(made[role]), content=b"{broken")
            assert answer.status_code == 403, (endpoint.operation, role, answer.text)
            body = answer.json()
            assert (body["_tag"], body["role"]) == ("ForbiddenError", endpoint.role)
            assert f"a-{role} has {role}" in body["message"]
            assert f"a-{endpoint.role}" in body["message"]


async def test_head_and_unknown_methods_are_no_way_around(http: Http) -> None:
    """OPS-302."""
    reader = bearer(await token(http, "reader", "read"))
    assert (await http.head("/api/token", headers=reader)).status_code == 403
    assert (await http.head("/api/pty", headers=reader)).status_code == 403
    assert (await http.request("PUT", "/api/token", headers=reader)).status_code == 405
    assert (await http.get("/api//token", headers=reader)).status_code == 404
    assert (await http.get("/api/%74oken", headers=reader)).status_code == 403
    override = {**reader, "x-http-method-override": "DELETE", "content-type": "application/json"}
    assert (await http.post("/api/token", headers=override, content=b"{}")).status_code == 403


async def test_a_node_header_of_a_stranger_gives_no_role(http: Http) -> None:
    """OPS-302: what nodes send each other is checked first."""
    reader = bearer(await token(http, "reader", "read"))
    forged = {"x-holdfast-node": "x", "x-holdfast-relay": "1", "x-holdfast-signature": "x"}
    assert (await http.get("/api/pty", headers={**reader, **forged})).status_code == 403
    assert (await http.get("/api/event", headers=forged)).status_code == 401


async def test_files_of_holdfast_itself_are_for_admins(http: Http, runtime: Runtime, project: Path) -> None:
    """OPS-304: the password of the server and the keys of providers are there."""
    (project / "notes.txt").write_text("notes", encoding="utf-8")
    prompter, admin = bearer(await token(http, "p", "prompt")), bearer(await token(http, "a", "admin"))
    data = runtime.paths.data
    data.mkdir(exist_ok=True)
    (data / "credentials.json").write_text("{}", encoding="utf-8")
    here = {"location[directory]": str(project)}
    assert (await http.get("/api/fs/read/notes.txt", params=here, headers=prompter)).text == "notes"
    (project / "link").symlink_to(data)
    for place, path in ((data, "credentials.json"), (data.parent, f"{data.name}/credentials.json")):
        where = {"location[directory]": str(place)}
        refused = await http.get(f"/api/fs/read/{path}", params=where, headers=prompter)
        assert (refused.status_code, refused.json()["role"]) == (403, "admin")
        assert (await http.get(f"/api/fs/read/{path}", params=where, headers=admin)).status_code == 200
    assert (
        await http.get("/api/fs/list", params={"location[directory]": str(data)}, headers=prompter)
    ).status_code == 403
    assert (await http.get("/api/fs/read/link/credentials.json", params=here, headers=prompter)).status_code in (
        400,
        403,
    )
    above, wanted = {"location[directory]": str(data.parent)}, {"query": "credentials.json"}
    assert [
        (await http.get("/api/fs/find", params={**above, **wanted}, headers=who)).json()["data"]
        for who in (prompter, admin)
    ] == [
        [],
        [{"path": f"{data.name}/credentials.json", "type": "file"}],
    ]


async def test_only_admins_work_in_a_folder_of_holdfast(http: Http, runtime: Runtime, project: Path) -> None:
    """OPS-304: no Session and no Location there; isolated copies of projects are for everybody."""
    prompter, admin = bearer(await token(http, "p", "prompt")), bearer(await token(http, "a", "admin"))
    data = runtime.paths.data
    (data / "owners").mkdir(parents=True, exist_ok=True)
    (project / "link").symlink_to(data / "owners")
    for directory in (data, data / "owners", project / "link"):
        create = {"location": {"directory": str(directory)}}
        for refused in (
            await http.post("/api/session", json=create, headers=prompter),
            await http.get("/api/agent", params={"location[directory]": str(directory)}, headers=prompter),
        ):
            assert (refused.status_code, refused.json()["role"]) == (403, "admin")
        assert (await http.post("/api/session", json=create, headers=admin)).status_code == 200
    copy = data / "copies" / "ses_1"
    copy.mkdir(parents=True)
    (copy / "notes.txt").write_text("notes", encoding="utf-8")
    here = {"location[directory]": str(copy)}
    assert (await http.get("/api/agent", params=here, headers=prompter)).status_code == 200
    assert (await http.get("/api/fs/read/notes.txt", params=here, headers=prompter)).text == "notes"


async def test_what_others_attach_by_path_is_in_the_directory_of_the_session(
    http: Http, runtime: Runtime, project: Path, tmp_path: Path
) -> None:
    """OPS-308: rules for agents do not hold for attachments."""
    (project / "notes.txt").write_text("inside", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("outside", encoding="utf-8")
    (project / "link.txt").symlink_to(tmp_path / "secret.txt")
    runtime.paths.data.mkdir(exist_ok=True)
    (runtime.paths.data / "credentials.json").write_text("{}", encoding="utf-8")
    prompter, admin = bearer(await token(http, "p", "prompt")), bearer(await token(http, "a", "admin"))

    async def session(directory: Path) -> str:
        made = await http.post("/api/session", json={"location": {"directory": str(directory)}}, headers=admin)
        return str(made.json()["data"]["id"])

    async def attach(id: str, headers: dict[str, str], *uris: str) -> httpx2.Response:
        files = [{"uri": uri, "mime": "text/plain"} for uri in uris]
        prompt = {"prompt": {"text": "Read.", "files": files}, "resume": False}
        return await http.post(f"/api/session/{id}/prompt", json=prompt, headers=headers)

    here, above = await session(project), await session(runtime.paths.data.parent)
    allowed = ("notes.txt", (project / "notes.txt").as_uri(), f"{(project / 'notes.txt').as_uri()}?start=1", ".")
    accepted = await attach(here, prompter, *allowed, "data:text/plain,more")
    assert accepted.status_code == 200, accepted.text
    inside = str(runtime.paths.data / "credentials.json")
    outside = (tmp_path / "secret.txt").as_uri()
    for id, uri, why in (
        (here, outside, "outside"),
        (here, outside.replace("file:", "FILE:"), "outside"),
        (here, outside.replace("file://", "file://localhost"), "outside"),
        (here, str(tmp_path / "secret.txt"), "outside"),
        (here, "../secret.txt", "outside"),
        (here, "file:///proc/self/environ", "system's own"),
        (here, (project / "link.txt").as_uri(), "outside"),
        (above, inside, "role admin"),
    ):
        refused = await attach(id, prompter, "notes.txt" if id == here else uri, uri)
        assert refused.status_code == 400, (uri, refused.text)
        assert why in refused.json()["message"], (uri, refused.text)
        if uri != "file:///proc/self/environ":
            assert (await attach(id, admin, uri)).status_code == 200, uri


async def test_an_attachment_that_was_accepted_is_not_read_again(http: Http, project: Path) -> None:
    """OPS-308, SES-023: a repeated request gets the receipt of the first."""
    (project / "notes.txt").write_text("first", encoding="utf-8")
    prompter = bearer(await token(http, "p", "prompt"))
    made = await http.post("/api/session", json={"location": {"directory": str(project)}}, headers=prompter)
    path = f"/api/session/{made.json()['data']['id']}/prompt"
    prompt = {
        "id": "msg_0000000000attached00000001",
        "prompt": {"text": "Read.", "files": [{"uri": "notes.txt", "mime": "text/plain"}]},
        "resume": False,
    }
    first = await http.post(path, json=prompt, headers=prompter)
    (project / "notes.txt").unlink()
    assert first.status_code == 200, first.text
    assert (await http.post(path, json=prompt, headers=prompter)).json() == first.json()


# -- projects ----------------------------------------------------------------------------------------------------------


async def test_a_limited_token_reaches_its_projects_only(http: Http, project: Path, tmp_path: Path) -> None:
    """OPS-306."""
    inside, outside = project / "inside", tmp_path / "outside"
    for folder in (inside, outside, tmp_path / "outside-more"):
        folder.mkdir(exist_ok=True)
    (inside / "link").symlink_to(outside)
    limited = bearer(await token(http, "l", "approve", projects=[str(inside)]))

    async def create(directory: Path, headers: dict[str, str], **more: str) -> httpx2.Response:
        return await http.post(
            "/api/session", json={"location": {"directory": str(directory)}, **more}, headers=headers
        )

    own = (await create(inside, limited)).json()["data"]["id"]
    other = (await create(outside, BASIC)).json()["data"]["id"]
    for refused in (
        await create(outside, limited),
        await create(inside / "link", limited),
        await create(project, limited),
        await create(inside, limited, id=other),
        await http.post("/api/session", json={}, headers=limited),
        await http.get("/api/session", headers=limited),
        await http.get("/api/session", params={"directory": str(outside)}, headers=limited),
        await http.get("/api/fs/list", params={"location[directory]": str(outside)}, headers=limited),
        await http.get("/api/fs/list", headers={**limited, "x-opencode-directory": str(outside)}),
        await http.get("/api/fs/list", params={"location[directory]": str(inside / "link")}, headers=limited),
        await http.get(
            "/api/permission/saved", params={"location[directory]": str(inside), "projectID": "p"}, headers=limited
        ),
    ):
        assert refused.status_code == 403, refused.text
    everything = (
        "/api/event",
        "/api/overview",
        "/api/request",
        "/api/system",
        "/api/session/active",
        "/api/lookup?q=x",
    )
    for path in (*everything, "/api/session/interrupted", "/api/metrics", "/web/stream"):
        assert (await http.get(path, headers=limited)).status_code == 403, path
    assert (await http.get(f"/api/session/{own}", headers=limited)).status_code == 200
    assert (await http.get(f"/api/session/{other}", headers=limited)).status_code == 404
    assert (await http.post(f"/api/session/{other}/prompt", json={"text": "x"}, headers=limited)).status_code == 404
    assert (await http.get(f"/api/session/{other}/event", headers=limited)).status_code == 404
    listed = await http.get("/api/session", params={"directory": str(inside)}, headers=limited)
    assert [each["id"] for each in listed.json()["data"]] == [own]
    everyones = (await http.get("/api/session", params={"limit": 1}, headers=BASIC)).json()["cursor"]["next"]
    assert (await http.get("/api/session", params={"cursor": everyones}, headers=limited)).status_code == 403
    assert (await http.get("/api/health", headers=limited)).status_code == 200


async def test_a_child_in_a_copy_of_the_project_is_reached(
    http: Http, runtime: Runtime, project: Path, tmp_path: Path
) -> None:
    """OPS-306: an isolated subagent works elsewhere."""
    copy = tmp_path / "copy"
    copy.mkdir()
    limited = bearer(await token(http, "l", "read", projects=[str(project)]))

    async def create(directory: Path) -> str:
        made = await http.post("/api/session", json={"location": {"directory": str(directory)}}, headers=BASIC)
        return str(made.json()["data"]["id"])

    root, child, stray = await create(project), await create(copy), await create(copy)
    with tables(runtime) as sql:
        sql(f"update session set parent_id = '{root}' where id = '{child}'")
    assert (await http.get(f"/api/session/{child}", headers=limited)).status_code == 200
    assert (await http.get(f"/api/session/{stray}", headers=limited)).status_code == 404


async def test_a_bundle_has_no_session_that_the_token_does_not_reach(http: Http, project: Path, tmp_path: Path) -> None:
    """OPS-306: a fork brings what it was forked from."""
    other = tmp_path / "other"
    other.mkdir()
    limited = bearer(await token(http, "l", "read", projects=[str(project)]))

    async def post(path: str, payload: object) -> Any:
        made = await http.post(f"/api/session{path}", json=payload, headers=BASIC)
        assert made.is_success, made.text
        return made.json()["data"] if made.content else None

    source = (await post("", {"location": {"directory": str(other)}}))["id"]
    await post(f"/{source}/shell", {"command": "true", "id": "evt_1"})
    fork = (await post(f"/{source}/fork", {"boundary": {"type": "through"}}))["id"]
    await post(f"/{fork}/move", {"directory": str(project)})
    path = f"/api/session/{fork}/export"
    refused = await http.get(path, headers=limited)
    assert (refused.status_code, "markdown" in refused.text) == (403, True)
    assert (await http.get(path, params={"format": "markdown"}, headers=limited)).status_code == 200
    assert (await http.get(path, headers=BASIC)).status_code == 200
    own = (await post("", {"location": {"directory": str(project)}}))["id"]
    assert (await http.get(f"/api/session/{own}/export", headers=limited)).status_code == 200


# -- revocation --------------------------------------------------------------------------------------------------------


async def test_a_revoked_token_is_refused_at_once_by_every_server(http: Http, runtime: Runtime) -> None:
    """OPS-305."""
    made = await token(http, "ci", "read")
    async with another(runtime, Credentials("another password")) as other:
        assert [await status(http, bearer(made)), await status(other, bearer(made))] == [200, 200]
        assert (await http.delete("/api/token/ci", headers=BASIC)).status_code == 204
        assert [await status(http, bearer(made)), await status(other, bearer(made))] == [401, 401]
    again = await http.delete("/api/token/ci", headers=BASIC)
    assert (again.status_code, again.json()["_tag"]) == (404, "NotFoundError")


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_open_streams_end_with_the_token(http: Http, runtime: Runtime, elsewhere: bool) -> None:
    """OPS-305: also if another process revoked it. Streams of others stay."""
    made, kept = await token(http, "ci", "read"), await token(http, "kept", "read")
    session = (await http.post("/api/session", json={}, headers=BASIC)).json()["data"]["id"]
    paths = ("/api/event", f"/api/session/{session}/event?live=true", f"/api/session/{session}/tree/events")

    async def followed(path: str, token: str, started: asyncio.Event) -> None:
        async with http.stream("GET", path, headers=bearer(token)) as response:
            assert response.status_code == 200
            started.set()
            async for _ in response.aiter_raw():
                pass

    begun = [asyncio.Event() for _ in range(len(paths) + 1)]
    ending = [asyncio.create_task(followed(path, made, start)) for path, start in zip(paths, begun[1:], strict=True)]
    staying = asyncio.create_task(followed("/api/event", kept, begun[0]))
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(each.wait() for each in begun))
        if elsewhere:
            await runtime.access_tokens.revoke("ci")
        else:
            assert (await http.delete("/api/token/ci", headers=BASIC)).status_code == 204
        await asyncio.gather(*ending)
    assert not staying.done()
    staying.cancel()
    await asyncio.wait({staying})


async def test_a_terminal_needs_an_admin_and_ends_with_the_token(app: App) -> None:
    """OPS-303, OPS-305: with a header, and with a ticket that was asked for with the token."""
    async with serving(app) as address, Http(base_url=f"http://{address}", timeout=PATIENCE, verify=NO_TLS) as http:
        admin, lesser = await token(http, "boss", "admin"), await token(http, "lesser", "approve")
        made = await http.post("/api/pty", json={"command": "/bin/cat"}, headers=bearer(admin))
        id = made.json()["data"]["id"]
        asked = await http.post(f"/api/pty/{id}/connect-token", headers={**bearer(admin), **TICKET})
        ticket = asked.json()["data"]["ticket"]
        stolen = await http.post(f"/api/pty/{id}/connect-token", headers={**bearer(lesser), **TICKET})
        assert stolen.status_code == 403
        for query in ("", f"ticket={ticket}"):
            with pytest.raises(InvalidStatus) as refused:
                await opened(address, id, query, Authorization=f"Bearer {lesser}")
            assert refused.value.response.status_code == 403
        with pytest.raises(InvalidStatus) as unknown:
            await opened(address, id, "", Authorization=f"Bearer {admin}x")
        assert unknown.value.response.status_code == 401
        async with (
            opened(address, id, "", Authorization=f"Bearer {admin}") as one,
            opened(address, id, f"ticket={ticket}") as two,
        ):
            late = await http.post(f"/api/pty/{id}/connect-token", headers={**bearer(admin), **TICKET})
            assert (await http.delete("/api/token/boss", headers=BASIC)).status_code == 204
            assert [await closed(one), await closed(two)] == [SIGNED_OUT, SIGNED_OUT]
        async with opened(address, id, f"ticket={late.json()['data']['ticket']}") as three:
            assert await closed(three) == SIGNED_OUT
        assert (await http.delete(f"/api/pty/{id}", headers=BASIC)).status_code == 204


# -- the page ----------------------------------------------------------------------------------------------------------


async def test_a_page_that_signed_in_with_a_token_has_its_role(http: Http) -> None:
    """OPS-307."""
    made = await token(http, "anna", "approve")
    anna, owner = await sign_in(http, password=made), await sign_in(http)
    assert await status(http, anna.headers) == 200
    assert (await http.post("/api/session", json={}, headers=anna.headers)).status_code == 200
    for refused in (
        await http.get("/api/token", headers=anna.headers),
        await http.post("/api/pty", json={}, headers=anna.headers),
        await http.delete(f"/web/sign-ins/{owner.id}", headers=anna.headers),
    ):
        assert refused.status_code == 403
    assert (await http.post("/web/code", headers=anna.headers)).status_code == 401
    assert (await http.post("/web/code", headers=bearer(made))).status_code == 401
    assert [each["id"] for each in (await http.get("/web/sign-ins", headers=anna.headers)).json()] == [anna.id]
    listed = {each["id"]: each.get("token") for each in (await http.get("/web/sign-ins", headers=owner.headers)).json()}
    assert listed == {anna.id: "anna", owner.id: None}
    mixed = {"cookie": owner.cookie, "x-holdfast-key": anna.key}
    assert await status(http, mixed) == 401


async def test_a_page_is_signed_out_with_its_token(http: Http, runtime: Runtime) -> None:
    """OPS-305, OPS-307: its stream ends, and nothing of the sign-in is left."""
    made = await token(http, "anna", "read")
    anna = await sign_in(http, password=made)
    assert 'data-signed-in="true"' in (await http.get("/", headers={"cookie": anna.cookie})).text
    async with asyncio.timeout(PATIENCE), http.stream("GET", "/web/stream", headers=anna.headers) as response:
        pieces = response.aiter_raw()
        assert await anext(pieces)
        assert (await http.delete("/api/token/anna", headers=BASIC)).status_code == 204
        rest = b"".join([piece async for piece in pieces])
    assert b"signed-out" in rest
    assert await status(http, anna.headers) == 401
    assert 'data-signed-in="false"' in (await http.get("/", headers={"cookie": anna.cookie})).text
    assert (await http.post("/web/sign-in", json={"password": made})).status_code == 401
    with tables(runtime) as sql:
        assert sql("select count(*) from page_sign_in")[0][0] == 0


async def test_a_sign_in_does_not_outlive_a_token_that_expires(http: Http, runtime: Runtime) -> None:
    """OPS-307."""
    anna = await sign_in(http, password=await token(http, "anna", "read", seconds=60))
    assert await status(http, anna.headers) == 200
    with tables(runtime) as sql:
        sql("update access_token set time_expires = 1")
    assert await status(http, anna.headers) == 401


async def test_somebody_with_a_token_cannot_push_out_the_sign_ins_of_others(http: Http) -> None:
    """OPS-307."""
    owner = await sign_in(http)
    made = await token(http, "anna", "read")
    annas = [await sign_in(http, password=made) for _ in range(MOST_OF_TOKEN + 1)]
    assert await status(http, owner.headers) == 200
    assert sum([await status(http, each.headers) == 200 for each in annas]) == MOST_OF_TOKEN


async def test_a_limited_token_cannot_sign_in_to_the_page(http: Http, project: Path) -> None:
    """OPS-306, OPS-307: the page shows all projects."""
    made = await token(http, "l", "read", projects=[str(project)])
    answer = await http.post("/web/sign-in", json={"password": made})
    assert (answer.status_code, answer.json()["_tag"]) == (403, "ForbiddenError")


# -- what is recorded --------------------------------------------------------------------------------------------------


async def test_what_cannot_be_recorded_is_not_done_except_for_interruptions(
    http: Http, runtime: Runtime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """OPS-312: with a full disk, work can still be stopped."""
    session = (await http.post("/api/session", json={}, headers=BASIC)).json()["data"]["id"]

    async def fails(*args: object, **options: object) -> None:
        raise StorageUnavailable("a database", "the disk is full")

    monkeypatch.setattr(runtime.audit_trail, "record", fails)
    made = await http.post("/api/token", json={"name": "ci", "role": "read"}, headers=BASIC)
    assert made.status_code == 503
    assert (await http.get("/api/token", headers=BASIC)).json()["data"] == []
    assert (await http.post(f"/api/session/{session}/interrupt", headers=BASIC)).is_success
    assert "was not recorded" in caplog.text
