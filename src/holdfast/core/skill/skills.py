"""The skills of one Location. A list re-reads only files that changed."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from holdfast.core.skill.reader import SkillReader, find_below
from holdfast.core.skill.skill import DirectorySource, EmbeddedSource, Skill, SkillSource, UrlSource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.skill.downloads import SkillDownloads


class Skills:
    def __init__(
        self,
        sources: Callable[[], Sequence[SkillSource]],
        downloads: SkillDownloads,
        refusal: Callable[[DirectorySource, str], str | None] = lambda source, path: None,
    ) -> None:
        """`sources` returns the current sources, lowest priority first; `refusal` the reason for not using a file of
        one, if there is any."""
        self._sources = sources
        self._refusal = refusal
        self._downloads = downloads
        self._readers: dict[DirectorySource | UrlSource, SkillReader] = {}
        self._parts: tuple[tuple[Skill, ...], ...] = ()
        self._merged: tuple[Skill, ...] = ()

    @property
    def local(self) -> bool:
        """Whether no source is a URL, so that `list` never waits for the network."""
        return not any(isinstance(source, UrlSource) for source in self._sources())

    def forget(self) -> None:
        """Read every file anew at the next call: which files may be used has changed."""
        self._readers.clear()

    def current(self) -> tuple[Skill, ...] | None:
        """All skills, or None if a file must be read or a download awaited first."""
        parts: list[tuple[Skill, ...]] = []
        for source in self._sources():
            part = self._current(source)
            if part is None:
                return None
            parts.append(part)
        return self._merge(parts)

    async def list(self) -> tuple[Skill, ...]:
        """All skills; a later source overrides skills of the same name. The same tuple while nothing changes."""
        if (known := self.current()) is not None:
            return known
        sources = tuple(self._sources())
        self._readers = {source: self._reader(source) for source in sources if not isinstance(source, EmbeddedSource)}
        await asyncio.gather(
            *(self._downloads.first(source.url) for source in sources if isinstance(source, UrlSource))
        )
        return self._merge(await asyncio.to_thread(lambda: [self._read(source) for source in sources]))

    async def get(self, name: str) -> Skill | None:
        return next((skill for skill in await self.list() if skill.name == name), None)

    def _current(self, source: SkillSource) -> tuple[Skill, ...] | None:
        if isinstance(source, EmbeddedSource):
            return (source.skill,)
        if isinstance(source, UrlSource) and not self._downloads.ready(source.url):
            return None
        reader = self._readers.get(source)
        return reader.current() if reader is not None else None

    def _read(self, source: SkillSource) -> tuple[Skill, ...]:
        if isinstance(source, EmbeddedSource):
            return (source.skill,)
        reader = self._reader(source)
        known = reader.current()
        return reader.read() if known is None else known

    def _reader(self, source: DirectorySource | UrlSource) -> SkillReader:
        known = self._readers.get(source)
        if known is not None:
            return known
        if isinstance(source, DirectorySource):
            return SkillReader(lambda: find_below(source.path), partial(self._refusal, source))
        return SkillReader(lambda: self._downloads.find(source.url))

    def _merge(self, parts: Sequence[tuple[Skill, ...]]) -> tuple[Skill, ...]:
        if tuple(parts) != self._parts:
            self._parts = tuple(parts)
            self._merged = tuple({skill.name: skill for part in parts for skill in part}.values())
        return self._merged
