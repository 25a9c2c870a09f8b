"""Opening a Location's configuration: its cost against bare reading and parsing, and against the size of the project.

Run `python benchmarks/config.py`; exits with 1 when a bound is missed."""

from __future__ import annotations

import gc
import json
import logging
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from holdfast.core.agent.configured import configured_agents
from holdfast.core.command.configured import configured_commands
from holdfast.core.config.config import load_config
from holdfast.core.config.watch import YOUNG_NS, Watch

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 200
AGENTS = 6

USER = {
    "$schema": "https://opencode.ai/config.json",
    "model": "anthropic/claude-sonnet-4-5",
    "provider": {
        f"gateway-{number}": {
            "npm": "@ai-sdk/openai-compatible",
            "name": f"Gateway {number}",
            "options": {"baseURL": f"https://llm{number}.example/v1", "apiKey": "{env:HOME}", "timeout": 600000},
            "models": {
                f"model-{model}": {
                    "name": f"Model {model}",
                    "tool_call": True,
                    "limit": {"context": 200000, "output": 32000},
                    "cost": {"input": 3, "output": 15, "cache_read": 0.3},
                }
                for model in range(8)
            },
        }
        for number in range(4)
    },
    "mcp": {
        "context7": {"type": "remote", "url": "https://mcp.context7.com/mcp", "enabled": False},
        "playwright": {"type": "local", "command": ["npx", "@playwright/mcp"], "timeout": 20000, "enabled": False},
    },
}
PROJECT = {
    "permission": {"edit": "ask", "bash": {"*": "ask", "git status *": "allow", "npm test *": "allow"}},
    "agent": {f"helper-{number}": {"description": "helps", "prompt": "Help. " * 40} for number in range(6)},
    "command": {f"command-{number}": {"template": "Do it. " * 40} for number in range(6)},
    "instructions": ["CONTRIBUTING.md", "docs/*.md"],
}
AGENT = "---\ndescription: reviews changes\nmode: subagent\nsteps: 20\n---\n" + "Review the change. " * 60


class Bench:
    def __init__(self, folder: Path, files: int) -> None:
        self.home, self.project = folder / "home", folder / "project"
        self.environment = {"HOME": str(folder), "OPENCODE_CONFIG_DIR": str(self.home)}
        (self.project / ".opencode" / "agent").mkdir(parents=True)
        self.home.mkdir()
        (self.home / "opencode.json").write_text(json.dumps(USER, indent=2))
        (self.project / "opencode.json").write_text(json.dumps(PROJECT, indent=2))
        for number in range(AGENTS):
            (self.project / ".opencode" / "agent" / f"file-{number}.md").write_text(AGENT)
        for number in range(files):
            place = self.project / "src" / f"part-{number % 100}"
            place.mkdir(parents=True, exist_ok=True)
            (place / f"module_{number}.py").touch()
        self.inner = self.project / "src" / "part-0"

    def open(self) -> None:
        config = load_config(self.inner, self.project, self.environment)
        agents = configured_agents(config, self.environment)
        commands = configured_commands(config)
        assert len(agents.patches) == 6 + AGENTS
        assert len(commands.patches) == 6

    def bare(self) -> None:
        """What nobody could do without: read the files that exist and parse them."""
        json.loads((self.home / "opencode.json").read_text())
        json.loads((self.project / "opencode.json").read_text())
        for number in range(AGENTS):
            text = (self.project / ".opencode" / "agent" / f"file-{number}.md").read_text()
            yaml.load(text.split("---")[1], yaml.CSafeLoader)


def opening(folder: Path) -> float:
    """Configuration, agents and commands over bare reading and parsing of the same files."""
    bench = Bench(folder, files=200)
    ours, bare = _times(bench.open, bench.bare)
    print(f"    {ours * 1e3:.2f} ms, bare {bare * 1e3:.2f} ms")
    return ours / bare


def size(folder: Path) -> float:
    """A project of 20,000 files over one of 200."""
    small, large = folder / "small", folder / "large"
    small.mkdir()
    large.mkdir()
    few, many = Bench(small, files=200), Bench(large, files=20_000)
    young, old = _times(few.open, many.open)
    print(f"    {young * 1e3:.2f} ms with 200 files, {old * 1e3:.2f} ms with 20,000")
    return old / young


def look(folder: Path) -> float:
    """What a boundary pays for noticing edits, over 200 microseconds. The files are older than a tick of the clock."""
    bench, watch = Bench(folder, files=200), Watch()
    load_config(bench.inner, bench.project, bench.environment, watch=watch)
    time.sleep(YOUNG_NS / 1e9)
    assert not watch.changed()

    def look_once() -> None:
        watch.changed()

    (taken,) = _times(look_once)
    print(f"    {taken * 1e6:.0f} µs for {len(watch)} paths")
    return taken / 200e-6


def _times(*works: Callable[[], None]) -> list[float]:
    """Medians, taken in turns so that other load meets all alike; without the collector, as `timeit` does it."""
    times: list[list[float]] = [[] for _ in works]
    gc.disable()
    for _ in range(ROUNDS):
        for work, taken in zip(works, times, strict=True):
            started = time.perf_counter()
            work()
            taken.append(time.perf_counter() - started)
    gc.enable()
    return [statistics.median(taken) for taken in times]


SCENARIOS: tuple[tuple[str, Callable[[Path], float], float], ...] = (
    ("opening against bare reading and parsing", opening, 3.0),
    ("opening in 20,000 files against in 200", size, 1.2),
    ("a look at the files at a boundary against 200 µs", look, 1.0),
)


def main() -> int:
    logging.disable(logging.WARNING)
    failed = 0
    for name, measure, bound in SCENARIOS:
        with tempfile.TemporaryDirectory() as folder:
            ratio = measure(Path(folder))
        good = ratio <= bound
        failed += not good
        print(f"{'ok ' if good else 'BAD'} {name}: {ratio:.2f} (<= {bound})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
