"""Tells the user how to change a provider's credential: a command, or where the current one comes from.

Checks sources in the same order as `resolution`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.catalog import packages
from holdfast.core.credential.store import KeyValue
from holdfast.schema.catalog import KeyMethod

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.catalog.packages import Dialect
    from holdfast.core.catalog.resolution import CredentialSource
    from holdfast.schema.catalog import ProviderInfo


def credential_fix(
    provider: ProviderInfo, settings: Mapping[str, Any], dialect: Dialect, source: CredentialSource
) -> str:
    id = provider.integration_id or provider.id
    login = f"`holdfast auth login {id}`"
    if (stored := source.stored(id)) is not None:
        if isinstance(stored.value, KeyValue):
            return f"{login} replaces the stored key."
        return f"Connect {id} again: its stored sign-in is used."
    for name in ("apiKey", "authToken"):
        if isinstance(settings.get(name), str) and settings[name]:
            return f"The credential in use is options.{name} of the provider {provider.id} in the configuration."
    if dialect is packages.BEDROCK:
        return "Check the AWS credentials and their rights: AWS_PROFILE, AWS_ACCESS_KEY_ID or AWS_BEARER_TOKEN_BEDROCK."
    integration = source.find(id)
    takes_key = integration is not None and any(isinstance(method, KeyMethod) for method in integration.methods)
    if (variable := source.variable(id)) is not None:
        other = f", or store another key with {login}" if takes_key else ""
        return f"The key in use is the variable {variable.name}: correct it{other}."
    names = " or ".join(integration.variables) if integration is not None else ""
    if takes_key:
        return f"No key was sent: store one with {login}{f', or set {names}' if names else ''}."
    if names:
        return f"No key was sent: set {names}."
    return f"No key was sent: set options.apiKey of the provider {provider.id} in the configuration."
