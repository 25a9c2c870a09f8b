"""A server tells the clients of this machine that it runs, and takes that back when it ends."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.client.discovery import RunningServer, running_servers, servers_folder
from holdfast.core.runtime import default_paths
from holdfast.schema.codec import encode
from holdfast.schema.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@contextmanager
def registered(environment: Mapping[str, str], *, id: str, url: str, data: Path) -> Iterator[None]:
    server = RunningServer(
        id=id, version=__version__, url=url, pid=os.getpid(), data=str(data), started=int(time.time() * 1000)
    )
    folder = servers_folder(environment)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{server.pid}.json"
    draft = path.with_suffix(".draft")
    draft.write_bytes(encode(server))
    draft.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def server_of(environment: dict[str, str]) -> RunningServer | None:
    """The newest running server on the data directory that this environment selects."""
    return next(iter(running_servers(environment, data=default_paths(environment).data)), None)
