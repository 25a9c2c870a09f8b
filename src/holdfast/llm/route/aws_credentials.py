"""Where AWS credentials come from: the environment, a profile, a web identity token, a container's endpoint."""

from __future__ import annotations

import asyncio
import configparser
import hashlib
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

import msgspec

from holdfast.llm.errors import LLMError
from holdfast.llm.route.sigv4 import Credentials, CredentialSource, authorization, host_header
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    Fetch = Callable[[str, Mapping[str, str]], Awaitable[bytes]]
    """GET, for endpoints that hand out credentials. Raises OSError."""

FETCH_SECONDS = 5.0
FETCH_BYTES = 64 * 1024
CONTAINER = "http://169.254.170.2"
TRUSTED_HOSTS = ("localhost", "127.0.0.1", "::1", "169.254.170.2", "169.254.170.23", "fd00:ec2::23")
"""Hosts that may be asked without TLS."""


class EnvironmentCredentials(Frozen):
    environment: Mapping[str, str]

    @property
    def region(self) -> str | None:
        return self.environment.get("AWS_REGION") or self.environment.get("AWS_DEFAULT_REGION")

    async def load(self) -> Credentials | None:
        return _of_names(self.environment, str.upper)


class ProfileCredentials(Frozen):
    """A profile of the shared files: its keys, or a role that it assumes with the keys of another profile."""

    environment: Mapping[str, str]
    fetch: Fetch
    name: str | None = None
    now: Callable[[], float] = time.time

    @property
    def region(self) -> str | None:
        try:
            return self._profile(self._name).get("region")
        except LLMError:
            return None  # reported when the keys are loaded

    async def load(self) -> Credentials | None:
        name = self._name
        found = await self._load(name, seen=())
        if found is None and (self.name or self.environment.get("AWS_PROFILE")):
            raise _nothing(f"the AWS profile {name} has no keys and no role that can be used here")
        return found

    @property
    def _name(self) -> str:
        return self.name or self.environment.get("AWS_PROFILE") or "default"

    async def _load(self, name: str, seen: tuple[str, ...]) -> Credentials | None:
        profile = self._profile(name)
        if (keys := _of_names(profile, str.lower)) is not None:
            return keys
        role, source = profile.get("role_arn"), profile.get("source_profile")
        if not role or not source or source in (*seen, name):
            return None
        keys = await self._load(source, (*seen, name))
        if keys is None:
            return None
        query = {
            "Action": "AssumeRole",
            "ExternalId": profile.get("external_id"),
            "RoleArn": role,
            "RoleSessionName": profile.get("role_session_name") or "holdfast",
            "Version": "2011-06-15",
        }
        region = profile.get("region") or self._profile(source).get("region") or "us-east-1"
        return await _sts(self.fetch, region, query, (keys, self.now()))

    def _profile(self, name: str) -> dict[str, str]:
        """The profile from both files; the credentials file wins."""
        config = _ini(self._file("AWS_CONFIG_FILE", "config"))
        keys = _ini(self._file("AWS_SHARED_CREDENTIALS_FILE", "credentials"))
        section = "default" if name == "default" else f"profile {name}"
        return {**config.get(section, {}), **keys.get(name, {})}

    def _file(self, variable: str, name: str) -> Path | None:
        if given := self.environment.get(variable):
            return Path(given).expanduser()
        home = self.environment.get("HOME") or self.environment.get("USERPROFILE")
        return Path(home, ".aws", name) if home else None


class WebIdentityCredentials(Frozen):
    """A role for the holder of a token. The token is a file that another process renews."""

    environment: Mapping[str, str]
    fetch: Fetch

    @property
    def region(self) -> str | None:
        return None

    async def load(self) -> Credentials | None:
        path, role = self.environment.get("AWS_WEB_IDENTITY_TOKEN_FILE"), self.environment.get("AWS_ROLE_ARN")
        if not path or not role:
            return None
        query = {
            "Action": "AssumeRoleWithWebIdentity",
            "RoleArn": role,
            "RoleSessionName": self.environment.get("AWS_ROLE_SESSION_NAME") or "holdfast",
            "Version": "2011-06-15",
            "WebIdentityToken": _read_token(path),
        }
        return await _sts(self.fetch, EnvironmentCredentials(self.environment).region or "us-east-1", query)


class ContainerCredentials(Frozen):
    """The credentials endpoint of ECS and EKS containers."""

    environment: Mapping[str, str]
    fetch: Fetch

    @property
    def region(self) -> str | None:
        return None

    async def load(self) -> Credentials | None:
        relative = self.environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        url = CONTAINER + relative if relative else self.environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        if not url:
            return None
        parts = urlsplit(url)
        if parts.scheme != "https" and parts.hostname not in TRUSTED_HOSTS:
            raise _nothing(f"the container credentials endpoint {parts.hostname} is neither local nor encrypted")
        path = self.environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        token = _read_token(path) if path else self.environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        answer = await _fetched(self.fetch, url, {"authorization": token} if token else {})
        try:
            given = msgspec.json.decode(answer, type=_ContainerAnswer)
        except msgspec.DecodeError as error:
            raise _nothing(f"the container credentials endpoint sent something else ({error})") from error
        expires = given.expires.timestamp() if given.expires else None
        return Credentials(given.access_key, given.secret_key, given.token, expires)


class FirstOf(Frozen):
    sources: tuple[CredentialSource, ...]

    @property
    def region(self) -> str | None:
        return next((region for source in self.sources if (region := source.region)), None)

    async def load(self) -> Credentials | None:
        for source in self.sources:
            if (found := await source.load()) is not None:
                return found
        return None


def default_source(environment: Mapping[str, str], fetch: Fetch | None = None) -> FirstOf:
    """The sources of AWS's own tools, in their order."""
    fetch = fetch or fetch_url
    return FirstOf(
        (
            EnvironmentCredentials(environment),
            WebIdentityCredentials(environment, fetch),
            ProfileCredentials(environment, fetch),
            ContainerCredentials(environment, fetch),
        )
    )


async def fetch_url(url: str, headers: Mapping[str, str]) -> bytes:
    """GET without a proxy and without redirects: the endpoints are local or belong to AWS."""
    from holdfast.http.client import HttpClient
    from holdfast.http.errors import MalformedResponse
    from holdfast.http.request import Request
    from holdfast.http.url import parse

    try:
        request = Request("GET", parse(url, use_proxy=False), headers)
        async with asyncio.timeout(FETCH_SECONDS):
            response = await HttpClient().send(request)
            try:
                body = b""
                while len(body) < FETCH_BYTES and (piece := await response.read()):
                    body += piece
            finally:
                response.close()
    except (MalformedResponse, ValueError) as error:
        raise OSError(f"it does not speak HTTP ({type(error).__name__})") from error
    if response.status != 200:
        text = f"{urlsplit(url).hostname} gave no AWS credentials: HTTP {response.status}"
        raise LLMError("Authentication", text, kind="unknown")
    return body


class _ContainerAnswer(msgspec.Struct):
    access_key: str = msgspec.field(name="AccessKeyId")
    secret_key: str = msgspec.field(name="SecretAccessKey")
    token: str | None = msgspec.field(name="Token", default=None)
    expires: datetime | None = msgspec.field(name="Expiration", default=None)


async def _sts(
    fetch: Fetch, region: str, query: Mapping[str, str | None], signer: tuple[Credentials, float] | None = None
) -> Credentials:
    """Temporary credentials for a role. The request is signed by `signer`, or carries a token."""
    import xml.etree.ElementTree as ElementTree

    url = f"https://sts.{region}.{suffix(region)}/?{urlencode({name: value for name, value in query.items() if value})}"
    headers: dict[str, str] = {}
    if signer is not None:
        credentials, moment = signer
        headers["x-amz-date"] = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(moment))
        if credentials.session_token:
            headers["x-amz-security-token"] = credentials.session_token
        headers["authorization"] = authorization(
            "GET",
            url,
            {"host": host_header(url), **headers},
            hashlib.sha256(b"").hexdigest(),
            credentials,
            region=region,
            service="sts",
        )
    try:
        answer = ElementTree.fromstring(await _fetched(fetch, url, headers))
    except ElementTree.ParseError as error:
        raise _nothing(f"AWS STS sent something that is not XML ({error})") from error
    found = {node.tag.rpartition("}")[2]: node.text or "" for node in answer.iter()}
    try:
        expires = datetime.fromisoformat(found["Expiration"]).timestamp()
        return Credentials(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"], expires)
    except (KeyError, ValueError) as error:
        raise _nothing(f"AWS STS sent no credentials ({error})") from error


async def _fetched(fetch: Fetch, url: str, headers: Mapping[str, str]) -> bytes:
    try:
        return await fetch(url, headers)
    except OSError as error:
        # Not the URL: it may hold a token.
        host = urlsplit(url).hostname
        raise LLMError(
            "Transport", f"could not get AWS credentials from {host}: {error}", kind="connect", retryable=True
        ) from error


def suffix(region: str) -> str:
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"


def _of_names(values: Mapping[str, str], spelling: Callable[[str], str]) -> Credentials | None:
    access_key = values.get(spelling("aws_access_key_id"))
    secret_key = values.get(spelling("aws_secret_access_key"))
    if not access_key or not secret_key:
        return None
    return Credentials(access_key, secret_key, values.get(spelling("aws_session_token")) or None)


def _ini(path: Path | None) -> dict[str, dict[str, str]]:
    if path is None:
        return {}
    parser = configparser.ConfigParser(interpolation=None, default_section="\0", strict=False)
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as error:
        raise _nothing(f"{path} cannot be read: {_first_line(str(error))}") from error
    return {section: dict(parser[section]) for section in parser.sections()}


def _read_token(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _nothing(f"the AWS token file cannot be read: {error}") from error


def _nothing(message: str) -> LLMError:
    return LLMError("Authentication", message, kind="missing")


def _first_line(text: str) -> str:
    return next(iter(text.splitlines()), "")
