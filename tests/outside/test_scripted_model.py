"""`holdfast.testing`: a model and fixtures for the tests of programs that use Holdfast."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from tests.stores.stores import on_postgres

from holdfast import ActivityFailed, AssistantMessage, Done, Holdfast, HoldfastSync, PromptInput, StructuredOutputFailed
from holdfast.schema.prompt import JsonFormat
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


@dataclass
class Invoice:
    number: int
    total: float


INVOICE = Invoice(7, 12.5)


async def test_an_answer_is_a_value(tmp_path: Path) -> None:
    """API-512, API-511: in a new Session or an existing one; a JSON Schema gives plain JSON."""
    model = ScriptedModel(Structured(INVOICE), Structured({"number": 8, "total": 1.0}), Structured([1, 2]))
    async with model.host(tmp_path) as hf:
        invoice = await hf.ask("Which invoice?", into=Invoice)
        (session,) = (await hf.sessions.list()).items
        again = await hf.ask("And before?", into={"type": "object", "required": ["number"]}, session=session)
        numbers = await hf.ask("Which numbers?", into=list[int], session=session.id, agent="plan")
        shown = (await hf.sessions.messages(session.id)).items
    assert (invoice, again, numbers) == (INVOICE, {"number": 8, "total": 1.0}, [1, 2])
    # In the form that the request prescribes: as a call, since this model has no JSON mode.
    answers = [message for message in shown if isinstance(message, AssistantMessage)]
    assert [part.type for message in answers for part in message.content] == ["tool"] * 3


async def test_an_answer_that_does_not_match_is_asked_for_again(tmp_path: Path) -> None:
    """API-512: a stream goes on to the accepted answer, and without one the failure says so."""
    wrong = Structured({"number": "seven"})
    model = ScriptedModel(wrong, Structured(INVOICE), wrong, Structured(INVOICE), wrong, wrong)
    async with model.host(tmp_path) as hf:
        assert await hf.ask("Which invoice?", into=Invoice) == INVOICE
        (session,) = (await hf.sessions.list()).items
        form = JsonFormat(schema={"type": "object", "properties": {"number": {"type": "integer"}}})
        pieces = [piece async for piece in hf.stream(session, PromptInput(text="Again?", format=form))]
        with pytest.raises(StructuredOutputFailed) as failed:
            await hf.ask("And now?", into=Invoice, session=session, retry_count=1)
    done = pieces[-1]
    assert isinstance(done, Done)
    assert done.answer.message.structured == {"number": 7, "total": 12.5}
    assert [message.type for message in done.answer.messages].count("assistant") == 2
    assert failed.value.session_id == session.id
    assert isinstance(failed.value, ActivityFailed)
    assert model.remaining == 0


def test_a_value_in_blocking_code(holdfast_model: ScriptedModel, holdfast_sync: HoldfastSync) -> None:
    """API-510, API-512."""
    holdfast_model.reply(Structured(INVOICE))
    assert holdfast_sync.ask("Which invoice?", into=Invoice) == INVOICE


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
    assert (tmp_path / "data").is_dir() or on_postgres()


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
