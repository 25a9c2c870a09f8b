"""`holdfast restore`: makes a database of a backup."""

from __future__ import annotations

import os
from pathlib import Path

import click

from holdfast.cli.backup import described, run_blocking
from holdfast.cli.named_file import NamedFile


@click.command("restore", short_help="Make a database of a backup.")
@click.argument("file", type=NamedFile(dir_okay=False), metavar="FILE")
@click.option("--json", "as_json", is_flag=True, help="Print what is in it as JSON, and no progress.")
def command(file: str, as_json: bool) -> None:
    """Make a database of a backup, in the data directory, where there is none.

    The backup is checked first. A database that is there is not replaced, and nothing is done while a process uses the
    directory. Work that was under way when the backup was made is shown as interrupted."""
    from holdfast.embedded.backup import restore

    run_blocking(
        lambda told: restore(Path(file), dict(os.environ), told),
        lambda info: f"restored {described(info)}; `holdfast doctor` checks it",
        as_json,
    )
