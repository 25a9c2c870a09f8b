"""The filter of system calls, carried out by a small interpreter of its instructions."""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest

from holdfast.core.process.sandbox.confinement import SandboxUnavailable
from holdfast.core.process.sandbox.seccomp import ARCHITECTURES, NUMBERS, Sockets, program

ALLOW = 0x7FFF0000
MACHINES = ["x86_64", "aarch64"]
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


def outcome(code: bytes, machine: str, name: str | int, *arguments: int) -> int:
    """0 if the call is allowed, else its error number."""
    number = NUMBERS[machine][name] if isinstance(name, str) else name
    arguments = (*arguments, *([0] * (6 - len(arguments))))
    data = struct.pack("=IIQ6Q", number, ARCHITECTURES[machine], 0, *arguments)
    steps, at, loaded = list(struct.iter_unpack("=HBBI", code)), 0, 0
    for _ in range(len(steps)):
        operation, yes, no, value = steps[at]
        at += 1
        if operation == 0x20:
            (loaded,) = struct.unpack_from("=I", data, value)
        elif operation == 0x15:
            at += yes if loaded == value else no
        elif operation == 0x45:
            at += yes if loaded & value else no
        else:
            assert operation == 0x06
            return 0 if value == ALLOW else value & 0xFFFF
    raise AssertionError("the program does not end")


def made(machine: str, sockets: Sockets = "all", *, shared: bool = False) -> bytes:
    return program(machine, sockets=sockets, shared=shared)


@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_are_those_of_the_kernel(machine: str) -> None:
    """TOL-372: of every call that this machine's headers know."""
    if not HEADERS[machine].exists():
        pytest.skip("no kernel headers")
    text = HEADERS[machine].read_text(encoding="utf-8")
    known = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)\n", text)}
    ours = NUMBERS[machine]
    assert {name: ours[name] for name in ours.keys() & known.keys()} == {
        name: known[name] for name in ours.keys() & known.keys()
    }
    assert len(ours.keys() & known.keys()) > 50


@pytest.mark.parametrize("machine", MACHINES)
def test_dangerous_system_calls_are_refused(machine: str) -> None:
    """TOL-372."""
    code = made(machine)
    for name in ("ptrace", "mount", "keyctl", "bpf", "io_uring_setup", "init_module", "setns", "process_vm_readv"):
        assert outcome(code, machine, name) == errno.EPERM, name
    assert outcome(code, machine, "clone3") == errno.ENOSYS
    assert outcome(code, machine, "openat2") == errno.ENOSYS
    assert outcome(code, machine, "clone", 0x10000000 | 17) == errno.EPERM
    assert outcome(code, machine, "clone", 0x01200011) == 0
    assert outcome(code, machine, "unshare", 0x80) == errno.EPERM
    assert outcome(code, machine, "unshare", 0x400) == 0
    assert outcome(code, machine, "ioctl", 0, 0x5412) == errno.EPERM
    assert outcome(code, machine, "ioctl", 0, 0x5401) == 0
    assert outcome(code, machine, "fchmod", 3, 0o4755) == errno.EPERM
    assert outcome(code, machine, "fchmodat", 3, 0, 0o2755) == errno.EPERM
    assert outcome(code, machine, "fchmod", 3, 0o755) == 0
    assert outcome(code, machine, "openat", 3, 0, 0o102, 0o4755) == errno.EPERM
    assert outcome(code, machine, "openat", 3, 0, 0, 0o4755) == 0  # without O_CREAT nobody looks at the mode
    assert outcome(code, machine, "prlimit64", 5) == 0
    assert outcome(code, machine, 63) == 0


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("sockets", "allowed"), [("all", {1, 2, 10, 16}), ("internet", {2, 10, 16}), ("none", set[int]())]
)
def test_only_ordinary_socket_families_are_allowed(machine: str, sockets: Sockets, allowed: set[int]) -> None:
    """TOL-371, TOL-372: no packet, Bluetooth or hypervisor sockets in any case, and netlink only for routes."""
    code = made(machine, sockets)
    assert {family for family in range(50) if outcome(code, machine, "socket", family) == 0} == allowed
    assert outcome(code, machine, "socket", 16, 3, 15) == errno.EACCES


@pytest.mark.parametrize("machine", MACHINES)
def test_shared_memory_and_limits_of_the_host_are_closed(machine: str) -> None:
    """TOL-372: without namespaces of its own, a command gets no System V memory and no limits of others."""
    code = made(machine, "none", shared=True)
    assert outcome(code, machine, "shmget") == errno.EPERM
    assert outcome(code, machine, "prlimit64", 5) == errno.EPERM
    assert outcome(code, machine, "prlimit64", 0) == 0


def test_calls_of_another_architecture_are_refused() -> None:
    """TOL-372."""
    code = made("x86_64")
    assert outcome(code, "x86_64", 0x40000000 | 39) == errno.ENOSYS
    assert outcome(made("aarch64"), "x86_64", 39) == errno.ENOSYS
    with pytest.raises(SandboxUnavailable, match="riscv64"):
        made("riscv64")
