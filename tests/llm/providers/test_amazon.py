"""Amazon Bedrock: where a request goes, with which credential, and what a model's id tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.llm.errors import LLMError
from holdfast.llm.model import Capabilities, Model
from holdfast.llm.providers.amazon import bedrock_capabilities, bedrock_route
from holdfast.llm.request import make_request
from holdfast.llm.route.sigv4 import Credentials, FixedCredentials
from holdfast.llm.route.transport import HttpRequest, HttpResponse
from holdfast.llm.stream import generate, http_request, prepare

pytestmark = pytest.mark.anyio

NOVA = "us.amazon.nova-micro-v1:0"
EXAMPLE = Credentials("AKIDEXAMPLE", "secret")


class Unreachable:
    async def send(self, request: HttpRequest) -> HttpResponse:
        raise AssertionError("a request was sent")

    async def close(self) -> None:
        pass


def test_the_address_of_a_model() -> None:
    """LLM-290: region and percent-encoded id in the URL."""
    route = bedrock_route("key", region="eu-central-1")
    assert route.url(NOVA, None) == (
        "https://bedrock-runtime.eu-central-1.amazonaws.com/model/us.amazon.nova-micro-v1%3A0/converse-stream"
    )
    arn = "arn:aws:bedrock:us-east-1:1:inference-profile/x"
    assert route.url(arn, None).endswith(
        "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fx/converse-stream"
    )


@pytest.mark.parametrize(
    ("given", "environment", "expected"),
    [
        ("eu-west-1", {"AWS_REGION": "us-west-2"}, "eu-west-1.amazonaws.com"),
        (None, {"AWS_REGION": "us-west-2"}, "us-west-2.amazonaws.com"),
        (None, {"AWS_DEFAULT_REGION": "ap-south-1"}, "ap-south-1.amazonaws.com"),
        (None, {}, "us-east-1.amazonaws.com"),
        ("cn-north-1", {}, "cn-north-1.amazonaws.com.cn"),
    ],
)
def test_the_region_is_the_option_then_the_credentials_region_then_us_east_1(
    given: str | None, environment: dict[str, str], expected: str
) -> None:
    """LLM-290: the option, else the credentials' region, else `us-east-1`."""
    assert bedrock_route(region=given, environment=environment).base_url == f"https://bedrock-runtime.{expected}"


def test_the_region_of_fixed_credentials() -> None:
    """LLM-290."""
    assert "us-gov-west-1" in bedrock_route(source=FixedCredentials(EXAMPLE, "us-gov-west-1")).base_url


def test_a_bearer_key_comes_before_a_signature() -> None:
    """LLM-291."""
    named = bedrock_route("given", source=FixedCredentials(EXAMPLE))
    assert named.auth.headers("", {}, []) == {"authorization": "Bearer given"}
    found = bedrock_route(environment={"AWS_BEARER_TOKEN_BEDROCK": "found", "AWS_ACCESS_KEY_ID": "x"})
    assert found.auth.headers("", {}, []) == {"authorization": "Bearer found"}


async def test_neither_key_nor_credentials_is_refused_before_sending(tmp_path: Path) -> None:
    """LLM-291."""
    route = bedrock_route(environment={"HOME": str(tmp_path)})
    with pytest.raises(LLMError, match="AWS_ACCESS_KEY_ID") as caught:
        await generate(Unreachable(), Model(NOVA, "amazon-bedrock", route), make_request(prompt="hi"))
    assert caught.value.reason == "InvalidRequest"


def test_credentials_that_nobody_loaded_are_not_guessed() -> None:
    """LLM-341."""
    prepared = prepare(Model(NOVA, "amazon-bedrock", bedrock_route()), make_request(prompt="hi"))
    with pytest.raises(LLMError) as caught:
        http_request(prepared)
    assert (caught.value.reason, caught.value.kind) == ("Authentication", "missing")


def test_cache_points_are_used_only_for_models_that_take_them() -> None:
    """LLM-300: cache points are gated by model."""
    claude = Capabilities(native_json_with_tools=True)
    adaptive = claude.replace(sampling=False, thinking="adaptive")
    assert bedrock_capabilities("us.anthropic.claude-sonnet-4-5-20250929-v1:0") == claude
    assert bedrock_capabilities("anthropic.claude-3-sonnet-20240229-v1:0") == claude.replace(caching=False)
    assert bedrock_capabilities("global.anthropic.claude-opus-4-7") == adaptive
    assert bedrock_capabilities("us.anthropic.claude-opus-4-20250514-v1:0") == claude
    assert bedrock_capabilities("anthropic.claude-sonnet-5") == adaptive
    assert bedrock_capabilities(NOVA) == Capabilities(images=False, cache_points="after-text", reasoning_replay=True)
    assert bedrock_capabilities("meta.llama3-70b-instruct-v1:0") == Capabilities(caching=False)
