"""Recovery-Bench: tasks that another agent failed, in the state that it left, as tasks of Harbor.

The failed attempt's commands are replayed when the environment is built, so every trial starts from the same files.
Processes that the attempt left running are missing: only Recovery-Bench itself replays in each running environment.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from wane.core.errors import ConfigError
from wane_research.evaluation.running.config import find_tasks

Messages: TypeAlias = Literal["full", "summary", "none"]
"""The agent's information about the failed attempt: its transcript, a summary of it, or only that it failed."""

SUMMARY: Final = "summary.txt"
"""The file beside a trajectory that the mode `summary` needs. In Recovery-Bench a model writes it."""

SECONDS: Final = 15  # time limit of a replayed command

_PREAMBLE: Final = """\
An earlier attempt at this task failed, and the environment is as that attempt left it. Look at what is there, and take
another way.
"""
_END: Final = "END_OF_REPLAY"
_END_OF_SCRIPT: Final = "END_OF_COMMANDS"
_POINTER: Final = "version https://git-lfs.github.com/"
_KEY: Final = re.compile(r"C-\w")  # as tmux names a key, which types nothing
_TRIAL: Final = re.compile(r"^(?:[0-9a-f]{6,}-)?(?P<task>.+?)__\w+$")


def write_recovery(traces: Path, tasks: Path, target: Path, messages: Messages) -> tuple[str, ...]:
    """Write the tasks of failed attempts into a folder, and return their names.

    Attempts are trials with a reward below 1: of Harbor, with an ATIF trajectory, or of Terminal-Bench's first harness,
    with the answers of Terminus in `agent-logs`.

    Raises:
        ConfigError: if there are none, or one cannot be used.
    """
    names: list[str] = []
    for name, logs, steps in _failed_attempts(traces):
        if name in names:
            raise ConfigError(f"{traces} has two failed attempts at {name}; one is needed")
        try:
            commands = list(_commands(steps))
            transcript = "\n\n".join(_transcript(steps))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"{logs} has no trajectory: {error!r}") from error
        (task,) = find_tasks(tasks, (name,), ())
        new = target / name
        shutil.copytree(task.path, new, dirs_exist_ok=True)
        dockerfile, config, instruction = new / "environment" / "Dockerfile", new / "task.toml", new / "instruction.md"
        text = dockerfile.read_text(encoding="utf-8").rstrip()
        dockerfile.write_text(f"{text}\n{_replay(name, commands)}", encoding="utf-8")
        # Harbor would use a prebuilt image instead of the Dockerfile.
        lines = config.read_text(encoding="utf-8").splitlines()
        lines = [line for line in lines if not line.startswith("docker_image")]
        config.write_text("\n".join(lines) + "\n", encoding="utf-8")
        known = ""
        if messages == "full":
            known = f"What was said and done in that attempt:\n\n{transcript}\n\nThe task:\n"
        elif messages == "summary":
            summary = logs / SUMMARY
            summary_text = summary.read_text(encoding="utf-8") if summary.exists() else ""
            if not summary_text:
                raise ConfigError(f"{name}: the mode summary needs a {SUMMARY} beside its trajectory")
            known = f"A summary of that attempt:\n\n{summary_text}\n\nThe task:\n"
        texts = [_PREAMBLE, known] if known else [_PREAMBLE]
        texts.append(instruction.read_text(encoding="utf-8"))
        instruction.write_text("\n".join(texts), encoding="utf-8")
        names.append(name)
    return tuple(names)


def _failed_attempts(traces: Path) -> Iterator[tuple[str, Path, list[dict[str, Any]]]]:
    """Yield the failed attempts: the name of the task, the folder with the logs, and the steps as ATIF has them."""
    none = True
    for path in sorted(traces.rglob("agent/trajectory.json")):
        none = False
        trial = path.parents[1]
        if not _has_passed(trial / "verifier" / "reward.txt"):
            match = _TRIAL.match(trial.name)
            yield match["task"] if match else trial.name, path.parent, list(_read_steps(path))
    for logs in sorted(traces.rglob("agent-logs")):
        none = False
        result = _read_object(logs.with_name("results.json"))
        if not result.get("is_resolved"):
            yield str(result.get("task_id")), logs, list(_read_episodes(logs))
    if none:
        raise ConfigError(
            f"{traces} has no trials, with agent/trajectory.json or agent-logs in them; is it a folder of traces?"
        )


def _read_steps(path: Path) -> Iterator[dict[str, Any]]:
    """The steps of an attempt through the files in which its trajectory goes on, each of which copies earlier steps."""
    seen: set[str] = set()
    following: object = path.name
    while isinstance(following, str) and Path(following).name not in seen:
        name = Path(following).name
        data = _read_object(path.parent / name)
        steps = data.get("steps")
        for step in steps if isinstance(steps, list) else []:
            copied = isinstance(step, dict) and step.get("is_copied_context")
            if not seen or not copied:
                yield step
        seen.add(name)
        following = data.get("continued_trajectory_ref")


def _read_episodes(logs: Path) -> Iterator[dict[str, Any]]:
    """The steps of an attempt by the first Terminus: each answer has commands, and the next prompt is their screen."""
    number = 0
    while (answered := logs / f"episode-{number}" / "response.json").exists():
        number += 1
        screen = logs / f"episode-{number}" / "prompt.txt"
        answer = _read_object(answered)
        calls = [{"arguments": {"keystrokes": typed["keystrokes"]}} for typed in answer.get("commands") or ()]
        shown = screen.read_text(encoding="utf-8").strip() if screen.exists() else ""
        yield {
            "source": "agent",
            "message": answer.get("explanation") or "",
            "tool_calls": calls,
            "observation": {"results": [{"content": shown}]},
        }


def _read_object(path: Path) -> dict[str, Any]:
    text = _read_text(path)
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path} is no JSON object")
    return value


def _read_text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    if text.startswith(_POINTER):
        raise ConfigError(f"{path} is a pointer of Git LFS, not the file; fetch it: git lfs pull")
    return text


def _has_passed(reward: Path) -> bool:
    """Return whether a trial got the full reward. A trial that was not graded did not."""
    if not reward.exists():
        return False
    text = _read_text(reward)
    try:
        return float(text) >= 1
    except ValueError:
        raise ConfigError(f"{reward} is not a reward: a number is needed") from None


def _replay(name: str, commands: Sequence[str]) -> str:
    lines = [
        f"timeout {SECONDS} bash -lc {shlex.quote(command)} </dev/null >/dev/null 2>&1 || true" for command in commands
    ]
    if any(line in (_END, _END_OF_SCRIPT) for command in lines for line in command.split("\n")):
        raise ConfigError(f"{name}: a command holds a line {_END} or {_END_OF_SCRIPT}, which ends the replay")
    # In Docker the shell of a RUN is the first process, which nothing ends. Elsewhere a `pkill -f` would end it, as
    # its arguments hold all commands: so another takes its place, whose arguments name a file.
    script = ['rm -f "$0"', "trap : TERM HUP INT", *lines, "true"]
    opening = [f"RUN <<'{_END}'", "script=$(mktemp)", f"cat >\"$script\" <<'{_END_OF_SCRIPT}'"]
    return "\n".join([*opening, *script, _END_OF_SCRIPT, 'exec sh "$script"', _END, ""])


def _commands(steps: list[dict[str, Any]]) -> Iterator[str]:
    """The shell commands of a trajectory, without single keys, and without those that Ctrl-C interrupted."""
    texts: list[str] = []
    for step in steps:
        for call in step.get("tool_calls") or ():
            arguments = call["arguments"]
            texts.append(str(arguments.get("command") or arguments.get("keystrokes") or ""))
    for text, following in pairwise([*texts, ""]):
        if text.strip() and not _KEY.fullmatch(text.strip()) and following.strip() != "C-c":
            yield text.rstrip("\n")


def _transcript(steps: list[dict[str, Any]]) -> Iterator[str]:
    for step in steps:
        if step["source"] != "agent":
            continue
        message = step.get("message")
        if isinstance(message, str) and message:
            yield message
        for call in step.get("tool_calls") or ():
            yield f"$ {json.dumps(call['arguments'])}"
        for result in (step.get("observation") or {}).get("results") or ():
            if isinstance(result.get("content"), str):
                yield result["content"]
