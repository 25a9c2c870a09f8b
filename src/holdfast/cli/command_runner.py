"""Runs a command's coroutine and turns what can go wrong into one readable line and an exit code."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.output import printable

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

FAILED = 1
INTERRUPTED = 130


def execute(
    work: Coroutine[Any, Any, int],
    *,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    own_signals: bool = True,
    warnings: bool = False,
) -> int:
    """`own_signals` is false for work that handles Ctrl-C and SIGTERM itself. `warnings` shows what goes wrong in
    Sessions, for a command that nobody watches."""
    import asyncio
    import logging

    logging.basicConfig(level=logging.ERROR, format="%(levelname)s: %(message)s")
    for level in (logging.WARNING, logging.ERROR):
        logging.addLevelName(level, logging.getLevelName(level).lower())
    if warnings:
        for package in ("session", "runner", "runtime"):
            logging.getLogger(f"holdfast.core.{package}").setLevel(logging.WARNING)
    _show_upgrades()
    # The writer thread shares the interpreter with the loop; shorter turns let commits answer sooner.
    sys.setswitchinterval(0.0005)
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(_interruptible(work) if own_signals else work)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if type(error).__module__.startswith("holdfast."):
            return fail(str(error))
        raise


def _show_upgrades() -> None:
    """A large database takes seconds to upgrade; nobody should think that the command hangs."""
    import logging

    log = logging.getLogger("holdfast.core.database.sqlite")
    log.setLevel(logging.WARNING)
    log.propagate = False
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("holdfast: %(message)s"))
        log.addHandler(handler)


def fail(message: str) -> int:
    """Say what went wrong. Messages of providers, servers and files are among the reasons: they steer no terminal."""
    click.echo(f"holdfast: {printable(message)}", err=True)
    return FAILED


async def _interruptible(work: Coroutine[Any, Any, int]) -> int:
    """Ctrl-C, SIGTERM and the end of the terminal cancel the command's own task, so that its `async with` blocks close
    in order. Under nohup the terminal may go."""
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
