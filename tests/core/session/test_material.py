"""Files of a prompt: read once, when it is admitted, and sent the same way ever after."""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import MODEL

from holdfast.core.runtime import Paths, Runtime
from holdfast.core.session import material
from holdfast.core.session.attachment import normalise
from holdfast.core.session.material import TEXT_BYTES
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema.prompt import FileInput, PromptInput
from holdfast.schema.session import Session

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder(project: Path) -> Path:
    (project / "notes.txt").write_text("as it was\n")
    return project


async def ask(runtime: Runtime, session: Session, *uris: str, id: str | None = None) -> None:
    given = PromptInput(text="look", files=tuple(FileInput(uri=uri, name=uri.rpartition("/")[2]) for uri in uris))
    await runtime.sessions.prompt(session.id, normalise(given), id=id)
    await runtime.sessions.wait(session.id)


def sent(model: ScriptedTransport, number: int = -1) -> str:
    """Everything the user's first message said, as the provider got it."""
    message = next(item for item in model.requests[number]["messages"] if item["role"] == "user")
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


async def test_a_file_is_sent_as_it_was_when_admitted(
    runtime: Runtime, session: Session, model: ScriptedTransport, folder: Path
) -> None:
    """SES-164: later turns and another process send the same bytes, though the file is long gone; what the caller sent
    stays what it was, so that its retry is the same prompt."""
    uri = (folder / "notes.txt").as_uri()
    await ask(runtime, session, uri, id="msg_1")
    (folder / "notes.txt").unlink()
    await ask(runtime, session, uri, id="msg_1")
    await ask(runtime, session)

    first, second = sent(model, 0), sent(model, -1)
    assert "as it was" in first
    assert second == first
    row = (await runtime.sessions.message(session.id, "msg_1")).wire
    assert b"as it was" not in row
    assert uri.encode() in row
    assert await runtime.verify() == []


async def test_another_process_sends_the_same(tmp_path: Path, folder: Path) -> None:
    """SES-164, SES-213: a cold load encodes what the hot history encoded."""
    bodies = []
    for _ in range(2):
        model = ScriptedTransport()
        environment = {"HOME": str(tmp_path)}
        async with Runtime(
            paths=Paths(tmp_path / "data"), directory=folder, environment=environment, transport=model, titles=False
        ) as runtime:
            where = runtime.location
            session = await runtime.sessions.create(
                id="ses_kept", location=where, project=await runtime.project(where), model=MODEL
            )
            await ask(runtime, session, (folder / "notes.txt").as_uri(), id="msg_1")
            (folder / "notes.txt").write_text("something else\n")
            await runtime.sessions.run(session.id)
            bodies.append(sent(model, -1))
    assert bodies[0] == bodies[1]
    assert "as it was" in bodies[0]


async def test_a_directory_is_its_listing(
    runtime: Runtime, session: Session, model: ScriptedTransport, folder: Path
) -> None:
    """SES-164: names, directories marked as such."""
    (folder / "inner").mkdir()
    await ask(runtime, session, folder.as_uri() + "/")
    assert "inner/\nnotes.txt" in sent(model)


async def test_an_image_becomes_media(
    runtime: Runtime, session: Session, model: ScriptedTransport, folder: Path
) -> None:
    """SES-164: normalised, by what it is and not by its name."""
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (2, 2), "red").save(file, "PNG")
    (folder / "picture.bin").write_bytes(file.getvalue())
    await ask(runtime, session, (folder / "picture.bin").as_uri())
    content: list[dict[str, Any]] = next(m for m in model.requests[-1]["messages"] if m["role"] == "user")["content"]
    (picture,) = [part for part in content if part["type"] == "image_url"]
    assert picture["image_url"]["url"] == f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


@pytest.mark.parametrize("kind", ["missing", "fifo", "binary", "address", "scheme"])
async def test_what_cannot_be_attached_says_why(
    runtime: Runtime, session: Session, model: ScriptedTransport, folder: Path, kind: str
) -> None:
    """SES-164: a visible note, durable like the rest; the prompt is admitted all the same."""
    target = folder / "target"
    if kind == "fifo":
        os.mkfifo(target)
    elif kind == "binary":
        target.write_bytes(b"\0\1\2" * 100)
    uri = {"address": "file://elsewhere/x", "scheme": "https://example.test/x"}.get(kind, target.as_uri())
    await ask(runtime, session, uri)
    assert "could not be attached:" in sent(model)


async def test_a_long_text_is_cut_where_a_line_ends(
    runtime: Runtime, session: Session, model: ScriptedTransport, folder: Path
) -> None:
    """SES-164: bounded, and it says so."""
    (folder / "long.txt").write_text("0123456789äöü\n" * (TEXT_BYTES // 10))
    await ask(runtime, session, (folder / "long.txt").as_uri())
    text = sent(model)
    assert "[cut here: the file has" in text
    assert "\ufffd" not in text
    assert len(text.encode()) < TEXT_BYTES + 500


async def test_a_directory_with_odd_names_is_listed(
    runtime: Runtime, session: Session, model: ScriptedTransport, folder: Path
) -> None:
    """SES-164: names that are no UTF-8, and links in circles, are names like others."""
    (folder / os.fsdecode(b"\xff.txt")).write_text("x")
    (folder / "loop").symlink_to("loop")
    await ask(runtime, session, folder.as_uri() + "/")
    assert "loop\nnotes.txt\n\ufffd.txt" in sent(model)


async def test_all_files_of_a_prompt_have_a_limit(
    runtime: Runtime, session: Session, model: ScriptedTransport, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SES-044, SES-164: what follows is not read, and says so."""
    monkeypatch.setattr(material, "TOTAL_CHARACTERS", len("text/plain" + "as it was\n") + 1)
    await ask(runtime, session, *[(folder / "notes.txt").as_uri()] * 3)
    assert sent(model).count("as it was") == 2
    assert material.TOO_MUCH in sent(model)
