"""What a child process learns of the environment."""

from __future__ import annotations

import pytest

from holdfast.core.process.environment import UNATTENDED, child_environment

SECRETS = (
    *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "EXA_API_KEY", "PARALLEL_API_KEY", "AWS_SECRET_ACCESS_KEY"),
    *("OPENCODE_SERVER_PASSWORD", "HOLDFAST_SERVER_PASSWORD", "GITHUB_TOKEN", "MCP_SECRET", "DATABASE_URL"),
)


def test_a_child_gets_no_variable_that_is_not_on_the_list() -> None:
    """TOL-222: whatever is not on the list, the known secrets among it."""
    assert child_environment(dict.fromkeys(SECRETS, "canary")) == UNATTENDED


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "HOME",
        "USER",
        "LANG",
        "LC_ALL",
        "TERM",
        "TMPDIR",
        "SHELL",
        "HTTPS_PROXY",
        "no_proxy",
        "VIRTUAL_ENV",
        "GOPATH",
    ],
)
def test_a_child_gets_the_variables_of_the_allow_list(name: str) -> None:
    """TOL-222: the allow-list."""
    assert child_environment({name: "here"})[name] == "here"


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ("http://proxy.example.org:3128", "http://proxy.example.org:3128"),
        ("http://person:secret@proxy.example.org:3128/", "http://proxy.example.org:3128/"),
        ("http://token@proxy.example.org", "http://proxy.example.org"),
        ("person:s@cret@proxy.example.org:3128", "proxy.example.org:3128"),
        ("socks5h://p:a/s@proxy.example.org", "socks5h://proxy.example.org"),
    ],
)
def test_a_proxy_is_passed_on_without_its_user(given: str, passed: str) -> None:
    """TOL-555: unless the user names the variable."""
    assert child_environment({"https_proxy": given})["https_proxy"] == passed
    assert child_environment({"https_proxy": given}, passed=("https_proxy",))["https_proxy"] == given


def test_variables_are_added_to_a_child_by_name_or_value() -> None:
    """TOL-222: by name from the host, or as values; a name that the host lacks adds nothing."""
    host = {"GITHUB_TOKEN": "t", "OPENAI_API_KEY": "k"}
    found = child_environment(host, passed=("GITHUB_TOKEN", "ABSENT"), values={"PLUGIN": "p"})
    assert found == {**UNATTENDED, "GITHUB_TOKEN": "t", "PLUGIN": "p"}


def test_nothing_waits_for_a_terminal() -> None:
    """TOL-223: the host's own pager gives way, a configured one does not."""
    host = {"PAGER": "less", "NO_COLOR": "", "GIT_TERMINAL_PROMPT": "1"}
    found = child_environment(host, values={"NO_COLOR": "0"})
    assert found == {
        "OPENCODE": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "PAGER": "cat",
        "DEBIAN_FRONTEND": "noninteractive",
        "NO_COLOR": "0",
    }
    assert child_environment(host, passed=("PAGER",))["PAGER"] == "less"
