"""Any bytes as a message."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.mcp.errors import ProtocolError, ServerError, UrlElicitationRequired, shown
from holdfast.mcp.input import Elicitation
from holdfast.mcp.messages import Answer, Malformed, Notification, Request, read_batch, read_message

VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    2**70,
    1.5,
    "",
    "2.0",
    "ping",
    [],
    [{}],
    {},
    {"code": 1, "message": "x"},
    {"a": []},
]
FIELDS = st.dictionaries(
    st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]), st.sampled_from(VALUES)
)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_a_typed_error(data: bytes) -> None:
    """MCP-007"""
    _read(data)


@given(FIELDS, st.booleans())
def test_any_object_is_a_message_or_a_typed_error(fields: dict[str, Any], versioned: bool) -> None:
    """MCP-007"""
    _read(msgspec.json.encode({**fields, "jsonrpc": "2.0"} if versioned else fields))


def _read(data: bytes) -> None:
    try:
        message = read_message(data)
    except ProtocolError:
        return
    assert isinstance(message, Request | Notification | Answer)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        '{"jsonrpc":"1.0","id":1,"result":{}}',
        '{"id":1,"result":{}}',
        '{"jsonrpc":"2.0","id":true,"result":{}}',
        '{"jsonrpc":"2.0","id":1.5,"result":{}}',
        '{"jsonrpc":"2.0","id":null,"method":"ping"}',
        '{"jsonrpc":"2.0","id":null,"result":{}}',
        '{"jsonrpc":"2.0","id":[1],"method":"ping"}',
        '{"jsonrpc":"2.0","method":7}',
        '{"jsonrpc":"2.0","id":1,"result":' + "[" * 5000,
        '{"jsonrpc":"2.0","id":1,"result":' + "[" * 5000 + "]" * 5000 + "}",
        '{"jsonrpc":"2.0","id":1,"result":"\\ud800',
    ],
)
def test_what_is_no_message_is_refused(text: str) -> None:
    """MCP-007"""
    with pytest.raises(Malformed):
        read_message(text.encode())


def test_millions_of_empty_objects_are_refused_before_they_are_decoded() -> None:
    """MCP-007"""
    frame = b'{"jsonrpc":"2.0","id":1,"result":[' + b"{}," * 1_100_000 + b"{}]}"
    with pytest.raises(ProtocolError, match="objects and arrays"):
        read_message(frame)


def test_an_error_has_its_code_message_and_data() -> None:
    """MCP-024"""
    answer = read_message(b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no","data":[1]}}')
    assert isinstance(answer, Answer)
    error = answer.error
    assert isinstance(error, ServerError)
    assert (error.code, error.message, error.data) == (-1, "no", [1])


@pytest.mark.parametrize("error", ["null", "[]", "{}", '{"code":"x","message":"no"}', '{"code":1,"message":null}'])
def test_an_error_of_another_form_is_an_error_too(error: str) -> None:
    """MCP-024"""
    answer = read_message(f'{{"jsonrpc":"2.0","id":1,"error":{error}}}'.encode())
    assert isinstance(answer, Answer)
    assert isinstance(answer.error, ProtocolError)


def test_an_error_that_demands_a_visit_has_the_addresses() -> None:
    """MCP-024"""
    visit = {"mode": "url", "message": "Sign in", "url": "https://x.test", "elicitationId": "e"}
    error = {"code": -32042, "message": "visit", "data": {"elicitations": [visit]}}
    answer = read_message(msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "error": error}))
    assert isinstance(answer, Answer)
    assert isinstance(answer.error, UrlElicitationRequired)
    expected = Elicitation(message="Sign in", mode="url", url="https://x.test", elicitation_id="e")
    assert answer.error.elicitations == (expected,)


@pytest.mark.parametrize("data", [None, [], {"elicitations": 7}, {"elicitations": [{"mode": "url"}]}])
def test_one_without_addresses_is_a_plain_error(data: Any) -> None:
    """MCP-024"""
    error = {"code": -32042, "message": "visit", "data": data}
    answer = read_message(msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "error": error}))
    assert isinstance(answer, Answer)
    assert type(answer.error) is ServerError


def test_a_batch_is_taken_apart() -> None:
    """MCP-006"""
    first, second = read_batch(b'[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":"x","method":"b"}]')
    assert isinstance(read_message(first), Notification)
    assert isinstance(read_message(second), Request)
    with pytest.raises(Malformed):
        read_batch(b"[1")


def test_text_of_a_server_is_printable_and_short_in_messages() -> None:
    """MCP-024"""
    assert shown("a\x1b[31mb\n\u202ec") == "a [31mb c"
    assert shown("x" * 1000) == "x" * 300 + "…"
