"""Where the local servers of a Location start.

A program takes code and settings from the directory that it starts in, and from those above it. So a server that is not
the project's own starts in or relative to the Location's directory only if that is trusted; otherwise in an empty
directory of ours, without search paths that lead into the project."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.config.environment import home_directory
from holdfast.core.config.project_directory import relative_to_project
from holdfast.core.process.sandbox import private_directory
from holdfast.private_files import make_directory
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.config.schema import LocalServer
    from holdfast.core.mcp.configured_servers import ConfiguredServer

SEARCH_PATHS = ("PATH", "LD_LIBRARY_PATH", "NODE_PATH", "PYTHONPATH", "VIRTUAL_ENV")
PREFIX = "start-"


class NoStartPlace(HoldfastError):
    """There is no directory in which the server can start."""


class StartPlace(Frozen):
    directory: Path | None
    """None: an empty directory that is made for the start."""
    reason: str | None = None
    """Why it is an empty one."""


class StartPlaces:
    def __init__(self, location: Path, project: Path, empty: Path, environment: Mapping[str, str]) -> None:
        """`project` is the root of the Location's project. Empty directories are made in `empty`. `environment` is the
        runtime's own."""
        self._location = location
        self._project = Path(os.path.realpath(project))
        self._empty = empty
        self._environment = environment
        self._home = home_directory(environment)

    def of(self, server: ConfiguredServer, config: LocalServer) -> StartPlace:
        given = config.cwd or ""
        if relative_to_project(given):
            if server.in_project:
                return StartPlace(Path(os.path.normpath(self._location / given)))
            which = "its cwd is relative to this project, which" if given else "this project"
            return StartPlace(None, f"{which} is not trusted")
        at_home = given == "~" or given.startswith("~/")
        return StartPlace(Path(os.path.normpath(f"{self._home}/{given[1:]}" if at_home else given)))

    def make_empty(self) -> private_directory.PrivateDirectory:
        """Raises NoStartPlace and OSError."""
        if not self._owns_home and self._inside(str(self._empty)):
            raise NoStartPlace(
                f"there is no directory for it: the data directory {self._empty.parent} is inside this project, which "
                "is not trusted; an absolute cwd, or trust, helps"
            )
        make_directory(self._empty)
        found = self._empty.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise NoStartPlace(f"there is no directory for it: {self._empty} is not a directory of this user")
        if stat.S_IMODE(found.st_mode) & 0o077:
            self._empty.chmod(0o700)
        return private_directory.make(self._empty, PREFIX)

    def environment(self, server: ConfiguredServer) -> dict[str, str]:
        """The runtime's own, in which no search path is relative or leads into a project that is not trusted."""
        if server.in_project:
            return dict(self._environment)
        kept = dict(self._environment)
        for name in SEARCH_PATHS:
            if name not in kept:
                continue
            entries = [entry for entry in kept[name].split(os.pathsep) if self._is_safe(entry)]
            kept[name] = os.pathsep.join(entries)
            if not entries:
                del kept[name]
        return kept

    def _is_safe(self, entry: str) -> bool:
        return os.path.isabs(entry) and (self._owns_home or not self._inside(entry))

    @property
    def _owns_home(self) -> bool:
        """The project is the user's home or contains it: what is in it is the user's own."""
        return self._inside(str(self._home))

    def _inside(self, path: str) -> bool:
        return Path(os.path.realpath(path)).is_relative_to(self._project)
