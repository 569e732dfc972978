"""Speed and memory of the lab. Run with `python benchmarks/lab.py`, or with the names of some sections.

Sections:
  reading  a session file of 100 MB in each format that harnesses write
  doctor   a folder of sessions of Claude Code by `wane doctor`, beside `ccusage`, of npm, if it is on the PATH or the
           variable CCUSAGE names it: with nothing kept, and once it has read these files; `ccusage` keeps nothing
  report   the same folders, and 2,000 files cut from recorded sessions of Claude Code and Codex, by `wane report`:
           processor time and memory of the first report, which has nothing kept, and of the next
  replay   the 89 joined Terminal-Bench runs under all of our strategies, by the command; from ../shared/sessions
           (relative to the repository) or the folder that the variable WANE_BENCH_SESSIONS names
  long     300,000 short messages, alternately the user's and the model's, by the command; most calls are over the
           budget
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from rich.console import Console
from rich.table import Table

FILE_BYTES = 100_000_000
MESSAGES = 300_000
STAMP = "2026-01-01T00:00:00.000Z"

SESSIONS = Path(
    os.environ.get(
        "WANE_BENCH_SESSIONS", Path(__file__).resolve().parents[2] / "shared" / "sessions" / "terminal-bench-2"
    )
)

Line = dict[str, Any]

# In a process of its own, so that its peak memory is that of reading alone.
READ = """\
import resource, sys, time
from wane.lab.readers import read_session
start = time.perf_counter()
(session,) = read_session(sys.argv[1])
seconds = time.perf_counter() - start
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(session.parts), len(session.calls))
"""


def output(number: int) -> str:
    """A tool's output of some 6 kB, different in each call as files are."""
    return "\n".join(
        f"{line:4} def handle_{number}_{line}(self, path: str) -> None:  # src/m{line}.py" for line in range(90)
    )


def claude_code() -> Iterator[Line]:
    """Lines as Claude Code writes them: each output twice, for the model and for the screen."""
    parent = None
    for number in range(sys.maxsize):
        usage = {
            "input_tokens": 3,
            "cache_read_input_tokens": 9_000,
            "cache_creation_input_tokens": 90,
            "output_tokens": 40,
        }
        use = {"type": "tool_use", "id": f"t{number}", "name": "Read", "input": {"file_path": f"/src/m{number}.py"}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": output(number)}
        answer = {"id": f"m{number}", "role": "assistant", "model": "claude", "usage": usage}
        lines: list[Line] = [
            {"type": "assistant", "message": {**answer, "content": [{"type": "text", "text": "Let me see."}]}},
            {"type": "assistant", "message": {**answer, "content": [use]}},
            {"type": "progress", "data": {"type": "hook_progress", "hookEvent": "PostToolUse"}},
            {
                "type": "user",
                "message": {"role": "user", "content": [result]},
                "toolUseResult": {"file": result["content"]},
            },
        ]
        for place, line in enumerate(lines):
            uuid = f"{number}-{place}"
            yield {"parentUuid": parent, "uuid": uuid, "sessionId": "s", "cwd": "/w", "timestamp": STAMP, **line}
            parent = uuid


def codex() -> Iterator[Line]:
    yield {"timestamp": STAMP, "type": "session_meta", "payload": {"id": "s", "cwd": "/w"}}
    for number in range(1, sys.maxsize):
        usage = {
            "input_tokens": 9_000,
            "cached_input_tokens": 8_000,
            "output_tokens": 90,
            "reasoning_output_tokens": 50,
        }
        info = {"total_token_usage": {"total_tokens": number}, "last_token_usage": usage}
        arguments = json.dumps({"cmd": f"cat src/m{number}.py"})
        items: list[Line] = [
            {"type": "reasoning", "summary": [], "encrypted_content": "x" * 1_000},
            {"type": "function_call", "name": "exec_command", "arguments": arguments, "call_id": f"c{number}"},
            {"type": "function_call_output", "call_id": f"c{number}", "output": output(number)},
        ]
        for item in items:
            yield {"timestamp": STAMP, "type": "response_item", "payload": item}
        yield {"timestamp": STAMP, "type": "event_msg", "payload": {"type": "token_count", "info": info}}


def pi() -> Iterator[Line]:
    yield {"type": "session", "version": 3, "id": "s", "cwd": "/w", "timestamp": STAMP}
    parent = None
    for number in range(sys.maxsize):
        call = {"type": "toolCall", "id": f"c{number}", "name": "read", "arguments": {"path": f"src/m{number}.py"}}
        usage = {"input": 3, "output": 40, "cacheRead": 9_000, "cacheWrite": 90}
        messages: list[Line] = [
            {"role": "assistant", "content": [call], "model": "m", "usage": usage, "stopReason": "toolUse"},
            {"role": "toolResult", "toolCallId": f"c{number}", "content": [{"type": "text", "text": output(number)}]},
        ]
        for place, message in enumerate(messages):
            name = f"{number}-{place}"
            yield {"type": "message", "id": name, "parentId": parent, "timestamp": STAMP, "message": message}
            parent = name


def reading() -> Table:
    table = Table(
        "format", "MB", "parts", "calls", "seconds", "MB/s", "peak memory MB", title="Reading one session file"
    )
    with TemporaryDirectory() as folder:
        for format_ in (claude_code, codex, pi):
            path = Path(folder) / f"{format_.__name__}.jsonl"
            size = write_lines(path, format_())
            done = subprocess.run([sys.executable, "-c", READ, str(path)], check=True, capture_output=True, text=True)
            seconds, peak, parts, calls = done.stdout.split()
            # Linux tells kilobytes, macOS bytes.
            memory = int(peak) / (1_000_000 if sys.platform == "darwin" else 1_000)
            row = (f"{size / 1e6:.0f}", f"{int(parts):,}", f"{int(calls):,}", f"{float(seconds):.1f}")
            table.add_row(format_.__name__, *row, f"{size / 1e6 / float(seconds):.0f}", f"{memory:.0f}")
            path.unlink()
    return table


def doctor() -> Table:
    table = Table(
        *("sessions", "program", "MB", "seconds of processor", "ratio", "seconds elapsed", "ratio"),
        title="Which requests paid again, by folder",
    )
    ccusage = os.environ.get("CCUSAGE") or shutil.which("ccusage")
    wane = [sys.executable, "-m", "wane.cli.main", "doctor"]
    programs = {"wane doctor, first": [*wane, "--afresh"], "wane doctor, next": wane}
    if ccusage is None:
        table.caption = "ccusage is not installed: npm install --global ccusage"
    else:
        programs = {"ccusage": [ccusage, "claude", "daily", "--offline", "--json"], **programs}
    with TemporaryDirectory() as folder:
        for sessions, projects in folders(Path(folder)).items():
            size = sum(file.stat().st_size for file in projects.rglob("*.jsonl"))
            environ = {"CLAUDE_CONFIG_DIR": str(projects.parent), "XDG_CACHE_HOME": folder}
            runs: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
            # In turn, so that what else the machine does slows both; the first runs of each fill caches.
            for _ in range(1 + _RUNS):
                for name, command in programs.items():
                    arguments = [str(projects)] if name.startswith("wane") else []
                    runs[name].append(seconds_of([*command, *arguments], environ))
            basis = next(iter(runs.values()))[1:]
            for name, measured in runs.items():
                row = [f"{size / 1e6:.0f}"]
                for which in (0, 1):
                    seconds = [run[which] for run in measured[1:]]
                    ratios = [second / first[which] for second, first in zip(seconds, basis, strict=True)]
                    row += [f"{median(seconds):.2f}", f"{median(ratios):.1f}"]
                table.add_row(sessions, name, *row)
    return table


_RUNS = 7
"""Runs of each program that count: their medians, and those of the ratios of runs in turn."""


def folders(inside: Path) -> dict[str, Path]:
    """Return folders of Claude Code's sessions: made ones, and copies of recorded ones if there are any."""
    made = inside / "made" / "projects" / "p"
    made.mkdir(parents=True)
    for number in range(20):
        lines = ({**line, "sessionId": str(number)} for line in claude_code())
        write_lines(made / f"{number:08}-1111-4111-8111-111111111111.jsonl", lines, FILE_BYTES // 20)
    named = {"20 made ones": made.parent}
    recorded = sorted((SESSIONS.parent / "claude-code").glob("*.jsonl"))
    if recorded:
        copies = inside / "recorded" / "projects" / "p"
        copies.mkdir(parents=True)
        for file in recorded:
            shutil.copy(file, copies)
        named[f"{len(recorded)} recorded ones"] = copies.parent
        many = inside / "many" / "projects" / "p"
        many.mkdir(parents=True)
        for number, file in product(range(8), recorded):
            shutil.copy(file, many / f"{file.stem}-{number}.jsonl")
        named[f"{8 * len(recorded)} copies of these"] = many.parent
    return named


_CUT: Final = 850_000
"""Bytes of a file that is cut from a recorded session."""


def cut_files(inside: Path, count: int = 2_000) -> dict[str, Path]:
    """Return a folder of files cut from recorded sessions, if there are any; those of one cut are links to it."""
    projects = inside / "cut" / "projects" / "p"
    projects.mkdir(parents=True)
    cuts: list[Path] = []
    for recorded in sorted([*SESSIONS.parent.glob("claude-code/*.jsonl"), *SESSIONS.parent.glob("codex/*.jsonl")]):
        first, *lines = recorded.read_bytes().splitlines(keepends=True)
        waiting = [first]
        for line in lines:
            waiting.append(line)
            if sum(map(len, waiting)) > _CUT:
                cuts.append(projects / f"{recorded.stem}-{len(cuts)}.jsonl")
                cuts[-1].write_bytes(b"".join(waiting))
                waiting = [first]  # Codex says there which session it is
    for number in range(len(cuts), count) if cuts else ():
        (projects / f"{number}.jsonl").hardlink_to(cuts[number % len(cuts)])
    return {f"{count:,} cut ones": projects.parent} if cuts else {}


def seconds_of(command: list[str], environ: dict[str, str]) -> tuple[float, float]:
    """Return the processor time that a command and its processes take, and the time that passes.

    Python keeps its bytecode, as where Wane is installed: without it, each run compiles all modules anew.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env={**kept, **environ})
    passed, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, passed


def report() -> Table:
    """Measure the first report and the next one, each in a process of its own, so that its memory is its own."""
    table = Table("report", "MB", "seconds of processor", "MB of memory, at most", title="wane report, without replays")
    measured = (
        "import resource, sys\n"
        "from wane.cli.main import main\n"
        "code = main(sys.argv[1:])\n"
        "usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]\n"
        "seconds = sum(usage.ru_utime + usage.ru_stime for usage in usages)\n"
        "print(seconds, max(usage.ru_maxrss for usage in usages), code, file=sys.stderr)\n"
    )
    with TemporaryDirectory() as folder:
        measured_folders = {**folders(Path(folder)), **cut_files(Path(folder))}
        for sessions, projects in measured_folders.items():
            size = sum(file.stat().st_size for file in projects.rglob("*.jsonl"))
            page = str(Path(folder) / "page.html")
            arguments = ["report", str(projects), "--days", "4000", "--replays", "0", "--output", page]
            for which in ("first", "next"):
                kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
                environ = {**kept, "XDG_CACHE_HOME": folder}
                command = [sys.executable, "-c", measured, *arguments]
                done = subprocess.run(command, check=True, capture_output=True, text=True, env=environ)
                seconds, memory, _ = done.stderr.split("\n")[-2].split()
                row = f"{size / 1e6:.0f}", f"{float(seconds):.2f}", f"{int(memory) / 1024:.0f}"
                table.add_row(f"{which}, {sessions}", *row)
    return table


def write_lines(path: Path, lines: Iterator[Line], least: int = FILE_BYTES) -> int:
    """Write lines until the file is large enough, and return its bytes."""
    size = 0
    with path.open("w", encoding="utf-8") as file:
        while size < least:
            size += file.write(f"{json.dumps(next(lines), separators=(',', ':'))}\n")
    return size


def replay() -> Table:
    table = Table("strategy", "ms per call", "cost", title="Replaying one long session")
    if not SESSIONS.is_dir():
        table.caption = f"there are no sessions in {SESSIONS}"
        return table
    command = [sys.executable, "-m", "wane.cli.main", "replay", str(SESSIONS), "--join", "--json"]
    start = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    data = json.loads(done.stdout)
    for row in data["strategies"]:
        table.add_row(row["name"], f"{row['own_time_ms']:.3f}", f"${row['cost_usd']:,.2f}")
    session = data["sessions"][0]
    table.caption = f"{session['model_calls']:,} calls, {session['tokens']:,} tokens: {seconds:.1f} s in all"
    return table


def long() -> Table:
    table = Table("strategy", "calls", "passes", "over the budget", title=f"Replaying {MESSAGES:,} short messages")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "long.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for number in range(MESSAGES):
                message = {"role": ("user", "assistant")[number % 2], "content": f"message {number}"}
                file.write(f"{json.dumps(message)}\n")
        command = [sys.executable, "-m", "wane.cli.main", "replay", str(path), "--strategy", "cwl", "--json"]
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    for row in json.loads(done.stdout)["strategies"]:
        table.add_row(row["name"], *(f"{row[key]:,}" for key in ("model_calls", "passes", "over")))
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    table.caption = f"{seconds:.1f} s in all, {processor:.1f} s of processor"
    return table


SECTIONS: dict[str, Callable[[], Table]] = {
    "reading": reading,
    "doctor": doctor,
    "report": report,
    "replay": replay,
    "long": long,
}


def main(names: list[str]) -> None:
    console = Console()
    for name in names or SECTIONS:
        console.print(SECTIONS[name]())


if __name__ == "__main__":
    main(sys.argv[1:])
