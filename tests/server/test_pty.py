"""Terminals over HTTP and WebSockets: a real server, real shells, and a socket in memory where timing matters."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
import uvicorn
from tests.core.pty.desk import alive
from tests.plain_http import NO_TLS, loopback_listener
from tests.server.conftest import PATIENCE, Wire, eventually, in_memory
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from holdfast.core.pty import ptys
from holdfast.core.runtime.runtime import Runtime
from holdfast.embedded.http_server import HttpServer
from holdfast.schema.location import Location
from holdfast.server import pty
from holdfast.server.app import App
from holdfast.server.auth import Credentials, Hosts
from holdfast.server.pty import SOCKET_OPTIONS
from holdfast.server.pty_connection import FRAME_UNITS, INPUT_BYTES
from holdfast.server.tickets import LIFETIME_SECONDS, LIMIT, Claim, Tickets

pytestmark = pytest.mark.anyio

EVIL = "https://evil.example"
TICKET = {"x-opencode-ticket": "1"}


@asynccontextmanager
async def serving(app: App, **options: Any) -> AsyncIterator[str]:
    """As `holdfast serve` does it, from the options to the goodbye."""
    config = uvicorn.Config(
        app, http="httptools", lifespan="off", log_level="critical", **{**SOCKET_OPTIONS, **options}
    )
    server = HttpServer(config, app)
    with loopback_listener() as listener:
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


class Screen:
    """What a client has seen, and where it is."""

    def __init__(self) -> None:
        self.text = ""
        self.cursor = 0
        self.frames: list[str | bytes] = []

    def see(self, frame: str | bytes) -> None:
        self.frames.append(frame)
        if isinstance(frame, bytes):
            assert frame[0] == 0
            self.cursor = json.loads(frame[1:])["cursor"]
        else:
            self.text += frame
            self.cursor += len(frame.encode("utf-16-le")) // 2

    async def resume(self, client: ClientConnection, *, seconds: float) -> None:
        """Look on for a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    self.see(await client.recv())

    async def until(self, client: ClientConnection, expected: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while expected not in self.text:
                self.see(await client.recv())

    async def rest(self, client: ClientConnection) -> tuple[int, str]:
        """Everything up to the close: its code and reason."""
        async with asyncio.timeout(PATIENCE):
            with suppress(ConnectionClosed):
                while True:
                    self.see(await client.recv())
        return client.close_code or 0, client.close_reason or ""


class Browser:
    """Calls one server as clients do."""

    def __init__(self, address: str, http: httpx2.AsyncClient) -> None:
        self.address = address
        self.http = http

    async def create(self, script: str, **more: object) -> Any:
        asked = {"command": "/bin/sh", "args": ["-c", script], **more}
        answer = await self.http.post("/api/pty", json=asked)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    async def ticket(self, id: str, location: str = "") -> str:
        answer = await self.http.post(f"/api/pty/{id}/connect-token{location}", headers=TICKET)
        assert answer.status_code == 200, answer.text
        ticket: str = answer.json()["data"]["ticket"]
        return ticket

    def open(self, id: str, query: str = "", **headers: str) -> connect:
        return connect(
            f"ws://{self.address}/api/pty/{id}/connect?{query}", additional_headers=headers, proxy=None, max_size=None
        )

    async def refused(self, id: str, query: str = "", **headers: str) -> tuple[int, bytes]:
        with pytest.raises(InvalidStatus) as caught:
            await self.open(id, query, **headers)
        response = caught.value.response
        return response.status_code, bytes(response.body or b"")


@asynccontextmanager
async def browsing(app: App, **options: Any) -> AsyncIterator[Browser]:
    async with (
        serving(app, **options) as address,
        httpx2.AsyncClient(base_url=f"http://{address}", timeout=PATIENCE, verify=NO_TLS) as http,
    ):
        yield Browser(address, http)


@pytest.fixture
async def browser(app: App) -> AsyncIterator[Browser]:
    async with browsing(app) as browser:
        yield browser


async def raw_upgrade(
    address: str, id: str, query: str = "", headers: Mapping[str, str] | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, int]:
    """With headers that no client library would send, and frames as they are."""
    reader, writer = await asyncio.open_connection(*address.split(":"))
    lines = {"Host": address, "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    lines |= {"Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    writer.write(f"GET /api/pty/{id}/connect?{query} HTTP/1.1\r\n{head}\r\n".encode())
    answer = await reader.readuntil(b"\r\n\r\n")
    return reader, writer, int(answer.split()[1])


class MemorySocket:
    """An upgrade without a network: what the application sends arrives when the test lets it."""

    def __init__(self, app: App, id: str, query: str = "") -> None:
        self._inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._inbox.put_nowait({"type": "websocket.connect"})
        self.open = asyncio.Event()
        self.open.set()
        self.sent: list[Mapping[str, Any]] = []
        self.on_accept: Any = None
        scope = {
            "type": "websocket",
            "path": f"/api/pty/{id}/connect",
            "raw_path": f"/api/pty/{id}/connect".encode(),
            "query_string": query.encode(),
            "headers": [],
        }
        self.task = asyncio.create_task(app(scope, self._inbox.get, self._send))

    def say(self, **frame: object) -> None:
        self._inbox.put_nowait({"type": "websocket.receive", **frame})

    def leave(self) -> None:
        self._inbox.put_nowait({"type": "websocket.disconnect", "code": 1006})

    async def closed(self) -> Mapping[str, Any]:
        async with asyncio.timeout(PATIENCE):
            await self.task
        return self.sent[-1]

    async def _send(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "websocket.accept" and self.on_accept is not None:
            await self.on_accept()
        await self.open.wait()
        self.sent.append(message)


# -- requests ------------------------------------------------------------------------------------------------------


async def test_the_life_of_a_terminal(wire: Wire, project: Path) -> None:
    """API-160, TOL-303, TOL-286: created, listed, changed, exited, removed; each answer names its Location."""
    answer = await wire.post("/api/pty", {"command": "/bin/sh", "title": "wire", "env": {"PS1": "$ ", "FOO": "bar"}})
    made = answer.data
    assert answer.json["location"]["directory"] == str(project)
    assert made == {
        "id": made["id"],
        "title": "wire",
        "command": "/bin/sh",
        "args": ["-l"],
        "cwd": str(project),
        "status": "running",
        "pid": made["pid"],
    }
    target = f"/api/pty/{made['id']}"
    renamed = await wire("PUT", target, {"title": "renamed", "size": {"rows": 30, "cols": 100}})
    assert renamed.data == {**made, "title": "renamed"} == (await wire.get(target)).data
    assert (await wire.get("/api/pty")).data == [renamed.data]
    removed = await wire("DELETE", target)
    assert (removed.status, removed.body) == (204, b"")
    assert not alive(made["pid"])
    gone = await wire.get(target)
    assert gone.json == {"_tag": "PtyNotFoundError", "message": gone.json["message"], "ptyID": made["id"]}
    assert gone.status == 404


@pytest.mark.parametrize("call", [("GET", ...), ("PUT", {}), ("DELETE", ...)])
async def test_an_unknown_terminal_is_404_and_a_malformed_id_400(memory: Wire, call: tuple[str, object]) -> None:
    """API-024, API-160, TOL-292, TOL-303: 404 for an unknown terminal, 400 for what is no terminal's id."""
    assert (await memory(call[0], "/api/pty/pty_none", call[1])).failure == (404, "PtyNotFoundError")
    answer = await memory(call[0], "/api/pty/nope", call[1])
    assert (answer.failure, answer.json["kind"]) == ((400, "InvalidRequestError"), "Params")


async def test_terminals_belong_to_their_location(memory: Wire, tmp_path: Path) -> None:
    """API-160, TOL-303: from anywhere else they do not exist."""
    (tmp_path / "other").mkdir()
    elsewhere = f"?location[directory]={quote(str(tmp_path / 'other'))}"
    made = (await memory.post("/api/pty", {"command": "cat"})).data
    theirs = (await memory.post(f"/api/pty{elsewhere}", {"command": "cat"})).data
    assert theirs["cwd"] == str(tmp_path / "other")
    assert [info["id"] for info in (await memory.get(f"/api/pty{elsewhere}")).data] == [theirs["id"]]
    assert (await memory.get(f"/api/pty/{made['id']}{elsewhere}")).failure == (404, "PtyNotFoundError")
    assert (await memory.get(f"/api/pty/{theirs['id']}")).failure == (404, "PtyNotFoundError")


@pytest.mark.parametrize(
    ("method", "payload"),
    [
        ("POST", {"command": "no-such-program"}),
        ("POST", {"cwd": "/no/such/directory"}),
        ("POST", {"args": "not a list"}),
        ("POST", {"env": {"A": 1}}),
        ("POST", {"env": {"A\0": "b"}}),
        ("POST", {"title": "x" * 2_000}),
        ("PUT", {"size": {"rows": 0, "cols": 80}}),
        ("PUT", {"size": {"rows": 24, "cols": 70_000}}),
        ("PUT", {"size": {"rows": 24}}),
        ("PUT", {"title": 7}),
    ],
)
async def test_a_bad_terminal_payload_is_refused_and_changes_nothing(
    memory: Wire, method: str, payload: object
) -> None:
    """API-160, TOL-288, TOL-292: refused with a reason, and nothing has changed."""
    made = (await memory.post("/api/pty", {"command": "cat"})).data
    answer = await memory(method, "/api/pty" if method == "POST" else f"/api/pty/{made['id']}", payload)
    assert (answer.failure, answer.json["kind"]) == ((400, "InvalidRequestError"), "Payload")
    assert (await memory.get("/api/pty")).data == [made]


async def test_no_more_terminals_than_may_run(memory: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-295: the caller may try again later."""
    monkeypatch.setattr(ptys, "RUNNING_LIMIT", 1)
    assert (await memory.post("/api/pty", {"command": "cat"})).status == 200
    assert (await memory.post("/api/pty", {"command": "cat"})).failure == (503, "ServiceUnavailableError")


async def test_terminals_are_announced_on_the_live_stream(memory: Wire) -> None:
    """API-214, TOL-293: on the live stream, with the Location."""
    async with memory.stream("/api/event") as stream:
        await stream.until("server.connected")
        made = (await memory.post("/api/pty", {"command": "/bin/sh", "args": ["-c", "exit 3"]})).data
        heard = await stream.until("pty.exited")
        await memory("DELETE", f"/api/pty/{made['id']}")
        heard += await stream.until("pty.deleted")
    found = [(event["type"], event["data"]) for event in heard if event["type"].startswith("pty.")]
    assert found == [
        ("pty.created", {"info": made}),
        ("pty.exited", {"id": made["id"], "exitCode": 3}),
        ("pty.deleted", {"id": made["id"]}),
    ]
    assert all(event["location"]["directory"] == made["cwd"] for event in heard if event["type"].startswith("pty."))


# -- the host's variables ------------------------------------------------------------------------------------------


async def said(browser: Browser, id: str) -> str:
    screen = Screen()
    async with browser.open(id) as client:
        await screen.rest(client)
    return screen.text


async def test_the_hosts_variables_go_over_the_callers(runtime: Runtime, project: Path, tmp_path: Path) -> None:
    """API-161, CAT-151, TOL-289, TOL-290: caller, then host, then forced; asked with the request's Location and the
    directory that was resolved."""
    asked: list[tuple[str, str]] = []

    async def overlay(directory: str, cwd: str) -> Mapping[str, str]:
        asked.append((directory, cwd))
        return {"BOTH": "host", "HOST": "host", "TERM": "dumb", "OPENCODE_TERMINAL": "0"}

    async with browsing(App(runtime, pty_environment=overlay)) as browser:
        made = await browser.create(
            'read -r _; echo "$CALLER $BOTH $HOST $TERM $OPENCODE_TERMINAL"',
            cwd="..",
            env={"CALLER": "caller", "BOTH": "caller", "TERM": "vt52"},
        )
        screen = Screen()
        async with browser.open(made["id"]) as client:
            await client.send("\n")
            await screen.rest(client)
    assert "caller host host xterm-256color 1\r\n" in screen.text
    assert asked == [(str(project), str(tmp_path))]
    assert made["cwd"] == str(tmp_path)


@pytest.mark.parametrize("fault", ["raises", "hangs", "answers nonsense"])
async def test_a_failing_host_costs_only_its_variables(
    runtime: Runtime, fault: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """TOL-291: within a bound, with a diagnostic."""
    monkeypatch.setattr(pty, "OVERLAY_SECONDS", 0.05)

    async def overlay(directory: str, cwd: str) -> Mapping[str, str]:
        if fault == "raises":
            raise RuntimeError("no")
        if fault == "hangs":
            await asyncio.Event().wait()
        return {"A": 1}  # type: ignore[dict-item]

    async with in_memory(App(runtime, pty_environment=overlay)) as wire:
        assert (await wire.post("/api/pty", {"command": "cat", "env": {"A": "b"}})).status == 200
    assert "the host gave no variables for a terminal" in caplog.text


async def test_a_server_alone_adds_nothing(browser: Browser) -> None:
    """API-161, CAT-151, TOL-290: the caller's values stand."""
    made = await browser.create('read -r _; echo "$MINE"', env={"MINE": "yes"})
    screen = Screen()
    async with browser.open(made["id"]) as client:
        await client.send("\n")
        await screen.rest(client)
    assert screen.text.endswith("yes\r\n")


# -- tickets -------------------------------------------------------------------------------------------------------


def test_a_ticket_is_good_once_for_its_claim_and_not_for_long() -> None:
    """API-163, TOL-305: an attempt with another terminal, directory or workspace leaves it as it was."""
    now = [0.0]
    tickets = Tickets(lambda: now[0])
    claim = Claim("pty_1", Location(directory="/a", workspace_id="wrk_1"))
    ticket = tickets.issue(claim)
    for other in (
        Claim("pty_2", claim.location),
        Claim("pty_1", Location(directory="/b", workspace_id="wrk_1")),
        Claim("pty_1", Location(directory="/a")),
    ):
        assert not tickets.consume(ticket, other)
    assert tickets.consume(ticket, claim)
    assert not tickets.consume(ticket, claim)
    late, later = tickets.issue(claim), tickets.issue(claim)
    now[0] = LIFETIME_SECONDS - 0.001
    assert tickets.consume(late, claim)
    now[0] = LIFETIME_SECONDS
    assert not tickets.consume(later, claim)


def test_the_oldest_tickets_are_dropped_at_the_limit() -> None:
    """API-163, TOL-304: the oldest give way."""
    tickets, claim = Tickets(lambda: 0.0), Claim("pty_1", Location(directory="/a"))
    issued = [tickets.issue(claim) for _ in range(LIMIT + 1)]
    assert len(set(issued)) == LIMIT + 1
    assert not tickets.consume(issued[0], claim)
    assert tickets.consume(issued[1], claim)
    assert tickets.consume(issued[-1], claim)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-opencode-ticket": "0"},
        {**TICKET, "origin": EVIL},
        {**TICKET, "origin": "null"},
        {**TICKET, "host": "evil.example"},
        {**TICKET, "origin": "http://evil.example:4096", "host": "evil.example:4096"},
    ],
)
async def test_tickets_are_not_for_strangers(memory: Wire, headers: dict[str, str]) -> None:
    """API-162, TOL-304, TOL-326: without the header, from a foreign origin, under a foreign name; before it is said
    whether the terminal exists."""
    answer = await memory.post("/api/pty/pty_none/connect-token", headers=headers)
    assert answer.failure == (403, "ForbiddenError")


async def test_a_ticket_for_a_terminal(memory: Wire, project: Path) -> None:
    """API-162, API-163, TOL-304: a random one each time, good for a minute."""
    made = (await memory.post("/api/pty", {"command": "cat"})).data
    answers = [await memory.post(f"/api/pty/{made['id']}/connect-token", headers=TICKET) for _ in range(2)]
    assert [answer.data for answer in answers] == [
        {"ticket": answer.data["ticket"], "expires_in": 60} for answer in answers
    ]
    assert answers[0].data != answers[1].data
    assert answers[0].json["location"]["directory"] == str(project)
    unknown = await memory.post("/api/pty/pty_none/connect-token", headers=TICKET)
    assert unknown.failure == (404, "PtyNotFoundError")


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_a_foreign_page_changes_nothing(memory: Wire, method: str) -> None:
    """TOL-326, API-044: also with requests that browsers send without asking first."""
    made = (await memory.post("/api/pty", {"command": "cat"})).data
    target = "/api/pty" if method == "POST" else f"/api/pty/{made['id']}"
    for headers in ({"origin": EVIL, "content-type": "text/plain"}, {"host": "evil.example"}):
        answer = await memory(method, target, body=b'{"command":"cat"}', headers=headers)
        assert answer.failure == (403, "ForbiddenError")
    assert (await memory.get("/api/pty")).data == [made]


# -- the upgrade ---------------------------------------------------------------------------------------------------


async def test_a_replayed_ticket_is_refused(browser: Browser, tmp_path: Path) -> None:
    """API-163, API-164, TOL-305, TOL-306: one connection; failed attempts from elsewhere do not use it up."""
    id = (await browser.create("cat"))["id"]
    ticket = await browser.ticket(id)
    other = (await browser.create("cat"))["id"]
    elsewhere = f"&location[directory]={quote(str(tmp_path))}"
    assert await browser.refused(id, f"ticket={ticket}", Origin=EVIL) == (403, b"")
    assert await browser.refused(other, f"ticket={ticket}") == (403, b"")
    assert await browser.refused(id, f"ticket={ticket}{elsewhere}") == (404, b"")
    assert await browser.refused(id, "ticket=made-up") == (403, b"")
    async with browser.open(id, f"ticket={ticket}"):
        assert await browser.refused(id, f"ticket={ticket}") == (403, b"")


OWN_PAGES: list[dict[str, str]] = [
    {},
    {"Origin": "https://configured.example"},
    {"Origin": "http://box:4096", "Host": "box:4096"},
]
PAGES_OF_THIS_MACHINE = [
    {"Origin": "http://localhost:3000"},
    {"Origin": "http://127.0.0.1:5173"},
    {"Origin": "tauri://localhost"},
    {"Origin": "https://app.opencode.ai"},
]
STRANGERS = [
    {"Origin": EVIL},
    {"Origin": "null"},
    {"Origin": "http://localhost.evil.example"},
    {"Host": "evil.example"},
    {"Host": "evil.example", "Origin": "http://evil.example"},
    {"Sec-Fetch-Site": "cross-site"},
]


@pytest.mark.parametrize("ticketed", [True, False])
@pytest.mark.parametrize("password", ["secret", None])
async def test_only_known_pages_get_a_terminal(runtime: Runtime, ticketed: bool, password: str | None) -> None:
    """API-044, API-413, TOL-307, TOL-308, TOL-326: with or without a ticket; where no password is asked for, not even
    the pages of another port of this machine."""
    app = App(
        runtime,
        credentials=Credentials(password) if password else None,
        hosts=Hosts(frozenset({"127.0.0.1", "box"})),
        origins=frozenset({"https://configured.example"}),
    )
    known = [*OWN_PAGES, *(PAGES_OF_THIS_MACHINE if password else [])]
    async with browsing(app) as browser:
        if password:
            browser.http.auth = ("opencode", password)
        token = base64.b64encode(f"opencode:{password}".encode()).decode()
        id = (await browser.create("cat"))["id"]
        for headers in (*OWN_PAGES, *PAGES_OF_THIS_MACHINE, *STRANGERS):
            query = f"ticket={await browser.ticket(id)}" if ticketed else f"auth_token={quote(token)}"
            _, writer, status = await raw_upgrade(browser.address, id, query, headers)
            writer.close()
            assert status == (101 if headers in known else 403), headers


async def test_nothing_is_told_before_credentials(runtime: Runtime, tmp_path: Path) -> None:
    """API-414: one refusal, whether the directory and the terminal exist or not; and nothing is looked up."""
    async with browsing(App(runtime, credentials=Credentials("secret"))) as browser:
        browser.http.auth = ("opencode", "secret")
        id = (await browser.create("cat"))["id"]
        other = (await browser.create("cat"))["id"]
        ticket = await browser.ticket(other)
        missing, there = (f"&location[directory]={quote(str(path))}" for path in (tmp_path / "none", tmp_path))
        for query in ("ticket=made-up", f"ticket={ticket}"):
            for place in ("", missing, there, "&location[workspace]=nonsense"):
                for one in (id, "pty_none", "nonsense"):
                    assert await browser.refused(one, query + place) == (403, b"")
                    assert await browser.refused(one, query + place, Origin=EVIL) == (403, b"")
        for place in (missing, there):
            assert {(await browser.refused(one, place))[0] for one in (id, "pty_none")} == {401}
        async with browser.open(other, f"ticket={ticket}"):
            pass


async def test_a_strangers_upgrade_opens_no_location(app: App, runtime: Runtime, tmp_path: Path) -> None:
    """TOL-326, API-164: where no Location is open there is no terminal, and asking builds nothing."""
    (tmp_path / "other").mkdir()
    place = Location(directory=str(tmp_path / "other"))
    connection = MemorySocket(app, "pty_none", f"location[directory]={quote(place.directory)}")
    assert await connection.closed() == {"type": "websocket.close", "code": 1008}
    assert place not in runtime.locations


async def test_an_unknown_terminal_comes_first(browser: Browser) -> None:
    """API-164, TOL-306: 404 with an empty body for a caller who may ask, before the ticket is looked at."""
    await browser.create("cat")
    assert await browser.refused("pty_none") == (404, b"")
    assert await browser.refused("pty_none", "ticket=x") == (404, b"")
    assert await browser.refused("pty_none", "ticket=x", Origin=EVIL) == (403, b"")


async def test_a_ticket_stands_for_credentials(runtime: Runtime) -> None:
    """API-043, TOL-306: on this path only, only if not empty, and only if it is good."""
    async with browsing(App(runtime, credentials=Credentials("secret"))) as browser:
        browser.http.auth = ("opencode", "secret")
        id = (await browser.create("cat"))["id"]
        ticket = await browser.ticket(id)
        status, body = await browser.refused(id)
        assert (status, json.loads(body)["_tag"]) == (401, "UnauthorizedError")
        assert (await browser.refused(id, "ticket="))[0] == 401
        assert (await browser.refused(f"{id}/more", f"ticket={ticket}"))[0] == 401
        assert await browser.refused(id, "ticket=made-up") == (403, b"")
        token = base64.b64encode(b"opencode:secret").decode()
        async with browser.open(id, f"auth_token={quote(token)}"):
            pass
        async with browser.open(id, f"ticket={ticket}"):
            pass
        assert (await browser.http.get(f"/api/pty?ticket={ticket}", auth=None)).status_code == 401


async def test_a_plain_request_is_no_upgrade(memory: Wire) -> None:
    """API-164: the address is a WebSocket's; an unknown terminal is told first."""
    assert (await memory.get("/api/pty/pty_missing/connect")).failure == (404, "PtyNotFoundError")
    id = (await memory.post("/api/pty", {"command": "/bin/sh"})).json["data"]["id"]
    assert (await memory.get(f"/api/pty/{id}/connect")).failure == (400, "InvalidRequestError")
    assert (await memory("DELETE", f"/api/pty/{id}")).status == 204


# -- frames --------------------------------------------------------------------------------------------------------


async def test_replay_cursor_output_and_close_come_in_order(browser: Browser) -> None:
    """API-164, API-165, TOL-310: text of at most 65536 units, one control frame, what follows, then 1000."""
    made = await browser.create("stty -echo; head -c 150001 /dev/zero | tr '\\0' x; printf 😀; read -r _; printf live")
    first, second = Screen(), Screen()
    async with browser.open(made["id"]) as client:
        await first.until(client, "😀")
    assert first.cursor == 150_003
    async with browser.open(made["id"]) as client:
        await second.until(client, "😀")
        second.see(await client.recv())
        await client.send("\n")
        assert await second.rest(client) == (1000, "")
    assert [type(frame) for frame in second.frames] == [str, str, str, bytes, str]
    assert [len(frame) for frame in second.frames[:2]] == [FRAME_UNITS, FRAME_UNITS]
    assert second.frames[3] == b'\0{"cursor":150003}'
    assert second.text == "x" * 150_001 + "😀live"


async def test_the_newest_two_mebi_characters_are_retained_and_the_cursor_counts_all(browser: Browser) -> None:
    """API-165, API-166: two mebi characters; the cursor goes on counting what was dropped, and one that points there
    replays from the oldest character that is left."""
    retained, dropped = 2 * 1024 * 1024, 70_000
    script = f"stty -echo; head -c {dropped} /dev/zero | tr '\\0' x; head -c {retained - 1} /dev/zero | tr '\\0' y"
    made = await browser.create(f"{script}; printf z; read -r _")
    end = dropped + retained
    watching = Screen()
    async with browser.open(made["id"]) as client:
        while watching.cursor < end:
            watching.see(await asyncio.wait_for(client.recv(), PATIENCE))
    for query, length in (("", retained), ("cursor=0", retained), (f"cursor={dropped}", retained), ("cursor=-1", 0)):
        screen = Screen()
        async with browser.open(made["id"], query) as client:
            while not screen.frames or isinstance(screen.frames[-1], str):
                screen.see(await asyncio.wait_for(client.recv(), PATIENCE))
        texts = [frame for frame in screen.frames if isinstance(frame, str)]
        assert (len(screen.text), set(screen.text[:-1])) == (length, {"y"} if length else set())
        assert all(len(text) <= FRAME_UNITS for text in texts)
        assert screen.frames[-1] == b'\0{"cursor":%d}' % end


@pytest.mark.parametrize(
    ("cursor", "replay"),
    [
        ("", "abcdef"),
        ("cursor=", "abcdef"),
        ("cursor=two", "abcdef"),
        ("cursor=-2", "abcdef"),
        ("cursor=1.5", "abcdef"),
        ("cursor=%D9%A1", "abcdef"),
        ("cursor=99999999999999999999", "abcdef"),
        ("cursor=0", "abcdef"),
        ("cursor=4", "ef"),
        ("cursor=6", ""),
        ("cursor=7000", ""),
        ("cursor=-1", ""),
    ],
)
async def test_the_cursor_of_a_connection(app: App, memory: Wire, cursor: str, replay: str) -> None:
    """API-164, TOL-309, TOL-310: absent or invalid is everything; the control frame comes with an empty replay too."""
    made = (await memory.post("/api/pty", {"command": "/bin/sh", "args": ["-c", "printf abcdef; read -r _"]})).data
    first = MemorySocket(app, made["id"])
    await eventually(lambda: "".join(frame.get("text") or "" for frame in first.sent) == "abcdef")
    connection = MemorySocket(app, made["id"], cursor)
    await eventually(lambda: any(frame.get("bytes") for frame in connection.sent))
    texts = [{"type": "websocket.send", "text": replay}] if replay else []
    assert connection.sent == [
        {"type": "websocket.accept"},
        *texts,
        {"type": "websocket.send", "bytes": b'\0{"cursor":6}'},
    ]
    for each in (first, connection):
        each.leave()
        await each.closed()


async def test_text_from_clients_reaches_the_terminal_and_other_bytes_are_dropped(browser: Browser) -> None:
    """API-165, TOL-311: text, or bytes that are text; other bytes are dropped."""
    made = await browser.create("stty raw -echo; printf ready; head -c 9")
    screen = Screen()
    async with browser.open(made["id"]) as client:
        await screen.until(client, "ready")
        await client.send("té")
        await client.send(b"\xff\xfe")
        await client.send("b€".encode())
        await client.send("xy")
        await screen.rest(client)
    assert screen.text == "readytéb€xy"


async def test_an_exited_terminal_shows_what_it_said(browser: Browser) -> None:
    """API-165, TOL-301, TOL-311: the retained output and the cursor, then 4404."""
    made = await browser.create("printf 'last words'; exit 3")
    await said(browser, made["id"])
    for query, text in (("", "last words"), ("cursor=5", "words"), ("cursor=-1", "")):
        screen = Screen()
        async with browser.open(made["id"], query) as client:
            assert await screen.rest(client) == (4404, "session exited")
        assert (screen.text, screen.frames[-1]) == (text, b'\0{"cursor":10}')


async def test_a_terminal_that_vanishes_during_the_upgrade(app: App, memory: Wire) -> None:
    """API-165, TOL-311: between check and attachment."""
    made = (await memory.post("/api/pty", {"command": "cat"})).data
    connection = MemorySocket(app, made["id"])

    async def remove() -> None:
        await memory("DELETE", f"/api/pty/{made['id']}")

    connection.on_accept = remove
    assert await connection.closed() == {"type": "websocket.close", "code": 4404, "reason": "session not found"}


async def test_a_removed_terminal_closes_its_sockets(browser: Browser) -> None:
    """TOL-294, TOL-310: after what it said."""
    made = await browser.create("printf ready; exec sleep 1000")
    screen = Screen()
    async with browser.open(made["id"]) as client:
        await screen.until(client, "ready")
        await browser.http.delete(f"/api/pty/{made['id']}")
        assert await screen.rest(client) == (1000, "")


@pytest.mark.parametrize("seed", range(3))
async def test_a_terminal_survives_its_clients(browser: Browser, seed: int) -> None:
    """TOL-297, TOL-299, TOL-310, TOL-312: cut at random points and resumed from the cursor, no character of a real
    shell's output is lost or repeated."""
    bursts, size, chance = 25, 100, random.Random(seed)
    script = (
        "stty -echo; printf '<ready>'; i=0; while read -r _ && [ $i -lt 2500 ]; do "
        'n=0; while [ $n -lt 100 ]; do echo "$i é€😀 zażółć"; i=$((i+1)); n=$((n+1)); done; done; '
        "printf '<end>'; read -r _"
    )
    id = (await browser.create(script))["id"]
    screen, driver = Screen(), await browser.open(id)
    await Screen().until(driver, "<ready>")
    for _ in range(bursts):
        await driver.send("\n")
        client = await browser.open(id, f"cursor={screen.cursor}")
        await screen.resume(client, seconds=chance.uniform(0, 0.01))
        client.transport.abort()
    await driver.send("\n")
    async with browser.open(id, f"cursor={screen.cursor}") as client:
        await screen.until(client, "<end>")
    said = "".join(f"{number} é€😀 zażółć\r\n" for number in range(bursts * size))
    assert screen.text == f"<ready>{said}<end>"
    driver.transport.abort()
    assert (await browser.http.get(f"/api/pty/{id}")).json()["data"]["status"] == "running"


# -- bounds --------------------------------------------------------------------------------------------------------


async def test_a_slow_client_is_let_go_and_may_resume(app: App, memory: Wire) -> None:
    """TOL-302: the terminal runs on at full speed; what waits for a client is bounded, and it is told with 4408."""
    script = "read -r _; head -c 6000000 /dev/zero | tr '\\0' x; printf '<end>'; read -r _"
    made = (await memory.post("/api/pty", {"command": "/bin/sh", "args": ["-c", script]})).data
    slow, quick = MemorySocket(app, made["id"]), MemorySocket(app, made["id"], "cursor=-1")
    await eventually(lambda: any(frame.get("bytes") for frame in slow.sent))
    slow.open.clear()
    quick.say(text="\n")
    await eventually(lambda: (quick.sent[-1].get("text") or "").endswith("<end>"))
    slow.open.set()
    closed = await slow.closed()
    assert (closed["type"], closed["code"]) == ("websocket.close", 4408)
    received = sum(len(frame.get("text") or "") for frame in slow.sent)
    assert received < 6_000_000
    assert sum(len(frame.get("text") or "") for frame in quick.sent) > 6_000_000
    resumed = MemorySocket(app, made["id"], f"cursor={received}")
    await eventually(lambda: any(frame.get("bytes") for frame in resumed.sent))
    assert "".join(frame.get("text") or "" for frame in resumed.sent).endswith("x<end>")
    for each in (quick, resumed):
        each.leave()
        await each.closed()


async def test_an_oversized_frame_closes_the_socket(app: App, browser: Browser) -> None:
    """TOL-313: 1009 from the network's side and from ours; a frame at the limit is typed."""
    made = await browser.create(f"stty raw -echo; printf ready; head -c {INPUT_BYTES} >/dev/null; printf got; cat")
    screen = Screen()
    async with browser.open(made["id"]) as client:
        await screen.until(client, "ready")
        await client.send("x" * INPUT_BYTES)
        await screen.until(client, "got")
        await client.send("x" * (INPUT_BYTES + 1))
        assert (await screen.rest(client))[0] == 1009
    connection = MemorySocket(app, made["id"], "cursor=-1")
    connection.say(text="é" * (INPUT_BYTES // 2 + 1))
    assert (await connection.closed())["code"] == 1009
    assert not any(frame.get("text") for frame in connection.sent)


async def test_shutting_down_closes_every_terminal_socket_with_1001(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-313: every socket is closed with 1001, also one whose terminal is busy."""
    monkeypatch.setattr(pty, "CLOSE_SECONDS", PATIENCE)
    screens = [Screen(), Screen()]
    async with browsing(app) as browser:
        quiet, busy = await browser.create("printf ready; cat"), await browser.create("while :; do echo ready; done")
        clients = [await browser.open(made["id"]) for made in (quiet, busy)]
        for screen, client in zip(screens, clients, strict=True):
            await screen.until(client, "ready")
        closing = [asyncio.create_task(screen.rest(client)) for screen, client in zip(screens, clients, strict=True)]
    assert [code for code, _ in await asyncio.gather(*closing)] == [1001, 1001]


async def test_idle_sockets_are_pinged(app: App) -> None:
    """TOL-313: every 30 s, by the server below."""
    assert SOCKET_OPTIONS["ws_ping_interval"] == 30.0
    async with browsing(app, ws_ping_interval=0.02) as browser:
        id = (await browser.create("cat"))["id"]
        reader, writer, _ = await raw_upgrade(browser.address, id)
        control = await reader.readexactly(2 + len(b'\0{"cursor":0}'))
        assert control[0] == 0x82
        async with asyncio.timeout(PATIENCE):
            assert (await reader.readexactly(1))[0] == 0x89
        writer.close()


async def test_a_client_that_leaves_while_typing_is_noticed(app: App, memory: Wire) -> None:
    """TOL-312, TOL-313: a program that reads nothing holds no socket open; the terminal goes on."""
    made = (await memory.post("/api/pty", {"command": "/bin/sh", "args": ["-c", "stty raw -echo; sleep 1000"]})).data
    connection = MemorySocket(app, made["id"])
    for _ in range(3):
        connection.say(text="x" * INPUT_BYTES)
    connection.leave()
    await connection.closed()
    assert (await memory.get(f"/api/pty/{made['id']}")).data["status"] == "running"
