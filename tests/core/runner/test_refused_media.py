"""A provider that refuses a request with media: asked again without, in the same turn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.core.conftest import new_session
from tests.core.runner.test_prefix import ROOMY, causes
from tests.core.session.support_lab import LAB, OTHER, Lab, Provider, Reply, calls, overflows, says, tool

from holdfast.core.tool.tool import Tool
from holdfast.llm.errors import LLMError
from holdfast.schema.prompt import FileAttachment, Prompt
from holdfast.schema.session_message import FileContent, ToolContent

pytestmark = pytest.mark.anyio

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
URI = f"data:image/png;base64,{DOT}"
LOOK = Prompt(text="look", files=(FileAttachment(uri=URI, mime="image/png", name="dot.png"),))
NOTE = "[dot.png was left out: the provider refused it]"


def refuses(message: str = "this model takes no images", status: int = 400) -> Reply:
    return Reply([json.dumps({"error": {"message": message}}).encode()], status)


def refuses_in_stream() -> Reply:
    return Reply([b'data: {"error": {"message": "no images", "type": "invalid_request_error"}}\n\n'])


async def ask(runtime: Lab, session_id: str, prompt: Prompt) -> None:
    await runtime.sessions.prompt(session_id, prompt)
    await runtime.sessions.wait(session_id)


def has_image(request: dict[str, object]) -> bool:
    return "image_url" in json.dumps(request)


@pytest.mark.parametrize("refusal", [refuses(), refuses_in_stream()], ids=["status", "stream"])
async def test_the_turn_is_taken_again_without_media(tmp_path: Path, refusal: Reply) -> None:
    """SES-235: nothing of the first attempt is in the conversation; the cause of the other bytes is recorded; the drain
    does not ask for it again, the next one does."""
    provider = Provider(refusal, calls(("t", {})), says("seen"), says("later"))
    async with Lab(tmp_path, provider, tools={"t": tool(lambda context: {"a": 1})}) as runtime:
        session = await new_session(runtime, model=LAB)
        await ask(runtime, session.id, LOOK)
        assert [has_image(request) for request in provider.requests] == [True, False, False]
        assert NOTE in json.dumps(provider.requests[1])
        assert await causes(runtime, session.id) == [[], ["media refused"], []]
        rows = await runtime.sessions.context(session.id)
        assert [row.decode().__struct_config__.tag for row in rows] == ["user", "assistant", "assistant"]
        await ask(runtime, session.id, Prompt(text="and?"))
        assert has_image(provider.requests[3])
        assert (await causes(runtime, session.id))[3] == ["media refused"]
        assert await runtime.verify() == []


async def test_another_model_gets_the_media(tmp_path: Path) -> None:
    """SES-235: a refusal is one model's."""
    provider = Provider(refuses(), says("not seen"), says("seen"))
    async with Lab(tmp_path, provider) as runtime:
        session = await new_session(runtime, model=LAB)
        await ask(runtime, session.id, LOOK)
        await runtime.sessions.switch_model(session.id, OTHER)
        await ask(runtime, session.id, Prompt(text="and you?"))
        assert has_image(provider.requests[-1])


async def test_media_of_a_tool_is_left_out_too(tmp_path: Path) -> None:
    """SES-235"""

    def content(given: object, value: object) -> list[ToolContent]:
        return [FileContent(uri=URI, mime="image/png", name="dot.png")]

    async def execute(given: dict[str, int], context: object) -> dict[str, int]:
        return {}

    camera = Tool(
        description="Take a picture.", input=dict[str, int], output=dict[str, int], execute=execute, content=content
    )
    provider = Provider(calls(("camera", {})), refuses(), says("done"))
    async with Lab(tmp_path, provider, tools={"camera": camera}) as runtime:
        session = await new_session(runtime, model=LAB)
        await ask(runtime, session.id, Prompt(text="go"))
        assert [has_image(request) for request in provider.requests] == [False, True, False]
        assert provider.requests[2]["messages"][-1] == {**provider.requests[2]["messages"][-1], "content": NOTE}


async def test_a_second_refusal_ends_the_turn(tmp_path: Path) -> None:
    """SES-235: it was not about the media; recorded once, and raised to whoever asked."""
    provider = Provider(refuses("first"), refuses("second"), says("fine"))
    async with Lab(tmp_path, provider) as runtime:
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.prompt(session.id, LOOK, resume=False)
        with pytest.raises(LLMError, match="second"):
            await runtime.sessions.run(session.id)
        assert len(provider.requests) == 2
        await ask(runtime, session.id, Prompt(text="again"))
        assert has_image(provider.requests[2])


@pytest.mark.parametrize("failure", [refuses("bad key", 401), refuses("no", 403)], ids=["401", "403"])
async def test_other_failures_are_not_about_media(tmp_path: Path, failure: Reply) -> None:
    """LLM-402"""
    provider = Provider(failure)
    async with Lab(tmp_path, provider) as runtime:
        session = await new_session(runtime, model=LAB)
        await ask(runtime, session.id, LOOK)
        assert len(provider.requests) == 1


async def test_without_media_a_refusal_is_told_at_once(tmp_path: Path) -> None:
    """SES-235"""
    provider = Provider(refuses())
    async with Lab(tmp_path, provider) as runtime:
        session = await new_session(runtime, model=LAB)
        await ask(runtime, session.id, Prompt(text="hello"))
        assert len(provider.requests) == 1


async def test_an_overflow_after_a_refusal_is_recovered(tmp_path: Path) -> None:
    """SES-235, CMP-031: one turn may need both."""
    config = {"compaction": {"keep": {"tokens": 50}}}
    provider = Provider(says("one " * 500), refuses(), overflows(), says("notes"), says("fine"))
    async with Lab(tmp_path, provider, config=config, limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await ask(runtime, session.id, Prompt(text="first " * 500))
        await ask(runtime, session.id, LOOK)
        rows = await runtime.sessions.context(session.id)
        assert b"fine" in rows[-1].wire
