"""What is read from standard input although nobody asked for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cli import attached


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attached, "FIRST_BYTE_SECONDS", 0.01)


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The end of standard input to write to."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield writing


def test_a_pipe_that_stays_silent_is_left_alone(pipe: int, capsys: pytest.CaptureFixture[str]) -> None:
    """API-490: a line says so."""
    assert attached.read_piped() == b""
    assert "nothing came from standard input" in capsys.readouterr().err
    os.close(pipe)


def test_a_pipe_is_read_to_its_end(pipe: int, capsys: pytest.CaptureFixture[str]) -> None:
    """API-490."""
    os.write(pipe, b"some text")
    os.close(pipe)
    assert attached.read_piped() == b"some text"
    assert capsys.readouterr().err == ""


def test_a_closed_pipe_brings_nothing(pipe: int, capsys: pytest.CaptureFixture[str]) -> None:
    """API-490: at once, and without a word."""
    os.close(pipe)
    assert attached.read_piped() == b""
    assert capsys.readouterr().err == ""


def test_a_device_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """API-490."""
    with Path("/dev/zero").open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert attached.read_piped() == b""


def test_what_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch, pipe: int) -> None:
    """API-489: before it is sent."""
    monkeypatch.setattr(attached, "ATTACHED_BYTES", 4)
    os.write(pipe, b"12345")
    os.close(pipe)
    with pytest.raises(Exception, match="larger than"):
        attached.attached_stdin()
    with pytest.raises(Exception, match="larger than"):
        attached.attached_stdin(b"12345")
