"""Runs a command's coroutine. A failure becomes one line on standard error and an exit code."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from holdfast.cli.output import printable

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from holdfast.embedded.holdfast import Holdfast

    Work = Callable[[Holdfast], Coroutine[Any, Any, int]]

FAILED = 1
INTERRUPTED = 130
YOUNG_OBJECTS = 50_000
"""New objects before a garbage collection once the modules are imported; see main.py."""


def execute(
    work: Coroutine[Any, Any, int],
    *,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    own_signals: bool = True,
    warnings: bool = False,
) -> int:
    """Run `work` and return its exit code. `own_signals` is false for work that handles Ctrl-C and SIGTERM itself.
    `warnings` also logs warnings about Sessions, for a command without a screen."""
    import asyncio

    configure_logging(warnings=warnings)
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(_interruptible(work) if own_signals else work)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if _is_expected(error):
            return fail(_message(error))
        raise


def run_on_host(work: Work, directory: str | None = None) -> NoReturn:
    """Open the runtime in this process, run `work` with it, and exit."""
    sys.exit(execute(on_host(work, directory)))


async def on_host(work: Work, directory: str | None = None) -> int:
    """Open the runtime in this process and run `work` with it. Work that another process left unfinished is not
    continued: this process ends too soon for that."""
    from holdfast.embedded.holdfast import Holdfast

    async with Holdfast(directory, preset="allow", recover=False) as host:
        return await work(host)


def started() -> None:
    """The modules are imported: garbage collections leave them out from now on, and are made more often."""
    import gc

    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)


def fail(message: str) -> int:
    """Print why the command failed, and return the exit code. Control characters of the message are escaped."""
    click.echo(f"holdfast: {printable(message)}", err=True)
    return FAILED


def _is_expected(error: Exception) -> bool:
    """Whether the error was raised by Holdfast for a person to read; any other is a defect."""
    return type(error).__module__.startswith("holdfast.")


def _message(error: Exception) -> str:
    from holdfast.client.generated.guards import is_session_not_found

    if is_session_not_found(error):
        session_id = error.body.get("sessionID")
        return f"No session {session_id} in this database. `holdfast sessions --all` lists the sessions."
    return str(error)


def configure_logging(*, warnings: bool = False) -> None:
    import logging

    logging.basicConfig(level=logging.ERROR, format="%(levelname)s: %(message)s")
    for level in (logging.WARNING, logging.ERROR):
        logging.addLevelName(level, logging.getLevelName(level).lower())
    for package in ("runner", "runtime", "session") if warnings else ():
        logging.getLogger(f"holdfast.core.{package}").setLevel(logging.WARNING)
    # A large database takes seconds to upgrade; that is shown, so that the command does not seem to hang.
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("holdfast: %(message)s"))
    for store in ("sqlite", "postgres"):
        upgrades = logging.getLogger(f"holdfast.core.database.{store}")
        upgrades.setLevel(logging.WARNING)
        upgrades.propagate = False
        if not upgrades.handlers:
            upgrades.addHandler(handler)


async def _interruptible(work: Coroutine[Any, Any, int]) -> int:
    """Ctrl-C, SIGTERM and SIGHUP cancel the command's task, so that its `async with` blocks close in order. Under nohup
    SIGHUP stays ignored."""
    import asyncio
    import signal

    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        return INTERRUPTED
