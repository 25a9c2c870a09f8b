"""What takes the place of secrets in texts and documents for others."""

from __future__ import annotations

import base64
import json

import pytest

from holdfast.core.redaction import Redaction

KEY = "sk-abcdefghijklmnopqrstuvwx"
REDACTION = Redaction.of({"HOME": "/home/anna", "MY_TOKEN": "correct horse", "PATH": "/usr/bin", "SHORT_KEY": "abc"})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"use {KEY}.", "use ***."),
        ("say correct horse", "say ***"),
        ("abc and /usr/bin stay", "abc and /usr/bin stay"),
        ("https://me:pass@example.org/x", "https://***@example.org/x"),
        ("Authorization: Bearer abcdefghijklmnop", "Authorization: Bearer ***"),
        ("-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----", "***"),
        ("in /home/anna/x, /home/anna", "in ~/x, ~"),
        ("file:///home/anna/x", "file://~/x"),
        ("/mnt/home/anna/x and /home/annabel/x stay", "/mnt/home/anna/x and /home/annabel/x stay"),
    ],
)
def test_secrets_and_the_home_directory_are_replaced(text: str, shown: str) -> None:
    """OPS-032."""
    assert REDACTION.apply(text) == shown
    assert json.loads(REDACTION.apply_to_json(json.dumps([text]).encode())) == [shown]
    assert Redaction.none().apply(text) == text


def test_strings_names_and_texts_of_a_document_are_replaced_and_media_are_not() -> None:
    """OPS-032: numbers of any size stay as they are."""
    picture = base64.b64encode(bytes(range(256)) * 20).decode()
    note = base64.b64encode(f"# {KEY}".encode()).decode()
    document = {
        "/home/anna/x": [KEY, {"deep": "correct horse"}],
        "number": 12345678901234567890123,
        "share": 0.1,
        "nothing": None,
        "picture": f"data:image/png;base64,{picture}",
        "content": picture,
        "note": f"data:text/plain;charset=utf-8;base64,{note}",
        "damaged": "data:text/plain;base64,%%%",
    }
    redacted = json.loads(REDACTION.apply_to_json(json.dumps(document).encode()))
    shown = base64.b64encode(b"# ***").decode()
    changed = {"~/x": ["***", {"deep": "***"}], "note": f"data:text/plain;charset=utf-8;base64,{shown}"}
    assert redacted == {name: value for name, value in document.items() if name != "/home/anna/x"} | changed


@pytest.mark.parametrize("document", [b'["\\ud800 %s"]', b'[1e999, "%s"]', b'"%s" and no JSON'])
def test_a_document_that_cannot_be_written_again_is_replaced_as_text(document: bytes) -> None:
    """OPS-032: nothing of a secret stays because something else is odd."""
    redacted = REDACTION.apply_to_json(document.replace(b"%s", KEY.encode()))
    assert redacted == document.replace(b"%s", b"***")
