"""Plugins that configuration names, or that lie in its folders. Nothing is ever installed, and nothing of a project is
executed unless the host trusts that project."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import sys
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from holdfast.core.config.authority import NOT_TRUSTED
from holdfast.core.config.document import Diagnostic, Document
from holdfast.core.config.environment import switched_on, user_path
from holdfast.core.plugin.bounded import bounded
from holdfast.core.plugin.plugin import PluginFailed, check_plugin
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import CodeType, ModuleType

    from holdfast.core.config.config import Config
    from holdfast.core.plugin.plugin import Plugin

GROUP = "opencode.plugins"
FOLDERS = ("plugin", "plugins")
PREFIX = "holdfast_plugin_"

_MODULE = pattern(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_numbers = itertools.count(1)


class Loaded(NamedTuple):
    plugin: Plugin
    forget: Callable[[], None]


class ExternalPlugin(Frozen):
    name: str
    """A path, a module, or the name of an entry point."""
    path: Path | None = None
    options: Mapping[str, Any] = MappingProxyType({})

    async def load(self, seconds: float) -> Loaded:
        """Import it, within that time. Raises PluginFailed."""
        try:
            return await bounded(self._import, seconds, late=lambda loaded: loaded.forget())
        except TimeoutError as error:
            raise PluginFailed(self.name, f"importing it took longer than {seconds:g} s") from error
        except PluginFailed:
            raise
        except Exception as error:
            raise PluginFailed(self.name, f"it could not be imported: {type(error).__name__}: {error}") from error

    def _import(self) -> Loaded:
        found = _import_installed(self.name) if self.path is None else _import_file(self.path)
        try:
            return Loaded(check_plugin(found, self.name), partial(_forget, found))
        except Exception:
            _forget(found)
            raise


class Found(NamedTuple):
    plugins: tuple[ExternalPlugin, ...]
    diagnostics: tuple[Diagnostic, ...]


def external_plugins(config: Config, environment: Mapping[str, str]) -> Found:
    """In the order of the configuration: a document's `plugins`, then what lies in its folder."""
    if switched_on(environment, "OPENCODE_PURE"):
        return Found((), ())
    plugins: list[ExternalPlugin] = []
    problems: list[Diagnostic] = []
    for entry in config.entries():
        if isinstance(entry, Document):
            found = [_named(written, entry, environment) for written in entry.data.get("plugins", ())]
        else:
            found = list(_lying_in(entry.path))
        if found and not entry.trusted:
            names = ", ".join(plugin.name for plugin in found)
            problems.append(Diagnostic(str(entry.path), f"runs the plugins {names}; {NOT_TRUSTED}"))
        else:
            plugins += found
    return Found(tuple(plugins), tuple(problems))


def _named(written: str | dict[str, Any], document: Document, environment: Mapping[str, str]) -> ExternalPlugin:
    name, options = (written, {}) if isinstance(written, str) else (written["package"], written.get("options", {}))
    path: Path | None = None
    if name.startswith("file://"):
        path = Path(unquote("/" + name[7:].partition("/")[2]))  # what stands before is a host: this one
    elif name.startswith(("./", "../", "/", "~/")):
        path = document.directory / user_path(name, environment)
    return ExternalPlugin(name if path is None else str(path), path, options)


def _lying_in(directory: Path) -> Iterator[ExternalPlugin]:
    for folder in FOLDERS:
        try:
            paths = sorted((directory / folder).iterdir())
        except OSError:
            continue
        for path in paths:
            if (path.suffix == ".py" and path.is_file()) or (path / "__init__.py").is_file():
                yield ExternalPlugin(str(path), path)


def _import_installed(name: str) -> Any:
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP, name=name):
        return point.load()
    # Importing a name that is none would tell less than this.
    if not _MODULE.fullmatch(name) or importlib.util.find_spec(name.partition(".")[0]) is None:
        raise PluginFailed(name, "it is not installed as a Python plugin")
    return importlib.import_module(name)


def _import_file(path: Path) -> ModuleType:
    """Under a new name each time, so that an edited file is what counts."""
    source = path / "__init__.py" if path.is_dir() else path
    if not source.is_file():
        raise PluginFailed(str(path), "no such file")
    if source.suffix != ".py":
        raise PluginFailed(str(path), "it is not a Python file")
    name = f"{PREFIX}{next(_numbers)}"
    within = [str(path)] if path.is_dir() else None
    loader = _FreshLoader(name, str(source))
    spec = importlib.util.spec_from_file_location(name, source, loader=loader, submodule_search_locations=within)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except (Exception, SystemExit):
        _forget(module)
        raise
    return module


class _FreshLoader(SourceFileLoader):
    """Without byte code: the time of a file is too coarse to see an edit, and its folder is not ours to write to."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _forget(found: Any) -> None:
    """A file's module and those below it. What is installed stays: others may use it."""
    name = getattr(found, "__name__", "")
    if name.startswith(PREFIX):
        for loaded in [known for known in sys.modules if known == name or known.startswith(f"{name}.")]:
            del sys.modules[loaded]
