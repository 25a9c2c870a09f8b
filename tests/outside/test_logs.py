"""The log of a server, as an operator reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from tests.cli.conftest import Machine, Provider, Ran, finish
from tests.outside.test_clients import Serve
from tests.outside.test_failing_providers import in_order, refusal
from tests.plain_http import NO_TLS

SECRET = "correct-horse-battery"
TURNS = (
    {"calls": [{"tool": "write", "input": {"path": "notes.txt", "content": f"{SECRET} in an argument"}}]},
    {"text": f"{SECRET} answered"},
)


@contextmanager
def served(holdfast: Machine, serve: Serve, *arguments: str, **environment: str) -> Iterator[tuple[httpx2.Client, Any]]:
    """A server without a password, a client of it, and a function that ends it and gives what it wrote."""
    server = serve("--no-auth", *arguments, **environment)

    def ended() -> Ran:
        server.process.terminate()
        return finish(server.process)

    with httpx2.Client(base_url=server.url, timeout=45, trust_env=False, verify=NO_TLS) as http:
        yield http, ended


def work(http: httpx2.Client, model: str = "scripted", provider: str = "demo") -> str:
    """One prompt in a new Session, with a query and a title that nobody logs; the id of the Session."""
    created = http.post("/api/session", json={"model": {"id": model, "providerID": provider}})
    id: str = created.json()["data"]["id"]
    http.post(f"/api/session/{id}/prompt?auth_token={SECRET}", json={"prompt": {"text": f"{SECRET} asked"}})
    assert http.post(f"/api/session/{id}/wait").status_code == 204
    return id


def lines(err: str, logger: str = "") -> list[dict[str, Any]]:
    """The records of loggers whose name begins so."""
    found = [json.loads(line) for line in err.splitlines()]
    return [line for line in found if line["logger"].startswith(logger)]


def test_each_record_is_one_line_of_json_without_content(holdfast: Machine, serve: Serve) -> None:
    """OPS-210, OPS-211, OPS-212: start, requests by route, turns with what they used, stop; no text of anybody."""
    holdfast.script(*TURNS)
    holdfast.configure_user(permission={"*": "allow"})
    with served(holdfast, serve, "--log-level", "debug", "--log-format", "json") as (http, ended):
        session = work(http)
        assert http.get("/nothing/here").status_code == 404
        err = ended().err
    assert SECRET not in err
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines(err))
    assert [line["message"] for line in lines(err, "holdfast.embedded.")] == ["started", "stopping", "stopped"]
    requests = [(line["method"], line["route"], line["status"]) for line in lines(err, "holdfast.request")]
    assert requests == [
        ("POST", "/api/session", 200),
        ("POST", "/api/session/{sessionID}/prompt", 200),
        ("POST", "/api/session/{sessionID}/wait", 204),
        ("GET", "unknown", 404),
    ]
    turns = lines(err, "holdfast.turn")
    assert [line["message"] for line in turns] == ["turn started", "turn ended"] * 2
    assert {line["session"] for line in turns} == {session}
    assert {line["model"] for line in turns} == {"demo/scripted"}
    first, last = turns[1], turns[3]
    assert (first["finish"], last["finish"]) == ("tool-calls", "stop")
    assert first["turn"].startswith("msg_")
    assert first["turn"] != last["turn"]
    assert {"ms", "input", "output", "cache_read", "cost"} <= last.keys()


def test_the_usual_log_is_text_and_tells_only_what_is_wrong(holdfast: Machine, serve: Serve) -> None:
    """OPS-210, OPS-212: with time and level. A failed turn names its Session."""
    holdfast.script({"fail": 400})
    with served(holdfast, serve) as (http, ended):
        session = work(http)
        err = ended().err
    logged = [line for line in err.splitlines() if re.match(r"\d{4}-\d\d-\d\dT", line)]
    assert logged
    assert all(re.match(r"\S+Z (warning|error) holdfast\.\S+: ", line) for line in logged)
    (line,) = (line for line in logged if "turn failed" in line)
    assert f"turn failed session={session} turn=msg_" in line
    assert 'cause="Provider request failed with HTTP 400"' in line


def test_retries_of_a_provider_are_told(holdfast: Machine, serve: Serve, provider: Provider) -> None:
    """OPS-212: with the status, and not in the words of the provider."""
    provider.behave = in_order(refusal(503, SECRET, retry_after="0"), refusal(400, "no such thing"))
    holdfast.use_provider(provider.url, settings={"retry": {"total_seconds": 30}, "titles": False})
    with served(holdfast, serve, "--log-format", "json") as (http, ended):
        work(http, "m", "mock")
        err = ended().err
    told = lines(err, "holdfast.turn")
    assert SECRET not in err
    assert [(line["message"], line.get("status")) for line in told] == [
        ("provider retried", 503),
        ("turn failed", None),
    ]


@pytest.mark.parametrize("place", ["environment", "configuration"])
def test_the_environment_and_the_user_choose_the_log_too(holdfast: Machine, serve: Serve, place: str) -> None:
    """OPS-213: options come before the environment, and that before the configuration."""
    holdfast.configure_user(holdfast={"log": {"level": "debug", "format": "json"}})
    environment = {"HOLDFAST_LOG_LEVEL": "info"} if place == "environment" else {}
    with served(holdfast, serve, **environment) as (http, ended):
        http.get("/healthz")
        found = lines(ended().err, "holdfast.request")
    assert len(found) == (place == "configuration")  # probes are told at the level debug


def test_a_project_does_not_choose_the_log(holdfast: Machine, serve: Serve) -> None:
    """OPS-213: what it says has no effect."""
    holdfast.configure(holdfast={"log": {"level": "debug"}})
    with served(holdfast, serve) as (http, ended):
        http.get("/healthz")
        assert "holdfast.request" not in ended().err


def test_a_log_that_does_not_exist_is_refused(holdfast: Machine) -> None:
    """OPS-213: with the setting and the values that there are."""
    ran = holdfast("serve", HOLDFAST_LOG_LEVEL="loud")
    assert ran.code == 1
    assert ran.complaint == (
        "holdfast: environment: HOLDFAST_LOG_LEVEL cannot be used: 'loud' is none of debug, info, warning, error"
    )
    holdfast.configure_user(holdfast={"log": {"format": "xml"}})
    assert "holdfast.log.format cannot be used" in holdfast("serve").complaint
