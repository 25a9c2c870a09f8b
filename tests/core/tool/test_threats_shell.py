"""Attacks through commands and arguments, against the real tools and permissions, by a model inside a turn."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.core.session.support_day import Place, begin, calling, heard, history, play, say, tools_of
from tests.core.session.support_day_desk import Desk, call, desk_of, rules

from holdfast.core.runtime.runtime import Runtime
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema.session import Session
from holdfast.schema.session_message import TextContent, ToolCompleted, ToolError

pytestmark = pytest.mark.anyio

AGENTS = {
    "asking": {"mode": "all", "permissions": rules("allow * *", "ask bash *", "ask external_directory *")},
    "echo": {"mode": "all", "permissions": rules("ask * *", "allow bash echo *")},
    "free": {"mode": "all", "permissions": rules("allow * *")},
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, agents=AGENTS)


@pytest.fixture
async def runtime(place: Place, model: ScriptedTransport) -> AsyncIterator[Runtime]:
    async with place.runtime(model) as runtime:
        yield runtime


@pytest.fixture
async def desk(runtime: Runtime) -> AsyncIterator[Desk]:
    async with desk_of(runtime) as desk:
        yield desk


@pytest.fixture
async def session(runtime: Runtime) -> Session:
    return await begin(runtime, agent="asking")


async def texts(runtime: Runtime, session_id: str) -> list[str]:
    """What each call gave the model to read."""
    found: list[str] = []
    for part in await tools_of(runtime, session_id):
        if isinstance(part.state, ToolError):
            found.append(part.state.error.message)
        elif isinstance(part.state, ToolCompleted):
            found.append("".join(item.text for item in part.state.content if isinstance(item, TextContent)))
    return found


# -- T5 ------------------------------------------------------------------------------------------------------------

TRICKS = {
    "newline": "printf 'one\ntwo' > out",
    "bidirectional": "printf '\u202etxt.cod\u202c' > out",
    "zero width": "printf 'a\u200bb' > out",
    "control": "printf 'a\x1b[2Kb' > out",
    "quotes": "printf '%s' \"it's \\$HOME\" > out",
}


@pytest.mark.parametrize("command", TRICKS.values(), ids=TRICKS)
async def test_the_approved_text_is_what_runs(
    runtime: Runtime, session: Session, model: ScriptedTransport, desk: Desk, place: Place, command: str
) -> None:
    """TOL-318, TOL-520: byte for byte. Surfaces spell out what a reader could not see."""
    await call(runtime, model, session.id, ("bash", {"command": command}))
    [request] = await desk.asked()
    first = command.partition(" > out")[0]
    assert first in request.resources
    assert (request.metadata or {})["command"] == command
    assert not (place.project / "out").exists()
    await desk.answer(request, "once")
    await runtime.sessions.wait(session.id)
    expected = await output_of(command, place)
    assert (place.project / "out").read_bytes() == expected


async def output_of(command: str, place: Place) -> bytes:
    """What the shell itself makes of it."""
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", command.removesuffix(" > out"), stdout=asyncio.subprocess.PIPE, cwd=place.project
    )
    out, _ = await process.communicate()
    return out


async def test_a_nul_is_refused_before_anyone_is_asked(
    runtime: Runtime, session: Session, model: ScriptedTransport, desk: Desk, place: Place
) -> None:
    """TOL-318: the shell would not see what follows it."""
    play(model, calling(("bash", {"command": "echo safe\0; touch pwned"})))
    await say(runtime, session.id, "go")
    assert desk.heard == []
    assert "NUL" in (await texts(runtime, session.id))[0]
    assert not (place.project / "pwned").exists()


async def test_a_working_directory_outside_is_asked_for_first(
    runtime: Runtime, session: Session, model: ScriptedTransport, desk: Desk, tmp_path: Path
) -> None:
    """TOL-318, TOL-104: and when that is refused, nothing else is asked and nothing runs."""
    outside = tmp_path / "outside"
    outside.mkdir()
    await call(runtime, model, session.id, ("bash", {"command": "touch pwned", "workdir": str(outside)}))
    [request] = await desk.asked()
    assert (request.action, request.resources) == ("external_directory", (f"{outside}/*",))
    await desk.answer(request, "reject", message="No.")
    await runtime.sessions.wait(session.id)
    assert [item["action"] for item in desk.heard] == ["external_directory"]
    assert list(outside.iterdir()) == []


BYPASSES = [
    "echo a; rm canary",
    "echo a && rm canary",
    "echo a || rm canary",
    "echo a & rm canary",
    "echo a\nrm canary",
    "echo $(rm canary)",
    "echo `rm canary`",
    "echo a | xargs rm canary",
    "echo <(rm canary)",
    "echo a > canary",
    "(rm canary)",
    "{ rm canary; }",
    "if true; then rm canary; fi",
    "echo() { rm canary; }; echo a",
    "PATH=. echo a; rm canary",
    "env rm canary",
    "/bin/rm canary",
    '"rm" canary',
    "r''m canary",
    "\\rm canary",
    "eval 'rm canary'",
    "bash -c 'rm canary'",
    "bash <<E\nrm canary\nE",
    "echo ${x:-$(rm canary)}",
    "echo a #\nrm canary",
    "$(echo rm) canary",
    "! rm canary",
    "time rm canary",
    "trap 'rm canary' EXIT",
    "echo 'unclosed; rm canary",
]


@pytest.mark.parametrize("command", BYPASSES)
async def test_an_approval_for_one_command_lets_no_other_through(
    tmp_path: Path, model: ScriptedTransport, command: str
) -> None:
    """TOL-318, TOL-224: an agent that may `echo` is asked about each of these, and refused, the file is still there."""
    place = Place(tmp_path, agents=AGENTS)
    place.write("canary", "alive")
    async with place.runtime(model, unattended="deny") as runtime, desk_of(runtime) as desk:
        session = await begin(runtime, agent="echo")
        play(model, calling(("bash", {"command": command}), ("bash", {"command": "echo fine"})))
        await say(runtime, session.id, "go")
        told, fine = await texts(runtime, session.id)
        assert "Permission denied: bash" in told
        assert fine.startswith("fine")
        assert [item["action"] for item in desk.heard] == ["bash"]
    assert (place.project / "canary").read_text() == "alive"


# -- T6, T17 -------------------------------------------------------------------------------------------------------

SECRETS = {
    "ANTHROPIC_API_KEY": "canary-anthropic",
    "OPENAI_API_KEY": "canary-openai",
    "AWS_SECRET_ACCESS_KEY": "canary-aws",
    "AWS_SESSION_TOKEN": "canary-session",
    "GITHUB_TOKEN": "canary-github",
    "EXA_API_KEY": "canary-exa",
    "PARALLEL_API_KEY": "canary-parallel",
    "OPENCODE_SERVER_PASSWORD": "canary-password",
    "HOLDFAST_PASSWORD": "canary-own",
    "MY_DEPLOY_SECRET": "canary-mine",
}
LOOKS = ["env", "export -p", "cat /proc/self/environ | tr '\\0' '\\n'", "python3 -c 'import os; print(os.environ)'"]


async def test_no_secret_of_the_environment_reaches_a_command_or_any_record(
    tmp_path: Path, model: ScriptedTransport, caplog: pytest.LogCaptureFixture
) -> None:
    """TOL-319, TOL-222, TOL-330: not in output, history, events, managed files, the database or the log; and what is
    configured to be passed is."""
    caplog.set_level(logging.DEBUG)
    place = Place(tmp_path, agents=AGENTS, holdfast={"environment": ["PASSED_ON"]}, tool_output={"max_lines": 3})
    place.environment |= SECRETS | {"PASSED_ON": "yes-this-one"}
    async with place.runtime(model) as runtime:
        session = await begin(runtime, agent="free")
        play(model, calling(*(("bash", {"command": look}) for look in LOOKS)), calling(("websearch", {"query": "x"})))
        await say(runtime, session.id, "go")
        results = await texts(runtime, session.id)
        managed = [path.read_text() for path in (place.data / "tool-output").iterdir()]
        assert sum("yes-this-one" in text for text in [*results, *managed]) >= len(LOOKS)
        everything = [
            *results,
            *managed,
            heard(model.requests[-1]),
            repr(await history(runtime, session.id)),
            repr(await runtime.log.serialized(session.id, limit=1_000)),
            caplog.text,
        ]
    assert not [text for text in everything if "canary" in text]
    files = [path for path in place.data.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"canary" in path.read_bytes()]


# -- T8 ------------------------------------------------------------------------------------------------------------

HOSTILE = [
    "-rf",
    "--pre=touch pwned",
    "$&",
    "\\1\\g<0>",
    "%s%n{0}{}",
    "'; drop table session; --",
    'a"b',
    "$(touch pwned)",
    "`touch pwned`",
    "a\x1b[31mb",
    "__import__('os')",
]


@pytest.mark.parametrize("text", HOSTILE)
async def test_arguments_of_tools_reach_no_shell(
    runtime: Runtime, model: ScriptedTransport, place: Place, desk: Desk, text: str
) -> None:
    """TOL-321: as a path, a content, a replacement, a pattern and a place to search; literally, whatever it holds."""
    session = await begin(runtime, agent="free")
    place.write("base.txt", f"left {text} right\n")
    before = {path.name for path in place.project.iterdir()}
    play(
        model,
        calling(("write", {"path": text, "content": text})),
        calling(("edit", {"path": "base.txt", "oldString": "left", "newString": text})),
        calling(
            ("grep", {"pattern": text}),
            ("grep", {"pattern": "right", "include": text}),
            ("grep", {"pattern": "right", "path": text}),
            ("glob", {"pattern": text}),
            ("glob", {"pattern": "*", "path": text}),
            ("read", {"path": text}),
            ("skill", {"name": text}),
            ("todowrite", {"todos": [{"content": text, "status": "pending", "priority": "low"}]}),
        ),
    )
    await say(runtime, session.id, text)
    assert {path.name for path in place.project.iterdir()} == before | {text}
    assert (place.project / text).read_text() == text
    assert (place.project / "base.txt").read_text() == f"{text} {text} right\n"
    assert [todo.content for todo in await runtime.todos.get(session.id)] == [text]
    assert len(await texts(runtime, session.id)) == 10
    assert await runtime.verify() == []


@pytest.mark.parametrize("path", ["plain.txt", "./a/../plain.txt", "a//..//plain.txt", "{project}/plain.txt", "a/link"])
async def test_a_prompt_and_a_rule_see_the_one_canonical_resource(
    tmp_path: Path, model: ScriptedTransport, path: str
) -> None:
    """TOL-074, TOL-321, TOL-114, TOL-118: however it is spelled, the rule against the file meets it and the prompt
    names it."""
    sealed: dict[str, Any] = {"mode": "all", "permissions": rules("allow * *", "deny edit plain.txt")}
    asking: dict[str, Any] = {"mode": "all", "permissions": rules("allow * *", "ask edit *")}
    place = Place(tmp_path, agents={"sealed": sealed, "asking": asking})
    place.write("plain.txt", "as it was")
    place.write("a/other.txt", "")
    (place.project / "a" / "link").symlink_to("../plain.txt")
    spelled = path.format(project=place.project)
    async with place.runtime(model) as runtime, desk_of(runtime) as desk:
        session = await begin(runtime, agent="sealed")
        play(model, calling(("write", {"path": spelled, "content": "pwned"})))
        await say(runtime, session.id, "go")
        assert await texts(runtime, session.id) == ["Permission denied: edit plain.txt"]
        await runtime.sessions.switch_agent(session.id, "asking")
        await call(runtime, model, session.id, ("write", {"path": spelled, "content": "pwned"}))
        [request] = await desk.asked()
        assert request.resources == ("plain.txt",)
        await runtime.sessions.interrupt(session.id)
    assert (place.project / "plain.txt").read_text() == "as it was"


async def test_a_rule_meets_both_normal_forms_of_a_name(tmp_path: Path, model: ScriptedTransport) -> None:
    """TOL-074: a name that looks the same is the same to a rule."""
    sealed: dict[str, Any] = {"mode": "all", "permissions": rules("allow * *", "deny edit caf\u00e9.txt")}
    place = Place(tmp_path, agents={"sealed": sealed})
    async with place.runtime(model) as runtime:
        session = await begin(runtime, agent="sealed")
        play(model, calling(("write", {"path": "cafe\u0301.txt", "content": "pwned"})))
        await say(runtime, session.id, "go")
    assert not [name for name in os.listdir(place.project) if name.startswith("caf")]


# -- T11 -----------------------------------------------------------------------------------------------------------


async def test_no_more_calls_than_may_run_and_no_more_processes_at_once(
    tmp_path: Path, model: ScriptedTransport
) -> None:
    """TOL-324, TOL-039, SES-116: what is over fails with a reason and is recorded; what waits runs later."""
    place = Place(tmp_path, agents=AGENTS, holdfast={"calls": 24, "running_calls": 24})
    (place.project / "run").mkdir()
    command = "touch run/$$; ls run | wc -l; sleep 0.1; rm run/$$"
    async with place.runtime(model) as runtime:
        session = await begin(runtime, agent="free")
        play(model, calling(*(("bash", {"command": f"{command} # {number}"}) for number in range(26))))
        await say(runtime, session.id, "go")
        told = await texts(runtime, session.id)
    assert [text.startswith("Too many tool calls") for text in told] == [False] * 24 + [True] * 2
    at_once = [int(text.split()[0]) for text in told[:24]]
    assert 2 <= max(at_once) <= 16
