"""One user's machine: a data directory, a project, and real `holdfast serve` processes on a fixed port, which use the
scripted provider."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx2

Json = dict[str, Any]
PASSWORD = "correct horse battery staple"
PATIENCE = 30.0
PRICES = {"input": 3, "output": 15, "cache_read": 0.3}
HOLDFAST = str(Path(sys.executable).with_name("holdfast"))


class Machine:
    def __init__(self, home: Path, provider_url: str | None) -> None:
        """Without an address no provider is connected."""
        self.home = home
        self.data = home / "data" / "holdfast"
        self.project = home / "project"
        self.project.mkdir(parents=True)
        (self.project / "hello.txt").write_text("hello world\n", encoding="utf-8")
        self._git("init", "--quiet")
        self._git("add", ".")
        self._git("-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "--quiet", "-m", "first")
        document: Json = {
            **(_provided(provider_url) if provider_url is not None else {}),
            "permission": {"edit": "ask", "bash": {"*": "allow", "git tag *": "ask", "mkdir *": "ask"}},
            "command": {"greet": {"template": "Say hello to $ARGUMENTS", "description": "Greets somebody"}},
            "references": {"manual": str(home / "manual")},
        }
        (home / "manual").mkdir()
        (home / "manual" / "page.md").write_text("# The manual\n", encoding="utf-8")
        config = home / "config" / "opencode" / "opencode.json"
        skill = config.parent / "skills" / "tidy" / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text("---\nname: tidy\ndescription: Tidies up\nslash: true\n---\nTidy up.\n", encoding="utf-8")
        config.write_text(json.dumps(document), encoding="utf-8")
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "XDG_DATA_HOME": str(home / "data"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_STATE_HOME": str(home / "state"),
            "OPENCODE_SERVER_PASSWORD": PASSWORD,
            "NO_PROXY": "127.0.0.1",
        }
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[str] | None = None
        self.api = httpx2.Client(base_url=self.url, auth=("opencode", PASSWORD), timeout=PATIENCE, trust_env=False)

    def run(self, *arguments: str) -> str:
        """What a command of `holdfast` prints."""
        command = [HOLDFAST, *arguments]
        ran = subprocess.run(
            command,
            cwd=self.project,
            env=self.environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        return ran.stdout

    def start(self) -> None:
        self._process = subprocess.Popen(
            [HOLDFAST, "serve", "--port", str(self.port)],
            cwd=self.project,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert "listening on" in line, line

    def stop(self) -> None:
        """As a person does."""
        assert self._process is not None
        self._process.terminate()
        self._process.communicate(timeout=PATIENCE)
        self._process = None

    def kill(self) -> None:
        """As the kernel does when memory is short."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()
        self._process = None

    def close(self) -> None:
        self.api.close()
        if self._process is not None:
            self._process.terminate()
            self._process.communicate(timeout=PATIENCE)

    def create(self, title: str = "") -> str:
        """A new Session in the project."""
        location = {"directory": str(self.project)}
        session: str = self._data(self.api.post("/api/session", json={"location": location}))["id"]
        if title:
            self._data(self.api.post(f"/api/session/{session}/rename", json={"title": title}))
        return session

    def find(self, title: str) -> str:
        """The id of the Session with this title."""
        found = self.get("/api/session", limit=100)
        return next(str(session["id"]) for session in found if session["title"] == title)

    def prompt(self, session: str, text: str, **options: Any) -> str:
        body = {"prompt": {"text": text}, **options}
        id: str = self._data(self.api.post(f"/api/session/{session}/prompt", json=body))["id"]
        return id

    def wait(self, session: str) -> None:
        """Until the Session is idle."""
        self.api.post(f"/api/session/{session}/wait").raise_for_status()

    def get(self, path: str, **query: Any) -> Any:
        return self._data(self.api.get(path, params=query))

    def post(self, path: str, **body: Any) -> Any:
        return self._data(self.api.post(path, json=body))

    def say(self, session: str, texts: Iterable[str]) -> None:
        """Prompts that nobody answers."""
        for text in texts:
            self.post(f"/api/session/{session}/prompt", text=text, noReply=True)
        self.wait(session)

    def messages(self, session: str) -> list[Json]:
        """All of them, oldest first."""
        query: Json = {"limit": 200, "order": "asc"}
        page = self.api.get(f"/api/session/{session}/message", params=query).raise_for_status().json()
        found: list[Json] = page["data"]
        return found

    def _data(self, response: httpx2.Response) -> Any:
        assert response.is_success, response.text
        return response.json()["data"] if response.content else None

    def _git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=self.project, check=True, capture_output=True)


def _provided(url: str) -> Json:
    model = {"tool_call": True, "cost": PRICES, "limit": {"context": 100_000, "output": 8_000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": url, "apiKey": "sk-scripted"},
        "models": {"m": model, "n": model},
    }
    return {"model": "mock/m", "provider": {"mock": provider}}


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
