"""Projects with huge files, or with more files than a snapshot may have."""

from __future__ import annotations

import os
import subprocess
import time
from typing import Any

import pytest
from tests.cli.conftest import Machine

from holdfast import Holdfast, ModelRef, PromptInput
from holdfast.schema.session_message import UserMessage

pytestmark = pytest.mark.anyio

WRITE: list[dict[str, Any]] = [
    {"text": "Writing.", "calls": [{"tool": "write", "input": {"path": "hello.txt", "content": "changed\n"}}]},
    {"text": "Done."},
]


@pytest.fixture
def repository(holdfast: Machine) -> Machine:
    for command in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "-m", "first")):
        subprocess.run(("git", "-c", "user.name=n", "-c", "user.email=e@x", *command), cwd=holdfast.project, check=True)
    holdfast.script(*WRITE)
    return holdfast


async def test_a_sparse_file_of_20_gb_delays_no_turn_and_is_never_touched(repository: Machine) -> None:
    """SES-222, SES-223: the change of the turn can be reverted all the same."""
    image = repository.project / "image.raw"
    image.touch()
    os.truncate(image, 20 * 1024**3)
    repository.configure_user(permission={"edit": "allow"}, holdfast={"titles": False})
    async with Holdfast(
        repository.project, preset="allow", data=repository.data, environment=repository.environment
    ) as hf:
        session = await hf.sessions.create(model=ModelRef(id="scripted", provider_id="demo"))
        began = time.monotonic()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="please"))
        await hf.sessions.wait(session.id)
        assert time.monotonic() - began < 5, "a tree that is waited for and given up costs 10 s"
        hello = repository.project / "hello.txt"
        assert hello.read_text(encoding="utf-8") == "changed\n"
        messages = (await hf.sessions.messages(session.id, order="asc")).items
        prompt = next(message for message in messages if isinstance(message, UserMessage))
        staged = await hf.sessions.stage_revert(session.id, message_id=prompt.id, files=True)
        assert [file.path for file in staged.files or ()] == ["hello.txt"]
        assert hello.read_text(encoding="utf-8") == "hello world\n"
        assert image.stat().st_size == 20 * 1024**3


def test_a_project_with_too_many_files_works_without_snapshots_and_says_so(repository: Machine) -> None:
    """SES-224: while it runs, and afterwards in the doctor's report."""
    for number in range(10):
        (repository.project / f"{number}.txt").touch()
    repository.configure_user(permission={"edit": "allow"}, holdfast={"titles": False, "snapshot": {"files": 5}})
    ran = repository("run", "--model", "demo/scripted", "please")
    assert ran.code == 0
    assert "Done." in ran.out
    assert "this project has no snapshots" in ran.err
    assert "(holdfast.snapshot.files)" in ran.err
    assert "this project has no snapshots" in repository("doctor").err
