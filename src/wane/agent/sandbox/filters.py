"""Builds the filters of system calls (seccomp) that the sandboxes on Linux install.

A filter lists what it refuses. Bubblewrap has namespaces of its own for files, processes and the network, so its filter
refuses what would lead out of them, and sockets: a socket in the working directory leads to a program outside.
Landlock alone lacks more. It has no rule for modes, owners, times and attributes of files, for shared memory, for
other processes' priorities, and before its version 6 none for signals.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

X86_64: Final = "x86_64"
AARCH64: Final = "aarch64"

MACHINES: Final[Mapping[str, int]] = {X86_64: 0xC000003E, AARCH64: 0xC00000B7}
"""The machines whose system calls are known, by `platform.machine()`, and how the kernel names them in a filter."""

# Numbers on x86_64 and aarch64, from the kernel's tables; None where the machine has no such call.
_LEADS_OUT: Final[Mapping[str, tuple[int, int | None]]] = {
    "socket": (41, 198),
    "connect": (42, 203),
    "accept": (43, 202),
    "accept4": (288, 242),
    "bind": (49, 200),
    "listen": (50, 201),
    # A ring sends and receives without any of these calls.
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "syslog": (103, 116),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "fanotify_init": (300, 262),
}

_CHANGES_ATTRIBUTES: Final[Mapping[str, tuple[int, int | None]]] = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "lchown": (94, None),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}

_LACKED_BY_LANDLOCK: Final[Mapping[str, tuple[int, int | None]]] = {
    **_CHANGES_ATTRIBUTES,
    "truncate": (76, 45),
    "shmget": (29, 194),
    "shmctl": (31, 195),
    "shmat": (30, 196),
    "semget": (64, 190),
    "semctl": (66, 191),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgctl": (71, 187),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "inotify_add_watch": (254, 27),
}

_SIGNALS: Final[Mapping[str, tuple[int, int | None]]] = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
}

_CLONE: Final = (56, 220)
_CLONE3: Final = (435, 435)
_SOCKETPAIR: Final = (53, 199)
_PRLIMIT: Final = (302, 261)
_IOCTL: Final = (16, 29)

_NAMESPACES: Final = 0x7E02_0000
"""The flags of `clone` for new namespaces."""

_FILE_FLAGS: Final = (0x4008_6602, 0x401C_5820)
"""Requests of `ioctl` that set a file's flags, for which a file need only be readable."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN, _AND = 0x20, 0x15, 0x35, 0x45, 0x06, 0x54
_NUMBER, _MACHINE, _FIRST, _SECOND = 0, 4, 16, 24  # offsets in what the kernel shows to a filter
_ALLOW, _NOT_PERMITTED, _UNKNOWN = 0x7FFF_0000, 0x0005_0001, 0x0005_0026  # EPERM, ENOSYS
_AF_UNIX: Final = 1


def build_filter(
    machine: str, *, landlock: int | None = None, network: bool = False, keeps_attributes: bool = False
) -> bytes:
    """Return a filter for the kernel, as `struct sock_filter` in a row.

    Args:
        machine: one of `MACHINES`.
        landlock: the version of Landlock that it stands beside; None for namespaces.
        network: whether sockets are allowed.
        keeps_attributes: whether modes, owners, times and attributes stay: for what only reads. Standard input and
            output come from outside, and root could change those of the devices that all share.
    """
    column = 0 if machine == X86_64 else 1
    refused = dict(_LEADS_OUT)
    if network:
        refused = {name: numbers for name, numbers in refused.items() if name not in _OF_SOCKETS}
    if keeps_attributes:
        refused |= _CHANGES_ATTRIBUTES
    if landlock is not None:
        refused |= _LACKED_BY_LANDLOCK
        if landlock < 6:
            refused |= _SIGNALS
    code = [_step(_LOAD, _MACHINE), _step(_EQUAL, MACHINES[machine], 1, 0), _step(_RETURN, _NOT_PERMITTED)]
    code.append(_step(_LOAD, _NUMBER))
    if machine == X86_64:  # the same calls again, with 32-bit pointers
        code += [_step(_AT_LEAST, 0x4000_0000, 0, 1), _step(_RETURN, _NOT_PERMITTED)]
    for number in (numbers[column] for numbers in refused.values()):
        if number is None:
            continue
        code += [_step(_EQUAL, number, 0, 1), _step(_RETURN, _NOT_PERMITTED)]
    # The flags of `clone3` are in memory, where no filter looks; the C library falls back on `clone`.
    code += [_step(_EQUAL, _CLONE3[column], 0, 1), _step(_RETURN, _UNKNOWN)]
    code += _unless(_CLONE[column], _FIRST, [_step(_ANY_BIT, _NAMESPACES, 0, 1), _step(_RETURN, _NOT_PERMITTED)])
    code += _unless(_PRLIMIT[column], _FIRST, [_step(_EQUAL, 0, 1, 0), _step(_RETURN, _NOT_PERMITTED)])
    if not network:
        tests = [_step(_EQUAL, _AF_UNIX, 1, 0), _step(_RETURN, _NOT_PERMITTED)]
        # A pair of datagram sockets (or raw ones) sends to any address.
        tests += [_step(_LOAD, _SECOND), _step(_AND, 0xF), _step(_EQUAL, 1, 2, 0), _step(_EQUAL, 5, 1, 0)]
        tests += [_step(_RETURN, _NOT_PERMITTED)]
        code += _unless(_SOCKETPAIR[column], _FIRST, tests)
    if landlock is not None or keeps_attributes:
        tests = [step for flag in _FILE_FLAGS for step in (_step(_EQUAL, flag, 0, 1), _step(_RETURN, _NOT_PERMITTED))]
        code += _unless(_IOCTL[column], _SECOND, tests)
    return b"".join([*code, _step(_RETURN, _ALLOW)])


_OF_SOCKETS: Final = frozenset({"socket", "connect", "accept", "accept4", "bind", "listen"})


def _step(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", operation, if_true, if_false, value)


def _unless(number: int, argument: int, tests: list[bytes]) -> list[bytes]:
    """Return steps that test an argument of one call, and allow that call if no test refuses it."""
    steps = [_step(_LOAD, argument), *tests, _step(_RETURN, _ALLOW)]
    return [_step(_EQUAL, number, 0, len(steps)), *steps]
