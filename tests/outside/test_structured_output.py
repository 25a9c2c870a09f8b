"""A prompt with a format: the answer is a value that matches a JSON Schema."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from tests.cli.conftest import Machine, Ran
from tests.outside.scripted_provider import Call, Request, Turn, calling
from tests.outside.test_clients import Serve
from tests.outside.test_compaction_story import is_summary, small
from tests.outside.test_permission_story import asked as requested
from tests.outside.world import World, answers, events, newest, text_of, tools_of

from holdfast import Conflict, Holdfast, ModelRef, PromptInput, Session
from holdfast.schema.insight import Outcome, RequestContextInfo
from holdfast.schema.prompt import JsonFormat, TextFormat
from holdfast.schema.session_event import StepEnded, StepFailed
from holdfast.schema.session_message import AssistantMessage, SyntheticMessage, ToolCompleted, ToolError

pytestmark = pytest.mark.anyio

TOOL = "StructuredOutput"
CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}, "mayor": {"type": ["string", "null"]}},
    "required": ["name", "people", "mayor"],
    "additionalProperties": False,
}
PARIS = {"name": "Paris", "people": 2, "mayor": None}
PARIS_TEXT = '{"name":"Paris","people":2,"mayor":null}'
PARIS_CALL = Turn(calls=(Call(TOOL, PARIS),))
CHAT, RESPONSES = "@ai-sdk/openai-compatible", "@ai-sdk/openai"
ANTHROPIC, GEMINI, BEDROCK = "@ai-sdk/anthropic", "@ai-sdk/google", "@ai-sdk/amazon-bedrock"
USAGE = {"prompt_tokens": 10, "completion_tokens": 5}


async def asked(
    hf: Holdfast, session: Session, text: str = "Which city?", schema: dict[str, Any] = CITY, **format: Any
) -> Outcome:
    """How a prompt with a format ends."""
    prompt = PromptInput(text=text, format=JsonFormat(schema=schema, **format))
    await hf.sessions.prompt(session.id, prompt=prompt)
    async with asyncio.timeout(30):
        return await hf.sessions.outcome(session.id)


def native(body: dict[str, Any]) -> Any:
    """The schema of the JSON mode in a request."""
    config = body.get("generationConfig", {})
    text = body.get("outputConfig", {}).get("textFormat", {})
    found = (
        body.get("response_format", {}).get("json_schema", {}).get("schema"),
        body.get("text", {}).get("format", {}).get("schema"),
        body.get("output_config", {}).get("format", {}).get("schema"),
        config.get("responseJsonSchema"),
        msgspec.json.decode(text["structure"]["jsonSchema"]["schema"]) if text else None,
    )
    return next((schema for schema in found if schema is not None), None)


def forced(body: dict[str, Any]) -> bool:
    """Whether the model has to call a tool."""
    config = body.get("toolConfig", {})
    return (
        body.get("tool_choice") in ("required", {"type": "any"})
        or config.get("functionCallingConfig") == {"mode": "ANY"}
        or config.get("toolChoice") == {"any": {}}
    )


@pytest.mark.parametrize(
    ("npm", "model_id"), [(RESPONSES, "m"), (ANTHROPIC, "m"), (GEMINI, "gemini-3-pro"), (BEDROCK, "anthropic.claude-x")]
)
async def test_the_json_mode_of_a_provider_gives_the_value(world: World, npm: str, model_id: str) -> None:
    """LLM-427, LLM-428, SES-211, SES-311: beside the tools, which the model may call first."""
    world.configure(provider={"mock": world.provider(npm, id=model_id, structured_output=True)})
    world.model.plays(calling("read", path="hello.txt"), Turn(text=PARIS_TEXT))
    async with world.host() as hf:
        session = await hf.sessions.create()
        assert (await asked(hf, session)).type == "completed"
        message = await newest(hf, session)
        assert message.structured == PARIS
        assert text_of(message) == PARIS_TEXT
    for request in world.model.requests:
        assert native(request.body) == CITY
        assert b"read" in request.raw
        assert TOOL.encode() not in request.raw.replace(b'"name":"StructuredOutput"', b"")


async def test_an_unknown_vendor_is_asked_in_json_mode_only_without_tools(world: World) -> None:
    """LLM-428: nothing is known of whether its JSON mode leaves the model free to call tools."""
    world.configure(provider={"mock": world.provider(structured_output=True)}, permission={"*": "deny"})
    world.model.plays(Turn(text=PARIS_TEXT))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await asked(hf, session)
        assert (await newest(hf, session)).structured == PARIS
    assert world.model.last.body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": TOOL, "schema": CITY, "strict": True},
    }
    assert world.model.last.tools == []


@pytest.mark.parametrize("npm", [CHAT, RESPONSES, ANTHROPIC, GEMINI, BEDROCK])
async def test_a_model_without_a_json_mode_answers_by_a_call(world: World, npm: str) -> None:
    """LLM-427, LLM-430, SES-211, SES-311, SES-312: any tool must be called; that of the answer ends the activity."""
    world.configure(provider={"mock": world.provider(npm, structured_output=False)})
    world.model.plays(calling("read", path="hello.txt"), PARIS_CALL)
    async with world.host() as hf:
        session = await hf.sessions.create()
        assert (await asked(hf, session)).type == "completed"
        message = await newest(hf, session)
        assert (message.structured, message.finish) == (PARIS, "stop")
        (given,) = tools_of(message)
        assert isinstance(given.state, ToolCompleted)
        assert given.state.input == PARIS
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="Thanks."))
        await hf.sessions.wait(session.id)
        assert (await newest(hf, session)).structured is msgspec.UNSET
    assert len(world.model.requests) == 3
    for request in world.model.requests[:2]:
        assert TOOL in request.raw.decode()
        assert forced(request.body)
        assert native(request.body) is None
    last = world.model.last.body
    assert "system" not in last or TOOL not in str(last["system"])
    assert not forced(last)


async def test_the_value_is_an_event_and_is_rebuilt(world: World) -> None:
    """SES-311: whole, nulls included, in the public event and in the message, also after a rebuild and a restart."""
    world.model.plays(Turn(text="Here you are.", calls=PARIS_CALL.calls, usage=USAGE))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await asked(hf, session)
        (ended,) = [event.data for event in await events(hf, session) if isinstance(event.data, StepEnded)]
        assert ended.structured == PARIS
        before = await newest(hf, session)
        assert text_of(before) == "Here you are."
        assert await hf.verify() == []
        await hf.rebuild()
        assert await newest(hf, session) == before
    async with world.host() as hf:
        assert await newest(hf, session) == before
        assert (await hf.sessions.outcome(session.id)).type == "completed"


async def test_an_ordinary_answer_has_no_value(world: World) -> None:
    """SES-311: a format `text` asks for nothing."""
    world.model.plays(Turn(text=PARIS_TEXT))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="x", format=TextFormat()))
        await hf.sessions.wait(session.id)
        message = await newest(hf, session)
        assert message.structured is msgspec.UNSET
        assert b'"structured"' not in msgspec.json.encode(message)
    assert TOOL not in world.model.last.tools


async def test_an_answer_that_does_not_match_is_asked_for_again(world: World) -> None:
    """SES-313, LLM-433, LLM-435: the model reads what was wrong, in the result of its call or in a message; the value
    may have text around it."""
    world.model.plays(
        calling(TOOL, name="Paris", people="many", mayor=None),
        Turn(text="It is Paris."),
        Turn(text=f"Sure:\n```json\n{PARIS_TEXT}\n```"),
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        assert (await asked(hf, session)).type == "completed"
        context = await hf.sessions.context(session.id)
        one, two, three = answers(context)
        assert one.rejected == "$.people: expected integer, got string"
        (call,) = tools_of(one)
        assert isinstance(call.state, ToolError)
        assert "$.people: expected integer, got string" in call.state.error.message
        assert two.rejected == "it is not JSON"
        (note,) = [message for message in context if isinstance(message, SyntheticMessage)]
        assert TOOL in note.text
        assert "it is not JSON" in note.text
        assert (three.structured, three.rejected) == (PARIS, None)
        assert await hf.verify() == []
    second, third = world.model.requests[1:]
    assert "$.people: expected integer, got string" in second.results[-1]
    assert third.said[-1] == ("user", note.text)
    assert third.raw.startswith(second.raw[: second.raw.rindex(b"]")][:-1])


@pytest.mark.parametrize(("given", "requests"), [({}, 3), ({"retry_count": 0}, 1), ({"retry_count": 4}, 5)])
async def test_a_model_that_never_gives_the_value_fails(world: World, given: dict[str, Any], requests: int) -> None:
    """SES-314, API-494: after the attempts that the prompt allows; what it said and used is kept."""
    world.model.always = Turn(text='{"name":1}', usage=USAGE)
    async with world.host() as hf:
        session = await hf.sessions.create()
        outcome = await asked(hf, session, **given)
        assert (outcome.type, outcome.code) == ("failed", "Session.StructuredOutputError")
        assert outcome.error is not None
        assert "$.name: expected string, got number" in outcome.error
        message = await newest(hf, session)
        assert message.error is not None
        assert message.error.code == "Session.StructuredOutputError"
        assert text_of(message) == '{"name":1}'
        assert (message.structured, message.tokens is not None) == (msgspec.UNSET, True)
        (failed,) = [event.data for event in await events(hf, session) if isinstance(event.data, StepFailed)]
        assert failed.tokens is not None
        assert (await hf.sessions.get(session.id)).tokens.output == 5 * requests
        assert await hf.verify() == []
        world.model.always = Turn(text="Hello.")
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="Never mind."))
        assert (await hf.sessions.outcome(session.id)).type == "completed"
    assert len(world.model.requests) == requests + 1


async def test_calls_beside_the_answer_are_carried_out(world: World) -> None:
    """SES-312: they are settled, and the activity ends; of several answers the first that matches counts."""
    lyon = {"name": "Lyon", "people": 1, "mayor": "x"}
    calls = (
        Call(TOOL, {"name": "?"}, "a"),
        Call("read", {"path": "hello.txt"}, "b"),
        Call(TOOL, PARIS, "c"),
        Call(TOOL, lyon, "d"),
    )
    world.model.plays(Turn(calls=calls))
    async with world.host() as hf:
        session = await hf.sessions.create()
        assert (await asked(hf, session)).type == "completed"
        message = await newest(hf, session)
        assert message.structured == PARIS
        states = [type(part.state).__name__ for part in tools_of(message)]
        assert states == ["ToolError", "ToolCompleted", "ToolCompleted", "ToolError"]
    assert len(world.model.requests) == 1


async def test_arguments_that_are_no_json_are_an_answer_that_does_not_match(world: World) -> None:
    """SES-313"""
    world.model.plays(Turn(calls=(Call(TOOL, '{"name": '),)), PARIS_CALL)
    async with world.host() as hf:
        session = await hf.sessions.create()
        assert (await asked(hf, session, retry_count=1)).type == "completed"
        one, two = answers(await hf.sessions.context(session.id))
        assert one.rejected is not None
        assert two.structured == PARIS


async def test_a_pattern_cannot_hold_up_the_process(world: World) -> None:
    """LLM-434: this one takes exponential time where matching backtracks."""
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}, "required": ["a"]}
    world.model.plays(calling(TOOL, a="a" * 5000 + "!"), calling(TOOL, a="aa"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        assert (await asked(hf, session, schema=schema)).type == "completed"
        rejected, given = answers(await hf.sessions.context(session.id))
        assert rejected.rejected == "$.a: does not match ^(a+)+$"
        assert given.structured == {"a": "aa"}


async def test_a_restart_goes_on_and_does_not_renew_the_attempts(world: World) -> None:
    """SES-315: the rejection is on disk with the end of its step."""
    gate = asyncio.Event()
    world.model.plays(Turn(text="no"), Turn(text="no", begin=gate), Turn(text="still no"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        prompt = PromptInput(text="Which city?", format=JsonFormat(schema=CITY, retry_count=1))
        await hf.sessions.prompt(session.id, prompt=prompt)
        await world.model.asked(2)
    async with world.host() as hf:
        await hf.sessions.list()  # the first operation starts recovery
        await world.model.asked(3)
        outcome = await hf.sessions.outcome(session.id)
        assert (outcome.type, outcome.code) == ("failed", "Session.StructuredOutputError")
        assert "still no" in text_of(await newest(hf, session))
        assert await hf.verify() == []
    assert len(world.model.requests) == 3
    assert world.model.requests[2].said == world.model.requests[1].said


async def test_a_compaction_in_between_keeps_the_prompt(world: World) -> None:
    """SES-315: as long as no answer has matched, the prompt is open."""
    small(world)
    endless = Turn(text="word " * 9600)

    def play(request: Request) -> Turn:
        if is_summary(request):
            return Turn(text="THE SUMMARY")
        return PARIS_CALL if "THE SUMMARY" in str(request.messages) else endless

    world.model.always = play
    async with world.host() as hf:
        session = await hf.sessions.create()
        assert (await asked(hf, session, "Which city is it?")).type == "completed"
        assert (await newest(hf, session)).structured == PARIS
    assert "Which city is it?" in [text for _, text in world.model.last.said]
    assert TOOL in world.model.last.tools


async def test_an_interruption_ends_without_a_value(world: World) -> None:
    """SES-315"""
    gate = asyncio.Event()
    world.model.plays(Turn(text=PARIS_TEXT, end=gate))
    async with world.host() as hf:
        session = await hf.sessions.create()
        prompt = PromptInput(text="Which city?", format=JsonFormat(schema=CITY))
        await hf.sessions.prompt(session.id, prompt=prompt)
        await world.model.asked(1)
        await hf.sessions.interrupt(session.id)
        outcome = await hf.sessions.outcome(session.id)
        assert outcome.type == "interrupted"
        found = answers(await hf.sessions.context(session.id))
        assert all(message.structured is msgspec.UNSET for message in found)
    gate.set()


async def test_the_last_step_asks_for_the_value_alone(world: World) -> None:
    """SES-316, SES-314: no other tool is offered; an answer that does not match there is the end."""
    world.configure(agents={"short": {"steps": 2, "mode": "primary"}})
    world.model.plays(calling("read", path="hello.txt"), PARIS_CALL)
    async with world.host(unattended="allow") as hf:
        session = await hf.sessions.create(agent="short")
        assert (await asked(hf, session)).type == "completed"
        assert (await newest(hf, session)).structured == PARIS
        assert world.model.last.tools == [TOOL]
        assert world.model.last.body["tool_choice"] == {"type": "function", "function": {"name": TOOL}}
        world.model.plays(calling("read", path="hello.txt"), Turn(text="no"))
        outcome = await asked(hf, session)
        assert (outcome.type, outcome.code) == ("failed", "Session.StructuredOutputError")
        assert "step limit" in (outcome.error or "")


async def test_a_format_breaks_the_prefix_by_name(world: World) -> None:
    """SES-316: when it begins and when it ends."""
    world.model.plays(Turn(text="Hello."), PARIS_CALL, Turn(text="Bye."))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="Hi."))
        await hf.sessions.wait(session.id)
        await asked(hf, session)
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="Thanks."))
        await hf.sessions.wait(session.id)
        view = await hf.sessions.request_context(session.id)
        assert isinstance(view, RequestContextInfo)
        assert [item.causes for item in view.prefix_breaks] == [("tool change", "output format")] * 2


async def test_a_provider_that_refuses_its_json_mode_is_asked_by_the_tool(world: World) -> None:
    """LLM-431"""
    world.configure(provider={"mock": world.provider(RESPONSES, structured_output=True)})
    refusal = Turn(status=400, error="Invalid parameter: 'text.format' of type 'json_schema' is not supported")
    world.model.plays(refusal, PARIS_CALL)
    async with world.host() as hf:
        session = await hf.sessions.create()
        assert (await asked(hf, session)).type == "completed"
        (message,) = answers(await hf.sessions.context(session.id))
        assert message.structured == PARIS
    refused, again = (request.body for request in world.model.requests)
    assert native(refused) == CITY
    assert native(again) is None
    assert again["tool_choice"] == "required"


async def test_a_provider_that_refuses_a_forced_choice_is_asked_freely(world: World) -> None:
    """LLM-431"""
    world.model.plays(Turn(status=400, error="tool_choice 'required' is not supported"), PARIS_CALL)
    async with world.host() as hf:
        session = await hf.sessions.create()
        assert (await asked(hf, session)).type == "completed"
        assert (await newest(hf, session)).structured == PARIS
    assert [request.body["tool_choice"] for request in world.model.requests] == ["required", "auto"]


async def test_claude_thinks_until_it_is_asked_again(world: World) -> None:
    """LLM-377, LLM-430: a forced choice is refused while it thinks."""
    thinking = {"thinking": {"type": "enabled", "budgetTokens": 2000}}
    agents = {"short": {"steps": 1, "mode": "primary"}}
    world.configure(provider={"mock": world.provider(ANTHROPIC, options=thinking)}, agents=agents)
    world.model.plays(Turn(reasoning="Hm.", text="Paris."), PARIS_CALL, PARIS_CALL)
    async with world.host() as hf:
        session = await hf.sessions.create()
        assert (await asked(hf, session)).type == "completed"
        assert (await newest(hf, session)).structured == PARIS
        assert (await asked(hf, await hf.sessions.create(agent="short"))).type == "completed"
    first, again, last = (request.body for request in world.model.requests)
    assert (last["tool_choice"], last.get("thinking")) == ({"type": "tool", "name": TOOL}, None)
    assert (first["tool_choice"], first["thinking"]["type"]) == ({"type": "auto"}, "enabled")
    assert (again["tool_choice"], again.get("thinking")) == ({"type": "any"}, None)


async def test_a_steer_ends_the_format_of_the_prompt_before_it(world: World) -> None:
    """SES-310: it applies from its promotion to the next."""
    gate = asyncio.Event()
    world.model.plays(Turn(calls=(Call("read", {"path": "hello.txt"}),), begin=gate), Turn(text="As you wish."))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="x", format=JsonFormat(schema=CITY)))
        await world.model.asked(1)
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="In your own words, please."))
        gate.set()
        assert (await hf.sessions.outcome(session.id)).type == "completed"
        assert text_of(await newest(hf, session)) == "As you wish."
    assert TOOL not in world.model.last.tools


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


BAD_SCHEMAS: list[tuple[Any, str]] = [
    ({"type": "text"}, "$.type"),
    ({"properties": {"a": {"type": "integer", "minimum": "1"}}}, "$.properties.a.minimum"),
    ({"$ref": "https://example.org/a.json"}, "nothing is fetched"),
    ({"$ref": "file:///etc/passwd"}, "nothing is fetched"),
    ({"$ref": "#/$defs/a"}, "leads nowhere"),
    ({"$ref": "#"}, "refers to itself"),
    ({"pattern": "(?<=a)b"}, "look-around"),
    ({"unevaluatedProperties": False}, "not supported"),
    ({"description": "x" * 1_000_000}, "65536"),
    (nested(400), "128 levels"),
]


def test_a_schema_that_cannot_be_used_is_refused(serve: Serve) -> None:
    """API-493, SES-310: with its place; nothing is admitted."""
    with httpx2.Client(base_url=serve("--no-auth").url, timeout=30) as http:
        session = f"/api/session/{http.post('/api/session', json={}).json()['data']['id']}"
        for schema, why in BAD_SCHEMAS:
            format = {"type": "json_schema", "schema": schema}
            answer = http.post(f"{session}/prompt", json={"prompt": {"text": "hi", "format": format}, "resume": False})
            assert (answer.status_code, answer.json()["field"]) == (400, "prompt.format.schema"), why
            assert why in answer.json()["message"]
            flat = http.post(f"{session}/prompt", json={"text": "hi", "format": format, "resume": False})
            assert (flat.status_code, flat.json()["field"]) == (400, "format.schema"), why
        for format in ({"type": "json_schema"}, {"type": "json_schema", "schema": []}, {"type": "yaml"}):
            answer = http.post(f"{session}/prompt", json={"prompt": {"text": "hi", "format": format}, "resume": False})
            assert answer.status_code == 400
        assert http.get(f"{session}/pending").json()["data"] == []


def test_the_value_over_http(holdfast: Machine, serve: Serve) -> None:
    """SES-211, SES-311, API-494, LLM-436: prompt, outcome, message and history."""
    holdfast.script({"answer": PARIS}, {"text": "no"})
    model = {"providerID": "demo", "id": "scripted"}
    format = {"type": "json_schema", "schema": CITY, "retryCount": 0}
    with httpx2.Client(base_url=serve("--no-auth").url, timeout=30) as http:
        session = f"/api/session/{http.post('/api/session', json={'model': model}).json()['data']['id']}"

        def ask() -> Any:
            payload = {"prompt": {"text": "Which city?", "format": format}}
            admitted = http.post(f"{session}/prompt", json=payload).json()["data"]
            assert admitted["prompt"]["options"]["format"] == format
            return http.post(f"{session}/outcome").json()["data"]

        outcome = ask()
        assert outcome["type"] == "completed"
        message = http.get(f"{session}/message/{outcome['messageID']}").json()["data"]
        assert message["structured"] == PARIS
        history = http.get(f"{session}/history", params={"limit": 100}).json()["data"]
        ended = [event["data"] for event in history if event["type"] == "session.next.step.ended"]
        assert [data["structured"] for data in ended] == [PARIS]
        failed = ask()
        assert (failed["type"], failed["code"]) == ("failed", "Session.StructuredOutputError")


def test_the_command_line_prints_the_value_alone(
    holdfast: Machine, here: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SES-311, SES-313, API-489, API-491: what the model says beside it is on standard error; an answer that was
    rejected is not the end."""
    schema = tmp_path / "schema.json"
    schema.write_bytes(msgspec.json.encode(CITY))
    holdfast.script(
        {"text": "Paris?"}, {"text": "Here: ", "answer": PARIS}, {"text": "no"}, {"text": "no"}, {"text": "no"}
    )
    monkeypatch.setenv("HOLDFAST_SCRIPT", holdfast.environment["HOLDFAST_SCRIPT"])
    run = ("run", "--model", "demo/scripted", "--format", str(schema))
    ran = here(*run, "Which city?")
    assert (ran.code, ran.out) == (0, PARIS_TEXT + "\n")
    assert "does not have the requested form: it is not JSON" in ran.err
    assert "Here: " in ran.err
    ran = here(*run, "--json", "Which city?")
    result = msgspec.json.decode(ran.out.splitlines()[-1])["result"]
    assert (result["outcome"], result["structured"]) == ("completed", PARIS)
    holdfast.script({"text": "no"}, {"text": "no"}, {"text": "no"})
    ran = here(*run, "Which city?")
    assert (ran.code, ran.out) == (1, "")
    assert "no answer in the requested form" in ran.complaint


async def test_the_echo_model_answers_with_an_example(world: World) -> None:
    """LLM-436"""
    async with world.host() as hf:
        session = await hf.sessions.create(model=ModelRef(provider_id="demo", id="echo"))
        assert (await asked(hf, session, "Paris, 2 million")).type == "completed"
        text = "Paris, 2 million"
        assert (await newest(hf, session)).structured == {"name": text, "people": 2, "mayor": text}


async def test_a_prompt_with_another_format_is_another_prompt(world: World) -> None:
    """SES-211: a retry with the same id and the same format gives the same receipt."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        prompt = PromptInput(text="x", format=JsonFormat(schema=CITY))
        one = await hf.sessions.prompt(session.id, prompt=prompt, id="msg_1", resume=False)
        again = await hf.sessions.prompt(session.id, prompt=prompt, id="msg_1", resume=False)
        assert again == one
        for other in (PromptInput(text="x"), PromptInput(text="x", format=JsonFormat(schema={**CITY, "title": "C"}))):
            with pytest.raises(Conflict):
                await hf.sessions.prompt(session.id, prompt=other, id="msg_1", resume=False)


async def test_a_call_that_waits_for_a_person_keeps_the_answer_beside_it(world: World) -> None:
    """SES-312, SES-315: the process ends while the call waits; the answer counts when the call is done."""
    world.configure(permission={"bash": "ask"})
    world.model.plays(Turn(calls=(Call(TOOL, PARIS, "a"), Call("bash", {"command": "true"}, "b"))))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="x", format=JsonFormat(schema=CITY)))
        (request,) = await requested(hf, session)
    async with world.host() as hf:
        await hf.permissions.reply(session.id, request_id=request.id, reply="once")
        assert (await hf.sessions.outcome(session.id)).type == "completed"
        message = await newest(hf, session)
        assert isinstance(message, AssistantMessage)
        assert message.structured == PARIS
    assert len(world.model.requests) == 1
