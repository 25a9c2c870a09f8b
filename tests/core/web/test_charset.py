"""Which encoding a page is read in."""

from __future__ import annotations

import codecs

import pytest

from holdfast.core.web.charset import decode

JAPANESE = "日本語のページです。これは文字コードの判定のための文章です。" * 4


@pytest.mark.parametrize(
    ("body", "declared", "expected"),
    [
        (codecs.BOM_UTF8 + "é".encode(), "iso-8859-1", "é"),
        (codecs.BOM_UTF16_LE + "é".encode("utf-16-le"), "utf-8", "é"),
        (codecs.BOM_UTF16_BE + "é".encode("utf-16-be"), None, "é"),
        (codecs.BOM_UTF32_LE + "é".encode("utf-32-le"), None, "é"),
        ("é".encode("cp1252"), "iso-8859-1", "é"),
        ("“€”".encode("cp1252"), "ISO-8859-1", "“€”"),
        (JAPANESE.encode("shift-jis"), "Shift_JIS", JAPANESE),
        (b"<meta charset=latin1>" + b"\xe9", "utf-8", "<meta charset=latin1>\ufffd"),
        (b"<meta charset='windows-1251'>" + "Привет".encode("cp1251"), None, "<meta charset='windows-1251'>Привет"),
        (
            b'<meta http-equiv="Content-Type" content="text/html; charset=euc-jp">' + "日本".encode("euc-jp"),
            "no-such-charset",
            '<meta http-equiv="Content-Type" content="text/html; charset=euc-jp">日本',
        ),
        ("plain é".encode(), None, "plain é"),
        (b"", None, ""),
        (b"a\xffb", "utf-8", "a\ufffdb"),
    ],
)
def test_byte_order_mark_then_header_then_meta(body: bytes, declared: str | None, expected: str) -> None:
    """TOL-264: the first that says something decides; what does not fit is replaced, never an error."""
    assert decode(body, declared, html=True) == expected


@pytest.mark.parametrize("encoding", ["shift-jis", "euc-jp"])
def test_without_any_word_about_it_the_encoding_is_detected(encoding: str) -> None:
    """TOL-264: detection comes last."""
    assert decode(JAPANESE.encode(encoding), None, html=True) == JAPANESE


def test_only_html_declares_its_encoding_inside() -> None:
    """TOL-264: in other text it is text."""
    assert decode("<meta charset=cp1251> é".encode(), None, html=False) == "<meta charset=cp1251> é"


@pytest.mark.parametrize("name", ["punycode", "zlib", "rot13", "unicode_escape", "hex", "idna", "x" * 5000, "a\0b"])
def test_a_codec_that_is_no_charset_is_passed_over(name: str) -> None:
    """TOL-264: a page cannot choose a slow or transforming codec."""
    assert decode(rb"\u0041 text", name, html=True) == r"\u0041 text"
