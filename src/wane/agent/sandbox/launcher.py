"""Writes the program that a sandbox starts first: it takes the last right away, and becomes the command.

Bubblewrap sets up its namespaces by mounting, which a process that Landlock restricts may not do. So Landlock has to
come after it, in the process that becomes the command, and no program that every system has would do it. This one has
some twenty instructions: `landlock_restrict_self` with rules that it inherits, `close`, `execve` with its arguments.
"""

from __future__ import annotations

import struct
from typing import Final

from wane.agent.sandbox.filters import AARCH64, X86_64

RULES: Final = 63
"""The descriptor of the rules of Landlock, which the program inherits."""

_ADDRESS: Final = 0x40_0000  # where the program is loaded
_HEADERS: Final = 64 + 56  # bytes ahead of its instructions
_MACHINES: Final = {X86_64: 62, AARCH64: 183}
_REFUSED: Final = 126
"""Its exit code if the kernel refuses the rules; then nothing runs."""


def build_launcher(machine: str) -> bytes:
    """Return the program, as a file of the format ELF, for one of `filters.MACHINES`."""
    code = _x86_64() if machine == X86_64 else _aarch64()
    size = _HEADERS + len(code)
    identity = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)  # 64 bits, little-endian
    header = struct.pack("<HHIQQQIHHHHHH", 2, _MACHINES[machine], 1, _ADDRESS + _HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    # One segment that is read and executed: the file as it is.
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _ADDRESS, _ADDRESS, size, size, 0x1_0000)
    return identity + header + segment + code


def _x86_64() -> bytes:
    restrict, close, execve, leave = 446, 3, 59, 60
    run = b"".join(
        [
            b"\xb8" + struct.pack("<I", close),  # mov eax, close
            b"\xbf" + struct.pack("<I", RULES),  # mov edi, RULES
            b"\x0f\x05",  # syscall
            b"\x48\x8b\x04\x24",  # mov rax, [rsp]: the number of arguments
            b"\x48\x8d\x74\x24\x10",  # lea rsi, [rsp+16]: the second argument and those behind it
            b"\x48\x8d\x54\xc4\x10",  # lea rdx, [rsp+rax*8+16]: the environment
            b"\x48\x8b\x3e",  # mov rdi, [rsi]
            b"\xb8" + struct.pack("<I", execve),  # mov eax, execve
            b"\x0f\x05",  # syscall
        ]
    )
    return b"".join(
        [
            b"\xb8" + struct.pack("<I", restrict),  # mov eax, landlock_restrict_self
            b"\xbf" + struct.pack("<I", RULES),  # mov edi, RULES
            b"\x31\xf6",  # xor esi, esi
            b"\x0f\x05",  # syscall
            b"\x85\xc0",  # test eax, eax
            b"\x75" + bytes([len(run)]),  # jnz behind `run`
            run,
            b"\xbf" + struct.pack("<I", _REFUSED),  # mov edi, _REFUSED
            b"\xb8" + struct.pack("<I", leave),  # mov eax, exit
            b"\x0f\x05",  # syscall
        ]
    )


def _aarch64() -> bytes:
    restrict, close, execve, leave = 446, 57, 221, 93
    call = 0xD400_0001  # svc #0

    def load(register: int, value: int) -> int:
        return 0xD280_0000 | value << 5 | register  # movz x, #value

    run = [
        load(0, RULES),
        load(8, close),
        call,
        0xF940_03E2,  # ldr x2, [sp]: the number of arguments
        0x9100_43E1,  # add x1, sp, #16: the second argument and those behind it
        0x8B02_0C22,  # add x2, x1, x2, lsl #3: the environment
        0xF940_0020,  # ldr x0, [x1]
        load(8, execve),
        call,
    ]
    code = [load(0, RULES), load(1, 0), load(8, restrict), call]
    code += [0xB500_0000 | (len(run) + 1) << 5]  # cbnz x0, behind `run`
    code += [*run, load(0, _REFUSED), load(8, leave), call]
    return struct.pack(f"<{len(code)}I", *code)
