"""A PostgreSQL server whose disk is full: each change that does not fit is refused, and nothing else is lost."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.cli.conftest import Machine, Provider, Server
from tests.cli.conftest import holdfast as holdfast
from tests.cli.conftest import provider as provider
from tests.cli.conftest import serve as serve
from tests.outside.test_left_behind import client_of, new_session
from tests.stores.private import PASSWORD, PrivateServer, private_server
from tests.stores.server import NoPostgres

from holdfast import ApiError, PromptInput
from holdfast.schema.session_message import UserMessage

pytestmark = [pytest.mark.anyio, pytest.mark.acceptance]

DISK = "24m"
MOST = 100


@pytest.fixture
def small(holdfast: Machine) -> Iterator[tuple[PrivateServer, Path]]:
    """A server with a database on a small disk, and the folder of that disk."""
    try:
        with private_server() as server:
            disk = server.folder / "disk"
            disk.mkdir()
            mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(disk)]
            if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
                pytest.skip("only root can make a small disk, and not everywhere")
            try:
                space = disk / "space"
                space.mkdir(mode=0o700)
                owner = server.data.stat()
                os.chown(space, owner.st_uid, owner.st_gid)
                server.sql(f"create tablespace small location '{space}'")
                server.sql("create database d owner holdfast tablespace small")
                yield server, disk
                holdfast.clean_up()
                server.stop()
            finally:
                subprocess.run(["umount", "-l", str(disk)], check=True)
    except NoPostgres as error:
        pytest.skip(str(error))


def fill(path: Path) -> None:
    with suppress(OSError), open(path, "wb", buffering=0) as file:
        while True:
            file.write(bytes(65536))


async def test_a_full_disk_refuses_and_loses_nothing(
    small: tuple[PrivateServer, Path], holdfast: Machine, serve: Callable[..., Server], provider: Provider
) -> None:
    """STO-009, STO-194: the client is told why; when there is room again the server goes on, without a restart."""
    server, disk = small
    address = server.address("d")
    holdfast.use_provider(provider.url)
    node = serve(HOLDFAST_DATABASE=address)
    acknowledged = []
    async with client_of(node, holdfast) as client:
        session_id = await new_session(client, holdfast)
        ballast = disk / "ballast"
        fill(ballast)
        refused: ApiError | None = None
        for number in range(MOST):
            try:
                prompt = PromptInput(text=f"{number} {os.urandom(200_000).hex()}")
                acknowledged.append((await client.sessions.prompt(session_id, prompt=prompt, resume=False)).id)
            except ApiError as error:
                refused = error
                break
        assert refused is not None
        assert refused.status == 503
        assert "no space left to write" in str(refused)
        assert PASSWORD not in str(refused)
        ballast.unlink()
        last = await client.sessions.prompt(session_id, prompt=PromptInput(text="and now?"))
        assert (await client.sessions.outcome(session_id)).type == "completed"
        history = await client.sessions.context(session_id)
        asked = [message.id for message in history if isinstance(message, UserMessage)]
        assert asked == [*acknowledged, last.id]
        assert (await client.health.get()).storage is None
