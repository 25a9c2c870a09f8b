"""What README.md promises about the command line and about one's own program, sentence by sentence."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.cli.conftest import HOLDFAST, PATIENCE, Machine, Provider, Ran, Server, finish, rows
from tests.outside.scripted_provider import Turn, calling
from tests.outside.world import World, answer, answers, text_of, tools_of

from holdfast import HoldfastSync, ModelRef, PromptInput, asgi, connect_sync
from holdfast.schema.session_message import AssistantMessage, UserMessage

ECHO = ("run", "--model", "demo/echo")
SCRIPTED = ("run", "--model", "demo/scripted", "go")
TOUCH = {"tool": "bash", "input": {"command": "touch made.txt"}}
Here = Callable[..., Ran]


def test_a_prompt_goes_through_the_whole_runtime_offline(holdfast: Machine) -> None:
    """The answer on standard output, the rest on standard error; exit code 0."""
    ran = holdfast(*ECHO, "What does hello.txt say?")
    assert (ran.code, ran.out) == (0, "Reading hello.txt.\nThe file begins: hello world\n")
    assert ran.err.splitlines()[:-1] == [f"session {ran.session}", "model demo/echo", "> read hello.txt"]
    assert ran.err.splitlines()[-1].startswith("0 tokens in, ")


def test_a_session_is_continued_and_looked_after(here: Here) -> None:
    """A prompt from standard input, `--session`, and every verb of `sessions`; `context` shows what the model is told;
    `doctor` is content. SES-027, SES-028, CTX-202, EVT-044"""
    first = here(*ECHO, "-", given="from standard input")
    assert (first.code, first.out) == (0, "from standard input\n")
    id = first.session
    assert here("run", "--session", id, "and on").out == "and on\n"
    assert [row[0] for row in rows(here("sessions"))] == [id]
    assert here("sessions", "rename", id, "My title").code == 0
    shown = here("sessions", "show", id).out
    assert "My title" in shown
    assert "from standard input" in shown
    assert here("sessions", "waits", id).code == 0
    assert here("sessions", "compact", id).complaint
    told = here("context", id).out
    assert "Working directory" in told
    assert here("sessions", "archive", id).code == 0
    assert id not in here("sessions").out
    assert id in here("sessions", "--archived").out
    assert here("doctor").code == 0
    assert here("sessions", "delete", id, "--yes").code == 0
    assert here("sessions", "show", id).code == 1


def test_exit_codes_tell_failures_from_usage_errors(here: Here) -> None:
    """1 failed, 2 a mistake in the line, each with one line that says what."""
    unknown = here("run", "--session", "ses_unknown", "hi")
    assert unknown.code == 1
    assert "ses_unknown" in unknown.complaint
    assert here("run", "--nonsense").code == 2
    assert here("run").code == 2
    assert here("sessions", "show").code == 2


def test_every_list_can_be_json(here: Here, holdfast: Machine) -> None:
    """`--json` gives every list as JSON, and a run as one document a line; `models`, `agents`, `commands` and `skills`
    show what there is; `config check` and `config show` what the files came to. CAT-031, CAT-027"""
    holdfast.configure_user(
        agent={"poet": {"prompt": "In verse."}}, command={"greet": {"template": "Greet $ARGUMENTS"}}, surprise=1
    )
    lines = [json.loads(line) for line in here(*ECHO, "--json", "hi").out.splitlines()]
    assert len(lines) > 3
    assert all(isinstance(line, dict) for line in lines)
    (session,) = json.loads(here("sessions", "--json").out)
    assert session["id"].startswith("ses_")
    lists = {name: json.loads(here(name, "--json").out) for name in ("models", "agents", "commands", "skills")}
    assert all(isinstance(found, list) for found in lists.values())
    assert "poet" in {agent["id"] for agent in lists["agents"]}
    assert {"greet", "init", "review"} <= {command["name"] for command in lists["commands"]}
    assert "poet" in here("agents").out
    check = here("config", "check")
    assert "surprise" in check.out + check.err
    assert json.loads(here("config", "show").out)["agents"]["poet"]["system"] == "In verse."


def test_a_command_is_a_prompt_that_has_a_name(here: Here, holdfast: Machine) -> None:
    """`run --command`: the template with the arguments in it. CAT-075, CAT-079, CAT-081"""
    template = "First $1, then $2."
    holdfast.configure_user(command={"both": {"template": template}, "plain": {"template": "Just this"}})
    assert here(*ECHO, "--command", "both", "one", "two", "three").out == "First one, then two three.\n"
    assert here(*ECHO, "--command", "plain", "and", "more").out == "Just this\n\nand more\n"
    unknown = here(*ECHO, "--command", "absent", "x")
    assert unknown.code in (1, 2)
    assert "absent" in unknown.err
    assert len(json.loads(here("sessions", "--json").out)) == 2


def test_a_key_is_stored_for_its_owner_only(here: Here, holdfast: Machine) -> None:
    """`auth login` reads it from standard input; nothing shows it; `logout` forgets it., CAT-135, TOL-328"""
    key = "sk-canary-abc123"
    assert here("auth", "login", "anthropic", given=f"{key}\n").code == 0
    listed = here("auth", "list")
    assert "anthropic" in listed.out
    assert key not in listed.out + listed.err
    holding = [file for file in holdfast.home.rglob("*") if file.is_file() and key.encode() in file.read_bytes()]
    assert holding
    assert all(stat.S_IMODE(os.stat(file).st_mode) == 0o600 for file in holding)
    assert here("auth", "logout", "anthropic").code == 0
    assert not [file for file in holdfast.home.rglob("*") if file.is_file() and key.encode() in file.read_bytes()]


def test_presets_change_what_is_asked(here: Here, holdfast: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default agents work without asking; `config preset ask` asks before commands; without a terminal that is a no
    at once, and `--yes` is a yes. CAT-185, TOL-354, TOL-083"""
    made = holdfast.project / "made.txt"
    for change, more, expected in ((None, (), True), ("ask", (), False), (None, ("--yes",), True)):
        made.unlink(missing_ok=True)
        if change is not None:
            assert here("config", "preset", change).code == 0
        holdfast.script({"calls": [TOUCH]}, {"text": "Good."})
        monkeypatch.setenv("HOLDFAST_SCRIPT", holdfast.environment["HOLDFAST_SCRIPT"])
        ran = here(*SCRIPTED, *more)
        assert (ran.code, made.exists()) == (0 if expected else 4, expected)
        assert ("nobody" in ran.err) != expected


def test_a_person_is_asked_in_the_terminal(holdfast: Machine) -> None:
    """Once, then always for one of the patterns, then no with a reason that the model reads. TOL-092, TOL-094,
    TOL-096"""
    holdfast.configure(permission={"bash": "ask"})
    for typed, file, left in (("y\n", "a", True), ("a2\n", "b", True), ("", "c", True), ("n not there\n", "d", False)):
        command = f"touch {file}" if file != "d" else "mkdir d"
        holdfast.script({"calls": [{"tool": "bash", "input": {"command": command}}]}, {"text": "Good."})
        person = holdfast.at_terminal(*SCRIPTED)
        if typed:
            person.wait_for("your answer:")
            assert not (holdfast.project / file).exists()
            person.type(typed)
        ran = person.leave()
        assert (ran.code, (holdfast.project / file).exists()) == (0 if left else 4, left)
    _, messages = holdfast.look(ran.session)
    assert "not there" in str(tools_of(answers(messages)[0])[0].state)


AT_ITS_OWN_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("leaves", [False, True], ids=["Ctrl-C", "closed terminal"])
def test_a_turn_is_ended_from_the_terminal_and_recorded(holdfast: Machine, provider: Provider, leaves: bool) -> None:
    """Ctrl-C, exit code 130, or closing it; what was said is kept; the session goes on. API-124, SES-132"""
    holdfast.use_provider(provider.url)
    provider.behave = provider.stall
    master, slave = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", AT_ITS_OWN_TERMINAL, HOLDFAST, "run", "hello"],
        cwd=holdfast.project,
        env=holdfast.environment,
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=slave,
        text=True,
    )
    os.close(slave)
    try:
        assert process.stdout is not None
        assert process.stdout.read(6) == "so far"
        if leaves:
            os.close(master)
        else:
            os.write(master, b"\x03")
        process.stdout.read()
        code = process.wait(PATIENCE)
        assert leaves or code == 130  # whoever has no terminal any more has no use for a code
    finally:
        process.kill()
        process.communicate()
        if not leaves:
            os.close(master)
    (session,) = json.loads(holdfast("sessions", "--json").out)
    _, (user, half) = holdfast.look(session["id"])
    assert isinstance(user, UserMessage)
    assert isinstance(half, AssistantMessage)
    assert (text_of(half).strip(), half.finish) == ("so far", "error")
    provider.behave = Provider.answer
    assert holdfast("run", "--session", session["id"], "again").out == "fine\n"


def test_a_killed_run_lost_nothing_that_was_promised(holdfast: Machine, provider: Provider) -> None:
    """Kill the process: the prompt is there, and the next process goes on at once. SES-034"""
    holdfast.use_provider(provider.url)
    provider.behave = provider.stall
    process = holdfast.start("run", "--json", "hello")
    assert process.stdout is not None
    session = next(
        line["session"]["id"] for line in map(json.loads, iter(process.stdout.readline, "")) if "session" in line
    )
    assert provider.asked.acquire(timeout=PATIENCE)
    process.kill()
    process.wait()
    provider.behave = Provider.answer
    again = holdfast("run", "--session", session, "go on")
    assert (again.code, again.out) == (0, "fine\n")
    _, messages = holdfast.look(session)
    assert [message.text for message in messages if isinstance(message, UserMessage)] == ["hello", "go on"]
    assert holdfast.healthy()


def test_a_run_goes_through_a_server_on_the_same_data(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """`--standalone` does not; the password is in a file that only its owner reads, and is gone with the server.
    API-046"""
    server = serve()
    through, alone = holdfast(*ECHO, "one"), holdfast(*ECHO, "--standalone", "two")
    assert (through.out, alone.out) == ("one\n", "two\n")
    assert (server.url in through.err, server.url in alone.err) == (True, False)
    with connect_sync(server.url, environment=holdfast.environment) as client:
        assert len(client.sessions.list().items) == 2
    private = [path for path in (holdfast.home / "state").rglob("*") if path.is_file()]
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in private if path.name != "choices.json")
    server.process.send_signal(signal.SIGTERM)
    assert finish(server.process).code in (0, -signal.SIGTERM)


def test_the_same_host_for_scripts(tmp_path: Path) -> None:
    """`HoldfastSync`: groups, a tool of one's own, the newest message first. API-301, API-401, API-402"""
    (tmp_path / "project").mkdir()
    with HoldfastSync(tmp_path / "project", data=tmp_path / "data", environment={"HOME": str(tmp_path)}) as hf:

        @hf.tool
        def ticket(number: int) -> str:
            """Look up a ticket by its number."""
            return f"ticket {number}"

        session = hf.sessions.create(model=ModelRef(id="echo", provider_id="demo"))
        hf.sessions.prompt(session.id, prompt=PromptInput(text="What is ticket 7 about?"))
        hf.sessions.wait(session.id)
        (newest,) = hf.sessions.messages(session.id, limit=1).items
        assert isinstance(newest, AssistantMessage)
        assert text_of(newest) == "What is ticket 7 about?"
        assert ticket(7) == "ticket 7"


@pytest.mark.anyio
async def test_a_tool_of_ones_own_in_ones_own_program(world: World) -> None:
    """The example: the model is told about it by its docstring and its types, calls it, and reads its answer. API-401,
    API-403, TOL-014, TOL-278"""
    world.model.plays(calling("ticket", number=7), Turn(text="It is about seaweed."))
    async with world.host() as hf:

        @hf.tool
        async def ticket(number: int) -> str:
            """Look up a ticket by its number."""
            return f"Ticket {number}: seaweed"

        session = await hf.sessions.create()
        message = await answer(hf, session, "What is ticket 7 about?")
    assert text_of(message) == "It is about seaweed."
    (told,) = [tool for tool in world.model.last.body["tools"] if tool["function"]["name"] == "ticket"]
    assert told["function"]["description"] == "Look up a ticket by its number."
    assert told["function"]["parameters"]["properties"] == {"number": {"type": "integer"}}
    assert world.model.last.results == ["Ticket 7: seaweed"]


@pytest.mark.anyio
async def test_a_key_in_the_environment_is_used_and_said(world: World) -> None:
    """`OPENAI_API_KEY` makes OpenAI's models available; the key goes to that provider's address. CAT-091, CAT-131"""
    world.environment["OPENAI_API_KEY"] = "sk-from-environment"
    document: dict[str, Any] = {
        "provider": {"openai": {"options": {"baseURL": world.model.url}, "models": {"gpt-5.1": {}}}},
        "holdfast": {"titles": False},
    }
    (world.user_folder / "opencode.json").write_text(json.dumps(document))
    async with world.host() as hf:
        default = await hf.default_model()
        assert default is not None
        assert default.provider_id == "openai"
        integration = (await hf.integrations.get("openai")).data
        assert integration is not None
        assert len(integration.connections) == 1
        assert text_of(await answer(hf, await hf.sessions.create())) == "done"
    assert world.model.last.path == "/v1/responses"
    assert world.model.last.headers["authorization"] == "Bearer sk-from-environment"


@pytest.mark.anyio
async def test_holdfast_mounts_into_an_asgi_application(world: World) -> None:
    """`asgi()`: the same API below somebody's own, with a password if one is given. API-400, API-040"""
    mounted = asgi(world.host(), password="hunter2")
    async with (
        mounted.lifespan(),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app=mounted), base_url="http://localhost") as http,
    ):
        assert (await http.get("/api/health")).status_code == 401
        answered = await http.get("/api/health", auth=("opencode", "hunter2"))
        assert answered.json() == {"healthy": True}


@pytest.mark.anyio
async def test_the_configuration_in_the_readme_works_as_it_is(world: World) -> None:
    """Only its address is changed: in the user's file it counts, with the key from the environment; in a project's file
    it counts once the project is trusted. CAT-032, CAT-126, CAT-180"""
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    block = text.split("```json\n")[1].split("```")[0]
    document = block.replace("http://127.0.0.1:8000/v1", world.model.url)
    assert document != block
    world.environment["LOCAL_KEY"] = "sk-local"
    (world.user_folder / "opencode.json").write_text(document)
    async with world.host() as hf:
        assert text_of(await answer(hf, await hf.sessions.create())) == "done"
    assert (world.model.last.body["model"], world.model.last.headers["authorization"]) == ("qwen", "Bearer sk-local")
    (world.user_folder / "opencode.json").write_text('{"holdfast": {"titles": false}}')
    world.write("opencode.json", document)
    async with world.host() as hf:
        assert "local" not in {provider.id for provider in (await hf.providers.list()).data}
    async with world.host(trust=True) as hf:
        assert text_of(await answer(hf, await hf.sessions.create())) == "done"
    assert len(world.model.requests) == 2


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "provider_id"),
    [
        ("OPENAI_API_KEY", "openai"),
        ("ANTHROPIC_API_KEY", "anthropic"),
        ("GOOGLE_GENERATIVE_AI_API_KEY", "google"),
        ("OPENROUTER_API_KEY", "openrouter"),
        ("GROQ_API_KEY", "groq"),
    ],
)
async def test_each_named_key_brings_its_provider(world: World, name: str, provider_id: str) -> None:
    """The model that a Session would use is one of that provider. CAT-118, CAT-131"""
    (world.user_folder / "opencode.json").write_text("{}")
    async with world.host() as hf:
        without = await hf.default_model()
        assert without is None or without.provider_id == "demo"
    world.environment[name] = "sk-x"
    async with world.host() as hf:
        default = await hf.default_model()
        assert default is not None
        assert default.provider_id == provider_id
