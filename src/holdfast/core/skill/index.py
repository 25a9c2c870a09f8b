"""The index of a site that publishes skills, validated before any of its files is requested."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote, unquote_to_bytes

import msgspec

from holdfast.schema.pattern import pattern

VERSION_FILE = ".opencode-version"
SKILL_FILE = "SKILL.md"
MOST_SKILLS = 500
MOST_FILES = 500


class IndexEntry(msgspec.Struct, frozen=True):
    name: str
    files: Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_FILES)]
    version: Annotated[str, msgspec.Meta(max_length=200)] | None = None


class Index(msgspec.Struct, frozen=True):
    skills: Annotated[tuple[msgspec.Raw, ...], msgspec.Meta(max_length=MOST_SKILLS)]


def parse_index(body: bytes) -> tuple[list[IndexEntry], list[str]]:
    """The valid entries, and the problems of the others. Raises msgspec.DecodeError."""
    entries: dict[str, IndexEntry] = {}
    problems: list[str] = []
    for raw in msgspec.json.decode(body, type=Index).skills:
        try:
            entry = msgspec.json.decode(raw, type=IndexEntry)
            entries[entry.name] = checked(entry)
        except (msgspec.DecodeError, ValueError) as error:
            problems.append(str(error))
    return list(entries.values()), problems


def checked(entry: IndexEntry) -> IndexEntry:
    """Decode the escapes of its file names, so that a name on disk and in a URL is the same. Raises ValueError."""
    if entry.name in ("", ".", "..") or any(character in "/\\\0" for character in entry.name):
        raise ValueError(f"{entry.name[:80]!r} is not a valid skill name")
    files = tuple(dict.fromkeys(_checked_file(entry.name, file) for file in entry.files))
    if main_file(entry.name, files) is None:
        raise ValueError(f"{entry.name[:80]!r} has no {SKILL_FILE}")
    return msgspec.structs.replace(entry, files=files)


def main_file(name: str, files: tuple[str, ...]) -> str | None:
    return next((file for file in (SKILL_FILE, f"{name}.md") if file in files), None)


def path_in_url(name: str, file: str) -> str:
    return "/".join(quote(segment, safe="") for segment in (name, *file.split("/")))


def _checked_file(name: str, file: str) -> str:
    refused = ValueError(f"{name[:80]!r} lists the file {file[:80]!r}, which may be outside of the skill")
    if _SCHEME.match(file) or any(character in "\\\0?#" for character in file) or _BAD_ESCAPE.search(file):
        raise refused
    try:
        decoded = unquote_to_bytes(file).decode("utf-8")
    except UnicodeDecodeError:
        raise refused from None
    # An escaped separator would add a segment, an escaped percent sign another escape.
    if decoded.count("/") != file.count("/") or any(character in "\\\0%" for character in decoded):
        raise refused
    if any(segment in ("", ".", "..", VERSION_FILE) for segment in decoded.split("/")):
        raise refused
    return decoded


_SCHEME = pattern(r"[A-Za-z][A-Za-z0-9+.-]*:")
_BAD_ESCAPE = pattern(r"%(?![0-9A-Fa-f]{2})")
