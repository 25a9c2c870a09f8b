"""A provider that does not do its part: `run` says so in one line, and nothing is lost or stuck."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler

import pytest
from tests.cli.conftest import Machine, Provider, Ran, frame, free_port

from holdfast.schema.session_message import AssistantMessage, UserMessage

Handler = BaseHTTPRequestHandler
Command = Callable[..., Ran]


def garbage(handler: Handler) -> None:
    Provider.head(handler)
    handler.wfile.write(b"data: \x00\xffgarbage\n\n" * 3)


def page(handler: Handler) -> None:
    Provider.head(handler, kind="text/html")
    handler.wfile.write(b"<html>Please log in</html>")


def not_http(handler: Handler) -> None:
    handler.wfile.write(b"\x16\x03\x01 this is no HTTP\r\n\r\n")


def closes_at_once(handler: Handler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def resets(handler: Handler) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()


def closes_in_mid_stream(handler: Handler) -> None:
    Provider.head(handler)
    handler.wfile.write(frame({"content": "so far"}))


def cuts_a_frame(handler: Handler) -> None:
    Provider.head(handler)
    handler.wfile.write(frame({"content": "so far"}) + b'data: {"choices": [{"ind')


def breaks_a_promised_length(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("content-type", "text/event-stream")
    handler.send_header("content-length", "100000")
    handler.end_headers()
    handler.wfile.write(frame({"content": "so far"}))


def error_500(handler: Handler) -> None:
    Provider.head(handler, 500, "application/json")
    handler.wfile.write(b'{"error": {"message": "the provider is unwell", "type": "server_error"}}')


def error_500_without_body(handler: Handler) -> None:
    Provider.head(handler, 500, "text/plain")


def error_401(handler: Handler) -> None:
    Provider.head(handler, 401, "application/json")
    handler.wfile.write(b'{"error": {"message": "bad key"}}')


def huge_error(handler: Handler) -> None:
    Provider.head(handler, 500, "text/html")
    handler.wfile.write(b"<p>\n" * 100_000)


def redirect(handler: Handler) -> None:
    handler.send_response(302)
    handler.send_header("location", "http://127.0.0.1:1/elsewhere")
    handler.end_headers()


BROKEN_OFF = (closes_in_mid_stream, cuts_a_frame, breaks_a_promised_length)


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        (garbage, ""),
        (page, "text/html"),
        (not_http, ""),
        (closes_at_once, ""),
        (resets, ""),
        (closes_in_mid_stream, "truncated"),
        (cuts_a_frame, ""),
        (breaks_a_promised_length, ""),
        (error_500, "the provider is unwell"),
        (error_500_without_body, "500"),
        (error_401, "bad key"),
        (huge_error, "500"),
        (redirect, "302"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_bad_answer_is_one_readable_line(
    holdfast: Machine, here: Command, provider: Provider, behaviour: Callable[[Handler], None], said: str
) -> None:
    """API-127: exit code 1, what was said is kept, the failure is recorded with it."""
    holdfast.use_provider(provider.url)
    provider.behave = behaviour
    ran = here("run", "hello")

    assert ran.code == 1
    assert said in ran.complaint
    assert len(ran.complaint) < 2000
    assert ("so far" in ran.out) == (behaviour in BROKEN_OFF)
    user, answer = holdfast.look(ran.session)[1]
    assert isinstance(user, UserMessage)
    assert isinstance(answer, AssistantMessage)
    assert (answer.finish, answer.error is None) == ("error", False)
    assert holdfast.healthy()


@pytest.mark.parametrize("behaviour", [closes_in_mid_stream, error_500], ids=["cut", "500"])
def test_a_session_goes_on_after_a_failure(
    holdfast: Machine, provider: Provider, behaviour: Callable[[Handler], None]
) -> None:
    """API-117: it can be listed, examined and prompted again."""
    holdfast.use_provider(provider.url)
    provider.behave = behaviour
    failed = holdfast("run", "hello")
    assert failed.code == 1
    assert holdfast.commands_work()
    provider.behave = Provider.answer
    again = holdfast("run", "--session", failed.session, "again")

    assert (again.code, again.out) == (0, "fine\n")


def test_silence_ends_at_the_configured_limit(holdfast: Machine, provider: Provider) -> None:
    """`options.timeout` in milliseconds; the line says which limit it was."""
    holdfast.use_provider(provider.url, timeout=300)
    provider.behave = provider.hang
    ran = holdfast("run", "hello")

    assert ran.code == 1
    assert "0.3 s" in ran.complaint
    assert holdfast.healthy()


def test_an_unreachable_provider_is_named_by_its_address(holdfast: Machine) -> None:
    """The address is in the message."""
    port = free_port()
    holdfast.use_provider(f"http://127.0.0.1:{port}/v1")
    ran = holdfast("run", "hello")

    assert ran.code == 1
    assert str(port) in ran.complaint
    assert holdfast.healthy()


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1/v1", "http://", "http://127.0.0.1:port/v1", ""])
def test_an_endpoint_that_is_no_address(holdfast: Machine, here: Command, url: str) -> None:
    """A mistake in opencode.json is one line too."""
    holdfast.use_provider(url)
    ran = here("run", "hello")

    assert ran.code == 1
    assert ran.complaint
    assert holdfast.healthy()


@pytest.mark.parametrize(
    "text", ["{", '{"model": 5}', '{"provider": []}', '{"provider": {"mock": 5}}', '{"model": "noslash"}', "[]", "\0"]
)
def test_a_broken_configuration_breaks_nothing(holdfast: Machine, here: Command, text: str) -> None:
    """An answer, or one line that says why not."""
    (holdfast.project / "opencode.json").write_text(text, encoding="utf-8")
    ran = here("run", "hello")

    assert "Traceback" not in ran.err
    assert ran.code == 0 or ran.complaint
