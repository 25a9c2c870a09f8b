"""Plugins come and go as a whole."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest
from tests.core.plugin.conftest import Surroundings, adding, plugin

from holdfast.core.agent.draft import AgentDraft
from holdfast.core.context.source import JsonCodec, Source, constant
from holdfast.core.credential.integrations import Variable
from holdfast.core.event.bus import Announcement
from holdfast.core.event.errors import SubscriberOverflow
from holdfast.core.plugin.host import EVENT_CAPACITY, HostClosed, PluginHost
from holdfast.core.plugin.plugin import PluginBusy, PluginFailed
from holdfast.core.scope import Scope
from holdfast.core.state import Phase
from holdfast.core.tool.tool import Tool, ToolContext
from holdfast.schema.catalog import EnvConnection, EnvMethod

pytestmark = pytest.mark.anyio


async def echo(given: dict[str, str], context: ToolContext) -> str:
    return str(given)


TOOL: Tool[dict[str, str], str] = Tool("says it again", dict[str, str], str, echo)


def source(key: str) -> Source[str]:
    return Source(
        key=key,
        codec=JsonCodec(str),
        load=constant("now"),
        baseline=str,
        update=lambda _, new: new,
        removed=lambda _: "gone",
    )


async def everything(host: PluginHost) -> None:
    host.agent.transform(lambda draft: draft.update("a", lambda agent: agent))
    host.command.transform(lambda draft: draft.update("c", lambda command: command))
    host.tool.register({"echo": TOOL})
    host.context.register(source(f"{host.context.namespace}fact"))
    host.request.transform(lambda draft: draft.headers.update(x="1"))


async def test_all_of_a_plugin_comes_at_once_and_goes_at_once(around: Surroundings) -> None:
    """CAT-141, CAT-144, CAT-148, CTX-162: one rebuild per domain; removal leaves nothing behind."""
    await around.plugins.add(plugin("acme", everything))
    assert around.rebuilt == ["agents", "commands"]
    assert (around.names(), around.advertised(), bool(around.requests)) == (["a"], ["echo"], True)
    assert await around.told() == "now"
    assert around.added == [("acme", ["a"])]
    around.plugins.remove("acme")
    assert (around.names(), around.commands.list(), around.advertised()) == ([], (), [])
    assert (bool(around.requests), await around.told()) == (False, "")
    assert around.plugins.active() == ()
    around.plugins.remove("acme")


async def test_nothing_counts_before_setup_has_returned(around: Surroundings) -> None:
    """CAT-141, CAT-144."""
    gate, begun = asyncio.Event(), asyncio.Event()

    async def setup(host: PluginHost) -> None:
        host.agent.transform(lambda draft: draft.update("early", lambda agent: agent))
        host.agent.transform(lambda draft: draft.update("taken back", lambda agent: agent))()
        begun.set()
        await gate.wait()

    loading = asyncio.ensure_future(around.plugins.add(plugin("slow", setup)))
    await begun.wait()
    assert around.names() == []
    gate.set()
    await loading
    assert around.names() == ["early"]


async def test_a_plugin_of_the_same_id_replaces_the_old_one(around: Surroundings) -> None:
    """CAT-144: the old version is gone, in the same step."""
    await around.plugins.add(plugin("acme", adding("old")))
    around.rebuilt.clear()
    await around.plugins.add(plugin("acme", adding("new")))
    assert (around.names(), around.rebuilt, around.plugins.active()) == (["new"], ["agents"], ("acme",))


async def test_a_version_that_fails_leaves_the_old_one(around: Surroundings) -> None:
    """CAT-144, CAT-145: whether its setup or its registrations fail."""

    def raises(host: PluginHost) -> None:
        adding("half")(host)
        raise ValueError("broken")

    def refused(host: PluginHost) -> None:
        adding("half")(host)
        host.context.register(source("core/not-mine"))

    def keeps(host: PluginHost) -> None:
        adding("old")(host)
        host.context.register(source(f"{host.context.namespace}fact"))

    await around.plugins.add(plugin("acme", keeps))
    for setup, reason in ((raises, "broken"), (refused, "core/not-mine")):
        with pytest.raises(PluginFailed, match=reason):
            await around.plugins.add(plugin("acme", setup))
        assert (around.names(), around.plugins.active()) == (["old"], ("acme",))
        assert await around.told() == "now"
    await around.plugins.add(plugin("acme", adding("new")))
    assert around.names() == ["new"]


async def test_a_new_plugin_that_fails_is_absent(around: Surroundings) -> None:
    """CAT-144."""

    async def raises(host: PluginHost) -> None:
        adding("half")(host)
        raise ValueError("broken")

    with pytest.raises(PluginFailed):
        await around.plugins.add(plugin("acme", raises))
    assert (around.names(), around.plugins.active(), around.added) == ([], (), [])


async def test_a_setup_that_blocks_is_given_up(around: Surroundings) -> None:
    """CAT-144, CAT-147, TOL-284: in a thread or on the loop; what it does afterwards is refused."""
    gate = threading.Event()
    late: list[BaseException] = []
    ended = threading.Event()

    def blocks(host: PluginHost) -> None:
        gate.wait(10)
        try:
            adding("late")(host)
        except HostClosed as error:
            late.append(error)
        ended.set()

    async def waits(host: PluginHost) -> None:
        await asyncio.Event().wait()

    async def ignores(host: PluginHost) -> None:
        for _ in range(2):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.2)

    around.plugins._seconds = 0.05
    for setup in (blocks, waits, ignores):
        with pytest.raises(PluginFailed, match="longer than"):
            await around.plugins.add(plugin("slow", setup))
    gate.set()
    await asyncio.to_thread(ended.wait, 10)
    assert (len(late), around.names()) == (1, [])


async def test_a_plugin_cannot_be_changed_while_it_loads(around: Surroundings) -> None:
    """CAT-144: adding or removing it again from inside is a defect."""
    errors: list[BaseException] = []

    async def setup(host: PluginHost) -> None:
        try:
            around.plugins.remove("acme")
        except PluginBusy as error:
            errors.append(error)
        try:
            await around.plugins.add(plugin("acme", adding("x")))
        except PluginBusy as error:
            errors.append(error)

    await around.plugins.add(plugin("acme", setup))
    assert len(errors) == 2


async def test_a_transform_that_raises_is_named_after_its_plugin(around: Surroundings) -> None:
    """CAT-149: and the other plugins go on."""

    def bad(host: PluginHost) -> None:
        host.agent.transform(lambda draft: draft.update("x", lambda _: 1 / 0))  # type: ignore[arg-type, return-value]

    await around.plugins.add(plugin("bad", bad))
    await around.plugins.add(plugin("good", adding("fine")))
    assert around.names() == ["fine"]
    assert [failure.owner for failure in around.agents.state.failures] == ["bad"]


async def test_a_plugin_runs_before_configuration(around: Surroundings) -> None:
    """CAT-143: however late it comes, the user has the last word."""
    scope = Scope()
    seen: list[list[str]] = []
    around.agents.state.transform(
        lambda draft: seen.append([agent.id for agent in draft.list()]), scope, phase=Phase.CONFIG
    )
    await around.plugins.add(plugin("late", adding("brought")))
    assert seen[-1] == ["brought"]


async def test_registrations_after_setup_count_at_once_and_end_with_the_plugin(around: Surroundings) -> None:
    """CAT-148: they return a disposer and belong to the plugin's scope."""
    hosts: list[PluginHost] = []
    await around.plugins.add(plugin("acme", lambda host: hosts.append(host)))
    (host,) = hosts
    dispose = host.agent.transform(lambda draft: draft.update("one", lambda agent: agent))
    adding("two")(host)
    assert around.names() == ["one", "two"]
    dispose()
    assert around.names() == ["two"]
    around.plugins.remove("acme")
    assert around.names() == []
    with pytest.raises(HostClosed):
        adding("three")(host)


async def test_a_domain_can_be_reloaded(around: Surroundings) -> None:
    """CAT-148: when something that a transform reads has changed."""
    names = ["one"]
    hosts: list[PluginHost] = []

    def bring(draft: AgentDraft) -> None:
        for name in names:
            draft.update(name, lambda agent: agent)

    def setup(host: PluginHost) -> None:
        hosts.append(host)
        host.agent.transform(bring)

    await around.plugins.add(plugin("acme", setup))
    names.append("two")
    hosts[0].agent.reload()
    assert around.names() == ["one", "two"]


async def test_nothing_is_rebuilt_by_a_plugin_that_is_being_set_up(around: Surroundings) -> None:
    """CAT-140, CAT-144: its thread is not the one that rebuilds; all of it runs when the plugin becomes active."""
    seen: list[int] = []
    around.agents.state.transform(
        lambda draft: seen.append(threading.get_ident()), scope := Scope(), phase=Phase.BUILTIN
    )

    def setup(host: PluginHost) -> None:
        adding("one")(host)
        host.agent.reload()

    await around.plugins.add(plugin("acme", setup))
    scope.close()
    assert (set(seen), len(seen)) == ({threading.get_ident()}, 2)


async def test_a_transform_cannot_end_the_process(around: Surroundings) -> None:
    """CAT-149: it is isolated like any other that raises."""

    def ends(draft: AgentDraft) -> None:
        raise SystemExit

    def setup(host: PluginHost) -> None:
        host.agent.transform(ends)

    await around.plugins.add(plugin("bad", setup))
    await around.plugins.add(plugin("good", adding("fine")))
    assert around.names() == ["fine"]
    assert [failure.owner for failure in around.agents.state.failures] == ["bad"]


async def test_a_plugin_can_ask_for_a_connection(around: Surroundings) -> None:
    """CAT-148: what an integration is connected with, and its credential."""
    seen: list[object] = []

    async def setup(host: PluginHost) -> None:
        host.integration.transform(lambda draft: draft.add("acme", EnvMethod(names=("ACME_KEY",))))

    async def asks(host: PluginHost) -> None:
        for id in ("acme", "other"):
            seen.append(await host.integration.connection.active(id))
            seen.append(await host.integration.connection.resolve(id))

    await around.plugins.add(plugin("one", setup))
    await around.plugins.add(plugin("two", asks))
    assert seen == [EnvConnection(name="ACME_KEY"), Variable("ACME_KEY", "k"), None, None]


async def test_options_are_the_plugins_own(around: Surroundings) -> None:
    """CAT-146, CAT-148: a copy; nothing by default."""
    options = {"level": 3}
    seen: list[dict[str, object]] = []
    await around.plugins.add(plugin("one", lambda host: seen.append(host.options)), options)
    await around.plugins.add(plugin("two", lambda host: seen.append(host.options)))
    seen[0]["level"] = 4
    assert (options, seen[1]) == ({"level": 3}, {})


async def test_events_are_bounded_and_end_with_the_plugin(around: Surroundings) -> None:
    """CAT-148: a plugin that does not read fails alone; one that is removed, or failed to set up, hears nothing."""
    hosts: list[PluginHost] = []
    await around.plugins.add(plugin("acme", lambda host: hosts.append(host)))
    slow, typed = hosts[0].events.subscribe(), hosts[0].events.subscribe("b")
    for number in range(EVENT_CAPACITY + 1):
        around.bus.announce(Announcement(str(number), "a", None, b""))
    around.bus.announce(Announcement("b", "b", None, b""))
    assert [event.id for event in await typed.next()] == ["b"]
    assert len(await slow.next()) == EVENT_CAPACITY
    with pytest.raises(SubscriberOverflow):
        await slow.next()
    around.plugins.remove("acme")
    assert await typed.next() == []
    assert not around.bus.observed

    def fails(host: PluginHost) -> None:
        host.events.subscribe()
        raise ValueError

    with pytest.raises(PluginFailed):
        await around.plugins.add(plugin("bad", fails))
    assert not around.bus.observed


async def test_closing_takes_every_plugin_out(around: Surroundings) -> None:
    """CAT-144: in one batch."""
    closed: list[str] = []

    def setup(host: PluginHost) -> None:
        adding(host.id)(host)
        host.on_close(lambda: closed.append(host.id))

    await around.plugins.add(plugin("one", setup))
    await around.plugins.add(plugin("two", setup))
    around.rebuilt.clear()
    await around.plugins.close()
    assert (around.names(), around.rebuilt, sorted(closed)) == ([], ["agents"], ["one", "two"])
