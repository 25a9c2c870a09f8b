"""OpenCode's configuration files: how they are read, in which order they count, and what happens to bad ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from holdfast.core.config.config import FILE_LIMIT, Config, ProviderOptions, config_home, load_config
from holdfast.core.config.jsonc import to_json


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / ".config" / "opencode"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "packages" / "core").mkdir(parents=True)
    return folder


def load(tmp_path: Path, root: Path, directory: Path | None = None, **environment: str) -> Config:
    return load_config(directory or root, root, {"HOME": str(tmp_path / "home"), **environment})


# -- JSON with comments --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1} // end', {"a": 1}),
        ('{/* one */ "a" /* two */: /* three */ 1 /* four */}', {"a": 1}),
        ('{"a": [1, 2, /* last */ ], // comma\n}', {"a": [1, 2]}),
        ('{"a": 1,\n // "b": 2,\n}', {"a": 1}),
        (
            '{"url": "https://x/y", "glob": "/* no */", "c": "a, }"}',
            {"url": "https://x/y", "glob": "/* no */", "c": "a, }"},
        ),
        ('{"quote": "\\"// no\\"", "end": "\\\\"} // yes', {"quote": '"// no"', "end": "\\"}),
        ('\ufeff{"a": 1}', {"a": 1}),
        ('{"a": "/* unclosed"}', {"a": "/* unclosed"}),
        ('{"a": 1, /* * / ** */ "b": 2}', {"a": 1, "b": 2}),
        ('{"a": 1, // see {x} and [y]\n "b": 2}', {"a": 1, "b": 2}),
        ('{"a": 1, /* } */ "b": 2}', {"a": 1, "b": 2}),
    ],
)
def test_comments_and_trailing_commas(text: str, value: object) -> None:
    """CAT-020: allowed anywhere between tokens; strings keep what looks like them."""
    assert msgspec.json.decode(to_json(text)) == value


@pytest.mark.parametrize("text", ['{"a": 1', '{"a": 1,,}', "[1 2]", '{"a": /* unclosed }'])
def test_what_is_wrong_stays_wrong(text: str) -> None:
    """CAT-026: forgiving about commas and comments, and about nothing else."""
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(to_json(text))


def test_nothing_moves_to_another_line() -> None:
    """CAT-027: so that a problem can be found where it is said to be."""
    text = '{\n // one\n /* two\n three */ "a": 1,\n}\n'
    assert [len(line) for line in to_json(text).split("\n")] == [len(line) for line in text.split("\n")]


@pytest.mark.parametrize(
    "between",
    ["/" * 120, "// " + "//" * 60, "/* c */ " * 60, "/" + "*" * 200 + "/", "//x\n" * 200],
    ids=["ruler", "slashes", "many comments", "stars", "many lines"],
)
def test_decoration_after_a_comma_costs_nothing(between: str) -> None:
    """CAT-020: rulers of slashes and rows of comments are common; reading them must not take exponential time."""
    text = '{"a": 1,\n' + between + '\n"b": 2}'
    program = "import sys; from holdfast.core.config.jsonc import to_json; sys.stdout.write(to_json(sys.stdin.read()))"
    done = subprocess.run(
        [sys.executable, "-c", program], input=text, capture_output=True, text=True, timeout=5, check=True
    )
    assert msgspec.json.decode(done.stdout) == {"a": 1, "b": 2}


# -- which files ---------------------------------------------------------------------------------------------------


def test_no_files_is_no_problem(tmp_path: Path, root: Path) -> None:
    """CAT-026."""
    assert load(tmp_path, root) == Config()


def test_nearer_files_win(tmp_path: Path, home: Path, root: Path) -> None:
    """CAT-020, CAT-021, CAT-029: global, then OPENCODE_CONFIG, then from the project's root down; jsonc after json."""
    named = tmp_path / "named.json"
    inner = root / "packages" / "core"
    order = [
        home / "opencode.json",
        home / "opencode.jsonc",
        named,
        root / "opencode.json",
        root / "opencode.jsonc",
        root / "packages" / "opencode.json",
        inner / "opencode.json",
        inner / "opencode.jsonc",
    ]
    for number, path in enumerate(order):
        path.write_text(f'{{"model": "p/{number}"}}')
        found = load(tmp_path, root, inner, OPENCODE_CONFIG=str(named))
        assert found.model == f"p/{number}"
        assert found.diagnostics == ()


def test_files_above_the_project_and_other_names_are_not_read(tmp_path: Path, root: Path) -> None:
    """CAT-020, CAT-021: `config.json` never; nothing above the root."""
    (tmp_path / "opencode.json").write_text('{"model": "p/above"}')
    (root / "config.json").write_text('{"model": "p/config"}')
    assert load(tmp_path, root).model is None


@pytest.mark.parametrize(("value", "off"), [("1", True), ("TRUE", True), ("0", False), ("yes", False), ("", False)])
def test_the_project_can_be_left_out(tmp_path: Path, root: Path, value: str, off: bool) -> None:
    """CAT-013, CAT-028: only `1` and `true`, in any case, switch it off."""
    (root / "opencode.json").write_text('{"model": "p/project"}')
    found = load(tmp_path, root, OPENCODE_DISABLE_PROJECT_CONFIG=value)
    assert found.model == (None if off else "p/project")


def test_where_the_global_folder_is(tmp_path: Path) -> None:
    """CAT-012: OPENCODE_CONFIG_DIR, else XDG, else below home."""
    assert config_home({"HOME": "/h"}) == Path("/h/.config/opencode")
    assert config_home({"HOME": "/h", "XDG_CONFIG_HOME": "/x"}) == Path("/x/opencode")
    assert config_home({"HOME": "/h", "XDG_CONFIG_HOME": "/x", "OPENCODE_CONFIG_DIR": "/d"}) == Path("/d")


def test_a_location_inside_the_global_folder_reads_it_once(tmp_path: Path, home: Path) -> None:
    """CAT-023."""
    (home / "opencode.json").write_text('{"provider": {"p": 7}}')
    found = load_config(home, home, {"HOME": str(tmp_path / "home")})
    assert len(found.diagnostics) == 1


# -- what is in them -----------------------------------------------------------------------------------------------


def test_providers_are_merged_field_by_field(tmp_path: Path, home: Path, root: Path) -> None:
    """CAT-030: by key; what the nearer file does not say stays."""
    (home / "opencode.json").write_text(
        """{"provider": {"mine": {"name": "Mine", "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "http://low", "apiKey": "low", "headers": {"a": "1", "b": "1"}, "timeout": 5},
            "models": {"one": {"name": "One"}}}}}"""
    )
    (root / "opencode.json").write_text(
        """{"provider": {"mine": {"options": {"baseURL": "http://high", "headers": {"b": "2"}},
            "models": {"two": {"id": "real-two"}}}, "other": {"models": {}}}}"""
    )
    found = load(tmp_path, root)
    mine = found.providers["mine"]
    assert (mine.name, mine.npm) == ("Mine", "@ai-sdk/openai-compatible")
    assert mine.options == ProviderOptions(
        base_url="http://high", api_key="low", headers={"a": "1", "b": "2"}, timeout=5
    )
    assert (set(mine.models), mine.models["two"].id) == ({"one", "two"}, "real-two")
    assert set(found.providers) == {"mine", "other"}


def test_variables_are_values_and_nothing_more(tmp_path: Path, root: Path) -> None:
    """CAT-032: substituted after parsing, so that a value cannot change the structure; no recursion."""
    (root / "opencode.json").write_text(
        '{"provider": {"p": {"options": {"apiKey": "{env:KEY}", "baseURL": "http://{env:HOST}/v1"}}}}'
    )
    hostile = '"}, "evil": {"{env:HOST}'
    found = load(tmp_path, root, KEY=hostile, HOST="h")
    assert found.providers["p"].options == ProviderOptions(api_key=hostile, base_url="http://h/v1")
    assert load(tmp_path, root, HOST="h").providers["p"].options.api_key == ""


# -- bad ones ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b"7",
        b"null",
        b'{"model": "p/x"} trailing',
        b"\xff\xfe",
        b'{"provider": {"p": 7}}',
        b'{"provider": {"p": {"options": {"baseURL": 7}}}}',
        b'{"provider": []}',
        b'{"provider": 7}',
        b'{"provider": "p"}',
    ],
)
def test_a_bad_file_is_reported_and_the_rest_still_counts(
    tmp_path: Path, home: Path, root: Path, content: bytes
) -> None:
    """CAT-026, CAT-027: a diagnostic that names the file, never an exception."""
    (home / "opencode.json").write_text('{"model": "p/good"}')
    (root / "opencode.json").write_bytes(content)
    found = load(tmp_path, root)
    assert found.model == "p/good"
    (problem,) = found.diagnostics
    assert problem.path == str(root / "opencode.json")
    assert problem.message


def test_null_means_not_set(tmp_path: Path, home: Path, root: Path) -> None:
    """CAT-030: it neither overrides nor complains."""
    (home / "opencode.json").write_text('{"model": "p/good", "provider": {"p": {"models": {"m": {}}}}}')
    (root / "opencode.json").write_text('{"model": null, "provider": null}')
    found = load(tmp_path, root)
    assert (found.model, set(found.providers), found.diagnostics) == ("p/good", {"p"}, ())


def test_one_bad_provider_does_not_take_the_others_along(tmp_path: Path, root: Path) -> None:
    """CAT-027: the entry is dropped, not the document."""
    (root / "opencode.json").write_text('{"model": "a/m", "provider": {"a": {"models": {"m": {}}}, "b": []}}')
    found = load(tmp_path, root)
    assert (found.model, set(found.providers)) == ("a/m", {"a"})
    (problem,) = found.diagnostics
    assert "provider b" in problem.message


@pytest.mark.parametrize("content", [b"", b"  \n"])
def test_an_empty_file_says_nothing(tmp_path: Path, root: Path, content: bytes) -> None:
    """CAT-026."""
    (root / "opencode.json").write_bytes(content)
    assert load(tmp_path, root).providers == {}


def test_files_that_cannot_be_read(tmp_path: Path, root: Path) -> None:
    """CAT-027: a folder of that name, a file that is far too large, a link that leads nowhere."""
    (root / "opencode.json").mkdir()
    with (root / "opencode.jsonc").open("wb") as file:
        file.truncate(FILE_LIMIT + 1)
    (root / "packages" / "opencode.json").symlink_to("nowhere")
    found = load(tmp_path, root, root / "packages")
    assert [Path(problem.path).name for problem in found.diagnostics] == ["opencode.json", "opencode.jsonc"]


def test_reading_never_writes(tmp_path: Path, home: Path, root: Path) -> None:
    """CAT-024: no file appears and none is touched."""
    (root / "opencode.json").write_text('{"model": "p/x"}')
    before = {path: os.stat(path).st_mtime_ns for path in tmp_path.rglob("*")}
    load(tmp_path, root)
    assert {path: os.stat(path).st_mtime_ns for path in tmp_path.rglob("*")} == before
