"""`holdfast restore`: makes a database of a backup."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.backup import described, run_blocking
from holdfast.cli.named_file import NamedFile

if TYPE_CHECKING:
    from holdfast.embedded.backup import BackupInfo


@click.command("restore", short_help="Make a database of a backup.")
@click.argument("file", type=NamedFile(dir_okay=False), metavar="FILE")
@click.option(
    "--with-access",
    is_flag=True,
    help="Also take over tokens, page sign-ins, approval links, saved approvals and what waits: for your own backups.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what is in it as JSON, and no progress.")
def command(file: str, with_access: bool, as_json: bool) -> None:
    """Make a database of a backup, in the data directory, where there is none.

    The backup is checked first. A database that is there is not replaced, and nothing is done while a process uses the
    directory. Work that was under way when the backup was made is shown as interrupted.

    A backup is a key: whoever made it could have put tokens and approvals into it. So these are left out, and requests
    that waited for an answer are closed, unless --with-access says that the backup is your own."""
    from holdfast.embedded.backup import restore

    run_blocking(
        lambda told: restore(Path(file), dict(os.environ), told, with_access=with_access),
        lambda info: f"restored {described(info)}; `holdfast doctor` checks it{_left_out(info)}",
        as_json,
    )


def _left_out(info: BackupInfo) -> str:
    if not info.left_out:
        return ""
    counts = ", ".join(f"{count:,} {name}" for name, count in info.left_out.items())
    return f"\nleft out: {counts}; a restore with --with-access takes them over"
