"""`holdfast verify`: checks bundles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.bundle_progress import BundleProgress
from holdfast.cli.command_runner import FAILED, fail, run_on_host
from holdfast.cli.named_file import NamedFile
from holdfast.cli.output import printable

if TYPE_CHECKING:
    from holdfast.embedded.holdfast import Holdfast


@click.command("verify")
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=NamedFile(exists=True, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print each report as a line of JSON, and no progress.")
def command(files: tuple[str, ...], as_json: bool) -> None:
    """Check every hash and every event of bundles.

    Nothing is imported. Exits with 1 if a bundle is damaged or has something that this version cannot import."""
    run_on_host(lambda host: _verify(host, files, as_json))


async def _verify(host: Holdfast, files: tuple[str, ...], as_json: bool) -> int:
    from holdfast.cli.export import described, notes
    from holdfast.schema.codec import encode_text
    from holdfast.schema.exceptions import InvalidRequest

    code = 0
    for file in files:
        progress = BundleProgress(shown=not as_json)
        try:
            report = await host.verify_bundle(file, told=progress.show)
        except InvalidRequest as error:
            progress.clear()
            fail(f"{file}: {error}")
            code = FAILED
            continue
        progress.clear()
        if as_json:
            click.echo(encode_text(report))
            continue
        click.echo(printable(f"{file} is whole: {described(report)}"))
        for line in notes(report):
            click.echo(printable(line), err=True)
    return code
