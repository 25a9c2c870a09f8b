"""The place of the database in configuration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.core.config.storage import configured_storage
from holdfast.core.config.user_settings import UnusableSetting
from holdfast.core.runtime.storage_choice import storage_place

ONE, OTHER = "postgresql://h/one", "postgresql://h/other"
FILE = Path("/data/holdfast.db")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "opencode").mkdir()
    return {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}


def configure(environment: dict[str, str], text: str | None = None, **storage: object) -> None:
    path = Path(environment["XDG_CONFIG_HOME"]) / "opencode" / "opencode.json"
    path.write_text(text if text is not None else json.dumps({"holdfast": {"storage": storage}}), encoding="utf-8")


def test_the_first_that_says_something_decides(environment: dict[str, str]) -> None:
    """STO-060."""
    assert storage_place(None, environment, FILE) == FILE
    configure(environment, url=ONE)
    assert storage_place(None, environment, FILE) == ONE
    assert storage_place(None, environment, FILE, {"holdfast": {"storage": {"url": OTHER}}}) == OTHER
    assert storage_place("", {**environment, "HOLDFAST_DATABASE": ""}, FILE) == ONE
    assert storage_place(None, {**environment, "HOLDFAST_DATABASE": OTHER}, FILE) == OTHER
    assert storage_place(None, {**environment, "HOLDFAST_DATABASE": "sqlite"}, FILE) == FILE
    assert storage_place(ONE, {**environment, "HOLDFAST_DATABASE": OTHER}, FILE) == ONE


def test_a_later_file_of_the_user_wins(environment: dict[str, str], tmp_path: Path) -> None:
    """STO-060."""
    configure(environment, url=ONE)
    inline = json.dumps({"holdfast": {"storage": {"url": "{env:WHERE}"}}})
    found = configured_storage({**environment, "OPENCODE_CONFIG_CONTENT": inline, "WHERE": OTHER})
    assert found == OTHER


@pytest.mark.parametrize(
    "text",
    [
        '{"holdfast": {"storage": {"url": "{env:MISSING}"}}}',
        '{"holdfast": {"storage": {"url": 7}}}',
        '{"holdfast": {"storage": "postgresql://u:hunter2@h/db"}}',
        '{"holdfast": {"storage": {"url": ""}}}',
        '{"holdfast": {"storage": {"url": "postgresql://u:hunter2@h/db"}, "titles": 7}}',
        '{"holdfast": {"storage": {"url": "postgresql://u:hunter2@h/db"}',
    ],
)
def test_a_setting_that_cannot_be_used_is_an_error(environment: dict[str, str], text: str) -> None:
    """STO-062, STO-063: Sessions are not stored elsewhere."""
    configure(environment, text)
    with pytest.raises(UnusableSetting, match=r"opencode\.json: holdfast\.storage\.url cannot be used") as refused:
        storage_place(None, environment, FILE)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("text", ["{}", '{"holdfast": {}}', '{"holdfast": {"storage": null}}', "[]", "{nonsense", ""])
def test_files_without_the_setting_do_not_matter(environment: dict[str, str], text: str) -> None:
    """STO-060."""
    configure(environment, text)
    assert storage_place(None, environment, FILE) == FILE
