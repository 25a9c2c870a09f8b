"""`{env:…}` and `{file:…}`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from tests.core.config.conftest import Place


def test_a_value_never_becomes_structure(place: Place) -> None:
    """CAT-032: substituted after parsing, once, and not in keys."""
    hostile = '"}, "evil": {"{env:HOST}\n'
    place.write(
        "opencode.json", {"username": "{env:KEY}", "shell": "a{env:HOST}b{env:HOST}", "agents": {"{env:HOST}": {}}}
    )
    (document,) = place.load(KEY=hostile, HOST="h").documents()
    assert document.data == {"username": hostile, "shell": "ahbh", "agents": {"{env:HOST}": {}}}


def test_an_unset_variable_is_empty_and_reported(place: Place) -> None:
    """CAT-027, CAT-032."""
    place.write("opencode.json", '{\n\n"shell": "x{env:NO_SUCH}y"}')
    found = place.load()
    assert found.latest("shell") == "xy"
    (problem,) = found.diagnostics()
    assert (problem.line, "NO_SUCH" in problem.message) == (3, True)


def test_files_are_inserted_trimmed_and_not_read_again(place: Place) -> None:
    """CAT-032: relative to the document, or to home; what is in them is only text, even if it names itself."""
    place.write("prompts/build.txt", "\n  Say {file:build.txt} and {env:HOME}.\n\n")
    place.write("~/key", "secret\n")
    place.write("opencode.json", {"agents": {"build": {"system": "{file:prompts/build.txt}"}}})
    place.user_config({"username": "{file:~/key}"})
    user, project = place.load().documents()
    assert user.data["username"] == "secret"
    assert project.data["agents"]["build"]["system"] == "Say {file:build.txt} and {env:HOME}."


def test_a_missing_file_takes_its_key_along(place: Place) -> None:
    """CAT-027, CAT-032: the key or the item, and nothing around it."""
    place.write("opencode.json", {"username": "{file:none}", "shell": "sh", "instructions": ["a", "{file:none}", "b"]})
    found = place.load()
    assert found.documents()[0].data == {"shell": "sh", "instructions": ["a", "b"]}
    assert len(found.diagnostics()) == 2


def test_a_projects_files_stay_inside_it(place: Place) -> None:
    """CAT-033: by absolute path, by climbing, or by a link; the user's own file may name any."""
    secret = place.write("~/secret", "hunter2")
    (place.root / "link").symlink_to(secret)
    for name in (str(secret), "../home/secret", "link", "~/secret"):
        place.write("opencode.json", {"username": f"{{file:{name}}}"})
        found = place.load()
        assert found.documents()[0].data == {}
        assert "outside the project" in found.diagnostics()[0].message
    place.user_config({"username": f"{{file:{secret}}}"})
    assert place.load().latest("username") == "hunter2"


@pytest.mark.parametrize("kind", ["folder", "pipe", "large", "bytes"])
def test_inserting_a_file_that_is_no_text_is_refused_at_once(place: Place, kind: str) -> None:
    """CAT-032: a pipe above all must not be waited for."""
    path = place.root / "thing"
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "large":
            path.write_bytes(b"x" * (1024 * 1024 + 1))
        case _:
            path.write_bytes(b"\xff\xfe")
    place.write("opencode.json", {"username": "{file:thing}", "shell": "sh"})
    found = place.load()
    assert found.documents()[0].data == {"shell": "sh"}
    assert len(found.diagnostics()) == 1


def test_substituted_values_are_never_shown(place: Place) -> None:
    """CAT-033: neither in problems, nor in what is shown, nor in a document's own representation."""
    place.write(
        "opencode.json",
        {
            "agents": {"a": {"mode": "{env:SECRET}"}},
            "providers": {"p": {"request": {"headers": {"authorization": "Bearer {env:SECRET}"}}}},
            "shell": "{env:SHORT}",
        },
    )
    found = place.load(SECRET="sk-canary-1234", SHORT="ab")
    assert found.documents()[0].data["providers"]["p"]["request"]["headers"]["authorization"] == "Bearer sk-canary-1234"
    assert len(found.diagnostics()) == 1
    assert found.effective()["providers"]["p"]["request"]["headers"]["authorization"] == "***"
    assert found.effective()["shell"] == "***"
    assert "canary" not in repr((found.diagnostics(), found.effective(), found.documents()))


def test_a_variable_that_is_no_text_takes_its_key_along(place: Place) -> None:
    """CAT-032: bytes of the environment could be neither sent nor stored."""
    place.write("opencode.json", {"username": "{env:NAME}", "model": "p/m"})
    found = place.load(NAME=os.fsdecode(b"a\xff"))
    assert found.documents()[0].data == {"model": "p/m"}
    assert [problem.message for problem in found.diagnostics()] == ["username: the variable NAME is not UTF-8"]


def test_plain_braces_are_left_alone(data: Callable[[Any], dict[str, Any]]) -> None:
    """CAT-032: only these two forms mean something."""
    text = "{} {env} {env:} {other:x} {{env:UNSET_1}}"
    assert data({"username": text})["username"] == "{} {env} {env:} {other:x} {}"


def test_a_brace_may_be_written_as_an_escape(place: Place) -> None:
    """CAT-032: what counts is the value, not how the file spells it."""
    place.write("opencode.json", '{"username": "\\u007benv:NAME}"}')
    assert place.load(NAME="x").latest("username") == "x"
