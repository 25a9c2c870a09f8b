"""What is loaded when, seen from a fresh interpreter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

NETWORK = {"aiohttp", "httpx2", "uvicorn", "starlette", "httptools", "uvloop"}
STORAGE = {"apsw", "sqlite3"}

REPORT = "\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
EMBEDDED = """
import asyncio
from holdfast import Holdfast, PromptInput

async def main():
    async with Holdfast({project!r}, data={data!r}, environment={{}}) as hf:
        model = await hf.default_model()
        assert model is None
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="hi"))

asyncio.run(main())
"""


def loaded(code: str) -> set[str]:
    """Modules in a new interpreter after running this."""
    ran = subprocess.run([sys.executable, "-c", code + REPORT], capture_output=True, text=True, check=False, timeout=30)
    assert ran.returncode == 0, ran.stderr
    return set(json.loads(ran.stdout.splitlines()[-1]))


def packages(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


def layers(modules: set[str]) -> set[str]:
    return {module.split(".")[1] for module in modules if module.startswith("holdfast.")}


def test_help_imports_click_and_our_own_modules_only() -> None:
    """`--help` is click and our own names."""
    code = "from click.testing import CliRunner\nfrom holdfast.cli.main import cli\n"
    modules = loaded(code + "assert CliRunner().invoke(cli, ['--help']).exit_code == 0")

    assert not packages(modules) & {*NETWORK, *STORAGE, "msgspec", "anyio", "asyncio"}
    assert layers(modules) == {"cli", "schema", "text"}


@pytest.mark.parametrize("command", ["run", "serve", "sessions", "doctor"])
def test_help_of_a_command_loads_nothing_heavy(command: str) -> None:
    """Nor does that of a command."""
    code = "from click.testing import CliRunner\nfrom holdfast.cli.main import cli\n"
    modules = loaded(code + f"assert CliRunner().invoke(cli, ['{command}', '--help']).exit_code == 0")

    assert not packages(modules) & {*NETWORK, *STORAGE, "msgspec"}


def test_the_package_itself_loads_nothing() -> None:
    """API-319: names load on first use."""
    assert layers(loaded("import holdfast")) == {"schema"}
    assert layers(loaded("from holdfast import ApiError, ClientError")) == {"schema", "client"}


@pytest.mark.parametrize(
    "module", ["generated.async_client", "generated.sync_client", "generated.guards", "resume", "connect"]
)
def test_the_client_knows_no_server(module: str) -> None:
    """API-315, API-318: schema and protocol only; no database, no HTTP stack until a transport is chosen."""
    modules = loaded(f"import holdfast.client.{module}")

    assert {"client"} <= layers(modules) <= {"client", "private_files", "protocol", "schema"}
    assert not packages(modules) & (NETWORK | STORAGE)


def test_the_server_knows_no_client() -> None:
    """API-318: both stand on the same protocol, neither on the other."""
    assert "client" not in layers(loaded("import holdfast.server.app"))


def test_schema_and_protocol_know_nothing_above_them() -> None:
    """API-315: no database, execution or provider module."""
    modules = loaded("import holdfast.protocol.api, holdfast.schema.manifest, holdfast.schema.codec")

    assert layers(modules) == {"protocol", "schema"}
    assert not packages(modules) & (NETWORK | STORAGE)


ANSWERED = """
import asyncio
from holdfast import Holdfast, ModelRef, PromptInput

async def main():
    async with Holdfast({project!r}, data={data!r}, environment={{}}, unattended="deny") as hf:
        session = await hf.sessions.create(model=ModelRef(id="echo", provider_id="demo"))
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="hi"), resolve=True)
        await hf.sessions.wait(session.id)
        assert (await hf.sessions.outcome(session.id)).type == "completed"

asyncio.run(main())
"""
LATER = {
    "difflib",
    "shlex",
    "holdfast.core.command.template",
    "holdfast.core.filesystem.page",
    "holdfast.core.html.html",
    "holdfast.core.plugin.host",
    "holdfast.core.runner.compaction",
    "holdfast.core.runner.pruning",
    "holdfast.core.runner.shell_messages",
    "holdfast.core.search.match",
    "holdfast.core.snapshot.selection",
    "holdfast.core.snapshot.transfer",
    "holdfast.core.tool.builtin.hunk",
    "holdfast.core.tool.builtin.patch",
    "holdfast.core.tool.builtin.question",
    "holdfast.core.tool.builtin.replacement",
    "holdfast.core.tool.command_output",
    "holdfast.core.tool.typed",
    "holdfast.core.web.charset",
    "holdfast.embedded.piece_maker",
    "holdfast.embedded.prompting",
    "holdfast.llm.json_schema",
    "holdfast.llm.native_schema",
    "holdfast.llm.schema_check",
}
"""Modules that no answer without tools needs: plugins, compaction, forms of answers, what tools do."""


def test_the_first_answer_loads_no_deferred_module(tmp_path: Path) -> None:
    """A cold start pays for what it uses."""
    modules = loaded(ANSWERED.format(project=str(tmp_path), data=str(tmp_path / "data")))

    assert modules & LATER == set()


BLOCKING = """
from holdfast import PromptInput
from holdfast.embedded.blocking import HoldfastSync

with HoldfastSync({project!r}, data={data!r}, environment={{}}) as hf:
    session = hf.sessions.create()
    hf.sessions.prompt(session.id, prompt=PromptInput(text="hi"))
"""
MOUNTED = """
import asyncio
from holdfast import Holdfast
from holdfast.embedded.asgi import asgi

async def main():
    async with asgi(Holdfast({project!r}, data={data!r}, environment={{}})).lifespan():
        pass

asyncio.run(main())
"""


@pytest.mark.parametrize("code", [EMBEDDED, BLOCKING, MOUNTED], ids=["embedded", "blocking", "mounted"])
def test_the_embedded_path_needs_no_http_stack(tmp_path: Path, code: str) -> None:
    """API-315, API-400: no listener, no socket, no HTTP library up to the first provider turn."""
    modules = loaded(code.format(project=str(tmp_path), data=str(tmp_path / "data")))

    assert {"client", "core", "server", "embedded"} <= layers(modules)
    assert not packages(modules) & {"starlette", "httpx2", "uvicorn", "aiohttp", "httptools", "websockets"}
