"""Chooses the back end of this machine. A candidate must confine a real test command; this is tried once per process,
when a sandbox is first needed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from holdfast.core.process.sandbox.confinement import Confinement, SandboxUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.core.process.sandbox.backend import Backend

PROBE_SECONDS = 10.0
OUTPUT_BYTES = 4096
PROBE = 'echo allowed > "$TMPDIR/allowed" || exit 3; echo refused 2>/dev/null > "$1/refused" && exit 4; exit 0'
ONLY = "HOLDFAST_SANDBOX_BACKEND"
"""The environment variable that names the only back end to use."""


class BackendChooser(Protocol):
    async def choose(self) -> Backend:
        """Raises SandboxUnavailable."""


class FixedBackend:
    """Always chooses the given back end."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def choose(self) -> Backend:
        return self._backend


class Backends:
    def __init__(
        self, environment: Mapping[str, str], candidates: Mapping[str, Callable[[], Backend]] | None = None
    ) -> None:
        """`environment` is the runtime's own."""
        self._only = environment.get(ONLY) or None
        self._candidates = candidates
        self._probing = asyncio.Lock()
        self._found: Backend | None = None
        self._reason: str | None = None

    async def choose(self) -> Backend:
        async with self._probing:
            if self._found is None and self._reason is None:
                self._found, self._reason = await self._look()
        if self._found is None:
            raise SandboxUnavailable(self._reason)
        return self._found

    async def _look(self) -> tuple[Backend | None, str]:
        reasons = []
        candidates = available_candidates() if self._candidates is None else self._candidates
        for name, make in candidates.items():
            if self._only not in (None, name):
                continue
            try:
                backend = make()
                await probe(backend)
            except SandboxUnavailable as error:
                reasons.append(f"{name}: {error}")
            else:
                return backend, ""
        return None, "; ".join(reasons) or f"there is no back end named {self._only} here"


def available_candidates() -> Mapping[str, Callable[[], Backend]]:
    """Strongest first."""
    from holdfast.core.process.sandbox.backend import Bubblewrap, LandlockAlone, Namespaces, SandboxExec

    return {
        "bubblewrap": Bubblewrap,
        "namespaces": Namespaces,
        "landlock": LandlockAlone,
        "sandbox-exec": SandboxExec,
    }


async def probe(backend: Backend) -> None:
    """Run a command that tries an allowed and a forbidden write. Raises SandboxUnavailable."""
    import tempfile

    from holdfast.core.process.process import Capture, ProcessError, Processes

    with tempfile.TemporaryDirectory(prefix="holdfast-probe-") as name:
        base = Path(os.path.realpath(name))
        (base / "tmp").mkdir()
        (base / "closed").mkdir()
        output = Capture(OUTPUT_BYTES)
        try:
            ended = await Processes(watched=False, sandbox=FixedBackend(backend)).run(
                ("/bin/sh", "-c", PROBE, "sh", str(base / "closed")),
                cwd=Path("/"),
                environment={"PATH": os.defpath},
                output=output,
                timeout=PROBE_SECONDS,
                confinement=Confinement("read-only", "off", base / "tmp"),
            )
        except ProcessError as error:
            raise SandboxUnavailable(error.cause or str(error)) from error
        if (base / "closed" / "refused").exists() or ended.code == 4:
            raise SandboxUnavailable("it does not confine")
        if ended.code != 0 or not (base / "tmp" / "allowed").exists():
            message = output.text().strip().rpartition("\n")[2]
            raise SandboxUnavailable(message or f"its test command ended with {ended.code}")
