"""Generated code follows the protocol, and generation refuses what it cannot express."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from holdfast.client import generate
from holdfast.client.generated import async_client
from holdfast.protocol.api import API
from holdfast.protocol.endpoint import Endpoint, Envelope
from holdfast.schema.record import Record


class Name(Record):
    name: str


class Text(Record):
    name: str | None = None


def endpoint(path: str, channels: Mapping[str, type[Record]] = MappingProxyType({})) -> Endpoint:
    return Endpoint(
        group="things",
        name="get",
        operation="v2.thing.get",
        method="POST",
        path=path,
        summary="One.",
        envelope=Envelope.VOID,
        params=channels.get("params"),
        query=channels.get("query"),
        payload=channels.get("payload"),
    )


def test_the_committed_client_is_what_the_protocol_gives() -> None:
    """API-300, API-306: regeneration changes nothing, twice in a row."""
    source = generate.emit(generate.compile_api(API))

    assert source == generate.TARGET.read_text(encoding="utf-8")
    assert source == generate.emit(generate.compile_api(API))


def test_the_check_tells_drift(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """API-306: what CI runs fails on any difference, writes nothing, and generation repairs it."""
    target = tmp_path / "generated" / "async_client.py"
    monkeypatch.setattr(generate, "TARGET", target)
    monkeypatch.setattr(sys, "argv", ["generate", "--check"])
    assert generate.main() == 1
    assert "make generate" in capsys.readouterr().err
    assert not target.exists()

    monkeypatch.setattr(sys, "argv", ["generate"])
    assert generate.main() == 0
    monkeypatch.setattr(sys, "argv", ["generate", "--check"])
    assert generate.main() == 0
    target.write_text(target.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert generate.main() == 1


def test_two_operations_of_one_name_are_refused() -> None:
    """API-305: the reason names them."""
    with pytest.raises(ValueError, match=r"things\.get"):
        generate.compile_api((endpoint("/api/one"), endpoint("/api/other")))


@pytest.mark.parametrize("first", ["params", "query"])
@pytest.mark.parametrize("second", ["query", "payload"])
def test_one_input_name_in_two_channels_is_refused(first: str, second: str) -> None:
    """API-303: inputs become one flat list of arguments."""
    channels: dict[str, type[Record]] = {first: Name, second: Text}
    if len(channels) == 1:
        assert generate.compile_api((endpoint("/api/thing", channels),))
        return
    with pytest.raises(ValueError, match=r"v2\.thing\.get"):
        generate.compile_api((endpoint("/api/thing/{name}", channels),))


def test_groups_and_operations_have_their_consumer_names() -> None:
    """API-302: declared names; messages belong to sessions."""
    emitted = {(operation.group, operation.name) for operation in generate.compile_api(API)}

    assert {("health", "get"), ("location", "get"), ("events", "subscribe")} <= emitted
    assert {name for group, name in emitted if group == "sessions"} >= {
        "list",
        "create",
        "active",
        "get",
        "prompt",
        "wait",
        "interrupt",
        "context",
        "history",
        "events",
        "messages",
        "message",
    }


def parameters(function: object) -> dict[str, bool]:
    """Names of the arguments, and whether each may be left out."""
    signature = inspect.signature(function)  # type: ignore[arg-type]
    return {
        name: parameter.default is not inspect.Parameter.empty
        for name, parameter in signature.parameters.items()
        if name != "self"
    }


def test_inputs_are_flat_and_required_only_when_they_must_be() -> None:
    """API-303, API-308: no fields, no argument; options are apart."""
    sessions = async_client.SessionsGroup

    assert parameters(async_client.HealthGroup.get) == {"options": True}
    assert parameters(sessions.get) == {"session_id": False, "options": True}
    assert parameters(sessions.create) == {
        "id": True,
        "agent": True,
        "model": True,
        "location": True,
        "options": True,
    }
    assert parameters(sessions.prompt) == {
        "session_id": False,
        "prompt": False,
        "id": True,
        "delivery": True,
        "resume": True,
        "options": True,
    }


def test_results_are_what_the_envelope_promises() -> None:
    """API-304, API-225: `{data}` is unwrapped, pages and history stay, 204 is None, a stream comes without awaiting."""
    sessions = async_client.SessionsGroup
    returned = {
        name: inspect.signature(getattr(sessions, name)).return_annotation
        for name in ("get", "list", "history", "wait", "events", "active")
    }

    assert returned == {
        "get": "Session",
        "list": "Page[Session]",
        "history": "History",
        "wait": "None",
        "events": "Stream[Event]",
        "active": "builtins.dict[str, SessionActive]",
    }
    assert not inspect.iscoroutinefunction(sessions.events)
    assert inspect.iscoroutinefunction(sessions.get)
