"""The case studies as a script plays them, on sources that have only the places which the patches change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("pydantic_ai")

from case_studies import FOLDER, NAMES, STEPS, UNLIMITED, Case, Player, Step, play, play_between, read_patch, read_step


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The kernel as far as the reference solutions change it, with other lines around."""
    folder = tmp_path / "linux"
    for change in (change for name in STEPS["linux"] for change in read_step("linux", name).changes if change.old):
        file = folder / change.path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as written:
            written.write("".join(f"/* line {number} of {change.path} */\n" for number in range(80)) + change.old)
    return folder


def count_in_view(player: Player, step: Step) -> tuple[int, int]:
    sight = player.figures["proc"].sight
    assert sight is not None
    names = [name for group in NAMES.values() for name in group]
    return sum(name in sight.text for name in names), len(step.lines & sight.lines)


def test_the_names_are_of_the_solution_and_not_of_what_the_user_says() -> None:
    step = read_step("linux", "syscall")
    code = "\n".join(line for change in step.changes for line in change.added)
    for name in (name for group in NAMES.values() for name in group):
        assert name in code or name.removeprefix("struct ") in code, name
        assert name not in step.prompt, name


def test_patches_are_read_as_edits() -> None:
    changes = {change.path: change for change in read_step("linux", "proc").changes}
    assert list(changes) == ["fs/proc/base.c"]
    patch = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n--- a/new\n+++ b/new\n@@ -0,0 +1 @@\n+all\n"
    assert [(change.path, change.old, change.new) for change in read_patch(patch)] == [
        ("x", "one\ntwo\n", "one\nthree\n"),
        ("new", "", "all\n"),
    ]
    for study, names in STEPS.items():
        assert {path.name for path in (FOLDER / study / "steps").iterdir()} == set(names)
        assert all(read_step(study, name).changes for name in names)


@pytest.mark.wide
def test_what_leaves_between_two_steps_is_read_again(source: Path) -> None:
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    step = read_step("linux", "syscall")

    free = play("linux", source, Case("cwl", UNLIMITED))
    assert count_in_view(free, step) == (21, len(step.lines))
    assert not free.figures["proc"].read_again
    pressed = play_between(source, free)
    assert count_in_view(pressed, step)[1] < len(step.lines)
    assert set(pressed.figures["proc"].read_again) & set(step.files)
    # Each play checks that the tree is the reference solution's, and leaves it as it was.
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == before


PROGRAMS = {
    "make": 'case "$*" in *bzImage) mkdir -p {build}/arch/x86/boot && echo kernel >{build}/arch/x86/boot/bzImage ;;'
    " *kernelrelease) echo 6.1-pidsummary ;; esac",
    "gcc": "touch $(printf '%s\\n' \"$@\" | grep /init)",
    "qemu-system-x86_64": 'case "$*" in *{build}*) echo all checks hold ;; esac',
}


@pytest.mark.wide
def test_a_kernel_is_built_and_booted_within_the_session(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, build = tmp_path / "programs", tmp_path / "built" / "build"
    build.mkdir(parents=True)
    programs.mkdir()
    (source / "scripts").mkdir()
    (source / "scripts" / "config").write_text("#!/bin/sh\n")
    (source / "scripts" / "config").chmod(0o755)
    for name, script in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{script.replace('{build}', str(build))}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")

    player = play("linux", source, Case("cwl", UNLIMITED), build)
    assert (build.parent / "kernel.log").read_text() == "6.1-pidsummary\n"
    assert (build.parent / "qemu.log").read_text() == "all checks hold\n"
    sight = player.figures["qemu"].sight
    assert sight is not None
    assert "-j$(nproc) bzImage" in sight.text

    (programs / "make").write_text("#!/bin/sh\necho no rule; exit 2\n")
    (build.parent / "kernel.code").unlink()
    with pytest.raises(SystemExit, match=r"linux, kernel: no rule"):
        play("linux", source, Case("cwl", UNLIMITED), build)
