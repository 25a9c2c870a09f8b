"""What choosing a model can answer instead of one.

SessionError (core/refusal.py)
├── ModelNotSelected     no model was chosen and none is available
├── ModelUnavailable     the chosen model is not available here
├── VariantUnavailable   the chosen model has no such variant
└── UnsupportedApi       no protocol here speaks to it
"""

from __future__ import annotations

from holdfast.core.errors import SessionError


class ModelNotSelected(SessionError):
    """There is no model to use."""

    tag = "SessionRunnerModel.ModelNotSelectedError"

    def __init__(self, session_id: str) -> None:
        super().__init__(
            "No model is available: set a provider key, or `model` and `provider` in opencode.json, "
            "or choose demo/echo, which needs neither"
        )
        self.session_id = session_id


class ModelUnavailable(SessionError):
    """The chosen model cannot be used here."""

    tag = "SessionRunnerModel.ModelUnavailableError"

    def __init__(self, provider_id: str, model_id: str, reason: str = "") -> None:
        super().__init__(f"Model {provider_id}/{model_id} is not available{': ' if reason else ''}{reason}")
        self.provider_id = provider_id
        self.model_id = model_id


class VariantUnavailable(SessionError):
    """The chosen model has no such variant."""

    tag = "SessionRunnerModel.VariantUnavailableError"

    def __init__(self, provider_id: str, model_id: str, variant: str, known: tuple[str, ...]) -> None:
        has = f"it has {', '.join(known)}" if known else "it has none"
        super().__init__(f"Variant {variant} is not available for {provider_id}/{model_id}: {has}")
        self.provider_id = provider_id
        self.model_id = model_id
        self.variant = variant


class UnsupportedApi(SessionError):
    """Nothing here speaks that provider's protocol."""

    tag = "SessionRunnerModel.UnsupportedApiError"

    def __init__(self, provider_id: str, model_id: str, api: str, reason: str = "") -> None:
        detail = reason or "no adapter here speaks its protocol"
        super().__init__(f"Model {provider_id}/{model_id} cannot be reached by {api}: {detail}")
        self.provider_id = provider_id
        self.model_id = model_id
        self.api = api
