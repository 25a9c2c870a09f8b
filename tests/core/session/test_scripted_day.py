"""One Session through a day: files, skills, the date, agent, model and web pages change, the process is restarted,
history is compacted, the Session moves. What the model is sent is compared word for word."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import web
from tests.conftest import ManualClock
from tests.core.session.support_day import (
    AGENTS,
    DAY,
    MORNING,
    OTHER_MODEL,
    Conversation,
    Place,
    begin,
    body,
    heard,
    history,
    paragraphs,
    play,
    say,
    states,
    view,
)
from tests.core.web.site import Site, running_site
from tests.stores.stores import STORES

from holdfast.core.agent import builtin
from holdfast.core.agent import guidance as agent_guidance
from holdfast.core.catalog.family import GENERIC
from holdfast.core.context import date, environment, instructions, model, remote
from holdfast.core.context.instructions import Instruction, InstructionFile, InstructionFiles
from holdfast.core.context.plugin import plugin_source
from holdfast.core.context.source import JsonCodec, Source, constant
from holdfast.core.plugin.host import PluginHost
from holdfast.core.runner.lowering import checkpoint
from holdfast.core.runtime.runtime import Runtime
from holdfast.core.skill import guidance
from holdfast.core.skill.builtin import CUSTOMIZE
from holdfast.llm.offline import ScriptedTransport, Turn
from holdfast.schema.session import Session
from holdfast.schema.session_message import SystemMessage, UserMessage

pytestmark = pytest.mark.anyio

WEDNESDAY, THURSDAY = "Wed Jun 03 2026", "Thu Jun 04 2026"
REVIEWER = {
    "mode": "all",
    "system": "You only review.",
    "permissions": [
        {"action": "*", "resource": "*", "effect": "allow"},
        {"action": "skill", "resource": "*", "effect": "deny"},
    ],
}
CLOSING = 2
"""Bytes after the last message: `]}`."""
SPAN = 301_000
"""Longer than a fetched page is taken as fresh."""


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with running_site() as site:
        yield site


class Day:
    """The place, the pages, the clock, and the texts that belong to them."""

    def __init__(self, folder: Path, site: Site) -> None:
        self.site = site
        self.steady, self.late = f"{site.base}/steady.md", f"{site.base}/late.md"
        self.place = Place(folder, instructions=[self.steady, self.late], agents={"reviewer": REVIEWER})
        self.clock = ManualClock(MORNING)
        self.model = ScriptedTransport()

    def open(self) -> Runtime:
        return self.place.runtime(self.model, self.clock)

    def page(self, name: str, answer: str | int) -> None:
        """What the web has from now on, and nobody may think that he knows it."""
        if isinstance(answer, int):
            self.site.pages[name] = _status(answer)
        else:
            self.site.put(name, answer)
        self.clock.advance(SPAN)

    def rules(self, text: str, folder: str = "") -> str:
        """Writes an instruction file; how it is said."""
        return instructions.HEADING.format(self.place.write(f"{folder}{AGENTS}", text), text)

    def surroundings(self, folder: str = "") -> str:
        lines = (
            environment.BASELINE,
            "<env>",
            f"  Working directory: {self.place.project / folder}",
            f"  Workspace root folder: {self.place.project}",
            "  Is directory a git repo: yes",
            "  Platform: linux",
            "</env>",
        )
        return "\n".join(lines)

    @property
    def request(self) -> dict[str, Any]:
        return self.model.requests[-1]

    @property
    def sent(self) -> Any:
        return self.request["messages"]

    def continues(self) -> bool:
        """Whether the newest request begins with the bytes of the one before."""
        before, now = (body(self.model, index) for index in (-2, -1))
        return now.startswith(before[:-CLOSING])


def _status(status: int) -> Any:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status)

    return answer


def skills(**listed: str) -> str:
    known = {CUSTOMIZE.skill.name: CUSTOMIZE.skill.description or "", **listed}
    return guidance.baseline(tuple(guidance.Listed(name=name, description=known[name]) for name in sorted(known)))


def agents() -> str:
    described = {"explore": builtin._EXPLORE, "general": builtin._GENERAL, "reviewer": ""}
    listed = (agent_guidance.ListedAgent(name=name, description=text) for name, text in described.items())
    return agent_guidance.baseline(tuple(listed))


async def causes(runtime: Runtime, session: Session) -> list[list[str]]:
    """Recorded prefix breaks, oldest first."""
    return [found["causes"] for found in reversed((await view(runtime, session.id))["prefixBreaks"])]


async def changes(runtime: Runtime, session: Session) -> list[list[str]]:
    """The sources that each system message spoke for, oldest first."""
    return [change["keys"] for change in reversed((await view(runtime, session.id))["changes"])]


async def system_texts(runtime: Runtime, session: Session) -> list[str]:
    return [message.text for message in await history(runtime, session.id) if isinstance(message, SystemMessage)]


async def test_a_day_in_one_session(tmp_path: Path, site: Site) -> None:
    """CTX-003, CTX-006, CTX-043, CTX-048, CTX-075, CTX-076, CTX-081, CTX-084, CTX-085, CTX-091, CTX-095, CTX-103,
    CTX-106, CTX-109, CTX-110, CTX-118, CTX-129, CTX-148, CTX-150, CTX-202, SES-093, SES-149, SES-213: one baseline
    per epoch byte for byte, one combined message per boundary, no update lost and none repeated, and every broken
    prefix with its cause."""
    day = Day(tmp_path, site)
    day.page("/steady.md", "Steady rules.")
    day.page("/late.md", 503)
    agents_md = day.rules("Be kind.\n")
    steady_key, late_key = (remote.KEY.format(remote.digest(url)) for url in (day.steady, day.late))
    steady = instructions.HEADING.format(day.steady, "Steady rules.")
    selected = model.BASELINE.format("demo", "echo")

    async with day.open() as runtime:
        session = await begin(runtime)

        # The first turn: everything that can be observed is in the baseline, nothing is said beside it.
        baseline = paragraphs(
            day.surroundings(), date.BASELINE.format(WEDNESDAY), agents_md, steady, selected, skills(), agents()
        )
        await say(runtime, session.id, "one")
        talk = Conversation(GENERIC, baseline)
        assert day.sent == talk.user("one")
        talk.assistant()
        assert await states(runtime, session.id) == {
            "core/environment": "current",
            "core/date": "current",
            "core/instructions": "current",
            steady_key: "current",
            "core/model": "current",
            "core/skill-guidance": "current",
            "core/agent-guidance": "current",
            late_key: "unavailable",
        }

        # A file edited and a skill added are one message, in context order, after what the user said.
        agents_md = day.rules("Be brief.\n")
        skill = day.place.skill("tides", "When water moves")
        told = [
            paragraphs(
                f"{instructions.UPDATE}\n\n{agents_md}", f"{guidance.CHANGED}\n{skills(tides='When water moves')}"
            )
        ]
        await say(runtime, session.id, "two")
        assert day.sent == talk.user("two", told[-1])
        assert day.continues()
        talk.assistant()

        # Nothing changed: nothing is said.
        await say(runtime, session.id, "three")
        assert day.sent == talk.user("three")
        assert day.continues()
        talk.assistant()

        # A skill removed, and the page that never answered appears: as new, in its own words.
        skill.unlink()
        day.page("/late.md", "Late rules.")
        told.append(paragraphs(instructions.HEADING.format(day.late, "Late rules."), f"{guidance.CHANGED}\n{skills()}"))
        await say(runtime, session.id, "four")
        assert day.sent == talk.user("four", told[-1])
        assert (await states(runtime, session.id))[late_key] == "current"
        talk.assistant()

        # Midnight passes while the steady page is down: only the date is said, the page's last copy stays in force.
        day.page("/steady.md", 503)
        day.clock.advance(DAY)
        told.append(date.UPDATE.format(THURSDAY))
        await say(runtime, session.id, "five")
        assert day.sent == talk.user("five", told[-1])
        talk.assistant()

        # It returns as it was: silence. It returns changed, and the late one is gone for good: one message.
        day.page("/steady.md", "Steady rules.")
        await say(runtime, session.id, "six")
        assert day.sent == talk.user("six")
        talk.assistant()
        day.page("/late.md", 404)
        day.page("/steady.md", "New rules.")
        steady = instructions.HEADING.format(day.steady, "New rules.")
        told.append(paragraphs(f"{remote.UPDATE.format(day.steady)}\n\n{steady}", remote.REMOVED.format(day.late)))
        await say(runtime, session.id, "seven")
        assert day.sent == talk.user("seven", told[-1])
        assert (await states(runtime, session.id))[late_key] == "removed"
        assert day.continues()
        talk.assistant()
        assert await causes(runtime, session) == []

        # Another agent: its own text at once, guidance that it lacks is ended, the baseline stays.
        await runtime.sessions.switch_agent(session.id, "reviewer")
        told.append(guidance.REMOVED)
        await say(runtime, session.id, "eight")
        talk.begin("You only review.", baseline)
        assert day.sent == talk.user("eight", told[-1])
        talk.assistant()
        assert await causes(runtime, session) == [["agent switch", "tool change"]]

        # Another model: said once, the baseline stays, and so does everything that was told before.
        await runtime.sessions.switch_model(session.id, OTHER_MODEL)
        selected = model.BASELINE.format("demo", "scripted")
        told.append(model.UPDATE.format("demo", "scripted"))
        await say(runtime, session.id, "nine")
        assert day.sent == talk.user("nine", told[-1])
        talk.assistant()
        assert (await causes(runtime, session))[1:] == [["model switch"]]

    # Another process: what it sends begins with the bytes that the first one sent, and it tells nothing again.
    async with day.open() as runtime:
        await say(runtime, session.id, "ten")
        assert day.sent == talk.user("ten")
        assert day.continues()
        talk.assistant()
    agents_md = day.rules("Be careful.\n")
    async with day.open() as runtime:
        told.append(f"{instructions.UPDATE}\n\n{agents_md}")
        await say(runtime, session.id, "eleven")
        assert day.sent == talk.user("eleven", told[-1])
        assert day.continues()
        talk.assistant()
        assert len(await causes(runtime, session)) == 2
        assert await changes(runtime, session) == [
            ["core/instructions", "core/skill-guidance"],
            [late_key, "core/skill-guidance"],
            ["core/date"],
            [steady_key, late_key],
            ["core/skill-guidance"],
            ["core/model"],
            ["core/instructions"],
        ]

        # Compaction: a new baseline of what is in force now, and no message from before it.
        play(day.model, Turn(text="They counted to eleven."))
        await runtime.sessions.compact(session.id)
        baseline = paragraphs(day.surroundings(), date.BASELINE.format(THURSDAY), agents_md, steady, selected, agents())
        await say(runtime, session.id, "twelve")
        talk = Conversation("You only review.", baseline)
        talk.user(checkpoint("They counted to eleven.", "[Assistant]: done"))
        assert day.sent == talk.user("twelve")
        talk.assistant()
        assert (await causes(runtime, session))[2:] == [["compaction", "new epoch"]]
        assert (await view(runtime, session.id))["baseline"] == baseline

        # A move: the destination's own baseline before anything is promoted there.
        nested = day.rules("Below, be quiet.\n", "below/")
        below = day.place.project / "below"
        await runtime.sessions.move(session.id, str(below))
        assert await view(runtime, session.id) == {"status": "not initialized"}
        baseline = paragraphs(
            day.surroundings("below"), date.BASELINE.format(THURSDAY), nested, agents_md, steady, selected, agents()
        )
        await say(runtime, session.id, "thirteen")
        talk.begin("You only review.", baseline)
        assert day.sent == talk.user("thirteen")
        assert (await causes(runtime, session))[3:] == [["new epoch"]]

        # Nothing that was told is lost to people, and nothing was told twice.
        assert await system_texts(runtime, session) == told


# -- bad days ----------------------------------------------------------------------------------------------------


@pytest.fixture
async def bad(tmp_path: Path, site: Site) -> Day:
    return Day(tmp_path, site)


def huge(place: Place) -> None:
    place.write(AGENTS, "Far too much. " * 100_000)


def binary(place: Place) -> None:
    place.write(AGENTS, b"\x00\x01Odd \xff\xfe rules.\x00")


def directory(place: Place) -> None:
    place.project.joinpath(AGENTS).unlink(missing_ok=True)
    place.project.joinpath(AGENTS).mkdir()


def linked_out(place: Place) -> None:
    place.project.joinpath(AGENTS).unlink(missing_ok=True)
    place.project.joinpath(AGENTS).symlink_to(place.write(place.folder / "outside.md", "Outside rules."))


def unreadable(place: Place) -> None:
    """The user's own file, which may lie anywhere; the system refuses to read this one to anybody."""
    place.home.joinpath(f".config/opencode/{AGENTS}").symlink_to("/proc/self/mem")


def repair(place: Place) -> None:
    place.home.joinpath(f".config/opencode/{AGENTS}").unlink(missing_ok=True)
    path = place.project / AGENTS
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)
    place.write(AGENTS, "Good rules.")


@pytest.mark.parametrize(
    ("spoil", "state", "told"),
    [
        pytest.param(binary, "current", "Odd \ufffd\ufffd rules.", id="binary"),
        pytest.param(huge, "current", instructions.FILE_TOO_LARGE, id="huge"),
        pytest.param(directory, "removed", instructions.REMOVED, id="directory"),
        pytest.param(linked_out, "removed", instructions.REMOVED, id="linked out"),
        pytest.param(unreadable, "unavailable", None, id="unreadable"),
    ],
)
async def test_a_spoilt_instruction_file_in_the_middle_of_a_session(
    bad: Day, spoil: Callable[[Place], None], state: str, told: str | None
) -> None:
    """CTX-129, CTX-134, CTX-135, CTX-136, CTX-046, CTX-202: the turn goes on, the view says how it stands, and once
    the file is good again the model knows what is in force, told once."""
    bad.rules("First rules.")
    async with bad.open() as runtime:
        session = await begin(runtime)
        await say(runtime, session.id, "one")
        spoil(bad.place)
        await say(runtime, session.id, "two")
        assert (await states(runtime, session.id))["core/instructions"] == state
        said = await system_texts(runtime, session)
        assert len(said) == (told is not None)
        assert all(told in text for text in said if told is not None)
        assert "Outside" not in heard(bad.request)
        await say(runtime, session.id, "three")
        assert await system_texts(runtime, session) == said
        repair(bad.place)
        await say(runtime, session.id, "four")
        assert (await states(runtime, session.id))["core/instructions"] == "current"
        assert heard(bad.request).count("Good rules.") == 1
        await say(runtime, session.id, "five")
        assert heard(bad.request).count("Good rules.") == 1
        assert [message.text for message in await history(runtime, session.id) if isinstance(message, UserMessage)] == [
            "one",
            "two",
            "three",
            "four",
            "five",
        ]


@pytest.mark.parametrize("spoil", [binary, huge, directory, linked_out])
async def test_a_spoilt_instruction_file_at_the_start(bad: Day, spoil: Callable[[Place], None]) -> None:
    """CTX-134, CTX-136: what can be used is used, what cannot is left out, and the first prompt is answered."""
    spoil(bad.place)
    async with bad.open() as runtime:
        session = await begin(runtime)
        await say(runtime, session.id, "one")
        assert ("Odd" in heard(bad.request)) == (spoil is binary)
        assert not {"Outside", "Far too much"} & set(heard(bad.request).split(". "))
        repair(bad.place)
        await say(runtime, session.id, "two")
        assert heard(bad.request).count("Good rules.") == 1


async def test_an_unreadable_instruction_file_at_the_start_holds_the_prompt_until_it_is_readable(bad: Day) -> None:
    """CTX-031, CTX-083, CTX-136, SES-092: a baseline without the user's instructions is never made."""
    unreadable(bad.place)
    async with bad.open() as runtime:
        session = await begin(runtime)
        await say(runtime, session.id, "one")
        assert bad.model.requests == []
        assert await view(runtime, session.id) == {"status": "not initialized"}
        assert [receipt.prompt.text for receipt in await runtime.sessions.pending(session.id)] == ["one"]
        repair(bad.place)
        await say(runtime, session.id, "two")
        assert [message["content"] for message in bad.sent if message["role"] == "user"] == ["one", "two"]


async def test_a_file_that_vanishes_while_it_is_read_says_nothing(bad: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    """CTX-135, CTX-056: unavailable, not absent; a moment later its absence is seen, and said."""
    bad.rules("First rules.")
    read = InstructionFiles.read

    def vanishing(self: InstructionFiles, found: Iterable[InstructionFile]) -> tuple[Instruction, ...]:
        bad.place.project.joinpath(AGENTS).unlink(missing_ok=True)
        return read(self, found)

    async with bad.open() as runtime:
        session = await begin(runtime)
        await say(runtime, session.id, "one")
        bad.rules("Second rules, longer.")
        with monkeypatch.context() as patch:
            patch.setattr(InstructionFiles, "read", vanishing)
            await say(runtime, session.id, "two")
        assert await system_texts(runtime, session) == []
        assert (await states(runtime, session.id))["core/instructions"] == "unavailable"
        await say(runtime, session.id, "three")
        assert await system_texts(runtime, session) == [instructions.REMOVED]


def _slow() -> Any:
    async def answer(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    return answer


def _large() -> Any:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=b"x" * (remote.BODY_LIMIT + 1))

    return answer


def _circle() -> Any:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/late.md"})

    return answer


@pytest.mark.parametrize("page", [_slow, _large, _circle, lambda: _status(500), lambda: _status(429)])
async def test_a_page_that_cannot_be_had_holds_nobody_up(
    bad: Day, page: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """CTX-021, CTX-034, CTX-149, CTX-150: the first prompt goes without it, the view says so, and it comes later."""
    monkeypatch.setattr(remote, "REMOTE_TIMEOUT", 0.2)
    key = remote.KEY.format(remote.digest(bad.late))
    bad.page("/steady.md", "Steady rules.")
    bad.site.pages["/late.md"] = page()
    async with bad.open() as runtime:
        session = await begin(runtime)
        await say(runtime, session.id, "one")
        assert (await states(runtime, session.id))[key] == "unavailable"
        assert "Steady rules." in heard(bad.request)
        bad.page("/late.md", "Late rules.")
        await say(runtime, session.id, "two")
        assert (await states(runtime, session.id))[key] == "current"
        bad.site.pages["/late.md"] = page()
        bad.clock.advance(SPAN)
        await say(runtime, session.id, "three")
        assert await system_texts(runtime, session) == [instructions.HEADING.format(bad.late, "Late rules.")]


KEY = "plugin/odd/fact"


class Whim(NamedTuple):
    """How a plugin's source misbehaves."""

    load: Callable[[], Any] = constant("fine")
    baseline: Callable[[Any], Any] = lambda value: f"Plugin says {value}."


def _raise(*_: object) -> Any:
    raise RuntimeError("canary")


async def _hang() -> str:
    await asyncio.Event().wait()
    return "never"


WHIMS = {
    "raises": Whim(load=_raise),
    "is not asynchronous": Whim(load=lambda: "fine"),
    "hangs": Whim(load=_hang),
    "wrong type": Whim(load=constant(7)),
    "not JSON": Whim(load=constant(object())),
    "renders nothing": Whim(baseline=lambda value: ""),
    "fails to render": Whim(baseline=_raise),
    "renders no text": Whim(baseline=lambda value: 7),
}


@pytest.mark.parametrize("whim", WHIMS.values(), ids=WHIMS)
async def test_a_plugins_source_can_spoil_nothing(bad: Day, whim: Whim, monkeypatch: pytest.MonkeyPatch) -> None:
    """CTX-160, CTX-163: the turn goes on without it, a person is told, and it is admitted once it behaves."""
    plugin = Odd(whim, monkeypatch)
    async with bad.open() as runtime:
        session = await begin(runtime)
        async with runtime.locations.use(runtime.location) as services:
            await services.plugins.add(plugin)
            await say(runtime, session.id, "one")
            await say(runtime, session.id, "two")
            assert len(bad.model.requests) == 2
            assert "Plugin" not in heard(bad.request)
            problems = services.plugins.problems()
            assert {problem.id for problem in problems} == {KEY}
            assert not [problem for problem in problems if "canary" in problem.message]
            plugin.whim = Whim()
            await say(runtime, session.id, "three")
            assert heard(bad.request).count("Plugin says fine.") == 1
            plugin.whim = whim
            await say(runtime, session.id, "four")
            services.plugins.remove("Odd")
            await say(runtime, session.id, "five")
        assert await system_texts(runtime, session) == ["Plugin says fine.", "Plugin is silent."]
        assert (await states(runtime, session.id))[KEY] == "removed"


@pytest.mark.parametrize("whim", [pytest.param(whim, id=name) for name, whim in WHIMS.items()])
async def test_a_plugins_source_that_cannot_be_had_is_in_the_view(
    bad: Day, whim: Whim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CTX-163, CTX-202: its state is what the last boundary saw of it, also if the model was never told."""
    async with bad.open() as runtime:
        session = await begin(runtime)
        async with runtime.locations.use(runtime.location) as services:
            await services.plugins.add(Odd(whim, monkeypatch))
            await say(runtime, session.id, "one")
        assert (await states(runtime, session.id)).get(KEY) == "unavailable"


class Odd:
    """A plugin with one source that does as it likes."""

    id = "Odd"

    def __init__(self, whim: Whim, monkeypatch: pytest.MonkeyPatch) -> None:
        self.whim = whim
        monkeypatch.setattr(plugin_source, "__kwdefaults__", {"timeout": 0.05})

    def setup(self, host: PluginHost) -> None:
        host.context.register(
            Source(
                key=f"{host.context.namespace}fact",
                codec=JsonCodec(str),
                load=lambda: self.whim.load(),
                baseline=lambda value: self.whim.baseline(value),
                update=lambda _, value: self.whim.baseline(value),
                removed=lambda _: "Plugin is silent.",
            )
        )


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        pytest.param(
            {"core/future": {"value": 1, "removed": "The future is over."}}, ["The future is over."], id="new"
        ),
        pytest.param({"core/future": {"value": 1}}, [], id="new, not removable"),
        pytest.param({date.KEY: {"value": [2026, 6, 3]}}, [], id="another shape"),
        pytest.param({date.KEY: {"value": WEDNESDAY, "hash": "x"}}, [], id="another field"),
    ],
)
async def test_a_snapshot_of_another_version_is_lived_with(bad: Day, stored: dict[str, Any], told: list[str]) -> None:
    """CTX-041, CTX-047, CTX-062, CTX-113: removed with its own words, or a new baseline; the prompt is answered."""
    async with bad.open() as runtime:
        session = await begin(runtime)
        await say(runtime, session.id, "one")
    change_epoch(bad, lambda snapshot: {**snapshot, **stored})
    async with bad.open() as runtime:
        await say(runtime, session.id, "two")
        assert await system_texts(runtime, session) == told
        assert [message["content"].partition("\n")[0] for message in bad.sent[1:]] == ["one", "done", "two"]
        assert "core/future" not in (await states(runtime, session.id)) or told


def change_epoch(bad: Day, change: Callable[[Any], Any]) -> None:
    with STORES.rows(bad.place.data / "holdfast.db") as run:
        snapshots = "id in (select snapshot_id from session_context_epoch)"
        [(stored,)] = run(f"select content from context_text where {snapshots}")
        changed = json.dumps(change(json.loads(str(stored))))
        run(f"update context_text set content = ? where {snapshots}", changed)


async def test_a_broken_snapshot_fails_a_wake_and_is_healed_by_a_run(bad: Day) -> None:
    """CTX-062, CTX-063: typed, before any request, the prompt kept; an explicit retry begins anew."""
    async with bad.open() as runtime:
        session = await begin(runtime)
        await say(runtime, session.id, "one")
    change_epoch(bad, lambda snapshot: [])
    async with bad.open() as runtime:
        await say(runtime, session.id, "two")
        assert len(bad.model.requests) == 1
        assert [receipt.prompt.text for receipt in await runtime.sessions.pending(session.id)] == ["two"]
        await runtime.sessions.run(session.id)
        assert [message["content"] for message in bad.sent[1:]] == ["one", "done", "two"]
        assert await system_texts(runtime, session) == []
