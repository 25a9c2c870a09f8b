"""Names that are protected before they exist."""

from __future__ import annotations

from pathlib import Path

from holdfast.core.process.sandbox.placeholder import placeholders


def test_a_missing_name_is_taken_while_a_command_runs(tmp_path: Path) -> None:
    """TOL-373: by an empty directory, and only while one runs."""
    path = tmp_path / "opencode.json"
    with placeholders([path]):
        assert path.is_dir()
        with placeholders([path]):
            assert path.is_dir()
        assert path.is_dir()
    assert not path.exists()


def test_an_existing_path_gets_no_placeholder(tmp_path: Path) -> None:
    """TOL-373."""
    file, folder, empty = tmp_path / ".envrc", tmp_path / ".opencode", tmp_path / "hooks"
    file.write_text("x", encoding="utf-8")
    (folder / "agents").mkdir(parents=True)
    empty.mkdir()
    with placeholders([file, folder, empty, tmp_path / "absent" / "hooks"]):
        pass
    assert file.read_text(encoding="utf-8") == "x"
    assert (folder / "agents").is_dir()
    assert empty.is_dir()
    assert not (tmp_path / "absent").exists()


def test_one_that_was_left_behind_is_removed(tmp_path: Path) -> None:
    """TOL-373: by a process that was killed."""
    (tmp_path / "opencode.jsonc").mkdir()
    with placeholders([tmp_path / "opencode.jsonc"]):
        pass
    assert not (tmp_path / "opencode.jsonc").exists()


def test_a_file_put_in_place_of_a_placeholder_is_kept(tmp_path: Path) -> None:
    """TOL-373: by the user, meanwhile, outside."""
    path = tmp_path / ".opencode"
    with placeholders([path]):
        (path / "kept").write_text("x", encoding="utf-8")
    assert (path / "kept").exists()
