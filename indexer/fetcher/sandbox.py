"""A seccomp-bpf filter for a process that only computes: it may use its memory and its open files, and end.

Every other system call fails with EPERM: no socket, no file is opened (read-only neither), no process is started or
signalled, no privilege is gained. Source: Linux, Documentation/userspace-api/seccomp_filter.rst.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import sys

_ALLOWED = {  # name: number on x86-64, on arm64
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "fstat": (5, 80),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "exit": (60, 93),
    "futex": (202, 98),
    "clock_gettime": (228, 113),
    "exit_group": (231, 94),
    "getrandom": (318, 278),
}
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, AUDIT_ARCH_*

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _MODE_FILTER = 22, 38, 2
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4  # offsets in struct seccomp_data
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def install() -> bool:
    """Confine this thread and those it starts, for good. False where the kernel has no seccomp filters, or the machine
    is neither x86-64 nor arm64: nothing has changed then."""
    architecture = _ARCHITECTURES.get(platform.machine())
    if sys.platform != "linux" or sys.maxsize < 1 << 32 or architecture is None:
        return False
    instructions = _filter(*architecture)
    program = _Program(len(instructions), b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = (ctypes.c_int, *(ctypes.c_void_p,) * 4)
    if prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return bool(prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(program), 0, 0) == 0)


def _filter(column: int, architecture: int) -> list[tuple[int, int, int, int]]:
    """Instructions (code, jump if true, jump if false, operand); a jump of n skips n instructions."""
    numbers = [numbers[column] for numbers in _ALLOWED.values()]
    checks = [(_JUMP_EQUAL, len(numbers) - index, 0, number) for index, number in enumerate(numbers)]
    return [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_JUMP_EQUAL, 0, len(numbers) + 1, architecture),
        (_LOAD, 0, 0, _NUMBER_AT),
        *checks,
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
