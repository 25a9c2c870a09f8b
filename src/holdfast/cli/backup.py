"""`holdfast backup`: copies the database to a file while others use it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.bundle_progress import BundleProgress
from holdfast.cli.command_runner import INTERRUPTED, configure_logging, fail
from holdfast.cli.migrate import ended_by_signals
from holdfast.cli.named_file import NamedFile
from holdfast.cli.output import moment, printable, size

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.embedded.backup import BackupInfo

    Work = Callable[[Callable[[str, int, int], None]], BackupInfo]

NOT_IN_IT = "not in it: credentials, configuration, file snapshots and isolated copies"


@click.command("backup", short_help="Copy all sessions to a file while servers run.")
@click.argument("file", type=NamedFile(dir_okay=False), metavar="FILE")
@click.option("--check", "only_check", is_flag=True, help="Check a backup instead of making one.")
@click.option("--json", "as_json", is_flag=True, help="Print what is in it as JSON, and no progress.")
def command(file: str, only_check: bool, as_json: bool) -> None:
    """Copy the database with all sessions to FILE, with the outputs of tools, while servers run.

    The file is there when it is complete; one that was there is replaced then. It is a SQLite database that contains
    everything that was said, and is not encrypted. Credentials, configuration, file snapshots and isolated copies are
    not in it. `holdfast restore FILE` makes a database of it."""
    from holdfast.embedded.backup import back_up, check

    if only_check:
        run_blocking(lambda told: check(Path(file), told), lambda info: f"{file} is whole: {described(info)}", as_json)
    run_blocking(
        lambda told: back_up(Path(file), dict(os.environ), told),
        lambda info: f"{file}: {described(info)}\n{NOT_IN_IT}",
        as_json,
    )


def run_blocking(work: Work, told: Callable[[BackupInfo], str], as_json: bool) -> None:
    """Run it with a line of progress, print what was done, and exit."""
    from holdfast.schema.exceptions import HoldfastError

    configure_logging()
    progress = BundleProgress(shown=not as_json, things="")
    try:
        with ended_by_signals():
            info = work(progress.show)
    except HoldfastError as error:
        progress.clear()
        sys.exit(fail(str(error)))
    except KeyboardInterrupt:
        progress.clear()
        click.echo("interrupted; nothing was written", err=True)
        sys.exit(INTERRUPTED)
    progress.clear()
    if as_json:
        from holdfast.schema.codec import encode_text

        click.echo(encode_text(info))
    else:
        click.echo(printable(told(info)))
    sys.exit(0)


def described(info: BackupInfo) -> str:
    return (
        f"{info.sessions:,} sessions with {info.events:,} events and {info.files:,} files of tools, "
        f"{size(info.bytes)}, made {moment(info.time)}"
    )
