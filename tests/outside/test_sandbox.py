"""The sandbox of commands, as users meet it: `holdfast run --sandbox`, the user's configuration, the embedded host."""

from __future__ import annotations

import asyncio
import base64
import ctypes
import fcntl
import hashlib
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, aclosing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Machine, Provider, Ran

from holdfast import Holdfast
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import PromptInput
from holdfast.schema.session_message import AssistantMessage, SessionMessage, TextContent, ToolError, ToolPart
from holdfast.schema.typed_event import Event

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the back ends tested here are Linux's")
ATTEMPTS = Path(__file__).with_name("sandbox_attempts.py")
BACKENDS = ["namespaces", "landlock", pytest.param("bubblewrap", marks=pytest.mark.acceptance)]
WITH_MOUNTS = ["namespaces", pytest.param("bubblewrap", marks=pytest.mark.acceptance)]
KNOWN_GAPS = {"landlock": {"change the mode of a file outside"}}
"""What docs/how-to/sandbox.md says a back end does not prevent."""


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Not in /tmp, which every sandbox hides: what is tested is the protection of the home directory itself. It is a
    repository that ignores its files, as the one around the virtual environment does, whose snapshots take seconds."""
    home = Path(tempfile.mkdtemp(prefix="sandbox-test-", dir=sys.prefix)).resolve()
    if home.is_relative_to("/tmp"):
        home.rmdir()
        pytest.skip("the virtual environment is in /tmp, which every sandbox hides")
    subprocess.run(("git", "init", "-q", home), check=True)
    (home / ".git" / "info" / "exclude").write_text("*\n", encoding="utf-8")
    machine = Machine(home)
    yield machine
    machine.clean_up()
    shutil.rmtree(home)


@pytest.fixture(scope="session")
def reasons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """Why a back end is not to be had here, as `holdfast doctor` says it; None if it is."""
    machine, found = Machine(tmp_path_factory.mktemp("doctor")), {}
    for backend in ("bubblewrap", "namespaces", "landlock"):
        line = machine("doctor", HOLDFAST_SANDBOX_BACKEND=backend).out.splitlines()[3]
        found[backend] = None if line == f"this machine can confine commands ({backend})" else line
    return found


@pytest.fixture
def use(machine: Machine, reasons: dict[str, str | None]) -> Callable[[str], None]:
    """Use this back end, or skip the test."""

    def choose(backend: str) -> None:
        if (reason := reasons[backend]) is not None:
            pytest.skip(reason)
        machine.environment["HOLDFAST_SANDBOX_BACKEND"] = backend

    return choose


def command(machine: Machine, text: str, *options: str, **fields: Any) -> Ran:
    """By the command line."""
    machine.script({"calls": [{"tool": "bash", "input": {"command": text, **fields}}]}, {"text": "done"})
    return machine("run", "--model", "demo/scripted", *options, "go")


def run(machine: Machine, *calls: str | dict[str, Any], answer: str | None = None, **options: Any) -> list[str]:
    """By the embedded host: what the model read of its calls. `answer` is the reply to the permission asked for."""
    inputs = [{"command": call} if isinstance(call, str) else call for call in calls]
    machine.script(*({"calls": [{"tool": "bash", "input": given}]} for given in inputs), {"text": "done"})
    return asyncio.run(_run(machine, answer, options.pop("agent", None), options))


async def _run(machine: Machine, answer: str | None, agent: str | None, options: dict[str, Any]) -> list[str]:
    async with Holdfast(
        machine.project, preset="allow", data=machine.data, environment=machine.environment, **options
    ) as hf:
        session = await hf.sessions.create(model=ModelRef(id="scripted", provider_id="demo"), agent=agent)
        async with aclosing(aiter(hf.events.subscribe())) as live:
            await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
            if answer is not None:
                await _reply(hf, session.id, live, answer)
            await hf.sessions.wait(session.id)
        return read(await hf.sessions.context(session.id))


async def _reply(hf: Holdfast, session_id: str, live: AsyncIterator[Event], answer: Any) -> None:
    async for event in live:
        if event.type == "permission.v2.asked":
            (request,) = await hf.permissions.list(session_id)
            assert (request.action, request.save) == ("sandbox_escape", None)
            await hf.permissions.reply(session_id, request_id=request.id, reply=answer)
            return


def read(messages: Sequence[SessionMessage]) -> list[str]:
    """What the model read of its calls."""
    parts = [part for message in messages if isinstance(message, AssistantMessage) for part in message.content]
    found = []
    for state in (part.state for part in parts if isinstance(part, ToolPart)):
        pieces = [piece.text for piece in getattr(state, "content", ()) if isinstance(piece, TextContent)]
        found.append("\n".join(pieces) or state.error.message if isinstance(state, ToolError) else "\n".join(pieces))
    return found


# -- what is refused -------------------------------------------------------------------------------------------------


@contextmanager
def decoys(machine: Machine) -> Iterator[dict[str, Any]]:
    """Things of the host that a confined command must not reach."""
    home, project = machine.home, machine.project
    for name, text in {
        ".ssh/id_rsa": "secret",
        ".netrc": "secret",
        ".bashrc": "",
        "outside.txt": "untouched",
        "data/holdfast/credentials.json": "secret",
        "config/opencode/opencode.json": '{"permission": {"*": "allow"}}',
        "decoy/file": "",
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, encoding="utf-8")
    (project / "src").mkdir()
    shutil.copy(ATTEMPTS, project / "src" / "attempts.py")
    (project / "opencode.json").write_text("{}", encoding="utf-8")
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run((*git, "init", "-q"), cwd=project, check=True)
    subprocess.run((*git, "commit", "-q", "--allow-empty", "-m", "first"), cwd=project, check=True)
    with ExitStack() as stack:
        temporary = stack.enter_context(tempfile.NamedTemporaryFile("w", prefix="holdfast-decoy-", dir="/tmp"))
        shm = stack.enter_context(tempfile.NamedTemporaryFile("w", prefix="holdfast-decoy-", dir="/dev/shm"))
        for file in (temporary, shm):
            file.write("secret")
            file.flush()
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        tcp6 = stack.enter_context(socket.create_server(("::1", 0), family=socket.AF_INET6))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0holdfast-test-{os.getpid()}")
        abstract.listen()
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-sock-", dir="/tmp"))
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(f"{folder}/docker.sock")
        unix.listen()
        sleeper = subprocess.Popen(["sleep", "1000"], cwd=home / "decoy", env={"DECOY": "secret", **os.environ})
        stack.callback(sleeper.wait)
        stack.callback(sleeper.kill)
        libc, key = ctypes.CDLL(None), os.getpid()
        segment = libc.shmget(key, 4096, 0o1600)
        stack.callback(libc.shmctl, segment, 0, None)
        yield {
            "home": str(home),
            "outside": str(home / "outside.txt"),
            "temporary": temporary.name,
            "shm": shm.name,
            "shm_key": key,
            "tcp": tcp.getsockname()[1],
            "tcp6": tcp6.getsockname()[1],
            "udp": udp.getsockname()[1],
            "abstract": f"holdfast-test-{os.getpid()}",
            "unix": f"{folder}/docker.sock",
            "decoy": sleeper.pid,
        }
        assert sleeper.poll() is None
        udp.setblocking(False)
        with pytest.raises(BlockingIOError):
            udp.recv(16)


def fingerprint(folder: Path) -> dict[str, str]:
    """Everything but what commands may write."""
    return {
        str(path.relative_to(folder)): f"{path.lstat().st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not path.is_relative_to(folder / "project" / "src")
        and "holdfast" not in path.parts
        and path.name != "script.json"
        and ".disabled-" not in path.name  # what commands made is set aside under another name
    }


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_attempt_to_leave_the_sandbox_succeeds(
    machine: Machine, use: Callable[[str], None], backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """TOL-370, TOL-371, TOL-372, TOL-374: writing outside, secrets, other processes, the network, the kernel, and
    files that others execute."""
    use(backend)
    with decoys(machine) as given:
        (machine.project / "src" / "given.json").write_text(json.dumps(given), encoding="utf-8")
        before = fingerprint(machine.home)
        line = f"{sys.executable} src/attempts.py src/given.json > src/results.json"
        ran = command(machine, line, "--sandbox", "workspace")
        assert ran.code == 0, ran
        assert f"sandbox workspace ({backend}, network off)" in ran.err
        found: dict[str, tuple[str, str]] = json.loads((machine.project / "src" / "results.json").read_text())
    with capsys.disabled():
        print(f"\n{backend}: {len(found)} attempts")
        for name, (outcome, reason) in found.items():
            print(f"  {outcome:8} {name:48} {reason}")
    assert len(found) >= 80
    escaped = {name for name, (outcome, _) in found.items() if outcome == "escaped"}
    assert escaped == KNOWN_GAPS.get(backend, set())
    (machine.home / "outside.txt").chmod(int(before["outside.txt"].split()[0], 8) & 0o777)
    assert fingerprint(machine.home) == before
    assert not (machine.project / ".git" / "commondir").exists()
    assert sorted(path.name for path in machine.project.iterdir()) == [".git", "hello.txt", "opencode.json", "src"]
    with (machine.project / "src" / "alive").open() as alive:
        fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if the process still lives


@pytest.mark.parametrize("backend", BACKENDS)
def test_read_only_commands_write_nowhere_but_in_their_temporary_directory(
    machine: Machine, use: Callable[[str], None], backend: str
) -> None:
    """TOL-370: read-only."""
    use(backend)
    line = 'echo x > new; echo x >> hello.txt; echo fine > "$TMPDIR/a" && cat "$TMPDIR/a" hello.txt'
    (said,) = run(machine, line, sandbox="read-only")
    assert "fine\nhello world" in said
    assert sorted(path.name for path in machine.project.iterdir()) == ["hello.txt"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", ["read-only", "workspace"])
def test_a_project_in_a_temporary_directory_can_be_read(
    reasons: dict[str, str | None], backend: str, mode: str
) -> None:
    """TOL-371: the rest of that directory is hidden; secrets there are, too. The whole repository is read."""
    if (reason := reasons[backend]) is not None:
        pytest.skip(reason)
    home = Path(tempfile.mkdtemp(prefix="sandbox-test-", dir="/tmp")).resolve()
    machine = Machine(home)
    machine.environment["HOLDFAST_SANDBOX_BACKEND"] = backend
    try:
        subprocess.run(("git", "init", "-q", machine.project), check=True)
        (home / ".ssh").mkdir()
        for name in ("beside.txt", ".ssh/id_rsa"):
            (home / name).write_text("secret", encoding="utf-8")
        machine.project = machine.project / "part"
        machine.project.mkdir()
        (machine.project / "own.txt").write_text("of the part\n", encoding="utf-8")
        line = "cat own.txt ../hello.txt ../../beside.txt ../../.ssh/id_rsa; echo x > ../new"
        (said,) = run(machine, line, sandbox=mode)
        assert not (machine.project.parent / "new").exists()
    finally:
        machine.clean_up()
        shutil.rmtree(home)
    assert "of the part\nhello world\n" in said, said
    assert "secret" not in said


def test_commands_of_plan_are_read_only_even_without_a_sandbox(machine: Machine, use: Callable[[str], None]) -> None:
    """TOL-376: whatever the setting; the network is as it was."""
    use("namespaces")
    machine.configure_user(permission={"bash": "allow"})
    line = "echo x > new || cat hello.txt; cat $HOME/.ssh/id_rsa; exit 3"
    (machine.home / ".ssh").mkdir()
    (machine.home / ".ssh" / "id_rsa").write_text("secret", encoding="utf-8")
    (said,) = run(machine, line, agent="plan")
    assert "hello world" in said
    assert "secret" not in said
    assert "It ran in a sandbox: read-only (namespaces, network on)." in said
    assert "escape" not in said
    assert not (machine.project / "new").exists()


def test_plan_cannot_leave_its_sandbox(machine: Machine, use: Callable[[str], None]) -> None:
    """TOL-376, TOL-379."""
    use("namespaces")
    machine.configure_user(permission={"bash": "allow"})
    (said,) = run(machine, {"command": "echo x > new", "escape": True}, agent="plan", sandbox="workspace")
    assert "sandbox_escape" in said
    assert not (machine.project / "new").exists()


# -- what still works ------------------------------------------------------------------------------------------------

WORK = """
set -e
git -c user.name=t -c user.email=t@example.org init -q fresh
cd fresh; echo a > a; git add a; git -c user.name=t -c user.email=t@example.org commit -qm one; cd ..
echo change >> hello.txt
git add -A
git -c user.name=t -c user.email=t@example.org commit -qm two
git branch topic
make -s
./program
{python} -m venv --without-pip environment
environment/bin/python -c 'import sys; print(sys.prefix)'
{python} -m pytest -q -p no:cacheprovider test_small.py
{python} -c 'import multiprocessing as m; print(m.Lock(), m.Pool(1).map(abs, [-7]))'
mktemp
touch /tmp/hardcoded
"""


@pytest.mark.parametrize("backend", WITH_MOUNTS)
def test_ordinary_development_work_succeeds_inside_the_sandbox(
    machine: Machine, use: Callable[[str], None], backend: str
) -> None:
    """TOL-373: git, a compiler, a virtual environment, tests, processes, temporary files."""
    use(backend)
    project = machine.project
    (project / "Makefile").write_text("program: main.c\n\tcc -o program main.c\n", encoding="utf-8")
    (project / "main.c").write_text('#include <stdio.h>\nint main(void) { puts("compiled"); }\n', encoding="utf-8")
    (project / "test_small.py").write_text(
        "import socket\ndef test_loopback():\n    server = socket.create_server(('127.0.0.1', 0))\n"
        "    socket.create_connection(server.getsockname()).close()\n    server.close()\n",
        encoding="utf-8",
    )
    subprocess.run(("git", "init", "-q"), cwd=project, check=True)
    (said,) = run(machine, WORK.format(python=sys.executable), sandbox="workspace")
    assert "Command exited with code 0." in said, said
    for expected in ("compiled", str(project / "environment"), "1 passed", "[7]", "/tmp/tmp."):
        assert expected in said
    log = subprocess.run(("git", "log", "--oneline"), cwd=project, capture_output=True, text=True, check=True).stdout
    assert "two" in log
    tracked = subprocess.run(("git", "ls-files"), cwd=project, capture_output=True, text=True, check=True).stdout
    assert ".envrc" not in tracked


class Registry:
    """An npm registry with one package."""

    def __init__(self) -> None:
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w:gz") as archive:
            for name, text in {
                "package.json": '{"name": "small", "version": "1.0.0"}',
                "index.js": "module.exports = 'from the registry'",
            }.items():
                entry = tarfile.TarInfo(f"package/{name}")
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text.encode()))
        self.archive = content.getvalue()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = registry.archive if self.path.endswith(".tgz") else registry.document()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.place = f"127.0.0.1:{self.server.server_port}"

    def document(self) -> bytes:
        digest = base64.b64encode(hashlib.sha512(self.archive).digest()).decode()
        dist = {"tarball": f"http://{self.place}/small-1.0.0.tgz", "integrity": f"sha512-{digest}"}
        version = {"name": "small", "version": "1.0.0", "dist": dist}
        return json.dumps({"name": "small", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}).encode()


@pytest.fixture
def registry() -> Iterator[Registry]:
    registry = Registry()
    serving = threading.Thread(target=registry.server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    yield registry
    registry.server.shutdown()
    serving.join()
    registry.server.server_close()


@pytest.mark.parametrize("backend", WITH_MOUNTS)
def test_packages_come_through_the_proxy_and_other_hosts_do_not(
    machine: Machine, use: Callable[[str], None], backend: str, registry: Registry
) -> None:
    """TOL-378: the host that the user listed, also at a private address; nothing beside the proxy."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    use(backend)
    with socket.create_server(("127.0.0.1", 0)) as other:
        sandbox = {"mode": "workspace", "network": "proxy", "hosts": [registry.place]}
        machine.configure_user(holdfast={"sandbox": sandbox})
        ask = "import urllib.request as u\ntry:\n    print(u.urlopen('http://127.0.0.1:%d/').status)\n"
        ask += "except Exception as error:\n    print(error, error.read())"
        (machine.project / "ask.py").write_text(ask % other.getsockname()[1], encoding="utf-8")
        (machine.project / "package.json").write_text("{}", encoding="utf-8")
        install = f"npm install --no-audit --no-fund --no-update-notifier --registry http://{registry.place} small"
        line = f"set -e; {install}; node -p 'require(\"small\")'; {sys.executable} ask.py; env"
        (said,) = run(machine, line)
    assert "from the registry" in said, said
    assert "HTTP Error 403" in said
    assert "is not among the hosts of holdfast.sandbox" in said
    assert (machine.project / "node_modules" / "small" / "index.js").exists()


def test_without_a_network_namespace_the_proxy_is_no_network(machine: Machine, use: Callable[[str], None]) -> None:
    """TOL-378: Landlock knows only ports, so it does not pretend."""
    use("landlock")
    machine.configure_user(holdfast={"sandbox": {"mode": "workspace", "network": "proxy"}})
    (said,) = run(machine, f"{sys.executable} -c 'import socket; socket.socket()'")
    assert "Permission denied" in said
    assert "Network proxy needs a network namespace, which landlock has not; the network is off." in said


# -- choosing it -----------------------------------------------------------------------------------------------------


def test_a_project_cannot_change_the_sandbox_mode(machine: Machine, use: Callable[[str], None]) -> None:
    """TOL-375: neither on nor off; that it tried is said."""
    use("namespaces")
    machine.configure(holdfast={"sandbox": {"mode": "read-only", "required": True}})
    assert "x\n" in run(machine, "echo x > new; cat new; rm new")[0]
    doctor = machine("doctor")
    assert "sandbox off" in doctor.out
    assert "changes how this runtime works; ignored, because this project is not trusted" in doctor.err
    assert machine("trust", "--yes").code == 0
    trusted = machine("doctor")
    assert "sandbox off" in trusted.out
    assert "holdfast.sandbox: only the user's own configuration can set this; ignored" in trusted.err

    machine.configure(holdfast={"sandbox": "off"})
    machine.configure_user(holdfast={"sandbox": "read-only"})
    assert "It ran in a sandbox: read-only" in run(machine, "echo x > new")[0]
    assert not (machine.project / "new").exists()


def test_the_sandbox_mode_is_the_argument_then_the_environment_then_configuration(
    machine: Machine, use: Callable[[str], None]
) -> None:
    """TOL-375: the first of them that says something."""
    use("namespaces")
    machine.configure_user(holdfast={"sandbox": "read-only"})
    assert "read-only (namespaces, network off)" in run(machine, "false")[0]
    machine.environment["HOLDFAST_SANDBOX"] = "workspace"
    assert "workspace (namespaces, network off)" in run(machine, "false")[0]
    assert "sandbox" not in run(machine, "false", sandbox="off")[0]


def test_a_setting_that_cannot_be_read_confines_the_most(machine: Machine, use: Callable[[str], None]) -> None:
    """TOL-375: a misspelled mode does not switch it off."""
    use("namespaces")
    machine.configure_user(holdfast={"sandbox": "workspce"})
    assert "read-only (namespaces, network off)" in run(machine, "false")[0]


def test_a_mode_that_does_not_exist_is_an_error(machine: Machine) -> None:
    """TOL-375."""
    with pytest.raises(
        ValueError, match="there is no sandbox mode 'workspce'; the modes are off, read-only, workspace"
    ):
        run(machine, "true", sandbox="workspce")
    wrong = machine("run", "--sandbox", "workspace", "--attach", "http://127.0.0.1:1", "hi")
    assert (wrong.code, "--attach cannot be combined" in wrong.err) == (2, True)


def test_a_machine_that_cannot_confine_says_so(machine: Machine) -> None:
    """TOL-377: the command runs, and everyone is told."""
    machine.environment["HOLDFAST_SANDBOX_BACKEND"] = "nothing"
    machine.configure_user(holdfast={"sandbox": "workspace"})
    ran = command(machine, "touch ran")
    assert "sandbox workspace is not in force, commands run without one: there is no back end named nothing" in ran.err
    _, messages = machine.look(ran.session)
    assert "The command ran with the full authority of the user." in read(messages)[0]
    assert (machine.project / "ran").exists()


def test_a_required_sandbox_refuses_instead(machine: Machine) -> None:
    """TOL-377."""
    machine.environment["HOLDFAST_SANDBOX_BACKEND"] = "nothing"
    machine.configure_user(holdfast={"sandbox": {"mode": "workspace", "required": True}})
    (said,) = run(machine, "touch refused")
    assert "holdfast.sandbox requires a sandbox, and there is none: there is no back end named nothing" in said
    assert not (machine.project / "refused").exists()


def test_serve_with_sandbox_confines_commands(machine: Machine, use: Callable[[str], None]) -> None:
    """TOL-375: `serve --sandbox`."""
    use("namespaces")
    machine.script({"text": "done"})
    process = machine.start("serve", "--port", "0", "--sandbox", "read-only")
    assert process.stdout is not None
    assert "listening on" in process.stdout.readline()
    ran = command(machine, "echo x > new; exit 1")
    assert "using the server at http://" in ran.err
    _, messages = machine.look(ran.session)
    assert "It ran in a sandbox: read-only (namespaces, network off)." in read(messages)[0]
    assert not (machine.project / "new").exists()


# -- leaving it ------------------------------------------------------------------------------------------------------

OUTSIDE = "echo x > ../outside"


def test_a_command_may_leave_the_sandbox_when_the_user_agrees(machine: Machine, use: Callable[[str], None]) -> None:
    """TOL-379: asked for by itself; the failed command told the model that it may ask. Nothing is saved."""
    use("namespaces")
    confined, escaped = run(
        machine, OUTSIDE, {"command": OUTSIDE, "escape": True}, answer="always", sandbox="workspace"
    )
    assert "It ran in a sandbox: workspace (namespaces, network off)." in confined
    assert "call again with escape set to true" in confined
    assert "Command exited with code 0." in escaped
    assert (machine.home / "outside").read_text() == "x\n"


def test_yes_does_not_let_commands_out(machine: Machine, use: Callable[[str], None]) -> None:
    """TOL-379: at a terminal it is still asked for."""
    use("namespaces")
    machine.script({"calls": [{"tool": "bash", "input": {"command": OUTSIDE, "escape": True}}]}, {"text": "done"})
    person = machine.at_terminal("run", "--model", "demo/scripted", "--sandbox", "workspace", "--yes", "go")
    person.wait_for("permission to sandbox_escape")
    person.wait_for("your answer")
    person.type("n\n")
    person.leave()
    assert not (machine.home / "outside").exists()


def test_leaving_the_sandbox_is_not_offered_unattended(machine: Machine, use: Callable[[str], None]) -> None:
    """TOL-379: not offered where nobody can be asked."""
    use("namespaces")
    asked = {"command": OUTSIDE, "escape": True}
    confined, escaped = run(machine, OUTSIDE, asked, sandbox="workspace", unattended="allow")
    assert "It ran in a sandbox" in confined
    assert "escape" not in confined
    assert "It ran in a sandbox" in escaped
    assert not (machine.home / "outside").exists()


def test_the_tool_changes_with_the_mode_only(machine: Machine, provider: Provider, use: Callable[[str], None]) -> None:
    """TOL-380: its description and parameters are the same bytes in every request."""
    use("namespaces")
    machine.use_provider(provider.url)
    for mode in ("off", "workspace", "workspace", "read-only"):
        asyncio.run(_ask(machine, mode))
    shown = [
        json.dumps([tool for tool in body["tools"] if tool["function"]["name"] == "bash"])
        for body in provider.bodies
        if "tools" in body
    ]
    off, first, second, reading = shown
    assert "This is no sandbox" in off
    assert '"escape"' not in off
    assert first == second
    assert '"escape"' in first
    assert "it can write only in the project directory" in first
    assert "it can write only in $TMPDIR; files" in reading


async def _ask(machine: Machine, mode: Any) -> None:
    async with Holdfast(
        machine.project, preset="allow", data=machine.data, environment=machine.environment, sandbox=mode
    ) as hf:
        session = await hf.sessions.create(model=ModelRef(id="m", provider_id="mock"))
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="hi"))
        await hf.sessions.wait(session.id)


# -- the documentation -----------------------------------------------------------------------------------------------

DOCUMENT = Path(__file__).parents[2] / "docs" / "how-to" / "sandbox.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.M | re.S)


def test_the_examples_of_the_documentation_work(machine: Machine, use: Callable[[str], None]) -> None:
    """TOL-375: as they stand."""
    use("namespaces")
    environment = {**machine.environment, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    programs = [("sh", "-ec", text) for text in blocks("sh")]
    programs += [(sys.executable, "-c", text) for text in blocks("python")]
    assert len(programs) == 2
    for program in programs:
        subprocess.run(program, cwd=machine.project, env=environment, check=True, capture_output=True)
    for text in blocks("json"):
        machine.configure_user(**json.loads(text))
        assert "It ran in a sandbox: workspace" in run(machine, "false")[0]
