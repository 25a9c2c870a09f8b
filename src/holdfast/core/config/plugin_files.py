"""The files of a plugin: where configuration says they are, and a digest of what is in them."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from holdfast.core.config.environment import user_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PLUGIN_FOLDERS = ("plugin", "plugins")
MOST_FILES = 1_000
MOST_BYTES = 32 * 1024 * 1024


def plugin_name(written: str | Mapping[str, Any]) -> str:
    """Of an entry of `plugins`, in its short form or its long one."""
    return written if isinstance(written, str) else str(written["package"])


def plugin_path(name: str, folder: Path, environment: Mapping[str, str]) -> Path | None:
    """The file or folder that an entry of `plugins` names; None if it names an installed package. `folder` is that of
    the document."""
    if name.startswith("file://"):
        return Path(unquote("/" + name[7:].partition("/")[2]))  # what stands before is a host: this one
    if name.startswith(("./", "../", "/", "~/")):
        return folder / user_path(name, environment)
    return None


def plugins_in(directory: Path) -> Iterator[Path]:
    """The plugins that lie in a configuration folder, in the order in which they are loaded."""
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
    """What is executed from a plugin's path may lie in any of these files. Byte code is never read."""
    try:
        if path.is_file():
            return [path]
        if not (path / "__init__.py").is_file():
            return []
        return sorted(file for file in path.rglob("*") if "__pycache__" not in file.parts and file.is_file())
    except (OSError, ValueError):
        return []


class PluginContent(NamedTuple):
    digest: str
    files: dict[str, bytes]
    """By path: the very bytes that the digest is of."""


def read_plugin(path: Path) -> PluginContent:
    """All bytes of a plugin. What is too much to read has a digest that is never the same twice, and so never
    trusted."""
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
