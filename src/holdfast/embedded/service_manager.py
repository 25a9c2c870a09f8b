"""Tells the service manager that started this process, if one did, when the server is ready and when it ends: what
systemd calls `Type=notify`."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import MutableMapping

VARIABLE = "NOTIFY_SOCKET"
READY = "READY=1"
STOPPING = "STOPPING=1"


class ServiceManager:
    def __init__(self, environment: MutableMapping[str, str]) -> None:
        """Takes the address out of the environment: commands of agents must not speak for the server."""
        self._address = environment.pop(VARIABLE, "")

    def tell(self, state: str) -> None:
        """Best effort: a server that cannot tell serves nevertheless."""
        if not self._address:
            return
        # A leading `@` stands for the zero byte of an abstract address.
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sending:
                sending.setblocking(False)
                sending.sendto(state.encode(), address)
        except OSError:
            return
