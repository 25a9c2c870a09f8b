"""What must not be shown: names that say so, and secrets that come back."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.llm.support import KEY, Playback, Played, chat_model, claude, collect, failure, play, sse

from holdfast.llm import event as ev
from holdfast.llm.errors import (
    BODY_LIMIT,
    REDACTED,
    LLMError,
    excerpt,
    redact,
    redact_headers,
    redact_url,
    sent_secrets,
)
from holdfast.llm.model import Model
from holdfast.llm.request import HttpOverlay
from holdfast.llm.route.auth import KeyAuth, NoAuth
from holdfast.llm.route.transport import HttpResponse
from holdfast.schema.codec import encode

JSON_TYPE = {"content-type": "application/json"}


@pytest.mark.parametrize(
    "name",
    [
        *("Authorization", "proxy-authorization", "cf-aig-authorization", "x-api-key", "api-key", "X-Goog-Api-Key"),
        *("x-amz-security-token", "access_token", "refresh-token", "id_token", "x-token", "client-secret"),
        *("x-credential", "x-amz-signature", "set-cookie", "Cookie", "x-password"),
    ],
)
def test_a_header_with_such_a_name_is_not_shown(name: str) -> None:
    """LLM-339"""
    assert redact_headers({name: "v", "accept": "a"}) == {name: REDACTED, "accept": "a"}


def test_callers_can_add_names_to_redact() -> None:
    """LLM-339"""
    assert redact_headers({"X-Tenant": "v"}, ["x-tenant"]) == {"X-Tenant": REDACTED}
    assert redact_url("https://h/?tenant=v&a=b", ["tenant"]) == f"https://h/?tenant={REDACTED}&a=b"


@pytest.mark.parametrize("name", ["key", "sig", "api_key", "access_token", "X-Amz-Signature", "X-Amz-Credential"])
def test_a_query_with_such_a_name_is_not_shown(name: str) -> None:
    """LLM-339"""
    assert redact_url(f"https://h/p?a=1&{name}=abc&b=2") == f"https://h/p?a=1&{name}={REDACTED}&b=2"
    assert redact_url("https://h/p") == "https://h/p"
    assert redact_url("https://h/p?monkey=1&a") == "https://h/p?monkey=1&a"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"api_key":"sk-123456","x":1}', '{"api_key":"<redacted>","x":1}'),
        ('{"access_token": "12345678"}', '{"access_token": "<redacted>"}'),
        ('{"key": "abcdef"}', '{"key": "<redacted>"}'),
        ('{\\"client_secret\\":\\"abcdef\\"}', '{\\"client_secret\\":\\"<redacted>\\"}'),
        ("Authorization: Bearer sk-abcdef rest", "Authorization: <redacted> rest"),
        ('"authorization":"Basic dXNlcjpw"', '"authorization":"<redacted>"'),
        ("?key=abcdef&x=1", "?key=<redacted>&x=1"),
        ("signature=AbC/d+f== end", "signature=<redacted> end"),
        ('{"max_tokens": 4096, "total_tokens":12.5}', '{"max_tokens": 4096, "total_tokens":12.5}'),
        ('{"token": null, "secret": true}', '{"token": null, "secret": true}'),
        ('{"password": "hunter2"}', '{"password": "<redacted>"}'),
        ("monkey=banana", "monkey=banana"),
        ("too many tokens: reduce the prompt", "too many tokens: reduce the prompt"),
    ],
)
def test_fields_and_pairs_in_a_body(text: str, shown: str) -> None:
    """LLM-339"""
    assert redact(text) == shown


@settings(deadline=None)
@given(
    st.text(alphabet="abcdefXYZ0189+/=_-. %", min_size=4, max_size=20),
    st.text(max_size=30),
    st.text(max_size=30),
)
def test_a_secret_that_comes_back_is_not_shown(secret: str, before: str, after: str) -> None:
    """LLM-339: as it is, and percent-encoded."""
    for form in (secret, quote(secret, safe="")):
        shown = redact(before + form + after, [secret])
        assert REDACTED in shown
        assert secret not in shown.replace(REDACTED, "\0") or secret in REDACTED


def test_a_secret_that_is_part_of_another_leaves_nothing_of_it() -> None:
    """LLM-339: in whichever order they are given."""
    for secrets in (["abcd", "abcd-efgh"], ["abcd-efgh", "abcd"]):
        assert redact("got abcd-efgh and abcd", secrets) == f"got {REDACTED} and {REDACTED}"


def test_a_password_in_the_address_is_not_shown() -> None:
    """LLM-339"""
    assert redact_url("https://me:hunter22@h:8/v1?a=b") == f"https://{REDACTED}@h:8/v1?a=b"
    assert redact_url("https://h/v1/@me?a=x@y") == "https://h/v1/@me?a=x@y"


def test_values_under_secret_names_are_redacted() -> None:
    """LLM-339"""
    url = "https://me:hunter%32@h/v1?key=k-123&a=b&access_token=t%2F1"
    headers = {"authorization": "Bearer sk-1", "x-secret": "s-1", "accept": "a"}
    assert sent_secrets(url, headers) == {"Bearer sk-1", "sk-1", "s-1", "k-123", "t/1", "hunter2"}


def test_short_words_are_not_secrets() -> None:
    """LLM-339"""
    assert redact("an abc", ["abc", ""]) == "an abc"


@pytest.mark.parametrize("offset", range(470, 505))
def test_a_cut_does_not_leave_half_a_secret(offset: int) -> None:
    """LLM-338, LLM-339: an excerpt ends at a word, also when the secret is only known later."""
    text = "x " * (offset // 2) + KEY + " y" * 1000
    error = LLMError("Transport", excerpt(text))
    error.redact([KEY])
    for length in range(6, len(KEY)):
        assert KEY[:length] not in error.message


# -- whole turns -----------------------------------------------------------------------------------------------------

MODELS = [pytest.param(chat_model(), id="chat"), pytest.param(claude(), id="claude")]


def shown_by(error: LLMError) -> str:
    return f"{error} {vars(error)}"


@pytest.mark.anyio
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "answer",
    [
        Played([f"bad key {KEY} ".encode()], 401, JSON_TYPE),
        Played([f'{{"error":{{"message":"Incorrect key: {KEY}"}}}}'.encode()], 400, JSON_TYPE),
        Played([b"x" * (BODY_LIMIT - 10) + KEY.encode()], 500, JSON_TYPE),
        Played([b"x"], 500, {"x-echo": f"got {KEY}", "x-token": "other"}),
        Played([b"x"], 500, {"x-request-id": f"r-{KEY}", "x-ratelimit-limit-requests": KEY, "x-amzn-errortype": KEY}),
        Played([f"<html>{KEY}</html>".encode()], 200, {"content-type": "text/html"}),
        Played([f'{{"error":{{"message":"key {KEY}"}}}}'.encode()], 200, JSON_TYPE),
        play(f"data: not json {KEY}\n\n".encode()),
        play(f"data: not json {quote(KEY)}\n\n".encode()),
        play(b"data: " + b"x" * 490 + b" " + KEY.encode() + b"\n\n"),
        play(b"data: " + b"x" * (BODY_LIMIT - 12) + b" " + KEY.encode() + b"\n\n"),
        Played([LLMError("Transport", f"broke at {KEY}", kind="read")]),
    ],
)
async def test_no_failure_shows_the_key(model: Model, answer: Played) -> None:
    """LLM-339, LLM-338: message, raw frame and diagnostics alike, whole or in part."""
    shown = shown_by(await failure(model, Playback(answer)))
    assert KEY[:8] not in shown


@pytest.mark.anyio
@pytest.mark.parametrize("model", MODELS)
async def test_an_error_inside_the_stream_does_not_show_the_key(model: Model) -> None:
    """LLM-339: it is an event and becomes durable all the same."""
    said = {"type": "error", "error": {"type": "api_error", "message": f"upstream refused {KEY}", "code": KEY}}
    (event,) = await collect(model, play(sse(said)))
    assert isinstance(event, ev.ProviderError)
    assert KEY not in encode(event).decode()


@pytest.mark.anyio
@pytest.mark.parametrize(
    "answer",
    [
        Played([f"bad key {KEY}".encode()], 401, JSON_TYPE),
        Played([f'{{"error":{{"message":"key {KEY}"}}}}'.encode()], 200, JSON_TYPE),
        play(f"data: not json {KEY}\n\n".encode()),
        Played([LLMError("Transport", f"broke at {KEY}", kind="read")]),
    ],
)
async def test_a_key_that_was_configured_as_a_header_is_a_key_too(answer: Played) -> None:
    """LLM-339: whatever was sent as one, not only what a credential says of itself."""
    model = chat_model(auth=NoAuth(), http=HttpOverlay(headers={"X-Custom-Token": f"Token {KEY}"}))
    assert KEY[:8] not in shown_by(await failure(model, Playback(answer)))


@pytest.mark.anyio
async def test_such_a_key_is_not_shown_by_an_error_inside_the_stream() -> None:
    """LLM-339"""
    model = chat_model(auth=NoAuth(), http=HttpOverlay(query={"key": KEY}))
    events = await collect(model, play(sse({"error": {"message": f"upstream refused {KEY}", "code": KEY}})))
    assert KEY not in encode(events).decode()


@pytest.mark.anyio
async def test_a_failure_to_connect_does_not_show_the_key() -> None:
    """LLM-339"""

    async def broken() -> HttpResponse:
        raise LLMError("Transport", f"cannot connect to proxy with {KEY}", kind="connect")

    assert KEY not in shown_by(await failure(chat_model(), Playback(broken)))


@pytest.mark.anyio
async def test_a_key_in_a_header_of_any_name_and_in_the_address_is_not_shown() -> None:
    """LLM-339"""
    model = chat_model(base_url=f"https://h/{KEY}/v1", auth=KeyAuth(KEY, header="x-tenant", scheme=""))
    error = await failure(model, Played([b"no"], 400, JSON_TYPE))
    assert error.diagnostics is not None
    assert error.diagnostics.request_headers is not None
    assert error.diagnostics.request_headers["x-tenant"] == REDACTED
    assert KEY not in shown_by(error)
