"""`holdfast mcp`: lists, adds, removes and tries the MCP servers of the current directory."""

from __future__ import annotations

import os
import sys
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.command_runner import FAILED, execute, fail
from holdfast.cli.help import HelpfulGroup
from holdfast.cli.mcp_serve import serve
from holdfast.cli.output import json_option, one_line, print_json, print_table, printable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.embedded.mcp_config import McpConfigFile
    from holdfast.schema.location import Location
    from holdfast.schema.mcp import McpCallResult, McpServer

    Work = Callable[[AsyncClient, Location], Awaitable[int]]

POLL_SECONDS = 0.05
FOLLOW_SECONDS = 0.5
ARGUMENT_BYTES = 4 * 1024 * 1024


@click.group("mcp", cls=HelpfulGroup)
def command() -> None:
    """Servers of the Model Context Protocol."""


command.add_command(serve)


@command.command("list")
@click.option(
    "--wait", "seconds", type=click.FloatRange(0, 600), default=5.0, show_default=True, metavar="SECONDS",
    help="How long to wait for servers that are being started.",
)  # fmt: skip
@json_option
def list_servers(seconds: float, as_json: bool) -> None:
    """List the servers, with their state, the number of their tools, and why one cannot be used."""
    _run(lambda client, here: _list(client, here, seconds, as_json))


@command.command(context_settings={"ignore_unknown_options": False})
@click.argument("name")
@click.argument("target", nargs=-1, required=True)
@click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Sent to URL. May be repeated.")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="For the command. May be repeated.")
@click.option("--project", is_flag=True, help="Write to opencode.json of this directory instead of your own.")
def add(name: str, target: Sequence[str], headers: Sequence[str], variables: Sequence[str], project: bool) -> None:
    """Add a server to a configuration file: a URL, or a command after --.

    \b
      holdfast mcp add docs https://mcp.example.com/mcp
      holdfast mcp add memory -- npx -y @modelcontextprotocol/server-memory

    Write {env:NAME} for a value that is in your environment, so that it is not in the file. A command starts in the
    directory of a project once that is trusted (`holdfast trust`), before in an empty one."""
    config = _configuration(target, headers, variables)
    file = _file(project)
    with _told():
        file.add(name, config)
    click.echo(f"added {printable(name)} to {printable(str(file.path))}", err=True)
    if project:
        click.echo("a project's servers are used once it is trusted: `holdfast trust`", err=True)


@command.command()
@click.argument("name")
@click.option("--project", is_flag=True, help="Remove it from opencode.json of this directory.")
def remove(name: str, project: bool) -> None:
    """Remove a server from a configuration file. Its sign-in stays: `holdfast auth logout mcp:NAME` removes that."""
    file = _file(project)
    with _told():
        removed = file.remove(name)
    if not removed:
        other = "" if project else "; --project looks into that of this directory"
        sys.exit(fail(f"{file.path} has no MCP server {name}{other}"))
    click.echo(f"removed {printable(name)} from {printable(str(file.path))}", err=True)


@command.command()
@click.argument("name")
def connect(name: str) -> None:
    """Start a server, also a disabled one, and tell what became of it. A running `holdfast serve` stays connected."""
    _run(lambda client, here: _connect(client, here, name))


@command.command()
@click.argument("name")
def disconnect(name: str) -> None:
    """Close a server of the running `holdfast serve`; it is not used until it is connected or the process restarts."""
    _run(lambda client, here: _disconnect(client, here, name), elsewhere=True)


@command.command()
@click.argument("name")
@click.option("--paste", is_flag=True, help="The browser is elsewhere: paste the address that it was sent to.")
def login(name: str, paste: bool) -> None:
    """Sign in to a remote server with a browser: the same as `holdfast auth login mcp:NAME`."""
    from holdfast.cli import auth

    context = click.get_current_context()
    context.invoke(auth.login, provider=f"mcp:{name}", label=None, paste=paste)


@command.command()
@click.argument("name")
@click.option("--follow", "-f", is_flag=True, help="Go on with what is added, until Ctrl-C.")
def logs(name: str, follow: bool) -> None:
    """Print what a server wrote to standard error, its log messages and its changes of state."""
    _run(lambda client, here: _logs(client, here, name, follow))


@command.command()
@click.argument("name")
@click.argument("tool")
@click.argument("arguments", required=False, metavar="[JSON]")
@json_option
def call(name: str, tool: str, arguments: str | None, as_json: bool) -> None:
    """Call TOOL of the server NAME with a JSON object of arguments; - reads it from standard input.

    Nobody is asked for permission, and a server that asks a person for something gets no answer."""
    given = _arguments(arguments)
    _run(lambda client, here: _call(client, here, name, tool, given, as_json))


def _run(work: Work, *, elsewhere: bool = False) -> None:
    """With the server that runs on the same data, or in this process, unless it makes sense `elsewhere` only."""
    sys.exit(execute(_on_client(work, elsewhere)))


async def _on_client(work: Work, elsewhere: bool) -> int:
    from holdfast.cli.remote import find_server
    from holdfast.schema.location import Location

    async with AsyncExitStack() as stack:
        found = await find_server(stack)
        if found is not None:
            client: AsyncClient = found.client
        elif elsewhere:
            return fail("No `holdfast serve` runs on this data, so nothing is connected.")
        else:
            from holdfast.embedded.holdfast import Holdfast

            client = await stack.enter_async_context(Holdfast(None, preset="allow", recover=False, protect=True))
        return await work(client, Location(directory=os.path.realpath(os.getcwd())))


async def _list(client: AsyncClient, here: Location, seconds: float, as_json: bool) -> int:
    servers = await _settled(client, here, seconds)
    if as_json:
        print_json(servers)
    elif servers:
        rows = ((found.name, found.state, found.tools, _remarks(found)) for found in servers)
        print_table(("SERVER", "STATE", "TOOLS", "REMARKS"), rows, right=("TOOLS",))
    else:
        click.echo("no MCP server is configured; `holdfast mcp add` adds one", err=True)
    return 0


async def _settled(client: AsyncClient, here: Location, seconds: float) -> list[McpServer]:
    """The servers, when none is being started any more."""
    import asyncio

    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while True:
        servers = list((await client.mcp.list(location=here)).data)
        if loop.time() >= end or not any(found.state in ("configured", "starting") for found in servers):
            return servers
        await asyncio.sleep(POLL_SECONDS)


def _remarks(server: McpServer) -> str:
    problems = server.problems or ()
    found = [server.error] if server.error else []
    if server.state == "needs_auth":
        found = [f"sign in with `holdfast mcp login {server.name}`"]
    if server.state == "known":
        found = ["started when it is called"]
    if server.directory_reason is not None and server.state != "disabled":
        found.append(f"starts in an empty directory: {server.directory_reason} (`holdfast trust`)")
    if problems:
        found.append(
            problems[0] if len(problems) == 1 else f"{problems[0]} (and {len(problems) - 1} more, see its log)"
        )
    return "; ".join(found)


async def _connect(client: AsyncClient, here: Location, name: str) -> int:
    await client.mcp.connect(name, location=here)
    found = next(one for one in (await client.mcp.list(location=here)).data if one.name == name)
    if found.state == "connected":
        click.echo(f"connected: {found.tools or 0} tools, protocol version {printable(found.version or '')}")
        return 0
    return fail(f"{name}: {_remarks(found) or found.state}")


async def _disconnect(client: AsyncClient, here: Location, name: str) -> int:
    await client.mcp.disconnect(name, location=here)
    click.echo(f"disconnected {printable(name)}", err=True)
    return 0


async def _logs(client: AsyncClient, here: Location, name: str, follow: bool) -> int:
    import asyncio

    part = (await client.mcp.log(name, location=here)).data
    while True:
        click.echo(printable(part.text), nl=False)
        if not follow:
            return 0
        sys.stdout.flush()
        await asyncio.sleep(FOLLOW_SECONDS)
        part = (await client.mcp.log(name, position=part.position or None, location=here)).data


async def _call(
    client: AsyncClient, here: Location, name: str, tool: str, arguments: dict[str, Any], as_json: bool
) -> int:
    result = (await client.mcp.call(name, tool=tool, arguments=arguments, location=here)).data
    if as_json:
        print_json(result)
    else:
        _print_result(result)
    return FAILED if result.is_error else 0


def _print_result(result: McpCallResult) -> None:
    for part in result.content:
        if part.get("type") == "text":
            click.echo(printable(str(part.get("text", ""))))
        else:
            click.echo(one_line(f"[{part.get('type')} {part.get('mimeType') or part.get('uri') or ''}]"))
    if not result.content and result.structured_content is not None:
        print_json(result.structured_content)


def _file(project: bool) -> McpConfigFile:
    from holdfast.embedded.mcp_config import McpConfigFile

    return McpConfigFile(Path.cwd() if project else None)


@contextmanager
def _told() -> Iterator[None]:
    """A file that is not changed ends the command with the reason."""
    from holdfast.embedded.mcp_config import ConfigNotChanged

    try:
        yield
    except ConfigNotChanged as error:
        sys.exit(fail(str(error)))


def _configuration(target: Sequence[str], headers: Sequence[str], variables: Sequence[str]) -> dict[str, Any]:
    if len(target) == 1 and target[0].startswith(("https://", "http://")):
        if variables:
            raise click.UsageError("--env is for a command; a URL takes --header")
        named = {name: value for name, value in (_pair(text, ":", "--header") for text in headers)}
        return {"type": "remote", "url": target[0], **({"headers": named} if named else {})}
    if len(target) == 1 and "://" in target[0]:
        raise click.UsageError("the address of a server starts with https:// or http://")
    if headers:
        raise click.UsageError("--header is for a URL; a command takes --env")
    declared = {name: value for name, value in (_pair(text, "=", "--env") for text in variables)}
    return {"type": "local", "command": list(target), **({"environment": declared} if declared else {})}


def _pair(text: str, separator: str, option: str) -> tuple[str, str]:
    name, found, value = text.partition(separator)
    if not found or not name.strip():
        raise click.BadParameter(f"{text!r} has no {separator!r}", param_hint=option)
    return name.strip(), value.strip() if separator == ":" else value


def _arguments(text: str | None) -> dict[str, Any]:
    import json

    if text == "-":
        text = sys.stdin.read(ARGUMENT_BYTES)
    try:
        found = json.loads(text) if text else {}
    except ValueError as error:
        raise click.BadParameter(f"it is not JSON: {error}", param_hint="JSON") from None
    if not isinstance(found, dict):
        raise click.BadParameter("it is not a JSON object", param_hint="JSON")
    return found
