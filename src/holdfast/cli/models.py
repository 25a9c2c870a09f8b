"""`holdfast models`: lists the models that can be used in the current directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.command_runner import fail, run_on_host
from holdfast.cli.output import json_option, print_json, print_table

if TYPE_CHECKING:
    from holdfast.embedded.holdfast import Holdfast
    from holdfast.schema.catalog import ModelInfo
    from holdfast.schema.model import ModelRef

COLUMNS = ("", "MODEL", "NAME", "CONTEXT", "OUTPUT", "$/M IN", "$/M OUT", "VARIANTS")
NUMBERS = ("CONTEXT", "OUTPUT", "$/M IN", "$/M OUT")


@click.command("models", short_help="List the models that can be used here.")
@click.argument("provider", required=False)
@click.option("--refresh", is_flag=True, help="First fetch the newest list of models.")
@json_option
def command(provider: str | None, refresh: bool, as_json: bool) -> None:
    """List the models that can be used here, of PROVIDER or of all providers.

    A star marks the model of a session for which none was chosen."""
    run_on_host(lambda host: _list(host, provider, refresh, as_json))


async def _list(host: Holdfast, provider: str | None, refresh: bool, as_json: bool) -> int:
    if refresh and not await host.refresh_models():
        click.echo("no newer list of models was fetched; this is the stored one", err=True)
    usable = (await host.models.list()).data
    default = await host.default_model()
    models = [model for model in usable if provider in (None, model.provider_id)]
    if provider is not None and not models:
        others = ", ".join(sorted({model.provider_id for model in usable})) or "none"
        return fail(f"No model of {provider} can be used here. Providers with usable models: {others}.")
    if as_json:
        print_json(models)
    elif models:
        print_table(COLUMNS, (_row(model, default) for model in models), right=NUMBERS)
    else:
        click.echo("no provider is connected; `holdfast auth login PROVIDER` connects one", err=True)
    return 0


def _row(model: ModelInfo, default: ModelRef | None) -> tuple[str, ...]:
    is_default = default is not None and (default.provider_id, default.id) == (model.provider_id, model.id)
    base = next((cost for cost in model.cost if cost.tier is None), None)
    return (
        "*" if is_default else "",
        f"{model.provider_id}/{model.id}",
        model.name if model.status == "active" else f"{model.name} ({model.status})",
        f"{model.limit.context:,}" if model.limit.context else "",
        f"{model.limit.output:,}" if model.limit.output else "",
        f"{base.input:g}" if base else "",
        f"{base.output:g}" if base else "",
        " ".join(variant.id for variant in model.variants),
    )
