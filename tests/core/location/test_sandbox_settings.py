"""What configuration says about the sandbox, and what follows from a change of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.config.config import Config
from holdfast.core.config.document import Document, Origin
from holdfast.core.config.validate import Problem, validate
from holdfast.core.location.settings import sandbox_settings, user_only_diagnostics
from holdfast.core.process.sandbox.backends import Backends
from holdfast.core.process.sandbox.confinement import SandboxSettings, sandbox_choice
from holdfast.core.process.sandbox.sandbox import Sandbox, SandboxPaths, SandboxRefused
from holdfast.core.runtime.runtime import Paths, Runtime


def document(sandbox: Any, *, origin: Origin = "user") -> Document:
    return Document(Path("/x/opencode.json"), Path("/x"), origin, {"holdfast": {"sandbox": sandbox}})


def test_fields_come_from_the_last_document_of_the_user_that_sets_them() -> None:
    """TOL-375: and never from a project's."""
    config = Config(
        [
            document({"mode": "workspace", "network": "proxy", "hosts": ["a.test"], "writable": ["~/c"]}),
            document("read-only"),
            document({"mode": "off", "network": "on", "required": False}, origin="project"),
            document({"required": True}),
        ]
    )
    expected = SandboxSettings("read-only", "proxy", True, ("~/c",), ("a.test",))
    assert sandbox_settings(config) == expected
    assert sandbox_settings(config, "workspace") == expected.replace(mode="workspace")
    assert sandbox_settings(Config()) == SandboxSettings()
    assert [problem.message for problem in user_only_diagnostics(config)] == [
        "holdfast.sandbox: only the user's own configuration can set this; ignored"
    ]


@pytest.mark.parametrize("value", ["of", 7, True, [], {"mode": "of"}, {"network": "maybe"}, {"hosts": "a"}])
def test_a_value_that_cannot_be_read_confines_the_most(value: object) -> None:
    """TOL-375: and takes nothing else of the section with it."""
    problems: list[Problem] = []
    found = validate({"holdfast": {"sandbox": value, "titles": False}}, problems.append)
    closed = {"mode": "read-only", "network": "off", "required": True}
    assert found == {"holdfast": {"sandbox": closed, "titles": False}}
    assert [problem.fatal for problem in problems] == [True]


def test_unknown_sandbox_names_are_reported() -> None:
    """TOL-375."""
    problems: list[Problem] = []
    found = validate({"holdfast": {"sandbox": {"mode": "workspace", "hsots": []}}}, problems.append)
    assert found == {"holdfast": {"sandbox": {"mode": "workspace"}}}
    assert [(problem.trail[-1], problem.suggestion) for problem in problems] == [("hsots", "hosts")]


def test_the_sandbox_option_accepts_known_modes_only() -> None:
    """TOL-375."""
    assert [sandbox_choice(given) for given in (None, "", "off", "workspace")] == [None, None, "off", "workspace"]
    with pytest.raises(ValueError, match="no sandbox mode 'on'"):
        sandbox_choice("on")


def made(folder: Path, settings: SandboxSettings, **environment: str) -> Sandbox:
    return Sandbox(Backends(environment), lambda: settings, SandboxPaths(folder, None, folder, (), ()))


@pytest.mark.anyio
async def test_the_temporary_directory_stays_until_the_end(tmp_path: Path) -> None:
    """TOL-370: the same for all commands of a Location, gone when it closes."""
    sandbox = made(tmp_path, SandboxSettings("workspace", "proxy"))
    first, second = await sandbox.terms("build"), await sandbox.terms("plan")
    if first.confinement is None or second.confinement is None:
        pytest.skip(first.problem)
    assert first.confinement.temporary == second.confinement.temporary
    assert first.confinement.temporary.stat().st_mode & 0o777 == 0o700
    assert (first.confinement.mode, second.confinement.mode) == ("workspace", "read-only")
    await sandbox.close()
    assert not first.confinement.temporary.parent.exists()


@pytest.mark.anyio
async def test_a_sandbox_without_a_back_end_is_told_or_refuses_commands(tmp_path: Path) -> None:
    """TOL-376, TOL-377: said, or refused; plan does not become required by itself."""
    none = {"HOLDFAST_SANDBOX_BACKEND": "none"}
    assert (await made(tmp_path, SandboxSettings(), **none).terms("build")).problem == ""
    assert "there is no back end named none" in (await made(tmp_path, SandboxSettings(), **none).terms("plan")).problem
    with pytest.raises(SandboxRefused, match="there is no back end named none"):
        await made(tmp_path, SandboxSettings("workspace", required=True), **none).terms("build")
    report = await made(tmp_path, SandboxSettings("workspace"), **none).report()
    assert (report.backend, report.summary) == (None, "")


@pytest.mark.anyio
async def test_another_mode_is_another_tool_and_nothing_else_is(tmp_path: Path) -> None:
    """TOL-380: after a reload the tool is registered anew only if the mode or the network changed, in its old place."""
    file = tmp_path / "config" / "opencode" / "opencode.json"
    file.parent.mkdir(parents=True)
    (tmp_path / "project").mkdir()
    environment = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    async with (
        Runtime(paths=Paths(tmp_path / "data"), directory=tmp_path / "project", environment=environment) as runtime,
        runtime.locations.use(runtime.location) as services,
    ):
        shown = []
        for settings in ({}, {"sandbox": "workspace"}, {"sandbox": {"mode": "workspace", "required": True}}, {}):
            file.write_text(json.dumps({"holdfast": settings}), encoding="utf-8")
            await services.config.reload()
            shown.append(services.tools.materialize(()).definitions)
    off, on, same, off_again = shown
    assert [tool.name for tool in off] == [tool.name for tool in on]
    assert [one.name for one, two in zip(off, on, strict=True) if one is not two] == ["bash"]
    assert on is same
    assert off_again == off
