"""Repository addresses: `owner/name`, `host/owner/name`, a URL, or `user@host:path`."""

from __future__ import annotations

import re

from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

GITHUB = "github.com"


class Repository(Frozen):
    host: str
    segments: tuple[str, ...]
    remote: str | None
    """The address for git; None for `owner/name` on GitHub, whose base URL is configurable."""


def parse_repository(text: str) -> Repository:
    """Raises ValueError for text that git could take for an option, a program or a local file."""
    if match := _URL.fullmatch(text):
        return Repository(match[1].lower(), _segments(match[2]), text)
    if match := _SCP.fullmatch(text):
        return Repository(match[1].lower(), _segments(match[2]), text)
    if match := _HOST.fullmatch(text):
        return Repository(match[1].lower(), _segments(match[2]), f"https://{text}")
    if _SHORT.fullmatch(text):
        return Repository(GITHUB, _segments(text), None)
    raise ValueError("not a repository")


def remote(repository: Repository, github: str) -> str:
    return repository.remote or f"{github.rstrip('/')}/{'/'.join(repository.segments)}.git"


def protocols(address: str) -> tuple[str, ...]:
    """The protocols that git may use: the address's own, and https and ssh, which authenticate the server and to which
    users rewrite addresses (`url.….insteadOf`)."""
    scheme = address.partition("://")[0] if "://" in address else "ssh"
    return tuple(dict.fromkeys((scheme, "https", "ssh")))


def _segments(path: str) -> tuple[str, ...]:
    segments = tuple(path.strip("/").removesuffix(".git").split("/"))
    if not all(_SEGMENT.fullmatch(segment) and segment not in (".", "..") for segment in segments):
        raise ValueError("not a repository")
    return segments


_HOSTNAME = r"[A-Za-z0-9][A-Za-z0-9.-]*"
_URL = pattern(rf"(?:https?|ssh|git)://(?:[A-Za-z0-9._-]+@)?({_HOSTNAME})(?::\d+)?/(.+)", re.ASCII)
_SCP = pattern(rf"[A-Za-z0-9._-]+@({_HOSTNAME}):(.+)", re.ASCII)
_HOST = pattern(rf"({_HOSTNAME}\.[A-Za-z0-9-]+)/(.+/.+)", re.ASCII)
_SHORT = pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]*/[A-Za-z0-9_.][A-Za-z0-9_.-]*", re.ASCII)
_SEGMENT = pattern(r"[A-Za-z0-9_.~+][A-Za-z0-9_.~+-]*", re.ASCII)
