"""Taking over a new configuration."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.core.config.conftest import Place

from holdfast.core.agent.agents import Agents
from holdfast.core.command.commands import Commands
from holdfast.core.config.config import Config
from holdfast.core.config.reload import ConfigRefused, LiveConfig
from holdfast.core.policy.policy import Policy
from holdfast.core.scope import Scope
from holdfast.core.state import Batches

pytestmark = pytest.mark.anyio


async def test_every_domain_follows_in_one_batch_and_policy_first(place: Place) -> None:
    """CAT-025, CAT-152: sessions see all of the new configuration at once; observers hear once per domain."""
    heard: list[str] = []
    batches, scope = Batches(), Scope()
    live = LiveConfig(place.load, batches)
    policies = [Policy(live.current.documents())]

    def prepare(config: Config) -> Callable[[], None]:
        def take() -> None:
            policies.append(Policy(config.documents()))
            heard.append("policy")

        return take

    live.follow(prepare, scope)
    agents = Agents(batches, lambda: heard.append(f"agents {commands.get('c') is not None}"))
    commands = Commands(batches, lambda: heard.append("commands"))
    agents.follow(live, place.environment(), scope)
    commands.follow(live, scope)
    heard.clear()

    place.write(
        "opencode.json",
        {"agents": {"a": {}}, "commands": {"c": {"template": "t"}}, "disabled_providers": ["x"]},
    )
    assert agents.get("a") is None
    await live.reload()
    assert heard == ["policy", "agents True", "commands"]
    assert (agents.get("a") is not None, policies[-1].allows_provider("x")) == (True, False)

    place.write(".opencode/agent/b.md", "hello")
    await live.reload()
    assert agents.get("b") is not None
    scope.close()
    await live.reload()
    assert (agents.list(), commands.list()) == ((), ())


@pytest.mark.parametrize("content", ["{", '{"permissions": 7}'])
async def test_a_fatal_problem_leaves_everything_as_it_was(place: Place, content: str) -> None:
    """CAT-025: the old entries stay in force, and the problem is told."""
    place.write("opencode.json", {"model": "p/a", "agents": {"a": {}}})
    batches, scope = Batches(), Scope()
    live = LiveConfig(place.load, batches)
    agents = Agents(batches)
    agents.follow(live, place.environment(), scope)
    place.write("opencode.json", content)
    with pytest.raises(ConfigRefused) as caught:
        await live.reload()
    assert [problem.severity for problem in caught.value.diagnostics] == ["error"]
    assert (live.current.latest("model"), agents.get("a") is not None) == ("p/a", True)


async def test_a_follower_that_cannot_prepare_leaves_everything_as_it_was(place: Place) -> None:
    """CAT-025: everything that may fail happens before the first domain changes."""
    environment = place.environment()
    place.write("opencode.json", {"commands": {"old": {"template": "t"}}})
    batches, scope = Batches(), Scope()
    live = LiveConfig(place.load, batches)
    commands, agents = Commands(batches), Agents(batches)
    commands.follow(live, scope)
    agents.follow(live, environment, scope)
    place.write("opencode.json", {"commands": {"new": {"template": "t"}}})
    environment["OPENCODE_PERMISSION"] = "{"
    with pytest.raises(Exception, match="OPENCODE_PERMISSION"):
        await live.reload()
    assert [command.name for command in commands.list()] == ["old"]
