"""Writes without waiting for the disk. A sync protects from a loss of power, which no test has: what a killed process wrote
stays. A commit waits for it 1 ms and more, and it is a sixth of the processor time of a test with a Session."""

from __future__ import annotations

import os

import pytest

from holdfast.core.database import sqlite

SYNCHRONOUS = sqlite.SYNCHRONOUS
"""The setting of the product."""


def leave_out_syncs(patch: pytest.MonkeyPatch) -> None:
    """In this process."""
    patch.setattr(sqlite, "SYNCHRONOUS", "synchronous=off")
    patch.setattr(os, "fsync", _check_descriptor)


def sync_commits(patch: pytest.MonkeyPatch) -> None:
    """For tests that observe the syncs of SQLite."""
    patch.setattr(sqlite, "SYNCHRONOUS", SYNCHRONOUS)


def _check_descriptor(descriptor: int) -> None:
    os.fstat(descriptor)
