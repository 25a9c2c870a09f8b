"""A catalog of 3,000 models against a bare decode of its data. `make bench`.

Loading is lazy, and has a bound: the first model somebody asks for, and the list of one provider's models. The list of
all of them, which nobody needs for a turn, is shown beside it."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.catalog.catalog import Catalog
from holdfast.core.catalog.models_dev import BUNDLED, ModelsDev
from holdfast.core.config.config import Config
from holdfast.schema.model import ModelRef

if TYPE_CHECKING:
    from collections.abc import Callable

PROVIDERS, MODELS = 100, 30
ROUNDS = 15
BOUND = 3.0


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "models.json"
        path.write_bytes(_data())
        ratios = _measure(path)
    print(f"first model: {ratios['first']:.2f} times a bare decode")
    print(f"one provider's models: {ratios['one']:.2f} times")
    print(f"all {PROVIDERS * MODELS} models: {ratios['all']:.2f} times")
    print(f"all of them again: {ratios['again']:.2f} times")
    made = _seconds(lambda: Catalog(Config(), {}))
    print(f"a catalog that nobody uses: {made * 1e6:.0f} µs")
    if max(ratios["first"], ratios["one"]) > BOUND:
        sys.exit(f"loading takes more than {BOUND} times a bare decode")


def _measure(path: Path) -> dict[str, float]:
    data = path.read_bytes()
    environment = {"OPENCODE_MODELS_PATH": str(path), "KEY_7": "k"}
    everything = environment | {f"KEY_{number}": "k" for number in range(PROVIDERS)}
    bare = _seconds(lambda: msgspec.json.decode(data))

    def catalog(environment: dict[str, str] = environment) -> Catalog:
        return Catalog(Config(), environment, models=ModelsDev(None, environment))

    used = catalog(everything)
    chosen = ModelRef(id="model-3", provider_id="provider-7")
    work: dict[str, Callable[[], object]] = {
        "first": lambda: catalog().resolve("ses_1", chosen),
        "one": lambda: catalog().models(),
        "all": lambda: catalog(everything).models(),
        "again": lambda: used.models(),
    }
    return {name: _seconds(run) / bare for name, run in work.items()}


def _seconds(run: Callable[[], object]) -> float:
    run()
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def _data() -> bytes:
    """As many models as asked for, each as rich as those that come along."""
    samples = [
        model
        for provider in json.loads(BUNDLED.read_bytes()).values()
        if provider["npm"] == "@ai-sdk/openai"
        for model in provider["models"].values()
    ]
    return msgspec.json.encode(
        {
            f"provider-{p}": {
                "id": f"provider-{p}",
                "name": f"Provider {p}",
                "env": [f"KEY_{p}"],
                "npm": "@ai-sdk/openai-compatible",
                "api": f"https://provider-{p}.example/v1",
                "models": {f"model-{m}": {**samples[m % len(samples)], "id": f"model-{m}"} for m in range(MODELS)},
            }
            for p in range(PROVIDERS)
        }
    )


if __name__ == "__main__":
    main()
