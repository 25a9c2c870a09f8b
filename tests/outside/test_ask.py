"""`ask`: the answer as a value of a Python type."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import msgspec
import pytest
from pydantic import BaseModel, Field
from tests.outside.scripted_provider import Call, Turn
from tests.outside.test_structured_output import TOOL
from tests.outside.world import World, until

from holdfast import ActivityFailed, HoldfastSync, InvalidRequest, PromptInput, StructuredOutputFailed
from holdfast.schema.insight import STRUCTURED_OUTPUT
from holdfast.schema.session_event import PromptAdmitted

pytestmark = pytest.mark.anyio


class Struct(msgspec.Struct):
    number: int
    customer: Annotated[str, msgspec.Meta(description="Who pays.")]
    total: float = 0.0
    note: str | None = None


@dataclass
class Data:
    number: int
    customer: str
    note: str | None = None


class Typed(TypedDict):
    number: int
    customer: str


class Model(BaseModel):
    number: int = Field(ge=1)
    customer: str = Field(description="Who pays.")
    note: str | None = None


SCHEMA = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
GIVEN = {"number": 7, "customer": "Ada"}


@pytest.mark.parametrize(
    ("into", "given", "expected"),
    [
        (Struct, GIVEN, Struct(number=7, customer="Ada")),
        (Data, GIVEN, Data(number=7, customer="Ada")),
        (Typed, GIVEN, GIVEN),
        (Model, GIVEN, Model(number=7, customer="Ada")),
        (SCHEMA, GIVEN, GIVEN),
        (list[Struct], {"value": [GIVEN]}, [Struct(number=7, customer="Ada")]),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (int, {"value": 7}, 7),
    ],
)
async def test_the_answer_is_a_value_of_the_type(world: World, into: Any, given: Any, expected: Any) -> None:
    """API-495, SES-211, LLM-432"""
    world.model.plays(Turn(calls=(Call(TOOL, given),)))
    async with world.host() as hf:
        session = await hf.sessions.create()
        assert await hf.sessions.ask(session, "Which invoice?", into=into) == expected
    if into in (Struct, Model):
        assert "Who pays." in world.model.last.raw.decode()


async def test_an_optional_field_may_be_null_where_the_provider_requires_all(world: World) -> None:
    """API-495, LLM-429, LLM-433"""
    world.configure(provider={"mock": world.provider("@ai-sdk/openai", structured_output=True)})
    world.model.plays(Turn(text='{"number":7,"customer":"Ada","total":null,"note":null}'))
    async with world.host() as hf:
        session = await hf.sessions.create()
        assert await hf.sessions.ask(session.id, "Which invoice?", into=Struct) == Struct(7, "Ada")


async def test_a_model_that_gives_no_such_value_raises(world: World) -> None:
    """API-495, SES-314: which is also an ActivityFailed."""
    world.model.always = Turn(text="no")
    async with world.host() as hf:
        session = await hf.sessions.create()
        with pytest.raises(StructuredOutputFailed, match="it is not JSON") as failed:
            await hf.sessions.ask(session, "Which invoice?", into=Struct, retry_count=1)
        assert isinstance(failed.value, ActivityFailed)
        assert failed.value.outcome.code == STRUCTURED_OUTPUT
        assert len(world.model.requests) == 2


async def test_work_that_fails_raises_its_own_failure(world: World) -> None:
    """API-495"""
    world.model.always = Turn(status=401)
    async with world.host() as hf:
        session = await hf.sessions.create()
        with pytest.raises(ActivityFailed) as failed:
            await hf.sessions.ask(session, PromptInput(text="Which invoice?"), into=Struct)
        assert not isinstance(failed.value, StructuredOutputFailed)
        with pytest.raises(InvalidRequest, match=r"\$\.type"):
            await hf.sessions.ask(session, "Which?", into={"type": "text"})
        with pytest.raises(TypeError):
            await hf.sessions.ask(session, "Which?", into=asyncio.Event)


async def test_a_value_that_matches_the_schema_and_not_the_type_raises(world: World) -> None:
    """API-495: a type may check more than its schema says."""

    class Even(BaseModel):
        number: int

        def model_post_init(self, _: Any) -> None:
            if self.number % 2:
                raise ValueError("it is odd")

    world.model.plays(Turn(calls=(Call(TOOL, {"number": 7}),)))
    async with world.host() as hf:
        session = await hf.sessions.create()
        with pytest.raises(StructuredOutputFailed, match="not the type"):
            await hf.sessions.ask(session, "Which?", into=Even)


async def test_the_answer_to_this_prompt_counts(world: World) -> None:
    """API-495: others may have been answered before and after it."""
    gate = asyncio.Event()
    world.model.plays(
        Turn(calls=(Call(TOOL, {"number": 1}),), begin=gate), Turn(calls=(Call(TOOL, {"number": 2}),)), Turn(text="Hi.")
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        one = asyncio.create_task(hf.sessions.ask(session, "first", into=SCHEMA, delivery="queue"))
        await world.model.asked(1)
        two = asyncio.create_task(hf.sessions.ask(session, "second", into=SCHEMA, delivery="queue"))
        await until(
            hf, session, lambda event: isinstance(event.data, PromptAdmitted) and event.data.prompt.text == "second"
        )
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="third"), delivery="queue")
        gate.set()
        assert (await one, await two) == ({"number": 1}, {"number": 2})


async def test_a_prompt_that_another_one_overtook_raises(world: World) -> None:
    """API-495, SES-310"""
    gate = asyncio.Event()
    world.model.plays(Turn(calls=(Call("read", {"path": "hello.txt"}),), begin=gate), Turn(text="As you wish."))
    async with world.host() as hf:
        session = await hf.sessions.create()
        asking = asyncio.create_task(hf.sessions.ask(session, "first", into=SCHEMA))
        await world.model.asked(1)
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="No, just tell me."))
        gate.set()
        with pytest.raises(StructuredOutputFailed, match="another one"):
            await asking


async def test_the_same_without_a_loop(world: World) -> None:
    """API-495"""
    world.host()  # writes the configuration
    world.model.plays(Turn(calls=(Call(TOOL, GIVEN),)))

    def program() -> Struct:
        with HoldfastSync(world.project, data=world.data, environment=world.environment) as hf:
            return hf.sessions.ask(hf.sessions.create(), "Which invoice?", into=Struct)

    assert await asyncio.to_thread(program) == Struct(7, "Ada")
