"""Plan mode and the text that built-in agents begin with, seen in the requests that a provider receives."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from typing import Any

import pytest
from tests.cli.conftest import PATIENCE, Machine, Provider, frame

from holdfast import Holdfast
from holdfast.schema.insight import RequestContextInfo
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import PromptInput
from holdfast.schema.session_message import AssistantMessage, SystemMessage, ToolError, ToolPart

ENTERED, LEFT = "Plan mode is active.", "Plan mode has ended."


class Talk:
    """One Session of an embedded host with a real endpoint behind it."""

    def __init__(self, hf: Holdfast, runner: asyncio.Runner, provider: Provider, session: str) -> None:
        self.hf, self.session, self.provider = hf, session, provider
        self.do = runner.run

    def say(self, text: str) -> dict[str, Any]:
        """The request that it led to."""
        self.do(self.hf.sessions.prompt(self.session, prompt=PromptInput(text=text)))
        self.do(self.hf.sessions.wait(self.session))
        return self.provider.bodies[-1]

    def switch(self, agent: str) -> None:
        self.do(self.hf.sessions.switch_agent(self.session, agent=agent))

    @property
    def told(self) -> list[str]:
        """The first sentence of each system message, in order."""
        messages = self.do(self.hf.sessions.messages(self.session, order="asc", limit=100)).items
        return [message.text.partition(". ")[0] + "." for message in messages if isinstance(message, SystemMessage)]

    @property
    def breaks(self) -> list[tuple[str, ...]]:
        view = self.do(self.hf.sessions.request_context(self.session))
        assert isinstance(view, RequestContextInfo)
        return [item.causes for item in view.prefix_breaks]


@contextmanager
def talking(machine: Machine, provider: Provider, *, session: str | None = None, **options: Any) -> Iterator[Talk]:
    host = Holdfast(machine.project, preset="allow", data=machine.data, environment=machine.environment)
    model = ModelRef(id=options.pop("model", "m"), provider_id="mock")
    with asyncio.Runner() as runner:
        runner.run(host.__aenter__())
        try:
            session = session or runner.run(host.sessions.create(model=model, **options)).id
            yield Talk(host, runner, provider, session)
        finally:
            runner.run(host.__aexit__(None, None, None))


@pytest.fixture
def machine(holdfast: Machine, provider: Provider) -> Machine:
    models = {id: {"limit": {"context": 100_000, "output": 1000}} for id in ("m", "claude-x", "gpt-5")}
    configure(holdfast, provider, models=models, compaction={"keep": {"tokens": 0}})
    return holdfast


def configure(machine: Machine, provider: Provider, *, models: dict[str, Any] | None = None, **more: Any) -> None:
    served = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": provider.url}, "models": models or {"m": {}}}
    machine.configure_user(provider={"mock": served}, holdfast={"titles": False}, **more)


def system(body: dict[str, Any]) -> str:
    (message,) = (message for message in body["messages"] if message["role"] == "system")
    return str(message["content"])


def last_input(body: dict[str, Any]) -> str:
    assert body["messages"][-1]["role"] == "user"
    return str(body["messages"][-1]["content"])


# -- entering and leaving --------------------------------------------------------------------------------------------


def test_each_switch_is_told_once_after_the_input_that_follows_it(machine: Machine, provider: Provider) -> None:
    """CTX-210, CTX-211: durable, at the same place in every later request and after a restart."""
    with talking(machine, provider) as talk:
        assert ENTERED not in system(talk.say("one"))
        talk.switch("plan")
        entering = last_input(talk.say("two"))
        assert entering.startswith("two\n<system-update>\nPlan mode is active.")
        assert last_input(talk.say("three")) == "three"
    with talking(machine, provider, session=talk.session) as talk:
        later = talk.say("four")
        assert last_input(later) == "four"
        assert [message["content"] for message in later["messages"]].count(entering) == 1
        talk.switch("build")
        leaving = talk.say("five")
        assert last_input(leaving).startswith("five\n<system-update>\nPlan mode has ended.")
        assert last_input(talk.say("six")) == "six"
        assert talk.told == [ENTERED, LEFT]


def test_a_switch_during_a_turn_is_told_before_the_next_one(machine: Machine, provider: Provider) -> None:
    """CTX-211: the running turn is not touched; after the results of its tools the model is told."""
    switched = threading.Event()

    def call_then_answer(handler: BaseHTTPRequestHandler) -> None:
        if len(provider.bodies) > 1:
            Provider.answer(handler)
            return
        switched.wait(PATIENCE)
        Provider.head(handler)
        function = {"name": "read", "arguments": '{"path":"hello.txt"}'}
        call = {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": function}]}
        handler.wfile.write(frame(call) + frame({}, "tool_calls") + b"data: [DONE]\n\n")

    async def switch_meanwhile(talk: Talk) -> None:
        await talk.hf.sessions.prompt(talk.session, prompt=PromptInput(text="one"))
        assert await asyncio.to_thread(provider.asked.acquire, timeout=PATIENCE)
        await talk.hf.sessions.switch_agent(talk.session, agent="plan")
        switched.set()
        await talk.hf.sessions.wait(talk.session)

    provider.behave = call_then_answer
    with talking(machine, provider) as talk:
        talk.do(switch_meanwhile(talk))
    first, second = provider.bodies
    assert ENTERED not in str(first)
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "tool", "user"]
    assert last_input(second).startswith("<system-update>\nPlan mode is active.")
    assert first["tools"] == second["tools"]


def test_a_switch_between_plan_and_build_keeps_the_prefix(machine: Machine, provider: Provider) -> None:
    """CTX-212: the same system text and the same tools; each request begins with the messages of the one before."""
    with talking(machine, provider) as talk:
        requests = [talk.say("one")]
        for agent in ("plan", "build", "plan"):
            talk.switch(agent)
            requests.append(talk.say(f"now {agent}"))
        assert talk.breaks == []
    for before, after in pairwise(requests):
        assert before["tools"] == after["tools"]
        assert after["messages"][: len(before["messages"])] == before["messages"]


def test_an_agent_with_its_own_text_breaks_the_prefix(machine: Machine, provider: Provider) -> None:
    """CTX-212: and the cause is named."""
    configure(machine, provider, agent={"mine": {"prompt": "You are mine.", "mode": "primary"}})
    with talking(machine, provider) as talk:
        talk.say("one")
        talk.switch("mine")
        assert system(talk.say("two")).startswith("You are mine.\n")
        assert talk.breaks == [("agent switch",)]


def test_switching_there_and_back_without_a_turn_tells_nothing(machine: Machine, provider: Provider) -> None:
    """CTX-211: the model is told what is in force when it is asked."""
    with talking(machine, provider) as talk:
        talk.say("one")
        talk.switch("plan")
        talk.switch("build")
        assert last_input(talk.say("two")) == "two"


def test_a_session_that_begins_in_plan_mode_knows_it_from_its_baseline(machine: Machine, provider: Provider) -> None:
    """CTX-210: no message beside it, and leaving is told."""
    with talking(machine, provider, agent="plan") as talk:
        first = talk.say("one")
        assert ENTERED in system(first)
        assert last_input(first) == "one"
        talk.switch("build")
        assert LEFT in last_input(talk.say("two"))


def test_compaction_keeps_plan_mode(machine: Machine, provider: Provider) -> None:
    """CTX-211: the new baseline says it while it is in force, and says nothing of it afterwards."""
    with talking(machine, provider) as talk:
        talk.say("one " * 200)
        talk.switch("plan")
        talk.say("two " * 200)
        talk.do(talk.hf.sessions.compact(talk.session))
        planning = talk.say("three")
        assert ENTERED in system(planning)
        assert last_input(planning).endswith("three")
        talk.switch("build")
        talk.say("four " * 200)
        talk.do(talk.hf.sessions.compact(talk.session))
        assert ENTERED not in system(talk.say("five"))


# -- what plan may do ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("permission", [None, "allow", {"edit": "ask"}, {"edit": "allow"}])
def test_plan_changes_no_file_whatever_global_rules_say(holdfast: Machine, permission: Any) -> None:
    """CAT-220: write, edit and apply_patch are refused; a plan file can be written."""
    if permission is not None:
        holdfast.configure_user(permission=permission)
    patch = "*** Begin Patch\n*** Add File: patched.txt\n+x\n*** End Patch"
    holdfast.script(
        {"calls": [{"tool": "write", "input": {"path": "made.txt", "content": "x"}}]},
        {"calls": [{"tool": "edit", "input": {"path": "hello.txt", "oldString": "hello", "newString": "bye"}}]},
        {"calls": [{"tool": "apply_patch", "input": {"patchText": patch}}]},
        {"calls": [{"tool": "write", "input": {"path": ".opencode/plans/one.md", "content": "the plan"}}]},
        {"text": "done"},
    )
    ran = holdfast("run", "--model", "demo/scripted", "--agent", "plan", "--yes", "go")
    _, messages = holdfast.look(ran.session)
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    states = [part.state for answer in answers for part in answer.content if isinstance(part, ToolPart)]
    assert [isinstance(state, ToolError) for state in states] == [True, True, True, False], states
    assert sorted(path.name for path in holdfast.project.iterdir()) == [".opencode", "hello.txt"]
    assert (holdfast.project / "hello.txt").read_text() == "hello world\n"


def test_a_command_of_plan_changes_no_file(holdfast: Machine) -> None:
    """CAT-220, TOL-376: with the rules that are there from the start, and nobody to ask."""
    call = {"command": "echo x > made.txt; echo bye > hello.txt", "description": "Change files"}
    holdfast.script({"calls": [{"tool": "bash", "input": call}]}, {"text": "done"})
    holdfast("run", "--model", "demo/scripted", "--agent", "plan", "go")
    assert sorted(path.name for path in holdfast.project.iterdir()) == ["hello.txt"]
    assert (holdfast.project / "hello.txt").read_text() == "hello world\n"


def test_a_plan_agent_that_may_edit_is_an_ordinary_agent(machine: Machine, provider: Provider) -> None:
    """CTX-210, CAT-220: a rule for the agent itself lifts the denial, and nothing false is said."""
    configure(machine, provider, agent={"plan": {"permission": {"edit": "allow"}}})
    with talking(machine, provider, agent="plan") as talk:
        assert ENTERED not in system(talk.say("one"))


def test_no_rule_names_a_tool_that_does_not_exist(machine: Machine, provider: Provider) -> None:
    """CAT-222."""
    with talking(machine, provider) as talk:
        agents = talk.do(talk.hf.agents.list()).data
    assert [rule.action for agent in agents for rule in agent.permissions if rule.action.startswith("plan_")] == []


# -- the text of a family --------------------------------------------------------------------------------------------


def test_build_and_plan_are_told_what_suits_the_family_of_the_model(machine: Machine, provider: Provider) -> None:
    """CAT-221: the default agent too; text that is configured for it takes its place."""
    texts = {}
    for model in ("claude-x", "gpt-5", "m"):
        for agent in (None, "plan"):
            with talking(machine, provider, model=model, agent=agent) as talk:
                texts[model, agent] = system(talk.say("one")).partition("<env>")[0]
    assert "Independent tool calls go into one turn." in texts["claude-x", None]
    assert "Keep going until the task is done" in texts["gpt-5", None]
    assert {texts[model, None] == texts[model, "plan"] for model in ("claude-x", "gpt-5", "m")} == {True}
    assert len(set(texts.values())) == 3
    configure(machine, provider, agent={"build": {"prompt": "Mine."}})
    with talking(machine, provider) as talk:
        assert system(talk.say("one")).startswith("Mine.\n")
