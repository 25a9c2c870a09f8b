"""From the prompt as it arrives to the prompt that is stored."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.core.session.attachments import is_retry
from holdfast.core.session.prompt_input import media_type, normalise, unresolved
from holdfast.schema.codec import decode_any, decoder, encode
from holdfast.schema.prompt import AgentInput, FileInput, PromptInput, SkillInput, Source


@pytest.mark.parametrize(
    ("uri", "name", "expected"),
    [
        ("data:image/png;base64,iVBORw0KGgo=", None, "image/png"),
        ("data:text/markdown;charset=utf-8,hi", "x.png", "text/markdown"),
        ("data:application/json,{}", None, "application/json"),
        ("file:///home/me/project/", None, "application/x-directory"),
        ("file:///home/me/project/?line=3", None, "application/x-directory"),
        ("https://example.org/", "page.html", "application/x-directory"),
        ("file:///home/me/a%20b.txt", None, "text/plain"),
        ("file:///home/me/photo.PNG", None, "image/png"),
        ("file:///home/me/photo.jpeg?size=2#top", None, "image/jpeg"),
        ("https://example.org/style.css", None, "text/css"),
        ("notes.html", None, "text/html"),
        ("http://[broken", "folder/", "application/x-directory"),
        ("http://[broken/", None, "application/x-directory"),
        ("http://[broken", "picture.gif", "image/gif"),
        ("http://[broken.gif", None, "image/gif"),
    ],
)
def test_a_file_gets_its_media_type_at_admission(uri: str, name: str | None, expected: str) -> None:
    """SES-042: of a data URI its own; a directory by the slash at the end of the path; else by extension."""
    assert media_type(uri, name) == expected


def test_an_unknown_extension_still_has_a_type() -> None:
    """SES-042: `mime` is never absent from a stored file."""
    (file,) = normalise(PromptInput(text="x", files=(FileInput(uri="file:///x.zzz-unheard-of"),))).files or ()
    assert "/" in file.mime


def test_every_field_is_carried_over() -> None:
    """SES-042: text, files with name, description and source, agents with source."""
    source = Source(start=4, end=9, text="@a.py")
    given = PromptInput(
        text="see @a.py",
        files=(FileInput(uri="file:///a.py", name="a.py", description="the start", source=source),),
        agents=(AgentInput(name="plan", source=source), AgentInput(name="build")),
    )
    span = {"start": 4, "end": 9, "text": "@a.py"}
    assert decode_any(encode(normalise(given))) == {
        "text": "see @a.py",
        "files": [
            {"uri": "file:///a.py", "mime": "text/x-python", "name": "a.py", "description": "the start", "source": span}
        ],
        "agents": [{"name": "plan", "source": span}, {"name": "build"}],
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"text":"x"}', b'{"text":"x","files":[],"agents":[]}'),
        (
            b'{"text":"x","files":[{"uri":"a.txt","name":"n","source":{"start":0,"end":1,"text":"t"}}]}',
            b'{"files":[{"source":{"text":"t","end":1,"start":0},"name":"n","uri":"a.txt"}],"text":"x"}',
        ),
        ('{"text":"é"}'.encode(), b'{"text":"\\u00e9"}'),
    ],
    ids=["absent or empty", "order of keys", "escapes"],
)
def test_equal_prompts_have_equal_bytes(one: bytes, other: bytes) -> None:
    """SES-041: however a client spelled it."""
    reading = decoder(PromptInput)
    assert encode(normalise(reading.decode(one))) == encode(normalise(reading.decode(other)))


@pytest.mark.parametrize(
    "given",
    [
        b"{}",
        b'{"text":null}',
        b'{"text":"x","files":null}',
        b'{"text":"x","files":[{}]}',
        b'{"text":"x","agents":[{"name":"a","source":{"start":0}}]}',
    ],
)
def test_a_prompt_of_another_shape_is_refused(given: bytes) -> None:
    """SES-042."""
    with pytest.raises(msgspec.ValidationError):
        decoder(PromptInput).decode(given)


def test_what_was_sent_is_recognised_whatever_resolving_made_of_it() -> None:
    """SES-280: neither the order of keys nor a guessed media type matters; everything else does."""
    given = normalise(
        PromptInput(text="x", files=(FileInput(uri="a.txt"),), metadata={"a": 1, "b": 2}, skills=(SkillInput(id="s"),))
    )
    digest = unresolved(given).sent
    assert digest is not None
    assert unresolved(unresolved(given)).sent == digest
    files = tuple(replace(file, mime="text/other") for file in given.files or ())
    assert unresolved(replace(given, files=files, metadata={"b": 2, "a": 1})).sent == digest
    changes: tuple[dict[str, Any], ...] = ({"text": "y"}, {"metadata": None}, {"skills": None}, {"files": None})
    for change in changes:
        assert unresolved(replace(given, **change)).sent != digest
    stored = replace(unresolved(given), text="resolved", files=None, notes=("a note",))
    assert is_retry(stored, unresolved(given))
    assert not is_retry(stored, given)
    assert not is_retry(replace(stored, sent=None), unresolved(given))
