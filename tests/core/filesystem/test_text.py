"""Encodings, marks and line ends: what is read can be written back byte for byte."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.filesystem.errors import Unencodable
from holdfast.core.filesystem.text import (
    decode,
    dominant_ending,
    encode_like,
    fold,
    is_binary,
    split_lines,
)

JAPANESE = "これは日本語のテキストです。\nファイルを読みます。\n"
RUSSIAN = "Привет, мир! Это тестовый файл.\nСтрока два.\n"


@pytest.mark.parametrize(
    ("data", "content", "encoding"),
    [
        (b"", "", "utf-8"),
        ("naïve 🦀\r\n".encode(), "naïve 🦀\r\n", "utf-8"),
        (codecs.BOM_UTF8 + b"x", "x", "utf-8"),
        (codecs.BOM_UTF16_LE + "ä\n".encode("utf-16-le"), "ä\n", "utf-16-le"),
        (codecs.BOM_UTF16_BE + "ä\n".encode("utf-16-be"), "ä\n", "utf-16-be"),
        (codecs.BOM_UTF32_LE + "ä\n".encode("utf-32-le"), "ä\n", "utf-32-le"),
        (b"int main() { return 0; } // caf\xe9\n", "int main() { return 0; } // café\n", "cp1252"),
        ("Le café est fermé à Noël, déjà vu.\n".encode("latin-1"), "Le café est fermé à Noël, déjà vu.\n", "cp1252"),
        (JAPANESE.encode("shift_jis"), JAPANESE, "cp932"),
        (JAPANESE.encode("euc_jp"), JAPANESE, "euc_jp"),
        (RUSSIAN.encode("cp1251"), RUSSIAN, "cp1251"),
        (RUSSIAN.encode("koi8_r"), RUSSIAN, "koi8_r"),
    ],
)
def test_an_encoding_is_recognised_and_kept_when_written_back(data: bytes, content: str, encoding: str) -> None:
    """TOL-155: recognised, and kept when the content is written back."""
    text = decode(data)
    assert text is not None
    assert (text.content, text.encoding.name) == (content, encoding)
    assert text.encode(content) == data


@pytest.mark.parametrize(
    "data",
    [
        ("héllo wörld\n" * 10).encode()[:-2] + b"\xc3",
        "ääää\n".encode() + b"\xff",
        bytes(range(128, 256)) * 3,
        b"\x00\x01\xff\xfe" * 9,
        codecs.BOM_UTF16_LE + b"\x00\xd8",
        codecs.BOM_UTF8 + b"\xff",
    ],
)
def test_bytes_that_could_not_be_written_back_are_no_text(data: bytes) -> None:
    """TOL-172, TOL-155: broken UTF-8 is broken, not some other encoding; nothing is decoded with replacements."""
    assert decode(data) is None


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_decoding_is_exact_or_refused(data: bytes) -> None:
    """TOL-155, TOL-172: for any bytes at all."""
    text = decode(data)
    if text is not None and not text.content.startswith("\ufeff"):
        assert text.encode(text.content) == data


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (None, "x", b"x"),
        (None, "\ufeffx", codecs.BOM_UTF8 + b"x"),
        (None, "\ufeff\ufeffx", codecs.BOM_UTF8 + b"x"),
        (b"old", "x", b"x"),
        (b"old", "\ufeffx", codecs.BOM_UTF8 + b"x"),
        (codecs.BOM_UTF8 + b"old", "x", codecs.BOM_UTF8 + b"x"),
        (codecs.BOM_UTF8 + b"old", "\ufeffx", codecs.BOM_UTF8 + b"x"),
        (codecs.BOM_UTF8 + b"old", "\ufeff\ufeffx", codecs.BOM_UTF8 + b"x"),
        (codecs.BOM_UTF8, "", codecs.BOM_UTF8),
        (codecs.BOM_UTF16_LE + "old".encode("utf-16-le"), "\ufeffä", codecs.BOM_UTF16_LE + "ä".encode("utf-16-le")),
        ("Größe, Prüfung\n".encode("latin-1"), "größer\n", "größer\n".encode("latin-1")),
        (b"\x00binary\xff", "ä", "ä".encode()),
    ],
)
def test_new_content_for_a_file(before: bytes | None, content: str, after: bytes) -> None:
    """TOL-128, TOL-155: one mark at most; the encoding of the old content stays."""
    assert encode_like(before, content) == after


def test_text_that_the_old_encoding_cannot_hold_is_refused() -> None:
    """TOL-155: refused rather than changed."""
    with pytest.raises(Unencodable, match="cp1252"):
        encode_like("Größe, Prüfung\n".encode("latin-1"), "日本")


def test_only_line_feeds_end_lines() -> None:
    """TOL-340: not the other eight characters at which `str.splitlines` cuts."""
    odd = "a\u2028b\vc\fd\x85e\rf\x1cg"
    assert split_lines(odd + "\n" + odd) == [(odd, "\n"), (odd, "")]
    assert split_lines("a\r\nb\n\nc") == [("a", "\r\n"), ("b", "\n"), ("", "\n"), ("c", "")]
    assert split_lines("") == []


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="ab\r\n\u2028", max_size=40))
def test_split_lines_loses_nothing(text: str) -> None:
    """TOL-340, TOL-189."""
    assert "".join(line + end for line, end in split_lines(text)) == text


def test_the_dominant_line_ending_and_typographic_folds_are_found() -> None:
    """TOL-189, TOL-185."""
    assert [dominant_ending(text) for text in ("", "a", "a\n", "a\r\n", "a\r\nb\r\nc\n", "a\r\nb\n")] == [
        "\n",
        "\n",
        "\n",
        "\r\n",
        "\r\n",
        "\n",
    ]
    assert fold("“a”—‘b’…\u00a0c−d") == "\"a\"-'b'... c-d"


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        (b"", False),
        (b"text\n", False),
        (b"te\0xt", True),
        (b"%PDF-1.7\n", True),
        (b"\x01\x02\x03\x04abcdefghi", True),
        (b"\x01\x02\x03abcdefg", False),
        (b"\x1b[31mred\x1b[0m\t\r\n", False),
        (codecs.BOM_UTF16_LE + "text".encode("utf-16-le"), False),
    ],
)
def test_text_with_more_than_30_percent_control_characters_is_binary(sample: bytes, expected: bool) -> None:
    """TOL-145: at 30 % of control characters it is still text, above it is not."""
    assert is_binary(sample) is expected
