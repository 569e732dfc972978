"""Checks of the system call `pid_summary`, in a small kernel built here."""

from __future__ import annotations

from linux_checks import Said, grade, header_is_there, kernel_of_the_tree, run_probe, system_call_works

said: Said = {}


def boots() -> bool:
    found, _ = run_probe(kernel_of_the_tree())
    said.update(found)
    return True


grade({"boots": boots, "header": header_is_there, "behaviour": lambda: system_call_works(said)})
