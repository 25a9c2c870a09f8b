"""Credentials: over the exact address and bytes, and missing before anything is sent."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

import pytest
from tests.llm.support import HELLO_CHAT, KEY, Playback, chat_model, claude, collect, play

from holdfast.llm.errors import LLMError
from holdfast.llm.request import HttpOverlay, make_request
from holdfast.llm.route.auth import KeyAuth, NoAuth
from holdfast.llm.stream import http_request, prepare

pytestmark = pytest.mark.anyio


class Signing:
    """Remembers what it was shown."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, str], bytes]] = []

    def headers(self, url: str, headers: Mapping[str, str], body: Sequence[bytes]) -> dict[str, str]:
        self.seen.append((url, dict(headers), b"".join(body)))
        return {"X-Signature": "s", "Content-Type": "text/plain"}

    def secrets(self) -> tuple[str, ...]:
        return ()


async def test_auth_sees_the_final_address_headers_and_body() -> None:
    """LLM-005, LLM-044, LLM-360: it runs last, and what it saw is what is sent."""
    auth = Signing()
    transport = Playback(play(HELLO_CHAT))
    overlay = HttpOverlay(body={"extra": 1}, headers={"X-A": "b"}, query={"q": "1"})
    await collect(chat_model(auth=auth), transport, make_request(prompt="x", http=overlay))
    (sent,) = transport.requests
    ((url, headers, body),) = auth.seen
    assert url == sent.url == "https://api.openai.com/v1/chat/completions?q=1"
    assert body == b"".join(sent.body)
    assert b'"extra":1' in body
    assert dict(sent.headers) == {**headers, "x-signature": "s"}
    assert sent.headers["content-type"] == "application/json"


def test_a_key_is_sent_as_a_bearer_token() -> None:
    """LLM-240"""
    sent = http_request(prepare(chat_model(), make_request(prompt="x")))
    assert sent.headers["authorization"] == f"Bearer {KEY}"


def test_white_space_around_a_key_is_not_part_of_it() -> None:
    """LLM-341: a file or a shell put it there, and no header could hold it."""
    auth = KeyAuth(f" {KEY}\n")
    assert auth.headers("", {}, ()) == {"authorization": f"Bearer {KEY}"}
    assert auth.secrets() == KeyAuth(KEY).secrets()
    with pytest.raises(LLMError) as caught:
        KeyAuth(" \n").headers("", {}, ())
    assert caught.value.kind == "missing"


def test_a_key_that_no_header_can_hold_is_refused_without_showing_it() -> None:
    """LLM-006, LLM-339"""
    with pytest.raises(LLMError) as caught:
        KeyAuth("sk-1\nx: y").headers("", {}, ())
    assert caught.value.reason == "InvalidRequest"
    assert "sk-1" not in str(caught.value)


def test_a_key_for_anthropic_is_sent_in_x_api_key() -> None:
    """LLM-220"""
    sent = http_request(prepare(claude(), make_request(prompt="x")))
    assert sent.url == "https://api.anthropic.com/v1/messages"
    assert dict(sent.headers) == {
        "accept": "text/event-stream",
        "anthropic-version": "2023-06-01",
        "content-type": "application/json",
        "x-api-key": KEY,
    }


@pytest.mark.parametrize("key", [None, ""])
def test_a_missing_key_is_named_before_anything_is_sent(key: str | None) -> None:
    """LLM-341"""
    model = chat_model(auth=KeyAuth(key, source="OPENAI_API_KEY"))
    with pytest.raises(LLMError, match="OPENAI_API_KEY") as caught:
        http_request(prepare(model, make_request(prompt="x")))
    assert (caught.value.reason, caught.value.kind) == ("Authentication", "missing")


def test_no_credential_is_a_choice() -> None:
    sent = http_request(prepare(chat_model(auth=NoAuth()), make_request(prompt="x")))
    assert "authorization" not in sent.headers


def test_a_key_in_a_header_of_its_own() -> None:
    """LLM-339: it is a secret, also as base64."""
    auth = KeyAuth("gateway-key", header="cf-aig-authorization")
    assert auth.headers("u", {}, []) == {"cf-aig-authorization": "Bearer gateway-key"}
    assert set(auth.secrets()) == {"gateway-key", base64.b64encode(b"gateway-key").decode()}
