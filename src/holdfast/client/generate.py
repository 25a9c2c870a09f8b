"""Generates the clients from the protocol: `python -m holdfast.client.generate [--check]`."""

from __future__ import annotations

import sys
from pathlib import Path

from holdfast.client.codegen.contract import Contract, compile_contract
from holdfast.client.codegen.python import emit_python
from holdfast.client.codegen.typescript import emit_typescript
from holdfast.client.codegen.writer import GeneratedFiles, drift, write
from holdfast.protocol.api import API
from holdfast.schema.manifest import MANIFEST

PACKAGE = Path(__file__).parent
REPOSITORY = PACKAGE.parents[2]


def contract() -> Contract:
    return compile_contract(API, (event for event in MANIFEST.latest.values() if event.announced))


def outputs() -> list[GeneratedFiles]:
    compiled = contract()
    return [
        GeneratedFiles(PACKAGE / "generated", emit_python(compiled)),
        GeneratedFiles(REPOSITORY / "clients" / "typescript", emit_typescript(compiled)),
    ]


def main() -> int:
    if "--check" not in sys.argv:
        for output in outputs():
            write(output)
        return 0
    changed = [name for output in outputs() for name in drift(output)]
    if changed:
        sys.stderr.write(f"{', '.join(changed)}: out of date with the protocol; run `make generate`\n")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
