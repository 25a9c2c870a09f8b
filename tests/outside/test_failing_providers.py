"""A provider that is overloaded, out of reach or refuses: the turn is tried again for minutes and says so, or fails
with a message that names what mends it. A tool starts and a turn ends as soon as the provider has said enough."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from tests.cli.conftest import Machine, Provider, finish, frame, free_port

from holdfast import Holdfast, PromptInput
from holdfast.schema.codec import encode
from holdfast.schema.session_message import AssistantMessage

pytestmark = pytest.mark.anyio

Handler = BaseHTTPRequestHandler
Behaviour = Callable[[Handler], None]


def refusal(status: int, message: str = "not now", **headers: str) -> Behaviour:
    def behave(handler: Handler) -> None:
        handler.send_response(status)
        handler.send_header("content-type", "application/json")
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(json.dumps({"error": {"message": message}}).encode())

    return behave


def overloaded_in_the_stream(handler: Handler) -> None:
    Provider.head(handler)
    handler.wfile.write(b'data: {"error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n')


def hangs_up(handler: Handler) -> None:
    Provider.head(handler)


def in_order(*behaviours: Behaviour) -> Behaviour:
    left = list(behaviours)
    return lambda handler: left.pop(0)(handler)


def configure(machine: Machine, url: str, total_seconds: int = 0, **options: Any) -> None:
    machine.use_provider(url, settings={"retry": {"total_seconds": total_seconds}, "titles": False}, **options)


def opened(machine: Machine) -> Holdfast:
    return Holdfast(
        machine.project, preset="allow", data=machine.data, environment=machine.environment, unattended="allow"
    )


async def until(hf: Holdfast, session_id: str, text: str, wanted: Callable[[str, dict[str, Any]], bool]) -> list[Any]:
    """Prompt, and collect the live and durable events of the Session up to the wanted one."""
    seen: list[Any] = []
    async with aclosing(aiter(hf.events.subscribe())) as events:
        await anext(events)
        await hf.sessions.prompt(session_id, prompt=PromptInput(text=text))
        async for event in events:
            data = as_json(event.data)
            if data.get("sessionID") == session_id:
                seen.append((event.type, data))
                if wanted(event.type, data):
                    break
    return seen


def as_json(value: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(encode(value))
    return found


def is_status(kind: str) -> Callable[[str, dict[str, Any]], bool]:
    return lambda type, data: type == "session.status" and data["status"]["type"] == kind


async def newest(hf: Holdfast, session_id: str) -> AssistantMessage:
    message = (await hf.sessions.messages(session_id, limit=1, order="desc")).items[0]
    assert isinstance(message, AssistantMessage)
    return message


# -- trying again ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behaviour", "cause"),
    [
        (refusal(429, "slowly", retry_after_ms="10"), "mock limits the rate of requests (HTTP 429): slowly."),
        (refusal(503), "mock is overloaded (HTTP 503): not now."),
        (refusal(529), "mock is overloaded (HTTP 529): not now."),
        (refusal(500), "mock failed (HTTP 500): not now."),
        (overloaded_in_the_stream, "mock is overloaded: Overloaded."),
        (hangs_up, "the Chat stream was truncated"),
    ],
    ids=["429", "503", "529", "500", "overloaded in the stream", "hangs up"],
)
def test_run_tries_again_and_says_why_and_when(
    holdfast: Machine, provider: Provider, behaviour: Behaviour, cause: str
) -> None:
    """LLM-410, LLM-416: one line for each wait, with the cause and the delay; then the answer."""
    configure(holdfast, provider.url, total_seconds=60)
    provider.behave = in_order(behaviour, Provider.answer)
    ran = holdfast("run", "hello")

    assert (ran.code, ran.out) == (0, "fine\n"), ran.err
    [line] = [line for line in ran.err.splitlines() if "Trying again" in line]
    assert cause in line
    assert "Trying again in 0." in line
    assert line.endswith("s (attempt 2).")
    assert len(provider.bodies) == 2
    assert provider.bodies[0] == provider.bodies[1]


async def test_a_wait_is_visible_and_an_interruption_ends_it(holdfast: Machine, provider: Provider) -> None:
    """LLM-413, LLM-415, LLM-416, SES-209: live, durably and to whoever asks later; no second request is made."""
    configure(holdfast, provider.url, total_seconds=600)
    provider.behave = refusal(429, "slowly", retry_after="300")
    async with opened(holdfast) as hf:
        session = await hf.sessions.create()
        seen = await until(hf, session.id, "hello", is_status("retry"))
        status = seen[-1][1]["status"]
        [wait] = await hf.sessions.waits(session.id)
        events = (await hf.sessions.history(session.id)).events
        retried = [event for event in events if event.type == "session.next.retried"]

        assert (status["attempt"], status["message"]) == (1, "mock limits the rate of requests (HTTP 429): slowly.")
        assert (wait.kind, wait.until) == ("retry", status["next"])
        assert status["message"] in wait.what
        assert wait.until is not None
        assert wait.until - wait.since == 300_000
        assert as_json(retried[0].data)["error"] == {
            "message": status["message"],
            "statusCode": 429,
            "isRetryable": True,
            "metadata": {"next": str(status["next"])},
        }

        await hf.sessions.interrupt(session.id)
        assert await hf.sessions.waits(session.id) == []
        assert (await newest(hf, session.id)).error is not None
        assert len(provider.bodies) == 1
        provider.behave = Provider.answer
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="again"))
        await hf.sessions.wait(session.id)
        assert (await newest(hf, session.id)).finish == "stop"


async def test_the_status_is_busy_again_after_a_wait(holdfast: Machine, provider: Provider) -> None:
    """LLM-415"""
    configure(holdfast, provider.url, total_seconds=60)
    provider.behave = in_order(refusal(503, retry_after_ms="1"), Provider.answer)
    async with opened(holdfast) as hf:
        session = await hf.sessions.create()
        seen = await until(hf, session.id, "hello", is_status("idle"))
    statuses = [data["status"]["type"] for type, data in seen if type == "session.status"]
    assert statuses == ["busy", "retry", "busy", "idle"]


async def test_a_wait_beyond_the_limit_fails_at_once_everywhere(holdfast: Machine, provider: Provider) -> None:
    """LLM-414: the delay that was asked for is in the durable step, the live error and the terminal."""
    configure(holdfast, provider.url, total_seconds=60)
    provider.behave = refusal(429, "slowly", retry_after="7200")
    expected = (
        "mock limits the rate of requests (HTTP 429): slowly. The provider asked to wait 2 h, which does not fit into "
        "1 min (holdfast.retry.total_seconds)."
    )
    async with opened(holdfast) as hf:
        session = await hf.sessions.create()
        seen = await until(hf, session.id, "hello", is_status("idle"))
        [live] = [data for type, data in seen if type == "session.error"]
        stored = (await newest(hf, session.id)).error
    assert live["error"]["data"]["message"] == expected
    assert stored is not None
    assert stored.message == expected
    assert len(provider.bodies) == 1
    assert holdfast("run", "hello").complaint == f"holdfast: {expected}"


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422])
def test_a_request_that_would_fail_again_is_sent_once(holdfast: Machine, provider: Provider, status: int) -> None:
    """LLM-410"""
    configure(holdfast, provider.url, total_seconds=60)
    provider.behave = refusal(status, retry_after="1")
    ran = holdfast("run", "hello")

    assert (ran.code, len(provider.bodies)) == (1, 1)
    assert str(status) in ran.complaint


# -- what is said ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behaviour", "options", "said"),
    [
        (
            refusal(401, "bad key"),
            {"apiKey": "sk-wrong-key"},
            "mock did not accept the credential (HTTP 401): bad key. The credential in use is options.apiKey of the "
            "provider mock in the configuration.",
        ),
        (
            refusal(401, "who are you"),
            {},
            "mock did not accept the credential (HTTP 401): who are you. No key was sent: set options.apiKey of the "
            "provider mock in the configuration.",
        ),
        (
            refusal(403, "not yours"),
            {"apiKey": "sk-wrong-key"},
            "The credential of mock does not permit this (HTTP 403): not yours. The credential in use is "
            "options.apiKey of the provider mock in the configuration.",
        ),
        (
            refusal(404, "model m does not exist"),
            {},
            "mock has no model m (HTTP 404): model m does not exist. `holdfast models mock` lists the known ones.",
        ),
        (
            refusal(429, "You exceeded your current quota"),
            {},
            "The quota or the credit of mock is used up (HTTP 429): You exceeded your current quota. "
            "Look at the plan and billing of its account.",
        ),
    ],
    ids=["wrong key", "no key", "forbidden", "model", "quota"],
)
async def test_a_refusal_names_what_mends_it(
    holdfast: Machine, provider: Provider, behaviour: Behaviour, options: dict[str, str], said: str
) -> None:
    """LLM-417, LLM-419, LLM-420: in the durable step, the live error and the terminal."""
    configure(holdfast, provider.url, 0, **options)
    provider.behave = behaviour
    async with opened(holdfast) as hf:
        session = await hf.sessions.create()
        seen = await until(hf, session.id, "hello", is_status("idle"))
        stored = (await newest(hf, session.id)).error
    assert stored is not None
    assert stored.message == said
    assert [data["error"]["data"]["message"] for type, data in seen if type == "session.error"] == [said]
    assert holdfast("run", "hello").complaint == f"holdfast: {said}"


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "variable"])
async def test_the_command_for_a_key_is_named(holdfast: Machine, provider: Provider, stored: bool) -> None:
    """LLM-417: of a provider that `holdfast auth login` knows."""
    options = {"baseURL": provider.url}
    known = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": {}}, "env": ["MOCK_API_KEY"]}
    settings = {"retry": {"total_seconds": 0}, "titles": False}
    holdfast.configure_user(model="mock/m", provider={"mock": known}, holdfast=settings)
    provider.behave = refusal(401, "bad key")
    assert "No key was sent: store one with `holdfast auth login mock`, or set MOCK_API_KEY." in (
        holdfast("run", "--model", "mock/m", "hello").complaint
    )
    if stored:
        async with opened(holdfast) as hf:
            await hf.integrations.connect_key("mock", key="sk-wrong-key")
        fix = "`holdfast auth login mock` replaces the stored key."
    else:
        holdfast.environment["MOCK_API_KEY"] = "sk-wrong-key"
        fix = (
            "The key in use is the variable MOCK_API_KEY: correct it, or store another key with "
            "`holdfast auth login mock`."
        )
    complaint = holdfast("run", "hello").complaint
    assert complaint == f"holdfast: mock did not accept the credential (HTTP 401): bad key. {fix}"


def test_a_host_that_cannot_be_reached_is_named(holdfast: Machine) -> None:
    """LLM-418: without the credential and the query in its address."""
    port = free_port()
    for host, cause in (
        (f"127.0.0.1:{port}", "the connection was refused"),
        ("no-such-host.invalid", "its name could not be resolved"),
    ):
        configure(holdfast, f"http://user:hidden-word@{host}/v1", queryParams={"key": "hidden-word"})
        complaint = holdfast("run", "hello").complaint
        assert complaint.startswith(f"holdfast: Cannot reach {host}: {cause}")
        assert "hidden-word" not in complaint


async def test_an_error_inside_a_stream_is_a_live_error_too(holdfast: Machine, provider: Provider) -> None:
    """LLM-417, LLM-342"""
    configure(holdfast, provider.url)
    provider.behave = overloaded_in_the_stream
    async with opened(holdfast) as hf:
        session = await hf.sessions.create()
        seen = await until(hf, session.id, "hello", is_status("idle"))
        stored = (await newest(hf, session.id)).error
    assert stored is not None
    assert stored.message == "mock is overloaded: Overloaded."
    assert [data["error"]["data"]["message"] for type, data in seen if type == "session.error"] == [stored.message]


# -- as soon as possible ---------------------------------------------------------------------------------------------


@contextmanager
def held(provider: Provider) -> Iterator[None]:
    try:
        yield
    finally:
        provider.released.set()


def test_a_turn_ends_although_the_connection_stays_open(holdfast: Machine, provider: Provider) -> None:
    """LLM-426"""
    configure(holdfast, provider.url)

    def slow_to_close(handler: Handler) -> None:
        Provider.answer(handler)
        handler.wfile.flush()
        provider.released.wait()

    provider.behave = slow_to_close
    with held(provider):
        ran = finish(holdfast.start("run", "hello"))
        assert (ran.code, ran.out) == (0, "fine\n")
        assert not provider.released.is_set()


def test_a_tool_starts_when_the_next_call_begins(holdfast: Machine, provider: Provider) -> None:
    """LLM-068, LLM-425: what it does is seen before the provider goes on."""
    configure(holdfast, provider.url)
    made = holdfast.project / "made.txt"
    early: list[bool] = []

    def call(index: int, name: str, arguments: dict[str, Any] | None) -> bytes:
        function = {"name": name, "arguments": "" if arguments is None else json.dumps(arguments)}
        return frame({"tool_calls": [{"index": index, "id": f"call_{index}", "function": function}]})

    def two_calls(handler: Handler) -> None:
        Provider.head(handler)
        handler.wfile.write(call(0, "write", {"path": "made.txt", "content": "early"}) + call(1, "read", None))
        handler.wfile.flush()
        deadline = time.monotonic() + 10
        while not made.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        early.append(made.exists())
        rest = {"tool_calls": [{"index": 1, "function": {"arguments": json.dumps({"path": "hello.txt"})}}]}
        handler.wfile.write(frame(rest) + frame({}, "tool_calls") + b"data: [DONE]\n\n")

    provider.behave = in_order(two_calls, Provider.answer, Provider.answer)
    ran = holdfast("run", "--yes", "hello")

    assert ran.code == 0, ran.err
    assert early == [True]
    assert made.read_text(encoding="utf-8") == "early"
