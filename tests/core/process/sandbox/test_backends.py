"""Choosing a back end, and running commands under one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from holdfast.core.process.process import Capture, Ended, ProcessError, Processes
from holdfast.core.process.sandbox.backend import (
    Backend,
    Bubblewrap,
    LandlockAlone,
    Namespaces,
    SandboxExec,
    arguments_of,
    launched,
)
from holdfast.core.process.sandbox.backends import Backends, Only, probe
from holdfast.core.process.sandbox.confinement import Confinement, Launch, SandboxUnavailable

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the back ends tested here are Linux's"),
]
ENVIRONMENT = {"PATH": os.environ["PATH"], "MINE": "x", "SSH_AUTH_SOCK": "/agent", "HTTPS_PROXY": "http://p"}


class Useless:
    """Confines nothing."""

    name = "useless"
    mounts = False

    def __init__(self) -> None:
        self.launched = 0

    def gaps(self) -> tuple[str, ...]:
        return ()

    def launch(
        self, command: Sequence[str], directory: Path, environment: Mapping[str, str], confinement: Confinement
    ) -> Launch:
        self.launched += 1
        return Launch(tuple(command), environment)

    def ended(self, launch: Launch) -> None:
        return None


@pytest.fixture(params=[Namespaces, LandlockAlone])
async def backend(request: pytest.FixtureRequest) -> Backend:
    try:
        made: Backend = request.param()
        await probe(made)
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    return made


async def run(backend: Backend, folder: Path, command: str, **options: object) -> tuple[Ended, str]:
    (folder / "t").mkdir(exist_ok=True)
    output = Capture(100_000)
    ended = await Processes(watched=False, sandbox=Only(backend)).run(
        ("sh", "-c", command),
        cwd=folder,
        environment=ENVIRONMENT,
        output=output,
        confinement=Confinement("read-only", "off", folder / "t"),
        **options,  # type: ignore[arg-type]
    )
    return ended, output.text()


async def test_the_first_that_really_confines_is_used() -> None:
    """TOL-377: once per process; one that only says so does not count."""
    useless = Useless()

    def absent() -> Backend:
        raise SandboxUnavailable("it is not installed")

    backends = Backends({}, {"absent": absent, "useless": lambda: useless})
    for _ in range(2):
        with pytest.raises(SandboxUnavailable, match="absent: it is not installed; useless: it does not confine"):
            await backends.choose()
    assert useless.launched == 1


async def test_an_unknown_back_end_is_refused_by_name() -> None:
    """TOL-377."""
    with pytest.raises(SandboxUnavailable, match="there is no back end named other here"):
        await Backends({"HOLDFAST_SANDBOX_BACKEND": "other"}, {"useless": Useless}).choose()


def test_a_program_of_the_project_is_not_taken_for_bwrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-377: the PATH does not count."""
    (tmp_path / "bwrap").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("holdfast.core.process.sandbox.backend.SYSTEM_FOLDERS", ("/no/such/folder",))
    with pytest.raises(SandboxUnavailable, match="bwrap is not installed"):
        Bubblewrap()


def test_sandbox_exec_is_for_macos() -> None:
    """TOL-374."""
    with pytest.raises(SandboxUnavailable, match="macOS"):
        SandboxExec()


async def test_without_a_sandbox_nothing_runs(tmp_path: Path) -> None:
    """TOL-377: a confinement is never dropped."""
    with pytest.raises(ProcessError) as failed:
        await Processes(watched=False).run(
            ("touch", "ran"),
            cwd=tmp_path,
            environment=ENVIRONMENT,
            output=Capture(10),
            confinement=Confinement("read-only", "off", tmp_path),
        )
    assert "no sandbox was given" in failed.value.cause
    assert not (tmp_path / "ran").exists()


async def test_exit_codes_signals_and_input_pass_through_the_launcher(backend: Backend, tmp_path: Path) -> None:
    """TOL-374: the launcher in between cannot be seen."""
    assert (await run(backend, tmp_path, "exit 7"))[0] == Ended(7, None, "exit")
    assert (await run(backend, tmp_path, "kill -TERM $$"))[0] == Ended(143, "SIGTERM", "exit")
    assert (await run(backend, tmp_path, "kill -KILL $$"))[0] == Ended(137, "SIGKILL", "exit")
    assert (await run(backend, tmp_path, "cat", given=b"given"))[1] == "given"
    assert (await run(backend, tmp_path, "yes | head -n1; echo done"))[1] == "y\ndone\n"
    ended, _ = await run(backend, tmp_path, "sleep 1000", timeout=0.2)
    assert (ended.signal, ended.cause) == ("SIGTERM", "timeout")


async def test_the_sandbox_environment_has_no_way_to_host_services(backend: Backend, tmp_path: Path) -> None:
    """TOL-371, TOL-374: what was given, without ways to services of the host, and a temporary directory."""
    _, out = await run(backend, tmp_path, "env")
    found = dict(line.split("=", 1) for line in out.splitlines())
    assert found["MINE"] == "x"
    assert not found.keys() & {"SSH_AUTH_SOCK", "HTTPS_PROXY", "LC_CTYPE"}
    assert found["TMPDIR"] == ("/tmp" if backend.mounts else str(tmp_path / "t"))
    assert found["PWD"] == str(tmp_path)


async def test_a_sandbox_that_cannot_be_set_up_runs_nothing(backend: Backend, tmp_path: Path) -> None:
    """TOL-374, TOL-377: code 125 and a reason."""
    folder = tmp_path / "gone"
    folder.mkdir()
    made = backend.launch(("sh", "-c", "echo ran"), folder, ENVIRONMENT, Confinement("read-only", "off", tmp_path))
    folder.rmdir()
    ended = await asyncio.to_thread(
        subprocess.run,
        made.command,
        env=made.environment,
        pass_fds=made.descriptors,
        capture_output=True,
        text=True,
    )
    for descriptor in made.descriptors:
        os.close(descriptor)
    assert (ended.returncode, ended.stdout) == (125, "")
    assert ended.stderr.startswith("holdfast: the sandbox could not be set up: ")


def test_bubblewrap_gets_no_path_that_a_running_command_may_replace(tmp_path: Path) -> None:
    """TOL-373: it follows symbolic links, so a new path is protected after the commands that could swap it."""
    project, other = tmp_path / "project", tmp_path / "other"
    for folder in (project, other, tmp_path / "t", project / "old"):
        folder.mkdir(exist_ok=True)
    backend = Bubblewrap("/bin/true")

    def launch(root: Path) -> Launch:
        writable = (root, *(path for path in (root / "git",) if path.is_dir()))
        protected = (root / "old", root / "new")
        confined = Confinement("workspace", "off", tmp_path / "t", writable, protected)
        return backend.launch(("sh",), root, ENVIRONMENT, confined)

    def protects(made: Launch, path: Path) -> bool:
        return f"--ro-bind {path} {path}" in " ".join(made.command)

    launches = [launch(project)]
    (project / "new").mkdir()
    (project / "git").mkdir()
    launches.append(launch(project))
    (other / "new").mkdir()
    launches.append(launch(other))
    assert [protects(made, project / "old") for made in launches] == [True, True, False]
    assert not protects(launches[1], project / "new")
    assert str(project / "git") not in launches[1].command
    assert protects(launches[2], other / "new")
    for made in launches:
        backend.ended(made)
    launches.append(launch(project))
    assert protects(launches[3], project / "new")
    assert str(project / "git") in launches[3].command
    for made in launches:
        os.close(made.descriptors[0])


async def test_a_link_that_appears_in_a_path_stops_the_launch(tmp_path: Path) -> None:
    """TOL-373, TOL-374: the launcher follows none, so a command cannot lead the next one's mounts elsewhere."""
    try:
        backend = Namespaces()
        await probe(backend)
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    root = Path(os.path.realpath(tmp_path)) / "project"
    (root / "git").mkdir(parents=True)
    victim = Path(os.path.realpath(tmp_path)) / "victim"
    victim.mkdir()
    confined = Confinement("workspace", "off", root.parent, (root, root / "git"))
    with launched(backend, ("touch", "git/escaped"), root, ENVIRONMENT, confined) as made:
        (root / "git").rmdir()
        (root / "git").symlink_to(victim)
        ended = await asyncio.to_thread(
            subprocess.run,
            made.command,
            env=made.environment,
            pass_fds=made.descriptors,
            capture_output=True,
            text=True,
        )
    assert (ended.returncode, os.listdir(victim)) == (125, [])
    assert "symbolic links" in ended.stderr


def test_bubblewrap_gets_these_arguments_for_a_confinement(tmp_path: Path) -> None:
    """TOL-374."""
    (tmp_path / "t").mkdir()
    (tmp_path / "secret").mkdir()
    confined = Confinement("workspace", "off", tmp_path / "t", writable=(tmp_path,), hidden=(tmp_path / "secret",))
    found = " ".join(arguments_of(confined))
    for expected in (
        "--unshare-user --unshare-ipc --unshare-pid --unshare-uts --unshare-net",
        "--die-with-parent --cap-drop ALL --ro-bind / / --dev /dev --proc /proc",
        f"--bind {tmp_path} {tmp_path}",
        f"--bind {tmp_path}/t /tmp",
        f"--tmpfs {tmp_path}/secret",
        f"--remount-ro {tmp_path}/secret",
    ):
        assert expected in found
    assert "--unshare-net" not in arguments_of(confined.replace(network="on"))
