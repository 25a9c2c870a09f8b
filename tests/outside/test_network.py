"""What a stranger on the network, a page in the user's browser and another user of the machine get: nothing."""

from __future__ import annotations

import base64
import json
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest
from tests.cli.conftest import Machine, Provider, Server, eventually, finish

from holdfast import HoldfastSync

Serve = Callable[..., Server]
ECHO = ("run", "--model", "demo/echo")
SECONDS = 20.0
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
}


class Answer(NamedTuple):
    status: int
    head: str
    body: bytes

    @property
    def said(self) -> str:
        message: str = json.loads(self.body)["message"]
        return message


def connect(url: str) -> socket.socket:
    host, _, port = url.removeprefix("http://").rpartition(":")
    return socket.create_connection(("127.0.0.1" if host == "0.0.0.0" else host, int(port)), timeout=SECONDS)


def call(
    url: str, target: str, method: str = "GET", headers: Mapping[str, str] | None = None, body: object = None
) -> Answer:
    """With headers that no client library would send. The whole answer, up to its end or that of the connection."""
    given = {"Host": url.removeprefix("http://"), "Connection": "close", **(headers or {})}
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    content = b"" if body is None else json.dumps(body).encode()
    if body is not None:
        lines += [f"Content-Length: {len(content)}", "Content-Type: application/json"]
    with connect(url) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + content)
        return receive(connection)


def receive(connection: socket.socket) -> Answer:
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(65_536)
        assert piece, received
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    if status != 101 and b"text/event-stream" not in head:
        while piece := connection.recv(65_536):
            body += piece
    return Answer(status, head.decode("latin-1").lower(), body)


def basic(machine: Machine) -> dict[str, str]:
    password = (machine.home / "state" / "holdfast" / "server-password").read_text(encoding="ascii").strip()
    return {"Authorization": "Basic " + base64.b64encode(f"opencode:{password}".encode()).decode()}


# -- names: DNS rebinding ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [(), ("--no-auth",)])
def test_a_foreign_host_name_gets_nothing(holdfast: Machine, serve: Serve, arguments: tuple[str, ...]) -> None:
    """API-410: reads, writes, preflights, streams and upgrades; password or not. The error names the option."""
    url = serve(*arguments).url
    good = {} if arguments else basic(holdfast)
    reading = call(url, "/api/fs/read/hello.txt", headers=good)
    assert (reading.status, reading.body) == (200, b"hello world\n")
    for host in ("evil.example", "evil.example:4096", "localhost.evil.example", "", "1.2.3.4"):
        foreign = {**good, "Host": host}
        for method, target in (
            ("GET", "/api/fs/read/hello.txt"),
            ("HEAD", "/api/health"),
            ("GET", "/api/event"),
            ("OPTIONS", "/api/session"),
            ("POST", "/api/session"),
            ("GET", "/nowhere"),
        ):
            assert call(url, target, method, foreign).status == 403, (host, method, target)
        assert call(url, "/api/pty/pty_none/connect", headers={**foreign, **UPGRADE}).status == 403
    assert "--allow-host evil.example" in call(url, "/api/health", headers={**good, "Host": "evil.example:80"}).said
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:4096"):
        assert call(url, "/api/health", headers={**good, "Host": host}).status == 200


def test_two_host_names_are_refused(serve: Serve) -> None:
    """API-410: a proxy may have checked the one, and this server the other."""
    url = serve("--no-auth").url
    for first, second in (("127.0.0.1", "evil.example"), ("evil.example", "127.0.0.1"), ("127.0.0.1", "127.0.0.1")):
        doubled = {"Host": first, "host": second}
        assert call(url, "/api/health", headers=doubled).status == 400
        assert call(url, "/api/pty/pty_none/connect", headers={**doubled, **UPGRADE}).status == 400


def test_a_server_behind_a_proxy_knows_the_names_of_the_proxy(holdfast: Machine, serve: Serve) -> None:
    """API-410, API-413: it answers under them, and its own pages may write."""
    url = serve("--allow-host", "Agent.example", "--allow-host", "2001:db8::1").url
    for host in ("agent.example", "AGENT.example:443", "[2001:db8::1]:80"):
        page = {**basic(holdfast), "Host": host, "Origin": f"https://{host}"}
        assert call(url, "/api/session", "POST", page, {}).status == 200
    other = {**basic(holdfast), "Host": "agent.example", "Origin": "https://evil.example"}
    assert call(url, "/api/session", "POST", other, {}).status == 403


def test_names_and_origins_are_configured_too(holdfast: Machine, serve: Serve) -> None:
    """OPS-454: beside those of the options."""
    holdfast.configure_user(holdfast={"server": {"hosts": ["agent.example"], "origins": ["https://desk.example"]}})
    url = serve("--allow-host", "other.example").url
    for host in ("agent.example", "other.example"):
        page = {**basic(holdfast), "Host": host, "Origin": "https://desk.example"}
        assert call(url, "/api/session", "POST", page, {}).status == 200
    assert call(url, "/api/health", headers={**basic(holdfast), "Host": "evil.example"}).status == 403


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"hosts": ["https://agent.example"]}, "holdfast.server.hosts cannot be used: 'https://agent.example'"),
        ({"origins": ["agent.example"]}, "holdfast.server.origins cannot be used: 'agent.example'"),
        ({"hosts": "agent.example"}, "holdfast.server.hosts cannot be used"),
    ],
)
def test_a_configured_name_that_cannot_be_used_is_an_error(
    holdfast: Machine, setting: dict[str, object], told: str
) -> None:
    """OPS-454."""
    holdfast.configure_user(holdfast={"server": setting})
    refused = holdfast("serve", "--port", "0")
    assert (refused.code, told in refused.err) == (1, True)


def test_a_server_on_every_address_answers_to_addresses_and_its_own_name(holdfast: Machine, serve: Serve) -> None:
    """API-410: a page cannot point an address elsewhere; a name that somebody else could have made is refused."""
    url = serve("--hostname", "0.0.0.0").url
    good = basic(holdfast)
    for host, status in (
        ("192.168.1.7:4096", 200),
        ("[fe80::1]:4096", 200),
        (socket.gethostname(), 200),
        ("localhost:1", 200),
        ("evil.example", 403),
        ("192.168.1.7.evil.example", 403),
        ("3232235783", 403),
        ("192.168.1", 403),
    ):
        assert call(url, "/api/health", headers={**good, "Host": host}).status == status, host


def test_a_server_without_a_password_is_for_this_machine_only(holdfast: Machine) -> None:
    """API-413: a usage error in one line, and nothing listens."""
    ran = holdfast("serve", "--port", "0", "--no-auth", "--hostname", "0.0.0.0")

    assert (ran.code, ran.out) == (2, "")
    assert "0.0.0.0" in ran.complaint


# -- pages: other origins ----------------------------------------------------------------------------------------


def test_without_a_password_only_its_own_pages_may_do_something(holdfast: Machine, serve: Serve) -> None:
    """API-413: a page of another port of this machine neither writes, nor opens a terminal, nor sees a file."""
    url = serve("--no-auth", "--allow-origin", "https://desk.example").url
    terminal = json.loads(call(url, "/api/pty", "POST", body={"command": "cat"}).body)["data"]["id"]
    own = [{}, {"Origin": url}, {"Origin": "https://desk.example"}, {"Sec-Fetch-Site": "same-origin"}]
    foreign = [
        {"Origin": "http://localhost:3000"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": url.replace("127.0.0.1", "localhost")},
        {"Origin": "https://app.opencode.ai"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Dest": "script"},
    ]
    for page, allowed in (*((page, True) for page in own), *((page, False) for page in foreign)):
        wanted = 200 if allowed else 403
        assert call(url, "/api/session", "POST", page, {}).status == wanted, page
        assert call(url, "/api/fs/read/hello.txt", headers=page).status == wanted, page
        assert call(url, "/api/fs/list", headers=page).status == wanted, page
        assert call(url, "/api/pty", headers=page).status == wanted, page
        upgraded = call(url, f"/api/pty/{terminal}/connect", headers={**page, **UPGRADE})
        assert upgraded.status == (101 if allowed else 403), page
        reading = call(url, "/api/health", headers=page)
        assert reading.status == 200
        assert ("access-control-allow-origin" in reading.head) == (allowed and "Origin" in page), page


def test_a_terminal_tells_nothing_before_credentials(holdfast: Machine, serve: Serve) -> None:
    """API-414: neither whether a directory nor whether a terminal exists."""
    url = serve().url
    made = call(url, "/api/pty", "POST", basic(holdfast), {"command": "cat"})
    terminal = json.loads(made.body)["data"]["id"]
    answers = {
        call(url, f"/api/pty/{one}/connect?ticket=x&location[directory]={quote(str(place))}", headers=UPGRADE)[::2]
        for one in (terminal, "pty_none")
        for place in (holdfast.project, holdfast.home, holdfast.home / "none")
    }

    assert answers == {(403, b"")}


# -- strangers: cost before authentication -----------------------------------------------------------------------


def memory(process_id: int, name: str) -> int:
    """A line of the process's status, in bytes."""
    for line in Path(f"/proc/{process_id}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(name)


def test_headers_without_end_cost_nothing(holdfast: Machine, serve: Serve) -> None:
    """API-411: 50 callers with 170,000 headers each, none of whom has shown a credential."""
    server = serve()
    assert call(server.url, "/api/health", headers=basic(holdfast)).status == 200
    before = memory(server.process.pid, "VmRSS")
    flood = b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"a:b\r\n" * 170_000
    with ExitStack() as stack:
        callers = [stack.enter_context(connect(server.url)) for _ in range(50)]
        threads = [threading.Thread(target=send, args=(caller, flood)) for caller in callers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert call(server.url, "/api/health", headers=basic(holdfast)).status == 200

    assert memory(server.process.pid, "VmHWM") - before < 16 * 1024**2


def send(connection: socket.socket, data: bytes) -> None:
    with suppress(OSError):  # it is cut off
        connection.sendall(data)


@contextmanager
def many_files(count: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_idle_connections_lock_nobody_out(holdfast: Machine, serve: Serve) -> None:
    """API-412: with as many as 1,100 of them a caller with a password is served at once, and one who was served before
    keeps its connection, though the process may open no more than 1,024 files."""
    holdfast.started_by = ["sh", "-c", 'ulimit -n 1024; exec "$@"', "sh"]
    server = serve()
    good = basic(holdfast)
    request = f"GET /api/event HTTP/1.1\r\nHost: localhost\r\nAuthorization: {good['Authorization']}\r\n\r\n".encode()
    with many_files(3_000), ExitStack() as stack:
        stream = stack.enter_context(connect(server.url))
        stream.sendall(request)
        assert receive(stream).status == 200
        for _ in range(1_100):
            stack.enter_context(connect(server.url))
        began = time.monotonic()
        for _ in range(5):
            assert call(server.url, "/api/health", headers=good).status == 200
        assert time.monotonic() - began < 5
        assert call(server.url, "/api/session", "POST", good, {}).status == 200
        seen = b""
        while b"session.created" not in seen and b"heartbeat" not in seen:
            seen += stream.recv(65_536)
        eventually(lambda: len(list(Path(f"/proc/{server.process.pid}/fd").iterdir())) < 300)


def test_a_caller_without_credentials_is_refused_by_its_head(serve: Serve) -> None:
    """API-411: no byte of a body is asked for or waited for."""
    url = serve().url
    head = {"Content-Length": "1000000000", "Expect": "100-continue", "Content-Type": "application/json"}

    assert call(url, "/api/session", "POST", head).status == 401


# -- local clients: whom they trust ------------------------------------------------------------------------------


class Squatter:
    """Listens where a server was, and keeps what it is told."""

    def __init__(self, url: str) -> None:
        self.heard = b""
        self._listener = socket.create_server(("127.0.0.1", int(url.rpartition(":")[2])))
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(1)
                try:
                    self.heard += connection.recv(65_536)
                    connection.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                except OSError:
                    pass


def test_the_password_is_not_sent_to_a_program_on_the_port_of_a_killed_server(holdfast: Machine, serve: Serve) -> None:
    """API-415: with its port taken and its process id alive again, no password is sent, and the work is done here; what
    it left is removed."""
    server = serve()
    server.process.kill()
    server.process.wait()
    registrations = holdfast.home / "state" / "holdfast" / "servers"
    for path in registrations.glob("*.json"):
        told = json.loads(path.read_bytes())
        path.write_text(json.dumps({**told, "pid": os.getpid()}), encoding="utf-8")
    squatter = Squatter(server.url)
    try:
        ran = holdfast(*ECHO, "one")
        asked = squatter.heard
        holdfast(*ECHO, "--attach", server.url, "two")
    finally:
        squatter.close()

    assert (ran.code, ran.out, asked) == (0, "one\n", b"")
    assert b"authorization" not in squatter.heard.lower()
    assert list(registrations.iterdir()) == []


def test_killed_servers_leave_no_directories_for_temporary_files(holdfast: Machine, serve: Serve) -> None:
    """API-415: where the path of a socket would be too long. The next command that looks for a server removes them."""
    holdfast.environment["XDG_STATE_HOME"] = str(holdfast.home / ("long" * 30))
    server = serve("--no-auth")
    registration = next((Path(holdfast.environment["XDG_STATE_HOME"]) / "holdfast" / "servers").glob("*.json"))
    folder = Path(json.loads(registration.read_bytes())["socket"]).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    server.process.kill()
    server.process.wait()
    assert folder.exists()
    assert holdfast(*ECHO, "one").code == 0
    assert not folder.exists()


def test_a_run_talks_to_the_server_though_a_stranger_has_a_port_like_it(holdfast: Machine, serve: Serve) -> None:
    """API-415: it goes through the socket, which a registration that was changed to another port shows."""
    server = serve()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        (path,) = (holdfast.home / "state" / "holdfast" / "servers").glob("*.json")
        told = json.loads(path.read_bytes())
        path.write_text(json.dumps({**told, "url": f"http://127.0.0.1:{listener.getsockname()[1]}"}), encoding="utf-8")
        ran = holdfast(*ECHO, "one")
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()

    assert (ran.code, ran.out) == (0, "one\n")
    assert "using the server at http://" in ran.err
    assert server.process.poll() is None


def test_a_password_is_of_one_start(holdfast: Machine, serve: Serve) -> None:
    """API-046: a server that was killed leaves none that a later one takes."""
    first = serve()
    old = basic(holdfast)
    assert call(first.url, "/api/health", headers=old).status == 200
    first.process.kill()
    first.process.wait()
    second = serve()

    assert call(second.url, "/api/health", headers=old).status == 401
    assert call(second.url, "/api/health", headers=basic(holdfast)).status == 200


# -- the end -----------------------------------------------------------------------------------------------------


def test_a_signal_ends_it_whatever_its_connections_do(holdfast: Machine, serve: Serve) -> None:
    """API-416: streams, a body that does not come, an answer that nobody reads, a terminal, idle connections."""
    (holdfast.project / "large.bin").write_bytes(bytes(20 * 1024**2))
    server = serve("--no-auth")
    host = f"Host: {server.url.removeprefix('http://')}\r\n"
    terminal = json.loads(call(server.url, "/api/pty", "POST", body={"command": "cat"}).body)["data"]["id"]
    upgrade = "".join(f"{name}: {value}\r\n" for name, value in UPGRADE.items())
    requests = (
        f"GET /api/event HTTP/1.1\r\n{host}\r\n",
        f"GET /api/fs/read/large.bin HTTP/1.1\r\n{host}\r\n",
        f"POST /api/session HTTP/1.1\r\n{host}Content-Length: 100\r\n\r\n{{",
        f"GET /api/pty/{terminal}/connect HTTP/1.1\r\n{host}{upgrade}\r\n",
        "GET /",
        "",
    )
    with ExitStack() as stack:
        for request in requests * 3:
            connection = stack.enter_context(connect(server.url))
            connection.sendall(request.encode())
        for _ in range(2):
            assert call(server.url, "/api/health").status == 200
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        ran = finish(server.process)
        took = time.monotonic() - began

    assert ran.code == 0, "it did not have to be ended after 4.5 s"
    assert took < 20  # a busy machine may need seconds for the rest


# -- what the command line shows of it ---------------------------------------------------------------------------


def test_a_message_from_elsewhere_cannot_steer_a_terminal_behind_a_pipe(holdfast: Machine, provider: Provider) -> None:
    """API-417: the line that says what went wrong is plain text, also in a pipe."""

    def refuse(handler: BaseHTTPRequestHandler) -> None:
        Provider.head(handler, 400, "application/json")
        message = "no\x1b]0;owned\x07\x1b[2J\x9b1A\u202e"
        handler.wfile.write(json.dumps({"_tag": "InvalidRequestError", "message": message}).encode())

    provider.behave = refuse
    ran = holdfast(*ECHO, "--attach", provider.url, "hello")

    assert ran.code == 1
    assert "owned" in ran.complaint
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(ran.out + ran.err)


def test_titles_and_paths_cannot_look_like_other_lines(holdfast: Machine) -> None:
    """API-417: in a pipe too; JSON has them as they are."""
    title = "mine\x1b[2J\ncost       $0.00\u202e"
    holdfast.project = holdfast.project / "odd\x1b[1A\ndirectory"
    holdfast.project.mkdir()
    holdfast.configure(model="demo/echo")
    with HoldfastSync(holdfast.project, data=holdfast.data, environment=holdfast.environment) as hf:
        session = hf.sessions.create().id
        hf.sessions.rename(session, title=title)
    for command in (("sessions", "show", session), ("config", "check")):
        shown = holdfast(*command)
        assert shown.code == 0, shown
        assert not {"\x1b", "\u202e"} & set(shown.out + shown.err)
        assert not any(line.startswith(("cost       $0.00\\", "directory/")) for line in shown.out.splitlines())
    assert json.loads(holdfast("sessions", "show", session, "--json").out)["session"]["title"] == title


def test_invisible_characters_are_shown_before_an_approval(holdfast: Machine) -> None:
    """TOL-318: characters without width in a command that needs permission."""
    holdfast.configure_user(permission={"bash": "ask"})
    calls = [{"tool": "bash", "input": {"command": "echo a\u200bb\u2060\ufeff\U000e0041", "description": "x"}}]
    holdfast.script({"text": "I try.", "calls": calls}, {"text": "Good."})
    person = holdfast.at_terminal("run", "--model", "demo/scripted", "go")
    person.wait_for("your answer:")
    person.type("n\n")
    ran = person.leave()

    assert "echo a\\u200bb\\u2060\\ufeff\\U000e0041" in ran.err
