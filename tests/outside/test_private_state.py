"""The folders of this program belong to their user alone, and what another user put there is not believed."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Machine

from holdfast.client.credential import kept_password

STRANGER = 12_345
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.clean_up()


@pytest.fixture
def fresh(machine: Machine) -> Machine:
    """Without any folder of this program, and with the umask of people who share a group."""
    for name in ("state", "data", "config"):
        shutil.rmtree(machine.home / name, ignore_errors=True)
    machine.started_by = ["sh", "-c", 'umask 000; exec "$@"', "sh"]
    return machine


def modes(machine: Machine) -> dict[str, str]:
    """Of every directory of this program."""
    folders = [path for name in ("state", "data") for path in (machine.home / name, *(machine.home / name).rglob("*"))]
    return {
        str(path.relative_to(machine.home)): f"{stat.S_IMODE(path.stat().st_mode):o}"
        for path in folders
        if path.is_dir() and path.parent.name != "snapshot"
    }


def test_folders_are_for_their_owner_whatever_the_umask_is(fresh: Machine) -> None:
    """OPS-460: those that a server, a command and a decision about trust make, and the parents made for them."""
    fresh.configure(permission={"bash": "allow"})
    fresh.script({"text": "done"})
    process = fresh.start("serve", "--port", "0")
    assert process.stdout is not None
    assert "listening on" in process.stdout.readline()
    fresh("trust", "--yes")
    fresh("run", "--standalone", "--model", "demo/scripted", "go")
    outer = {"state", "state/holdfast", "state/holdfast/servers", "data", "data/holdfast"}
    shown = modes(fresh)
    assert outer <= shown.keys()
    assert {path: mode for path, mode in shown.items() if path in outer and mode != "700"} == {}


def test_a_folder_that_others_may_use_is_corrected(machine: Machine) -> None:
    """OPS-460: one that an earlier version made with the umask of a shared group."""
    (machine.home / "state" / "holdfast").chmod(0o2775)
    machine.data.mkdir(parents=True)
    machine.data.chmod(0o777)
    machine.script({"text": "done"})
    assert machine("run", "--standalone", "--model", "demo/scripted", "go").code == 0
    shown = modes(machine)
    assert (shown["state/holdfast"], shown["data/holdfast"]) == ("700", "700")


@as_root
def test_choices_of_another_user_are_ignored(machine: Machine) -> None:
    """OPS-461: whoever could write in the folder, and it is said."""
    machine.choices.write_text(json.dumps({"shell": "/bin/false", "username": "chosen"}), encoding="utf-8")
    assert "chosen" in machine("config", "show").out
    os.chown(machine.choices, STRANGER, STRANGER)
    shown = machine("config", "show")
    assert "chosen" not in shown.out
    checked = machine("doctor")
    assert f"choices.json: is not believed: it is owned by user {STRANGER}; ignored" in checked.out + checked.err
    os.chown(machine.choices, 0, 0)
    machine.choices.chmod(0o666)
    assert "chosen" not in machine("config", "show").out


@as_root
def test_trust_of_another_user_is_ignored(machine: Machine) -> None:
    """OPS-461."""
    machine.configure(username="chosen", shell="/bin/false", plugin=["./p.py"])
    (machine.project / "p.py").write_text("", encoding="utf-8")
    assert machine("trust", "--yes").code == 0
    assert "not trusted" not in machine("doctor").err
    trust = machine.choices.with_name("trust.json")
    os.chown(trust, STRANGER, STRANGER)
    checked = machine("doctor")
    assert f"trust.json: is not believed: it is owned by user {STRANGER}; nothing is trusted" in checked.err
    assert "not trusted" in checked.err
    os.chown(trust, 0, 0)
    os.chown(trust.parent, STRANGER, STRANGER)
    assert "not trusted" in machine("doctor").err


@as_root
def test_a_password_of_another_user_is_not_used(machine: Machine) -> None:
    """OPS-461: neither by a server, which makes its own, nor by a client."""
    password = machine.choices.with_name("server-password")
    password.write_text("forged-by-another-user\n", encoding="ascii")
    password.chmod(0o644)
    os.chown(password, STRANGER, STRANGER)
    assert kept_password(machine.environment) is None
    process = machine.start("serve", "--port", "0")
    assert process.stdout is not None
    assert "listening on" in process.stdout.readline()
    assert "forged" not in password.read_text(encoding="ascii")
    assert (password.stat().st_uid, stat.S_IMODE(password.stat().st_mode)) == (os.getuid(), 0o600)


@as_root
def test_a_state_folder_of_another_user_is_refused(machine: Machine) -> None:
    """OPS-460: with the way out."""
    folder = machine.choices.parent
    os.chown(folder, STRANGER, STRANGER)
    ran = machine("serve", "--port", "0")
    assert ran.code == 1
    assert f"{folder} belongs to user {STRANGER}, so what is kept there cannot be believed" in ran.complaint
    assert "XDG_STATE_HOME" in ran.complaint
    machine.configure(plugin=["./p.py"])
    assert "belongs to user" in machine("trust", "--yes").err
