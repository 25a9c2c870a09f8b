"""Texts that PostgreSQL does not store as they are."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.database.postgres.text import MARK, WINDOW, escape, restore, restore_bytes

ESCAPES = ("\\u0000", "\\ud83d", "\\uDFFF", "\\uf8f1", "\\uF8F1")
PIECES = ("\0", MARK, *ESCAPES, "\\", "u", "0000", "f8f1", "d800", '"', "é", "😀")
TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.lists(st.sampled_from(PIECES)).map("".join)


@given(TEXTS)
def test_every_text_comes_back(text: str) -> None:
    """STO-044."""
    stored = escape(text)
    assert "\0" not in stored
    assert restore(stored) == text
    assert restore_bytes(stored.encode()) == text.encode()


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_json_stays_json_of_which_the_server_can_read_every_text(text: str) -> None:
    """STO-044."""
    for written in (json.dumps({"a": text}), json.dumps({"a": text}, ensure_ascii=False)):
        stored = escape(written)
        assert restore(json.loads(stored)["a"]) == json.loads(written)["a"]
        assert not any(f"\\u{digits}" in stored.replace("\\\\", "") for digits in ("0000", "d800", "dfff"))


@pytest.mark.parametrize("text", ["", "plain", '{"a":"\\u001b[0m"}', "é😀"])
def test_other_texts_are_the_same_object(text: str) -> None:
    assert escape(text) is text
    assert restore(text) is text
    data = text.encode()
    assert restore_bytes(data) is data


def test_a_lone_surrogate_of_json_is_restored_as_a_character() -> None:
    """STO-044: the server decodes the escape of the mark, and the digits follow it."""
    assert restore(f"{MARK}d800") == "\ud800"
    assert restore_bytes(f"{MARK}0000".encode()) == b"\0"


@pytest.mark.parametrize("mark", [MARK, "\\uf8f1"])
def test_a_mark_is_found_wherever_it_is_in_a_large_text(mark: str) -> None:
    """STO-044: also where two of the windows meet in which it is looked for."""
    restored = restore(f"{mark}0000")
    for place in range(WINDOW - 8, WINDOW + 2):
        before, after = "x" * place, "x" * 20
        assert restore(f"{before}{mark}0000{after}") == before + restored + after
        assert restore_bytes(f"{before}{mark}0000{after}".encode()) == (before + restored + after).encode()
