from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.core.web.site import Site, running_site

from holdfast.core.skill.downloads import SkillDownloads
from holdfast.core.skill.skill import SkillSource
from holdfast.core.skill.skills import Skills
from holdfast.core.web.fetch import Fetcher


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with running_site() as site:
        yield site


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first look waits for the site however slow this machine is."""
    monkeypatch.setattr("holdfast.core.skill.downloads.FIRST_SECONDS", 60.0)


class Time:
    """Seconds that pass when told to."""

    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def now() -> Time:
    return Time()


@pytest.fixture
async def downloads(tmp_path: Path, now: Time) -> AsyncIterator[SkillDownloads]:
    downloads = SkillDownloads(tmp_path / "cache", Fetcher(), now=now, pause=0.001)
    yield downloads
    await downloads.close()


@pytest.fixture
def sources() -> list[SkillSource]:
    return []


@pytest.fixture
def skills(sources: list[SkillSource], downloads: SkillDownloads) -> Skills:
    return Skills(lambda: sources, downloads)


def write_skill(
    path: Path, name: str | None = None, description: str | None = "about it", body: str = "Do it."
) -> Path:
    head = "".join(f"{key}: {value}\n" for key, value in (("name", name), ("description", description)) if value)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\n{head}---\n{body}", encoding="utf-8")
    return path


@pytest.fixture
def aged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stamp counts as old: what the reader would see some seconds later."""
    monkeypatch.setattr("holdfast.core.context.file_cache.SETTLED_NS", -1 << 62)


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that are opened or listed from now on."""
    seen: list[str] = []
    real_open, real_scan = os.open, os.scandir

    def open_(path: str, flags: int, *more: int, dir_fd: int | None = None) -> int:
        seen.append(str(path))
        return real_open(path, flags, *more, dir_fd=dir_fd)

    def scan(path: str) -> object:
        seen.append(str(path))
        return real_scan(path)

    monkeypatch.setattr("holdfast.core.skill.reader.os.open", open_)
    monkeypatch.setattr("holdfast.core.skill.reader.os.scandir", scan)
    return seen
