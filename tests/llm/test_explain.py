"""What a failed turn says: who failed, where, and what mends it; never a credential, a path or a query."""

from __future__ import annotations

import socket
import ssl

import msgspec
import pytest
from tests.llm.support import KEY, Playback, Played, chat_model, failure, play, sse

from holdfast.http.url import Origin
from holdfast.llm.explain import host_of, network_cause, place, unreachable
from holdfast.llm.request import make_request
from holdfast.llm.route.auth import KeyAuth
from holdfast.llm.route.retry import NO_RETRY
from holdfast.llm.stream import stream
from holdfast.schema.codec import encode

pytestmark = pytest.mark.anyio

FIX = "`holdfast auth login openai` replaces the stored key."


def error(message: str, **more: object) -> bytes:
    return encode({"error": {"message": message, **more}})


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (401, error("bad key"), f"openai did not accept the credential (HTTP 401): bad key. {FIX}"),
        (401, b"", f"openai did not accept the credential (HTTP 401). {FIX}"),
        (403, error("not yours!"), f"The credential of openai does not permit this (HTTP 403): not yours! {FIX}"),
        (
            400,
            error("token is old", code="expired_token"),
            f"The credential of openai has expired (HTTP 400): token is old. {FIX}",
        ),
        (
            402,
            error("pay"),
            "The quota or the credit of openai is used up (HTTP 402): pay. "
            "Look at the plan and billing of its account.",
        ),
        (
            404,
            error("The model `gpt-9` does not exist", code="model_not_found"),
            "openai has no model gpt-9 (HTTP 404): The model `gpt-9` does not exist. "
            "`holdfast models openai` lists the known ones.",
        ),
        (
            404,
            b"page not found",
            "openai found nothing at api.openai.com (HTTP 404): page not found. The address (options.baseURL) or the "
            "model gpt-9 may be wrong; `holdfast models openai` lists the known models.",
        ),
        (429, error("slowly"), "openai limits the rate of requests (HTTP 429): slowly."),
        (500, error("oops"), "openai failed (HTTP 500): oops."),
        (529, error("busy"), "openai is overloaded (HTTP 529): busy."),
        (400, error("odd"), 'Provider request failed with HTTP 400: {"error":{"message":"odd"}}'),
    ],
)
async def test_a_failed_request_is_explained(status: int, body: bytes, message: str) -> None:
    """LLM-417, LLM-419, LLM-420"""
    model = chat_model("gpt-9").replace(credential_fix=FIX)
    found = await failure(model, Played([body], status, {}))
    assert (found.message, str(found)) == (message, message)


async def test_a_missing_credential_names_the_fix() -> None:
    """LLM-417: before anything is sent."""
    model = chat_model(auth=KeyAuth(None)).replace(credential_fix="Set OPENAI_API_KEY.")
    transport = Playback(play(b""))
    assert (await failure(model, transport)).message == "No credential for openai. Set OPENAI_API_KEY."
    assert transport.requests == []


async def test_an_error_inside_a_stream_is_explained_alike() -> None:
    """LLM-417, LLM-342"""
    said = {"error": {"code": "invalid_api_key", "message": "bad key"}}
    batches = stream(
        Playback(play(sse(said))), chat_model().replace(credential_fix=FIX), make_request(prompt="x"), retry=NO_RETRY
    )
    [batch] = [batch async for batch in batches]
    assert batch[-1].message == f"openai did not accept the credential: bad key. {FIX}"  # type: ignore[union-attr]


async def test_an_explanation_does_not_repeat_what_was_sent() -> None:
    """LLM-339, LLM-417"""
    found = await failure(chat_model(), Played([error(f"the key {KEY} is bad")], 401, {}))
    assert KEY not in found.message
    assert "is bad" in found.message


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        (
            socket.gaierror(-2, "Name or service not known"),
            "its name could not be resolved (Name or service not known)",
        ),
        (ConnectionRefusedError(111, "Connect call failed ('1.2.3.4', 5)"), "the connection was refused"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version"), "TLS failed"),
        (OSError(113, "No route to host"), "No route to host"),
        (ConnectionResetError("closed"), "closed"),
        (ConnectionResetError(), "ConnectionResetError"),
    ],
)
def test_why_a_host_cannot_be_reached(given: OSError, cause: str) -> None:
    """LLM-418"""
    assert network_cause(given).startswith(cause)
    found = unreachable(Origin("https", "api.example.com", 443), given)
    assert found.message.startswith(f"Cannot reach api.example.com: {cause}")
    assert (found.reason, found.kind, found.retryable) == ("Transport", "connect", True)


def test_a_certificate_that_is_not_accepted_is_not_tried_again() -> None:
    """LLM-418, LLM-410"""
    given = ssl.SSLCertVerificationError(1, "certificate verify failed")
    given.verify_message = "self-signed certificate"
    found = unreachable(Origin("https", "api.example.com", 8443), given)
    assert not found.retryable
    assert found.message == (
        "Cannot reach api.example.com:8443: its TLS certificate was not accepted (self-signed certificate)"
    )


def test_a_host_is_all_that_is_shown_of_an_address() -> None:
    """LLM-418"""
    assert host_of("https://user:secret@h.example:8443/v1/secret?key=secret") == "h.example:8443"
    assert host_of("https://[::1/x") == ""
    proxied = Origin("https", "h.example", 443, proxy="http://user:secret@proxy.example:3128")
    assert place(proxied) == "h.example through the proxy proxy.example:3128"
    assert (
        place(msgspec.structs.replace(proxied, proxy="user:secret@proxy.example:3128"))
        == "h.example through the proxy proxy.example:3128"
    )
