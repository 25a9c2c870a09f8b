"""Prompts of a program that are none."""

from __future__ import annotations

from typing import Any

import pytest
from tests.outside.world import World

from holdfast import InvalidRequest, PromptInput

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("prompt", [3, None, b"hi", {"text": "hi"}, ["hi"]])
async def test_what_is_no_prompt_is_a_type_error(world: World, prompt: Any) -> None:
    """API-656: it names the type that came, and nothing is created."""
    async with world.host() as hf:
        with pytest.raises(TypeError, match=rf"a text or a PromptInput, not {type(prompt).__name__}"):
            await hf.run(prompt)
        with pytest.raises(TypeError):
            await hf.ask(prompt, into=int)
        assert (await hf.sessions.list()).items == []


@pytest.mark.parametrize("prompt", ["", " \n", PromptInput(text="")])
async def test_an_empty_prompt_is_refused(world: World, prompt: Any) -> None:
    """API-656: unless files come with it."""
    async with world.host() as hf:
        with pytest.raises(InvalidRequest, match="the prompt is empty") as refused:
            await hf.run(prompt)
        assert refused.value.field == "prompt.text"
        assert (await hf.sessions.list()).items == []
        assert (await hf.run(prompt, files=["hello.txt"])).text == "done"
