"""Writes src/holdfast/core/tool/builtin_schemas.json; with --check, says whether it is up to date."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from holdfast.core.runtime.runtime import Paths, Runtime
from holdfast.core.tool.builtin_schemas import FILE, PACKAGE, name_of
from holdfast.llm.tool_schema import schema_of


async def types() -> list[type]:
    """Of the built-in tools: what they take and what they give."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        environment = {"HOME": folder, "EXA_API_KEY": "none", "PARALLEL_API_KEY": "none"}
        async with (
            Runtime(paths=Paths(home / "data"), directory=home, environment=environment) as runtime,
            runtime.locations.use(runtime.location) as services,
        ):
            tools = [registration._tool for registration in services.tools._current().registrations.values()]
    kinds = [kind for tool in tools for kind in (tool.input, tool.output, tool.structured_type)]
    return [kind for kind in kinds if isinstance(kind, type) and name_of(kind).startswith(PACKAGE)]


def written(schemas: dict[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(schemas), indent=1) + b"\n"


def main() -> int:
    wanted = written({name_of(kind): schema_of(kind) for kind in sorted(set(asyncio.run(types())), key=name_of)})
    if "--check" not in sys.argv:
        FILE.write_bytes(wanted)
    elif not FILE.exists() or FILE.read_bytes() != wanted:
        print(f"{FILE.name} is out of date; run `make generate`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
