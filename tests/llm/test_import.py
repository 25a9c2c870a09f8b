"""What importing the package costs: no HTTP library, no vendor's, and little time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import holdfast.llm

ROOT = Path(holdfast.llm.__file__).parent
MODULES = sorted(
    ".".join(("holdfast.llm", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for path in ROOT.rglob("*.py")
)
HEAVY = (
    *("aiohttp", "httpx", "httpx2", "httpcore", "requests", "urllib3", "websockets", "yarl", "multidict"),
    *("anthropic", "openai", "google.genai", "boto3", "botocore", "pydantic"),
)

PROBE = """
import sys, time, importlib, asyncio, msgspec
started = time.process_time()
for name in {modules!r}:
    importlib.import_module(name)
spent = time.process_time() - started
print([name for name in {heavy!r} if name in sys.modules], spent * 1000)
"""


def probe(modules: list[str]) -> tuple[str, float]:
    found = subprocess.run(
        [sys.executable, "-c", PROBE.format(modules=modules, heavy=HEAVY)],
        capture_output=True,
        text=True,
        check=True,
    )
    names, _, spent = found.stdout.strip().rpartition(" ")
    return names, float(spent)


def test_importing_everything_loads_no_http_library() -> None:
    """LLM-008: route.network brings its own in when something is sent, not when it is imported."""
    assert "holdfast.llm.route.network" in MODULES
    assert probe(MODULES)[0] == "[]"


FORKS = """
import os, sys, importlib, asyncio, msgspec, random, hashlib, hmac, email.utils, urllib.parse
for name in {modules!r}:
    if os.fork() == 0:
        importlib.import_module(name)
        print(name, [name for name in {heavy!r} if name in sys.modules], flush=True)
        os._exit(0)
    os.wait()
"""


def test_every_module_can_be_the_first() -> None:
    """LLM-008: no import order is needed, and none of them alone is heavy."""
    script = FORKS.format(modules=MODULES, heavy=HEAVY)
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == [f"{module} []" for module in MODULES], found.stderr


def test_importing_is_quick() -> None:
    """LLM-008: 150 ms is the aim for a cold interpreter. Counted is what comes on top of asyncio and msgspec, in time
    of the processor, so that a busy machine does not decide."""
    assert min(probe(["holdfast.llm.stream", "holdfast.llm.providers.profiles"])[1] for _ in range(3)) < 100
