"""The tools of MCP servers in a request: which are offered, and what a call does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from tests.core.mcp.fake_servers import FakeServers, manifest, result, tool
from tests.core.tool.tool_support import CONTEXT, Recorder, texts

from holdfast.core.mcp.errors import ServerUnavailable
from holdfast.core.mcp.offered_tools import OfferedTools
from holdfast.core.mcp.seam import CallFor, Manifest, ManifestTool
from holdfast.core.permission.rules import Authority
from holdfast.core.scope import Scope
from holdfast.core.tool.builtin.authorize import Denied
from holdfast.core.tool.progress import reporting
from holdfast.core.tool.registry import Materialized, ToolRegistry
from holdfast.core.tool.tool import CallOutput, Tool, ToolContext, ToolFailure
from holdfast.mcp import content as mcp
from holdfast.mcp.errors import ServerClosed
from holdfast.mcp.results import Progress, ToolResult
from holdfast.schema.codec import encode
from holdfast.schema.permission import Effect, Rule
from holdfast.schema.session_message import FileContent, ToolContent

pytestmark = pytest.mark.anyio

TEXT = {"type": "string"}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYPj/HwADAgH/p8c0nQAAAABJRU5ErkJggg=="


class Asking(Recorder):
    """A recorder that also says what the caller may do."""

    def __init__(self, *denied: str) -> None:
        super().__init__(*denied)
        self.rules: tuple[Rule, ...] = ()

    async def authority(self, context: ToolContext) -> Authority:
        return Authority(self.rules)


class Here:
    """A Location with servers that are no processes."""

    def __init__(self, *denied: str, **manifests: Manifest) -> None:
        self.servers = FakeServers(**manifests)
        self.people = Asking(*denied)
        self.registry = ToolRegistry()
        self.most = 2_500
        self.offered = OfferedTools(
            self.servers,
            self.servers.names,
            lambda: self.most,
            self.people,  # type: ignore[arg-type]
            lambda: self.registry.names,
        )

    async def turn(self, offer: str | None = None, *rules: Rule) -> Materialized:
        given = self.offered.catalogue.offer() if offer is None else offer
        return self.registry.materialize(rules, also=await self.offered.of(given))

    async def call(self, name: str, offer: str | None = None, /, **arguments: Any) -> CallOutput:
        return await (await self.turn(offer)).execute(name, arguments, CONTEXT)

    async def fails(self, name: str, /, **arguments: Any) -> str:
        with pytest.raises(ToolFailure) as failed:
            await self.call(name, **arguments)
        return str(failed.value)

    def answers(self, *content: mcp.Content, **more: Any) -> None:
        async def answer(*given: Any) -> ToolResult:
            return ToolResult(content=content, **more)

        self.servers.answer = answer


def names(turn: Materialized) -> list[str]:
    return [definition.name for definition in turn.definitions]


def rule(action: str, effect: Effect) -> Rule:
    return Rule(action=action, resource="*", effect=effect)


def other(word: str) -> Tool[Any, Any]:
    async def execute(given: dict[str, Any], context: ToolContext) -> str:
        return word

    return Tool(description=word, input=dict[str, Any], output=str, execute=execute)


# -- what is offered ---------------------------------------------------------------------------------------------------


async def test_a_small_catalogue_is_offered_by_name_after_all_other_tools() -> None:
    """MCP-200, TOL-277: sorted by server and name, whatever became known first."""
    here = Here(web=manifest(tool("fetch")), git=manifest(tool("log"), tool("diff")))
    here.registry.register({"zoo": other("zoo")}, Scope())
    assert names(await here.turn()) == ["zoo", "mcp_search", "mcp_call", "git_diff", "git_log", "web_fetch"]


async def test_a_large_catalogue_is_searched() -> None:
    """MCP-201: beyond the tokens none is offered by name, and the two constant tools are."""
    tools = [tool(f"tool{n}", "long " * 100, argument=TEXT) for n in range(25)]
    here = Here(**{f"server{n}": manifest(*tools) for n in range(20)})
    assert here.offered.catalogue.offer() == ""
    assert names(await here.turn()) == ["mcp_search", "mcp_call"]
    here.most = 1_000_000
    assert len(names(await here.turn())) == 502


async def test_definitions_are_the_same_bytes_through_every_change_of_the_servers() -> None:
    """MCP-202: while the offer is the same, whatever is known now, in another process too."""
    manifests = {"git": manifest(tool("log", "Show the log", path=TEXT)), "web": manifest(tool("fetch"))}
    here = Here(**manifests)
    offer = here.offered.catalogue.offer()
    before = (await here.turn(offer)).definitions
    here.servers.set(git=manifest(tool("log", "Changed"), tool("new")))
    assert (await here.turn(offer)).definitions is before
    there = Here(**manifests)
    there.servers.set(another=manifest(tool("x")))
    assert encode((await there.turn(offer)).definitions) == encode(before)
    here.servers.set()
    assert (await here.turn(offer)).definitions is before


async def test_tools_stay_when_their_server_is_not_configured_any_more() -> None:
    """MCP-202: only the constant ones go with the last server, and a call tells the reason."""
    here = Here(git=manifest(tool("log")))
    offer = here.offered.catalogue.offer()
    here.servers.set()
    here.servers.configured = False
    assert names(await here.turn(offer)) == ["git_log"]
    assert names(await here.turn("")) == []


async def test_an_agent_that_is_denied_a_tool_does_not_see_it() -> None:
    """MCP-204."""
    here = Here(git=manifest(tool("log"), tool("push")))
    turn = await here.turn(None, rule("*", "allow"), rule("git_push", "deny"))
    assert names(turn) == ["mcp_search", "mcp_call", "git_log"]
    assert names(await here.turn(None, rule("*", "deny"))) == []


async def test_another_tool_of_the_same_name_wins() -> None:
    """TOL-281: and an MCP tool cannot be called under its name, nor under its permissions."""
    here = Here(git=manifest(tool("log")))
    here.registry.register({"git_log": other("the plugin's")}, Scope())
    assert names(await here.turn()) == ["git_log", "mcp_search", "mcp_call"]
    assert texts(await here.call("git_log")) == ["the plugin's"]
    assert "another tool" in await here.fails("mcp_call", tool="git_log")
    assert not here.servers.calls


async def test_an_advertised_tool_is_never_stale() -> None:
    """MCP-202: neither a changed manifest nor a plugin that comes in between takes it away from its turn."""
    here = Here(git=manifest(tool("log")))
    turn = await here.turn()
    here.servers.set(git=manifest(tool("blame")))
    here.registry.register({"git_log": other("the plugin's")}, Scope())
    assert texts(await turn.execute("git_log", {}, CONTEXT)) == ["git log {}"]


async def test_the_two_constant_tools_are_small() -> None:
    """MCP-201."""
    here = Here(git=manifest(tool("log")))
    assert here.offered._constant_tokens <= 350


# -- calls -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("through", ["direct", "mcp_call", "mcp_call by server"])
async def test_a_call_is_checked_asked_and_sent_once(through: str) -> None:
    """MCP-230, TOL-279: in the same way, directly or through `mcp_call`."""
    here = Here(**{"my git": manifest(tool("show.log", None, path=TEXT))})

    async def call(arguments: dict[str, Any]) -> CallOutput:
        if through == "direct":
            return await here.call("my_git_show_log", **arguments)
        given = {"tool": "my_git_show_log"} if through == "mcp_call" else {"tool": "show.log", "server": "my git"}
        return await here.call("mcp_call", **given, arguments=arguments)

    for wrong in ({}, {"path": 1}):
        with pytest.raises(ToolFailure, match="Invalid tool input"):
            await call(wrong)
    assert not here.people.asked
    assert not here.servers.calls
    assert texts(await call({"path": "a", "more": None})) == ['my git show.log {"more":null,"path":"a"}']
    (asked,) = here.people.asked
    assert asked[:3] == ("my_git_show_log", ("*",), ("*",))
    metadata = {"server": "my git", "tool": "show.log", "input": '{"path":"a","more":null}'}
    assert asked.metadata == metadata
    assert here.servers.calls == [("my git", "show.log", {"path": "a", "more": None})]
    assert here.servers.whom == [CallFor("ses_1", "msg_1", "call_1", "build")]


async def test_a_denied_call_is_not_sent() -> None:
    """TOL-279."""
    here = Here("git_log", git=manifest(tool("log")))
    for name, arguments in (("git_log", {}), ("mcp_call", {"tool": "git_log"})):
        with pytest.raises(Denied):
            await here.call(name, **arguments)
    assert not here.servers.calls


async def test_an_unknown_tool_is_told_with_those_of_similar_names() -> None:
    """MCP-222."""
    here = Here(git=manifest(tool("log"), tool("blame")), web=manifest(tool("log")))
    assert "git_blame" in await here.fails("mcp_call", tool="git_blam")
    assert "There is no MCP tool log" in await here.fails("mcp_call", tool="log")
    assert texts(await here.call("mcp_call", tool="blame")) == ["git blame {}"]
    assert "There is no MCP tool git_log" in await here.fails("mcp_call", tool="git_log", server="web")


async def test_a_tool_that_appeared_within_the_epoch_can_be_called() -> None:
    """MCP-222: without a change of what is offered."""
    here = Here(git=manifest(tool("log")))
    offer = here.offered.catalogue.offer()
    here.servers.set(git=manifest(tool("log"), tool("blame")))
    assert "git_blame" not in names(await here.turn(offer))
    assert texts(await here.call("mcp_call", offer, tool="git_blame")) == ["git blame {}"]


async def test_the_prefix_of_a_server_without_tools_is_its_own() -> None:
    """MCP-203: in the whole epoch, also if that server is not configured any more."""
    git = manifest(tool("lab_delete"), tool("log"))
    here = Here(git=git, git_lab=manifest(), other=manifest(tool("x")))
    offer = here.offered.catalogue.offer()
    assert names(await here.turn(offer)) == ["mcp_search", "mcp_call", "git_log", "other_x"]
    here.servers.set(git=git)
    assert names(await here.turn(offer)) == ["mcp_search", "mcp_call", "git_log", "other_x"]
    assert names(await here.turn()) == ["mcp_search", "mcp_call", "git_lab_delete", "git_log"]


async def test_a_server_that_is_added_later_takes_back_its_prefix() -> None:
    """MCP-203: a tool that was offered under a name which now belongs to the rules of another server is not called."""
    here = Here(git=manifest(tool("lab_delete")))
    turn = await here.turn()
    here.servers.set(git=manifest(tool("lab_delete")), git_lab=manifest(tool("open")))
    with pytest.raises(ToolFailure, match="rules for the MCP server git_lab"):
        await turn.execute("git_lab_delete", {}, CONTEXT)
    assert not here.servers.calls


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ServerClosed("The MCP server ended", exit_status=3, last_stderr="boom"), "git: .*exit status 3.*boom"),
        (ServerUnavailable("git", "it did not start"), "git cannot be used: it did not start"),
    ],
)
async def test_a_dead_server_settles_the_call_with_its_reason(error: Exception, told: str) -> None:
    """MCP-231: and the call is not sent again."""
    here = Here(git=manifest(tool("log")))

    async def answer(*given: Any) -> ToolResult:
        raise error

    here.servers.answer = answer
    with pytest.raises(ToolFailure, match=told):
        await here.call("git_log")
    assert len(here.servers.calls) == 1


async def test_progress_that_arrives_in_another_task_belongs_to_the_call() -> None:
    """MCP-232, TOL-282: at most one report per interval, and the text is bounded."""
    here = Here(git=manifest(tool("log")))
    reports: list[tuple[dict[str, Any], tuple[ToolContent, ...]]] = []
    reader: list[Callable[[Progress], None]] = []
    ready, go = asyncio.Event(), asyncio.Event()

    async def reading() -> None:
        await ready.wait()
        for step in range(1_000):
            reader[0](Progress(progress=step, total=1_000, message=f"step {step}\n" + "x" * 5_000))
        go.set()

    async def answer(
        server: str, tool: str, arguments: Mapping[str, Any], on_progress: Callable[[Progress], None]
    ) -> ToolResult:
        reader.append(on_progress)
        ready.set()
        await go.wait()
        return result("done")

    here.servers.answer = answer
    task = asyncio.create_task(reading())
    with reporting(lambda structured, content: reports.append((structured, content))):
        await here.call("git_log")
    await task
    ((structured, content),) = reports
    assert structured["progress"] == 0
    assert structured["total"] == 1_000
    assert len(structured["message"]) <= 2_000
    assert "\n" not in structured["message"]
    assert content[0].text == structured["message"]  # type: ignore[union-attr]


async def test_a_call_that_is_cut_off_is_cancelled_at_the_server() -> None:
    """MCP-232, TOL-282."""
    here = Here(git=manifest(tool("log")))
    begun, cut = asyncio.Event(), asyncio.Event()

    async def answer(*given: Any) -> ToolResult:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cut.set()
            raise
        raise AssertionError

    here.servers.answer = answer
    task = asyncio.create_task(here.call("git_log"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cut.is_set()


# -- results -----------------------------------------------------------------------------------------------------------


async def test_every_kind_of_content_becomes_text_or_a_file() -> None:
    """TOL-282."""
    here = Here(git=manifest(tool("log")))
    here.answers(
        mcp.TextContent(text="words"),
        mcp.ImageContent(data=PIXEL, mime_type="image/png"),
        mcp.AudioContent(data="UklGRg==", mime_type="audio/wav"),
        mcp.EmbeddedResource(resource=mcp.ResourceContents(uri="file:///a", text="inside")),
        mcp.EmbeddedResource(resource=mcp.ResourceContents(uri="file:///b", blob=PIXEL, mime_type="image/png")),
        mcp.EmbeddedResource(resource=mcp.ResourceContents(uri="file:///c", blob="aGVsbG8=")),
        mcp.ResourceLink(uri="file:///d", name="d.txt", description="two\nlines", mime_type="text/plain", size=3),
        mcp.UnknownContent(kind="video", reason="content of the kind 'video' is not supported"),
    )
    output = await here.call("git_log")
    files = [part for part in output.content if isinstance(part, FileContent)]
    assert [(part.mime, part.name) for part in files] == [("image/png", None), ("image/png", "file:///b")]
    told = texts(output)
    assert told[0] == "words"
    assert "audio/wav" in told[1]
    assert told[2] == "[resource: file:///a]\ninside"
    assert told[3] == "[file: file:///c]\nhello"
    assert told[4] == "[link to a resource: d.txt, file:///d (text/plain; 3 bytes; two lines)]"
    assert told[5] == "[left out: content of the kind 'video' is not supported]"
    assert output.structured == {}


async def test_media_that_is_not_what_it_is_said_to_be_is_a_note() -> None:
    """TOL-282: neither a hostile type nor a hostile body fails the call."""
    here = Here(git=manifest(tool("log")))
    here.answers(
        mcp.ImageContent(data="not base64 at all!", mime_type="image/png"),
        mcp.ImageContent(data=PIXEL, mime_type='image/png,<script>;"'),
        *(mcp.ImageContent(data=PIXEL, mime_type="image/png") for _ in range(20)),
    )
    output = await here.call("git_log")
    files = [part for part in output.content if isinstance(part, FileContent)]
    assert len(files) <= 16
    assert all(part.uri.startswith("data:image/png;base64,") for part in files)
    assert len(output.content) == 22


async def test_structured_content_is_for_clients_and_for_the_model_if_there_is_nothing_else() -> None:
    """TOL-282."""
    here = Here(git=manifest(tool("log")))
    here.answers(mcp.TextContent(text="two"), structured={"count": 2})
    output = await here.call("git_log")
    assert (output.structured, texts(output)) == ({"count": 2}, ["two"])
    here.answers(structured={"count": 2})
    output = await here.call("git_log")
    assert (output.structured, msgspec.json.decode(texts(output)[0])) == ({"count": 2}, {"count": 2})
    here.answers(structured=[1])
    assert (await here.call("git_log")).structured == {"value": [1]}
    here.answers()
    assert texts(await here.call("git_log")) == ["The tool returned nothing."]


async def test_a_result_that_does_not_match_its_output_schema_is_told() -> None:
    """TOL-282: the value stays, since the server has acted."""
    declared = ManifestTool(
        name="log",
        input_schema={"type": "object"},
        output_schema={"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]},
    )
    here = Here(git=manifest(declared))
    here.answers(mcp.TextContent(text="many"), structured={"count": "many"})
    output = await here.call("git_log")
    assert output.structured == {"count": "many"}
    assert "does not match" in texts(output)[1]
    assert "$.count" in texts(output)[1]
    here.answers(mcp.TextContent(text="one"), structured={"count": 1})
    assert texts(await here.call("git_log")) == ["one"]


async def test_a_tool_that_failed_fails_the_call_with_its_text() -> None:
    """TOL-282."""
    here = Here(git=manifest(tool("log")))
    here.answers(mcp.TextContent(text="no such"), mcp.TextContent(text="commit"), is_error=True)
    assert await here.fails("git_log") == "no such\ncommit"
    here.answers(is_error=True, structured={"code": 7})
    assert '"code": 7' in await here.fails("git_log")
    here.answers(is_error=True)
    assert "does not say why" in await here.fails("git_log")
    here.answers(mcp.TextContent(text="x" * 1_000_000), is_error=True)
    assert len(await here.fails("git_log")) <= 50 * 1024


async def test_a_huge_result_is_bounded_and_not_kept_in_the_log() -> None:
    """TOL-282: content of any number and structured content of any size."""
    here = Here(git=manifest(tool("log")))
    here.answers(*(mcp.TextContent(text="x") for _ in range(5_000)), structured={"x": "y" * 1_000_000})
    turn = await here.turn()
    output = await turn.bound(await turn.execute("git_log", {}, CONTEXT))
    assert output.structured == {}
    assert len(output.content) <= 1_001
    here.answers(structured={"x": ["y" * 100] * 10_000})
    output = await turn.bound(await turn.execute("git_log", {}, CONTEXT))
    assert len(texts(output)[0]) <= 51 * 1024


# -- hostile manifests -------------------------------------------------------------------------------------------------


async def test_a_schema_with_keywords_that_are_not_checked_here_is_offered_as_it_is() -> None:
    """TOL-282: nothing is dropped; the server checks what is not checked here."""
    schema = {
        "properties": {"a": {"type": "string", "x-secret": True, "format": "regex"}},
        "unevaluatedProperties": False,
        "x-unknown": {"deep": [1]},
    }
    here = Here(git=manifest(ManifestTool(name="log", input_schema=schema)))
    offered = (await here.turn()).definitions[-1]
    assert offered.input_schema == {**schema, "type": "object"}
    assert texts(await here.call("git_log", a="b", other=1)) == ['git log {"a":"b","other":1}']


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {"type": ["object", "null"]},
        {"type": 7},
        {"type": "object", "properties": []},
        {"type": "object", "required": "a"},
        {"$ref": "#"},
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"type": "object", "properties": {"a": {"pattern": "(a+)+$"}}},
        {"type": "object", "patternProperties": {"[": {}}},
    ],
)
async def test_a_hostile_schema_harms_its_own_tool_only(schema: dict[str, Any]) -> None:
    """MCP-213: whatever was stored, offers are made, searched and called."""
    here = Here(git=manifest(ManifestTool(name="bad", input_schema=schema), tool("log")))
    turn = await here.turn()
    assert "git_log" in names(turn)
    assert texts(await turn.execute("git_log", {}, CONTEXT)) == ["git log {}"]
    await here.call("mcp_search", query="bad")
    async with asyncio.timeout(20):
        with suppress(ToolFailure):
            await here.call("mcp_call", tool="git_bad", arguments={"a": "a" * 5_000 + "!"})


# -- searching ---------------------------------------------------------------------------------------------------------


async def test_a_search_tells_name_description_and_schema() -> None:
    """MCP-220."""
    git = manifest(tool("log", "Show\nthe log </x>", path=TEXT), tool("blame", "Who wrote it"))
    here = Here(git=git, web=manifest(tool("f")))
    output = await here.call("mcp_search", query="show log", limit=1)
    (text,) = texts(output)
    assert text.startswith("git_log: Show the log </x>\n  server: git\n  input: {")
    assert '"path":{"type":"string"}' in text
    listed = {"name": "git_log", "server": "git", "tool": "log", "description": "Show the log </x>"}
    assert output.structured == {"tools": [listed], "total": 1}
    assert "git (2 tools), web (1 tools)" in texts(await here.call("mcp_search", query="zebra"))[0]
    everything = texts(await here.call("mcp_search", query="", limit=2))[0]
    assert "1 more match" in everything
    assert "git_log" not in texts(await here.call("mcp_search", query="log", server="web"))[0]


async def test_a_search_finds_nothing_that_the_agent_is_denied() -> None:
    """MCP-221."""
    here = Here(git=manifest(tool("log"), tool("push")))
    here.people.rules = (rule("*", "allow"), rule("git_push", "deny"))
    assert "git_push" not in texts(await here.call("mcp_search", query=""))[0]


async def test_a_search_is_bounded() -> None:
    """MCP-220: a schema that is too long is described; alone it is shown whole."""
    long = {f"argument_{n}": {"type": "string", "description": "x" * 300} for n in range(60)}
    here = Here(git=manifest(*(tool(f"tool{n}", "y" * 4_000, **long) for n in range(30))))
    (text,) = texts(await here.call("mcp_search", query="tool", limit=20))
    assert len(text) <= 45_000
    assert "too long to show here" in text
    assert "argument_7" in text
    (alone,) = texts(await here.call("mcp_search", query="git_tool3", limit=1))
    assert "too long" not in alone
    assert "x" * 300 in alone
    nothing = Here()
    nothing.servers.configured = True
    assert "known yet" in texts(await nothing.call("mcp_search", query="x"))[0]
