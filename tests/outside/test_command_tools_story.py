"""Commands, bounded output, the web and skills, as a model uses them."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.outside.scripted_provider import PATIENCE, Model, Request, Turn
from tests.outside.world import World, ask, hands

from holdfast.schema.session_message import TextContent

pytestmark = pytest.mark.anyio


async def test_a_command_is_run_by_the_shell_in_the_project(world: World) -> None:
    """TOL-203, TOL-204, TOL-210, TOL-212, TOL-213, TOL-215, TOL-223: both outputs in order, no input, no terminal; a
    failure is a result with its code, a signal has its name; a folder that is not there runs nothing."""
    world.write("sub/a", "")
    async with world.host() as hf:
        use = await hands(world, hf)
        done = await use("bash", command="echo out; echo err >&2; cat; exit 3")
        assert done.structured == {"exit": 3, "truncated": False}
        assert done.content == (TextContent(text="out\nerr\n"), TextContent(text="Command exited with code 3."))
        await use("bash", command="pwd; ls; echo $OPENCODE $PAGER $GIT_TERMINAL_PROMPT; tty", workdir="sub")
        assert use.reads.splitlines()[:3] == [str(world.project / "sub"), "a", "1 cat 0"]
        assert "not a tty" in use.reads
        killed = await use("bash", command="kill -TERM $$")
        assert killed.structured["exit"] == 143
        assert "SIGTERM" in use.reads
        await use("bash", command="true")
        assert use.reads.startswith("(no output)\n")
        assert "not a directory" in await use.fails("bash", command="touch ran", workdir="absent")
        assert not (world.project / "ran").exists()
        assert (await use.fails("bash", command="true", timeout=600_001)).startswith("Invalid tool input: ")
        (described,) = [tool for tool in world.model.last.body["tools"] if tool["function"]["name"] == "bash"]
        assert set(described["function"]["parameters"]["properties"]) == {"command", "workdir", "timeout"}
        assert "sandbox" in described["function"]["description"]


async def ended(pid: int) -> None:
    """On a busy machine a process that was killed lives on until it is its turn."""
    command = Path(f"/proc/{pid}/cmdline")
    async with asyncio.timeout(PATIENCE):
        while command.exists() and b"sleep" in command.read_bytes():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


async def test_a_command_that_takes_too_long_is_ended_with_all_it_started(world: World) -> None:
    """TOL-214, TOL-215, TOL-218, TOL-219, TOL-342: what it said is kept; its children go too; one that was left behind
    in the background does not hold the call."""
    async with world.host() as hf:
        use = await hands(world, hf)
        late = await use("bash", command="echo begun; sleep 300 & echo $! > child; wait", timeout=1500)
        assert late.structured == {"truncated": False, "timeout": True}
        assert use.reads.startswith("begun\n")
        assert "Timed out after 1500 ms" in use.reads
        left = await use("bash", command="sleep 300 & echo $! > orphan; echo fine")
        assert left.structured["exit"] == 0
    for name in ("child", "orphan"):
        await ended(int((world.project / name).read_text()))


async def test_a_path_elsewhere_in_a_command_is_a_remark(world: World) -> None:
    """TOL-205, TOL-207, TOL-208, TOL-209: it is said and does not stop anything, also where such folders are denied."""
    rules = [{"action": "external_directory", "resource": "*", "effect": "deny"}]
    world.configure(permissions=rules)
    async with world.host() as hf:
        use = await hands(world, hf)
        done = await use("bash", command="cat /etc/hostname /etc/passwd/x > /dev/null")
        assert done.structured["exit"] == 1
        assert "/etc/*" in use.reads
        assert "advisory only" in use.reads


async def test_output_beyond_the_limit_is_kept_in_a_file_that_tools_may_read(world: World) -> None:
    """TOL-041, TOL-042, TOL-045, TOL-046, TOL-047, TOL-048, TOL-049, TOL-051, TOL-056, TOL-064, TOL-065, TOL-066,
    TOL-336: the model gets head and tail within the limits and where the rest is; reading and searching there need no
    yes; a link planted beside it gives nothing; without the file the conversation is the same."""
    world.configure(tool_output={"max_lines": 40, "max_bytes": 2000})
    (world.home / "elsewhere").write_text("secret\n")
    async with world.host(unattended="deny") as hf:

        @hf.tool
        async def numbers() -> dict[str, list[int]]:
            """Many numbers."""
            return {"numbers": list(range(1000))}

        use = await hands(world, hf)
        large = await use("bash", command="seq 1 5000")
        (path,) = large.output_paths or ()
        shown = use.reads
        assert shown.startswith("1\n2\n")
        assert "5000" in shown[-60:]
        assert f"... output truncated; full content saved to {path} ..." in shown
        assert len(shown.splitlines()) <= 42
        assert len(shown.encode()) <= 2100
        assert Path(path).parent == world.data / "tool-output"
        assert Path(path).name.startswith("tool_")
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(Path(path).parent).st_mode) == 0o700
        assert "4999\n5000\n" in Path(path).read_text()
        await use("read", path=path, offset=2500, limit=1)
        assert "2500: 2500" in use.reads
        await use("grep", pattern="^4321$", path=path)
        assert "Line 4321: 4321" in use.reads
        planted = Path(path).with_name("tool_planted")
        planted.symlink_to(world.home / "elsewhere")
        await use.fails("read", path=str(planted))
        structured = await use("numbers")
        assert structured.structured == {"numbers": list(range(1000))}
        (file,) = structured.output_paths or ()
        assert json.loads(Path(file).read_text()) == structured.structured
        assert "output truncated" in use.reads
        before = world.model.last.results
        Path(path).unlink()
        await ask(hf, use.session, "go on")
        assert world.model.last.results == before
        assert "File not found" in await use.fails("read", path=path)


async def test_output_at_the_limit_is_untouched(world: World) -> None:
    """TOL-044: exactly as many lines and bytes as allowed; one more is cut."""
    world.configure(tool_output={"max_lines": 10, "max_bytes": 10_000})
    async with world.host() as hf:

        @hf.tool
        async def lines(count: int) -> str:
            """So many lines."""
            return "\n".join(str(number) for number in range(count))

        use = await hands(world, hf)
        exact = await use("lines", count=10)
        assert exact.output_paths is None
        assert use.reads.splitlines() == [str(number) for number in range(10)]
        over = await use("lines", count=11)
        assert over.output_paths is not None
        assert len(use.reads.splitlines()) <= 10


async def test_binary_and_huge_output_is_told_not_shown(world: World) -> None:
    """TOL-216, TOL-217, TOL-323: the bytes go to a file; colours and progress are taken out of the text."""
    async with world.host() as hf:
        use = await hands(world, hf)
        binary = await use("bash", command=r"printf 'a\000b'")
        assert use.reads.startswith("(binary output, 3 bytes)")
        (path,) = binary.output_paths or ()
        assert Path(path).read_bytes() == b"a\x00b"
        await use("bash", command=r"printf '\033[31mred\033[0m\n10%%\r50%%\r100%%\n'")
        assert use.reads.splitlines()[:2] == ["red", "100%"]
        await use("bash", command="yes 0123456789 | head -c 3000000; echo the end")
        assert "the end" in use.reads
        assert len(use.reads.encode()) < 60_000


class Site:
    """A web site of its own for the fetching tool."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.base = model.url.removesuffix("/v1")

    def answers(self, kind: str, body: str | bytes, *, status: int = 200, length: int | None = None) -> None:
        raw = body if isinstance(body, bytes) else body.encode()
        declared = {} if length is None else {"content-length": str(length)}
        self.model.always = Turn(status=status, raw=raw, headers={"content-type": kind, **declared})

    @property
    def asked(self) -> Request:
        return self.model.last


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    model = Model()
    async with model.serving():
        yield Site(model)


async def test_a_page_is_fetched_and_turned_into_text(world: World, site: Site) -> None:
    """TOL-255, TOL-257, TOL-258, TOL-259, TOL-260, TOL-261, TOL-266, TOL-262: only where a rule names the
    host, for it is on this machine; as Markdown, text or HTML; each failure says its reason."""
    rules = [{"action": "webfetch", "resource": f"{site.base}/*", "effect": "allow"}]
    world.configure(permissions=rules)
    page = "<h1>Hello</h1><script>evil()</script><p>world <b>wide</b></p>"
    async with world.host() as hf:
        use = await hands(world, hf)
        site.answers("text/html; charset=utf-8", page)
        done = await use("webfetch", url=f"{site.base}/page")
        assert "# Hello" in done.structured["output"]
        assert "world **wide**" in done.structured["output"]
        assert "evil" not in done.structured["output"]
        assert (done.structured["url"], done.structured["format"]) == (f"{site.base}/page", "markdown")
        assert "# Hello" in use.reads
        assert site.asked.headers["accept-language"] == "en-US,en;q=0.9"
        assert site.asked.headers["accept"].startswith("text/markdown")
        text = await use("webfetch", url=f"{site.base}/page", format="text")
        assert "<" not in text.structured["output"]
        assert page in (await use("webfetch", url=f"{site.base}/page", format="html")).structured["output"]
        site.answers("application/json", '{"a": 1}')
        assert (await use("webfetch", url=f"{site.base}/x")).structured["output"] == '{"a": 1}'
        site.answers("text/html", "no", status=404)
        assert "404" in await use.fails("webfetch", url=f"{site.base}/x")
        site.answers("application/zip", b"PK")
        assert "application/zip" in await use.fails("webfetch", url=f"{site.base}/x")
        site.answers("text/plain", "x", length=6 * 1024 * 1024)
        assert "too large" in await use.fails("webfetch", url=f"{site.base}/x")


async def test_addresses_that_a_model_may_not_reach(world: World, site: Site) -> None:
    """TOL-256, TOL-262, TOL-263, TOL-320: this machine in every spelling, other schemes, credentials in the address; no
    connection is made."""
    port = site.base.rsplit(":", 1)[1]
    async with world.host() as hf:
        use = await hands(world, hf)
        hosts = ["127.0.0.1", "localhost", "0x7f.1", "2130706433", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"]
        for host in hosts:
            assert "address not allowed" in await use.fails("webfetch", url=f"http://{host}:{port}/")
        assert "address not allowed" in await use.fails("webfetch", url="http://169.254.169.254/latest/meta-data")
        for url in ("ftp://example.org/", "file:///etc/passwd", "nonsense"):
            assert "Unable to fetch" in await use.fails("webfetch", url=url)
        assert "credentials" in await use.fails("webfetch", url="http://me:pw@example.org/")
    assert site.model.requests == []


def skill(world: World, name: str, text: str, **files: str) -> None:
    folder = world.user_folder / "skill" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text, encoding="utf-8")
    for file, content in files.items():
        (folder / f"{file}.md").write_text(content, encoding="utf-8")


async def test_a_skill_is_listed_by_name_and_read_by_its_tool(world: World) -> None:
    """TOL-242, TOL-243, TOL-244, TOL-245, TOL-246, CTX-171, CTX-178, CTX-179, CTX-180, CTX-183, CTX-184,
    CTX-185, CTX-186, CTX-182, CTX-187: the model is told names and descriptions it may use; body and files come from
    the tool; unknown and denied read alike; an agent without skills has no such tool."""
    skill(world, "cut", "---\nname: cut\ndescription: How to <cut> & sew\n---\n  With care.\n", thread="red")
    skill(world, "hidden", "---\nname: hidden\ndescription: Not for everybody\n---\nSecret steps.\n")
    skill(world, "silent", "---\nname: silent\n---\nNo description.\n")
    (world.user_folder / "skill" / "flat.md").write_text("---\ndescription: A flat one\n---\nFlat body.\n")
    rules = [{"action": "skill", "resource": "hidden", "effect": "deny"}]
    nothing = {"mode": "primary", "permissions": [{"action": "skill", "resource": "*", "effect": "deny"}]}
    world.configure(permissions=rules, agents={"none": nothing})
    async with world.host() as hf:
        use = await hands(world, hf)
        loaded = await use("skill", name="cut")
        told = world.model.last.system
        listed = told[told.index("<available_skills>") : told.index("</available_skills>")]
        assert "<name>cut</name>" in listed
        assert "<description>How to &lt;cut&gt; &amp; sew</description>" in listed
        assert listed.index("cut") < listed.index("flat")
        assert "hidden" not in listed
        assert "silent" not in listed
        assert "With care." not in told
        assert "Secret steps." not in told
        folder = world.user_folder / "skill" / "cut"
        assert (loaded.structured["name"], loaded.structured["directory"]) == ("cut", str(folder))
        lines = use.reads.splitlines()
        assert lines[:4] == ['<skill_content name="cut">', "# Skill: cut", "", "With care."]
        assert f"<file>{folder / 'thread.md'}</file>" in use.reads
        assert "<file>" not in str((await use("skill", name="flat")).content)
        assert "No description." in str((await use("skill", name="silent")).content)
        assert await use.fails("skill", name="hidden") == "Unable to load skill hidden"
        assert await use.fails("skill", name="absent") == "Unable to load skill absent"
        other = await hands(world, hf, agent="none")
        await ask(hf, other.session, "hi")
        assert "skill" not in world.model.last.tools
        assert "<available_skills>" not in world.model.last.system
