"""Checks of the validation: it passes with the built kernel, and fails with kernels that lack a feature."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from linux_checks import CHECKS, JOBS, TREE, grade, run

SCRIPT = Path("/app/validate/run.sh")


def run_validation(kernel: Path | None = None) -> int:
    """The exit code of the script; 6 minutes are more than it may take."""
    env = dict(os.environ) if kernel is None else {**os.environ, "KERNEL": str(kernel)}
    try:
        done = subprocess.run([SCRIPT], cwd="/", env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=360)
    except subprocess.TimeoutExpired:
        print(f"took more than 6 minutes ({kernel or 'the kernel built'})")
        return -1
    print(done.stdout.decode(errors="replace")[-1500:], f"-> {done.returncode} ({kernel or 'the kernel built'})")
    return done.returncode


def passes() -> bool:
    return SCRIPT.exists() and run_validation() == 0


def broken(name: str, file: str, pattern: str, by: str) -> Path:
    """Build the tree again, in a copy, with a change that takes a feature away; only what it touches is compiled."""
    copy = CHECKS / "broken"
    CHECKS.mkdir(parents=True, exist_ok=True)
    run("rsync", "--archive", "--delete", "--exclude=.git", f"{TREE}/", f"{copy}/")
    paths = sorted(copy.glob(file))
    changed = 0
    for path in paths:
        text = path.read_text(errors="surrogateescape")
        new, count = re.subn(pattern, by, text)
        if count:
            path.write_text(new, errors="surrogateescape")
            changed += count
    if not changed:
        raise RuntimeError(f"nothing to change for: {name}")
    run("make", JOBS, "bzImage", cwd=copy)
    kernel = CHECKS / f"{name}.bzImage"
    kernel.write_bytes((copy / "arch/x86/boot/bzImage").read_bytes())
    return kernel


def finds_no_system_call() -> bool:
    entry = r"bool do_syscall_x64\([^{]*\{[^{}]*?unsigned int unr = nr;"
    change = r"\g<0>\n\n\tif (unr == 451) {\n\t\tregs->ax = -ENOSYS;\n\t\treturn true;\n\t}"
    kernel = broken("no-syscall", "arch/x86/entry/common.c", entry, change)
    return run_validation(kernel) > 0


def finds_no_entry() -> bool:
    return run_validation(broken("no-entry", "fs/proc/*.c", r'"pid_summary"', '"pid_missing"')) > 0


def finds_no_kernel() -> bool:
    empty = CHECKS / "empty.bzImage"
    CHECKS.mkdir(parents=True, exist_ok=True)
    empty.write_bytes(b"")
    return run_validation(empty) > 0


grade(
    {
        "passes": passes,
        "finds_no_kernel": finds_no_kernel,
        "finds_no_system_call": finds_no_system_call,
        "finds_no_entry": finds_no_entry,
    }
)
