"""How a repository is written: `owner/name`, `host/owner/name`, a URL, or `user@host:path`."""

from __future__ import annotations

import re

from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

GITHUB = "github.com"


class Repository(Frozen):
    host: str
    segments: tuple[str, ...]
    remote: str | None
    """What git is given; None for GitHub's `owner/name`, whose address may be configured."""


def parse_repository(text: str) -> Repository:
    """Raises ValueError for what git could take for an option, a program or a local file."""
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
    """Over which it may be fetched: its own, and the two that prove who answers, since users rewrite one to the other
    (`url.….insteadOf`)."""
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
