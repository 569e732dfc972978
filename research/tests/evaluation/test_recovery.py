from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from wane.core.errors import ConfigError
from wane_research.evaluation.recovery import write_recovery
from wane_research.evaluation.sandbox.dockerfile import command, parse

STEPS = [
    {"source": "user", "message": "Do it."},
    {
        "source": "agent",
        "message": "I try.",
        "tool_calls": [{"arguments": {"command": "echo 'it is' >/app/a\n"}}],
        "observation": {"results": [{"content": "no such folder"}]},
    },
    {"source": "agent", "message": "", "tool_calls": [{"arguments": {"keystrokes": "sleep 1000\n"}}]},
    {"source": "agent", "message": "", "tool_calls": [{"arguments": {"keystrokes": "C-c"}}]},
]


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path, Path]:
    task = tmp_path / "tasks" / "build-it"
    (task / "environment").mkdir(parents=True)
    (task / "environment" / "Dockerfile").write_text("FROM a:1\nWORKDIR /app\n")
    (task / "instruction.md").write_text("Build it.\n")
    (task / "task.toml").write_text('[environment]\ndocker_image = "x"\n[agent]\ntimeout_sec = 9.0\n')
    for name, reward in (("0a1b2c3d-build-it__Xy12", "0"), ("0a1b2c3d-solved__Xy12", "1")):
        trial = tmp_path / "traces" / name
        for part in ("agent", "verifier"):
            (trial / part).mkdir(parents=True)
        (trial / "agent" / "trajectory.json").write_text(json.dumps({"steps": STEPS}))
        (trial / "verifier" / "reward.txt").write_text(f"{reward}\n")
    return tmp_path / "traces", tmp_path / "tasks", tmp_path / "new"


def read_script(task: Path) -> str:
    return command(parse((task / "environment" / "Dockerfile").read_text()).stages[-1].steps[-1])


def read_replay(task: Path) -> list[str]:
    return [line for line in read_script(task).splitlines() if line.startswith("timeout ")]


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="there is no /proc")
@pytest.mark.parametrize("signal", ["TERM", "KILL"])
def test_a_replayed_command_that_ends_what_holds_a_word_does_not_end_the_replay(
    folders: tuple[Path, Path, Path], tmp_path: Path, signal: str
) -> None:
    word = f"word-of-this-test-{tmp_path.name}"
    # As `pkill -f` does, and not every machine has that.
    kill = f"for p in /proc/[0-9]*; do grep -q {word} $p/cmdline && kill -{signal} ${{p#/proc/}}; done"
    calls = [{"arguments": {"command": text}} for text in (kill, f"echo {word} >{tmp_path}/after; exit 3")]
    steps = [{"source": "agent", "message": "", "tool_calls": calls}]
    (folders[0] / "0a1b2c3d-build-it__Xy12" / "agent" / "trajectory.json").write_text(json.dumps({"steps": steps}))
    write_recovery(*folders, "none")

    done = subprocess.run(
        ["sh", "-c", read_script(folders[2] / "build-it")], env={**os.environ, "TMPDIR": str(tmp_path)}, check=False
    )
    assert done.returncode == 0
    assert (tmp_path / "after").read_text() == f"{word}\n"
    assert not list(tmp_path.glob("tmp.*"))


def test_a_failed_attempt_is_replayed_in_the_environment(folders: tuple[Path, Path, Path]) -> None:
    assert write_recovery(*folders, "none") == ("build-it",)
    new = folders[2] / "build-it"
    assert read_replay(new) == [
        """timeout 15 bash -lc 'echo '"'"'it is'"'"' >/app/a' </dev/null >/dev/null 2>&1 || true"""
    ]
    assert "docker_image" not in (new / "task.toml").read_text()
    told = (new / "instruction.md").read_text()
    assert told.endswith("Build it.\n")
    assert "An earlier attempt at this task failed" in told
    assert "I try." not in told


def test_an_attempt_is_followed_through_its_files_and_what_they_copied_is_replayed_once(
    folders: tuple[Path, Path, Path],
) -> None:
    logs = folders[0] / "0a1b2c3d-build-it__Xy12" / "agent"
    files = ["trajectory.json", "trajectory.cont-1.json", "trajectory.cont-2.json"]
    for number, name in enumerate(files):
        steps = [
            {"source": "agent", "message": f"step {at}", "tool_calls": [{"arguments": {"command": f"make {at}"}}]}
            for at in range(number + 1)
        ]
        copied = [step | {"is_copied_context": True} for step in steps[:-1]]
        following = {"continued_trajectory_ref": files[number + 1]} if number < 2 else {}
        (logs / name).write_text(json.dumps({"steps": [*copied, steps[-1]], **following}))
    write_recovery(*folders, "full")
    new = folders[2] / "build-it"
    assert [line.split("'")[1] for line in read_replay(new)] == ["make 0", "make 1", "make 2"]
    assert (new / "instruction.md").read_text().count("step 0") == 1
    (logs / files[2]).unlink()
    with pytest.raises(ConfigError, match=r"trajectory\.cont-2\.json cannot be read"):
        write_recovery(*folders, "full")


def test_an_attempt_passed_with_the_full_reward_however_it_is_written(folders: tuple[Path, Path, Path]) -> None:
    reward = folders[0] / "0a1b2c3d-solved__Xy12" / "verifier" / "reward.txt"
    reward.write_text("1.00\n")
    assert write_recovery(*folders, "none") == ("build-it",)
    reward.write_text("passed\n")
    with pytest.raises(ConfigError, match=r"reward\.txt is not a reward"):
        write_recovery(*folders, "none")


def test_the_transcript_or_a_summary_is_told(folders: tuple[Path, Path, Path]) -> None:
    write_recovery(*folders, "full")
    told = (folders[2] / "build-it" / "instruction.md").read_text()
    assert told.index("I try.") < told.index("no such folder") < told.index("Build it.")
    with pytest.raises(ConfigError, match=r"build-it: the mode summary needs a summary\.txt"):
        write_recovery(*folders, "summary")
    (folders[0] / "0a1b2c3d-build-it__Xy12" / "agent" / "summary.txt").write_text(
        "It wrote to a folder that is not there."
    )
    write_recovery(*folders, "summary")
    assert "a folder that is not there" in (folders[2] / "build-it" / "instruction.md").read_text()


def test_traces_that_are_not_there_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is it a folder of traces"):
        write_recovery(tmp_path, tmp_path, tmp_path / "new", "none")


@pytest.mark.parametrize("part", ["verifier/reward.txt", "agent/trajectory.json"])
def test_a_pointer_in_the_place_of_a_file_is_told(folders: tuple[Path, Path, Path], part: str) -> None:
    path = folders[0] / "0a1b2c3d-build-it__Xy12" / part
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:61ff\nsize 29226\n")
    with pytest.raises(ConfigError, match=f"{path.name} is a pointer of Git LFS"):
        write_recovery(*folders, "none")


def test_attempts_of_the_first_harness_are_read(folders: tuple[Path, Path, Path]) -> None:
    traces, tasks, target = folders
    shutil.rmtree(traces)
    episodes: list[tuple[str, list[str]]] = [
        ("", ["cd src\n", "make"]),
        ("src: no such folder", ["vi a\n", "C-c", "C-d"]),
    ]
    for resolved, trial in ((False, "build-it.1-of-1.initial"), (True, "solved.1-of-1.initial")):
        folder = traces / "0a1b2c3d" / trial
        for number, (prompt, keystrokes) in enumerate(episodes):
            episode = folder / "agent-logs" / f"episode-{number}"
            episode.mkdir(parents=True)
            (episode / "prompt.txt").write_text(prompt)
            commands = [{"keystrokes": keys, "is_blocking": True, "timeout_sec": 5} for keys in keystrokes]
            (episode / "response.json").write_text(json.dumps({"explanation": "I build.", "commands": commands}))
        (folder / "results.json").write_text(json.dumps({"task_id": "build-it", "is_resolved": resolved}))
    assert write_recovery(traces, tasks, target, "full") == ("build-it",)
    assert [shlex.split(line)[4] for line in read_replay(target / "build-it")] == ["cd src", "make"]
    told = (target / "build-it" / "instruction.md").read_text()
    assert told.index("I build.") < told.index("src: no such folder") < told.index("Build it.")
