"""The seccomp filter of confined commands, as a BPF program.

Invariants
- System calls that are not listed are allowed; a listed one fails with an error number and never kills the process.
- Programs for another architecture (32-bit) get no system calls.
- A filter cannot see the arguments of `clone3`, `openat2` and `io_uring`. The first two fail with ENOSYS, which makes C
  libraries use calls that can be filtered; the last one is refused."""

from __future__ import annotations

import errno
import struct
from typing import Literal, TypeAlias

from holdfast.core.process.sandbox.confinement import SandboxUnavailable

Sockets: TypeAlias = Literal["all", "internet", "none"]
"""`all`: Unix, IPv4, IPv6 and routing sockets. `internet`: the same without Unix sockets, for commands that see the
host's. `none`: no sockets. Socket pairs and pipes are always allowed."""

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_NAMES = tuple(
    """
    ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_getfd mount umount2 pivot_root chroot setns
    open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr open_tree_attr keyctl add_key request_key bpf
    perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register kexec_load kexec_file_load init_module
    finit_module delete_module open_by_handle_at lookup_dcookie nfsservctl swapon swapoff reboot settimeofday
    clock_settime clock_adjtime adjtimex acct quotactl quotactl_fd sethostname setdomainname syslog vhangup
    migrate_pages move_pages
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
_SHARED = {
    **dict(io_uring_setup=425, io_uring_enter=426, io_uring_register=427, open_tree=428, move_mount=429),
    **dict(fsopen=430, fsconfig=431, fsmount=432, fspick=433, clone3=435, openat2=437, pidfd_getfd=438),
    **dict(process_madvise=440, mount_setattr=442, quotactl_fd=443, fchmodat2=452, open_tree_attr=467),
}
NUMBERS: dict[str, dict[str, int]] = {
    "x86_64": {
        **_SHARED,
        **dict(open=2, ioctl=16, shmget=29, shmat=30, socket=41, clone=56, semget=64, msgget=68, creat=85, chmod=90),
        **dict(fchmod=91, ptrace=101, syslog=103, mknod=133, vhangup=153, pivot_root=155, adjtimex=159, chroot=161),
        **dict(acct=163, settimeofday=164, mount=165, umount2=166, swapon=167, swapoff=168, reboot=169),
        **dict(sethostname=170, setdomainname=171, iopl=172, ioperm=173, init_module=175, delete_module=176),
        **dict(quotactl=179, nfsservctl=180, lookup_dcookie=212, clock_settime=227, mq_open=240, kexec_load=246),
        **dict(add_key=248, request_key=249, keyctl=250, migrate_pages=256, openat=257, mknodat=259, fchmodat=268),
        **dict(unshare=272, move_pages=279, perf_event_open=298, prlimit64=302, open_by_handle_at=304),
        **dict(clock_adjtime=305, setns=308, process_vm_readv=310, process_vm_writev=311, kcmp=312),
        **dict(finit_module=313, kexec_file_load=320, bpf=321, userfaultfd=323),
    },
    "aarch64": {
        **_SHARED,
        **dict(lookup_dcookie=18, ioctl=29, mknodat=33, umount2=39, mount=40, pivot_root=41, nfsservctl=42),
        **dict(chroot=51, fchmod=52, fchmodat=53, openat=56, vhangup=58, quotactl=60, acct=89, unshare=97),
        **dict(kexec_load=104, init_module=105, delete_module=106, clock_settime=112, syslog=116, ptrace=117),
        **dict(reboot=142, sethostname=161, setdomainname=162, settimeofday=170, adjtimex=171, mq_open=180),
        **dict(msgget=186, semget=190, shmget=194, shmat=196, socket=198, add_key=217, request_key=218),
        **dict(keyctl=219, clone=220, swapon=224, swapoff=225, migrate_pages=238, move_pages=239),
        **dict(perf_event_open=241, prlimit64=261, open_by_handle_at=265, clock_adjtime=266, setns=268),
        **dict(process_vm_readv=270, process_vm_writev=271, kcmp=272, finit_module=273, bpf=280),
        **dict(userfaultfd=282, kexec_file_load=294),
    },
}

NEW_NAMESPACES = 0x7E020000
NEW_TIME = 0x80
SET_ID_BITS = 0o6000
CREATING = 0o100 | 0o20000000
"""O_CREAT and O_TMPFILE: `open` uses its mode only with these."""
FAKE_INPUT = (0x5412, 0x541C)
"""The ioctls TIOCSTI and TIOCLINUX, which inject terminal input."""
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16

_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW = 0x7FFF0000
_ERROR = 0x00050000
_NUMBER, _ARCHITECTURE = 0, 4


def program(machine: str, *, sockets: Sockets, shared: bool) -> bytes:
    """`shared`: the command shares the pid and IPC namespaces with the host, so System V IPC and `prlimit64` on other
    processes are refused too."""
    if machine not in ARCHITECTURES:
        raise SandboxUnavailable(f"system calls cannot be filtered on {machine}")
    code = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, ARCHITECTURES[machine], yes=1),
        _refuse(errno.ENOSYS),
        _step(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        code += [_step(_ANY_BIT, 0x40000000, no=1), _refuse(errno.ENOSYS)]  # the x32 variants
    numbers = NUMBERS[machine]
    names = [*_NAMES, "iopl", "ioperm", *(("shmget", "shmat", "semget", "msgget", "mq_open") if shared else ())]
    for name in names:
        if name in numbers:
            code += _when(numbers[name], [_refuse(errno.EPERM)])
    for name in ("clone3", "openat2"):
        code += _when(numbers[name], [_refuse(errno.ENOSYS)])
    code += _when(numbers["clone"], _unless_bits(0, NEW_NAMESPACES))
    code += _when(numbers["unshare"], _unless_bits(0, NEW_NAMESPACES | NEW_TIME))
    code += _when(numbers["socket"], _families(sockets))
    code += _when(numbers["ioctl"], _without_fake_input())
    for name, mode in dict(chmod=1, fchmod=1, fchmodat=2, fchmodat2=2, mknod=1, mknodat=2, creat=1).items():
        if name in numbers:
            code += _when(numbers[name], _unless_bits(mode, SET_ID_BITS))
    for name, flags in dict(open=1, openat=2).items():
        if name in numbers:
            code += _when(numbers[name], _opening(flags))
    if shared:
        code += _when(numbers["prlimit64"], [_argument(0), _step(_EQUAL, 0, no=1), _allow(), _refuse(errno.EPERM)])
    code.append(_allow())
    return b"".join(code)


def _when(number: int, block: list[bytes]) -> list[bytes]:
    """Run the block for this system call; every path of the block must return."""
    return [_step(_EQUAL, number, no=len(block)), *block]


def _unless_bits(argument: int, bits: int) -> list[bytes]:
    return [_argument(argument), _step(_ANY_BIT, bits, no=1), _refuse(errno.EPERM), _allow()]


def _opening(flags: int) -> list[bytes]:
    mode = _unless_bits(flags + 1, SET_ID_BITS)
    return [_argument(flags), _step(_ANY_BIT, CREATING, no=len(mode)), *mode, _allow()]


def _without_fake_input() -> list[bytes]:
    checks = [part for request in FAKE_INPUT for part in (_step(_EQUAL, request, no=1), _refuse(errno.EPERM))]
    return [_argument(1), *checks, _allow()]


def _families(sockets: Sockets) -> list[bytes]:
    if sockets == "none":
        return [_refuse(errno.EACCES)]
    families = (INET, INET6, UNIX)[: 2 if sockets == "internet" else 3]
    plain = [part for family in families for part in (_step(_EQUAL, family, no=1), _allow())]
    routing = [_step(_EQUAL, NETLINK, no=3), _argument(2), _step(_EQUAL, 0, no=1), _allow()]
    return [_argument(0), *plain, *routing, _refuse(errno.EACCES)]


def _argument(index: int) -> bytes:
    """Load the lower half: all checked arguments are 32 bits wide."""
    return _step(_LOAD, 16 + 8 * index)


def _allow() -> bytes:
    return _step(_RETURN, _ALLOW)


def _refuse(number: int) -> bytes:
    return _step(_RETURN, _ERROR | number)


def _step(operation: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, yes, no, value)
