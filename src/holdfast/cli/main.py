"""The `holdfast` program. Each command is a module that is imported when the command is called, and imports the rest
when it runs, so that `--help` needs click only."""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from importlib import import_module
from typing import Any, NoReturn

import click

from holdfast.cli.command_runner import INTERRUPTED, fail
from holdfast.cli.help import GroupedCommands
from holdfast.schema.version import __version__

STARTING_OBJECTS = 200_000
"""New objects before a garbage collection. Python's 700 means hundreds of collections while the modules are imported,
which find nothing and take a tenth of a cold start."""
SWITCH_SECONDS = 0.0005
"""How long a thread keeps the interpreter while another waits for it. The thread that writes to the database competes
with the event loop: with Python's 5 ms the time between two turns of a model is a tenth longer."""

DATABASE = "HOLDFAST_DATABASE"

HOME_UNKNOWN = "home directory"
"""In the text of the RuntimeError with which `pathlib` says that a user has no home."""
NO_HOME = "HOME is not set, and the system knows no home directory of user {user}. Set HOME to a directory of yours."

COMMANDS = (
    "run",
    "attach",
    "sessions",
    "usage",
    "context",
    "serve",
    "demo",
    "web",
    "models",
    "agents",
    "commands",
    "skills",
    "auth",
    "mcp",
    "acp",
    "config",
    "trust",
    "doctor",
    "migrate",
    "export",
    "import",
    "verify",
    "traces",
    "retention",
    "backup",
    "restore",
    "token",
    "audit",
    "completion",
)
MODULES = {"import": "import_bundle"}
"""Of commands whose names cannot be those of modules."""


def module_of(command: str) -> str:
    """The module of a command."""
    return f"holdfast.cli.{MODULES.get(command, command)}"


class Commands(GroupedCommands):
    """The commands of `COMMANDS`, which `holdfast --help` groups by use. Each module has its command under the name
    `command`."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        found: click.Command = import_module(module_of(name)).command
        _accept_database(found)
        return found

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run the command line and exit: with 130 after Ctrl-C at any moment, for which click itself has 1."""
        try:
            code = super().main(*args, **extra | {"standalone_mode": False})
        except (KeyboardInterrupt, click.Abort):
            click.echo("interrupted", err=True)
            code = INTERRUPTED
        except click.ClickException as error:
            from holdfast.cli.output import without_passwords

            shown = io.StringIO()
            error.show(shown)
            click.echo(without_passwords(shown.getvalue()), err=True, nl=False)
            code = error.exit_code
        sys.exit(code if isinstance(code, int) else 0)


def _choose_database(context: click.Context, option: click.Parameter, value: str | None) -> None:
    """Use this database in the whole process. A password is refused: all users of the machine see the arguments."""
    if value is None:
        return
    from holdfast.embedded.storage import has_password

    if has_password(value):
        raise click.BadParameter(
            f"other users see the arguments of a process; put the password into {DATABASE} or a password file",
            param_hint="--database",
        )
    os.environ[DATABASE] = value


def _database_option(*, hidden: bool) -> click.Option:
    return click.Option(
        ["--database"],
        metavar="ADDRESS",
        expose_value=False,
        is_eager=True,
        hidden=hidden,
        callback=_choose_database,
        help="The PostgreSQL database with the sessions, postgresql://…, or `sqlite` for the file in the data "
        f"directory.  [default: {DATABASE}, then the configuration]",
    )


def _accept_database(command: click.Command) -> None:
    """Let the option stand behind the name of the command too. It is listed once, in `holdfast --help`."""
    if any("--database" in parameter.opts for parameter in command.params):
        return
    command.params.append(_database_option(hidden=True))
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        _accept_database(below)


@click.group(
    cls=Commands,
    invoke_without_command=True,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="holdfast")
@click.option("-c", "--continue", "newest", is_flag=True, help="Open the newest session of this directory.")
@click.option("--session", metavar="SESSION", help="Open this session: its id, the beginning of it, or its title.")
@click.option("--new", is_flag=True, help="Begin a new session.")
@click.option("--fork", is_flag=True, help="Go on in a copy of the session.")
@click.option("--server", metavar="URL", help="Use the server at this address.")
@click.option("-m", "--model", metavar="PROVIDER/MODEL", help="The model of a new session.")
@click.option("--agent", metavar="NAME", help="The agent of a new session.")
@click.option("--theme", type=click.Choice(("dark", "light", "none")), help="The colours of the terminal.")
@click.option("--linear", is_flag=True, help="Print line by line, for screen readers and simple terminals.")
@click.pass_context
def cli(context: click.Context, /, newest: bool, **options: Any) -> None:
    """Durable agent sessions: nothing lost, nothing stuck, nothing repeated.

    Without a command, at a terminal: the interactive terminal, with the newest session of this directory."""
    given = [name for name, value in options.items() if value] + ["continue"] * newest
    if context.invoked_subcommand is not None:
        if given:
            raise click.UsageError(
                f"--{given[0]} is for `holdfast` without a command; put it behind the command's name"
            )
        return
    from holdfast.cli.attach import is_terminal, open_terminal

    if not is_terminal():
        click.echo(context.get_help(), err=True)
        sys.exit(2)
    if newest and (options["new"] or options["session"]):
        raise click.UsageError("--continue cannot be combined with --new or --session")
    if options["new"] and (options["session"] or options["fork"]):
        raise click.UsageError("--new cannot be combined with --session or --fork")
    sys.exit(open_terminal(**options))


cli.params.append(_database_option(hidden=False))


def main() -> None:
    gc.set_threshold(STARTING_OBJECTS)
    sys.setswitchinterval(SWITCH_SECONDS)
    _prepare_streams()
    try:
        cli(prog_name="holdfast")
    except OSError as error:
        sys.exit(_report(error))
    except RuntimeError as error:
        if HOME_UNKNOWN not in str(error):
            raise
        sys.exit(fail(NO_HOME.format(user=os.getuid())))
    finally:
        _discard_unwritable()


def _prepare_streams() -> None:
    """Open the null device in place of a closed standard stream: otherwise the next file that is opened would take its
    descriptor. Characters that the encoding of standard output lacks are escaped."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - as long as the process
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _report(error: OSError) -> int:
    """Print which file, directory or stream failed, and return the exit code. A closed terminal is an interruption."""
    streams = _discard_unwritable()
    if errno.EIO in streams.values():
        return INTERRUPTED
    where = error.filename or next(iter(streams), None)
    if where is None and not _current_directory_exists():
        where = "the current directory"
    reason = error.strerror or str(error)
    return fail(f"{where}: {reason}" if where else reason)


def _discard_unwritable() -> dict[str, int | None]:
    """Send to the null device what a standard stream cannot write; otherwise Python fails again at exit and replaces
    the exit code with 120. Returns the streams that failed, each with its error number."""
    failed: dict[str, int | None] = {}
    for stream, name in ((sys.stdout, "standard output"), (sys.stderr, "standard error")):
        try:
            stream.flush()
        except OSError as error:
            failed[name] = error.errno
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return failed


def _current_directory_exists() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True
