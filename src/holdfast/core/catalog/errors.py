"""Why no model can be used for a turn.

ServiceUnavailable
├── ModelNotSelected     no model was chosen and none is available
├── ModelUnavailable     the chosen model is not available here
├── VariantUnavailable   the chosen model has no such variant
└── UnsupportedApi       no protocol adapter reaches the chosen model
"""

from __future__ import annotations

from holdfast.schema.exceptions import ServiceUnavailable


class ModelNotSelected(ServiceUnavailable):
    """There is no model to use."""

    code = "SessionRunnerModel.ModelNotSelectedError"

    def __init__(self, session_id: str) -> None:
        super().__init__(
            "No model is available: set a provider key, or `model` and `provider` in opencode.json, "
            "or choose demo/echo, which needs neither",
            service="model",
        )
        self.session_id = session_id


class ModelUnavailable(ServiceUnavailable):
    """The chosen model cannot be used here."""

    code = "SessionRunnerModel.ModelUnavailableError"

    def __init__(self, provider_id: str, model_id: str, reason: str = "") -> None:
        because = f": {reason}" if reason else ""
        super().__init__(f"Model {provider_id}/{model_id} is not available{because}", service="model")
        self.provider_id = provider_id
        self.model_id = model_id


class VariantUnavailable(ServiceUnavailable):
    """The chosen model has no such variant."""

    code = "SessionRunnerModel.VariantUnavailableError"

    def __init__(self, provider_id: str, model_id: str, variant: str, known: tuple[str, ...]) -> None:
        has = f"it has {', '.join(known)}" if known else "it has none"
        super().__init__(f"Variant {variant} is not available for {provider_id}/{model_id}: {has}", service="model")
        self.provider_id = provider_id
        self.model_id = model_id
        self.variant = variant


class UnsupportedApi(ServiceUnavailable):
    """Nothing here speaks that provider's protocol."""

    code = "SessionRunnerModel.UnsupportedApiError"

    def __init__(self, provider_id: str, model_id: str, api: str, reason: str = "") -> None:
        detail = reason or "no adapter here speaks its protocol"
        super().__init__(f"Model {provider_id}/{model_id} cannot be reached by {api}: {detail}", service="model")
        self.provider_id = provider_id
        self.model_id = model_id
        self.api = api
