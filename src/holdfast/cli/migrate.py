"""`holdfast migrate`: moves all sessions to another store."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.command_runner import INTERRUPTED, configure_logging, fail
from holdfast.cli.output import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.embedded.transfer import Cancelled, Migrated, Progress

SHOWN_SECONDS = 0.2
FILE_NAME = "holdfast.db"
GO_ON = "Run the same command again to go on, or `holdfast migrate --cancel` to use the source again."


def _without_password(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    from holdfast.embedded.storage import has_password

    if value is not None and not value.startswith("sqlite:") and has_password(value):
        raise click.BadParameter(
            "other users see the arguments of a process; put the password into a password file or PGPASSWORD",
        )
    return value


@click.command("migrate")
@click.option(
    "--to",
    metavar="ADDRESS",
    callback=_without_password,
    help="The new store: postgresql://…, `sqlite` for the file in the data directory, or sqlite:///PATH.",
)
@click.option(
    "--from",
    "source",
    metavar="ADDRESS",
    callback=_without_password,
    help="The store to move from.  [default: the one that holdfast uses]",
)
@click.option("--cancel", is_flag=True, help="Use a store again that was moved from; empty an incomplete copy.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, and no progress.")
def command(to: str | None, source: str | None, cancel: bool, as_json: bool) -> None:
    """Move all sessions to another store.

    Copies everything to an empty store, compares it with the source event by event, and leaves the source read-only. No
    server may run on either. The same command goes on with a copy that was interrupted.

    Credentials, outputs of tools and other files stay in the data directory."""
    if (to is None) != cancel:
        raise click.UsageError("Give either --to ADDRESS or --cancel.")
    environment = dict(os.environ)
    configure_logging()
    with ended_by_signals():
        if to is None:
            sys.exit(_cancel(source, environment, as_json))
        sys.exit(_migrate(to, source, environment, as_json))


def _migrate(to: str, source: str | None, environment: dict[str, str], as_json: bool) -> int:
    from holdfast.embedded.transfer import TransferDiffers, migrate
    from holdfast.schema.exceptions import HoldfastError

    screen = ProgressLine(shown=sys.stderr.isatty() and not as_json)
    try:
        done = migrate(to, source, environment, screen.show)
    except HoldfastError as error:
        screen.clear()
        code = fail(str(error))
        if screen.begun and not isinstance(error, TransferDiffers):
            click.echo(f"what was copied stays. {GO_ON}", err=True)
        return code
    except KeyboardInterrupt:
        screen.clear()
        click.echo(f"interrupted; what was copied stays. {GO_ON}", err=True)
        return INTERRUPTED
    screen.clear()
    if as_json:
        _print_json({**_fields(done.stores), "data": done.data, "files": list(done.files)})
    else:
        _print_result(done, to)
    return 0


def _cancel(source: str | None, environment: dict[str, str], as_json: bool) -> int:
    from holdfast.embedded.transfer import cancel
    from holdfast.schema.exceptions import HoldfastError

    try:
        done = cancel(source, environment)
    except HoldfastError as error:
        return fail(str(error))
    if done is None:
        return fail("nothing to cancel: the store is neither the source of a move nor an incomplete copy")
    if as_json:
        _print_json(_fields(done))
        return 0
    for line in _cancelled_lines(done):
        click.echo(printable(line))
    return 0


def _cancelled_lines(done: Cancelled) -> Iterator[str]:
    if done.emptied:
        yield f"{done.store} was an incomplete copy of {done.other}; it is empty now"
    else:
        yield f"{done.store} can be used again"
        if done.copied:
            yield f"{done.other} has the same sessions: use one of the two, they are not kept equal"
        else:
            yield f"{done.other} may hold an incomplete copy; `holdfast migrate --cancel --from …` empties it"


def _print_result(done: Migrated, to: str) -> None:
    stores = done.stores
    counts = f"{stores.sessions:,} sessions with {stores.events:,} events"
    rate = f", {stores.copied / stores.seconds:,.0f} rows per second" if stores.copied and stores.seconds else ""
    click.echo(printable(f"moved {counts} from {stores.source} to {stores.target} ({stores.seconds:.1f} s{rate})"))
    click.echo("everything there was compared with the source, which is read-only now")
    if done.files:
        click.echo(printable(f"these files stay in {done.data}: {', '.join(done.files)}"))
    if to.startswith("sqlite:"):
        folder, name = os.path.split(stores.target)
        if name == FILE_NAME:
            click.echo(printable(f"to use it: HOLDFAST_DATABASE=sqlite HOLDFAST_DATA={shlex.quote(folder)}"))
        else:
            click.echo(
                f"to use it: name it {FILE_NAME}, and set HOLDFAST_DATABASE=sqlite and HOLDFAST_DATA to its folder"
            )
    else:
        click.echo(printable(f"to use it: HOLDFAST_DATABASE={to}, or holdfast.storage.url in your configuration"))


def _fields(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def _print_json(document: dict[str, Any]) -> None:
    import json

    click.echo(json.dumps(document))


class ProgressLine:
    """One line on standard error that is written over."""

    def __init__(self, *, shown: bool) -> None:
        self.begun = False
        """Whether something was copied or compared."""
        self._shown = shown
        self._began = time.monotonic()
        self._next = 0.0
        self._width = 0

    def show(self, progress: Progress) -> None:
        self.begun = True
        now = time.monotonic()
        if not self._shown or now < self._next:
            return
        self._next = now + SHOWN_SECONDS
        rate = progress.copied / max(now - self._began, 0.001)
        what = "events" if progress.table == "event" else f"rows of {progress.table}"
        line = f"{progress.phase} {progress.rows:,} of {progress.all_rows:,} {what}"
        if progress.phase == "copying":
            line += f" ({progress.sessions:,} sessions, {rate:,.0f} rows per second)"
        self._write(line)

    def clear(self) -> None:
        if self._width:
            self._write("")
            sys.stderr.write("\r")
            sys.stderr.flush()
            self._width = 0

    def _write(self, line: str) -> None:
        sys.stderr.write("\r" + line.ljust(self._width))
        sys.stderr.flush()
        self._width = len(line)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and a closed terminal end the command as Ctrl-C does."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {}
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            before[number] = signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
