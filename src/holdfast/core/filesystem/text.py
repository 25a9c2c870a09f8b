"""Decodes and encodes file content: encodings with byte order marks, line endings, binary detection. Never decodes with
replacement characters, so text that is written back has the bytes that were read."""

from __future__ import annotations

import codecs

from holdfast.core.filesystem.errors import Unencodable
from holdfast.schema.frozen import Frozen

BOM = "\ufeff"
SAMPLE_BYTES = 64 * 1024


class Encoding(Frozen):
    name: str
    bom: bytes = b""


UTF8 = Encoding("utf-8")
UTF8_BOM = Encoding("utf-8", codecs.BOM_UTF8)
# UTF-32 before UTF-16: the mark of UTF-32-LE begins with that of UTF-16-LE.
BOM_ENCODINGS = (
    UTF8_BOM,
    Encoding("utf-32-le", codecs.BOM_UTF32_LE),
    Encoding("utf-32-be", codecs.BOM_UTF32_BE),
    Encoding("utf-16-le", codecs.BOM_UTF16_LE),
    Encoding("utf-16-be", codecs.BOM_UTF16_BE),
)
# Encodings that are guessed for files without a mark, most common first.
LEGACY = ["cp1252", "cp1250", "cp1251", "koi8_r", "cp1253", "cp1254", "cp1255", "cp1256"]
LEGACY += ["cp932", "euc_jp", "gb18030", "big5", "euc_kr"]


class Text(Frozen):
    content: str
    """Without the byte order mark."""
    encoding: Encoding

    def encode(self, content: str) -> bytes:
        """Encode other content likewise, with a byte order mark if this text had one; raises `Unencodable`."""
        return self.encoding.bom + _encode(content.lstrip(BOM), self.encoding.name)


def decode(data: bytes) -> Text | None:
    """None if no known encoding reproduces the bytes exactly."""
    encoding = bom_encoding(data)
    if encoding is not None:
        return _decode(data, encoding)
    return _decode(data, UTF8) or _guess(data)


def bom_encoding(data: bytes) -> Encoding | None:
    return next((encoding for encoding in BOM_ENCODINGS if data.startswith(encoding.bom)), None)


def encode_like(before: bytes | None, content: str) -> bytes:
    """Encode new content for a file: in the encoding of the old content if that was text, else in UTF-8. A byte order
    mark is kept, or taken from the content; never doubled."""
    old = decode(before) if before else None
    if old is not None and (old.encoding.bom or old.encoding.name != UTF8.name):
        return old.encode(content)
    bom = UTF8_BOM.bom if content.startswith(BOM) else b""
    return bom + _encode(content.lstrip(BOM), UTF8.name)


def is_binary(sample: bytes) -> bool:
    """Whether it has a NUL, a PDF header or many control characters. UTF-16 and UTF-32 with a mark are text."""
    encoding = bom_encoding(sample)
    if encoding is not None and encoding != UTF8_BOM:
        return False
    if b"\0" in sample or sample.startswith(b"%PDF"):
        return True
    return len(sample) - len(sample.translate(None, _CONTROL)) > len(sample) * 0.3


def guess_encoding(sample: bytes) -> str | None:
    """Guess the encoding of bytes that are not UTF-8. None if unknown, or if most of it is valid UTF-8."""
    if _is_broken_utf8(sample):
        return None
    from charset_normalizer import from_bytes

    matches = from_bytes(sample, cp_isolation=LEGACY)
    best = matches.best()
    if best is None:
        return None
    equals = [match for match in matches if (match.chaos, match.coherence) == (best.chaos, best.coherence)]
    western = any(LEGACY[0] in match.could_be_from_charset for match in equals)
    return LEGACY[0] if western else best.encoding


def to_lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def dominant_ending(text: str) -> str:
    """The ending of most lines; `\\n` if there are none."""
    crlf = text.count("\r\n")
    return "\r\n" if crlf > text.count("\n") - crlf else "\n"


def split_lines(text: str) -> list[tuple[str, str]]:
    """Lines and their endings; the last ending may be empty. Only `\\n` and `\\r\\n` end a line."""
    *lines, last = text.split("\n")
    ended = [(line[:-1], "\r\n") if line.endswith("\r") else (line, "\n") for line in lines]
    return [*ended, (last, "")] if last else ended


def stripped_ascii(line: str) -> str:
    """Replace typographic quotes, dashes, ellipses and spaces by ASCII, and strip white space."""
    return line.translate(_TYPOGRAPHY).strip()


def _encode(content: str, name: str) -> bytes:
    try:
        return content.encode(name)
    except UnicodeEncodeError as error:
        raise Unencodable(name, content[error.start]) from None


def _decode(data: bytes, encoding: Encoding) -> Text | None:
    try:
        content = data[len(encoding.bom) :].decode(encoding.name)
    except UnicodeDecodeError:
        return None
    return Text(content, encoding)


def _guess(data: bytes) -> Text | None:
    if is_binary(data[:SAMPLE_BYTES]):
        return None
    name = guess_encoding(data[:SAMPLE_BYTES])
    text = _decode(data, Encoding(name)) if name is not None else None
    try:
        exact = text is not None and text.encode(text.content) == data
    except Unencodable:
        return None
    return text if exact else None


def _is_broken_utf8(data: bytes) -> bool:
    text = data.decode("utf-8", "surrogateescape")
    foreign = sum(character > "\x7f" for character in text)
    broken = sum("\udc80" <= character <= "\udcff" for character in text)
    return foreign >= 2 * broken


_CONTROL = bytes([*range(9), *range(14, 32)])
_TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u02bc\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
        "\u2026": "...",
    }
)
