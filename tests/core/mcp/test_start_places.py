"""Where local MCP servers start."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from holdfast.core.config.schema import LocalServer
from holdfast.core.mcp.configured_servers import ConfiguredServer, configured_server
from holdfast.core.mcp.start_places import NoStartPlace, StartPlaces
from holdfast.core.process.sandbox.private_directory import remove


def places(tmp_path: Path, *, data: str = "data", home: str = "home", **environment: str) -> StartPlaces:
    project = tmp_path / "project"
    (project / "sub").mkdir(parents=True, exist_ok=True)
    return StartPlaces(
        project / "sub", project, tmp_path / data / "mcp-start", {"HOME": str(tmp_path / home), **environment}
    )


def server(cwd: str | None = None, *, trusted: bool = False) -> tuple[ConfiguredServer, LocalServer]:
    config = LocalServer(command=["x"], cwd=cwd)
    return configured_server("s", config).replace(in_project=trusted), config


@pytest.mark.parametrize(
    ("cwd", "expected"),
    [(None, "sub"), ("x", "sub/x"), ("../q", "q"), ("/abs", "/abs"), ("~", "../home"), ("~/x", "../home/x")],
)
def test_a_trusted_project_is_where_servers_start(tmp_path: Path, cwd: str | None, expected: str) -> None:
    """MCP-160, TOL-280."""
    place = places(tmp_path).of(*server(cwd, trusted=True))
    assert (str(place.directory), place.reason) == (os.path.normpath(tmp_path / "project" / expected), None)


@pytest.mark.parametrize("cwd", [None, ".", "x", "../q", "~x"])
def test_what_is_relative_to_an_untrusted_project_is_not_used(tmp_path: Path, cwd: str | None) -> None:
    """MCP-360, MCP-362."""
    place = places(tmp_path).of(*server(cwd))
    assert place.directory is None
    assert str(place.reason).endswith("is not trusted")


@pytest.mark.parametrize(("cwd", "expected"), [("/abs", "/abs"), ("~", "home"), ("~/x", "home/x")])
def test_a_directory_that_the_user_names_is_used(tmp_path: Path, cwd: str, expected: str) -> None:
    """MCP-360."""
    assert places(tmp_path).of(*server(cwd)).directory == tmp_path / expected


def test_an_empty_directory_is_new_and_private(tmp_path: Path) -> None:
    """MCP-360."""
    here = places(tmp_path)
    first, second = here.make_empty(), here.make_empty()
    try:
        assert first.path != second.path
        assert list(first.path.iterdir()) == []
        assert stat.S_IMODE(first.path.stat().st_mode) == 0o700
        assert stat.S_IMODE(first.path.parent.stat().st_mode) == 0o700
    finally:
        remove(first)
        remove(second)
    assert list((tmp_path / "data" / "mcp-start").iterdir()) == []


def test_a_link_is_no_place_for_empty_directories(tmp_path: Path) -> None:
    """MCP-360: what it leads to may be anybody's."""
    here = places(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mcp-start").symlink_to(tmp_path)
    with pytest.raises(NoStartPlace, match="mcp-start is not a directory of this user"):
        here.make_empty()


def test_data_inside_an_untrusted_project_are_no_neutral_ground(tmp_path: Path) -> None:
    """MCP-363: programs look for code in directories above, too. The user's home is the user's own."""
    with pytest.raises(NoStartPlace, match="is inside this project, which is not trusted"):
        places(tmp_path, data="project/data").make_empty()
    remove(places(tmp_path, data="project/data", home="project/me").make_empty())


def test_search_paths_do_not_lead_into_an_untrusted_project(tmp_path: Path) -> None:
    """MCP-364: neither relative ones nor through a link."""
    inside, link = tmp_path / "project" / ".venv", tmp_path / "link"
    inside.mkdir(parents=True)
    link.symlink_to(inside)
    variables = {
        "PATH": f"/usr/bin:.:{inside}/bin::node_modules/.bin:{link}:/bin",
        "NODE_PATH": "lib",
        "VIRTUAL_ENV": str(inside),
        "MODE": str(inside),
    }
    here = places(tmp_path, **variables)
    assert here.environment(server()[0]) == {
        "HOME": str(tmp_path / "home"),
        "PATH": "/usr/bin:/bin",
        "MODE": str(inside),
    }
    assert here.environment(server(trusted=True)[0])["PATH"] == variables["PATH"]
    assert str(inside) in places(tmp_path, home="project/me", **variables).environment(server()[0])["PATH"]
