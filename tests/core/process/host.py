"""A host in a process of its own with one running command: `python -m tests.core.process.host FOLDER COMMAND`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from holdfast.core.process.process import Processes


async def main(folder: Path, command: str) -> None:
    def show(chunk: bytes) -> bool:
        print(chunk.decode(), end="", flush=True)
        return True

    await Processes().run(("/bin/sh", "-c", command), cwd=folder, environment={"PATH": "/usr/bin:/bin"}, output=show)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
