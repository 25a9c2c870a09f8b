"""Amazon Bedrock, with an API key or a signature, and the differences between its model families."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.llm.model import Capabilities
from holdfast.llm.protocols.bedrock_converse import BedrockConverse
from holdfast.llm.route.auth import Auth, KeyAuth
from holdfast.llm.route.aws_credentials import default_source, suffix
from holdfast.llm.route.route import Route
from holdfast.llm.route.sigv4 import CredentialSource, SigV4Auth
from holdfast.llm.route.transport import Timeouts
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

ID = "amazon-bedrock"
KEY_VARIABLES = ("AWS_BEARER_TOKEN_BEDROCK",)
DEFAULT_REGION = "us-east-1"


def bedrock_route(
    key: str | None = None,
    *,
    source: CredentialSource | None = None,
    environment: Mapping[str, str] | None = None,
    region: str | None = None,
    id: str = ID,
    base_url: str | None = None,
    headers: Mapping[str, str] | None = None,
    timeouts: Timeouts | None = None,
) -> Route:
    """The credential is `key`, then `source`, then the environment's. The region defaults to that of the credential."""
    environment = environment or {}
    source = source or default_source(environment)
    region = region or source.region or DEFAULT_REGION
    key = key or next((value for name in KEY_VARIABLES if (value := environment.get(name))), None)
    auth: Auth = KeyAuth(key) if key else SigV4Auth(source, region=region)
    return Route(
        id,
        BedrockConverse(),
        base_url or f"https://bedrock-runtime.{region}.{suffix(region)}",
        auth=auth,
        headers=tuple((headers or {}).items()),
        timeouts=timeouts or Timeouts(),
    )


def bedrock_capabilities(model_id: str) -> Capabilities:
    """Capabilities by model id. An unknown model gets no cache points, because they may be refused."""
    if "anthropic.claude" in model_id:
        adaptive = _ADAPTIVE.search(model_id) is not None
        return Capabilities(
            caching=_WITHOUT_CACHE.search(model_id) is None,
            sampling=not adaptive,
            thinking="adaptive" if adaptive else "enabled",
            native_json_with_tools=True,
        )
    if "amazon.nova" in model_id:
        return Capabilities(images="nova-micro" not in model_id, cache_points="after-text", reasoning_replay=True)
    return Capabilities(caching=False, reasoning_replay="minimax." in model_id)


_WITHOUT_CACHE = pattern(r"claude-(v2|instant|3-(opus|sonnet|haiku)|3-5-sonnet-20240620)")
# From Opus 4.7 on: no sampling controls, no thinking budget.
_ADAPTIVE = pattern(r"claude-(opus-4-([7-9]|\d\d)(?!\d)|(opus|sonnet|haiku|fable|mythos)-[5-9])")
