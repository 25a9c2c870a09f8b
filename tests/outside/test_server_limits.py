"""What a server refuses when a limit of its configuration is reached, and that everything else goes on."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any

import httpx2
import pytest
from tests.cli.conftest import PATIENCE, Machine, Server, finish
from tests.outside.test_tokens import PASSWORD, call, created
from tests.plain_http import NO_TLS

from holdfast import connect_sync
from holdfast.schema.exceptions import Forbidden, TooManyRequests

Serve = Callable[..., Server]
OWNER = httpx2.BasicAuth("opencode", PASSWORD)


@pytest.fixture
def limited(holdfast: Machine, serve: Serve) -> Callable[..., Server]:
    def start(**limits: Any) -> Server:
        holdfast.configure_user(model="demo/echo", holdfast={"limits": limits, "titles": False})
        holdfast.environment["OPENCODE_SERVER_PASSWORD"] = PASSWORD
        return serve()

    return start


def post(server: Server, path: str, payload: Any = None) -> httpx2.Response:
    return httpx2.post(f"{server.url}{path}", json=payload or {}, auth=OWNER, verify=NO_TLS, timeout=PATIENCE)


def refusal(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, str(answer.json()["_tag"])


def test_a_server_with_enough_sessions_refuses_further_ones(limited: Callable[..., Server]) -> None:
    """OPS-320: forks too; those that are there go on, and deleting makes room."""
    server = limited(sessions=2)
    one, two = (post(server, "/api/session").json()["data"]["id"] for _ in range(2))
    for refused in (
        post(server, "/api/session"),
        post(server, f"/api/session/{one}/fork", {"boundary": {"type": "through"}}),
    ):
        assert refusal(refused) == (507, "InsufficientStorageError")
        assert refused.json()["limit"] == "sessions"
    assert post(server, f"/api/session/{one}/prompt", {"prompt": {"text": "hi"}}).is_success
    assert post(server, f"/api/session/{one}/wait").is_success
    assert post(server, "/api/session", {"id": "bad"}).status_code == 400
    assert post(server, "/api/session", {"id": one}).json()["data"]["id"] == one
    deleted = httpx2.delete(f"{server.url}/api/session/{two}", auth=OWNER, verify=NO_TLS)
    assert deleted.is_success


def test_a_session_takes_only_so_many_inputs(limited: Callable[..., Server]) -> None:
    """OPS-321."""
    server = limited(pending_inputs=2)
    session = post(server, "/api/session").json()["data"]["id"]
    waiting = {"prompt": {"text": "hi"}, "resume": False}
    answers = [post(server, f"/api/session/{session}/prompt", waiting) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 409]
    assert "withdraw" in answers[2].json()["message"]


def test_a_token_that_asks_too_often_is_told_when_to_come_back(
    holdfast: Machine, limited: Callable[..., Server]
) -> None:
    """OPS-322: others are not concerned."""
    server = limited(requests_per_second=0.01, burst=3)
    ci, other = created(holdfast, "ci", "--role", "read"), created(holdfast, "other", "--role", "read")
    answers = [call(server, ci, "GET", "/api/session") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert refusal(answers[3]) == (429, "TooManyRequestsError")
    assert 1 <= int(answers[3].headers["retry-after"]) <= 100
    assert answers[3].json()["retryAfter"] == int(answers[3].headers["retry-after"])
    for path in ("/api/metrics", "/api/nothing"):
        assert call(server, ci, "GET", path).status_code == 429
    assert call(server, other, "GET", "/api/session").status_code == 200
    for _ in range(10):
        assert httpx2.get(f"{server.url}/api/session", auth=OWNER, verify=NO_TLS).status_code == 200
    with connect_sync(server.url, password=other) as client:
        with pytest.raises(Forbidden) as forbidden:
            client.sessions.create()
        assert forbidden.value.role == "prompt"
        client.sessions.list()
        with pytest.raises(TooManyRequests) as often:
            client.sessions.list()
        assert often.value.retry_after >= 1


def test_only_so_many_streams_are_open(holdfast: Machine, limited: Callable[..., Server]) -> None:
    """OPS-323: one that ends makes room."""
    server = limited(followers=4)
    ci = created(holdfast, "ci", "--role", "read")
    headers = {"authorization": f"Bearer {ci}"}
    with httpx2.Client(base_url=server.url, verify=NO_TLS, timeout=PATIENCE) as http:
        with http.stream("GET", "/api/event", headers=headers) as response:
            assert response.status_code == 200
            assert refusal(http.get("/api/event", headers=headers)) == (429, "TooManyRequestsError")
            with ExitStack() as stack:
                for path in ("/api/event", "/web/stream", "/api/event"):
                    assert stack.enter_context(http.stream("GET", path, auth=OWNER)).status_code == 200
                full = http.get("/api/event", auth=OWNER)
                assert (full.status_code, full.headers["retry-after"]) == (429, "10")
                assert http.get("/api/session", headers=headers).status_code == 200
        for _ in range(1_000):
            with http.stream("GET", "/api/event", headers=headers) as again:
                if again.status_code == 200:
                    return
        raise AssertionError("there is no room again")


def test_a_full_disk_refuses_new_input_and_nothing_else(limited: Callable[..., Server]) -> None:
    """OPS-324."""
    server = limited(disk_floor_bytes=2**50)
    refused = post(server, "/api/session")
    assert refusal(refused) == (507, "InsufficientStorageError")
    assert "Free some space" in refused.json()["message"]
    assert httpx2.get(f"{server.url}/api/session", auth=OWNER, verify=NO_TLS).status_code == 200


def test_a_full_disk_is_visible_to_probes_metrics_health_and_log(limited: Callable[..., Server]) -> None:
    """OPS-200, OPS-324: the server is not ready, says so everywhere, and writes one line."""
    server = limited(disk_floor_bytes=2**50)
    for _ in range(3):
        ready = httpx2.get(f"{server.url}/readyz", verify=NO_TLS)
        assert (ready.status_code, ready.text) == (503, "disk\n")
        assert httpx2.get(f"{server.url}/healthz", verify=NO_TLS).status_code == 200
        health = httpx2.get(f"{server.url}/api/health", auth=OWNER, verify=NO_TLS).json()
        assert (health["healthy"], health["disk"]["floor"]) == (True, 2**50)
    assert f"below {2**50:,} bytes" in post(server, "/api/session").json()["message"]
    metrics = httpx2.get(f"{server.url}/metrics", auth=OWNER, verify=NO_TLS).text
    assert f"holdfast_disk_floor_bytes {2**50}" in metrics
    assert 0 < float(metrics.partition("\nholdfast_disk_free_bytes ")[2].split()[0]) < 2**50
    server.process.terminate()
    _, log = server.process.communicate(timeout=30)
    assert log.count("is full: ") == 1


def test_the_largest_body_is_a_setting(limited: Callable[..., Server]) -> None:
    """OPS-325."""
    server = limited(body_bytes=2048)
    assert "larger than 2048 bytes" in post(server, "/api/session", {"id": "ses_" + "x" * 4096}).text
    assert post(server, "/api/session").status_code == 200


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"sessions": 0}, "limits.sessions"),
        ({"followers": "many"}, "limits.followers"),
        ({"requests_per_second": 0}, "limits.requests_per_second"),
        ({"connections": 5}, "there is no such setting"),
    ],
)
def test_a_limit_that_cannot_be_used_is_an_error(holdfast: Machine, limits: dict[str, Any], told: str) -> None:
    """OPS-325: at start, with the file and the setting."""
    holdfast.configure_user(holdfast={"limits": limits})
    code, _, err = finish(holdfast.start("serve", "--port", "0"))
    assert code == 1
    assert told in err
    assert "opencode.json" in err


def test_a_token_sends_only_so_much_at_once(holdfast: Machine, limited: Callable[..., Server]) -> None:
    """OPS-326: bodies that never end fill no memory, and others are not concerned."""
    server = limited(body_bytes=100_000)
    ci, other = created(holdfast, "ci", "--role", "prompt"), created(holdfast, "other", "--role", "prompt")
    host, _, port = server.url.removeprefix("http://").partition(":")
    head = (
        f"POST /api/session HTTP/1.1\r\nhost: {host}:{port}\r\nauthorization: Bearer {ci}\r\n"
        "content-type: application/json\r\ncontent-length: 99999\r\n\r\n"
    )
    with ExitStack() as stack:
        senders = [stack.enter_context(socket.create_connection((host, int(port)), timeout=PATIENCE)) for _ in range(5)]
        for sender in senders[:4]:
            sender.sendall(head.encode() + b" " * 99_900)
        deadline, answer = time.monotonic() + PATIENCE, b""
        while b" 429 " not in answer:  # until the others have arrived
            assert time.monotonic() < deadline
            senders[4].close()
            senders[4] = stack.enter_context(socket.create_connection((host, int(port)), timeout=1))
            senders[4].sendall(head.encode() + b" " * 99_900)
            with suppress(TimeoutError):
                answer = senders[4].recv(4096)
        assert call(server, other, "POST", "/api/session", json={}).status_code == 200
        assert call(server, ci, "GET", "/api/session").status_code == 200


def test_wrong_passwords_are_slowed_at_every_door(limited: Callable[..., Server]) -> None:
    """API-670: at the API as on the page; a client that is in, the right password and tokens are not locked out."""
    server = limited()

    def attempt(password: str, path: str = "/api/session") -> int:
        auth = httpx2.BasicAuth("opencode", password)
        return httpx2.get(f"{server.url}{path}", auth=auth, verify=NO_TLS, timeout=PATIENCE).status_code

    assert attempt(PASSWORD) == 200
    with ThreadPoolExecutor(24) as pool:
        begun = time.monotonic()
        guesses = list(pool.map(attempt, [f"guess {number}" for number in range(48)]))
        assert time.monotonic() - begun >= 1.0
    assert set(guesses) == {401, 429}
    assert guesses.count(429) >= 16
    assert attempt("guess", "/api/pty/pty_x/connect") in (401, 429)
    begun = time.monotonic()
    assert attempt(PASSWORD) == 200
    assert time.monotonic() - begun < 0.9
    page = httpx2.post(f"{server.url}/web/sign-in", json={"password": PASSWORD}, verify=NO_TLS, timeout=PATIENCE)
    assert page.status_code == 200
