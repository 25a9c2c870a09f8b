"""Whatever is attached to a prompt: it is sent in a form that the provider takes, or named in a note, or refused before
anything is admitted. No attachment stops a Session."""

from __future__ import annotations

import base64
import io
import json
import threading
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx2
import pytest
from PIL import Image
from tests.cli.conftest import Machine, Provider, Server, finish, frame
from tests.plain_http import NO_TLS

SVG = '<svg xmlns="http://www.w3.org/2000/svg"><text>drawn</text></svg>'
PDF = b"%PDF-1.7\n1 0 obj\n<<>>\nendobj\ntrailer\n<<>>\n%%EOF\n"
ZIP = b"PK\x03\x04" + bytes(range(256)) * 4


def picture(width: int = 8, height: int = 6, format: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(file, format)
    return file.getvalue()


def data_uri(data: bytes | str, mime: str) -> str:
    content = data if isinstance(data, str) else base64.b64encode(data).decode()
    return f"data:{mime};base64,{content}"


class Api:
    """One Session of a running server, by HTTP."""

    def __init__(self, url: str, project: Path, provider: str) -> None:
        self.client = httpx2.Client(base_url=url, timeout=45, verify=NO_TLS)
        payload = {"location": {"directory": str(project)}, "model": {"providerID": provider, "id": "m"}}
        self.id = self.client.post("/api/session", json=payload).json()["data"]["id"]

    def post(self, path: str, **payload: Any) -> httpx2.Response:
        return self.client.post(f"/api/session/{self.id}{path}", json=payload)

    def get(self, path: str) -> Any:
        return self.client.get(f"/api/session/{self.id}{path}").json()["data"]

    def prompt(self, text: str, *files: dict[str, str], **more: Any) -> httpx2.Response:
        answer = self.post("/prompt", prompt={"text": text, "files": list(files)}, **more)
        if answer.status_code == 200:
            assert self.post("/wait").status_code < 300
        return answer

    @property
    def answers(self) -> list[dict[str, Any]]:
        return [item for item in self.get("/context") if item["type"] == "assistant"]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Provider]:
    provider = Provider()
    serving = threading.Thread(target=provider.server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    yield provider
    provider.released.set()
    provider.server.shutdown()
    serving.join()
    provider.server.server_close()


@pytest.fixture(scope="module")
def server(endpoint: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests here: each has Sessions and a project of its own."""
    machine = Machine(tmp_path_factory.mktemp("machine"))
    packages = {
        "mock": "@ai-sdk/openai-compatible",
        "claude": "@ai-sdk/anthropic",
        "gemini": "@ai-sdk/google",
        "responses": "@ai-sdk/openai",
    }
    configured = {
        name: {"npm": npm, "options": {"baseURL": endpoint.url, "apiKey": "k"}, "models": {"m": {}}}
        for name, npm in packages.items()
    }
    limits = {"image": {"max_width": 300, "max_height": 200}}
    machine.configure_user(provider=configured, model="mock/m", attachments=limits, holdfast={"titles": False})
    process = machine.start("serve", "--port", "0", "--no-auth")
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "listening on" in line, finish(process)
    yield Server(process, line.split()[-1])
    machine.clean_up()


@pytest.fixture
def provider(endpoint: Provider) -> Provider:
    endpoint.behave = answer
    endpoint.bodies.clear()
    return endpoint


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "hello.txt").write_text("hello world\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def api(provider: Provider, server: Server, project: Path) -> Iterator[Callable[..., Api]]:
    """Sessions with a model that speaks this protocol."""
    opened: list[Api] = []

    def create(protocol: str = "mock") -> Api:
        opened.append(Api(server.url, project, protocol))
        return opened[-1]

    yield create
    for session in opened:
        session.client.close()


def answer(handler: BaseHTTPRequestHandler) -> None:
    """In the form of the protocol that was spoken."""
    path = handler.path.partition("?")[0]
    if path.endswith("/chat/completions"):
        Provider.answer(handler)
        return
    Provider.head(handler)
    for event in ANSWERS[path.rpartition("/")[2].partition(":")[2] or path.rpartition("/")[2]]:
        kind = f"event: {event['type']}\n" if "type" in event else ""
        handler.wfile.write(f"{kind}data: {json.dumps(event)}\n\n".encode())


ANSWERS: dict[str, list[dict[str, Any]]] = {
    "messages": [
        {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "fine"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ],
    "responses": [
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {"id": "i", "type": "message"}},
        {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "content_index": 0, "delta": "fine"},
        {"type": "response.output_item.done", "output_index": 0, "item": {"id": "i", "type": "message"}},
        {"type": "response.completed", "response": {"id": "r", "usage": {"input_tokens": 1, "output_tokens": 1}}},
    ],
    "streamGenerateContent": [
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "fine"}]}, "finishReason": "STOP"}]}
    ],
}


def sent(provider: Provider, number: int = -1) -> str:
    assert provider.bodies, "the provider received no request"
    return json.dumps(provider.bodies[number], ensure_ascii=False)


# -- every kind, every protocol ------------------------------------------------------------------------------------


KINDS: dict[str, tuple[str, str, str]] = {
    "svg": (data_uri(SVG.encode(), "image/svg+xml"), "drawing.svg", "drawn"),
    "pdf": (data_uri(PDF, "application/pdf"), "report.pdf", "application/pdf"),
    "zip": (data_uri(ZIP, "application/zip"), "bundle.zip", "bundle.zip could not be attached"),
    "unknown image": (data_uri(b"\0\1\2\3" * 20, "image/x-odd"), "odd.img", "image/x-odd, 80 bytes"),
    "text": ("data:text/plain;charset=utf-8,gr%C3%BC%C3%9Fe", "note.txt", "grüße"),
    "tiff": (data_uri(picture(format="TIFF"), "image/tiff"), "scan.tiff", "image/png"),
    "wrong type": (data_uri(picture(format="JPEG"), "image/png"), "photo.png", "image/jpeg"),
}


@pytest.mark.parametrize("protocol", ["mock", "claude", "gemini", "responses"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_attachment_is_answered(
    kind: str, protocol: str, api: Callable[..., Api], provider: Provider
) -> None:
    """SES-230, SES-232, LLM-400: each as what it is, or as a note that names it; the next prompt is answered too."""
    uri, name, expected = KINDS[kind]
    session = api(protocol)
    assert session.prompt("look", {"uri": uri, "name": name}).status_code == 200
    assert expected in sent(provider)
    assert "\ufffd" not in sent(provider)
    assert session.prompt("and now?").status_code == 200
    assert "and now?" in sent(provider)
    assert [item.get("error") for item in session.answers] == [None, None]


def test_a_pdf_goes_to_protocols_that_take_documents(api: Callable[..., Api], provider: Provider) -> None:
    """LLM-198, LLM-401: and is named where they do not, with the place where it can be found."""
    content = base64.b64encode(PDF).decode()
    file = {"uri": data_uri(PDF, "application/pdf"), "name": "report.pdf"}
    for protocol, native in (("claude", True), ("gemini", True), ("responses", True), ("mock", False)):
        assert api(protocol).prompt("read", file).status_code == 200
        assert (content in sent(provider)) is native, protocol
    assert "[report.pdf was left out: " in sent(provider)


def test_files_are_read_by_what_they_are(project: Path, api: Callable[..., Api], provider: Provider) -> None:
    """SES-231, SES-232: not by their name, and as they were when the prompt was admitted."""
    for name, content, expected in (
        ("photo.txt", picture(), "data:image/png;base64,"),
        ("drawing.svg", SVG.encode(), "drawn"),
        ("report.pdf", PDF, f"It is at {(project / 'report.pdf').as_uri()}"),
        ("bundle.zip", ZIP, "bundle.zip could not be attached: it is neither text nor an image"),
        ("latin.txt", "grüße aus köln, schön hier, viele grüße".encode("latin-1"), "schön"),
    ):
        path = project / name
        path.write_bytes(content)
        session = api()
        assert session.prompt("look", {"uri": path.as_uri(), "name": name}).status_code == 200, name
        path.unlink()
        assert session.prompt("again").status_code == 200
        assert expected in sent(provider), name


def test_images_are_made_to_fit_the_configured_limits(
    project: Path, api: Callable[..., Api], provider: Provider
) -> None:
    """SES-231: whether they come as a file, as data or from a tool; a retry is still the same prompt."""
    large = picture(900, 600)
    (project / "large.png").write_bytes(large)
    session = api()
    files = ({"uri": data_uri(large, "image/png")}, {"uri": (project / "large.png").as_uri()})
    first = session.prompt("look", *files, id="msg_fit")
    assert first.status_code == 200
    assert (
        session.prompt("look", *files, id="msg_fit").json()["data"]["admittedSeq"]
        == (first.json()["data"]["admittedSeq"])
    )
    assert session.prompt("look", files[1], files[0], id="msg_fit").status_code == 409
    calls = [{"index": 0, "id": "c", "function": {"name": "read", "arguments": '{"path": "large.png"}'}}]
    provider.behave = lambda handler: call_once(handler, provider, calls)
    assert session.prompt("read it").status_code == 200
    images = [item for message in provider.bodies[-1]["messages"] for item in parts(message) if "image_url" in item]
    sizes = [Image.open(io.BytesIO(base64.b64decode(url(item)))).size for item in images]
    assert sizes == [(300, 200)] * 3


def call_once(handler: BaseHTTPRequestHandler, provider: Provider, calls: list[dict[str, Any]]) -> None:
    if any(message["role"] == "tool" for message in provider.bodies[-1]["messages"]):
        Provider.answer(handler)
        return
    Provider.head(handler)
    handler.wfile.write(frame({"tool_calls": calls}) + frame({}, "tool_calls") + b"data: [DONE]\n\n")


def parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return content if isinstance(content, list) else []


def url(item: dict[str, Any]) -> str:
    address: str = item["image_url"]["url"]
    return address.partition(",")[2]


# -- refused before admission --------------------------------------------------------------------------------------


def bomb() -> bytes:
    """A PNG of 60 megapixels in a few bytes."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")

    header = (60_000).to_bytes(4, "big") + (1_000).to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(99))) + chunk(b"IEND", b"")
    )


def test_an_attachment_that_cannot_be_read_refuses_the_prompt(
    project: Path, api: Callable[..., Api], provider: Provider
) -> None:
    """SES-233: a typed 400 that names the file and the reason; the inbox and the conversation stay as they were."""
    (project / "empty.txt").touch()
    (project / "huge.bin").touch()
    with (project / "huge.bin").open("r+b") as file:
        file.truncate(20 * 1024 * 1024 + 1)
    cases = {
        "data:image/png;base64,@@@@": "base64",
        "data:image/png;base64,iVBORw0KGgo": "base64",
        "data:text/plain;base64,!": "base64",
        "data:image/png": "data",
        "data:image/png;base64,": "empty",
        data_uri(bomb(), "image/png"): "megapixels",
        data_uri(b"\0\1\2\3", "image/png"): "image/png",
        (project / "missing.txt").as_uri(): "No such file",
        (project / "empty.txt").as_uri(): "empty",
        (project / "huge.bin").as_uri(): "20971520",
        "file:///dev/null": "neither a file nor a directory",
        "https://example.test/a.png": "https",
        "file://elsewhere/a.txt": "file",
        "http://[broken.gif": "address",
    }
    session = api()
    assert session.prompt("hello").status_code == 200
    before = (session.get("/pending"), session.get("/context"), len(session.get("/history")))
    for uri, reason in cases.items():
        refused = session.prompt("look", {"uri": "hello.txt"}, {"uri": uri, "name": "it"}, id="msg_refused")
        assert refused.status_code == 400, (uri[:60], refused.text)
        error = refused.json()
        assert (error["_tag"], error["field"]) == ("InvalidRequestError", "prompt.files[1]"), error
        assert reason in error["message"], (uri[:60], error)
        assert "it" in error["message"]
    assert (session.get("/pending"), session.get("/context"), len(session.get("/history"))) == before
    assert session.prompt("look", {"uri": "hello.txt"}, id="msg_refused").status_code == 200
    assert "hello world" in sent(provider)


def test_an_image_that_cannot_be_decoded_is_a_note(api: Callable[..., Api], provider: Provider) -> None:
    """SES-233: as the recorded contract has it, the prompt is admitted; the model is told why nothing is shown."""
    session = api()
    broken = {"uri": data_uri(picture()[:40], "image/png"), "name": "chart.png"}
    admitted = session.prompt("look", broken)
    assert admitted.status_code == 200
    assert admitted.json()["data"]["prompt"]["files"][0]["uri"] == broken["uri"]
    assert "could not be decoded: chart.png" in sent(provider)


def test_a_prompt_that_is_too_large_is_refused_with_its_limit(api: Callable[..., Api]) -> None:
    """SES-044, SES-234: its text, the number of its files, and all of them together."""
    session = api()
    one = data_uri(b"%PDF-1.7" + bytes(6 * 1024 * 1024), "application/pdf")
    for prompt, field, limit in (
        ({"text": "x" * (4 * 1024 * 1024 + 1)}, "prompt.text", "4194304"),
        ({"text": "x", "files": [{"uri": "hello.txt"}] * 65}, "prompt.files", "64"),
        ({"text": "x", "files": [{"uri": one}] * 2}, "prompt.files", "16777216"),
    ):
        refused = session.post("/prompt", prompt=prompt)
        assert refused.status_code == 400, refused.text
        assert refused.json()["field"] == field
        assert limit in refused.json()["message"]
    assert session.get("/pending") == []


def test_a_directory_is_attached_as_its_listing(project: Path, api: Callable[..., Api], provider: Provider) -> None:
    """SES-164: with or without a slash at the end."""
    (project / "inner").mkdir()
    for uri in (project.as_uri(), f"{project.as_uri()}/"):
        admitted = api().prompt("look", {"uri": uri})
        assert admitted.json()["data"]["prompt"]["files"][0]["mime"] == "application/x-directory"
        assert "hello.txt\\ninner/" in sent(provider)


# -- providers that refuse -----------------------------------------------------------------------------------------


def refuse_images(handler: BaseHTTPRequestHandler, provider: Provider) -> None:
    if "image_url" not in json.dumps(provider.bodies[-1]):
        Provider.answer(handler)
        return
    Provider.head(handler, 400, "application/json")
    handler.wfile.write(json.dumps({"error": {"message": "image input is not supported"}}).encode())


def test_a_model_that_refuses_images_still_answers(api: Callable[..., Api], provider: Provider) -> None:
    """SES-235, LLM-402: the request is sent again with a note in place of them; later prompts and a summary work."""
    provider.behave = lambda handler: refuse_images(handler, provider)
    session = api()
    assert session.prompt("look", {"uri": data_uri(picture(), "image/png"), "name": "a.png"}).status_code == 200
    assert "[a.png was left out: the provider refused it]" in sent(provider)
    assert session.prompt("and now? " + "long " * 9000).status_code == 200
    assert [item.get("error") for item in session.answers] == [None, None]
    assert session.post("/compact").status_code < 300


def test_a_refusal_that_is_not_about_media_is_told_once(api: Callable[..., Api], provider: Provider) -> None:
    """SES-235: the second refusal is recorded, and the Session goes on."""
    session = api()
    asked = len(provider.bodies)

    def refuse(handler: BaseHTTPRequestHandler) -> None:
        Provider.head(handler, 400, "application/json")
        handler.wfile.write(b'{"error": {"message": "no such thing"}}')

    provider.behave = refuse
    assert session.prompt("look", {"uri": data_uri(picture(), "image/png")}).status_code == 200
    assert len(provider.bodies) - asked == 2
    (failed,) = session.answers
    assert "no such thing" in failed["error"]["message"]
    provider.behave = Provider.answer
    assert session.prompt("again").status_code == 200
    assert session.answers[-1].get("error") is None
    assert "image_url" in sent(provider)


def test_a_first_prompt_with_an_odd_attachment_can_be_reverted_and_compacted(
    api: Callable[..., Api], provider: Provider
) -> None:
    """SES-167, SES-230: neither needs the attachment to be sendable."""
    session = api()
    file = {"uri": KINDS["svg"][0], "name": "drawing.svg"}
    assert session.prompt("look " + "long " * 9000, file, id="msg_first").status_code == 200
    assert session.post("/compact").status_code < 300
    assert session.post("/revert/stage", messageID="msg_first").status_code == 200
    assert session.post("/revert/commit").status_code < 300
    assert session.prompt("start over").status_code == 200
    assert session.answers[-1].get("error") is None
