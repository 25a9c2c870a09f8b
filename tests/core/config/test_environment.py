"""Where this user's files are, and the switches."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.config.environment import Directories, config_home, directories, home_directory, is_enabled


def test_directories_follow_the_platforms_rules() -> None:
    """CAT-012: configuration is shared with OpenCode; nothing else is."""
    assert directories({"HOME": "/h", "TMPDIR": "/t"}) == Directories(
        config=Path("/h/.config/opencode"),
        data=Path("/h/.local/share/holdfast"),
        cache=Path("/h/.cache/holdfast"),
        state=Path("/h/.local/state/holdfast"),
        tmp=Path("/t/holdfast"),
    )
    moved = directories(
        {"HOME": "/h", "XDG_DATA_HOME": "/d", "XDG_CACHE_HOME": "/c", "XDG_STATE_HOME": "/s", "XDG_CONFIG_HOME": "/x"}
    )
    assert (moved.config, moved.data) == (Path("/x/opencode"), Path("/d/holdfast"))
    assert (moved.cache, moved.state) == (Path("/c/holdfast"), Path("/s/holdfast"))
    assert (moved.log, moved.repos, moved.bin) == (
        Path("/d/holdfast/log"),
        Path("/d/holdfast/repos"),
        Path("/c/holdfast/bin"),
    )


def test_the_config_folder_and_home_can_be_replaced() -> None:
    """CAT-012: OPENCODE_CONFIG_DIR, else XDG, else below home; OPENCODE_TEST_HOME is home."""
    assert config_home({"HOME": "/h", "XDG_CONFIG_HOME": "/x", "OPENCODE_CONFIG_DIR": "/d"}) == Path("/d")
    assert home_directory({"HOME": "/h", "OPENCODE_TEST_HOME": "/t"}) == Path("/t")
    assert config_home({"HOME": "/h", "OPENCODE_TEST_HOME": "/t"}) == Path("/t/.config/opencode")


@pytest.mark.parametrize(
    ("value", "on"), [("1", True), ("TRUE", True), ("true", True), ("0", False), ("yes", False), ("", False)]
)
def test_only_1_and_true_turn_a_switch_on(value: str, on: bool) -> None:
    """CAT-013: only `1` and `true`, in any case."""
    assert is_enabled({"SWITCH": value}, "SWITCH") is on
    assert not is_enabled({}, "SWITCH")
