"""`holdfast.testing`: a model and fixtures for the tests of programs that use Holdfast."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from holdfast import ActivityFailed, Holdfast, HoldfastSync
from holdfast.testing import Failure, ModelRequest, ScriptedModel, Structured, ToolCall

pytestmark = pytest.mark.anyio


class Ticket(msgspec.Struct):
    number: int


async def test_replies_are_played_and_requests_are_kept(tmp_path: Path) -> None:
    """API-511: text, calls, values, and a function of the request."""

    def last(request: ModelRequest) -> str:
        return f"{request.prompt}: {request.tool_results[-1]}"

    model = ScriptedModel("hello", ["Looking.", ToolCall("ticket", number=7)], last)
    model.reply(Structured(Ticket(7)))
    async with model.host(tmp_path) as hf:

        @hf.tool
        def ticket(number: int) -> str:
            """Look up a ticket."""
            return f"ticket {number}"

        first = await hf.run("hi")
        second = await hf.run("which?", session=first.session)
        third = await hf.run("as JSON", session=first.session)
    assert [answer.text for answer in (first, second, third)] == ["hello", "which?: ticket 7", '{"number":7}']
    assert [request.prompt for request in model.requests] == ["hi", "which?", "which?", "as JSON"]
    assert "ticket" in model.requests[0].tools
    assert model.requests[0].system
    assert [message["role"] for message in model.requests[1].messages] == ["user", "assistant", "user"]
    assert model.remaining == 0


async def test_failures_and_the_end_of_the_script_are_failures(tmp_path: Path) -> None:
    """API-511: a test that asks for more than it wrote down is told so."""
    model = ScriptedModel(Failure(401))
    async with model.host(tmp_path) as hf:
        with pytest.raises(ActivityFailed, match="401"):
            await hf.run("hi")
        with pytest.raises(ActivityFailed, match="no reply to request 2: 'and now'"):
            await hf.run("and now")


async def test_a_scripted_host_reads_nothing_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """API-511: neither keys nor configuration; everything it writes is in its own folder."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    async with ScriptedModel("ok").host(tmp_path) as hf:
        assert [
            integration.connections for integration in (await hf.integrations.list()).data if integration.connections
        ] == []
        default = await hf.default_model()
        assert (await hf.run("hi")).session.location.directory == str(tmp_path / "project")
    assert default is not None
    assert default.provider_id == "demo"
    assert (tmp_path / "data").is_dir()


async def test_the_fixtures(holdfast_model: ScriptedModel, holdfast_host: Holdfast) -> None:
    """API-511: there without any import."""
    holdfast_model.reply("from the fixture")
    async with holdfast_host as hf:
        assert (await hf.run("hi")).text == "from the fixture"


def test_the_blocking_fixture(holdfast_model: ScriptedModel, holdfast_sync: HoldfastSync) -> None:
    """API-511."""
    holdfast_model.reply("from the fixture")
    assert holdfast_sync.run("hi").text == "from the fixture"


def test_the_plugin_imports_nothing_of_the_runtime() -> None:
    """API-511: it is loaded at the start of every pytest of a machine that has Holdfast."""
    code = "import sys, holdfast.testing.plugin; print(*sorted(m for m in sys.modules if m.startswith('holdfast')))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [
        "holdfast",
        "holdfast.schema",
        "holdfast.schema.version",
        "holdfast.testing",
        "holdfast.testing.plugin",
    ]
