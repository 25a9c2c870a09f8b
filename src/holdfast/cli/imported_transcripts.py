"""Tells what an import of conversations of OpenCode did."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

import click

from holdfast.cli.output import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.schema.transcript_import import TranscriptReport

SHOWN = 20
JSON_START = b"{"
DATABASE_START = b"SQLite format 3"
LOOKED_AT = 4096


def is_transcript(path: str) -> bool:
    """Whether it is a directory, JSON or a database. Bundles are compressed."""
    if os.path.isdir(path):
        return True
    try:
        with open(path, "rb") as file:
            return file.read(LOOKED_AT).lstrip().startswith((JSON_START, DATABASE_START))
    except OSError:
        return False


def show_transcripts(path: str, report: TranscriptReport, as_json: bool) -> None:
    from holdfast.schema.codec import encode_text

    if as_json:
        click.echo(encode_text(report))
        return
    outcomes = Counter(session.outcome for session in report.sessions)
    counts = [f"{outcomes[name]:,} {name}" for name in ("imported", "extended", "unchanged") if outcomes[name]]
    counts += [f"{len(report.refused):,} refused"] if report.refused else []
    total = len(report.sessions) + len(report.refused)
    events = sum(session.events for session in report.sessions)
    noun = "session" if total == 1 else "sessions"
    click.echo(printable(f"{path}: {total:,} {noun} ({', '.join(counts) or 'none'}), {events:,} new events"))
    for line in _notes(report):
        click.echo(printable(line), err=True)


def _notes(report: TranscriptReport) -> Iterator[str]:
    yield from _bounded([f"{refused.source}: {refused.problem}" for refused in report.refused])
    if report.empty:
        yield f"left out {report.empty:,} {'session' if report.empty == 1 else 'sessions'} without a message"
    renamed = [session for session in report.sessions if session.id != session.source_id]
    yield from _bounded([f"{session.source_id} is {session.id} here" for session in renamed])
    lost: Counter[str] = Counter()
    for session in report.sessions:
        lost.update(session.left_out)
    if lost:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(lost.items()))
        yield f"left out, because a session has no place for it: {kinds}"
    elsewhere = Counter(session.directory for session in report.sessions if not session.directory_exists)
    yield from _bounded(
        [f"there is no directory {name} here, where {count:,} of them are" for name, count in sorted(elsewhere.items())]
    )


def _bounded(lines: list[str]) -> list[str]:
    more = len(lines) - SHOWN
    return [*lines[:SHOWN], f"… and {more:,} more like the last one"] if more > 0 else lines
