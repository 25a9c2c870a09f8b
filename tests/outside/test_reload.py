"""Edited configuration counts from the next turn on, without a restart; a broken edit changes nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.cli.conftest import HOLDFAST, PATIENCE, Machine, Provider, Server, eventually, finish, frame

from holdfast import Holdfast
from holdfast.embedded.trust import ProjectTrust
from holdfast.schema.prompt import PromptInput

PLUGIN = """
import os
from pathlib import Path

HERE = Path(__file__)

class Plug:
    id = "{id}"

    async def setup(self, host):
        with open({log!r}, "a") as file:
            file.write("{id} {words}\\n")
        host.agent.transform(lambda draft: draft.update("{id}-agent", lambda agent: agent))
        host.request.transform(lambda draft: draft.system.append("plugin {id} says {words}"))

plugin = Plug()
"""


def plugin(id: str, words: str, log: Path) -> str:
    return PLUGIN.replace("{id}", id).replace("{words}", words).replace("{log!r}", repr(str(log)))


class Client:
    """One project over HTTP."""

    def __init__(self, server: Server, holdfast: Machine) -> None:
        self._server = server
        self._place = {"location[directory]": str(holdfast.project)}
        self._directory = str(holdfast.project)

    def call(self, method: str, path: str, **more: Any) -> httpx2.Response:
        return httpx2.request(method, f"{self._server.url}{path}", params=self._place, timeout=PATIENCE, **more)

    def get(self, path: str) -> Any:
        found = self.call("GET", path)
        assert found.status_code == 200, found.text
        return found.json()["data"]

    def session(self) -> str:
        made = self.call("POST", "/api/session", json={"location": {"directory": self._directory}})
        return str(made.json()["data"]["id"])

    def prompt(self, session: str, text: str) -> None:
        sent = self.call("POST", f"/api/session/{session}/prompt", json={"prompt": {"text": text}})
        assert sent.status_code == 200, sent.text

    def ask(self, session: str, text: str) -> None:
        """A prompt, up to its answer."""
        self.prompt(session, text)
        self.call("POST", f"/api/session/{session}/wait")

    def problems(self) -> list[str]:
        return [f"{one['path']}: {one['message']}" for one in self.get("/api/config/report")["problems"]]

    def agents(self) -> set[str]:
        return {agent["id"] for agent in self.get("/api/agent")}


@pytest.fixture
def client(holdfast: Machine, provider: Provider, serve: Callable[..., Server]) -> Client:
    holdfast.use_provider(provider.url)
    return Client(serve("--no-auth"), holdfast)


def system(provider: Provider, index: int = -1) -> str:
    return json.dumps(provider.bodies[index]["messages"][0]["content"])


def user_file(holdfast: Machine, path: str, text: str) -> Path:
    file = holdfast.home / "config" / "opencode" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def test_an_edit_counts_from_the_next_turn_on(holdfast: Machine, provider: Provider, client: Client) -> None:
    """CAT-192: of a document, an agent file and a command file; also one that appears, and one that goes."""
    session = client.session()
    client.ask(session, "one")
    holdfast.configure(agent={"build": {"prompt": "edited once"}})
    client.ask(session, "two")
    assert "edited once" in system(provider)
    file = holdfast.project / ".opencode" / "agent" / "build.md"
    file.parent.mkdir(parents=True)
    for words in ("AAAA", "BBBB"):  # of one length, and at once
        file.write_text(f"system {words}", encoding="utf-8")
        client.ask(session, words)
        assert words in system(provider)
    user_file(holdfast, "command/said.md", "Say it")
    file.unlink()
    client.ask(session, "three")
    assert "edited once" in system(provider)
    assert "said" in {command["name"] for command in client.get("/api/command")}


def test_an_edit_during_a_turn_counts_at_its_next_boundary(
    holdfast: Machine, provider: Provider, client: Client
) -> None:
    """CAT-192: between two turns of one drain."""

    def edit_then_call(handler: BaseHTTPRequestHandler) -> None:
        holdfast.configure(agent={"build": {"prompt": "in the middle"}})
        provider.behave = Provider.answer
        call = {"index": 0, "id": "c1", "function": {"name": "read", "arguments": '{"path": "hello.txt"}'}}
        Provider.head(handler)
        handler.wfile.write(frame({"tool_calls": [call]}) + frame({}, "tool_calls") + b"data: [DONE]\n\n")

    provider.behave = edit_then_call
    client.ask(client.session(), "go")
    assert ["in the middle" in system(provider, index) for index in (0, 1)] == [False, True]


@pytest.mark.parametrize(
    ("path", "text"),
    [("opencode.json", "{ broken"), (".opencode/agent/build.md", "---\nmode: [\n---\nx")],
)
def test_a_broken_edit_keeps_what_was_there(
    holdfast: Machine, provider: Provider, client: Client, path: str, text: str
) -> None:
    """CAT-193: it is reported by the API and the log, tried once, and gone when it is mended."""
    holdfast.configure(agent={"build": {"prompt": "still here"}, "one": {"description": "x"}})
    session = client.session()
    client.ask(session, "one")
    file = holdfast.project / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    client.ask(session, "two")
    assert "still here" in system(provider)
    assert "one" in client.agents()
    (problem,) = [problem for problem in client.problems() if str(file) in problem]
    assert "stays in force" in problem
    assert holdfast("config", "check").code == 1
    if path == "opencode.json":
        holdfast.configure(agent={"build": {"prompt": "mended"}})
    else:
        file.write_text("mended", encoding="utf-8")
    client.ask(session, "three")
    assert "mended" in system(provider)
    assert not [problem for problem in client.problems() if str(file) in problem]


def test_plugins_come_and_go_with_their_files(
    holdfast: Machine, provider: Provider, client: Client, tmp_path: Path
) -> None:
    """CAT-194: an added one counts, an edited one is set up anew, one that stayed the same is not, a broken edit keeps
    what worked, a removed one leaves nothing; and the order is that of a first start."""
    log = tmp_path / "setups"
    session = client.session()
    client.ask(session, "one")
    assert "plugin a says" not in system(provider)
    first = user_file(holdfast, "plugin/a.py", plugin("a", "AAA", log))
    second = user_file(holdfast, "plugin/b.py", plugin("b", "BBB", log))
    client.ask(session, "two")
    assert {"a-agent", "b-agent"} <= client.agents()
    first.write_text(plugin("a", "CCC", log), encoding="utf-8")
    client.ask(session, "three")
    told = "".join(part["text"] for part in _parts(provider.bodies[-1]))
    assert 0 < told.index("plugin a says CCC") < told.index("plugin b says BBB")
    assert "AAA" not in told
    assert log.read_text(encoding="utf-8").splitlines() == ["a AAA", "b BBB", "a CCC"]
    first.write_text("def (", encoding="utf-8")
    client.ask(session, "four")
    assert "a-agent" in client.agents()
    assert any("SyntaxError" in problem for problem in client.problems())
    first.unlink()
    client.ask(session, "five")
    assert "a-agent" not in client.agents()
    assert "plugin a" not in json.dumps(provider.bodies[-1])
    assert "plugin b says BBB" in json.dumps(provider.bodies[-1])
    assert not any("SyntaxError" in problem for problem in client.problems())
    assert second.exists()


def _parts(body: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for message in body["messages"]:
        content = message["content"]
        found += [{"text": content}] if isinstance(content, str) else content
    return found


def test_an_edit_that_asks_for_more_needs_trust_again(
    holdfast: Machine, provider: Provider, client: Client, tmp_path: Path
) -> None:
    """CAT-195: a project's plugin is executed as it was trusted, also one that a document names; trusting the edit
    takes effect without a restart."""
    log = tmp_path / "setups"
    named = holdfast.project / "tools" / "named.py"
    lying = holdfast.project / ".opencode" / "plugin" / "lying.py"
    for file, id in ((named, "named"), (lying, "lying")):
        file.parent.mkdir(parents=True)
        file.write_text(plugin(id, "first", log), encoding="utf-8")
    holdfast.configure(plugin=["./tools/named.py"])
    session = client.session()
    client.ask(session, "one")
    assert not log.exists()
    assert holdfast("trust", "--yes").code == 0
    client.ask(session, "two")
    assert sorted(log.read_text(encoding="utf-8").splitlines()) == ["lying first", "named first"]
    named.write_text(plugin("named", "second", log), encoding="utf-8")
    lying.write_text(plugin("lying", "second", log), encoding="utf-8")
    client.ask(session, "three")
    assert "second" not in log.read_text(encoding="utf-8")
    assert sum("not trusted" in problem for problem in client.problems()) == 2
    assert not {"named-agent", "lying-agent"} & client.agents()
    assert holdfast("trust", "--yes").code == 0
    client.ask(session, "four")
    assert sorted(log.read_text(encoding="utf-8").splitlines()[2:]) == ["lying second", "named second"]


def test_blocked_input_starts_when_a_reload_mends_the_configuration(
    holdfast: Machine, provider: Provider, client: Client
) -> None:
    """CAT-196: input that could not be started is started when a reload has taken over another configuration."""
    configured = (holdfast.home / "config" / "opencode" / "opencode.json").read_text(encoding="utf-8")
    holdfast.configure_user(model="nowhere/m")
    session = client.session()
    client.ask(session, "hello")
    assert provider.bodies == []
    user_file(holdfast, "opencode.json", configured)
    assert client.call("POST", "/api/config/reload").status_code == 200
    assert provider.asked.acquire(timeout=PATIENCE)
    assert "hello" in json.dumps(provider.bodies[0])


def test_sighup_has_a_server_read_everything_again(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """CAT-197: it goes on serving, and says what could not be taken over."""
    holdfast.configure(agent={"one": {"description": "first"}})
    server = serve("--no-auth")
    client = Client(server, holdfast)
    assert "one" in client.agents()
    holdfast.configure(agent={"two": {"description": "second"}})
    server.process.send_signal(signal.SIGHUP)
    eventually(lambda: "two" in client.agents())
    (holdfast.project / "opencode.json").write_text("{ broken", encoding="utf-8")
    server.process.send_signal(signal.SIGHUP)
    eventually(lambda: any("stays in force" in problem for problem in client.problems()))
    assert "two" in client.agents()
    server.process.send_signal(signal.SIGTERM)
    ran = finish(server.process)
    assert ran.code == 0
    assert ("configuration reloaded" in ran.err, "configuration not reloaded" in ran.err) == (True, True)


def test_the_end_of_its_terminal_ends_a_server(holdfast: Machine) -> None:
    """CAT-197, API-046: SIGHUP means a reload only while the terminal, if there was one, is still there."""
    master, slave = os.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", HOLDFAST, "serve", "--port", "0", "--no-auth"],
        cwd=holdfast.project,
        env=holdfast.environment,
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    os.close(slave)
    assert process.stdout is not None
    assert "listening on" in process.stdout.readline()
    os.close(master)
    assert finish(process).code == 0


@pytest.mark.anyio
async def test_an_embedded_host_reloads_every_open_project(tmp_path: Path) -> None:
    """CAT-197: every project that is open; what failed is returned, one line each."""
    project = tmp_path / "project"
    project.mkdir()
    environment = {"HOME": str(tmp_path), "HOLDFAST_DATA": str(tmp_path / "data")}
    async with Holdfast(project, environment=environment) as hf:
        await hf.agents.list()
        (project / "opencode.json").write_text('{"agent": {"mine": {}}}', encoding="utf-8")
        assert await hf.reload() == ()
        assert "mine" in {agent.id for agent in (await hf.agents.list()).data}
        (project / "opencode.json").write_text("[", encoding="utf-8")
        (line,) = await hf.reload()
        assert "opencode.json" in line
        assert "mine" in {agent.id for agent in (await hf.agents.list()).data}


@pytest.mark.anyio
async def test_an_edit_counts_in_an_embedded_host(tmp_path: Path) -> None:
    """CAT-192: no call is needed."""
    project = tmp_path / "project"
    project.mkdir()
    environment = {"HOME": str(tmp_path), "HOLDFAST_DATA": str(tmp_path / "data")}
    async with Holdfast(project, environment=environment, config={"model": "demo/echo"}) as hf:
        session = await hf.sessions.create()
        (project / "opencode.json").write_text('{"agent": {"mine": {}}}', encoding="utf-8")
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="hello"))
        await hf.sessions.wait(session.id)
        assert "mine" in {agent.id for agent in (await hf.agents.list()).data}


@pytest.mark.anyio
async def test_rules_of_the_host_have_a_say_in_what_needs_trust(tmp_path: Path) -> None:
    """CAT-199: what `report` shows of a folder is what is judged when it is loaded, whichever of the user's documents
    a rule stands in."""
    project = tmp_path / "project"
    agent = project / ".opencode" / "agent" / "mine.md"
    agent.parent.mkdir(parents=True)
    agent.write_text("---\npermission:\n  webfetch: allow\n---\nx", encoding="utf-8")
    environment = {"HOME": str(tmp_path), "HOLDFAST_DATA": str(tmp_path / "data")}
    config = {"permission": {"webfetch": "ask"}}
    async with Holdfast(project, environment=environment, config=config) as hf:
        (source,) = (await hf.config.report()).sources
        assert (source.trusted, source.wants) == (False, ("allows webfetch on * for the agent mine",))
        ProjectTrust(environment).grant([source])
        assert await hf.reload() == ()
        assert [source.trusted for source in (await hf.config.report()).sources] == [True]
