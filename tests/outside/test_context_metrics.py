"""What the metrics say of System Context, for someone who looks for the cause of a slow turn."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.cli.conftest import Machine

from holdfast import Holdfast
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import PromptInput

pytestmark = pytest.mark.anyio
SECONDS = 0.25


@pytest.fixture
def slow_page() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(SECONDS)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"Be slow.")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    yield f"http://127.0.0.1:{server.server_port}/rules.md"
    server.shutdown()
    serving.join()
    server.server_close()


async def test_an_observation_counts_everything_that_it_waited_for(holdfast: Machine, slow_page: str) -> None:
    """CTX-215: the fetch of remote instructions too, which is also shown by itself; what is at hand costs nothing."""
    holdfast.configure_user(instructions=[slow_page])
    async with Holdfast(holdfast.project, preset="allow", data=holdfast.data, environment=holdfast.environment) as hf:
        session = (await hf.sessions.create(model=ModelRef(id="echo", provider_id="demo"))).id
        for text in ("one", "two"):
            await hf.sessions.prompt(session, prompt=PromptInput(text=text))
            await hf.sessions.wait(session)
        durations = (await hf.metrics.read())["context.observe.duration"]
    whole = durations[""]
    assert whole["times"] == 2
    assert whole["largest"] >= SECONDS
    fetched = durations["core/instructions-remote"]
    assert fetched["times"] == 1
    assert whole["largest"] >= fetched["largest"] >= SECONDS
    assert whole["total"] - whole["largest"] < SECONDS
