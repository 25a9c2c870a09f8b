"""The provider of the offline models. It is not in the list of models: its models are used only by name."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.catalog.draft import ProviderEntry, new_model, new_provider
from holdfast.llm.offline import BASE_URL
from holdfast.schema.catalog import CacheCost, ModelCost, ModelInfo, ModelLimit, NativeApi

DEMO = "demo"


def _priced(id: str, name: str, limit: ModelLimit, input: float, output: float, cached: float) -> ModelInfo:
    """A model whose prices are like those of real ones, so that views of cost and cache have something to show."""
    price = ModelCost(input=input, output=output, cache=CacheCost(read=cached, write=0))
    return replace(new_model(DEMO, id), name=name, limit=limit, cost=(price,))


_MODELS = (
    new_model(DEMO, "echo"),
    new_model(DEMO, "scripted"),
    _priced("story", "Story", ModelLimit(context=64_000, output=8_000), 3.0, 15.0, 0.3),
    _priced("story-mini", "Story mini", ModelLimit(context=128_000, output=8_000), 0.25, 2.0, 0.025),
)

DEMO_ENTRY = ProviderEntry(
    replace(new_provider(DEMO), api=NativeApi(url=BASE_URL, settings={"timeout": False})),
    models={model.id: model for model in _MODELS},
)
