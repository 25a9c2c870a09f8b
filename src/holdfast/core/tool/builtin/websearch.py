"""The `websearch` tool: sends one query to a search service that the user has configured."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from holdfast.core.tool.builtin.authorize import Authorizer
from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure
from holdfast.core.web.errors import FetchFailed
from holdfast.core.web.fetch import Budget, Fetcher
from holdfast.schema.codec import encode
from holdfast.schema.frozen import Frozen
from holdfast.schema.record import Record
from holdfast.schema.session_message import TextContent

ACTION = "websearch"
SECONDS = 25.0
BODY_BYTES = 256 * 1024
REASON_CHARACTERS = 300
NO_RESULTS = "No results for this query."


class WebsearchInput(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    query: Annotated[str, msgspec.Meta(min_length=1, description="What to search for")]
    num_results: Annotated[int, msgspec.Meta(ge=1, le=20, description="How many results")] = 8
    livecrawl: Literal["fallback", "preferred"] | msgspec.UnsetType = msgspec.UNSET
    type: Literal["auto", "fast", "deep"] | msgspec.UnsetType = msgspec.UNSET
    context_max_characters: (
        Annotated[int, msgspec.Meta(ge=1, le=50_000, description="How much text at most")] | msgspec.UnsetType
    ) = msgspec.UNSET


class WebsearchOutput(Record):
    provider: str
    text: str


class SearchService(Frozen):
    """A search service with a JSON-RPC `tools/call` endpoint."""

    name: str
    url: str
    tool: str
    arguments: Callable[[WebsearchInput, ToolContext], dict[str, Any]]
    headers: Mapping[str, str] = {}
    secret: str | None = None
    """The API key, redacted from all output."""

    def __repr__(self) -> str:
        return f"SearchService({self.name})"


def websearch_tool(
    fetcher: Fetcher, authorizer: Authorizer, services: Sequence[SearchService]
) -> Tool[WebsearchInput, WebsearchOutput]:
    """With several services, a Session always uses the same one."""

    async def execute(given: WebsearchInput, context: ToolContext) -> WebsearchOutput:
        service = services[zlib.crc32(context.session_id.encode()) % len(services)]
        save = () if "*" in given.query else (given.query, "*")
        metadata = {**msgspec.to_builtins(given), "provider": service.name}
        await authorizer.allow(context, ACTION, (given.query,), save=save, metadata=metadata)
        try:
            text = find_text(await _ask(fetcher, service, given, context))
        except FetchFailed as failure:
            reason = _without(service.secret, failure.reason)
            raise ToolFailure(f"Unable to search the web for {given.query[:REASON_CHARACTERS]}: {reason}") from None
        text = _without(service.secret, text)
        if given.context_max_characters is not msgspec.UNSET:
            text = text[: given.context_max_characters]
        return WebsearchOutput(provider=service.name, text=text)

    return Tool(
        read_only=True,
        description=DESCRIPTION,
        input=WebsearchInput,
        output=WebsearchOutput,
        execute=execute,
        content=lambda given, value: (TextContent(text=value["text"]),),
    )


def configured_services(environment: Mapping[str, str]) -> tuple[SearchService, ...]:
    """The services that the user enabled by name, by a switch, or by giving a key."""
    known = {
        "exa": exa(environment.get("EXA_API_KEY") or None),
        "parallel": parallel(environment.get("PARALLEL_API_KEY") or None),
    }
    if (named := environment.get("OPENCODE_WEBSEARCH_PROVIDER", "")) in known:
        return (known[named],)
    for name in ("parallel", "exa"):
        if any(_on(environment, f"OPENCODE_{kind}_{name.upper()}") for kind in ("ENABLE", "EXPERIMENTAL")):
            return (known[name],)
    return tuple(service for service in known.values() if service.secret is not None)


def exa(key: str | None, url: str = "https://mcp.exa.ai/mcp") -> SearchService:
    def arguments(given: WebsearchInput, context: ToolContext) -> dict[str, Any]:
        defaults = {"numResults": given.num_results, "type": "auto", "livecrawl": "fallback"}
        return {**defaults, **msgspec.to_builtins(given)}

    headers = {} if key is None else {"x-api-key": key}
    return SearchService("exa", url, "web_search_exa", arguments, headers, key)


def parallel(key: str | None, url: str = "https://search.parallel.ai/mcp") -> SearchService:
    def arguments(given: WebsearchInput, context: ToolContext) -> dict[str, Any]:
        return {"objective": given.query, "search_queries": [given.query], "session_id": context.session_id}

    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return SearchService("parallel", url, "web_search", arguments, headers, key)


def find_text(body: bytes) -> str:
    """The first text in a JSON-RPC reply, which is plain JSON or a stream of server-sent events."""
    frames = (line.removeprefix(b"data: ") for line in body.splitlines() if line.startswith(b"data: "))
    for frame in (body, *frames):
        try:
            reply = msgspec.json.decode(frame, type=_Reply)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        texts = [item.text for item in reply.result.content if item.text]
        if reply.error is not None or reply.result.is_error:
            message = reply.error.message if reply.error is not None else "".join(texts[:1])
            raise FetchFailed(message[:REASON_CHARACTERS] or "the search service failed")
        if texts:
            return texts[0]
    return NO_RESULTS


async def _ask(fetcher: Fetcher, service: SearchService, given: WebsearchInput, context: ToolContext) -> bytes:
    call = {"name": service.tool, "arguments": service.arguments(given, context)}
    body = encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **service.headers}
    async with fetcher.open(service.url, post=body, headers=headers, budget=Budget(SECONDS), redirects=0) as response:
        if not response.ok:
            raise FetchFailed(f"status {response.status}")
        return await response.read(BODY_BYTES)


def _without(secret: str | None, text: str) -> str:
    return text if secret is None else text.replace(secret, "[redacted]")


def _on(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").lower() in ("1", "true")


class _Item(msgspec.Struct):
    text: str | None = None


class _Result(msgspec.Struct, rename="camel"):
    content: list[_Item] = []
    is_error: bool = False


class _Error(msgspec.Struct):
    message: str = ""


class _Reply(msgspec.Struct):
    result: _Result = msgspec.field(default_factory=_Result)
    error: _Error | None = None


DESCRIPTION = (
    "Search the web and return what the best results say. Use it for what you cannot know: recent events, current "
    "versions, documentation. Fetch a single known address with `webfetch` instead."
)
