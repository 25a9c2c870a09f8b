"""One Session through a day: files, skills, the date, agent, model and web pages change, the process is restarted,
history is compacted, the Session moves. What the model is sent is compared word for word."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

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
    history,
    paragraphs,
    play,
    say,
    states,
    view,
)
from tests.core.web.site import Site, running_site

from holdfast.core.agent.builtin import BUILD_SYSTEM
from holdfast.core.context import date, environment, instructions, model, remote
from holdfast.core.runtime import Runtime
from holdfast.core.session.runner.lowering import checkpoint
from holdfast.core.skill import guidance
from holdfast.core.skill.builtin import CUSTOMIZE
from holdfast.llm.offline import ScriptedTransport, Turn
from holdfast.schema.session import Session
from holdfast.schema.session_message import SystemMessage

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
            day.surroundings(), date.BASELINE.format(WEDNESDAY), agents_md, steady, selected, skills()
        )
        await say(runtime, session.id, "one")
        talk = Conversation(BUILD_SYSTEM, baseline)
        assert day.sent == talk.user("one")
        talk.assistant()
        assert await states(runtime, session.id) == {
            "core/environment": "current",
            "core/date": "current",
            "core/instructions": "current",
            steady_key: "current",
            "core/model": "current",
            "core/skill-guidance": "current",
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
        told.append(
            paragraphs(instructions.HEADING.format(day.late, "Late rules."), f"{guidance.CHANGED}\n{skills()}")
        )
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
        baseline = paragraphs(day.surroundings(), date.BASELINE.format(THURSDAY), agents_md, steady, selected)
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
            day.surroundings("below"), date.BASELINE.format(THURSDAY), nested, agents_md, steady, selected
        )
        await say(runtime, session.id, "thirteen")
        talk.begin("You only review.", baseline)
        assert day.sent == talk.user("thirteen")
        assert (await causes(runtime, session))[3:] == [["new epoch"]]

        # Nothing that was told is lost to people, and nothing was told twice.
        assert await system_texts(runtime, session) == told
