"""Files of a prompt: read once, when it is admitted, and sent the same way ever after."""

from __future__ import annotations

import base64
import io
import os
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PIL import Image
from tests.conftest import MODEL

from holdfast.core.filesystem.content import TEXT_BYTES
from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.core.session import attachments
from holdfast.core.session.input_errors import AttachmentRefused, PromptConflict, PromptTooLarge
from holdfast.core.session.prompt_input import normalise
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema.prompt import FileAttachment, FileInput, Prompt, PromptInput
from holdfast.schema.session import Session
from holdfast.schema.session_event import PromptAdmitted

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder(project: Path) -> Path:
    (project / "notes.txt").write_text("as it was\n")
    return project


async def ask(runtime: Runtime, session: Session, *uris: str, id: str | None = None) -> None:
    given = PromptInput(text="look", files=tuple(FileInput(uri=uri, name=uri.rpartition("/")[2]) for uri in uris))
    await runtime.sessions.prompt(session.id, normalise(given), id=id)
    await runtime.sessions.wait(session.id)


def picture(width: int, height: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(file, "PNG")
    return file.getvalue()


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
            paths=Paths(tmp_path / "data"),
            directory=folder,
            environment=environment,
            transport=model,
            options=HostOptions(titles=False),
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
    data = picture(2, 2)
    (folder / "picture.bin").write_bytes(data)
    await ask(runtime, session, (folder / "picture.bin").as_uri())
    content: list[dict[str, Any]] = next(m for m in model.requests[-1]["messages"] if m["role"] == "user")["content"]
    (image,) = [part for part in content if part["type"] == "image_url"]
    assert image["image_url"]["url"] == f"data:image/png;base64,{base64.b64encode(data).decode()}"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("missing", "No such file or directory"),
        ("fifo", "it is neither a file nor a directory"),
        ("empty", "it is empty"),
        ("address", "not of another host"),
        ("scheme", "not https:"),
        ("nul", "its address cannot be read"),
    ],
)
async def test_an_attachment_that_cannot_be_read_refuses_the_prompt(
    runtime: Runtime, session: Session, model: ScriptedTransport, folder: Path, kind: str, reason: str
) -> None:
    """SES-233: it says which file and why; nothing is admitted, and a staged revert stays staged."""
    target = folder / "target"
    if kind == "fifo":
        os.mkfifo(target)
    elif kind == "empty":
        target.touch()
    uris = {"address": "file://elsewhere/x", "scheme": "https://example.test/x", "nul": "file:///a%00b"}
    await ask(runtime, session, id="msg_1")
    await runtime.sessions.stage_revert(session.id, "msg_1")
    before = await runtime.log.latest(session.id)
    with pytest.raises(AttachmentRefused, match=reason) as refused:
        await ask(runtime, session, "notes.txt", uris.get(kind, target.as_uri()))
    assert refused.value.index == 1
    assert await runtime.log.latest(session.id) == before
    assert await runtime.sessions.pending(session.id) == []
    assert (await runtime.sessions.get(session.id)).revert is not None


async def test_a_binary_file_is_named(
    runtime: Runtime, session: Session, model: ScriptedTransport, folder: Path
) -> None:
    """SES-232: with its type and size."""
    (folder / "data.bin").write_bytes(b"\0\1\2" * 100)
    await ask(runtime, session, (folder / "data.bin").as_uri())
    note = "it is neither text nor an image (application/octet-stream, 300 bytes)"
    assert f"[data.bin could not be attached: {note}]" in sent(model)


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
    runtime: Runtime, session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SES-044, SES-234: together, at the limit and one more."""
    monkeypatch.setattr(attachments, "TOTAL_CHARACTERS", 2 * len("as it was\n"))
    uri = (folder / "notes.txt").as_uri()
    await ask(runtime, session, uri, uri)
    with pytest.raises(PromptTooLarge, match=r"what it attaches may have at most 20 bytes"):
        await ask(runtime, session, uri, uri, uri)


async def test_the_text_and_the_labels_of_a_prompt_have_limits(
    runtime: Runtime, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SES-044, SES-234: in bytes, at the limit and one more."""
    monkeypatch.setattr(attachments, "TEXT_BYTES", 4)
    monkeypatch.setattr(attachments, "FILES", 2)
    monkeypatch.setattr(attachments, "LABEL_BYTES", 60)
    file = FileAttachment(uri="data:,x", mime="text/plain")
    for allowed, refused, field in (
        (Prompt(text="\u00e4\u00e4"), Prompt(text="\u00e4\u00e4x"), "prompt.text"),
        (Prompt(text="x", files=(file,) * 2), Prompt(text="x", files=(file,) * 3), "prompt.files"),
        (
            Prompt(text="x", files=(msgspec.structs.replace(file, name="n" * 35),)),
            Prompt(text="x", files=(msgspec.structs.replace(file, name="n" * 60),)),
            "prompt",
        ),
    ):
        await runtime.sessions.prompt(session.id, allowed, resume=False)
        with pytest.raises(PromptTooLarge) as told:
            await runtime.sessions.prompt(session.id, refused, resume=False)
        assert told.value.field == field


async def test_a_file_that_takes_too_long_is_refused(
    runtime: Runtime, session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SES-233: a disk that does not answer cannot hold a prompt for ever."""
    answered = threading.Event()
    monkeypatch.setattr(attachments, "SECONDS", 0.05)
    monkeypatch.setattr(attachments, "_read", lambda file, directory: answered.wait(10))
    try:
        with pytest.raises(AttachmentRefused, match=r"within 0\.05 s"):
            await ask(runtime, session, (folder / "notes.txt").as_uri())
    finally:
        answered.set()


async def test_a_changed_image_is_recognised_in_a_retry_under_other_limits(tmp_path: Path, folder: Path) -> None:
    """SES-037, SES-231: what was sent is compared, not what would become of it now."""
    uri = f"data:image/png;base64,{base64.b64encode(picture(90, 60)).decode()}"
    given = PromptInput(text="look", files=(FileInput(uri=uri),))
    receipts = []
    for width in (30, 20):
        async with Runtime(
            paths=Paths(tmp_path / "data"),
            directory=folder,
            environment={"HOME": str(tmp_path)},
            transport=ScriptedTransport(),
            options=HostOptions(titles=False, config={"attachments": {"image": {"max_width": width}}}),
        ) as runtime:
            where = runtime.location
            project = await runtime.project(where)
            session = await runtime.sessions.create(id="ses_kept", location=where, project=project, model=MODEL)
            prompt = normalise(given)
            receipts.append(await runtime.sessions.prompt(session.id, prompt, id="msg_1", resume=False))
            other = normalise(PromptInput(text="look", files=(FileInput(uri=f"{uri}AAAA"),)))
            with pytest.raises(PromptConflict):
                await runtime.sessions.prompt(session.id, other, id="msg_1", resume=False)
    assert receipts[0] == receipts[1]
    (file,) = receipts[0].prompt.files or ()
    assert file.uri.startswith("data:image/png;original-sha256=")
    assert Image.open(io.BytesIO(base64.b64decode(file.uri.partition(",")[2]))).size == (30, 20)


async def test_a_session_with_attachments_that_were_never_checked_works_again(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """SES-236: what an earlier version admitted is a note now; prompts are answered, a summary can be made, and
    the first prompt can be reverted to."""
    broken = (
        ("data:image/png;base64,@@@", "image/png"),
        ("data:image/svg+xml;base64,PHN2Zy8+", "image/svg+xml"),
        ("data:image/tiff;base64,SUkqAAAA", "image/tiff"),
        ("data:application/pdf;base64,JVBERi0xLjcK", "application/pdf"),
        ("data:application/zip;base64,UEsDBAAAAAA=", "application/zip"),
        ("data:image/png", "image/png"),
        ("file:///gone", "text/plain"),
    )
    files = tuple(FileAttachment(uri=uri, mime=mime, name=f"file {n}") for n, (uri, mime) in enumerate(broken))
    admitted = PromptAdmitted(
        timestamp=1,
        session_id=session.id,
        message_id="msg_old",
        prompt=Prompt(text="look " + "at this " * 6000, files=files),
        delivery="steer",
    )
    await runtime.log.publish(admitted, location=session.location)
    await runtime.sessions.run(session.id)
    await ask(runtime, session)
    assert len(model.requests) == 2
    assert "<svg/>" in sent(model)
    assert all(f"file {number}" in sent(model) for number in range(len(files)))
    await runtime.sessions.compact(session.id)
    await runtime.sessions.stage_revert(session.id, "msg_old")
    await runtime.sessions.commit_revert(session.id)
    await ask(runtime, session)
    assert await runtime.verify() == []


async def test_a_conversation_of_nothing_is_still_a_request(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """SES-152, SES-236: a prompt without a visible character."""
    await runtime.sessions.prompt(session.id, Prompt(text=""))
    await runtime.sessions.wait(session.id)
    assert len(model.requests) == 1
    await ask(runtime, session)
    assert "look" in str(model.requests[-1]["messages"])
