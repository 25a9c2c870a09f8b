"""Media: what counts as valid, and the form it takes in every protocol."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.llm.errors import LLMError
from holdfast.llm.media import DECODED_LIMIT, ENCODED_LIMIT, IMAGES, NO_IMAGE, Media, read_media, refuses_media
from holdfast.llm.model import Capabilities, Model
from holdfast.llm.protocols.anthropic_messages import AnthropicMessages
from holdfast.llm.protocols.base import WireProtocol
from holdfast.llm.protocols.bedrock_converse import BedrockConverse
from holdfast.llm.protocols.gemini import Gemini
from holdfast.llm.protocols.openai_chat import OpenAIChat
from holdfast.llm.protocols.openai_responses import OpenAIResponses
from holdfast.llm.request import (
    MediaPart,
    Message,
    ToolCallPart,
    assistant,
    make_request,
    tool_result,
    update,
    user,
)
from holdfast.llm.route.route import Route
from holdfast.llm.stream import prepare
from holdfast.schema.codec import decode_any
from holdfast.schema.session_message import FileContent

RAW = b"\x89PNG and more"
DATA = base64.b64encode(RAW).decode()
PICTURE = MediaPart(media_type="image/png", data=DATA)
PROTOCOLS: list[WireProtocol] = [AnthropicMessages(), OpenAIChat(), OpenAIResponses(), Gemini(), BedrockConverse()]
every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.id)


def body(protocol: WireProtocol, *messages: Message, images: bool = True) -> Any:
    model = Model(
        "m", "p", Route("r", protocol, "https://example.org"), capabilities=Capabilities(images=images, caching=False)
    )
    return decode_any(prepare(model, make_request(messages=messages)).body)


def looked(*items: Any, id: str = "a") -> Message:
    """A result of these items."""
    return tool_result(id, "look", {"type": "content", "value": list(items)})


def file(mime: str = "image/png", data: str = DATA) -> dict[str, Any]:
    return {"type": "file", "uri": f"data:{mime};base64,{data}", "mime": mime, "name": "a.bin"}


CALL = assistant(ToolCallPart(id="a", name="look", input={}))
TEXT = {"type": "text", "text": "seen"}


# -- what counts as valid ------------------------------------------------------------------------------------------


def test_gif_jpeg_png_and_webp_are_images() -> None:
    """LLM-190"""
    assert sorted(IMAGES) == ["image/gif", "image/jpeg", "image/png", "image/webp"]
    assert read_media(MediaPart(media_type="image/webp", data=DATA)).is_image
    assert not read_media(MediaPart(media_type="image/svg+xml", data=DATA)).is_image


@pytest.mark.parametrize(
    ("declared", "data"),
    [
        ("image/png", RAW),
        ("image/png", DATA),
        ("image/png", f"data:image/png;base64,{DATA}"),
        ("Image/PNG", f"data:IMAGE/png;base64,{DATA}"),
        ("image/png", f"DATA:image/png;charset=binary;BASE64,{DATA}"),
        ("image/png; name=x", DATA),
    ],
)
def test_media_given_as_bytes_base64_or_uri_is_the_same(declared: str, data: str | bytes) -> None:
    """LLM-191"""
    assert read_media(MediaPart(media_type=declared, data=data, filename="x")) == Media("image/png", DATA, "x")


def test_the_type_image_jpg_is_read_as_image_jpeg() -> None:
    """LLM-194, LLM-191"""
    for kind in ("image/jpg", "image/jpeg"):
        part = MediaPart(media_type="image/jpg", data=f"data:{kind};base64,{DATA}")
        assert read_media(part) == Media("image/jpeg", DATA)


def test_items_of_results_are_read_alike() -> None:
    """LLM-191"""
    item = FileContent(uri=f"data:image/png;base64,{DATA}", mime="image/png", name="x")
    assert read_media(item) == Media("image/png", DATA, "x")


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ("", "is empty"),
        (b"", "is empty"),
        ("data:image/png;base64,", "is empty"),
        (f"data:image/jpeg;base64,{DATA}", "of type image/jpeg was declared as image/png"),
        ("data:image/png,plain", "must be base64"),
        (DATA + "\n", "not valid base64|not canonical"),
        ("QQ", "not valid base64"),
        ("QQ=", "not valid base64"),
        ("QR==", "not canonical"),
        ("Q Q=", "not valid base64"),
        ("héé=", "not valid base64"),
        ("_-8=", "not valid base64"),
    ],
)
def test_media_that_is_not_canonical_base64_of_its_type_is_refused(data: str | bytes, complaint: str) -> None:
    """LLM-191"""
    with pytest.raises(LLMError, match=complaint) as refused:
        read_media(MediaPart(media_type="image/png", data=data))
    assert refused.value.reason == "InvalidRequest"


def test_media_at_the_limit_passes_and_one_byte_more_is_refused() -> None:
    """LLM-192: at the limit it passes, one more byte is refused; the encoded limit holds before anything is decoded."""
    assert read_media(MediaPart(media_type="image/png", data=bytes(DECODED_LIMIT))).mime == "image/png"
    for data in (
        bytes(DECODED_LIMIT + 1),
        base64.b64encode(bytes(DECODED_LIMIT + 1)).decode(),
        "!" * (ENCODED_LIMIT + 1),
    ):
        with pytest.raises(LLMError, match="larger than 20 MiB"):
            read_media(MediaPart(media_type="image/png", data=data))


@pytest.mark.parametrize(
    "uri", ["https://example.org/a.png", "http://h/a", "file:///tmp/a.png", "gs://bucket/a", "managed:blob-1"]
)
@every_protocol
def test_an_unresolved_address_is_named(protocol: WireProtocol, uri: str) -> None:
    """LLM-198, LLM-400"""
    note = "was left out: media of type image/png was not resolved"
    for messages in (
        [user(MediaPart(media_type="image/png", data=uri))],
        [user("hi"), CALL, looked({"type": "file", "uri": uri, "mime": "image/png"})],
    ):
        assert any(note in text for text in texts(body(protocol, *messages)))


def test_a_refusal_does_not_repeat_a_signature() -> None:
    """LLM-339"""
    with pytest.raises(LLMError) as refused:
        read_media(MediaPart(media_type="image/png", data="https://h/a?sig=abcdefgh&token=ijklmnop"))
    assert "abcdefgh" not in refused.value.message
    assert "ijklmnop" not in refused.value.message


# -- the form it takes ---------------------------------------------------------------------------------------------

IN_USER = {
    "anthropic-messages": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
    "openai-chat": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
    "openai-responses": {"type": "input_image", "image_url": f"data:image/png;base64,{DATA}"},
    "gemini": {"inlineData": {"mimeType": "image/png", "data": DATA}},
    "bedrock-converse": {"image": {"format": "png", "source": {"bytes": DATA}}},
}


def parts(protocol: WireProtocol, sent: Any) -> Any:
    """The items of the last message."""
    key, inner = {"gemini": ("contents", "parts"), "openai-responses": ("input", "content")}.get(
        protocol.id, ("messages", "content")
    )
    return sent[key][-1][inner]


@every_protocol
def test_an_image_of_the_user(protocol: WireProtocol) -> None:
    """LLM-193"""
    assert parts(protocol, body(protocol, user("look", PICTURE)))[1] == IN_USER[protocol.id]


@every_protocol
def test_an_image_of_a_tool(protocol: WireProtocol) -> None:
    """LLM-195"""
    sent = body(protocol, user("hi"), CALL, looked(TEXT, file()))
    image = IN_USER[protocol.id]
    match protocol.id:
        case "anthropic-messages":
            assert parts(protocol, sent)[0]["content"] == [TEXT, image]
        case "openai-responses":
            assert sent["input"][-1]["output"] == [{"type": "input_text", "text": "seen"}, image]
        case "bedrock-converse":
            assert parts(protocol, sent)[0]["toolResult"]["content"] == [{"text": "seen"}, image]
        case "gemini":
            response = {"name": "look", "response": {"name": "look", "content": "seen"}}
            assert parts(protocol, sent) == [{"functionResponse": response}, image]
        case _:
            assert sent["messages"][-2:] == [
                {"role": "tool", "tool_call_id": "a", "content": "seen"},
                {"role": "user", "content": [image]},
            ]


def test_chat_images_follow_the_whole_run_of_results() -> None:
    """LLM-195, LLM-196: one message for all of them, which a following update joins."""
    calls = assistant(*(ToolCallPart(id=id, name="look", input={}) for id in "abc"))
    sent = body(
        OpenAIChat(),
        user("hi"),
        calls,
        looked(file(), id="a"),
        looked(TEXT, TEXT, id="b"),
        looked(file(), TEXT, id="c"),
        update("now"),
    )
    image = IN_USER["openai-chat"]
    assert sent["messages"][2:] == [
        {"role": "tool", "tool_call_id": "a", "content": ""},
        {"role": "tool", "tool_call_id": "b", "content": "seen\nseen"},
        {"role": "tool", "tool_call_id": "c", "content": "seen"},
        {
            "role": "user",
            "content": [image, image, {"type": "text", "text": "<system-update>\nnow\n</system-update>"}],
        },
    ]


def texts(value: Any, key: str = "") -> Iterator[str]:
    """Every string that a model would read as text, or that is a result."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from texts(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item, key)
    elif isinstance(value, str) and key in ("text", "content", "output", "json"):
        yield value


@every_protocol
@settings(deadline=None, max_examples=20)
@given(data=st.binary(min_size=40, max_size=60))
def test_base64_of_media_never_appears_as_text(protocol: WireProtocol, data: bytes) -> None:
    """LLM-197"""
    encoded = base64.b64encode(data).decode()
    part = MediaPart(media_type="image/png", data=data)
    sent = body(protocol, user("hi", part), CALL, looked(TEXT, file(data=encoded)), user(part))
    assert not any(encoded in text for text in texts(sent))
    assert not any("base64" in text for text in texts(sent))


@pytest.mark.parametrize(
    ("protocol", "form"),
    [
        (
            AnthropicMessages(),
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": DATA}},
        ),
        (
            OpenAIResponses(),
            {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{DATA}"},
        ),
        (Gemini(), {"inlineData": {"mimeType": "application/pdf", "data": DATA}}),
    ],
    ids=["anthropic", "responses", "gemini"],
)
def test_a_pdf_has_the_form_of_each_protocol(protocol: WireProtocol, form: dict[str, Any]) -> None:
    """LLM-198"""
    part = MediaPart(media_type="application/pdf", data=DATA, filename="a.pdf")
    assert parts(protocol, body(protocol, user("read", part)))[1] == form


@pytest.mark.parametrize(
    "protocol", [AnthropicMessages(), OpenAIChat(), OpenAIResponses(), Gemini()], ids=lambda protocol: protocol.id
)
@pytest.mark.parametrize("kind", ["text/plain", "text/x-python", "application/json"])
def test_a_text_file_is_text_under_its_name(protocol: WireProtocol, kind: str) -> None:
    """LLM-198"""
    part = MediaPart(media_type=kind, data="héllo".encode(), filename="notes.txt")
    assert any(text.endswith("[file: notes.txt]\nhéllo") for text in texts(body(protocol, user("read", part))))


def test_a_file_without_a_name_goes_by_its_type() -> None:
    """LLM-198"""
    assert read_media(MediaPart(media_type="text/csv", data=b"a,b\xff")).text == "[file: text/csv]\na,b�"


@every_protocol
@pytest.mark.parametrize("kind", ["image/tiff", "application/zip"])
def test_media_that_a_request_cannot_hold_is_named(protocol: WireProtocol, kind: str) -> None:
    """LLM-400: where the request cannot hold them."""
    note = f"[a.bin was left out: {protocol.name} requests cannot hold {kind}]"
    part = MediaPart(media_type=kind, data=DATA, filename="a.bin")
    assert note in list(texts(body(protocol, user(part))))
    assert any(note in text for text in texts(body(protocol, user("hi"), CALL, looked(TEXT, file(kind)))))


@pytest.mark.parametrize(
    "protocol", [AnthropicMessages(), OpenAIResponses(), Gemini(), BedrockConverse()], ids=lambda protocol: protocol.id
)
def test_a_model_without_documents_gets_the_name_of_a_pdf(protocol: WireProtocol) -> None:
    """LLM-401: and where the file is, since a tool may be able to read it."""
    route = Route("r", protocol, "https://example.org")
    model = Model("m", "p", route, capabilities=Capabilities(documents=False, caching=False))
    place = {"source": "file:///tmp/a.pdf"}
    part = MediaPart(media_type="application/pdf", data=DATA, filename="a.pdf", metadata=place)
    sent = decode_any(prepare(model, make_request(messages=[user(part)])).body)
    why = "this model takes no PDF documents. It is at file:///tmp/a.pdf; a tool may be able to read it"
    assert f"[a.pdf was left out: {why}]" in list(texts(sent))


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        ("InvalidRequest", "anything", True),
        ("ProviderInternal", "image input is not supported - you may need to provide the mmproj", True),
        ("ProviderInternal", "overloaded", False),
        ("UnknownProvider", "No endpoints found that support image input", True),
        ("ContentPolicy", "flagged", True),
        ("Authentication", "no image for you", False),
        ("RateLimit", "too many images", False),
    ],
)
def test_failures_that_may_be_about_media_are_recognised(reason: str, message: str, expected: bool) -> None:
    """LLM-402"""
    assert refuses_media(reason, message) is expected


@every_protocol
def test_a_model_without_eyes_gets_a_word(protocol: WireProtocol) -> None:
    """LLM-199: of the user and of tools."""
    sent = body(protocol, user("hi", PICTURE), CALL, looked(file()), images=False)
    assert sum(NO_IMAGE in text for text in texts(sent)) == 2
    assert DATA not in str(sent)
