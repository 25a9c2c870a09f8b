"""`holdfast run` with files, standard input, system text, a format, and prompts that want no answer."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import HOLDFAST, PATIENCE, Machine, Provider, Ran


@pytest.fixture
def machine(holdfast: Machine, provider: Provider) -> Machine:
    holdfast.use_provider(provider.url, settings={"titles": False})
    return holdfast


def run(machine: Machine, *arguments: str, given: bytes | None = None, stdin: Any = None) -> Ran:
    done = subprocess.run(
        [HOLDFAST, "run", *arguments],
        cwd=machine.project,
        env=machine.environment,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        **({"input": given} if stdin is None else {"stdin": stdin}),
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def last_input(provider: Provider) -> str:
    return str(provider.bodies[-1]["messages"][-1]["content"])


def test_files_are_attached(machine: Machine, provider: Provider) -> None:
    """API-489: several, relative to the directory of the caller, and a directory."""
    (machine.project / "more").mkdir()
    (machine.project / "more" / "inner.txt").write_text("inner", encoding="utf-8")
    ran = run(machine, "what?", "-f", "hello.txt", "--file", "more", given=b"")
    assert ran.code == 0, ran
    said = last_input(provider)
    assert "hello world" in said
    assert "inner.txt" in said
    assert "does not exist" in run(machine, "what?", "--file", "none.txt", given=b"").complaint


def test_piped_input_is_attached(machine: Machine, provider: Provider) -> None:
    """API-490, API-478: from a pipe and from a file, to a command too; an empty pipe adds nothing."""
    assert run(machine, "explain this", given=b"piped text").code == 0
    said = last_input(provider)
    assert said.startswith("explain this")
    assert '<attached-file name="stdin">\npiped text\n</attached-file>' in said
    assert run(machine, "/init", given=b"piped text").code == 0
    assert "piped text" in last_input(provider)
    with (machine.project / "hello.txt").open("rb") as file:
        assert run(machine, "explain this", stdin=file).code == 0
    assert "hello world" in last_input(provider)
    assert run(machine, "explain this", given=b"").code == 0
    assert last_input(provider) == "explain this"


def test_piped_input_without_a_prompt_is_the_prompt(machine: Machine, provider: Provider) -> None:
    """API-490."""
    assert run(machine, given=b"say hello").code == 0
    assert last_input(provider) == "say hello"
    assert "Missing argument" in run(machine, given=b"").complaint


def test_standard_input_as_a_file_is_asked_for(machine: Machine, provider: Provider) -> None:
    """API-489: `--file -`; not twice."""
    assert run(machine, "count", "--file", "-", given=b"1,2,3").code == 0
    assert "1,2,3" in last_input(provider)
    assert "once" in run(machine, "-", "--file", "-", given=b"x").complaint


def test_system_text_and_no_reply(machine: Machine, provider: Provider) -> None:
    """API-489, API-491, SES-294, SES-297: the note is stored without a request; the next prompt sees it."""
    noted = run(machine, "the key is 7", "--no-reply", "--json", given=b"")
    assert noted.code == 0, noted
    result = json.loads(noted.out.splitlines()[-1])["result"]
    assert result["outcome"] == "no-reply"
    assert provider.bodies == []

    ran = run(machine, "which key?", "--session", result["sessionID"], "--system", "Be brief.", given=b"")
    assert ran.code == 0, ran
    said = json.dumps(provider.bodies[-1]["messages"])
    assert "the key is 7" in said
    assert last_input(provider).endswith("<system-update>\nBe brief.\n</system-update>")


def test_the_result_is_the_last_line_of_json(machine: Machine) -> None:
    """API-491."""
    ran = run(machine, "hello", "--json", given=b"")
    last = json.loads(ran.out.splitlines()[-1])
    result = last["result"]
    assert last["type"] == "result"
    assert (result["outcome"], bool(result["text"])) == ("completed", True)
    assert result["sessionID"] == json.loads(ran.out.splitlines()[0])["session"]["id"]
    assert set(result["tokens"]) == {"input", "output", "reasoning", "cache"}
    assert isinstance(result["cost"], int | float)


def test_a_failed_answer_is_told_in_the_result(machine: Machine, provider: Provider) -> None:
    """API-491: the exit code is 1."""

    def refuse(handler: Any) -> None:
        handler.send_error(400, "no")

    provider.behave = refuse
    ran = run(machine, "hello", "--json", given=b"")
    result = json.loads(ran.out.splitlines()[-1])["result"]
    assert (ran.code, result["outcome"]) == (1, "failed")
    assert result["error"]


@pytest.mark.parametrize("content", ["{", "[1]", "\udcff"])
def test_a_file_that_is_no_schema_is_refused(machine: Machine, tmp_path: Path, content: str) -> None:
    """API-489."""
    path = tmp_path / "schema.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    assert "--format" in run(machine, "hello", "--format", str(path), given=b"").complaint


def test_the_content_of_files_is_sent_to_a_server_elsewhere(holdfast: Machine, serve: Any, tmp_path: Path) -> None:
    """API-489: with `--attach` nothing is read by the server, and a directory is refused."""
    server = serve("--no-auth")
    away = tmp_path / "away.txt"
    away.write_text("from far away", encoding="utf-8")
    ran = run(holdfast, "hello", "-m", "demo/echo", "--attach", server.url, "--file", str(away), "--json", given=b"")
    assert ran.code == 0, ran
    files = json.loads(ran.out.splitlines()[1])["admission"]["prompt"]["files"]
    assert [(file["name"], file["uri"].partition(";")[0]) for file in files] == [(str(away), "data:text/plain")]
    assert "directory" in run(holdfast, "x", "--attach", server.url, "--file", str(tmp_path), given=b"").complaint
