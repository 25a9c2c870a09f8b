"""The `websearch` tool against a search service of our own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.core.web.site import Site, running_site

from holdfast.core.permission.rules import ORDINARY, Terms
from holdfast.core.scope import Scope
from holdfast.core.tool.builtin import websearch
from holdfast.core.tool.builtin.authorize import Denied
from holdfast.core.tool.builtin.websearch import (
    NO_RESULTS,
    SearchService,
    WebsearchInput,
    configured_services,
    exa,
    find_text,
    parallel,
    websearch_tool,
)
from holdfast.core.tool.registry import ToolRegistry
from holdfast.core.tool.tool import ToolContext, ToolFailure
from holdfast.core.web.errors import FetchFailed
from holdfast.core.web.fetch import Fetcher

pytestmark = pytest.mark.anyio

CONTEXT = ToolContext("ses_1", "build", "msg_1", "c1")
KEY = "canary-key"


class Approvals:
    def __init__(self, *, deny: bool = False) -> None:
        self.asked: list[tuple[str, tuple[str, ...], tuple[str, ...], Mapping[str, Any] | None]] = []
        self._deny = deny

    async def allow(
        self,
        context: ToolContext,
        action: str,
        resources: Sequence[str],
        *,
        save: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        terms: Terms = ORDINARY,
    ) -> None:
        self.asked.append((action, tuple(resources), tuple(save), metadata))
        if self._deny:
            raise Denied("Permission denied: websearch")


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with running_site() as site:
        yield site


def reply(text: str) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}]}})


async def searched(
    backend: SearchService,
    *more: SearchService,
    approvals: Approvals | None = None,
    context: ToolContext = CONTEXT,
    **given: Any,
) -> dict[str, Any]:
    tool = websearch_tool(Fetcher(), approvals or Approvals(), (backend, *more))
    decoded = msgspec.convert({"query": "what is new", **given}, WebsearchInput)
    result: dict[str, Any] = msgspec.to_builtins(await tool.execute(decoded, context))
    assert tool.content is not None
    assert msgspec.to_builtins(tool.content(decoded, result)[0])["text"] == result["text"]
    return result


async def failure(backend: SearchService, **given: Any) -> str:
    with pytest.raises(ToolFailure) as refused:
        await searched(backend, **given)
    # Neither the message nor anything it was raised from.
    assert KEY not in repr(refused.value)
    assert refused.value.__cause__ is None
    return str(refused.value)


# -- input and approval --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        {"numResults": 0},
        {"numResults": 21},
        {"livecrawl": "never"},
        {"type": "slow"},
        {"contextMaxCharacters": 0},
        {"contextMaxCharacters": 50_001},
        {"query": ""},
    ],
)
def test_websearch_checks_the_bounds_of_its_input(bad: dict[str, Any]) -> None:
    """TOL-267: each has its bounds."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"query": "x", **bad}, WebsearchInput)


async def test_approval_names_query_and_provider(site: Site) -> None:
    """TOL-267, TOL-330, TOL-364: the key is in none of it, and what is saved by itself is this query."""
    url = site.put("/mcp", reply("found"))
    approvals = Approvals()
    await searched(exa(KEY, url), approvals=approvals, numResults=3)
    assert approvals.asked == [
        (
            "websearch",
            ("what is new",),
            ("what is new", "*"),
            {"query": "what is new", "numResults": 3, "provider": "exa"},
        )
    ]
    with pytest.raises(Denied):
        await searched(exa(KEY, url), approvals=Approvals(deny=True))
    assert len(site.requests) == 1


# -- requests ------------------------------------------------------------------------------------------------------


async def test_exa_gets_one_tool_call_with_the_key_in_a_header(site: Site) -> None:
    """TOL-267, TOL-268, TOL-271: one tool call, the key in a header."""
    url = site.put("/mcp", reply("found"))
    assert await searched(exa(KEY, url), type="deep", contextMaxCharacters=50_000) == {
        "provider": "exa",
        "text": "found",
    }
    (path, headers), body = site.requests[0], msgspec.json.decode(site.bodies[0])
    assert (path, headers["x-api-key"]) == ("/mcp", KEY)
    assert body["method"] == "tools/call"
    assert body["params"] == {
        "name": "web_search_exa",
        "arguments": {
            "query": "what is new",
            "numResults": 8,
            "type": "deep",
            "livecrawl": "fallback",
            "contextMaxCharacters": 50_000,
        },
    }


async def test_parallel_gets_the_session_id_and_a_bearer_key(site: Site) -> None:
    """TOL-268, TOL-269: with the Session's id, the key as a bearer."""
    url = site.put("/mcp", reply("found"))
    assert (await searched(parallel(KEY, url)))["provider"] == "parallel"
    assert site.requests[0][1]["authorization"] == f"Bearer {KEY}"
    assert msgspec.json.decode(site.bodies[0])["params"] == {
        "name": "web_search",
        "arguments": {"objective": "what is new", "search_queries": ["what is new"], "session_id": "ses_1"},
    }


async def test_without_a_key_none_is_sent(site: Site) -> None:
    """TOL-269: the switch alone is enough."""
    url = site.put("/mcp", reply("found"))
    for backend in (exa(None, url), parallel(None, url)):
        await searched(backend)
        assert not {"authorization", "x-api-key"} & set(site.requests[-1][1])


async def test_a_redirect_does_not_take_the_key_elsewhere(site: Site) -> None:
    """TOL-271, TOL-330: it is a failure."""
    site.put("/other", reply("stolen"))
    url = site.redirect("/mcp", "/other", status=307)
    assert await failure(exa(KEY, url)) == "Unable to search the web for what is new: status 307"
    assert site.paths == ["/mcp"]


async def test_size_and_time_are_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-268: 256 KiB, and 25 seconds (less here)."""
    assert (websearch.SECONDS, websearch.BODY_BYTES) == (25, 262_144)
    url = site.put("/mcp", b"x" * 262_145)
    assert (await failure(exa(KEY, url))).endswith("too large")
    stuck = asyncio.Event()

    async def silent(request: web.Request) -> web.StreamResponse:
        await stuck.wait()
        return web.Response()

    site.pages["/mcp"] = silent
    monkeypatch.setattr(websearch, "SECONDS", 0.1)
    assert (await failure(exa(KEY, url))).endswith("timed out")
    stuck.set()


# -- replies -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (reply("bare"), "bare"),
        (b"event: message\ndata: " + reply("event") + b"\n\n", "event"),
        (b": hi\r\ndata: [DONE]\r\ndata: nonsense\r\ndata: " + reply("after noise") + b"\r\n", "after noise"),
        (b'{"result":{"content":[{"type":"image"},{"type":"text","text":""},{"text":"second"}]}}', "second"),
        (b'{"result":{"content":[]}}', NO_RESULTS),
        (b'{"id":1}', NO_RESULTS),
        (b"", NO_RESULTS),
        (b"<html>", NO_RESULTS),
        (b"\xff\xfe", NO_RESULTS),
    ],
)
def test_the_first_text_of_a_search_answer_is_used(body: bytes, text: str) -> None:
    """TOL-270: bare or in events; what is not JSON is passed over."""
    assert find_text(body) == text


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"error":{"code":-1,"message":"quota used up"}}', "quota used up"),
        (b'data: {"error":{"message":"' + b"x" * 1000 + b'"}}', "x" * 300),
        (b'{"result":{"isError":true,"content":[{"text":"bad query"}]}}', "bad query"),
        (b'{"error":{}}', "the search service failed"),
    ],
)
def test_an_error_is_a_failure_with_a_short_reason(body: bytes, reason: str) -> None:
    """TOL-271: at most 300 characters of it."""
    with pytest.raises(FetchFailed) as failed:
        find_text(body)
    assert failed.value.reason == reason


async def test_a_key_is_never_shown(site: Site) -> None:
    """TOL-269, TOL-271, TOL-330: not even when the service sends it back."""
    url = site.put("/mcp", reply(f"your key is {KEY}"))
    assert (await searched(exa(KEY, url)))["text"] == "your key is [redacted]"
    site.put("/mcp", f'{{"error":{{"message":"bad key {KEY}"}}}}')
    assert (await failure(exa(KEY, url))).endswith("bad key [redacted]")
    assert KEY not in repr(exa(KEY)) + repr(parallel(KEY))


async def test_text_is_cut_where_asked(site: Site) -> None:
    """TOL-267: also for services that do not know the option."""
    url = site.put("/mcp", reply("abcdef"))
    assert (await searched(parallel(None, url), contextMaxCharacters=3))["text"] == "abc"


# -- selection -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({}, []),
        ({"EXA_API_KEY": ""}, []),
        ({"OPENCODE_ENABLE_EXA": "0"}, []),
        ({"OPENCODE_WEBSEARCH_PROVIDER": "bing"}, []),
        ({"EXA_API_KEY": "k"}, ["exa"]),
        ({"PARALLEL_API_KEY": "k"}, ["parallel"]),
        ({"EXA_API_KEY": "k", "PARALLEL_API_KEY": "k"}, ["exa", "parallel"]),
        ({"OPENCODE_ENABLE_EXA": "1"}, ["exa"]),
        ({"OPENCODE_ENABLE_EXA": "TRUE", "OPENCODE_EXPERIMENTAL_PARALLEL": "true"}, ["parallel"]),
        ({"OPENCODE_WEBSEARCH_PROVIDER": "exa", "OPENCODE_ENABLE_PARALLEL": "1"}, ["exa"]),
    ],
)
def test_a_search_backend_is_chosen_by_name_switch_or_key(environment: dict[str, str], names: list[str]) -> None:
    """TOL-269, TOL-271: by name, by switch, by key; without any of these there is none."""
    assert [backend.name for backend in configured_services(environment)] == names


async def test_a_session_keeps_its_backend(site: Site) -> None:
    """TOL-269: by a stable hash of its id; different Sessions get different ones."""
    url = site.put("/mcp", reply("found"))
    both = (exa(None, url), parallel(None, url))
    chosen: dict[str, set[str]] = {}
    for session in [f"ses_{number}" for number in range(8)] * 2:
        found = await searched(*both, context=CONTEXT.replace(session_id=session))
        chosen.setdefault(session, set()).add(found["provider"])
    assert all(len(providers) == 1 for providers in chosen.values())
    assert set.union(*chosen.values()) == {"exa", "parallel"}


async def test_websearch_through_the_registry_returns_its_value_and_text(site: Site) -> None:
    """TOL-267, TOL-270: structured value and text."""
    registry = ToolRegistry()
    tool = websearch_tool(Fetcher(), Approvals(), (exa(None, site.put("/mcp", reply("found"))),))
    registry.register({"websearch": tool}, Scope())
    output = await registry.materialize(()).execute("websearch", {"query": "x"}, CONTEXT)
    assert output.structured == {"provider": "exa", "text": "found"}
    assert [msgspec.to_builtins(part) for part in output.content] == [{"type": "text", "text": "found"}]
