"""Makes the demonstration in a data directory, once or again, and removes what a run that broke off has made."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import aclosing, suppress
from itertools import count
from typing import TYPE_CHECKING

from holdfast.core.runtime.runtime import default_paths
from holdfast.embedded.demo.project import check_empty, make_project
from holdfast.embedded.demo.story import TITLE, Story
from holdfast.embedded.holdfast import Holdfast
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FOLDER = "holdfast-demo"


class Made(Frozen):
    directory: Path
    session_id: str
    """The Session that the story is about."""
    sessions: int
    existed: bool
    """Whether an earlier run made it."""


async def make_demo(directory: Path | None, show: Callable[[str], None], *, again: bool = False) -> Made:
    """Play the story in `directory`, by default in a folder of the data directory. What an earlier run made there is
    left alone and returned, unless `again` is true: then the next free folder is used. `show` is called with what
    happens next."""
    environment = dict(os.environ)
    chosen = directory or default_paths(environment).data / FOLDER
    if again:
        chosen = _free(chosen)
    elif chosen.exists() and (found := await _existing(chosen)) is not None:
        return found
    check_empty(chosen)
    try:
        await make_project(chosen, environment)
        return await _play(chosen, show)
    except BaseException:
        await asyncio.to_thread(shutil.rmtree, chosen, ignore_errors=True)
        raise


async def _play(directory: Path, show: Callable[[str], None]) -> Made:
    async with Holdfast(directory, preset="allow", recover=False) as host:
        story = Story(host, directory)
        try:
            async with aclosing(story.play()) as happenings:
                async for happening in happenings:
                    show(happening)
        except BaseException:
            for session in story.sessions:
                with suppress(HoldfastError):
                    await host.sessions.delete(session.id)
            raise
        return Made(directory, story.sessions[0].id, len(story.sessions), existed=False)


async def _existing(directory: Path) -> Made | None:
    async with Holdfast(directory, preset="allow", recover=False) as host:
        found = (await host.sessions.list(directory=str(directory.resolve()), limit=200)).items
        main = next((session for session in found if session.title == TITLE), None)
        return None if main is None else Made(directory, main.id, len(found), existed=True)


def _free(directory: Path) -> Path:
    """The directory, or the first with a number behind its name that does not exist."""
    if not directory.exists():
        return directory
    names = (directory.with_name(f"{directory.name}-{number}") for number in count(2))
    return next(path for path in names if not path.exists())
