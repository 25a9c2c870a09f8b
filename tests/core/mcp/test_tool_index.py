"""Searching tools of MCP servers."""

from __future__ import annotations

import time

from tests.core.mcp.fake_servers import manifest, tool

from holdfast.core.mcp.seam import ManifestTool
from holdfast.core.mcp.tool_index import ToolIndex
from holdfast.core.mcp.tool_names import NamedTool, named_tools

TEXT = {"type": "string"}


def index() -> ToolIndex:
    return ToolIndex(
        named_tools(
            {
                "github": manifest(
                    tool("create_issue", "Create a new issue in a repository", title=TEXT, body=TEXT),
                    tool("list_issues", "List issues in a repository", state=TEXT),
                    tool("create_pull_request", "Open a pull request", base=TEXT),
                    tool("searchCode", "Search for code across repositories", q=TEXT),
                ),
                "slack": manifest(
                    tool("post_message", "Send a message to a channel", channel_id=TEXT, text=TEXT),
                    ManifestTool(name="x1", title="Channel archive", input_schema={"type": "object"}),
                ),
            }
        )
    )


def found(query: str) -> list[str]:
    return [named.name for named in index().search(query, lambda tool: True)]


def test_names_weigh_more_than_descriptions_and_arguments() -> None:
    """MCP-220."""
    assert found("create issue")[0] == "github_create_issue"
    assert found("issues")[0] == "github_list_issues"
    assert found("code")[0] == "github_searchCode"
    assert found("send to channel")[0] == "slack_post_message"
    assert found("archive") == ["slack_x1"]
    assert found("channel_id")[0] == "slack_post_message"


def test_the_exact_name_comes_first_with_or_without_the_prefix() -> None:
    """MCP-220."""
    assert found("github_list_issues")[0] == "github_list_issues"
    assert found("list_issues")[0] == "github_list_issues"
    assert found("x1")[0] == "slack_x1"


def test_an_empty_query_lists_all_by_name_and_an_unknown_word_nothing() -> None:
    """MCP-220."""
    assert found("") == [named.name for named in index().tools]
    assert found("zebra") == []
    assert found("!!! ---") == found("")


def test_the_same_query_gives_the_same_order() -> None:
    """MCP-220."""
    assert found("repository") == found("repository")
    assert sorted(found("repository")) == sorted({*found("repository")})


def test_what_an_agent_may_not_use_is_not_found() -> None:
    """MCP-221."""
    only = index().search("message issue", lambda named: named.server == "slack")
    assert [named.name for named in only] == ["slack_post_message"]


def test_hostile_texts_cost_little() -> None:
    """MCP-220: a search through hundreds of tools with long descriptions and many arguments takes milliseconds."""
    arguments = {f"argument_{n}": TEXT for n in range(300)}
    tools = [tool(f"tool{n}", "word " + "aB" * 5_000 + " word" * 1_000, **arguments) for n in range(300)]
    started = time.process_time()
    large = ToolIndex(tuple(NamedTool(f"s_{one.name}", "s", one) for one in tools))
    assert len(large.search("word " * 1_000, lambda tool: True)) == 300
    assert time.process_time() - started < 1
