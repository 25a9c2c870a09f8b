"""A prompt of 30 MB against a real server whose memory is watched from outside."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.cli.conftest import PATIENCE, Server
from tests.outside.test_clients import Serve

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to see memory")

SIZE = 30_000_000
DATA = "data:text/plain;base64," + base64.b64encode(b"a" * 21_900_000).decode()
PROMPTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "text": ({"text": "a" * SIZE}, "prompt.text", "4194304"),
    "wide text": ({"text": "\N{GRINNING FACE}" * (SIZE // 4)}, "prompt.text", "4194304"),
    "data": ({"text": "x", "files": [{"uri": DATA}]}, "prompt.files", "16777216"),
    "several files": (
        {"text": "x", "files": [{"uri": f"data:,{'a' * (SIZE // 60)}"} for _ in range(60)]},
        "prompt.files",
        "16777216",
    ),
    "names": ({"text": "x", "files": [{"uri": "data:,a", "name": "n" * SIZE}]}, "prompt", "1048576"),
}


def memory(server: Server, which: str) -> int:
    """In bytes: `VmRSS` is what it holds, `VmHWM` the most that it ever held."""
    status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(f"{which}:"))


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_of_30_megabytes_is_refused_with_its_limit(serve: Serve, name: str) -> None:
    """SES-243, SES-234: 400 with the field and the limit; the refusal costs at most three times its size, and the
    Session goes on."""
    prompt, field, limit = PROMPTS[name]
    server = serve("--no-auth")
    with httpx2.Client(base_url=server.url, timeout=PATIENCE) as http:
        session = f"/api/session/{http.post('/api/session', json={}).json()['data']['id']}"
        assert http.post(f"{session}/prompt", json={"prompt": {"text": "small"}, "resume": False}).status_code == 200
        body = json.dumps({"prompt": prompt, "resume": False}, ensure_ascii=False).encode()
        before = memory(server, "VmRSS")

        answer = http.post(f"{session}/prompt", content=body, headers={"content-type": "application/json"})

        assert (answer.status_code, answer.json()["field"]) == (400, field)
        assert limit in answer.json()["message"]
        assert memory(server, "VmHWM") - before <= 3 * len(body)
        assert len(http.get(f"{session}/pending").json()["data"]) == 1
