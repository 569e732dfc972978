"""Each framework's own context management against Wane in it, over one long scripted task.

    python research/benchmarks/frameworks/comparison.py

An agent of each framework does the same tasks with the same tools at the same budget, over the real wire protocol to a
scripted model. The model is not a language model: it knows only the request before it, reads again what is not in view,
and fails a task that rests on words of the user that are gone. So the figures show what each way leaves in view, not
how well a model works with it. The same run gives the same figures.

Frameworks that are not installed here run in the environments that `make test-all` makes for them. Pydantic AI's
harness runs in one of its own, as it needs the Pydantic AI with which it was released: see README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from contender import Contender, Ended
from contenders import FRAMEWORKS, contenders
from work import MOST_CALLS, Figures, Model, Workbench

import wane_research
from wane.testing import ScriptedServer
from wane_research.closed_loop.work import make_work

BUDGET = 20_000
TASKS = 30
TOKENS = 4_200_000  # input tokens for which the tasks are sized; more tokens mean more files to read in each

COLUMNS = (
    *("framework", "context kept by", "tasks done", "model calls", "over budget", "largest request"),
    *("requests that lack a user turn", "prefix reused", "priced input", "summary calls", "files read again"),
)


def play(contender: Contender, tasks: int, budget: int, tokens: int) -> Figures:
    work = make_work(0, tasks=tasks, budget=budget, tokens=tokens)
    bench = Workbench(work)
    model = Model(bench, budget, Figures(tasks=tasks))
    with ScriptedServer(model.answer, keep=1) as server, warnings.catch_warnings(action="ignore"):
        turn = contender.begin(server.url, bench.tools(), budget)
        for task in work.tasks:
            before = dict(bench.files)
            model.turns.append(task.prompt)
            model.left = MOST_CALLS
            try:
                turn(task.prompt)
            except Exception as error:
                if not server.refusals and not isinstance(error, Ended):
                    raise
                print(f"{contender.framework}, {contender.way}, task {task.number}: {error}"[:300], file=sys.stderr)
                if isinstance(error, Ended):
                    break
            if bench.accepts(task):
                model.figures.done += 1
            else:
                # Undo what was not done right, as the repository's owner would.
                bench.files = before
        model.figures.refused = len(server.refusals)
    return model.figures


def row(framework: str, way: str, it: Figures) -> str:
    reuse = it.reused / it.tokens if it.tokens else 0.0
    calls = f"{it.calls:,}, {it.refused} refused" if it.refused else f"{it.calls:,}"
    summaries = f"{it.summaries} ({it.summary_tokens / 1e3:,.0f}k)" if it.summaries else "0"
    cells = [framework, way, f"{it.done} of {it.tasks}", calls, f"{it.over:,}", f"{it.largest / 1e3:.1f}k"]
    cells += [f"{it.missing:,}", f"{reuse:.0%}", f"{it.priced / 1e3:,.0f}k"]
    cells += [summaries, f"{it.again} ({it.again_tokens / 1e3:,.0f}k)"]
    return f"| {' | '.join(cells)} |"


def environments() -> Iterator[Path]:
    """Yield the interpreters of the environments that hold other frameworks."""
    yield from sorted(Path(sys.prefix, "environments").glob("*/bin/python"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="frameworks or ways whose names hold this")
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--python", action="append", default=[], help="another interpreter whose frameworks to run")
    parser.add_argument("--json", action="store_true", help="print what is installed here, a line of JSON each")
    options = parser.parse_args()
    runs: dict[tuple[str, str], Figures] = {}
    for contender in contenders():
        name = f"{contender.framework} {contender.way}"
        if not options.only or any(only in name for only in options.only):
            figures = play(contender, options.tasks, BUDGET, TOKENS * options.tasks // TASKS)
            runs[contender.framework, contender.way] = figures
            if options.json:
                print(json.dumps([contender.framework, contender.way, asdict(figures)]), flush=True)
            else:
                print(row(contender.framework, contender.way, figures), file=sys.stderr)
    if options.json:
        return
    for python in [*options.python, *environments()]:
        command = [str(python), __file__, "--json", "--tasks", str(options.tasks)]
        command += [f"--only={only}" for only in options.only]
        # The tasks are those of the closed loop, which these environments do not have.
        sources = {"PYTHONPATH": str(Path(wane_research.__file__).parents[1])}
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | sources)
        for line in done.stdout.splitlines():
            framework, way, figures = json.loads(line)
            runs.setdefault((framework, way), Figures(**figures))
    if not runs:
        sys.exit("no framework is installed, or none has this name")
    print(f"| {' | '.join(COLUMNS)} |\n|---|---|{'--:|' * (len(COLUMNS) - 2)}")
    names = list(dict.fromkeys(framework for framework, _ in runs))
    # A framework's rows may come from two environments.
    for framework, way in sorted(runs, key=lambda run: (names.index(run[0]), "Wane" in run[1])):
        print(row(framework, way, runs[framework, way]))
    if len(names) < len(FRAMEWORKS):
        print("Not all frameworks are installed: `make test-all` makes environments for them.", file=sys.stderr)


if __name__ == "__main__":
    main()
