"""Signing in to the page: both halves, codes, limits, and what ends a sign-in."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import httpx2
import pytest
from tests.core.conftest import tables
from tests.plain_http import NO_TLS
from tests.server.conftest import PATIENCE, eventually, listening

from holdfast.core.database.errors import StorageUnavailable
from holdfast.core.page_access import sign_ins
from holdfast.core.page_access.codes import LIFETIME as CODE_LIFETIME
from holdfast.core.page_access.sign_ins import LIFETIME, MOST, SEEN_EVERY
from holdfast.core.runtime.runtime import Runtime
from holdfast.server import stream_ends, throttle
from holdfast.server.app import App
from holdfast.server.auth import Credentials
from holdfast.server.throttle import ADDRESSES, FAILURES, Throttle, TooManyAttempts

pytestmark = pytest.mark.anyio

PASSWORD = "correct horse"
BASIC = {"authorization": "Basic " + base64.b64encode(f"opencode:{PASSWORD}".encode()).decode()}
REMOTE = "192.0.2.7"


@pytest.fixture
def credentials() -> Credentials | None:
    return Credentials(PASSWORD)


class Browser(NamedTuple):
    """One that is signed in: its cookie, and the key that its page keeps."""

    id: str
    cookie: str
    key: str

    @property
    def headers(self) -> dict[str, str]:
        return {"cookie": self.cookie, "x-holdfast-key": self.key}


async def sign_in(http: httpx2.AsyncClient, **payload: str) -> Browser:
    answer = await http.post("/web/sign-in", json=payload or {"password": PASSWORD})
    assert answer.status_code == 200, answer.text
    http.cookies.clear()
    return Browser(answer.json()["id"], answer.headers["set-cookie"].partition(";")[0], answer.json()["key"])


async def code(http: httpx2.AsyncClient) -> str:
    answer = await http.post("/web/code", headers=BASIC)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["path"]).removeprefix("/#/code/")


async def status(http: httpx2.AsyncClient, headers: dict[str, str]) -> int:
    return (await http.get("/api/session", headers=headers)).status_code


@asynccontextmanager
async def another(runtime: Runtime, credentials: Credentials) -> AsyncIterator[httpx2.AsyncClient]:
    """A further server on the database."""
    async with (
        listening(App(runtime, credentials=credentials)) as url,
        httpx2.AsyncClient(base_url=url, timeout=PATIENCE, verify=NO_TLS) as http,
    ):
        yield http


async def test_a_password_gives_a_cookie_and_a_key_and_both_are_needed(http: httpx2.AsyncClient) -> None:
    """WEB-010, WEB-011: of the same sign-in; for reads and for writes."""
    answer = await http.post("/web/sign-in", json={"password": PASSWORD})
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("holdfast_")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert answer.headers["cache-control"] == "no-store"
    http.cookies.clear()
    one, other = await sign_in(http), await sign_in(http)
    assert await status(http, one.headers) == 200
    for wrong in (
        {},
        {"cookie": one.cookie},
        {"x-holdfast-key": one.key},
        {"cookie": one.cookie, "x-holdfast-key": ""},
        {"cookie": one.cookie, "x-holdfast-key": other.key},
        {"cookie": one.cookie.partition("=")[0] + "=", "x-holdfast-key": one.key},
        {"cookie": one.cookie + "x", "x-holdfast-key": one.key},
        {"cookie": f"holdfast_other={one.cookie.partition('=')[2]}", "x-holdfast-key": one.key},
        {"cookie": f"{one.cookie.partition('=')[0]}={one.key}", "x-holdfast-key": one.cookie.partition("=")[2]},
    ):
        assert await status(http, wrong) == 401
        assert (await http.post("/api/session", json={}, headers=wrong)).status_code == 401
        assert (await http.get("/web/sign-ins", headers=wrong)).status_code == 401
    assert (await http.post("/api/session", json={}, headers=one.headers)).status_code == 200


async def test_cookies_of_other_servers_on_the_host_do_not_disturb(http: httpx2.AsyncClient) -> None:
    """WEB-011: another port can set a cookie of the same name."""
    found = await sign_in(http)
    name = found.cookie.partition("=")[0]
    for cookies in (f"a=b; {found.cookie}; holdfast_x=y", f"{name}=wrong; {found.cookie}", f"{found.cookie};{name}=x"):
        assert await status(http, {**found.headers, "cookie": cookies}) == 200


async def test_nothing_secret_is_stored(http: httpx2.AsyncClient, runtime: Runtime) -> None:
    """WEB-012: not the cookie, the key, a code or the password."""
    found = await sign_in(http)
    made = await code(http)
    with tables(runtime) as sql:
        stored = json.dumps([[str(value) for value in row] for row in sql("select * from page_sign_in")])
        stored += json.dumps([str(row[0]) for row in sql("select code from page_code")])
    for secret in (found.cookie.partition("=")[2], found.key, made, PASSWORD):
        assert len(secret) == 43 or secret == PASSWORD
        assert secret not in stored


async def test_the_cookie_is_secure_where_the_page_came_over_tls(http: httpx2.AsyncClient) -> None:
    """WEB-010: also behind a proxy, which the Origin of the page tells."""
    origin = {"origin": f"https://{http.base_url.host}:{http.base_url.port}"}
    answer = await http.post("/web/sign-in", json={"password": PASSWORD}, headers=origin)
    assert answer.headers["set-cookie"].endswith("; Secure")


async def test_the_document_tells_whether_there_is_a_sign_in(http: httpx2.AsyncClient) -> None:
    """WEB-001."""
    found = await sign_in(http)
    assert 'data-signed-in="true"' in (await http.get("/", headers={"cookie": found.cookie})).text
    assert 'data-signed-in="false"' in (await http.get("/", headers={"cookie": found.cookie + "x"})).text


async def test_the_document_is_there_while_the_database_is_not(
    http: httpx2.AsyncClient, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WEB-001: the page can show what is wrong."""
    found = await sign_in(http)

    async def unavailable(*_: object, **__: object) -> None:
        raise StorageUnavailable("the database", "gone")

    monkeypatch.setattr(runtime.database, "fetch", unavailable)
    assert 'data-signed-in="true"' in (await http.get("/", headers={"cookie": found.cookie})).text
    assert (await http.get("/")).status_code == 200
    assert await status(http, found.headers) == 503


async def test_a_page_call_gets_no_dialog_of_the_browser(http: httpx2.AsyncClient) -> None:
    """WEB-013: programs and addresses that are typed in do."""
    for headers in ({"x-holdfast-key": "x"}, {"sec-fetch-mode": "cors"}, {"sec-fetch-mode": "same-origin"}):
        answer = await http.get("/api/session", headers=headers)
        assert (answer.status_code, "www-authenticate" in answer.headers) == (401, False)
    for headers in ({}, {"sec-fetch-mode": "navigate"}):
        answer = await http.get("/api/session", headers=headers)
        assert (answer.status_code, "www-authenticate" in answer.headers) == (401, True)


@pytest.mark.parametrize("origin", ["https://evil.example", "http://localhost:3000", "http://127.0.0.1:1", "null"])
async def test_pages_of_other_origins_cannot_use_it(http: httpx2.AsyncClient, origin: str) -> None:
    """WEB-014: not even those of this machine, which may call the API with credentials."""
    found = await sign_in(http)
    for method, path, payload in (
        ("POST", "/web/sign-in", {"password": PASSWORD}),
        ("POST", "/web/sign-out", {}),
        ("POST", "/web/code", {}),
        ("POST", "/web/approval", {"token": "x"}),
        ("DELETE", f"/web/sign-ins/{found.id}", {}),
    ):
        answer = await http.request(method, path, json=payload, headers={**BASIC, **found.headers, "origin": origin})
        assert (answer.status_code, answer.json()["_tag"]) == (403, "ForbiddenError")
        assert "set-cookie" not in answer.headers
    cross = {**found.headers, "sec-fetch-site": "same-site"}
    assert (await http.get("/web/sign-ins", headers=cross)).status_code == 403
    assert await status(http, found.headers) == 200


async def test_the_own_page_can_write(http: httpx2.AsyncClient) -> None:
    """WEB-014."""
    own = {"origin": str(http.base_url).rstrip("/")}
    answer = await http.post("/web/sign-in", json={"password": PASSWORD}, headers=own)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        (b"{", {}, 400),
        (b"[]", {}, 400),
        (b'{"password": 1}', {}, 400),
        (b'{"password": "' + b"x" * 2000 + b'"}', {}, 400),
        (b'{"password": "\\ud800"}', {}, 400),
        (b'{"password": "' + "é".encode() + b'"}', {}, 401),
        (b"\xff", {}, 400),
        (b"[" * 100_000, {}, 400),
        (b"x" * 200_000, {}, 400),
        (b"password=correct+horse", {"content-type": "application/x-www-form-urlencoded"}, 415),
        (b"{}", {}, 401),
        (b'{"code": ""}', {}, 401),
        (b'{"code": "nonsense"}', {}, 401),
    ],
)
async def test_what_is_not_a_password_is_refused(
    http: httpx2.AsyncClient, body: bytes, headers: dict[str, str], expected: int
) -> None:
    """WEB-005, WEB-010."""
    given = {"content-type": "application/json", **headers}
    answer = await http.post("/web/sign-in", content=body, headers=given)
    assert answer.status_code == expected
    assert "set-cookie" not in answer.headers


async def test_a_code_signs_in_once(http: httpx2.AsyncClient) -> None:
    """WEB-015: of many who use it at once, one."""
    made = await code(http)
    answers = await asyncio.gather(*(http.post("/web/sign-in", json={"code": made}) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200, *[401] * 19]
    http.cookies.clear()
    again = await http.post("/web/sign-in", json={"code": made})
    assert again.json()["_tag"] == "UnauthorizedError"
    assert "holdfast web" in again.json()["message"]


async def test_a_code_expires(http: httpx2.AsyncClient, runtime: Runtime) -> None:
    """WEB-015."""
    answer = await http.post("/web/code", headers=BASIC)
    with tables(runtime) as sql:
        assert sql("select time_expires from page_code") == [(answer.json()["expires"],)]
        sql(f"update page_code set time_expires = time_expires - {CODE_LIFETIME}")
    made = answer.json()["path"].removeprefix("/#/code/")
    assert (await http.post("/web/sign-in", json={"code": made})).status_code == 401
    await code(http)
    with tables(runtime) as sql:
        assert len(sql("select 1 from page_code")) == 1  # the expired one is removed with the next


async def test_only_the_owner_gets_a_code(http: httpx2.AsyncClient) -> None:
    """WEB-015: a sign-in is not enough, so that one cannot make others."""
    found = await sign_in(http)
    for headers in ({}, found.headers, {"authorization": "Basic eDp5"}):
        assert (await http.post("/web/code", headers=headers)).status_code == 401


async def test_without_a_password_nobody_has_to_sign_in(runtime: Runtime) -> None:
    """WEB-016."""
    async with listening(App(runtime)) as url, httpx2.AsyncClient(base_url=url, verify=NO_TLS) as http:
        assert (await http.get("/web/sign-ins")).json() == []
        assert (await http.post("/web/sign-out")).status_code == 204
        assert (await http.post("/web/sign-in", json={"password": ""})).status_code == 400
        assert (await http.post("/web/code")).json()["path"] == "/"
        foreign = {"origin": "http://localhost:3000"}
        assert (await http.get("/web/stream", headers=foreign)).status_code == 403
        async with http.stream("GET", "/web/stream") as stream:
            assert (await anext(stream.aiter_lines())).startswith('data: {"type":"hello"')


async def test_sign_ins_are_listed_and_revoked(http: httpx2.AsyncClient) -> None:
    """WEB-017: with the caller's marked; an unknown id is accepted."""
    one = await sign_in(http)
    answer = await http.post("/web/sign-in", json={"password": PASSWORD}, headers={"user-agent": "phone-" * 100})
    other = answer.json()["id"]
    http.cookies.clear()
    listed = (await http.get("/web/sign-ins", headers=one.headers)).json()
    assert [(each["id"], each["current"]) for each in listed] == [(one.id, True), (other, False)]
    assert set(listed[0]) == {"id", "created", "seen", "agent", "current"}
    assert listed[1]["agent"] == ("phone-" * 100)[:200]
    for id in (other, other, "sgn_unknown", "%00"):
        assert (await http.delete(f"/web/sign-ins/{id}", headers=one.headers)).status_code == 204
    assert [each["id"] for each in (await http.get("/web/sign-ins", headers=BASIC)).json()] == [one.id]


async def test_signing_out_ends_the_sign_in_and_its_streams_at_once(http: httpx2.AsyncClient) -> None:
    """WEB-018: those of the page and those of the API; others stay."""
    one, other = await sign_in(http), await sign_in(http)
    async with (
        http.stream("GET", "/web/stream", headers=one.headers) as page,
        http.stream("GET", "/api/event", headers=one.headers) as live,
        http.stream("GET", "/web/stream", headers=other.headers) as kept,
    ):
        lines, staying = page.aiter_lines(), kept.aiter_lines()
        assert "hello" in await anext(lines)
        assert "hello" in await anext(staying)
        answer = await http.post("/web/sign-out", headers=one.headers)
        assert answer.status_code == 204
        assert "Max-Age=0" in answer.headers["set-cookie"]
        async with asyncio.timeout(PATIENCE):
            assert [line async for line in lines if line][-1] == 'data: {"type":"bye","reason":"signed-out"}'
            assert [line async for line in live.aiter_lines() if "disposed" in line] == []
        assert await status(http, one.headers) == 401
        assert await status(http, other.headers) == 200
        rest = asyncio.ensure_future(anext(staying))
        await asyncio.sleep(0.05)
        assert not rest.done() or rest.result() == ""
        rest.cancel()


async def test_a_sign_in_that_another_server_removed_ends_its_streams(
    http: httpx2.AsyncClient, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WEB-018: within seconds; a sign-in is good at every server on the database."""
    monkeypatch.setattr(stream_ends, "CHECK_SECONDS", 0.02)
    found = await sign_in(http)
    async with another(runtime, Credentials(PASSWORD)) as elsewhere:
        assert await status(elsewhere, found.headers) == 200
        async with http.stream("GET", "/web/stream", headers=found.headers) as page:
            lines = page.aiter_lines()
            await anext(lines)
            assert (await elsewhere.post("/web/sign-out", headers=found.headers)).status_code == 204
            async with asyncio.timeout(PATIENCE):
                assert '"signed-out"' in "".join([line async for line in lines])


async def test_a_stopping_server_ends_streams_without_a_sign_out(http: httpx2.AsyncClient, app: App) -> None:
    """WEB-018: the sign-in stays."""
    found = await sign_in(http)
    async with http.stream("GET", "/web/stream", headers=found.headers) as page:
        lines = page.aiter_lines()
        await anext(lines)
        app.stop()
        async with asyncio.timeout(PATIENCE):
            assert "signed-out" not in "".join([line async for line in lines])
    assert await status(http, found.headers) == 200


async def test_another_password_ends_all_sign_ins(http: httpx2.AsyncClient, runtime: Runtime) -> None:
    """WEB-019: at the servers that have it. That of a user counts as another one too."""
    found = await sign_in(http)
    for changed in (Credentials("other"), Credentials(PASSWORD, "me"), Credentials(PASSWORD, generated=True)):
        async with another(runtime, changed) as elsewhere:
            assert await status(elsewhere, found.headers) == 401
            assert 'data-signed-in="false"' in (await elsewhere.get("/", headers={"cookie": found.cookie})).text
    async with another(runtime, Credentials(PASSWORD)) as elsewhere:
        assert await status(elsewhere, found.headers) == 200


async def test_a_restart_with_a_generated_password_keeps_sign_ins(runtime: Runtime) -> None:
    """WEB-019: nobody chose to change it."""
    async with another(runtime, Credentials("first", generated=True)) as http:
        found = await sign_in(http, password="first")
    async with another(runtime, Credentials("second", generated=True)) as http:
        assert await status(http, found.headers) == 200


async def test_an_unused_sign_in_expires(http: httpx2.AsyncClient, runtime: Runtime) -> None:
    """WEB-020: use is recorded once a minute at most, and counts."""
    used, unused = await sign_in(http), await sign_in(http)

    def seen(id: str) -> int:
        with tables(runtime) as sql:
            return int(sql(f"select time_seen from page_sign_in where id = '{id}'")[0][0])

    first = seen(used.id)
    await status(http, used.headers)
    assert seen(used.id) == first
    with tables(runtime) as sql:
        sql(f"update page_sign_in set time_seen = time_seen - {SEEN_EVERY}")
    await status(http, used.headers)
    await eventually(lambda: seen(used.id) >= first)
    with tables(runtime) as sql:
        sql(f"update page_sign_in set time_seen = time_seen - {LIFETIME - SEEN_EVERY}")
    assert await status(http, unused.headers) == 401
    assert await status(http, used.headers) == 200
    listed = (await http.get("/web/sign-ins", headers=used.headers)).json()
    assert [each["id"] for each in listed] == [used.id]


async def test_there_are_at_most_so_many_sign_ins(
    http: httpx2.AsyncClient, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WEB-020: the one that was not used for longest goes."""
    assert MOST == 100
    monkeypatch.setattr(sign_ins, "MOST", 3)
    made = [await sign_in(http)]
    with tables(runtime) as sql:
        sql("update page_sign_in set time_seen = time_seen + 1000")
    made += [await sign_in(http) for _ in range(3)]
    assert [await status(http, each.headers) for each in made] == [200, 401, 200, 200]


async def test_five_failures_are_enough_for_a_minute() -> None:
    """WEB-021: for each address; what comes then is refused unread, with the time to wait."""
    now = 1000.0
    limit = Throttle(lambda: now)
    for _ in range(FAILURES):
        async with limit.attempt({"client": (REMOTE, 1)}) as failed:
            failed()
        now += 1
    with pytest.raises(TooManyAttempts) as refused:
        async with limit.attempt({"client": (REMOTE, 2)}):
            pass
    assert refused.value.retry_after == 55
    for other in ("192.0.2.8", "2001:db8::1", "127.0.0.1"):
        async with limit.attempt({"client": (other, 1)}):
            pass
    now += 56
    async with limit.attempt({"client": (REMOTE, 1)}):
        pass


@pytest.mark.parametrize(
    ("failing", "asking", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        (f"::ffff:{REMOTE}", REMOTE, True),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("a name", "a name", True),
    ],
)
async def test_an_address_is_the_network_of_whoever_has_it(failing: str, asking: str, same: bool) -> None:
    """WEB-021."""
    limit = Throttle()
    for _ in range(FAILURES):
        async with limit.attempt({"client": (failing, 1)}) as failed:
            failed()
    try:
        async with limit.attempt({"client": (asking, 1)}):
            refused = False
    except TooManyAttempts:
        refused = True
    assert refused == same


async def test_a_hundred_thousand_failures_take_bounded_memory() -> None:
    """WEB-021: those of the addresses that failed last are remembered."""
    limit = Throttle()
    for number in range(100_000):
        async with limit.attempt({"client": (f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 1)}) as failed:
            failed()
    assert len(limit._failures) == ADDRESSES
    assert "10.1.134.159" in limit._failures


async def test_callers_of_this_machine_are_slowed_down_and_not_locked_out(
    http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WEB-021: the right password gets in, few attempts are made at a time, and neither a code nor a client whose
    password was admitted before is slowed down."""
    await code(http)
    monkeypatch.setattr(throttle, "DELAY_SECONDS", 0.3)
    for _ in range(FAILURES):
        assert (await http.post("/web/sign-in", json={"password": "wrong"})).status_code == 401
    wrong = [asyncio.ensure_future(http.post("/web/sign-in", json={"password": "wrong"})) for _ in range(12)]
    started = asyncio.get_running_loop().time()
    answers = [(await each) for each in wrong]
    assert asyncio.get_running_loop().time() - started >= 0.3
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(refused) >= 4
    assert {answer.headers["retry-after"] for answer in refused} == {"1"}
    assert refused[0].json()["_tag"] == "TooManyAttemptsError"
    assert (await http.post("/web/sign-in", json={"password": PASSWORD})).status_code == 200
    http.cookies.clear()
    monkeypatch.setattr(throttle, "DELAY_SECONDS", 3600.0)
    await sign_in(http, code=await code(http))


async def test_two_databases_have_different_cookies_and_one_has_the_same(
    http: httpx2.AsyncClient, runtime: Runtime
) -> None:
    """WEB-010: servers on one host do not overwrite each other's cookies."""
    first = (await sign_in(http)).cookie.partition("=")[0]
    async with another(runtime, Credentials(PASSWORD)) as elsewhere:
        assert (await sign_in(elsewhere)).cookie.partition("=")[0] == first
    with tables(runtime) as sql:
        ((name,),) = sql("select id from page_instance")
    assert first == f"holdfast_{name}"
    assert len(name) == 12


@pytest.mark.parametrize(
    ("query", "field"), [("session=nonsense", "session"), ("after=x", "after"), ("after=" + "9" * 30, "after")]
)
async def test_a_stream_with_nonsense_is_refused(http: httpx2.AsyncClient, query: str, field: str) -> None:
    """WEB-005."""
    found = await sign_in(http)
    answer = await http.get(f"/web/stream?{query}", headers=found.headers)
    assert (answer.status_code, answer.json()["field"]) == (400, field)
