"""Checks of `/proc/<pid>/pid_summary`, and that the system call still works."""

from __future__ import annotations

from linux_checks import Said, grade, kernel_of_the_tree, proc_entry_works, run_probe, system_call_works

said: Said = {}
files: dict[str, list[str]] = {}


def boots() -> bool:
    found, lines = run_probe(kernel_of_the_tree())
    said.update(found)
    files.update(lines)
    return True


grade(
    {
        "boots": boots,
        "behaviour": lambda: proc_entry_works(said, files),
        "regression": lambda: system_call_works(said),
    }
)
