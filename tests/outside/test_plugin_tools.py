"""Tools of plugins ask before they run, and what is wrong with a plugin is told wherever people look."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.cli.conftest import PATIENCE, Machine, NearMachine, Server, eventually, finish
from tests.plain_http import NO_TLS

MACHINE = NearMachine
PLUGIN = '''
from pathlib import Path
from holdfast.core.tool.typed import tool

@tool
def plug(what: str) -> str:
    """Does what it is told."""
    Path({marker!r}).write_text(what)
    return "done"

class Acme:
    id = "acme"

    def setup(self, host):
        host.tool.register({"plug": plug})

plugin = Acme()
'''


@pytest.fixture
def marker(holdfast: Machine) -> Path:
    return holdfast.home / "ran"


@pytest.fixture
def plugged(holdfast: Machine, marker: Path) -> Machine:
    """A plugin of the user, and a model that calls its tool."""
    place(holdfast.home / "config" / "opencode" / "plugin" / "acme.py", PLUGIN.replace("{marker!r}", repr(str(marker))))
    calls_the_tool(holdfast)
    return holdfast


def place(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def calls_the_tool(holdfast: Machine) -> None:
    holdfast.script({"calls": [{"tool": "plug", "input": {"what": "it"}}]}, {"text": "done"})


def run(holdfast: Machine, *arguments: str) -> str:
    """The call may have been denied."""
    ran = holdfast("run", "--json", "--model", "demo/scripted", *arguments, "go")
    assert ran.code in (0, 4), ran
    return ran.out


@pytest.mark.parametrize(
    ("permission", "executed"),
    [
        ({}, False),
        ({"plug": "ask"}, False),
        ({"plug": "deny"}, False),
        ({"plug": "allow"}, True),
        ({"*": "allow"}, True),
        ({"*": "ask", "plug": "allow"}, True),
        ({"plug": "allow", "*": "deny"}, False),
        ({"bash": "allow"}, False),
    ],
)
def test_a_plugin_s_tool_is_asked_for_unless_the_user_s_rules_say_otherwise(
    plugged: Machine, marker: Path, permission: dict[str, str], executed: bool
) -> None:
    """TOL-279, TOL-410: nobody is there to be asked, so that what is asked for is refused."""
    if permission:
        plugged.configure_user(permission=permission)
    out = run(plugged)
    assert marker.exists() == executed, out
    assert ("permission.v2.asked" in out) == (permission in ({}, {"plug": "ask"}, {"bash": "allow"}))


def test_yes_answers_for_a_plugin_s_tool(plugged: Machine, marker: Path) -> None:
    """TOL-410."""
    run(plugged, "--yes")
    assert marker.read_text(encoding="utf-8") == "it"


def test_agents_that_are_denied_everything_stay_so(plugged: Machine, marker: Path) -> None:
    """TOL-410: asking by default never loosens what an agent may do; it does not see the tool."""
    run(plugged, "--yes", "--agent", "explore")
    assert not marker.exists()


def test_a_terminal_shows_which_plugin_wants_what(plugged: Machine, marker: Path) -> None:
    """TOL-411: the plugin, the tool and what it is called with; an answer for good is kept."""
    person = plugged.at_terminal("run", "--model", "demo/scripted", "go")
    person.wait_for("permission to use the tool plug of the plugin acme")
    person.wait_for('{"what":"it"}')
    person.wait_for("your answer:")
    person.type("a\n")
    assert person.leave().code == 0
    assert marker.exists()
    marker.unlink()
    run(plugged)
    assert marker.exists()


def test_the_request_names_plugin_and_tool(plugged: Machine, marker: Path, serve: Callable[..., Server]) -> None:
    """TOL-411: over HTTP, and the call goes on when it is approved there."""
    server = serve("--no-auth")

    def call(method: str, path: str, **more: Any) -> Any:
        found = httpx2.request(method, f"{server.url}/api/session{path}", timeout=PATIENCE, verify=NO_TLS, **more)
        assert found.status_code in (200, 204), found.text
        return found.json()["data"] if found.content else None

    model = {"id": "scripted", "providerID": "demo"}
    id = call("POST", "", json={"location": {"directory": str(plugged.project)}, "model": model})["id"]
    call("POST", f"/{id}/prompt", json={"prompt": {"text": "go"}})
    eventually(lambda: bool(call("GET", f"/{id}/permission")))
    (request,) = call("GET", f"/{id}/permission")
    assert (request["action"], request["resources"], request["save"]) == ("plug", ["*"], ["*"])
    assert request["metadata"] == {"plugin": "acme", "tool": "plug", "input": '{"what":"it"}'}
    assert not marker.exists()
    call("POST", f"/{id}/permission/{request['id']}/reply", json={"reply": "once"})
    call("POST", f"/{id}/wait")
    assert marker.exists()


@pytest.mark.parametrize("where", ["document", "folder"])
def test_a_project_s_plugin_works_once_it_is_trusted(holdfast: Machine, marker: Path, where: str) -> None:
    """CAT-195, CAT-184, TOL-410: it loads, and its tool is asked for like any other plugin's. That a project allows it
    counts only after it was trusted."""
    text = PLUGIN.replace("{marker!r}", repr(str(marker)))
    if where == "document":
        place(holdfast.project / "acme.py", text)
        holdfast.configure(plugin=["./acme.py"])
    else:
        place(holdfast.project / ".opencode" / "plugin" / "acme.py", text)
    calls_the_tool(holdfast)
    run(holdfast, "--yes")
    assert not marker.exists()
    assert "runs the plugin" in holdfast("trust", "--yes").out
    run(holdfast)
    assert not marker.exists()
    run(holdfast, "--yes")
    assert marker.exists()
    marker.unlink()
    named = ["./acme.py"] if where == "document" else []
    holdfast.configure(plugin=named, permission={"plug": "allow"})
    run(holdfast)
    assert not marker.exists()
    assert "allows plug on *" in holdfast("trust", "--yes").out
    run(holdfast)
    assert marker.exists()


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        ("opencode-wakatime@1.2.3", "packages of npm cannot be loaded"),
        ("./gone.py", "no such file"),
        ("./broken.py", "it could not be imported: ValueError: on purpose"),
        ("./none.py", "it exposes no `plugin`"),
        ("acme@2.0", "version 1.0 is installed"),
    ],
)
def test_problems_of_a_plugin_are_reported(
    holdfast: Machine,
    serve: Callable[..., Server],
    monkeypatch: pytest.MonkeyPatch,
    named: str,
    problem: str,
) -> None:
    """CAT-198: by `config check` and the report, with the file that names it, and in one line at the start of `run`
    and `serve`."""
    folder = holdfast.home / "config" / "opencode"
    place(folder / "broken.py", "raise ValueError('on purpose')")
    place(folder / "none.py", "x = 1")
    site = holdfast.home / "site"
    place(site / "acme-1.0.dist-info" / "METADATA", "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    place(site / "acme-1.0.dist-info" / "entry_points.txt", "[opencode.plugins]\nacme = acme:plugin\n")
    monkeypatch.syspath_prepend(site)
    holdfast.environment["PYTHONPATH"] = str(site)
    holdfast.configure_user(plugin=[named])
    checked = holdfast("config", "check")
    assert checked.code == 0
    (line,) = [line for line in checked.out.splitlines() if problem in line]
    assert str(folder / "opencode.json") in line
    started = holdfast("run", "--model", "demo/echo", "hello")
    assert started.code == 0
    assert sum(line.startswith("configuration: 1 problem") and problem in line for line in started.err.split("\n")) == 1
    server = serve("--no-auth")
    place_of = {"location[directory]": str(holdfast.project)}
    report = httpx2.get(f"{server.url}/api/config/report", params=place_of, timeout=PATIENCE).json()["data"]
    assert problem in json.dumps(report["problems"])
    assert server.process.stderr is not None
    lines = [server.process.stderr.readline() for _ in range(2)]
    assert any(problem in line for line in lines), lines
    server.process.terminate()
    finish(server.process)


FUNCTIONS = '''
from pathlib import Path

class Acme:
    id = "acme"

    def setup(self, host):
        host.tool.register({{"plug": plug}}{approval})

def plug(what: str) -> str:
    """Does what it is told."""
    Path({marker!r}).write_text(what)
    return "done"

plugin = Acme()
'''


@pytest.mark.parametrize(("approval", "runs"), [("", True), (", approval=True", False)])
def test_a_plugin_registers_plain_functions(holdfast: Machine, marker: Path, approval: str, runs: bool) -> None:
    """TOL-524, TOL-522: with the checks of any tool of a plugin; its own floor stays where a rule allows it."""
    plugins = holdfast.home / "config" / "opencode" / "plugin"
    place(plugins / "acme.py", FUNCTIONS.format(approval=approval, marker=str(marker)))
    calls_the_tool(holdfast)
    assert "permission.v2.asked" in run(holdfast)
    assert not marker.exists()
    holdfast.configure_user(permission={"plug": "allow"})
    calls_the_tool(holdfast)
    run(holdfast)
    assert marker.exists() == runs
