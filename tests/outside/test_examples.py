"""Every file in `examples/` runs offline and does what it says."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from tests.cli.conftest import PATIENCE, Machine, Ran, eventually, free_port

from holdfast import connect_sync

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(machine: Machine, *arguments: str | Path, given: str | None = None) -> Ran:
    done = subprocess.run(
        [sys.executable, *arguments],
        input=given,
        cwd=machine.project,
        env=machine.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def test_one_prompt_prints_the_answer(holdfast: Machine) -> None:
    ran = run(holdfast, EXAMPLES / "one_prompt.py", "What does hello.txt say?")
    assert ran == Ran(0, "Reading hello.txt.\nThe file begins: hello world\n", "")


def test_the_model_calls_a_tool_of_the_program(holdfast: Machine) -> None:
    ran = run(holdfast, EXAMPLES / "own_tool.py")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[1:] == ["Ticket 7 says that the export button is hidden on small screens."]
    assert "looking up ticket 7" in ran.out


def test_a_batch_asks_every_repository_and_reports_failures(holdfast: Machine) -> None:
    repositories = [holdfast.home / name for name in ("one", "two")]
    for repository in repositories:
        repository.mkdir()
        (repository / "README.md").write_text(f"# The {repository.name} project\n", encoding="utf-8")
    ran = run(holdfast, EXAMPLES / "batch.py", *repositories, holdfast.home / "missing")
    assert ran.code == 1
    assert [line for line in ran.out.splitlines() if ": " in line] == [
        "one: The file begins: # The one project",
        "two: The file begins: # The two project",
        f"missing: failed: {holdfast.home / 'missing'} is not an existing directory",
    ]


def test_the_notebook_runs_cell_by_cell(holdfast: Machine) -> None:
    notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code")
    ran = run(holdfast, "-", given="\n".join(cells))
    assert (ran.code, ran.err) == (0, "")
    assert "session.next.tool.success" in ran.out


@contextmanager
def fastapi_example(machine: Machine) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(EXAMPLES), "--port", str(port), "fastapi_mount:app"]
    with subprocess.Popen(command, cwd=machine.project, env=machine.environment, stderr=subprocess.PIPE) as process:
        try:
            eventually(lambda: process.poll() is not None or accepts(port))
            assert process.poll() is None, process.communicate()
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE)


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def test_the_fastapi_application_answers_and_serves_the_api(holdfast: Machine) -> None:
    with fastapi_example(holdfast) as url:
        answered = httpx2.get(f"{url}/ask", params={"question": "What does hello.txt say?"}, timeout=PATIENCE)
        assert answered.status_code == 200, answered.text
        assert answered.json()["answer"] == "The file begins: hello world"
        with connect_sync(f"{url}/agent", environment=holdfast.environment) as client:
            (session,) = client.sessions.list().items
        assert session.id == answered.json()["session"]


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")))
def test_the_list_of_examples_names_each(name: str) -> None:
    assert f"({name})" in (EXAMPLES / "README.md").read_text(encoding="utf-8")
