"""Redirects of what a user configured by address: remote instructions and skills."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.outside.scripted_provider import PATIENCE
from tests.outside.world import World, ask

pytestmark = pytest.mark.anyio
SECRET = "what only services of this machine may read"
REFUSED = (
    "http://0.0.0.0:{port}/x",
    "http://[::]:{port}/x",
    "http://169.254.169.254/x",
    "http://[::ffff:0.0.0.0]:{port}/x",
)


class Site:
    """Answers everything with one text, or leads away. `asked` are the paths that were requested."""

    def __init__(self, text: str = SECRET) -> None:
        self.asked: list[str] = []
        self.leads_to: str | None = None
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                self.send_response(200 if site.leads_to is None else 302)
                if site.leads_to is not None:
                    self.send_header("location", site.leads_to)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("", 0), Handler)
        self.port = self.server.server_address[1]


@contextmanager
def serving(*sites: Site) -> Iterator[None]:
    threads = [threading.Thread(target=site.server.serve_forever) for site in sites]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for site, thread in zip(sites, threads, strict=True):
            site.server.shutdown()
            site.server.server_close()
            thread.join()


@pytest.mark.parametrize("target", REFUSED)
async def test_instructions_lead_to_no_address_that_is_never_reached(world: World, target: str) -> None:
    """CTX-149, MCP-372: nothing is requested there, and nothing of it is in the context."""
    site, inside = Site(), Site()
    site.leads_to = target.format(port=inside.port)
    world.configure(instructions=[f"http://127.0.0.1:{site.port}/x"])
    with serving(site, inside):
        async with world.host() as hf:
            await ask(hf, await hf.sessions.create(), "go")
    assert site.asked == ["/x"]
    assert inside.asked == []
    assert SECRET not in world.model.last.system


async def test_instructions_of_this_machine_stay_on_this_machine(world: World) -> None:
    """MCP-372: what the user configured as local may lead to what is local."""
    site, other = Site(), Site("Be brief.")
    site.leads_to = f"http://localhost:{other.port}/y"
    world.configure(instructions=[f"http://127.0.0.1:{site.port}/x"])
    with serving(site, other):
        async with world.host() as hf:
            await ask(hf, await hf.sessions.create(), "go")
    assert other.asked == ["/y"]
    assert "Be brief." in world.model.last.system


async def test_skills_lead_to_no_address_that_is_never_reached(world: World) -> None:
    """MCP-372."""
    site, inside = Site(), Site(json.dumps({"skills": []}))
    site.leads_to = f"http://0.0.0.0:{inside.port}/index.json"
    world.configure(skills={"urls": [f"http://127.0.0.1:{site.port}/"]})
    with serving(site, inside):
        async with world.host() as hf:
            await ask(hf, await hf.sessions.create(), "go")
            async with asyncio.timeout(PATIENCE):
                while not site.asked:  # noqa: ASYNC110 - another thread notes it
                    await asyncio.sleep(0.01)
    assert inside.asked == []
