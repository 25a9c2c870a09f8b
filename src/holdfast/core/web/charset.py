"""Bytes of a page as text: byte order mark, then the declared charset, then the page's own, then detection."""

from __future__ import annotations

import codecs
import re

from holdfast.schema.pattern import pattern

SNIFF_BYTES = 4096
DETECT_BYTES = 64 * 1024


def decode(body: bytes, declared: str | None, *, html: bool) -> str:
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    named = _known(declared) or (_known(_declared_inside(body)) if html else None)
    if named is not None:
        return body.decode(named, "replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body.decode(_detected(body), "replace")


def _known(name: str | None) -> str | None:
    try:
        found = codecs.lookup(name or "").name
    except (LookupError, ValueError):
        return None
    return None if found in _NOT_FOR_PAGES else _AS_BROWSERS_DO.get(found, found)


def _declared_inside(body: bytes) -> str | None:
    found = _META.search(body[:SNIFF_BYTES])
    return found[1].decode("ascii") if found else None


def _detected(body: bytes) -> str:
    import charset_normalizer

    best = charset_normalizer.from_bytes(body[:DETECT_BYTES]).best()
    return (_known(best.encoding) if best is not None else None) or "utf-8"


_META = pattern(rb"<meta[^>]{1,512}?charset=[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_AS_BROWSERS_DO = {"iso8859-1": "cp1252", "ascii": "cp1252"}
# Codecs that are slow, that transform text, or that do not decode text.
_NOT_FOR_PAGES = frozenset(
    """
    punycode idna undefined unicode-escape raw-unicode-escape utf-7 base64 bz2 hex quopri rot-13 uu zlib
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
