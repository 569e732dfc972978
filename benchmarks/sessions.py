"""What it takes to list 10,000 saved sessions, beside `wane --help`. Run with `python benchmarks/sessions.py`.

Each command runs five times, alternately with `wane --help`; the figures are medians of processor time.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from wane.agent.options import AGENT_FORMAT
from wane.journal import MessageRecord, SessionStore

SESSIONS = 10_000
MESSAGES = 20
RUNS = 5

LATEST = """\
import sys
from pathlib import Path
from wane.journal import SessionStore
SessionStore(Path(sys.argv[1])).latest(Path.cwd(), "pydantic_ai")
"""

WANE = (sys.executable, "-m", "wane")
COMMANDS: dict[str, tuple[str, ...]] = {
    "wane sessions --json": (*WANE, "sessions", "--json"),
    "wane sessions": (*WANE, "sessions"),
    "what wane -c continues": (sys.executable, "-c", LATEST),
}


def fill(root: Path, cwd: Path) -> None:
    store = SessionStore(root)
    answer = MessageRecord({"kind": "response", "parts": [{"part_kind": "text", "content": "y" * 1_000}]})
    for number in range(SESSIONS):
        prompt = {"part_kind": "user-prompt", "content": f"Fix bug {number} {'x' * 100}"}
        with store.create(cwd, message_format=AGENT_FORMAT, fsync=False) as journal:
            journal.extend([MessageRecord({"kind": "request", "parts": [prompt]}), *[answer] * (MESSAGES - 1)])


def seconds(command: tuple[str, ...], cwd: Path, root: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environ = {**os.environ, "WANE_SESSION_DIR": str(root)}
    subprocess.run(command, cwd=cwd, env=environ, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    with TemporaryDirectory() as folder:
        root, cwd = Path(folder) / "sessions", Path(folder)
        empty = [seconds((*WANE, "sessions"), cwd, root) for _ in range(RUNS)]
        fill(root, cwd)
        first = seconds(COMMANDS["wane sessions --json"], cwd, root)
        times: dict[str, list[float]] = {name: [] for name in COMMANDS}
        helps: list[float] = []
        for _ in range(RUNS):
            for name, command in COMMANDS.items():
                arguments = (str(root),) if command[-1] == LATEST else ()
                helps.append(seconds((*WANE, "--help"), cwd, root))
                times[name].append(seconds((*command, *arguments), cwd, root))
        basis = median(helps)
        print(f"{'wane --help':<40} {basis:6.2f} s")
        print(f"{'wane sessions, no session':<40} {median(empty):6.2f} s  {median(empty) / basis:5.1f} x")
        print(f"{'wane sessions --json, the first time':<40} {first:6.2f} s  {first / basis:5.1f} x")
        for name, taken in times.items():
            print(f"{name:<40} {median(taken):6.2f} s  {median(taken) / basis:5.1f} x")


if __name__ == "__main__":
    main()
