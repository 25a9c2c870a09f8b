"""Loads plugins that configuration names or that lie in its folders. Nothing is installed, and project code runs only
if the project is trusted."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import re
import sys
from functools import partial
from importlib.machinery import PathFinder, SourceFileLoader
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from holdfast.core.config.authority import NOT_TRUSTED
from holdfast.core.config.document import Document
from holdfast.core.config.environment import is_enabled
from holdfast.core.config.plugin_files import content_digest, plugin_name, plugin_path, plugins_in, read_plugin
from holdfast.core.diagnostic import Diagnostic
from holdfast.core.plugin.bounded import bounded
from holdfast.core.plugin.plugin import PluginFailed, check_plugin
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from pathlib import Path
    from types import CodeType, ModuleType

    from holdfast.core.config.config import Config
    from holdfast.core.plugin.plugin import Plugin

GROUP = "opencode.plugins"
NOT_INSTALLED = (
    "it is not installed as a Python plugin; packages of npm cannot be loaded, and a Python package needs an entry "
    f"point of this name in the group {GROUP}"
)
PREFIX = "holdfast_plugin_"

_MODULE = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"
_numbers = itertools.count(1)


class ImportedPlugin(Frozen):
    plugin: Plugin
    forget: Callable[[], None]


class ExternalPlugin(Frozen):
    """A plugin to load. Equal values need not be loaded again."""

    name: str
    """A path, a module, or the name of an entry point."""
    path: Path | None = None
    options: Mapping[str, Any] = MappingProxyType({})
    content: str | None = None
    """The digest of its files when found or trusted: only this content is executed."""
    declared: str | None = None
    """The file that declares it, if any."""

    async def load(self, seconds: float) -> ImportedPlugin:
        """Import the plugin within the time limit. Raises PluginFailed."""
        try:
            return await bounded(self._import, seconds, late=lambda loaded: loaded.forget())
        except TimeoutError as error:
            raise PluginFailed(self.name, f"importing it took longer than {seconds:g} s") from error
        except PluginFailed:
            raise
        except Exception as error:
            raise PluginFailed(self.name, f"it could not be imported: {type(error).__name__}: {error}") from error

    def _import(self) -> ImportedPlugin:
        found = _import_installed(self.name) if self.path is None else _import_file(self.path, self.content)
        try:
            return ImportedPlugin(check_plugin(found, self.name), partial(_forget, found))
        except Exception:
            _forget(found)
            raise


class ExternalPlugins(Frozen):
    plugins: tuple[ExternalPlugin, ...]
    diagnostics: tuple[Diagnostic, ...]


def external_plugins(config: Config, environment: Mapping[str, str]) -> ExternalPlugins:
    """All plugins in configuration order: a document's `plugins`, then those in its folder. Reads their files."""
    if is_enabled(environment, "OPENCODE_PURE"):
        return ExternalPlugins((), ())
    plugins: list[ExternalPlugin] = []
    problems: list[Diagnostic] = []
    for entry in config.entries():
        if isinstance(entry, Document):
            found = [_named(written, entry, environment) for written in entry.data.get("plugins", ())]
        else:
            found = [ExternalPlugin(str(path), path) for path in plugins_in(entry.path)]
        if found and not entry.trusted:
            path = str(entry.path)
            problems += (Diagnostic(path, f"runs the plugin {plugin.name}; {NOT_TRUSTED}") for plugin in found)
        else:
            plugins += (_with_content(plugin, entry.contents) for plugin in found)
    return ExternalPlugins(tuple(plugins), tuple(problems))


def _named(written: str | dict[str, Any], document: Document, environment: Mapping[str, str]) -> ExternalPlugin:
    name, options = plugin_name(written), {} if isinstance(written, str) else written.get("options", {})
    path = plugin_path(name, document.directory, environment)
    return ExternalPlugin(name if path is None else str(path), path, options, declared=str(document.path))


def _with_content(plugin: ExternalPlugin, trusted: Mapping[str, str]) -> ExternalPlugin:
    if plugin.path is None:
        return plugin
    return plugin.replace(content=trusted.get(str(plugin.path)) or content_digest(plugin.path))


def _import_installed(name: str) -> Any:
    from importlib.metadata import entry_points

    package, wanted = _versioned(name)
    for point in entry_points(group=GROUP, name=package):
        if wanted and point.dist is not None and point.dist.version != wanted:
            raise PluginFailed(name, f"version {point.dist.version} is installed")
        return point.load()
    # A failed import of an invalid name would give a less helpful message.
    if not re.fullmatch(_MODULE, package) or importlib.util.find_spec(package.partition(".")[0]) is None:
        raise PluginFailed(name, NOT_INSTALLED)
    return importlib.import_module(package)


def _versioned(name: str) -> tuple[str, str | None]:
    """Splits `name@1.2.3` into package and version; a leading `@` belongs to the name."""
    package, separator, version = name.rpartition("@")
    return (package, version) if package and separator and version not in ("", "latest") else (name, None)


def _import_file(path: Path, content: str | None) -> ModuleType:
    """Import under a new module name, so that an edited file is loaded. With `content`, a digest, only exactly that
    content is executed."""
    source = path / "__init__.py" if path.is_dir() else path
    if not source.is_file():
        raise PluginFailed(str(path), "no such file")
    if source.suffix != ".py":
        raise PluginFailed(str(path), "it is not a Python file")
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    importlib.invalidate_caches()
    found = read_plugin(path)
    if content is not None and found.digest != content:
        raise PluginFailed(str(path), "it was changed while it was being loaded")
    name = f"{PREFIX}{next(_numbers)}"
    _FINDER.sources[name] = found.files
    within = [str(path)] if path.is_dir() else None
    loader = _FreshLoader(name, str(source), found.files)
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
    """Loads from sources that were read before. No byte code: file times are too coarse to detect an edit, and the
    folder may not be writable."""

    def __init__(self, fullname: str, path: str, sources: Mapping[str, bytes]) -> None:
        super().__init__(fullname, path)
        self._sources = sources

    def get_code(self, fullname: str) -> CodeType:
        if (source := self._sources.get(str(self.path))) is None:
            raise ImportError(f"{self.path} was not there when the plugin was loaded", name=fullname, path=self.path)
        return self.source_to_code(source, self.path)


class _FreshFinder:
    """Finds modules inside a plugin's folder in the sources that were read with it."""

    def __init__(self) -> None:
        self.sources: dict[str, Mapping[str, bytes]] = {}
        """Sources of the loaded plugins, by module name."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith(PREFIX):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader) and spec.origin is not None:
            sources = self.sources.get(name.partition(".")[0], {})
            spec.loader, spec.cached = _FreshLoader(name, spec.origin, sources), None
        return spec


_FINDER = _FreshFinder()


def _forget(found: Any) -> None:
    """Remove a file's module and its submodules. Installed modules stay, because others may use them."""
    name = getattr(found, "__name__", "")
    if name.startswith(PREFIX):
        _FINDER.sources.pop(name, None)
        for loaded in [known for known in sys.modules if known == name or known.startswith(f"{name}.")]:
            del sys.modules[loaded]
