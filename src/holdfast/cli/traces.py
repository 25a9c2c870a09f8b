"""`holdfast traces`: exports traces of stored sessions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from holdfast.cli.command_runner import run_on_host
from holdfast.cli.completion import complete
from holdfast.cli.output import printable
from holdfast.cli.session_choice import session_of
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from holdfast.embedded.holdfast import Holdfast


@click.group("traces")
def command() -> None:
    """Export OpenTelemetry traces of sessions."""


@command.command("export")
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION…", shell_complete=complete("sessions"))
@click.option(
    "--endpoint",
    metavar="URL",
    help="The collector, such as http://127.0.0.1:4318.  [default: the configured one]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the spans as JSON, one activity in a line; send nothing.")
def export(sessions: tuple[str, ...], endpoint: str | None, as_json: bool) -> None:
    """Send the traces of sessions, each with its whole tree, to a collector that takes OTLP over HTTP.

    Traces are made from the stored events: the same session always gives the same traces, with the same ids. They have
    names, times and numbers, and no text."""
    if endpoint is not None and as_json:
        raise click.UsageError("--json sends nothing; leave it or --endpoint out")
    if endpoint is not None and _ADDRESS.fullmatch(endpoint) is None:
        raise click.BadParameter(
            f"{endpoint!r} is not an address; expected one such as http://127.0.0.1:4318", param_hint="--endpoint"
        )
    run_on_host(lambda host: _export(host, sessions, endpoint, as_json))


async def _export(host: Holdfast, sessions: tuple[str, ...], endpoint: str | None, as_json: bool) -> int:
    from holdfast.schema.codec import encode_text

    ids = [await session_of(host, name) for name in sessions]
    if as_json:
        async for found in host.traces(*ids):
            click.echo(encode_text(found))
        return 0
    report = await host.export_traces(*ids, endpoint=endpoint)
    traces = "1 trace" if report.traces == 1 else f"{report.traces:,} traces"
    click.echo(printable(f"{traces} with {report.spans:,} spans sent to {report.endpoint}"))
    return 0


_ADDRESS = pattern(r"https?://[^/?#\s]+(/[^?#\s]*)?", re.IGNORECASE)
