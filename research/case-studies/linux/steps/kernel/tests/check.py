"""Checks of the kernel that was built: it boots, it is the one that was asked for, and it has both features."""

from __future__ import annotations

from linux_checks import TREE, Said, grade, proc_entry_works, run_probe, system_call_works

said: Said = {}
files: dict[str, list[str]] = {}


def boots() -> bool:
    found, lines = run_probe(TREE / "arch/x86/boot/bzImage")
    said.update(found)
    files.update(lines)
    return True


def features() -> bool:
    return system_call_works(said) and proc_entry_works(said, files)


grade(
    {
        "boots": boots,
        "release": lambda: "-pidsummary" in said["probe"]["release"],
        "features": features,
    }
)
