"""A real `holdfast serve`: found by clients of this machine while it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.client.connect import connect_sync
from holdfast.client.discovery import running_servers
from holdfast.client.errors import ClientError

pytestmark = pytest.mark.timeout(60)


def test_a_server_registers_while_it_runs(tmp_path: Path, project: Path) -> None:
    """API-040, API-046: address, version and process in a state file; a client finds it
    and its generated password without being told. When it ends, nobody finds it."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = [str(Path(sys.executable).with_name("holdfast")), "serve", "--port", "0"]
    with subprocess.Popen(
        command, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().rpartition(" ")[2].strip()
            (server,) = running_servers(environment)
            with connect_sync(environment=environment) as client:
                assert client.location.get().directory == str(project)
        finally:
            process.terminate()
            process.communicate(timeout=40)

    assert (server.url, server.pid) == (url, process.pid)
    assert server.data == str(tmp_path / ".local" / "share" / "holdfast")
    assert running_servers(environment) == []
    with pytest.raises(ClientError, match="no server runs"):
        connect_sync(environment=environment)
