"""The files of the page, with what a browser may keep of them.

All files of one version have paths below the hash of all of them, so that a browser keeps them for good and a page
never mixes two versions. Modules import each other by relative paths, which stay below it."""

from __future__ import annotations

import gzip
import re
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

from holdfast.schema.exceptions import NotFound
from holdfast.schema.frozen import Frozen
from holdfast.server.types import HttpReply
from holdfast.text.visible_text import BLANK, HIDDEN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable

    from holdfast.server.types import Headers

INDEX = "index.html"
MEDIA_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "png": "image/png",
    "svg": "image/svg+xml",
    "webmanifest": "application/manifest+json",
    "woff2": "font/woff2",
}
COMPRESSED = frozenset(("png", "woff2"))
"""Kinds of files that gzip does not make smaller."""
VERSION_CHARACTERS = 16
POLICY = (
    b"default-src 'self'; img-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    b"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types holdfast"
)
SECURITY: Headers = [
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"),
]
KEPT: Headers = [(b"cache-control", b"public, max-age=31536000, immutable")]
NOT_KEPT: Headers = [(b"cache-control", b"no-store")]

_REFERENCE = r'\b(src|href)="([^"#:?]+)"'


class _File(Frozen):
    data: bytes
    gzipped: bytes | None
    media_type: str
    etag: bytes


class Assets:
    def __init__(self, content: Mapping[str, bytes]) -> None:
        """`content` has the bytes of each file by its name."""
        self.version = _version(content)
        self._files = {name: _file(name, data) for name, data in content.items() if name != INDEX}
        self._index = self._versioned(content[INDEX].decode())

    @classmethod
    def packaged(cls) -> Assets:
        """Those that came with this version of Holdfast."""
        return cls(read_assets(files("holdfast.server.web") / "assets"))

    def index(self, *, auth: bool, signed_in: bool) -> HttpReply:
        """The document, which says whether the server needs a sign-in and whether the browser seems to have one."""
        state = (
            f'data-version="{self.version}" data-auth="{"required" if auth else "none"}" '
            f'data-signed-in="{"true" if signed_in else "false"}" '
            f'data-hidden="{_script_ranges(HIDDEN)}" data-blank="{_script_ranges(BLANK)}"'
        )
        document = self._index.replace("<html", f"<html {state}", 1)
        return HttpReply(200, document.encode(), MEDIA_TYPES["html"], [*SECURITY, *NOT_KEPT])

    def reply(self, version: str, name: str, headers: Mapping[str, str]) -> HttpReply:
        """Raises NotFound."""
        found = self._files.get(name) if version == self.version else None
        if found is None:
            raise NotFound("No such file of the page. Reload the page if the server was updated.")
        described = [*SECURITY, *KEPT, (b"etag", found.etag), (b"vary", b"Accept-Encoding")]
        if found.etag.decode() in headers.get("if-none-match", ""):
            return HttpReply(304, b"", headers=described)
        if found.gzipped is not None and _accepts_gzip(headers.get("accept-encoding", "")):
            return HttpReply(200, found.gzipped, found.media_type, [*described, (b"content-encoding", b"gzip")])
        return HttpReply(200, found.data, found.media_type, described)

    def _versioned(self, document: str) -> str:
        """The document with the versioned paths of its files. They are relative, so that the page can be mounted."""

        def path(found: re.Match[str]) -> str:
            attribute, name = found.groups()
            return f'{attribute}="web/assets/{self.version}/{name}"' if name in self._files else found[0]

        return re.sub(_REFERENCE, path, document)


def read_assets(folder: Traversable, prefix: str = "") -> dict[str, bytes]:
    """The files of a folder and of those in it, by their paths. Kinds that browsers are not served are left out."""
    found: dict[str, bytes] = {}
    for entry in folder.iterdir():
        if entry.is_dir():
            found |= read_assets(entry, f"{prefix}{entry.name}/")
        elif _kind(entry.name) in MEDIA_TYPES:
            found[f"{prefix}{entry.name}"] = entry.read_bytes()
    return found


def compressed(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)


def _script_ranges(ranges: str) -> str:
    """Ranges of characters as JavaScript writes them."""
    return re.sub(r"\\(?:x|u|U)([0-9a-f]+)", lambda code: f"\\u{{{code[1].lstrip('0') or '0'}}}", ranges)


def _version(content: Mapping[str, bytes]) -> str:
    digest = sha256()
    for name, data in sorted(content.items()):
        digest.update(f"{len(name)} {name} {len(data)} ".encode() + data)
    return digest.hexdigest()[:VERSION_CHARACTERS]


def _file(name: str, data: bytes) -> _File:
    kind = _kind(name)
    etag = f'"{sha256(data).hexdigest()[:VERSION_CHARACTERS]}"'.encode()
    return _File(data, compressed(data) if kind not in COMPRESSED else None, MEDIA_TYPES[kind], etag)


def _kind(name: str) -> str:
    return name.rpartition(".")[2].lower()


def _accepts_gzip(accepted: str) -> bool:
    """Whether the header names gzip, and not only to refuse it."""
    for choice in accepted.lower().split(","):
        name, _, quality = choice.partition(";")
        if name.strip() in ("gzip", "*"):
            return re.fullmatch(r"\s*q\s*=\s*0(\.0*)?\s*", quality) is None
    return False
