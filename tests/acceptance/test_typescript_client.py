"""Holdfast's own client for web pages, in node: against a real server, and alone with prepared answers."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.conftest import npm_package

TYPESCRIPT = "7.0.2"
SCRIPT = Path(__file__).with_name("client.mjs")
MODULE = Path(__file__).parents[2] / "clients" / "typescript" / "client.js"

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]


@pytest.fixture
def checks(node: str, project: Path, script: Path, server: str) -> dict[str, dict[str, Any]]:
    command = [node, "--experimental-websocket", str(SCRIPT), str(MODULE), server, str(project), str(script)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.returncode == 0, f"{lines[-1:]} {run.stderr}"
    return {line["check"]: line for line in lines}


def test_the_client_of_a_web_page(checks: dict[str, dict[str, Any]]) -> None:
    """API-301, API-303, API-304, API-307, API-308, API-309, API-310, API-311, API-312, API-313, API-314, API-430,
    API-433, API-434, API-435, API-580: loaded as it is, without a build; flat inputs, unwrapped answers, tagged errors,
    one ClientError, lazy streams, resuming, files, terminals."""
    assert list(checks) == [
        "create and list",
        "prompt and follow",
        "a file and the document",
        "a terminal",
        "live stream and permission",
        "declared failures",
        "timeout and abort",
        "requests",
        "other failures",
        "trusts the shape",
        "streams",
        "live events of a session",
        "heartbeats and silence",
        "resume",
        "resume a tree",
    ]
    assert all(line["ok"] for line in checks.values())
    assert checks["prompt and follow"]["types"][:2] == ["session.next.prompt.admitted", "session.next.prompted"]
    assert checks["other failures"]["reasons"] == [
        "UnexpectedStatus",
        "UnsupportedContentType",
        "MalformedResponse",
        "MalformedResponse",
        "MalformedResponse",
        "UnsupportedContentType",
        "Transport",
    ]
    assert checks["streams"]["reasons"] == [
        "MalformedResponse",
        "MalformedResponse",
        "UnsupportedContentType",
        "Transport",
    ]
    assert checks["streams"]["left"] is True
    assert checks["resume"]["seen"] == [1, 2, 3]
    assert checks["resume a tree"]["seen"] == ["a0", "a1", "b0", "b1", "a2", "b2"]


@pytest.fixture(scope="module")
def compiler() -> Path:
    return npm_package("typescript", TYPESCRIPT) / ".bin" / "tsc"


STRICTEST = {
    "strict": True,
    "exactOptionalPropertyTypes": True,
    "noUncheckedIndexedAccess": True,
    "noImplicitOverride": True,
    "noImplicitReturns": True,
    "noPropertyAccessFromIndexSignature": True,
    "noUnusedLocals": True,
    "noUnusedParameters": True,
    "verbatimModuleSyntax": True,
    "isolatedModules": True,
    "skipLibCheck": False,
    "types": [],
    "target": "ES2022",
    "module": "NodeNext",
    "moduleResolution": "NodeNext",
    "noEmit": True,
}


@pytest.mark.parametrize(("source", "libraries"), [("usage.ts", ["ES2023"]), ("browser.ts", ["ES2023", "DOM"])])
def test_the_declarations_compile_under_the_strictest_options(
    tmp_path: Path, node: str, compiler: Path, source: str, libraries: list[str]
) -> None:
    """API-438: without the DOM library, and with it; events are told apart by their type."""
    shutil.copy(SCRIPT.with_name(source), tmp_path)
    assert compiled(compiler, tmp_path, lib=libraries) == ""


def test_the_example_of_the_readme_compiles_under_the_strictest_options(
    tmp_path: Path, node: str, compiler: Path
) -> None:
    """API-438: as it is printed, with the few globals that it uses, and without the DOM library."""
    readme = (MODULE.parent / "README.md").read_text(encoding="utf-8")
    example = readme.partition("```js\n")[2].partition("```")[0]
    (tmp_path / "example.ts").write_text(GLOBALS + example, encoding="utf-8")
    assert compiled(compiler, tmp_path, lib=["ES2023"], noUnusedLocals=False) == ""


GLOBALS = """
declare const password: string
declare const console: { log(text: string): void }
declare const process: { stdout: { write(text: string): void } }
"""


def compiled(compiler: Path, folder: Path, **options: Any) -> str:
    """What the compiler says of the sources in this folder, beside the declarations of the client."""
    for path in (*MODULE.parent.glob("*.d.ts"), MODULE.parent / "package.json"):
        shutil.copy(path, folder)
    configuration = {"compilerOptions": {**STRICTEST, **options}, "include": ["*.ts"]}
    (folder / "tsconfig.json").write_text(json.dumps(configuration), encoding="utf-8")
    run = subprocess.run([str(compiler), "-p", str(folder)], capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode == 0) == (run.stdout == ""), run.stderr
    return run.stdout
