"""What a Python developer expects to write: texts for prompts and models, messages, errors, tools, blocking code."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Annotated, Any

import pydantic
import pytest
from tests.cli.conftest import PATIENCE, Machine
from tests.outside.scripted_provider import Turn, calling
from tests.outside.world import World

import holdfast
from holdfast import (
    ActivityFailed,
    AssistantMessage,
    Done,
    HoldfastSync,
    InvalidRequest,
    ModelRef,
    PermissionRequest,
    TextPart,
    ToolCompleted,
    ToolPart,
    UserMessage,
)
from holdfast.testing import ScriptedModel, ToolCall

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.anyio
async def test_texts_name_prompts_and_models(world: World) -> None:
    """API-506: in every operation; only the first slash separates, and the last # names the variant."""
    async with world.host() as hf:
        session = await hf.sessions.create(model="mock/m")
        admission = await hf.sessions.prompt(session.id, prompt="hello", resume=False)
        await hf.sessions.switch_model(session.id, model="demo/echo")
        switched = await hf.sessions.get(session.id)
        unchecked = holdfast.Options(headers={"x-holdfast-checked": "0"})
        other = await hf.sessions.create(model="gateway/vendor/model#high", options=unchecked)
        for text in ("qwen", "", "/qwen", "local/", "local/qwen#"):
            with pytest.raises(InvalidRequest, match="provider/model") as refused:
                await hf.sessions.create(model=text)
            assert refused.value.field == "model"
            with pytest.raises(InvalidRequest, match="provider/model"):
                await hf.run("hi", model=text)
        assert len((await hf.sessions.list()).items) == 2
    assert (session.model, admission.prompt.text) == (ModelRef(provider_id="mock", id="m", variant="default"), "hello")
    assert switched.model == ModelRef(provider_id="demo", id="echo", variant="default")
    assert other.model == ModelRef(provider_id="gateway", id="vendor/model", variant="high")


@pytest.mark.anyio
async def test_messages_have_a_type_and_a_text(world: World) -> None:
    """API-507: without looking at their class; parts and states likewise."""
    world.model.plays(Turn(text="Reading.", calls=calling("read", path="hello.txt").calls), Turn(text="It says hello."))
    async with world.host() as hf:
        session = (await hf.run("read it")).session
        await hf.sessions.switch_model(session.id, model="demo/echo")
        await hf.sessions.switch_agent(session.id, agent="plan")
        messages = (await hf.sessions.messages(session.id, order="asc")).items
    assert [(message.type, message.text) for message in messages] == [
        ("user", "read it"),
        ("assistant", "Reading."),
        ("assistant", "It says hello."),
        ("model-switched", ""),
        ("agent-switched", ""),
    ]
    user, answer = messages[:2]
    assert isinstance(user, UserMessage)
    assert isinstance(answer, AssistantMessage)
    assert [part.type for part in answer.content] == ["text", "tool"]
    text, call = answer.content
    assert isinstance(text, TextPart)
    assert isinstance(call, ToolPart)
    assert isinstance(call.state, ToolCompleted)
    assert call.state.status == "completed"


def test_every_error_of_an_operation_is_exported() -> None:
    """API-507, API-472."""
    from holdfast.schema import exceptions

    kinds = [kind for kind in vars(exceptions).values() if isinstance(kind, type)]
    errors = {kind.__name__ for kind in kinds if issubclass(kind, exceptions.HoldfastError)}
    assert errors <= set(holdfast.__all__)
    assert {"ABSENT", "UNAVAILABLE"} <= set(holdfast.__all__)


class Invoice(pydantic.BaseModel):
    number: int = pydantic.Field(description="Its number.", ge=1)
    lines: list[str] = []


class Total(pydantic.BaseModel):
    amount: float


@pytest.mark.anyio
async def test_pydantic_models_and_whole_docstrings_in_tools(world: World) -> None:
    """API-509: the model is told everything, a wrong argument is refused before the function is called, and models come
    back as JSON."""
    good: dict[str, Any] = {"invoice": {"number": 7, "lines": ["a", "b"]}, "currency": "EUR", "rounds": 2}
    world.model.plays(
        calling("total", **{**good, "invoice": {"number": 0}}),
        calling("total", **{**good, "rounds": "2"}),
        calling("total", **good),
        Turn(text="Done."),
    )
    called: list[Invoice] = []
    async with world.host() as hf:

        @hf.tool
        async def total(
            invoice: Invoice,
            currency: Annotated[str, "Three letters."],
            rounds: Annotated[int, pydantic.Field(description="How often to round.")] = 1,
            exact: bool = False,
        ) -> list[Total]:
            """Add up an invoice.

            Taxes are included. The result is in the given currency.

            Args:
                invoice: The invoice to add up,
                    with all lines.
                currency: Not used, as the annotation says more.
                exact: Whether to round at all.

            Returns:
                One total for each tax rate.
            """
            called.append(invoice)
            return [Total(amount=float(len(invoice.lines)))]

        answer = await hf.run("go")
    (told,) = [
        tool["function"] for tool in world.model.requests[0].body["tools"] if tool["function"]["name"] == "total"
    ]
    assert told["description"] == (
        "Add up an invoice.\n\nTaxes are included. The result is in the given currency.\n\n"
        "Returns:\n    One total for each tax rate."
    )
    properties = told["parameters"]["properties"]
    assert {name: schema.get("description") for name, schema in properties.items()} == {
        "invoice": "The invoice to add up, with all lines.",
        "currency": "Three letters.",
        "rounds": "How often to round.",
        "exact": "Whether to round at all.",
    }
    assert "Its number." in str(told["parameters"])
    assert told["parameters"]["required"] == ["invoice", "currency"]
    assert called == [Invoice(number=7, lines=["a", "b"])]
    wrong, also_wrong, right = world.model.last.results
    assert "greater than or equal to 1" in wrong
    assert "valid integer" in also_wrong
    assert '"amount":2.0' in right.replace(" ", "")
    assert answer.text == "Done."


def test_the_same_in_blocking_code(tmp_path: Path) -> None:
    """API-510: run, stream and functions that answer, which may use the host themselves."""
    model = ScriptedModel(
        "hello",
        ["Looking.", ToolCall("bash", command="touch made.txt")],
        "Made it.",
        ToolCall("bash", command="false"),
    )
    with model.host_sync(tmp_path, config={"permission": {"bash": "ask"}}) as hf:
        answer = hf.run("hi")
        assert (answer.text, model.requests[0].prompt) == ("hello", "hi")

        def allow(request: PermissionRequest) -> Any:
            assert threading.current_thread().name != "holdfast"
            assert hf.sessions.get(request.session_id).id == answer.session.id
            return "once"

        remove = hf.on_permission(allow)
        pieces = list(hf.stream(answer.session, "make it"))
        assert "".join(piece.text for piece in pieces) == "Looking.Made it."
        assert isinstance(pieces[-1], Done)
        remove()
        hf.on_permission(lambda request: "reject")
        with pytest.raises(ActivityFailed):
            hf.run("and now?", session=answer.session.id)
    assert (tmp_path / "project" / "made.txt").exists()


def test_a_blocking_reader_may_stop_early(tmp_path: Path) -> None:
    """API-503, API-510: the Session goes on; after the host has closed, reading says so."""
    model = ScriptedModel("one two three", "four")
    with model.host_sync(tmp_path) as hf:
        session = hf.sessions.create()
        for piece in hf.stream(session, "count"):
            assert piece.text
            break
        hf.sessions.wait(session.id)
        assert hf.sessions.messages(session.id, limit=1).items[0].text == "one two three"
        with pytest.raises(TimeoutError):
            hf.run("on", session=session, timeout=0)
        late = hf.stream(session, "never")
    with pytest.raises(holdfast.HoldfastError):
        next(late)


def test_the_example_of_the_readme_is_a_program(holdfast: Machine) -> None:
    """README's Python block, saved as a file and run."""
    block = README.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    program = holdfast.project / "example.py"
    program.write_text(block, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, program.name],
        cwd=holdfast.project,
        env=holdfast.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "What is ticket 7 about?" in ran.stdout


def test_a_host_has_few_parameters() -> None:
    """API-508: what belongs to a host is one group of settings, the same for both kinds."""
    assert "unattended" in holdfast.HoldfastSettings.__optional_keys__
    with pytest.raises(TypeError, match="unatended"):
        HoldfastSync(**{"unatended": "deny"})  # type: ignore[arg-type]
