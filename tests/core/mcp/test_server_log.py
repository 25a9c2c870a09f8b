"""Logs of MCP servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.mcp.server_log import LINE_BYTES, PARTIAL_BYTES, ServerLog, former, log_path, read_log


@pytest.fixture
def log(tmp_path: Path) -> ServerLog:
    return ServerLog(tmp_path / "logs" / "s.log", frozenset(("hidden-value",)), file_bytes=2000)


def written(log: ServerLog) -> list[str]:
    return [line.partition(" ")[2] for line in log.path.read_text(encoding="utf-8").splitlines()]


def test_a_line_waits_for_its_end(log: ServerLog) -> None:
    """MCP-163."""
    log.errors(b"one\ntw")
    log.errors(b"o\n\nthr\x1b[1mee")
    assert written(log) == ["stderr: one", "stderr: two"]
    log.end_of_errors()
    assert written(log)[-1] == "stderr: thr\ufffd[1mee"
    assert log.last_line == "thr\ufffd[1mee"


def test_a_secret_is_hidden_wherever_a_chunk_ends(log: ServerLog) -> None:
    """MCP-164: also in a line that is too long to be kept whole."""
    log.errors(b"key=hidden-")
    log.errors(b"value\n")
    log.errors(b"x" * (PARTIAL_BYTES - 5) + b"hidden-value")
    log.errors(b"-value and hidden-value\nnext hidden-value\n")
    log.line("log", "hidden-value")
    text = log.path.read_text(encoding="utf-8")
    assert "hidden" not in text
    assert "-value" not in text
    assert written(log)[-2:] == ["stderr: next ***", "log: ***"]


def test_lines_and_files_are_bounded(log: ServerLog) -> None:
    """MCP-163: one former file is kept."""
    for number in range(100):
        log.line("log", f"{number} " + "y" * 100)
    assert log.path.stat().st_size <= 2000
    assert former(log.path).stat().st_size <= 2000
    assert written(log)[-1].startswith("log: 99 ")
    assert sorted(path.name for path in log.path.parent.iterdir()) == ["s.log", "s.log.1"]
    big = ServerLog(log.path.with_name("big"))
    big.line("log", "z" * (2 * LINE_BYTES))
    assert len(written(big)[0]) == len("log: ") + LINE_BYTES


def test_a_reader_goes_on_where_it_stopped(log: ServerLog) -> None:
    """API-597: also across the change of files, from whose beginning it goes on then."""
    assert read_log(log.path).text == ""
    log.line("log", "one")
    first = read_log(log.path)
    assert first.text.endswith("log: one\n")
    assert read_log(log.path, first.position).text == ""
    log.line("log", "two")
    second = read_log(log.path, first.position)
    assert second.text.endswith("log: two\n")
    assert "one" not in second.text
    for number in range(30):
        log.line("log", f"{number} " + "y" * 100)
    assert read_log(log.path, second.position).text.splitlines()[-1].startswith(written(log)[-1][:0])
    assert read_log(log.path, "nonsense").text
    assert read_log(log.path, f"{log.path.stat().st_ino}:999999").text == ""


def test_the_end_of_a_long_log_begins_with_a_whole_line(log: ServerLog) -> None:
    """API-597."""
    for number in range(10):
        log.line("log", f"line {number}")
    part = read_log(log.path, limit=100)
    assert len(part.text) <= 100
    assert all("log: line" in line for line in part.text.splitlines())


def test_a_log_that_cannot_be_written_is_given_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    log = ServerLog(tmp_path / "file" / "s.log")
    log.line("log", "one")
    log.line("log", "two")
    assert caplog.text.count("cannot be written") == 1


def test_each_server_of_each_location_has_a_file_of_its_own(tmp_path: Path) -> None:
    paths = {log_path(tmp_path, place, name) for place in ("/a", "/b") for name in ("x", "x/../y", "é", "X" * 500)}
    assert len(paths) == 8
    assert all(path.parent == tmp_path and len(path.name) < 100 for path in paths)
