"""What a sandbox adds to a command that does nothing. Run with `python benchmarks/sandbox.py`.

All ways run alternately; the figures are medians, of the time that passes and of processor time, children included.
"""

from __future__ import annotations

import os
import resource
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from wane.agent.sandbox import wall
from wane.agent.sandbox.wall import Confinement, Sandbox, specify_command, supervisor_argv

RUNS = 30
FILES = 5_000
LINE = ":"


def candidates(directory: Path) -> dict[str, Sandbox]:
    none = Sandbox(Confinement.NONE, directory)
    found: dict[str, Sandbox] = {}
    for candidate in wall._candidates(none, os.environ):
        name = str(candidate.kind)
        if candidate.kind is Confinement.BUBBLEWRAP:
            name += " and Landlock" if candidate.version else " alone"
        if name not in found and not wall.probe(candidate):
            found[name] = candidate
    return found


def seconds(sandbox: Sandbox | None, directory: Path, temporary: Path) -> tuple[float, float]:
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    own = time.process_time()
    environ = dict(os.environ)
    spec = specify_command(["/bin/sh", "-c", LINE])
    if sandbox is not None:
        with TemporaryDirectory(dir=temporary) as folder:
            spec = sandbox.specification(LINE, os.environ, folder)
            environ = sandbox.environment(os.environ, sandbox.temporary(Path(folder)))
    argv = supervisor_argv({**spec, "tied": False})
    subprocess.run(argv, cwd=directory, env=environ, stdin=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime + time.process_time() - own
    return time.perf_counter() - begun, spent


def main() -> None:
    with TemporaryDirectory() as folder:
        directory, temporary = Path(os.path.realpath(folder), "work"), Path(folder, "temporary")
        temporary.mkdir()
        for number in range(FILES):
            file = directory / f"folder{number // 100}" / f"{number}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        ways: dict[str, Sandbox | None] = {"without a sandbox": None, **candidates(directory)}
        small = directory / "folder0"
        for name in list(ways):
            if (sandbox := ways[name]) is not None:
                ways[f"{name}, {FILES // 50} files"] = replace(sandbox, directory=small)
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(RUNS):
            for name, sandbox in ways.items():
                times[name].append(seconds(sandbox, directory, temporary))
        passed_alone, spent_alone = (median(column) for column in zip(*times["without a sandbox"], strict=True))
        print(f"{'':<36} {'passes':>9} {'adds':>9} {'':>7} {'processor':>10} {'adds':>9}")
        for name, taken in times.items():
            passed, spent = (median(column) for column in zip(*taken, strict=True))
            more = (passed - passed_alone) * 1e3
            line = f"{name:<36} {passed * 1e3:6.1f} ms {more:6.1f} ms {passed / passed_alone:5.2f} x"
            print(f"{line} {spent * 1e3:7.1f} ms {(spent - spent_alone) * 1e3:6.1f} ms")


if __name__ == "__main__":
    main()
