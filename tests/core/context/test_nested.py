"""Nested instructions: what reading brings to light, and for how long it is in force."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import ManualClock
from tests.core.context.conftest import Drained
from tests.core.context.places import Place, baseline, forbidden, instructions, stored, told
from tests.core.event.samples import SES

from holdfast.core.context import nested as module
from holdfast.core.context.instructions import InstructionFile, InstructionFiles
from holdfast.core.context.nested import NESTED_FILE_LIMIT, NestedInstructions
from holdfast.core.context.system_context import EMPTY, SystemContext
from holdfast.schema.location import Location

pytestmark = pytest.mark.anyio


class Reading:
    """A Session at a Location that reads files, as the tool's settlement would."""

    def __init__(self, drained: Drained, place: Place, clock: ManualClock, *, workspace: str | None = None) -> None:
        self.files: InstructionFiles = place.files()
        self.location = Location(directory=str(place.work), workspace_id=workspace)
        self.elsewhere: list[InstructionFile] = []
        self.log = drained.log
        self.nested = NestedInstructions(drained.database, self.location, self.files, clock, self._find_configured)

    async def read(self, target: Path) -> list[str]:
        """What was discovered, published with the settlement."""
        found = await self.nested.discover(SES, target)
        if found is None:
            return []
        await self.log.publish(found)
        return list(found.paths)

    def context(self) -> SystemContext:
        return self.nested.context(SES)

    async def _find_configured(self) -> list[InstructionFile]:
        return self.elsewhere


@pytest.fixture
def reading(drained: Drained, place: Place, clock: ManualClock) -> Reading:
    return Reading(drained, place, clock)


async def test_a_read_discovers_upward_to_what_is_ambient(place: Place, reading: Reading) -> None:
    """CTX-155, CTX-157, CTX-005: nearest first, excluding covered directories; files and directories alike."""
    place.write("packages/AGENTS.md", "covered")
    deep, other = place.write("packages/ui/deep/AGENTS.md", "deep"), place.write("packages/ui/CLAUDE.md", "ui")
    target = place.write("packages/ui/deep/src/x.ts")
    assert await reading.read(target) == [str(deep), str(other)]
    assert await reading.read(target) == []
    assert await reading.read(place.write("packages/ui/y.ts")) == []
    assert await baseline(reading.context()) == instructions((other, "ui"), (deep, "deep"))
    folder = place.write("lib/AGENTS.md", "lib").parent
    assert await reading.read(folder) == [str(folder / "AGENTS.md")]


async def test_outside_the_project_nothing_is_discovered(place: Place, reading: Reading) -> None:
    """CTX-155, CTX-134: by the real path of the target, and of the file that was found."""
    outside = place.base / "outside"
    outside.mkdir()
    (outside / "AGENTS.md").write_text("outside", encoding="utf-8")
    (outside / "x.ts").touch()
    (place.root / "link").symlink_to(outside)
    assert await reading.read(outside / "x.ts") == []
    assert await reading.read(place.root / "link" / "x.ts") == []
    target = place.write("lib/x.ts")
    (target.parent / "AGENTS.md").symlink_to(outside / "AGENTS.md")
    assert await reading.read(target) == []


async def test_a_target_that_is_gone_or_forbidden_discovers_nothing(place: Place, reading: Reading) -> None:
    """CTX-155: looking never fails the read that caused it."""
    assert await reading.read(place.root / "nowhere.ts") == []
    target = place.write("lib/x.ts")
    place.write("lib/AGENTS.md")
    with forbidden(target.parent):
        assert await reading.nested.discover(SES, target) is None


async def test_discoveries_are_durable_and_ordered(drained: Drained, place: Place, reading: Reading) -> None:
    """CTX-156: one private event, unique rows, in order of discovery and then of path; it can be rebuilt."""
    z, a = place.write("z/AGENTS.md", "z"), place.write("z/a/AGENTS.md", "a")
    b = place.write("b/AGENTS.md", "b")
    assert await reading.read(z.parent) == [str(z)]
    assert await reading.read(a.parent) == [str(a)]
    assert await reading.read(b.parent) == [str(b)]
    rows = drained.rows("select directory, workspace_id, path, seq from session_instruction order by seq")
    assert rows == [(str(place.work), "", str(path), seq) for seq, path in enumerate((z, a, b), start=1)]
    assert (await drained.log.page(SES)).events == []
    assert await baseline(reading.context()) == instructions((z, "z"), (a, "a"), (b, "b"))
    await drained.log.rebuild(SES)
    assert drained.rows("select directory, workspace_id, path, seq from session_instruction order by seq") == rows


async def test_a_discovery_is_told_at_the_next_boundary_and_follows_the_files(place: Place, reading: Reading) -> None:
    """CTX-157, CTX-158: new, changed, deleted and created again; the read itself says nothing."""
    context = reading.context()
    snapshot = await stored(context)
    lib = place.write("lib/AGENTS.md", "lib")
    await reading.read(lib.parent)
    text, snapshot = await told(reading.context(), snapshot)
    assert text == instructions((lib, "lib"))
    assert list(snapshot) == ["core/instructions/nested"]
    lib.write_text("LIB", encoding="utf-8")
    text, snapshot = await told(reading.context(), snapshot)
    assert text == f"{module.UPDATE}\n\n{instructions((lib, 'LIB'))}"
    lib.unlink()
    text, snapshot = await told(reading.context(), snapshot)
    assert text == module.REMOVED
    lib.write_text("again", encoding="utf-8")
    text, snapshot = await told(reading.context(), snapshot)
    assert text == instructions((lib, "again"))


async def test_discoveries_belong_to_a_location(
    drained: Drained, place: Place, reading: Reading, clock: ManualClock
) -> None:
    """CTX-158: elsewhere they do not apply, back here they do."""
    lib = place.write("lib/AGENTS.md", "lib")
    await reading.read(lib.parent)
    assert await baseline(Reading(drained, place, clock, workspace="wrk_1").context()) == ""
    assert await baseline(Reading(drained, place, clock).context()) == instructions((lib, "lib"))


async def test_nested_files_that_are_ambient_or_configured_are_left_out(place: Place, reading: Reading) -> None:
    """CTX-158, CTX-147: configured and ambient come first, by canonical identity."""
    lib = place.write("lib/AGENTS.md", "lib")
    await reading.read(lib.parent)
    reading.elsewhere = [InstructionFile(str(lib), lib.stat())]
    assert await baseline(reading.context()) == ""
    reading.elsewhere = []
    assert await baseline(reading.context()) == instructions((lib, "lib"))
    (place.config / "AGENTS.md").symlink_to(lib)
    assert await baseline(reading.context()) == ""


async def test_a_session_without_discoveries_is_not_read_again_before_the_next_drain(
    drained: Drained, place: Place, reading: Reading, clock: ManualClock
) -> None:
    """CTX-157: a boundary need not ask the database; what another process recorded counts from the next drain on."""
    assert await baseline(reading.context()) == ""
    assert reading.context() is EMPTY
    lib = place.write("lib/AGENTS.md", "lib")
    await Reading(drained, place, clock).read(lib.parent)
    assert reading.context() is EMPTY
    reading.nested.begin(SES, (str(lib),))
    assert await baseline(reading.context()) == instructions((lib, "lib"))
    assert await baseline(reading.context()) == instructions((lib, "lib")), "read from the database this time"
    reading.nested.begin(SES, ())
    assert reading.context() is EMPTY


async def test_an_unreadable_discovery_is_unavailable(place: Place, reading: Reading) -> None:
    """CTX-056, CTX-157: it is not said to be gone."""
    lib = place.write("lib/AGENTS.md", "lib")
    await reading.read(lib.parent)
    with forbidden(lib):
        assert await baseline(reading.context()) is None


async def test_at_most_32_nested_instruction_files_are_recorded(
    place: Place, reading: Reading, caplog: pytest.LogCaptureFixture
) -> None:
    """CTX-159: nearest first within one read; beyond it nothing is recorded, and it is logged once."""
    for number in range(NESTED_FILE_LIMIT - 1):
        await reading.read(place.write(f"many/{number}/AGENTS.md").parent)
    near, far = place.write("last/near/AGENTS.md"), place.write("last/AGENTS.md")
    assert await reading.read(near.parent) == [str(near)]
    assert await reading.read(near.parent) == []
    assert await reading.read(far.parent) == []
    assert caplog.text.count("more than 32") == 1


async def test_the_project_switch_turns_it_off(place: Place, reading: Reading) -> None:
    """CTX-159: no discovery, and the source is absent."""
    lib = place.write("lib/AGENTS.md", "lib")
    await reading.read(lib.parent)
    snapshot = await stored(reading.context())
    place.environment["OPENCODE_DISABLE_PROJECT_CONFIG"] = "1"
    assert await reading.read(place.write("other/AGENTS.md").parent) == []
    assert (await told(reading.context(), snapshot))[0] == module.REMOVED
