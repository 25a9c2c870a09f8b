"""Signatures against AWS's published answers and against a second implementation; and where keys come from."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
from tests.llm.aws_frames import event

from holdfast.llm.errors import LLMError
from holdfast.llm.model import Model
from holdfast.llm.providers.amazon import bedrock_route
from holdfast.llm.request import make_request
from holdfast.llm.route.auth import BoundAuth, KeyAuth, refresh
from holdfast.llm.route.aws_credentials import (
    ContainerCredentials,
    EnvironmentCredentials,
    ProfileCredentials,
    WebIdentityCredentials,
    default_source,
    fetch_url,
)
from holdfast.llm.route.network import NetworkTransport
from holdfast.llm.route.sigv4 import (
    FRESH,
    MARGIN,
    Credentials,
    CredentialSource,
    FixedCredentials,
    SigV4Auth,
    authorization,
    canonical_request,
)
from holdfast.llm.stream import generate

pytestmark = pytest.mark.anyio

EXAMPLE = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
SESSION = Credentials("AKIDSESSION", "secret", "the-session-token")
EMPTY = hashlib.sha256(b"").hexdigest()
MOMENT = 1440938160.0  # 2015-08-30 12:36:00 UTC
STAMP = "20150830T123600Z"
HOST = {"host": "example.amazonaws.com", "x-amz-date": STAMP}
NOVA = "us.amazon.nova-micro-v1:0"
BEDROCK = "https://bedrock-runtime.us-east-1.amazonaws.com"


# -- signing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "url", "expected"),
    [
        ("GET", "/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("POST", "/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        (
            "GET",
            "/?Param2=value2&Param1=value1",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        ("GET", "/\u1234", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"),
    ],
    ids=["get-vanilla", "post-vanilla", "get-vanilla-query-order-key-case", "get-utf8"],
)
def test_signatures_match_the_test_suite_of_aws(method: str, url: str, expected: str) -> None:
    """LLM-291: the answers of AWS's own test suite."""
    signed = authorization(
        method, f"https://example.amazonaws.com{url}", HOST, EMPTY, EXAMPLE, region="us-east-1", service="service"
    )
    assert signed == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        f"SignedHeaders=host;x-amz-date, Signature={expected}"
    )


def test_a_signed_form_post_matches_the_test_suite_of_aws() -> None:
    """LLM-291: `post-x-www-form-urlencoded` of the suite, where the body and its type are signed."""
    signed = authorization(
        "POST",
        "https://example.amazonaws.com/",
        {**HOST, "content-type": "application/x-www-form-urlencoded"},
        hashlib.sha256(b"Param1=value1").hexdigest(),
        EXAMPLE,
        region="us-east-1",
        service="service",
    )
    assert signed.endswith(
        "SignedHeaders=content-type;host;x-amz-date, "
        "Signature=ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"
    )


def test_a_signature_matches_the_documented_example_of_aws() -> None:
    """LLM-291: the worked example of AWS's general reference, with a query and another service."""
    signed = authorization(
        "GET",
        "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08",
        {
            "host": "iam.amazonaws.com",
            "content-type": "application/x-www-form-urlencoded; charset=utf-8",
            "x-amz-date": STAMP,
        },
        EMPTY,
        EXAMPLE,
        region="us-east-1",
        service="iam",
    )
    assert signed.endswith("Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7")


def test_an_encoded_path_is_encoded_again() -> None:
    """LLM-291: `%3A` on the wire is `%253A` in what is signed."""
    request = canonical_request("POST", f"{BEDROCK}/model/us.amazon.nova-micro-v1%3A0/converse-stream", HOST, EMPTY)
    assert request.splitlines()[1] == "/model/us.amazon.nova-micro-v1%253A0/converse-stream"


def test_header_values_lose_extra_spaces() -> None:
    signed = {**HOST, "my-header": "  a   b  "}
    assert "my-header:a b\n" in canonical_request("GET", "https://example.amazonaws.com/", signed, EMPTY)


def test_a_request_is_signed_over_what_is_sent() -> None:
    """LLM-291: the exact bytes, the content type, the date, and the token of session credentials."""
    auth = SigV4Auth(FixedCredentials(SESSION), region="us-west-2", now=lambda: MOMENT)
    url = f"{BEDROCK}/model/a%3Ab/converse-stream"
    added = auth.headers(url, {"content-type": "application/json", "x-session-id": "s"}, [b'{"a":', b"1}"])
    assert added == {
        "x-amz-date": STAMP,
        "x-amz-security-token": "the-session-token",
        "authorization": reference_signature(
            SESSION,
            f"POST {urlsplit(url).path}",
            {
                "host": "bedrock-runtime.us-east-1.amazonaws.com",
                "content-type": "application/json",
                "x-amz-date": STAMP,
                "x-amz-security-token": "the-session-token",
            },
            b'{"a":1}',
            region="us-west-2",
        ),
    }
    assert auth.secrets() == ("secret", "the-session-token")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Example.com:443/x", "example.com"),
        ("https://example.com:8443/x", "example.com:8443"),
        ("http://[::1]:80/x", "[::1]"),
    ],
)
def test_the_host_is_signed_with_its_port(url: str, host: str) -> None:
    auth = SigV4Auth(FixedCredentials(EXAMPLE), region="us-east-1", now=lambda: MOMENT)
    added = auth.headers(url, {"content-type": "application/json"}, [b"{}"])
    signed = {"host": host, "content-type": "application/json", "x-amz-date": STAMP}
    assert added["authorization"] == reference_signature(EXAMPLE, "POST /x", signed, b"{}")


async def test_the_path_travels_as_it_was_signed() -> None:
    """LLM-291: over a real connection, with a server that works out the signature from what arrives."""
    async with verifying_server() as (url, seen):
        route = bedrock_route(source=FixedCredentials(SESSION), base_url=url)
        transport = NetworkTransport()
        try:
            response = await generate(transport, Model(NOVA, "amazon-bedrock", route), make_request(prompt="hi"))
        finally:
            await transport.close()
    assert response.text == "Hello"
    assert seen == ["/model/us.amazon.nova-micro-v1%3A0/converse-stream"]


# -- refreshing --------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.time = MOMENT

    def __call__(self) -> float:
        return self.time


class Rotating:
    """New credentials at every load, each good for an hour unless told otherwise."""

    region = None

    def __init__(self, clock: Clock, lifetime: float | None = 3600.0) -> None:
        self._clock = clock
        self._lifetime = lifetime
        self.loads = 0
        self.gate: asyncio.Event | None = None
        self.failure: LLMError | None = None

    async def load(self) -> Credentials | None:
        self.loads += 1
        number = self.loads
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        expires = None if self._lifetime is None else self._clock.time + self._lifetime
        return Credentials(f"key{number}", f"secret{number}", None, expires)


def signer(source: CredentialSource, clock: Clock) -> SigV4Auth:
    return SigV4Auth(source, region="us-east-1", now=clock)


async def test_credentials_are_renewed_before_they_expire() -> None:
    """LLM-301."""
    clock = Clock()
    source = Rotating(clock)
    auth = signer(source, clock)
    await auth.refresh()
    clock.time += 3600.0 - MARGIN - 1
    await auth.refresh()
    assert (source.loads, auth.secrets()) == (1, ("secret1",))
    clock.time += 1
    await auth.refresh()
    assert (source.loads, auth.secrets()) == (2, ("secret2",))


async def test_credentials_without_an_expiry_are_looked_up_again() -> None:
    """LLM-301: a file may have been rewritten."""
    clock = Clock()
    source = Rotating(clock, lifetime=None)
    auth = signer(source, clock)
    await auth.refresh()
    clock.time += FRESH - 1
    await auth.refresh()
    assert source.loads == 1
    clock.time += 1
    await auth.refresh()
    assert auth.secrets() == ("secret2",)


async def test_requests_that_wait_share_one_load() -> None:
    clock = Clock()
    source = Rotating(clock)
    source.gate = asyncio.Event()
    auth = signer(source, clock)
    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(auth.refresh())
        await asyncio.sleep(0)
        source.gate.set()
    assert source.loads == 1


async def test_a_failed_renewal_does_not_end_what_is_still_valid() -> None:
    """LLM-301."""
    clock = Clock()
    source = Rotating(clock)
    auth = signer(source, clock)
    await auth.refresh()
    source.failure = LLMError("Transport", "no endpoint")
    clock.time += 3600.0 - 1
    await auth.refresh()
    assert auth.secrets() == ("secret1",)
    clock.time += 1
    with pytest.raises(LLMError, match="no endpoint"):
        await auth.refresh()


async def test_a_bound_credential_is_refreshed() -> None:
    clock = Clock()
    auth = BoundAuth(signer(Rotating(clock), clock), "https://h:443")
    await refresh(auth)
    await refresh(KeyAuth("key"))
    assert auth.secrets()[-1] == "secret1"


# -- sources -----------------------------------------------------------------------------------------------------


async def test_aws_keys_are_read_from_the_environment() -> None:
    """LLM-301."""
    both = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    assert await EnvironmentCredentials({**both, "AWS_SESSION_TOKEN": "t"}).load() == Credentials("a", "b", "t")
    assert await EnvironmentCredentials({**both, "AWS_SESSION_TOKEN": ""}).load() == Credentials("a", "b")
    assert await EnvironmentCredentials({"AWS_ACCESS_KEY_ID": "a"}).load() is None


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment whose home has both of AWS's files."""
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "credentials").write_text(
        "[default]\naws_access_key_id = a\naws_secret_access_key = b%c\n"
        "[base]\naws_access_key_id=base\naws_secret_access_key=secret\naws_session_token=token\n",
        encoding="utf-8",
    )
    (folder / "config").write_text(
        "[default]\nregion = eu-north-1\n"
        "[profile keys]\naws_access_key_id = k\naws_secret_access_key = s\nregion = us-west-1\n"
        "[profile role]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = base\nexternal_id = e\nregion = eu-west-3\n"
        "[profile loop]\nrole_arn = arn\nsource_profile = loop\n"
        "[profile sso]\nsso_start_url = https://example.com\n",
        encoding="utf-8",
    )
    return {"HOME": str(tmp_path)}


async def test_profiles_of_the_shared_files(home: dict[str, str]) -> None:
    """LLM-301: the default profile, one by name, keys from either file, and the region beside them."""
    default = ProfileCredentials(home, nowhere)
    assert (await default.load(), default.region) == (Credentials("a", "b%c"), "eu-north-1")
    named = ProfileCredentials({**home, "AWS_PROFILE": "keys"}, nowhere)
    assert (await named.load(), named.region) == (Credentials("k", "s"), "us-west-1")
    assert await ProfileCredentials(home, nowhere, "base").load() == Credentials("base", "secret", "token")


async def test_the_places_of_the_shared_files(home: dict[str, str], tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("[default]\naws_access_key_id=x\naws_secret_access_key=y\n", encoding="utf-8")
    moved = {**home, "AWS_SHARED_CREDENTIALS_FILE": str(other), "AWS_CONFIG_FILE": str(tmp_path / "absent")}
    source = ProfileCredentials(moved, nowhere)
    assert (await source.load(), source.region) == (Credentials("x", "y"), None)
    assert await ProfileCredentials({}, nowhere).load() is None


@pytest.mark.parametrize("name", ["absent", "sso", "loop"])
async def test_a_named_profile_without_keys_is_an_error(home: dict[str, str], name: str) -> None:
    """LLM-341: asked for and not there is not the same as not asked for."""
    with pytest.raises(LLMError, match=name) as caught:
        await ProfileCredentials({**home, "AWS_PROFILE": name}, nowhere).load()
    assert (caught.value.reason, caught.value.kind) == ("Authentication", "missing")


async def test_a_damaged_file_is_an_error_without_its_content(tmp_path: Path) -> None:
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "credentials").write_text("aws_secret_access_key = hush\n", encoding="utf-8")
    source = ProfileCredentials({"HOME": str(tmp_path)}, nowhere)
    assert source.region is None
    with pytest.raises(LLMError, match="cannot be read") as caught:
        await source.load()
    assert "hush" not in str(caught.value)


STS_ANSWER = b"""<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>temp</SecretAccessKey><SessionToken>tok</SessionToken>
<Expiration>2015-08-30T13:36:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""
TEMPORARY = Credentials("ASIA", "temp", "tok", MOMENT + 3600)


async def test_a_profile_may_assume_a_role(home: dict[str, str]) -> None:
    """LLM-301: STS, asked with the keys of the source profile."""
    fetch = Recorded(STS_ANSWER)
    assert await ProfileCredentials(home, fetch, "role", lambda: MOMENT).load() == TEMPORARY
    ((url, headers),) = fetch.seen
    assert dict(parse_qsl(urlsplit(url).query)) == {
        "Action": "AssumeRole",
        "ExternalId": "e",
        "RoleArn": "arn:aws:iam::1:role/r",
        "RoleSessionName": "holdfast",
        "Version": "2011-06-15",
    }
    signed = {"host": "sts.eu-west-3.amazonaws.com", "x-amz-date": STAMP, "x-amz-security-token": "token"}
    assert headers == {
        "x-amz-date": STAMP,
        "x-amz-security-token": "token",
        "authorization": reference_signature(
            Credentials("base", "secret"),
            f"GET /?{urlsplit(url).query}",
            signed,
            b"",
            region="eu-west-3",
            service="sts",
        ),
    }


async def test_a_token_file_may_stand_for_a_role(tmp_path: Path) -> None:
    """LLM-301: STS with a web identity, which needs no signature."""
    token = tmp_path / "token"
    token.write_text("jwt\n", encoding="utf-8")
    fetch = Recorded(STS_ANSWER)
    environment = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(token), "AWS_ROLE_ARN": "arn", "AWS_REGION": "us-west-2"}
    source = WebIdentityCredentials(environment, fetch)
    assert await source.load() == TEMPORARY
    assert fetch.seen == [
        (
            "https://sts.us-west-2.amazonaws.com/?Action=AssumeRoleWithWebIdentity&RoleArn=arn"
            "&RoleSessionName=holdfast&Version=2011-06-15&WebIdentityToken=jwt",
            {},
        )
    ]
    assert await WebIdentityCredentials({}, nowhere).load() is None
    token.unlink()
    with pytest.raises(LLMError, match="token file"):
        await source.load()


@pytest.mark.parametrize("answer", [b"<html>", b"<a/>", STS_ANSWER.replace(b"2015-08-30T13", b"soon")])
async def test_an_unreadable_answer_of_sts(answer: bytes, home: dict[str, str]) -> None:
    with pytest.raises(LLMError, match="STS"):
        await ProfileCredentials(home, Recorded(answer), "role").load()


CONTAINER_ANSWER = (
    b'{"RoleArn":"r","AccessKeyId":"ASIA","SecretAccessKey":"temp","Token":"tok","Expiration":"2015-08-30T13:36:00Z"}'
)


async def test_the_endpoint_beside_a_container(tmp_path: Path) -> None:
    """LLM-301."""
    fetch = Recorded(CONTAINER_ANSWER)
    assert await ContainerCredentials({"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/x"}, fetch).load() == TEMPORARY
    token = tmp_path / "token"
    token.write_text("from-file", encoding="utf-8")
    full = {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN": "given",
    }
    await ContainerCredentials(full, fetch).load()
    await ContainerCredentials({**full, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token)}, fetch).load()
    assert fetch.seen == [
        ("http://169.254.170.2/v2/x", {}),
        ("http://169.254.170.23/v1/credentials", {"authorization": "given"}),
        ("http://169.254.170.23/v1/credentials", {"authorization": "from-file"}),
    ]


async def test_a_container_endpoint_elsewhere_is_not_asked() -> None:
    """A token sent in the clear to a stranger would be a gift."""
    with pytest.raises(LLMError, match=r"example\.com"):
        await ContainerCredentials(
            {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://example.com/x", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "t"},
            nowhere,
        ).load()


async def test_failures_of_the_container_endpoint() -> None:
    environment = {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/x?token=hush"}
    with pytest.raises(LLMError, match="something else"):
        await ContainerCredentials(environment, Recorded(b"{}")).load()
    with pytest.raises(LLMError, match=r"169\.254\.170\.2") as caught:
        await ContainerCredentials(environment, Recorded(ConnectionRefusedError("refused"))).load()
    assert (caught.value.reason, caught.value.retryable) == ("Transport", True)
    assert "hush" not in str(caught.value)


async def test_the_first_source_that_has_credentials_counts(home: dict[str, str]) -> None:
    """LLM-301."""
    fetch = Recorded(CONTAINER_ANSWER)
    container = {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/x"}
    keys = {"AWS_ACCESS_KEY_ID": "env", "AWS_SECRET_ACCESS_KEY": "env"}
    assert await default_source({**home, **container, **keys}, fetch).load() == Credentials("env", "env")
    assert await default_source({**home, **container}, fetch).load() == Credentials("a", "b%c")
    assert await default_source(container, fetch).load() == TEMPORARY
    assert await default_source({}, fetch).load() is None
    assert default_source({**home, "AWS_REGION": "r"}).region == "r"
    assert default_source(home).region == "eu-north-1"


async def test_credentials_are_fetched_over_real_http() -> None:
    async with plain_server(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok") as url:
        assert await fetch_url(url, {"authorization": "t"}) == b"ok"
    async with plain_server(b"HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n") as url:
        with pytest.raises(LLMError, match="403") as caught:
            await fetch_url(url, {})
    assert caught.value.reason == "Authentication"


async def test_an_endpoint_that_does_not_speak_http_is_a_failure_to_reach_it() -> None:
    """LLM-330"""
    async with plain_server(b"SSH-2.0-OpenSSH\r\n\r\n") as url:
        environment = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": url}
        with pytest.raises(LLMError, match="does not speak HTTP") as caught:
            await ContainerCredentials(environment, fetch_url).load()
    assert (caught.value.reason, caught.value.kind) == ("Transport", "connect")


async def test_a_token_that_is_no_text_is_a_missing_credential(tmp_path: Path) -> None:
    """LLM-341"""
    path = tmp_path / "token"
    path.write_bytes(b"\xff\xfe")
    environment = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(path), "AWS_ROLE_ARN": "arn"}
    with pytest.raises(LLMError) as caught:
        await WebIdentityCredentials(environment, Recorded(b"")).load()
    assert (caught.value.reason, caught.value.kind) == ("Authentication", "missing")


# -- helpers -----------------------------------------------------------------------------------------------------


def reference_signature(
    credentials: Credentials,
    line: str,
    signed: Mapping[str, str],
    body: bytes,
    *,
    region: str = "us-east-1",
    service: str = "bedrock",
) -> str:
    """The same algorithm a second time, from a raw request line and headers, as a server would see them."""
    method, _, target = line.partition(" ")
    path, _, query = target.partition("?")
    ordered = "&".join(sorted(quote(item, safe="=%") for item in query.split("&"))) if query else ""
    text = f"{method}\n{path.replace('%', '%25')}\n{ordered}\n"
    for name in sorted(signed):
        text += f"{name}:{signed[name]}\n"
    text += f"\n{';'.join(sorted(signed))}\n{hashlib.sha256(body).hexdigest()}"
    stamp = signed["x-amz-date"]
    day = stamp.split("T")[0]
    key = ("AWS4" + credentials.secret_key).encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    digest = hashlib.sha256(text.encode()).hexdigest()
    string = f"AWS4-HMAC-SHA256\n{stamp}\n{day}/{region}/{service}/aws4_request\n{digest}"
    return (
        f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{day}/{region}/{service}/aws4_request, "
        f"SignedHeaders={';'.join(sorted(signed))}, "
        f"Signature={hmac.new(key, string.encode(), hashlib.sha256).hexdigest()}"
    )


class Recorded:
    """A fetch with one answer, or one failure."""

    def __init__(self, answer: bytes | OSError) -> None:
        self._answer = answer
        self.seen: list[tuple[str, dict[str, str]]] = []

    async def __call__(self, url: str, headers: Mapping[str, str]) -> bytes:
        self.seen.append((url, dict(headers)))
        if isinstance(self._answer, OSError):
            raise self._answer
        return self._answer


async def nowhere(url: str, headers: Mapping[str, str]) -> bytes:
    raise AssertionError(f"{url} was fetched")


@asynccontextmanager
async def plain_server(answer: bytes) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x"


@asynccontextmanager
async def verifying_server() -> AsyncIterator[tuple[str, list[str]]]:
    """Answers only to a request whose signature fits what arrived."""
    seen: list[str] = []
    answer = (
        event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Hello"}})
        + event("messageStop", {"stopReason": "end_turn"})
        + event("metadata", {"usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}})
    )

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        line = head[0].removesuffix(" HTTP/1.1")
        headers = {name.lower(): value for name, _, value in (item.partition(": ") for item in head[1:] if item)}
        body = await reader.readexactly(int(headers["content-length"]))
        names = headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
        expected = reference_signature(SESSION, line, {name: headers[name] for name in names}, body)
        status = "200 OK" if headers["authorization"] == expected else "403 Forbidden"
        seen.append(line.split()[1])
        kind = "application/vnd.amazon.eventstream"
        writer.write(f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(answer)}\r\n\r\n".encode())
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", seen
