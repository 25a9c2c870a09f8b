"""Locates the files of configured plugins and computes a digest of their content."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from holdfast.core.config.environment import user_path
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PLUGIN_FOLDERS = ("plugin", "plugins")
MOST_FILES = 1_000
MOST_BYTES = 32 * 1024 * 1024


def plugin_name(written: str | Mapping[str, Any]) -> str:
    """The name in an entry of `plugins`, in its short or long form."""
    return written if isinstance(written, str) else str(written["package"])


def plugin_path(name: str, folder: Path, environment: Mapping[str, str]) -> Path | None:
    """The file or folder that an entry of `plugins` names, or None for an installed package. `folder` is the
    document's."""
    if name.startswith("file://"):
        return Path(unquote("/" + name[7:].partition("/")[2]))  # the part before it is a host name: this machine
    if name.startswith(("./", "../", "/", "~/")):
        return folder / user_path(name, environment)
    return None


def plugins_in(directory: Path) -> Iterator[Path]:
    """The plugins in a configuration folder, in loading order."""
    for folder in PLUGIN_FOLDERS:
        try:
            names = sorted(os.listdir(directory / folder))
        except OSError:
            continue
        for name in names:
            path = directory / folder / name
            if (name.endswith(".py") and path.is_file()) or (path / "__init__.py").is_file():
                yield path


def plugin_files(path: Path) -> list[Path]:
    """All files that a plugin may execute. Byte code is never read."""
    try:
        if path.is_file():
            return [path]
        if not (path / "__init__.py").is_file():
            return []
        return sorted(file for file in path.rglob("*") if "__pycache__" not in file.parts and file.is_file())
    except (OSError, ValueError):
        return []


class PluginContent(Frozen):
    digest: str
    files: dict[str, bytes]
    """The bytes that the digest covers, by path."""


def read_plugin(path: Path) -> PluginContent:
    """Reads all bytes of a plugin. A plugin that is too large gets a random digest and is therefore never trusted."""
    found, total, contents = hashlib.sha256(), 0, dict[str, bytes]()
    files = plugin_files(path)
    if len(files) > MOST_FILES:
        return PluginContent(secrets.token_hex(), {})
    for file in files:
        try:
            total += file.stat().st_size
            if total > MOST_BYTES:
                return PluginContent(secrets.token_hex(), {})
            content = contents[str(file)] = file.read_bytes()
        except OSError:
            return PluginContent(secrets.token_hex(), {})
        name = os.fsencode(file.relative_to(path) if file != path else file.name)
        found.update(len(name).to_bytes(8, "big") + name + len(content).to_bytes(8, "big") + content)
    return PluginContent(found.hexdigest(), contents)


def content_digest(path: Path) -> str:
    return read_plugin(path).digest
