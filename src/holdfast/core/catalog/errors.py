"""What choosing a model can answer instead of one, besides ModelUnavailable and ModelNotSelected."""

from __future__ import annotations

from holdfast.core.session.errors import SessionError


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
