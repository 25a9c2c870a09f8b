"""Two nodes behind a load balancer, and the files in `deploy` that describe the same."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.conftest import PATIENCE, Machine, Provider, Server
from tests.outside.balancer import balancing
from tests.outside.test_left_behind import in_turn, new_session
from tests.outside.test_nodes import on_release
from tests.stores.server import programs
from tests.stores.stores import STORES

from holdfast import PromptInput, connect
from holdfast.cli.serve import command as serve_command

Serve = Callable[..., Server]
DEPLOY = Path(__file__).parents[2] / "deploy"
PASSWORD = "the password of all nodes"


@pytest.mark.anyio
async def test_a_client_of_a_balancer_need_not_know_the_nodes(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """STO-105, STO-106, STO-210: each connection may reach another node; a prompt is followed while it is answered, a
    terminal is used, and a node that is killed costs a connection."""
    holdfast.use_provider(provider.url)
    in_turn(provider, on_release(provider), Provider.answer)
    holdfast.environment["OPENCODE_SERVER_PASSWORD"] = PASSWORD
    nodes = [serve(), serve()]
    async with asyncio.timeout(PATIENCE), balancing(*(node.url for node in nodes)) as balancer:

        def client() -> Any:
            return connect(balancer.url, password=PASSWORD, environment=holdfast.environment)

        async with client() as one, client() as other:
            session_id = await new_session(one, holdfast)
            await one.sessions.prompt(session_id, prompt=PromptInput(text="what is it?"))
            assert await asyncio.to_thread(provider.asked.acquire, timeout=30)
            seen = []
            async with aclosing(aiter(other.sessions.events(session_id, live=True))) as events:
                async for event in events:
                    seen.append(event.type)
                    provider.released.set()
                    if event.type == "session.next.step.ended":
                        break
            assert "session.next.prompted" in seen
            made = (await one.ptys.create(command="/bin/cat")).data
            for _ in range(4):
                async with client() as third, await third.ptys.connect(made.id) as socket:
                    await socket.write("there?\n")
                    async for output in socket:
                        if "there?" in output:
                            break
            await other.ptys.remove(made.id)
        assert {*balancer.taken} == {0, 1}
        nodes[0].process.send_signal(signal.SIGKILL)
        async with client() as one:
            await one.sessions.prompt(session_id, prompt=PromptInput(text="and now?"))
            assert (await one.sessions.outcome(session_id)).type == "completed"


# -- deploy ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    return document


def test_the_services_of_the_compose_file_fit_together(compose: dict[str, Any]) -> None:
    """STO-109, STO-214: what is mounted exists, what is referred to is declared, and nodes know each other's names."""
    services = compose["services"]
    assert set(services) == {"postgres", "left", "right", "balancer"}
    for name, service in services.items():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in compose["volumes"], name
        assert set(service.get("secrets", ())) <= set(compose["secrets"])
        assert set(service.get("depends_on", ())) <= set(services)
    for name in ("left", "right"):
        assert (DEPLOY.parent / services[name]["build"]["dockerfile"]).exists()
        options = serve_command.make_context("serve", services[name]["command"][1:]).params
        assert services[name]["command"][0] == "serve"
        assert (options["node_name"], options["node_address"]) == (name, f"http://{name}:{options['port']}")
        assert options["drain"] < int(services[name]["stop_grace_period"].removesuffix("s"))
        assert f"server {name}:{options['port']} " in (DEPLOY / "nginx.conf").read_text(encoding="utf-8")


def test_the_entry_point_of_the_compose_file_starts_a_node(
    compose: dict[str, Any], holdfast: Machine, tmp_path: Path
) -> None:
    """STO-214: with the secrets from files, and the options behind it."""
    shell = [part.replace("$$", "$") for part in compose["services"]["left"]["entrypoint"]]
    for name in compose["secrets"]:
        (tmp_path / name).write_text(f"secret of the {name}\n", encoding="utf-8")
    printed = tmp_path / "holdfast"
    printed.write_text('#!/bin/sh\necho "$PGPASSWORD|$OPENCODE_SERVER_PASSWORD|$*"\n', encoding="utf-8")
    printed.chmod(0o755)
    script = [part.replace("/run/secrets", str(tmp_path)) for part in shell]
    done = subprocess.run(
        [*script, "serve", "--port=1"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "secret of the database|secret of the server|serve --port=1\n"


def test_the_balancer_holds_no_stream_back() -> None:
    """STO-105: the settings that a stream and a WebSocket need."""
    text = re.sub(r"\s+", " ", re.sub(r"#.*", "", (DEPLOY / "nginx.conf").read_text(encoding="utf-8")))
    assert text.count("{") == text.count("}")
    for setting in ("proxy_buffering off;", "proxy_read_timeout 1h;", "proxy_http_version 1.1;"):
        assert setting in text
    assert "proxy_set_header Upgrade $http_upgrade;" in text


@pytest.mark.store("postgres", reason="the role of a database server")
def test_the_role_of_the_guide_is_enough(holdfast: Machine, tmp_path: Path) -> None:
    """STO-068: a node with that role starts, works and is examined; the role may do nothing else."""
    import psycopg

    server = STORES.pool.server
    name = f"guide_{os.getpid()}"
    script = tmp_path / "role.sql"
    text = (DEPLOY / "role.sql").read_text(encoding="utf-8")
    script.write_text(re.sub(r"\bholdfast\b(?! login)", name, text).replace("holdfast login", f"{name} login"))
    psql = [str(programs() / "psql"), server.admin, "--set", "ON_ERROR_STOP=1", "--set", "password=it's a secret"]
    subprocess.run([*psql, "--file", str(script)], capture_output=True, text=True, check=True)
    address = server.address(name, user=name)
    try:
        ran = holdfast("run", "--model", "demo/echo", "hello", HOLDFAST_DATABASE=address)
        assert ran.code == 0, ran
        assert holdfast("doctor", HOLDFAST_DATABASE=address).code == 0
        with psycopg.connect(address) as role:
            for forbidden in ("create database other", "create role other", "create extension dblink"):
                with pytest.raises(psycopg.Error):
                    role.execute(forbidden)
                role.rollback()
    finally:
        with psycopg.connect(server.admin, autocommit=True) as admin:
            admin.execute(f"drop database {name} with (force)")
            admin.execute(f"drop role {name}")


def test_the_configuration_of_the_guide_is_accepted(holdfast: Machine) -> None:
    """STO-215: it is that of a node."""
    page = (DEPLOY.parent / "docs" / "how-to" / "several-machines.md").read_text(encoding="utf-8")
    document = json.loads(re.findall(r"```json\n(.*?)```", page, re.DOTALL)[0])
    del document["holdfast"]["storage"]["url"]
    del document["holdfast"]["storage"]["secret_file"]
    holdfast.configure_user(**document)
    report = holdfast("config", "check")
    assert report.code == 0, report
