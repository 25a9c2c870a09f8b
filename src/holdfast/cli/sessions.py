"""`holdfast sessions`: what there is."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import click

from holdfast.cli.failure import execute
from holdfast.embedded.holdfast import Holdfast


def list_sessions(limit: int, *, everywhere: bool) -> int:
    return execute(_list(limit, everywhere))


async def _list(limit: int, everywhere: bool) -> int:
    here = str(Path.cwd().resolve())
    async with Holdfast() as hf:
        page = await hf.sessions.list(limit=limit, directory=None if everywhere else here)
    if not page.items:
        click.echo("no sessions" if everywhere else f"no sessions in {here}", err=True)
    for session in page.items:
        created = dt.datetime.fromtimestamp(session.time.created / 1000).astimezone()
        place = f"  {session.location.directory}" if everywhere else ""
        click.echo(f"{session.id}  {created:%Y-%m-%d %H:%M}  {session.title}{place}")
    return 0
